"""The row-by-row change that one version made to a table of ours, computed in the driver's memory without a JVM.

A version's removed files hold the old rows and its added files the new ones. A row in both was only rewritten.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from materializer.core.compiled.shown import SAME_SHARE
from materializer.core.refresh.output_feed import CHANGE, META, REASON, ChangeType, Reason
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.errors import SourceDamagedError
from materializer.lake import places
from materializer.lake.extent import instants_of
from materializer.lake.failures import translated
from materializer.lake.log import DataFile
from materializer.lake.predicates import inside
from materializer.lake.table import open_table
from materializer.lake.types import columns_of, schema_of
from materializer.lake.write.commit import NO_HOOKS, NOT_COMMITTED, shaped

_TIME: Final = pa.timestamp("us", "UTC")


def shape_of(path: str, version: int) -> pa.Schema:
    """Return the columns of a table at a version."""
    opened = open_table(path, version)
    with translated(path, "reading"):
        return pa.schema(opened.schema().to_arrow())


def rows_of(path: str, files: Sequence[DataFile], shape: pa.Schema) -> pa.Table:
    """Return the rows of some files of a table.

    Raises:
        SourceDamagedError: If one of the files does not exist.
    """
    parts = [shape.empty_table()]
    for file in files:
        name = f"{path}/{unquote(file.path)}"
        with translated(path, "reading"):
            try:
                rows = pq.ParquetFile(places.opened(name), coerce_int96_timestamp_unit="us").read()
            except FileNotFoundError:
                raise SourceDamagedError(f"'{name}' is gone", hint="", path=path) from None
            parts.append(shaped(rows, shape))
    return pa.concat_tables(parts)


def all_rows(path: str, version: int) -> pa.Table:
    """Return all rows of a table at a version; the errors are those of :func:`rows_of`."""
    shape, files = files_of(path, version)
    return rows_of(path, files, shape)


def files_of(path: str, version: int) -> tuple[pa.Schema, list[DataFile]]:
    """Return the columns and the files of a table at a version."""
    opened = open_table(path, version)
    with translated(path, "reading"):
        shape = pa.schema(opened.schema().to_arrow())
        names = pa.RecordBatchReader.from_stream(opened.get_add_actions()).read_all()["path"].to_pylist()
    unknown = DataFile("", 0, None, None, None, is_known=False, data_change=True, has_deletion_vector=False)
    return shape, [replace(unknown, path=name) for name in names]


def replayed(feed: pa.Table) -> pa.Table:
    """Return the rows that result from a feed, each as often as it was added minus removed, without the feed's columns."""
    rows = feed.drop_columns([name for name, _ in META])
    is_added = pc.is_in(feed[CHANGE], pa.array([ChangeType.INSERT.value, ChangeType.POSTIMAGE.value]))
    new, old = rows.filter(is_added), rows.filter(pc.invert(is_added))
    _, added = _differing(old, new)
    return new.take(pa.array(added, pa.int64()))


def changed(old: pa.Table, new: pa.Table, place: Sequence[str] | None) -> pa.Table:
    """Return the change from the rows *old* to the rows *new*, with the column ``_change``; equal rows are left out.

    Args:
        old: Rows before the change.
        new: Rows after the change, with the same columns.
        place: Columns that identify a row before and after an update, most important first; None if there are no updates.
    """
    removed, added = _differing(old, new)
    pairs = _paired(old, removed, new, added, place) if place else {}
    base, changes = len(old), [ChangeType.DELETE.value, ChangeType.INSERT.value]
    indexes: list[int] = []
    kinds: list[str] = []
    for i in removed:
        indexes.append(i)
        kinds.append(changes[0] if i not in pairs else ChangeType.PREIMAGE.value)
        if i in pairs:
            indexes.append(base + pairs[i])
            kinds.append(ChangeType.POSTIMAGE.value)
    paired = set(pairs.values())
    unpaired = [j for j in added if j not in paired]
    indexes += [base + j for j in unpaired]
    kinds += [changes[1]] * len(unpaired)
    rows = pa.concat_tables([old, new]).take(pa.array(indexes, pa.int64()))
    return rows.append_column(CHANGE, pa.array(kinds, pa.string()))


