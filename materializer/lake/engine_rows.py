"""Read what planning an engine's refresh needs without Spark, where it is little: changed keys and stored results."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from msgspec import Struct

from materializer.budget import Budget
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.engines.base import WindowEngine
from materializer.core.engines.ranges import NO_TIME, StoredOfKey, StoredResult
from materializer.core.engines.work import ChangedKeys, Key, frozen, joined
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.arrow import mask, plain
from materializer.lake.extent import instants_of
from materializer.lake.failures import translated
from materializer.lake.key_rows import codes_of
from materializer.lake.keys import why_not_recorded
from materializer.lake.local_read import read_rows_of_keys, read_small_changes, read_small_rows
from materializer.lake.predicates import inside
from materializer.lake.rows import row_count, size_of
from materializer.lake.table import open_table

STORED: Final = ("w_start", "w_end", "first_t", "last_t", "is_final", "n")
"""The columns of a :class:`StoredResult`."""
MOST_OPENED: Final = 20_000_000
"""Most rows of the files in which the driver looks for the results of a few keys; it skips groups of rows by their statistics."""
StoredResults = dict[Key, StoredOfKey]
"""The stored results of each key."""
Near = Mapping[Key, Sequence[tuple[int, int]]]
"""Where the results of each key are looked at; see :meth:`materializer.core.engines.base.WindowEngine.looks_at`."""
_FIRST, _LAST = -(2**62), 2**62


def changed_keys(
    budget: Budget, definition: Definition, path: str, after: int, upto: int, spans: SpanSet, *, last: int = NEG_INF
) -> ChangedKeys | None:
    """Return the changed keys of the rows in *spans*, from the change feed of (after, upto]; None if Spark has to.

    The filter is not applied. The result may have keys whose changed rows do not count; checking these keys is useless but
    harmless.

    Args:
        budget: What the driver holds.
        definition: The definition, with its keys.
        path: The source.
        after: The version that is known already.
        upto: The last version.
        spans: Only changed rows in these spans count.
        last: Only events that last at least until this instant count.
    """
    spec = definition.spec
    keys = definition.key_sources
    end = definition.engine.params.end if definition.engine else None
    if not all(keys):
        return None
    columns = list(dict.fromkeys([spec.time_column, *([end] if end else []), *(k for k in keys if k)]))
    rows = read_small_changes(path, after, upto, columns, max_rows=budget.changed, max_bytes=budget.bytes)
    if rows is None:
        return None
    times = instants_of(rows[spec.time_column], definition.time_type).to_pylist()
    ends = instants_of(rows[end], definition.time_type).to_pylist() if end else [None] * len(times)
    by_key: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    newest, others, count = None, 0, 0
    of_keys = _keys_of([rows[k] for k in keys if k], rows.num_rows)
    for key, t, until, kind in zip(of_keys, times, ends, rows["_change_type"].to_pylist(), strict=True):
        if t is None or t not in spans:
            continue
        until_at_least = t if not end else POS_INF if until is None else max(t, until - 1)
        if until_at_least < last:
            continue
        by_key[key].append((t, until_at_least))
        newest = t if newest is None else max(newest, t)
        others += kind != "insert"
        count += 1
    return ChangedKeys({k: joined(p) for k, p in by_key.items()}, newest, not others, count)


def stored_rows(
    budget: Budget,
    definition: Definition,
    path: str,
    version: int,
    keys: Sequence[Key] | None,
    *,
    since: SpanSet | None,
    carried: Sequence[str] = (),
    near: Near | None = None,
) -> StoredResults | None:
    """Return the stored result rows of some keys, in order of time; None if Spark has to find them.

    Args:
        budget: What the driver holds.
        definition: The definition.
        path: The partials table of the definition.
        version: The version of the partials table.
        keys: The keys; None for all.
        since: Only rows in these slices, and rows that are not final; None for all rows.
        carried: Additional columns to return.
        near: Where results are looked at; None for everywhere.
    """
    columns, rows = stored_columns(definition, carried), None
    if keys and definition.spec.keys and not why_not_recorded(definition):
        rows = read_rows_of_keys(
            path,
            version,
            columns,
            SpanSet.of(EVERYTHING) if since is None else since,
            keys,
            [key_column(k.name) for k in definition.spec.keys],
            time=SLICE,
            time_type=definition.time_type,
            max_rows=budget.stored,
            max_bytes=budget.bytes,
            max_opened=MOST_OPENED,
            open_column="" if since is None else "is_final",
        )
    if rows is None:
        rows = small_table(budget, definition, path, version, columns, since)
    return None if rows is None else by_keys(definition, rows, keys, carried, near)


def stored_columns(definition: Definition, carried: Sequence[str]) -> list[str]:
    """Return the columns that :func:`by_keys` needs."""
    names = [key_column(k.name) for k in definition.spec.keys]
    return list(dict.fromkeys([*names, *STORED, *_order(definition), *carried]))


def by_keys(
    definition: Definition,
    rows: pa.Table,
    keys: Sequence[Key] | None,
    carried: Sequence[str],
    near: Near | None = None,
) -> StoredResults:
    """Return stored result rows by their keys, in order of time.

    Args:
        definition: The definition.
        rows: Stored result rows.
        keys: Only rows of these keys; None for all.
        carried: Additional columns to return.
        near: Where results are looked at; None for everywhere.
    """
    names = [key_column(k.name) for k in definition.spec.keys]
    rows = rows.sort_by([(n, "ascending") for n in _order(definition)])
    if near is not None and keys is not None and names and not why_not_recorded(definition):
        return _around(rows, names, {key: near.get(key, []) for key in keys}, carried)
    found: StoredResults = defaultdict(StoredOfKey)
    wanted = None if keys is None else set(keys)
    results = map(StoredResult._make, zip(*(_values(rows[n]) for n in STORED), strict=True))
    passed_on = zip(*(rows[n].to_pylist() for n in carried), strict=True) if carried else repeat(())
    for key, result, values in zip(_keys_of([rows[n] for n in names], rows.num_rows), results, passed_on, strict=False):
        if wanted is None or key in wanted:
            of_key = found[key]
            of_key.rows.append(result)
            of_key.carried.append(values)
    return dict(found)


def _around(rows: pa.Table, names: Sequence[str], near: Near, carried: Sequence[str]) -> StoredResults:
    """Return the stored result rows around the changes of some keys; a Python object is made only of these rows.

    Args:
        rows: Stored result rows in order of time, which do not overlap within a key.
        names: The columns of the keys.
        near: Where results are looked at.
        carried: Additional columns to return.
    """
    codes, known = codes_of([rows[n] for n in names], list(near))
    order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
    codes, rows = codes[order], rows.take(pa.array(order))
    starts, ends = rows["w_start"].to_numpy(), rows["w_end"].to_numpy()
    newest = rows["last_t"].fill_null(NO_TIME).to_numpy()
    first, stop = np.searchsorted(codes, known), np.searchsorted(codes, known, side="right")
    at = np.repeat(np.arange(len(near)), [len(of_key) for of_key in near.values()])
    bounds = ((max(lo, _FIRST), min(hi, _LAST)) for of_key in near.values() for lo, hi in of_key)
    since, until = np.array(list(bounds), np.int64).reshape(-1, 2).T
    every = np.sort(np.concatenate([starts, ends, since, until]))  # `unique` takes ten times as long
    begun, ended = (codes * len(every) + np.searchsorted(every, times) for times in (starts, ends))
    since, until = (known[at] * len(every) + np.searchsorted(every, times) for times in (since, until))
    edges = np.zeros(len(order) + 1, np.int64)
    np.add.at(edges, np.maximum(np.searchsorted(ended, since, side="right") - 1, first[at]), 1)
    np.add.at(edges, np.minimum(np.searchsorted(begun, until) + 1, stop[at]), -1)
    is_near = (np.cumsum(edges[:-1]) > 0) | ~rows["is_final"].to_numpy(zero_copy_only=False)
    has_rows = first < stop
    is_near[first[has_rows]] = is_near[stop[has_rows] - 1] = True
    before = np.concatenate([[0], np.cumsum(is_near)])
    found_rows = rows.filter(mask(is_near))
    results = list(map(StoredResult._make, zip(*(_values(found_rows[n]) for n in STORED), strict=True)))
    columns = [found_rows[n].to_pylist() for n in carried]
    passed_on = list(zip(*columns, strict=True)) if columns else [()] * len(results)
    found: StoredResults = {}
    for key, a, b in zip(near, first.tolist(), stop.tolist(), strict=True):
        if a < b:
            i, j = before[a], before[b]
            times = (array("q", of_all[a:b].tobytes()) for of_all in (starts, newest))
            found[key] = StoredOfKey(results[i:j], passed_on[i:j], *times)
    return found


def _keys_of(columns: Sequence[pa.ChunkedArray], count: int) -> Iterable[Key]:
    """Return the keys of so many rows, each as :func:`~materializer.core.engines.work.frozen` gives it."""
    if not columns:
        return repeat((), count)
    keys = zip(*map(_values, columns), strict=True)
    is_plain = not any(pt.is_nested(c.type) or pt.is_floating(c.type) for c in columns)
    return keys if is_plain else map(frozen, keys)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: those of whole numbers by NumPy, which makes them several times as fast."""
    is_whole = pt.is_integer(column.type) and not column.null_count
    values: list[Any] = column.to_numpy().tolist() if is_whole else column.to_pylist()
    return values


