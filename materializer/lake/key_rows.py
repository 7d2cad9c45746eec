"""Rows of some keys in slices of their own: which rows of a table these are, which files may hold them, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from materializer.core.engines.work import Key, KeySlices
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.lake.extent import instants_of
from materializer.lake.keys import Within, may_hold
from materializer.lake.predicates import inside

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FEW: Final = 16
"""Values that a reader is given one by one, so that it skips groups of rows; of more it is given the smallest and the largest."""
_APART: Final = 256
"""Keys of which each is looked for in the files of its own slices; more are looked for in the files of all their slices."""
_INT64: Final = (-(1 << 63), (1 << 63) - 1)


def is_replaced(rows: pa.Table, names: Sequence[str], at: str, time_type: TimeType, only: KeySlices) -> Any:
    """Return which rows of a table are replaced, as an array of booleans.

    Args:
        rows: Rows of a table.
        names: The columns of the keys, in order.
        at: The column with the slice of a row; a row without one is never replaced.
        time_type: The type of that column.
        only: The replaced rows.
    """
    times = instants_of(rows[at], time_type)
    has_time = times.is_valid().to_numpy(zero_copy_only=False)
    instants = times.fill_null(0).to_numpy()
    found = inside(instants, only.whole)
    if only.of_keys:
        codes, known = codes_of([rows[name] for name in names], only.keys)
        near = np.flatnonzero((codes >= 0) & ~found)
        spans = [own for _, own in only.of_keys]
        found[near] = _in_spans(codes[near], instants[near], known, spans)
    return found & has_time


def is_of_keys(columns: Sequence[Any], keys: Sequence[Key]) -> Any:
    """Return which rows have one of some keys, by the columns of the keys, as an array of booleans."""
    return codes_of(columns, keys)[0] >= 0


def codes_of(columns: Sequence[Any], keys: Sequence[Key]) -> tuple[Any, Any]:
    """Return a number for the key of each row, -1 for any other key, and the same number of each key; no key may occur twice."""
    rows = np.zeros(len(columns[0]) if columns else 0, np.int64)
    known = np.zeros(len(keys), np.int64)
    for i, column in enumerate(columns):
        values = pa.array([key[i] for key in keys], column.type)
        distinct = values.unique()
        ours, theirs = (
            pc.fill_null(pc.index_in(of, distinct, skip_nulls=False), -1).to_numpy(zero_copy_only=False)
            for of in (column, values)
        )
        rows = np.where((rows < 0) | (ours < 0), -1, rows * len(distinct) + ours)
        numbers, known = np.unique(known * len(distinct) + theirs, return_inverse=True)
        place = np.minimum(np.searchsorted(numbers, rows), len(numbers) - 1)
        rows = np.where(numbers[place] == rows, place, -1)
    return rows, known


def _in_spans(codes: Any, instants: Any, known: Any, spans: Sequence[SpanSet]) -> Any:
    """Return which rows, each with the number of its key, lie in the spans of that key."""
    lowest, highest = _INT64
    flat = [
        (code, max(s.start, lowest), min(s.end - 1, highest))
        for code, own in zip(known.tolist(), spans, strict=True)
        for s in own
    ]
    flat.sort()
    of, starts, lasts = (np.array([one[i] for one in flat], np.int64) for i in range(3))
    every = np.unique(np.concatenate([starts, instants]))
    placed = of * len(every) + np.searchsorted(every, starts)
    index = np.searchsorted(placed, codes * len(every) + np.searchsorted(every, instants), side="right") - 1
    at = np.maximum(index, 0)
    return (index >= 0) & (of[at] == codes) & (instants <= lasts[at])


# -- files -------------------------------------------------------------------------------------------------------------------


def values_of(names: Sequence[str | None], keys: Iterable[Key]) -> Within:
    """Return the values of some keys in the form that :func:`materializer.lake.keys.may_hold` compares, by their columns."""
    every = list(keys)
    return {name: frozenset(_recorded(key[i]) for key in every) for i, name in enumerate(names) if name}


def _recorded(value: Any) -> Any:
    match value:
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return (moment - _EPOCH) // _MICROSECOND
        case date():
            return value.toordinal() - _EPOCH.toordinal()
        case _:
            return value


def that_may_hold(
    actions: pa.Table,
    spans: Sequence[SpanSet | None],
    names: Sequence[str],
    only: KeySlices,
    folders: Sequence[str] = (),
) -> list[bool]:
    """Return which files may have rows that are replaced.

    Args:
        actions: The files of a table, as the library lists them, flattened.
        spans: The times of each file; None if they are unknown.
        names: The columns of the keys, in order.
        only: The replaced rows.
        folders: Columns by which the table is partitioned.
    """
    found = [own is None or bool(own & only.whole) for own in spans]
    groups: list[tuple[tuple[Key, ...], SpanSet]] = [((key,), of_key) for key, of_key in only.of_keys]
    if len(groups) > _APART:
        groups = [(only.keys, only.keyed)]
    for keys, of_keys in groups:
        unclear = [i for i, own in enumerate(spans) if not found[i] and own is not None and own & of_keys]
        if unclear:
            near = actions.take(pa.array(unclear, pa.int64()))
            for i, may in zip(unclear, may_hold(near, values_of(names, keys), folders), strict=True):
                found[i] = found[i] or may
    return found


# -- reading -----------------------------------------------------------------------------------------------------------------


def having_keys(schema: pa.Schema, names: Sequence[str | None], keys: Sequence[Key]) -> ds.Expression | None:
    """Return a condition that holds for at least the rows of some keys, by which a reader skips groups of rows; None for all."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - it imports pandas, which costs time that most commands do not have

    found: ds.Expression | None = None
    for i, name in enumerate(names):
        if name is None or not _is_ordered(schema.field(name).type):
            continue
        kind, column = schema.field(name).type, ds.field(name)
        values = sorted({key[i] for key in keys if key[i] is not None})
        typed = pa.array(values, kind)
        if not values:
            one = column.is_null()
        elif len(values) <= _FEW:
            one = column == typed[0]
            for value in typed[1:]:
                one |= column == value
        else:
            one = (column >= typed[0]) & (column <= typed[-1]) & column.isin(typed)
        if values and any(key[i] is None for key in keys):
            one |= column.is_null()
        found = one if found is None else found & one
    return found


def _is_ordered(kind: pa.DataType) -> bool:
    """Return whether Parquet's statistics of a type are compared as its values are."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_date32(kind))
