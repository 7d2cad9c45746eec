"""Half-open spans of instants, and sets of them in a normal form.

An instant is an ``int``: microseconds since 1970-01-01T00:00:00Z for dates and timestamps, the raw value for integer
time columns. ``NEG_INF`` and ``POS_INF`` are named instants below and above everything that a 64-bit column can hold, so
they never equal a real instant. A :class:`Span` is ``[start, end)`` and never empty. The only empty value is the empty
:class:`SpanSet`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from msgspec import Struct

from materializer.core.codec import json_methods

NEG_INF: Final = -(1 << 72)
POS_INF: Final = 1 << 72
_START: Final = attrgetter("start")
_END: Final = attrgetter("end")


@json_methods
class Span(Struct, frozen=True, order=True):
    """One half-open span of time, never empty.

    Args:
        start: First instant covered, or ``NEG_INF``.
        end: First instant *not* covered, or ``POS_INF``.

    Raises:
        ValueError: If *end* is not after *start*.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end <= self.start:
            msg = f"a span must end after it starts, got [{self.start}, {self.end})"
            raise ValueError(msg)

    def __contains__(self, instant: int) -> bool:
        return self.start <= instant < self.end

    def __and__(self, other: Span) -> Span | None:
        """Return the common part, or None when there is none."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Span(start, end) if start < end else None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are real instants."""
        return self.start != NEG_INF and self.end != POS_INF

    def as_json(self) -> list[int | None]:
        """Return ``[start, end]`` with None for an infinite end.

        Examples:
            >>> Span(0, POS_INF).as_json()
            [0, None]
        """
        return [None if self.start == NEG_INF else self.start, None if self.end == POS_INF else self.end]

    @classmethod
    def from_json(cls, pair: list[int | None]) -> Span:
        """Return the span that :meth:`as_json` wrote."""
        start, end = pair
        return cls(NEG_INF if start is None else start, POS_INF if end is None else end)


EVERYTHING: Final = Span(NEG_INF, POS_INF)


@json_methods
class SpanSet(Struct, frozen=True):
    """A set of instants as sorted, disjoint spans that do not touch; sets of the same instants are equal.

    Build it with :meth:`of` or :meth:`union`, which give the normal form.

    Examples:
        >>> SpanSet.of(Span(5, 9), Span(0, 5), Span(20, 30))
        SpanSet(spans=(Span(start=0, end=9), Span(start=20, end=30)))
        >>> SpanSet.of(Span(0, 10)) - SpanSet.of(Span(3, 4))
        SpanSet(spans=(Span(start=0, end=3), Span(start=4, end=10)))
    """

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *spans: Span) -> SpanSet:
        """Return the normal form of the union of *spans*."""
        return cls.union(spans)

    @classmethod
    def union(cls, spans: Iterable[Span]) -> SpanSet:
        """Return the normal form of the union of any number of spans, in any order."""
        return cls(tuple(_fused(sorted(spans, key=_START))))

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __contains__(self, instant: int) -> bool:
        at = bisect_right(self.spans, instant, key=_START) - 1
        return at >= 0 and instant < self.spans[at].end

    def __or__(self, other: SpanSet) -> SpanSet:
        return SpanSet.union((*self.spans, *other.spans))

    def __and__(self, other: SpanSet) -> SpanSet:
        mine, theirs = self._near(other.hull), other._near(self.hull)
        return SpanSet(tuple(_common(mine, theirs)))

    def __sub__(self, other: SpanSet) -> SpanSet:
        theirs = other._near(self.hull)
        return SpanSet(tuple(_rest(self.spans, theirs))) if theirs else self

    def _near(self, hull: Span | None) -> tuple[Span, ...]:
        """Return the spans that meet *hull*; bisection finds them, so that one span of many costs little."""
        if hull is None:
            return ()
        first = bisect_right(self.spans, hull.start, key=_END)
        return self.spans[first : bisect_left(self.spans, hull.end, lo=first, key=_START)]

    @property
    def hull(self) -> Span | None:
        """The smallest span that covers the whole set, or None when the set is empty."""
        return Span(self.spans[0].start, self.spans[-1].end) if self.spans else None

    def covers(self, span: Span) -> bool:
        """Whether every instant of *span* is in the set."""
        return not (SpanSet((span,)) - self)

    def at_most(self, limit: int) -> SpanSet:
        """Return at most *limit* spans that cover this set, closing the smallest gaps first.

        Examples:
            >>> SpanSet.of(Span(0, 1), Span(2, 3), Span(90, 91)).at_most(2)
            SpanSet(spans=(Span(start=0, end=3), Span(start=90, end=91)))
        """
        if len(self.spans) <= limit:
            return self
        parts = self.spans
        gaps = sorted(range(1, len(parts)), key=lambda i: parts[i].start - parts[i - 1].end, reverse=True)
        kept = sorted(gaps[: limit - 1])
        starts, ends = [0, *kept], [*kept, len(parts)]
        return SpanSet(tuple(Span(parts[a].start, parts[b - 1].end) for a, b in zip(starts, ends, strict=True)))

    def as_json(self) -> list[list[int | None]]:
        """Return a list of ``[start, end]`` pairs, None for an infinite end."""
        return [s.as_json() for s in self.spans]

    @classmethod
    def from_json(cls, pairs: Iterable[list[int | None]]) -> SpanSet:
        """Return the set that :meth:`as_json` wrote."""
        return cls.union(Span.from_json(p) for p in pairs)


def _fused(spans: list[Span]) -> Iterator[Span]:
    current: Span | None = None
    for span in spans:
        if current is None:
            current = span
        elif span.start <= current.end:
            if span.end > current.end:
                current = Span(current.start, span.end)
        else:
            yield current
            current = span
    if current is not None:
        yield current


def _common(left: tuple[Span, ...], right: tuple[Span, ...]) -> Iterator[Span]:
    i = j = 0
    while i < len(left) and j < len(right):
        both = left[i] & right[j]
        if both:
            yield both
        if left[i].end <= right[j].end:
            i += 1
        else:
            j += 1


def _rest(left: tuple[Span, ...], right: tuple[Span, ...]) -> Iterator[Span]:
    j = 0
    for span in left:
        start = span.start
        while j < len(right) and right[j].end <= start:
            j += 1
        k = j
        while k < len(right) and right[k].start < span.end:
            if right[k].start > start:
                yield Span(start, right[k].start)
            start = max(start, right[k].end)
            k += 1
        if start < span.end:
            yield Span(start, span.end)