def keys_over(budget: Budget, definition: Definition, path: str, version: int, spans: SpanSet) -> list[Key] | None:
    """Return the keys that have stored results in *spans*; None if Spark has to look."""
    names = [key_column(k.name) for k in definition.spec.keys]
    rows = _read_small_kept(
        path,
        version,
        [*names, "w_start", "w_end"],
        since=None,
        time_type=definition.time_type,
        max_rows=budget.stored,
        max_bytes=budget.bytes,
    )
    if rows is None or not spans:
        return None if rows is None else []
    first = np.array([max(s.start, _FIRST) for s in spans], np.int64)
    stop = np.array([min(s.end, _LAST) for s in spans], np.int64)
    at = np.searchsorted(stop, rows["w_start"].to_numpy(), side="right")
    is_over = (at < len(stop)) & (first[np.minimum(at, len(stop) - 1)] <= rows["w_end"].to_numpy())
    over = rows.filter(mask(is_over))
    return list(dict.fromkeys(_keys_of([over[n] for n in names], over.num_rows)))


class Progress(Struct, frozen=True):
    """How far the stored results have progressed.

    Args:
        changing: Start of the first result in a span that is open or reaches dirt; None if there is none.
        last: Start of the last closed result of a key; the earliest of these starts over all keys.
        days: (first start, number) of the windows of each key and trading day in the span; empty unless days are filled.
    """

    changing: int | None
    last: int | None
    days: Sequence[tuple[int, int]]

    def unsettled(self, params: WindowEngine, inside: Span) -> int | None:
        """Return the start of the first result in the span that may still change, or still appear; None if there is none."""
        start, end, pending = max(inside.start, _FIRST), min(inside.end, _LAST), None
        if params.fills_by_day:
            pending = params.first_unfilled(self.days)
        elif self.last is not None and params.fills_on:
            pending = params.filled_after(self.last)
        coming = None if pending is None else max(pending, start)
        return min((t for t in (self.changing, coming) if t is not None and t < end), default=None)


