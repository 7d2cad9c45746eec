"""What changed, key by key, and which ranges of each key a refresh computes anew."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from materializer.core.engines.clock import ClosingClock
from materializer.core.time.spans import NEG_INF, Span, SpanSet

if TYPE_CHECKING:
    from materializer.core.engines.base import WindowEngine
    from materializer.core.engines.ranges import Range, StoredOfKey

Key = tuple[Any, ...]
NAN: Final = float("nan")
"""The one NaN in keys: NaN is not equal to itself, but a lookup finds this same object."""


class ChangedKeys(Struct, frozen=True):
    """The changed keys, with the times of their changes.

    Args:
        spans: For each key the closed intervals of its changed event times, in order.
        newest: Largest changed event time; None without changes.
        is_insert_only: Whether every change was an insert.
        rows: Number of changed rows.
    """

    spans: dict[Key, list[tuple[int, int]]]
    newest: int | None
    is_insert_only: bool
    rows: int


class Part(Struct, frozen=True):
    """One range of one key that is computed anew.

    Args:
        key: Values of the keys.
        start: Result rows with ``start <= w_start`` …
        end: … and ``w_start < end`` are replaced.
        raw_start: They are computed from the raw rows with ``raw_start <= t`` …
        raw_end: … and ``t < raw_end``.
        known_max: Largest event time of the key outside of what is computed anew, or None.
        carry: (column, value) of the stored row before the range, for engines with running state.
    """

    key: Key
    start: int
    end: int
    raw_start: int
    raw_end: int
    known_max: int | None
    carry: tuple[tuple[str, Any], ...] = ()


class KeySlices(Struct, frozen=True):
    """The stored results that a refresh replaces: of some keys those in slices of their own, of other slices those of all keys.

    Args:
        of_keys: Keys, each with its slices.
        whole: Slices that are replaced whole.
    """

    of_keys: tuple[tuple[Key, SpanSet], ...]
    whole: SpanSet = field(default_factory=SpanSet)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys."""
        return tuple(key for key, _ in self.of_keys)

    @property
    def keyed(self) -> SpanSet:
        """The slices of which only some keys are replaced."""
        return SpanSet.union(span for _, spans in self.of_keys for span in spans)

    def within(self, spans: SpanSet) -> KeySlices:
        """Return the part in some slices."""
        found = ((key, own & spans) for key, own in self.of_keys)
        return KeySlices(tuple((key, own) for key, own in found if own), self.whole & spans)


class Work(Struct, frozen=True):
    """What a refresh of an engine computes.

    Args:
        at: The clock that closes windows.
        parts: The ranges to compute anew, or None for everything.
        since: The frozen boundary: no result below it is computed, and no raw row below it is read.
        only: The stored results that are replaced, where other keys of the same slices stay; None for whole slices.
        added_after: The version of the source after which rows were only added, so that the parts are merged from them and from
            stored results; None where raw rows of the parts are read.
    """

    at: ClosingClock
    parts: tuple[Part, ...] | None = None
    since: int = NEG_INF
    only: KeySlices | None = None
    added_after: int | None = None


def reaches_below(work: Work) -> bool:
    """Return whether rows below the frozen boundary would count if they still existed."""
    return work.since != NEG_INF and (work.parts is None or any(p.raw_start <= work.since for p in work.parts))


def continues(engine: WindowEngine, work: Work) -> bool:
    """Return whether results of some work continue from stored results below the frozen boundary, and not from raw rows alone.

    Running state of parts does, too, but the parts have it.
    """
    is_state = work.parts is None and engine.resumes_from != "nothing"
    return reaches_below(work) and bool(engine.fills_on or engine.lookback or is_state)


def together(*found: ChangedKeys) -> ChangedKeys:
    """Return the union of several sets of changes."""
    spans: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for one in found:
        for key, pieces in one.spans.items():
            spans[key] += pieces
    return ChangedKeys(
        {key: joined(pieces) for key, pieces in spans.items()},
        max((one.newest for one in found if one.newest is not None), default=None),
        all(one.is_insert_only for one in found),
        sum(one.rows for one in found),
    )


def joined(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of closed intervals: sorted and without overlaps.

    Examples:
        >>> joined([(5, 9), (1, 2), (8, 12)])
        [(1, 2), (5, 12)]
    """
    found: list[tuple[int, int]] = []
    for lo, hi in sorted(pieces):
        if found and lo <= found[-1][1]:
            found[-1] = (found[-1][0], max(hi, found[-1][1]))
        else:
            found.append((lo, hi))
    return found


def frozen(key: Sequence[Any]) -> Key:
    """Return the values of a key as a hashable value: two keys that are equal in Spark give equal values here.

    Examples:
        >>> frozen(["a", [1, 2], float("nan")]) == frozen(["a", [1, 2], float("nan")])
        True
    """
    return tuple(_frozen(value) for value in key)


def _frozen(value: Any) -> Any:
    if isinstance(value, float) and value != value:  # noqa: PLR0124 (the one test for NaN that needs no type)
        return NAN
    if isinstance(value, dict):
        return tuple(_frozen(v) for v in value.values())
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def raw_spans(parts: Iterable[Part], most: int, *, last_long: bool) -> SpanSet:
    """Return the spans of the raw rows of *parts*, so that a read can skip files.

    Args:
        parts: The ranges.
        most: Largest number of spans; more are merged.
        last_long: Whether rows are events with an end, which may begin before the range that they overlap.
    """
    spans = SpanSet.union(Span(NEG_INF if last_long else p.raw_start, p.raw_end) for p in parts)
    return spans.at_most(most)


def parts_of(key: Key, ranges: Sequence[Range], stored: StoredOfKey, carried: Sequence[str]) -> list[Part]:
    """Return the ranges of a key, each with what it carries on: the columns of the last stored row before it, nulls without one.

    Args:
        key: The key.
        ranges: Its ranges, disjoint and in order, as engines return them.
        stored: Its stored results.
        carried: The columns that are carried on.
    """
    newest, nothing = stored.newest_outside(ranges), (None,) * len(carried)
    before = (bisect_left(stored.rows, r.start, key=lambda k: k.w_start) for r in ranges)
    return [
        Part(
            *(key, r.start, r.end, r.raw_start, r.raw_end, newest),
            tuple(zip(carried, stored.carried[at - 1] if at else nothing, strict=True)),
        )
        for r, at in zip(ranges, before, strict=True)
    ]
