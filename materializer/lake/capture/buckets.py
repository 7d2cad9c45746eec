"""Find the few buckets that contain the instants of many rows, without a Python step for each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from materializer.core.refresh.invalidation import MAX_KEYS
from materializer.core.time.spans import Span, SpanSet
from materializer.lake.arrow import mask
from materializer.lake.keys import coded, json_value

FEW: Final = 10_000
"""Rows of which the distinct ones are found by this process itself."""
MAX_PIECES: Final = 200
"""Maximum number of groups of buckets; more groups are joined into coarser ones."""

_I64_MIN: Final = -(1 << 63)
_I64_MAX: Final = (1 << 63) - 1

Keys = frozenset[tuple[Any, ...]]


class ChangedRows(Struct, frozen=True):
    """Changed rows with a time.

    Args:
        instants: The 64-bit instants, an Arrow column without nulls.
        is_insert: Whether each row was inserted.
        keys: The key columns of the rows; None if the keys are unknown.
    """

    instants: Any
    is_insert: Any
    keys: pa.Table | None


class ChangedBuckets(Struct, frozen=True):
    """Buckets with the same known facts."""

    spans: SpanSet
    is_insert_only: bool
    rows: int
    keys: Keys | None


def pieces_of(
    change: ChangedRows, floor: Callable[[int], int], next_edge: Callable[[int], int]
) -> list[ChangedBuckets]:
    """Return the buckets of some changed rows, grouped by the facts known about them.

    Args:
        change: The rows.
        floor: Start of the bucket of an instant.
        next_edge: End of the bucket that starts at an edge.
    """
    instants = np.asarray(change.instants.to_numpy(), dtype=np.int64)
    if not len(instants):
        return []
    in_order = np.sort(instants)  # `np.unique` loads masked arrays
    starts, ends = buckets(in_order, floor, next_edge)
    bucket_of = (
        np.searchsorted(np.array([max(s, _I64_MIN) for s in starts], dtype=np.int64), instants, side="right") - 1
    )
    rows = np.bincount(bucket_of, minlength=len(starts))
    others = np.bincount(
        bucket_of[~np.asarray(change.is_insert.to_numpy(zero_copy_only=False), dtype=bool)], minlength=len(starts)
    )
    keys = distinct_keys(change.keys, bucket_of, len(starts))
    groups: dict[tuple[bool, Keys | None], list[int]] = defaultdict(list)
    for i in range(len(starts)):
        groups[bool(others[i] == 0), keys[i]].append(i)
    if len(groups) > MAX_PIECES:
        groups = _coarser(groups)
    return [
        ChangedBuckets(
            SpanSet.union(Span(starts[i], ends[i]) for i in members),
            is_insert_only,
            int(rows[members].sum()),
            group_keys,
        )
        for (is_insert_only, group_keys), members in groups.items()
    ]


def buckets(
    sorted_instants: Any, floor: Callable[[int], int], next_edge: Callable[[int], int]
) -> tuple[list[int], list[int]]:
    """Return starts and ends of the buckets that contain some sorted instants, in one step for each bucket."""
    starts, ends = [], []
    i = 0
    while i < len(sorted_instants):
        start = floor(int(sorted_instants[i]))
        end = next_edge(start)
        starts.append(start)
        ends.append(end)
        i = len(sorted_instants) if end > _I64_MAX else int(np.searchsorted(sorted_instants, end, side="left"))
    return starts, ends


def whole_buckets(spans: SpanSet, floor: Callable[[int], int], next_edge: Callable[[int], int]) -> SpanSet:
    """Return bounded *spans* widened to whole buckets."""
    return SpanSet.union(Span(floor(s.start), next_edge(floor(s.end - 1))) for s in spans)


def distinct_keys(keys: pa.Table | None, bucket_of: Any, count: int) -> list[Keys | None]:
    """Return the distinct keys in each bucket; None if they are many, or some value of them is not recorded."""
    columns = None if keys is None else [coded(column) for column in keys.columns]
    if columns is None or None in columns:
        return [None] * count
    names = [f"k{i}" for i in range(len(columns))]
    placed = pa.table([pa.array(bucket_of), *(c[0] for c in columns if c)], names=["at", *names])
    distinct = _distinct(placed)
    is_unknown = np.bincount(distinct["at"].to_numpy(), minlength=count) > MAX_KEYS
    for column in columns:
        if column is not None and column[1] is not None:
            is_unknown[bucket_of[column[1].fill_null(False).to_numpy(zero_copy_only=False)]] = True
    few = distinct.filter(mask(~is_unknown[distinct["at"].to_numpy()]))
    by_bucket: list[set[tuple[Any, ...]]] = [set() for _ in range(count)]
    for bucket, *key in zip(few["at"].to_pylist(), *(few[n].to_pylist() for n in names), strict=True):
        by_bucket[bucket].add(tuple(map(json_value, key)))
    return [None if is_unknown[i] else frozenset(by_bucket[i]) for i in range(count)]


def _distinct(rows: pa.Table) -> pa.Table:
    """Return each row once; few rows load no second engine for that, as ``Table.group_by`` does."""
    if rows.num_rows > FEW:
        return rows.group_by(rows.column_names).aggregate([])
    places = {row: at for at, row in enumerate(zip(*(column.to_pylist() for column in rows.columns), strict=True))}
    return rows.take(pa.array(places.values(), pa.int64()))


def _coarser(groups: dict[tuple[bool, Keys | None], list[int]]) -> dict[tuple[bool, Keys | None], list[int]]:
    """Return at most two groups, by whether they are insert-only, with the union of their keys if it is small."""
    result: dict[tuple[bool, Keys | None], list[int]] = {}
    for flag in (True, False):
        members = [i for (insert_only, _), group in groups.items() if insert_only is flag for i in group]
        sets = [keys for insert_only, keys in groups if insert_only is flag]
        union = None if any(k is None for k in sets) else frozenset[tuple[Any, ...]]().union(*(k for k in sets if k))
        if members:
            result[flag, None if union is None or len(union) > MAX_KEYS else union] = sorted(members)
    return result
