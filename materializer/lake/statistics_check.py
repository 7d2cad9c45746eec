"""Whether the statistics of a table's files are true, by reading the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from materializer.lake import places
from materializer.lake.failures import first_line, translated
from materializer.lake.features import JULIAN, features_of
from materializer.lake.hostile import refuse_irregular, refuse_outside
from materializer.lake.keys import coded, has_whole_text, statistic
from materializer.lake.table import DeltaFolder

_BATCH: Final = 1 << 16
"""Rows that are in memory at once."""


class Compared(Struct, frozen=True):
    """What was found when the files of a table were read.

    Args:
        files: How many were read.
        rows: Their rows.
        lies: Of each file whose statistics are not true: its name, and what is wrong.
        unreadable: Of each file that cannot be read: its name, and the reason.
        is_marked: Whether only the numbers of rows were compared, because some rows may be marked as deleted.
    """

    files: int
    rows: int
    lies: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    is_marked: bool = False


class _Seen(Struct):
    """What was read of a column in a file: how many rows have no value, and the ends of the others."""

    nulls: int = 0
    low: Any = None
    high: Any = None

    def see(self, column: pa.Array) -> None:
        self.nulls += column.null_count
        found = _comparable(column)
        if found is None or found.null_count == len(found):
            return
        ends = pc.min_max(found).as_py()
        self.low = ends["min"] if self.low is None else min(self.low, ends["min"])
        self.high = ends["max"] if self.high is None else max(self.high, ends["max"])


def _stated(actions: pa.Table, name: str) -> list[Any]:
    """Return what the log says of each file in the form of :func:`_comparable`; None where it says nothing."""
    if name in actions.column_names and pa.types.is_floating(actions[name].type):
        return list(actions[name].to_pylist())
    return statistic(actions, name)


def _comparable(column: Any) -> Any:
    """Return values of a column that have an order, NaN left out; None for other types."""
    if pa.types.is_floating(column.type):
        return column.filter(pc.invert(pc.is_nan(column)))
    found = coded(column)
    return None if found is None else found[0]


def compare_statistics(path: str, version: int, columns: Sequence[str] | None = None) -> Compared:
    """Read all files of a table at a version, and compare their rows with what the log says of them.

    Args:
        path: Its place.
        version: The version.
        columns: The columns that are read and compared; None for all.

    Raises:
        SourceDamagedError: If the version cannot be read, or if a file is no regular one or outside of the table.
    """
    with DeltaFolder.at(path).reading(version) as table, translated(path, "reading"):
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        fields = json.loads(table.schema().to_json())["fields"]
        folders = set(table.metadata().partition_columns)
        is_marked = features_of(table).has_deletion_vectors  # bounds may be those of the rows that are left
    physical = {f["name"]: f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    wanted = {n: p for n, p in physical.items() if n not in folders and (columns is None or n in columns)}
    names = actions["path"].to_pylist()
    refuse_outside(path, names)
    refuse_irregular(path, map(unquote, names))
    stated = {
        name: [_stated(actions, f"{of}.{p}") for of in ("null_count", "min", "max")] for name, p in wanted.items()
    }
    rows, lies, unreadable = 0, [], []
    for i, (name, count) in enumerate(zip(names, actions["num_records"].to_pylist(), strict=True)):
        place = unquote(name)
        try:
            read, seen = _read(places.inside(path, place), wanted)
        except (pa.ArrowException, OSError) as exc:
            unreadable.append((place, first_line(exc)))
            continue
        rows += read
        wrong = [f"it has {read:,} rows, not {count:,}"] if count is not None and count != read else []
        for each, have in {} if is_marked else seen.items():
            wrong += _wrong(each, have, *(column[i] for column in stated[each]))
        if wrong:
            lies.append((place, "; ".join(wrong)))
    return Compared(len(names) - len(unreadable), rows, tuple(lies), tuple(unreadable), is_marked)


def _read(place: str, columns: dict[str, str]) -> tuple[int, dict[str, _Seen]]:
    """Return the number of rows of a file, and what was seen in those of its columns that it has."""
    file = pq.ParquetFile(places.opened(place), coerce_int96_timestamp_unit="us")
    if (file.metadata.metadata or {}).keys() & JULIAN:
        columns = {}
    has = [p for p in columns.values() if p in file.schema_arrow.names]
    seen = {name: _Seen() for name, p in columns.items() if p in has}
    for batch in file.iter_batches(_BATCH, columns=has):
        for name, each in seen.items():
            each.see(batch.column(columns[name]))
    return file.metadata.num_rows, seen


def _wrong(name: str, seen: _Seen, nulls: int | None, low: Any, high: Any) -> Iterator[str]:
    if nulls is not None and nulls != seen.nulls:
        yield f"'{name}' is null in {seen.nulls:,} rows, not {nulls:,}"
    if None not in (low, seen.low) and seen.low < low:
        yield f"'{name}' has values below the smallest one that is named"
    if None not in (high, seen.high) and has_whole_text(high) and seen.high > high:
        yield f"'{name}' has values above the largest one that is named"