def steady(new: pa.Table, old: pa.Table, place: Sequence[str], inexact: Collection[str]) -> pa.Table:
    """Return *new* rows, with the old row in place of each from which it differs only by the last digits of inexact doubles.

    Args:
        new: Rows to be written.
        old: The rows that they replace.
        place: Columns that identify a row; rows that share them stay as they are.
        inexact: Columns with doubles of which the last digits do not count.
    """
    ours, theirs = (_by_place(rows.select(list(place)), list(range(rows.num_rows))) for rows in (new, old))
    pairs = [(at[0], theirs[key][0]) for key, at in ours.items() if len(at) == 1 and len(theirs.get(key, ())) == 1]
    if not pairs:
        return new
    here, there = np.array(pairs, dtype=np.int64).T
    old = old.select(new.column_names).cast(new.schema)
    a, b, same = new.take(pa.array(here)), old.take(pa.array(there)), np.ones(len(pairs), dtype=bool)
    for name in new.column_names:
        if name not in place:
            same &= _near(a[name], b[name]) if name in inexact else _equal(a.select([name]), b.select([name]))
    index = np.arange(new.num_rows, dtype=np.int64)
    index[here[same]] = new.num_rows + there[same]
    return pa.concat_tables([new, old]).take(pa.array(index))


def _equal(a: pa.Table, b: pa.Table) -> np.ndarray:
    return np.fromiter((x == y for x, y in zip(_forms(a), _forms(b), strict=True)), dtype=bool, count=a.num_rows)


def _near(a: pa.ChunkedArray, b: pa.ChunkedArray) -> np.ndarray:
    """Return where two columns of doubles have the same values, but for their last digits."""
    (x, no_x), (y, no_y) = ((pc.fill_null(c, 0).to_numpy().astype(float), pc.is_null(c).to_numpy()) for c in (a, b))
    largest = np.maximum(abs(x), abs(y))
    with np.errstate(invalid="ignore"):
        near = np.isfinite(largest) & (abs(x - y) <= SAME_SHARE * largest)
    same = near | (x == y) | (np.isnan(x) & np.isnan(y))
    found: np.ndarray = np.where(no_x | no_y, no_x & no_y, same)
    return found


def reasoned(rows: pa.Table, column: SliceColumn, spans: tuple[SpanSet, SpanSet, Reason]) -> pa.Table:
    """Return changed *rows* with the column ``_reason``.

    Args:
        rows: Rows from :func:`changed`.
        column: The column with the bucket of a row.
        spans: Spans in which inserted rows are new, spans in which rows are late, and the reason for other rows.
    """
    new, late, beyond = spans
    instants = pc.fill_null(instants_of(rows[column.name], column.type), 0).to_numpy()
    change = np.array(rows[CHANGE].to_pylist(), dtype=object)
    reason = np.full(len(rows), beyond.value, dtype=object)
    reason[inside(instants, column.values_in(late))] = Reason.LATE.value
    is_new = inside(instants, column.values_in(new))
    reason[is_new] = Reason.CORRECTION.value
    reason[is_new & (change == ChangeType.INSERT.value)] = Reason.NEW.value
    reason[change == ChangeType.DELETE.value] = Reason.DELETE.value
    return rows.append_column(REASON, pa.array(reason.tolist(), pa.string()))


def alike(rows: pa.Table, reason: Reason | None) -> pa.Table:
    """Return changed *rows* with one reason for all or, if it is None, with a reason by each row's kind of change."""
    if reason is not None:
        return rows.append_column(REASON, pa.array([reason.value] * len(rows), pa.string()))
    by_change = {ChangeType.INSERT.value: Reason.NEW.value, ChangeType.DELETE.value: Reason.DELETE.value}
    reasons = [by_change.get(change, Reason.CORRECTION.value) for change in rows[CHANGE].to_pylist()]
    return rows.append_column(REASON, pa.array(reasons, pa.string()))


def published(rows: pa.Table, n: int, source_version: int | None, at_ms: int) -> pa.Table:
    """Return *rows* with the refresh number, the source version and the time of their publication."""
    published_at = datetime.fromtimestamp(at_ms / 1000, UTC)
    for name, value, kind in (
        ("_refresh", n, pa.int64()),
        ("_source_version", source_version, pa.int64()),
        ("_published_at", published_at, _TIME),
    ):
        rows = rows.append_column(name, pa.array([value] * len(rows), kind))
    return rows


def united(old: pa.Schema, new: pa.Schema) -> pa.Schema | None:
    """Return the columns of both schemas, those of *new* first; None if a column has two types."""
    fields = {field.name: field for field in new}
    for field in old:
        if field.name in fields and fields[field.name].type != field.type:
            return None
        fields.setdefault(field.name, field)
    return pa.schema([pa.field(f.name, f.type, nullable=True) for f in fields.values()])


def columns_to_add(path: str, shape: pa.Schema) -> list[str] | None:
    """Return the columns of *shape* that a table does not have; None if the table has one of them with another type."""
    has = {field.name: field.type for field in shape_of(path, open_table(path).version())}
    if any(f.name in has and has[f.name] != f.type for f in shape):
        return None
    return [f.name for f in shape if f.name not in has]


