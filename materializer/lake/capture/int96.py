"""Detect times before 1678 or after 2262, which the library misreads in the change feed of tables that Spark writes.

Spark stores timestamps as INT96 by default. The library reads INT96 as 64-bit nanoseconds, and a time outside their range
silently becomes another one. The library reads files correctly if their statistics show only times inside the range, or if
they store timestamps in 64 bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from materializer.core.spec.spec import TimeType
from materializer.errors import MaterializerError
from materializer.lake import places
from materializer.lake.log import Commit, DataFile
from materializer.lake.reads import fact
from materializer.lake.statistics import instant
from materializer.lake.table import DeltaFolder, open_table

_ZONED: Final = re.compile(r"timestamp(?!_ntz)")
_FARTHEST: Final = (1 << 63) // 1_000 - 1_000
"""Range of nanoseconds in 64 bits, as microseconds from 1970, less the millisecond that statistics truncate."""


def why_misread(
    path: str, after: int, run: Sequence[Commit], schema: Iterable[tuple[str, str]], columns: Collection[str]
) -> str | None:
    """Return why the library must not read the feed of *run*; None if it may.

    Args:
        path: The table.
        after: A version before the run.
        run: Commits of the table.
        schema: (name, Spark type text) of its columns.
        columns: The columns to read.

    Raises:
        OSError: If a file of the feed does not exist.
    """
    names = {name for name, kind in schema if name in columns and _ZONED.search(kind)}
    if not names or not run:
        return None
    key = "misread", run[0].version, run[-1].version, len(run), run[-1].timestamp, *sorted(names)
    return fact(path, key, lambda: _why_misread(path, after, run, names))


def _why_misread(path: str, after: int, run: Sequence[Commit], names: set[str]) -> str | None:
    is_near: dict[str, bool] = {}
    for commit in run:
        added = [f for f in commit.adds if f.data_change]
        removed = [f for f in commit.removes if f.data_change]
        is_near |= {unquote(f.path): _is_near(f, names) for f in added}
        if not all(is_near[unquote(f.path)] for f in added) or not all(
            _was_near(f, names, is_near, path, after) for f in removed
        ):
            read = [f.path for f in commit.change_files] or [f.path for f in (*added, *removed)]
            if any(_int96_columns(path, unquote(name)) & names for name in read):
                return "the table may hold times before 1678 or after 2262, which the library misreads"
    return None


def _is_near(file: DataFile, names: Iterable[str]) -> bool:
    stats = json.loads(file.stats) if file.stats else {}
    lowest, highest, nulls = (stats.get(name) or {} for name in ("minValues", "maxValues", "nullCount"))
    rows = stats.get("numRecords")
    return all(n in file.partition or _holds_near(rows, nulls.get(n), lowest.get(n), highest.get(n)) for n in names)


def _was_near(file: DataFile, names: Collection[str], is_near: dict[str, bool], path: str, after: int) -> bool:
    """Return whether a removed file contained only near times, by the remove, its add in the run, or the snapshot before it."""
    name = unquote(file.path)
    if file.stats:
        return _is_near(file, names)
    if name not in is_near:
        with suppress(MaterializerError):  # the log no longer has that version: the files of the feed decide
            key = ("near", after, *sorted(names))
            before = DeltaFolder.at(path).fact(key, lambda: _snapshot(path, after, names))
            is_near.update({**before, **is_near})
    return is_near.setdefault(name, False)


def _snapshot(path: str, version: int, names: Iterable[str]) -> Mapping[str, bool]:
    actions = pa.RecordBatchReader.from_stream(open_table(path, version).get_add_actions(flatten=True)).read_all()
    are_near = [True] * actions.num_rows
    rows = actions["num_records"].to_pylist()
    for name in names:
        if f"partition.{name}" in actions.column_names:
            continue
        nulls, lowest, highest = (_values(actions, f"{what}.{name}") for what in ("null_count", "min", "max"))
        cells = zip(rows, nulls, lowest, highest, strict=True)
        are_near = [is_near and _holds_near(*cell) for is_near, cell in zip(are_near, cells, strict=True)]
    return dict(zip(map(unquote, actions["path"].to_pylist()), are_near, strict=True))


def _values(actions: pa.Table, name: str) -> list[Any]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    values = actions[name]
    return list((values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist())


def _holds_near(rows: int | None, nulls: int | None, lowest: Any, highest: Any) -> bool:
    if rows is not None and rows == nulls:
        return True
    ends = [v if isinstance(v, int) else instant(v, TimeType.TIMESTAMP) for v in (lowest, highest)]
    return all(end is not None and -_FARTHEST <= end <= _FARTHEST for end in ends)


def _int96_columns(path: str, name: str) -> set[str]:
    """Return the columns of a Parquet file of a table that hold INT96."""

    def read() -> set[str]:
        schema = pq.read_metadata(places.opened(f"{path}/{name}")).schema
        columns = (schema.column(i) for i in range(len(schema)))
        return {c.path.split(".")[0] for c in columns if c.physical_type == "INT96"}

    return fact(path, ("int96", name), read)
