"""How other programs read the output of an aggregate, which is a plain Delta table: text to be pasted, with its own path and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from materializer.core.spec.table_names import quoted
from materializer.lake import places
from materializer.services.aggregate import Aggregate

ROWS: Final = 20


class Snippet(Struct, frozen=True):
    """How one program reads the table.

    Args:
        program: Its name.
        language: ``sql`` or ``python``.
        text: What is pasted.
        needs: What has to be there before, in words.
    """

    program: str
    language: str
    text: str
    needs: str


def snippets(aggregate: Aggregate) -> tuple[Snippet, ...]:
    """Return how programs read the newest buckets of the output."""
    path = aggregate.paths["output"]
    names = [name for name, _ in aggregate.definition.output_columns]
    newest = aggregate.slice_column("output").name
    return tuple(_snippets(aggregate.name, path, names, newest, _credentials(path)))


def _snippets(name: str, path: str, names: Sequence[str], newest: str, credentials: str) -> Iterator[Snippet]:
    plain, ticked = (", ".join(map(quoting, names)) for quoting in (_standard, quoted))
    order = f"ORDER BY {_standard(newest)} DESC LIMIT {ROWS}"
    yield Snippet(
        "DuckDB",
        "sql",
        f"INSTALL delta;\nLOAD delta;\nSELECT {plain}\nFROM delta_scan({_text(path)})\n{order};",
        _joined("INSTALL fetches the extension `delta` once", credentials and "CREATE SECRET gives the credentials"),
    )
    yield Snippet(
        "Polars",
        "python",
        f"import polars as pl\n\nrows = pl.scan_delta({path!r}).select({[*names]!r})\n"
        f"print(rows.sort({newest!r}, descending=True).head({ROWS}).collect())",
        _joined("pip install polars deltalake", credentials),
    )
    yield Snippet(
        "pandas",
        "python",
        f"from deltalake import DeltaTable\n\nrows = DeltaTable({path!r}).to_pandas(columns={[*names]!r})\n"
        f"print(rows.sort_values({newest!r}, ascending=False).head({ROWS}))",
        _joined("pip install deltalake pandas pyarrow", credentials),
    )
    yield Snippet(
        "Spark",
        "sql",
        f"SELECT {ticked}\nFROM delta.{quoted(path)}\nORDER BY {quoted(newest)} DESC LIMIT {ROWS}",
        "a session with Delta Lake, whose jars are fetched once",
    )
    table = f"delta.default.{_standard(name)}"
    location = f"file://{quote(path)}" if places.is_local(path) else path
    yield Snippet(
        "Trino",
        "sql",
        f"CALL delta.system.register_table(schema_name => 'default', table_name => {_text(name)},\n"
        f"    table_location => {_text(location)});\nSELECT {plain}\nFROM {table}\n{order};",
        "a catalog `delta` with delta.register-table-procedure.enabled=true; CALL once",
    )


def _credentials(path: str) -> str:
    return "" if places.is_local(path) else "credentials from the environment, or in storage_options"


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _standard(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