def add_columns(path: str, columns: Sequence[Sequence[str]]) -> None:
    """Add columns to a table of ours; they are null in all existing rows."""
    from deltalake import Schema  # noqa: PLC0415 (rare)

    opened = open_table(path)
    with translated(path, "writing to", wrote=NOT_COMMITTED):
        opened.alter.add_columns(list(Schema.from_json(schema_of(columns)).fields), post_commithook_properties=NO_HOOKS)


def spark_columns(shape: pa.Schema) -> list[tuple[str, str]]:
    """Return (name, Spark type text) of each column."""
    from deltalake import Schema  # noqa: PLC0415 (rare)

    return [(name, kind) for name, kind in columns_of(Schema.from_arrow(shape).to_json())]


def feed_rows(
    path: str, *, after: int | None, reason: str | None, limit: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]], int]:
    """Return column names, up to *limit* rows of a feed in the order of their refreshes, and the number of all rows.

    Args:
        path: The feed.
        after: Only rows of later refreshes are returned.
        reason: Only rows with this reason are returned; None for all.
        limit: Maximum number of rows; None for all.
    """
    opened = open_table(path)
    with translated(path, "reading"):
        data = opened.to_pyarrow_dataset()
        wanted = pc.field("_refresh") > (-1 if after is None else after)
        if reason is not None:
            wanted &= pc.field(REASON) == str(reason)
        rows = data.to_table(filter=wanted)
    order = np.argsort(rows["_refresh"].to_numpy(), kind="stable")[:limit]
    first_rows = rows.take(pa.array(order))
    return first_rows.column_names, list(zip(*(c.to_pylist() for c in first_rows.columns), strict=True)), rows.num_rows


def newest_of(
    path: str, columns: Sequence[str], number: str, *, after: int, limit: int, reasons: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return some columns of the newest rows of a table beside an output, oldest first; older files are not opened.

    Args:
        path: The table: a feed, or the failing rows.
        columns: The columns, with *number*.
        number: The column with the number of the refresh.
        after: Only rows of later refreshes are read.
        limit: Maximum number of rows.
        reasons: Only rows with one of these reasons, of a feed; all without any.
    """
    opened = open_table(path)
    with translated(path, "reading"):
        wanted = pc.field(number) > after
        wanted = wanted & pc.field(REASON).isin(list(reasons)) if reasons else wanted
        rows = opened.to_pyarrow_dataset().to_table(columns=list(columns), filter=wanted)
    newest = np.argsort(rows[number].to_numpy(), kind="stable")[-limit:]
    found: list[dict[str, Any]] = rows.take(pa.array(newest, pa.int64())).to_pylist()
    return found


def _differing(old: pa.Table, new: pa.Table) -> tuple[list[int], list[int]]:
    """Return the positions of the surplus rows of *old* and of *new*: those without an equal partner on the other side."""
    ours, theirs = list(_forms(old)), list(_forms(new))
    return _surplus(ours, Counter(theirs)), _surplus(theirs, Counter(ours))


def _surplus(rows: list[Any], others: Counter[Any]) -> list[int]:
    surplus = []
    for i, row in enumerate(rows):
        if others[row] > 0:
            others[row] -= 1
        else:
            surplus.append(i)
    return surplus


def _paired(old: pa.Table, removed: list[int], new: pa.Table, added: list[int], place: Sequence[str]) -> dict[int, int]:
    """Return which row of *old* became which row of *new*: pairs of rows that are unique in their place on both sides."""
    left, right = _by_place(old.select(list(place)), removed), _by_place(new.select(list(place)), added)
    return {ours[0]: right[key][0] for key, ours in left.items() if len(ours) == 1 and len(right.get(key, ())) == 1}


def _by_place(rows: pa.Table, indexes: list[int]) -> dict[Any, list[int]]:
    by_place: dict[Any, list[int]] = defaultdict(list)
    for i, form in zip(indexes, _forms(rows.take(pa.array(indexes, pa.int64()))), strict=True):
        by_place[form].append(i)
    return by_place


def _forms(rows: pa.Table) -> Iterator[Any]:
    """Yield each row in a form that can be compared and hashed; NaN equals NaN."""
    if not rows.num_columns:
        return iter([()] * rows.num_rows)
    columns = []
    for column in rows.columns:
        values = column.to_pylist()
        plain = not (pa.types.is_nested(column.type) or pa.types.is_floating(column.type))
        columns.append(values if plain else [_form(v) for v in values])
    return zip(*columns, strict=True)


def _form(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, list):
        return tuple(_form(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _form(v)) for k, v in sorted(value.items()))
    return value