def progress(
    budget: Budget, definition: Definition, path: str, version: int, inside: Span, dirty: int
) -> Progress | None:
    """Return how far the stored results have progressed in a span; None if Spark has to look.

    Args:
        budget: What the driver holds.
        definition: The definition.
        path: The partials table of the definition.
        version: The version of the partials table.
        inside: The span from the present frozen boundary to the proposed one; only results that begin in it count.
        dirty: The first dirty instant at or after the end of *inside*. A result that reaches it may change, like an open one.
    """
    params: WindowEngine | None = None if definition.engine is None else definition.engine.params
    assert params is not None
    names = [key_column(k.name) for k in definition.spec.keys]
    columns = [*names, "w_start", "w_end", "is_final"]
    rows = _few_rows(budget, definition, path, version, columns, None if params.fills_on else SpanSet.of(inside))
    if rows is None:
        return None
    may_change = pc.or_(pc.invert(rows["is_final"]), pc.greater_equal(rows["w_end"], min(dirty, _LAST)))
    start, end = max(inside.start, _FIRST), min(inside.end, _LAST)
    lies = pc.and_(pc.greater_equal(rows["w_start"], start), pc.less(rows["w_start"], end))
    changing = pc.min(rows.filter(pc.and_(lies, may_change))["w_start"]).as_py()
    by_key = rows.filter(rows["is_final"]).group_by(names).aggregate([("w_start", "max")])
    days: list[tuple[int, int]] = []
    if params.fills_by_day and params.calendar is not None:
        own = rows.filter(lies)
        day = pa.array([params.calendar.day_from(t) for t in own["w_start"].to_pylist()], pa.int64())
        by_day = own.append_column("_day", day).group_by([*names, "_day"])
        found = by_day.aggregate([("w_start", "min"), ("w_start", "count")])
        days = list(zip(found["w_start_min"].to_pylist(), found["w_start_count"].to_pylist(), strict=True))
    return Progress(changing, pc.min(by_key["w_start_max"]).as_py(), days)


def stored_across(
    budget: Budget, definition: Definition, path: str, version: int, bound: int
) -> list[StoredResult] | None:
    """Return one result that covers all stored results which begin before an instant and end after it, none without; None if Spark has to look."""
    below = SpanSet.of(Span(NEG_INF, bound))
    rows = _few_rows(budget, definition, path, version, ["w_start", "w_end"], below)
    if rows is None:
        return None
    across = rows.filter(pc.and_(pc.less(rows["w_start"], bound), pc.greater(rows["w_end"], bound)))
    if not across.num_rows:
        return []
    return [StoredResult(pc.min(across["w_start"]).as_py(), pc.max(across["w_end"]).as_py(), None, None, True, 0)]


def _few_rows(
    budget: Budget, definition: Definition, path: str, version: int, columns: Sequence[str], spans: SpanSet | None
) -> pa.Table | None:
    """Return a few columns of at least the stored results in the slices of some spans; None if they are in too many rows."""
    return read_small_rows(
        path,
        version,
        columns,
        spans,
        time=SLICE,
        time_type=definition.time_type,
        max_rows=budget.rows,
        max_bytes=1 << 62,
    )


def small_table(
    budget: Budget, definition: Definition, path: str, version: int, columns: Sequence[str], since: SpanSet | None
) -> pa.Table | None:
    """Return the stored results of a small table; None if Spark has to find the wanted rows."""
    return _read_small_kept(
        path,
        version,
        columns,
        since=since,
        time_type=definition.time_type,
        max_rows=budget.passed,
        max_bytes=budget.bytes,
    )


def _read_small_kept(
    path: str,
    version: int,
    columns: Sequence[str],
    *,
    since: SpanSet | None,
    time_type: TimeType,
    max_rows: int,
    max_bytes: int,
) -> pa.Table | None:
    """Return stored result rows; None if Spark has to read them.

    Args:
        path: A partials table of an engine.
        version: The version of the table.
        columns: Columns to return.
        since: Only rows whose slice is in these spans, and rows that are not final; None for all.
        time_type: Type of ``slice``.
        max_rows: Maximum number of rows of the table.
        max_bytes: Maximum size of its files.
    """
    rows, size = row_count(path), size_of(path)
    if rows is None or rows > max_rows or size > max_bytes:
        return None
    wanted = list(dict.fromkeys([*columns, "slice", "is_final"]))
    with translated(path, "reading"):
        rows = plain(open_table(path, version).to_pyarrow_table(columns=wanted))
    if since is not None:
        is_inside = mask(inside(instants_of(rows["slice"], time_type), since))
        rows = rows.filter(pc.or_(pc.invert(rows["is_final"]), is_inside))
    return rows.select(list(columns))


def _order(definition: Definition) -> list[str]:
    stored = [n for n, _ in definition.partial_columns]
    return ["w_start", "w_end", *(["x_ordinal"] if "x_ordinal" in stored else [])]
