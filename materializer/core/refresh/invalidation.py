"""The invalidation log of one aggregate: what is dirty, why, and which source version its partials still reflect.

```
        log entries:   [=== new ===)      [== change, after 41 ==)             [===== new: the tail ======
        time      ─────┴────────────┴─────┴─────────────────────┴──────────────┴──────────────────────────▶
                                                                               ▲ threshold
```

An entry leaves the log only when a plan takes it (:func:`cut`), and an aborted plan gives it back. Everything at or
above the threshold is in the log from the start, so a change there needs no entry of its own. ``after`` is the source
version that the partials of the entry's buckets reflect exactly. A second change over a dirty span keeps the older
version, and None (never materialised, or to be recomputed) wins over every version.

The log must record a change before the threshold moves, and the threshold must move before anything is materialised. So a
row that arrives in between is either above the old threshold (covered by the tail) or found by the next capture.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, unique
from math import gcd
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.codec import JsonForm, as_json, from_json, json_fields, json_methods
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet

MAX_KEYS: Final = 64
"""The largest number of changed keys that an entry records; an entry with more changed keys stands for any key."""
FEW: Final = 8
"""Entries that differ in their spans alone are written one by one if they are so few; earlier releases read only this form."""
ANY_ROWS: Final = 1 << 62
"""Stands for all rows of a bucket: more rows than any source has."""


@unique
class Cause(IntEnum):
    """Why a span is dirty, ordered from the finest evidence to the coarsest; joined entries keep the coarsest cause."""

    CHANGE = 1
    """The change feed lists the changed rows."""
    FILES = 2
    """Statistics of added and removed files bound the change."""
    FORCED = 3
    """A forced refresh covers these clean buckets."""
    INVALIDATED = 4
    """A user declared the span dirty."""
    LOST = 5
    """Neither the change feed nor file statistics show what changed."""
    SOURCE = 6
    """The source is not the one that was captured: a column is another one or wider, the table was replaced, or its history is another."""
    NEW = 7
    """The span was never materialised."""
    DIFFERED = 8
    """The published rows differ from the raw rows."""
    REPAIRED = 9
    """The contents of our tables are unknown in the span."""
    CONFLICT = 10
    """An update or an unknown change below the frozen boundary, or a change above the boundary that affects a result which
    begins below the boundary."""
    RETIRED = 11
    """The span is older than ``output.retention``: its rows are removed from our tables."""


UNTOLD: Final = frozenset({Cause.FORCED, Cause.INVALIDATED, Cause.LOST})
"""Causes that do not show which rows were removed. After ``DIFFERED`` and ``REPAIRED`` the stored counts may be wrong."""
Key: TypeAlias = tuple[Any, ...]
"""A value for each key of the definition, as JSON holds it exactly; :mod:`materializer.lake.keys` says how."""
Keys: TypeAlias = frozenset[Key]
_KEYS: Final = JsonForm(lambda keys: sorted(map(list, keys), key=repr), lambda data: frozenset(map(tuple, data)))
_CAUSE: Final = JsonForm(lambda cause: cause.name.lower(), lambda name: Cause[name.upper()])
_START: Final = attrgetter("span.start")
_OPTIONAL: Final = ("after", "keys", "is_insert_only", "gone")


@json_fields(order=("span", "cause", ...), names={"is_insert_only": "inserts"}, later=_OPTIONAL, omits=_OPTIONAL)
class Entry(Struct, frozen=True):
    """One dirty span.

    Args:
        span: Whole buckets of the aggregate's grid.
        after: Source version that the partials in *span* reflect exactly, or None.
        cause: Why the span is dirty.
        keys: The changed keys when they are few and known, or None for any key.
        is_insert_only: Whether every change since *after* was an insert (by the change feed) or removed no file (by the log).
        gone: Upper bound of the source rows that were removed from any one bucket of the span since it was clean.
    """

    span: Span
    after: int | None = None
    cause: Annotated[Cause, _CAUSE] = Cause.NEW
    keys: Annotated[Keys, _KEYS] | None = None
    is_insert_only: bool = False
    gone: int = 0

    def joined(self, other: Entry, span: Span) -> Entry:
        """Return an entry for *span*, which both entries cover, that combines their facts."""
        after = None if self.after is None or other.after is None else min(self.after, other.after)
        keys = None if self.keys is None or other.keys is None else self.keys | other.keys
        return Entry(
            span,
            after,
            max(self.cause, other.cause),
            None if keys is None or len(keys) > MAX_KEYS else keys,
            is_insert_only=self.is_insert_only and other.is_insert_only,
            gone=min(self.gone + other.gone, ANY_ROWS),
        )

    @property
    def is_mergeable(self) -> bool:
        """Whether stored partials and the rows inserted since make up the buckets; below a frozen boundary this must hold."""
        return self.after is not None and self.is_insert_only and self.cause is Cause.CHANGE


class Cut(NamedTuple):
    """The entries that a refresh takes out of the log, and the log that stays: taken ∪ left = dirty, taken ∩ left = ∅."""

    taken: tuple[Entry, ...]
    left: InvalidationLog


@json_methods
class InvalidationLog(Struct, frozen=True):
    """Sorted, disjoint entries. Equal neighbours are joined; ``gone`` of the joined entry is the larger one.

    Examples:
        >>> log = InvalidationLog().add([Entry(Span(0, 20), after=4, cause=Cause.CHANGE)])
        >>> log.add([Entry(Span(10, 30), after=7, cause=Cause.CHANGE)]).entries[0].after
        4
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def everything(cls) -> InvalidationLog:
        """Return the log of a new aggregate: all of time, never materialised."""
        return cls((Entry(EVERYTHING),))

    @property
    def spans(self) -> SpanSet:
        """The union of all dirty spans."""
        return SpanSet.union(e.span for e in self.entries)

    @property
    def retired(self) -> SpanSet:
        """The spans that are dirty because ``output.retention`` removes them from our tables."""
        return SpanSet.union(e.span for e in self.entries if e.cause is Cause.RETIRED)

    def add(self, entries: Iterable[Entry]) -> InvalidationLog:
        """Return the log with *entries* added, in any order; overlaps keep the older ``after``."""
        return InvalidationLog(tuple(_normalised(_merged(self.entries, _disjoint(tuple(entries))))))

    def cut(self, window: SpanSet) -> Cut:
        """Split the log at the edges of *window*.

        Args:
            window: Whole buckets. An entry that extends beyond them is cut, and the rest stays in the log.
        """
        if not self.entries or window.covers(Span(self.entries[0].span.start, self.entries[-1].span.end)):
            return Cut(self.entries, InvalidationLog())
        taken, left = [], []
        for entry in self.entries:
            whole = SpanSet((entry.span,))
            inside = whole & window
            taken += [_within(entry, s) for s in inside]
            left += [] if inside == whole else [_within(entry, s) for s in whole - inside]
        return Cut(tuple(_normalised(taken)), InvalidationLog(tuple(_normalised(left))))

    def split(self, edge: int) -> tuple[InvalidationLog, InvalidationLog]:
        """Return the log below an edge, and the log from the edge on."""
        if edge == NEG_INF:
            return InvalidationLog(), self
        below, above = self.cut(SpanSet.of(Span(NEG_INF, edge)))
        return InvalidationLog(below), above

    def limited(self, max_entries: int, *, frozen_below: int = NEG_INF, exact_at: int | None = None) -> InvalidationLog:
        """Return a log of at most *max_entries*, joining the closest neighbours first.

        Changed keys are dropped first. A joined entry covers the gap between its parts: coarser, but never less than the parts.
        It has no ``after``, unless that of both parts is *exact_at*.

        Args:
            max_entries: Maximum number of entries.
            frozen_below: Entries below it are not joined, because their buckets cannot be recomputed or are already removed from
                our tables.
            exact_at: Source version that the partials of all clean buckets reflect exactly, None if there is no such version.
        """
        if len(self.entries) <= max_entries:
            return self
        entries = tuple(_normalised(e if e.keys is None else replace(e, keys=None) for e in self.entries))
        gaps = (
            sorted(  # the newest bucket comes last: joined with all time after it, it would be as if never materialised
                ((a.cause is Cause.NEW) is not (b.cause is Cause.NEW), b.span.start - a.span.end, i)
                for i, (a, b) in enumerate(itertools.pairwise(entries))
                if a.span.start >= frozen_below
            )
        )
        closed = {i for *_, i in gaps[: max(0, len(entries) - max_entries)]}
        joined: list[Entry] = []
        for i, entry in enumerate(entries):
            if i - 1 in closed:
                last = joined[-1]
                span = Span(last.span.start, entry.span.end)
                is_exact = exact_at is not None and last.after == entry.after == exact_at
                joined[-1] = Entry(
                    span,
                    exact_at if is_exact else None,
                    max(last.cause, entry.cause, *([] if is_exact else [Cause.FILES])),
                    is_insert_only=is_exact and last.is_insert_only and entry.is_insert_only,
                    gone=max(last.gone, entry.gone),
                )
            else:
                joined.append(entry)
        return InvalidationLog(tuple(_normalised(joined)))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the entries as JSON values."""
        return entries_as_json(self.entries)

    @classmethod
    def from_json(cls, data: Iterable[dict[str, Any]]) -> InvalidationLog:
        """Return the log that :meth:`as_json` wrote."""
        return cls(entries_from_json(data))


def entries_as_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return entries as JSON values; many that differ in their spans alone are one value.

    Its list ``[unit, start, length, gap, length, gap, length, …]`` counts in *unit*; a gap begins at the end before it.
    """
    groups: dict[Any, list[tuple[int, Entry]]] = {}
    for place, entry in enumerate(entries):
        facts = (entry.after, entry.cause, entry.keys, entry.is_insert_only, entry.gone)
        groups.setdefault(facts if entry.span.is_bounded else entry.span, []).append((place, entry))
    data: list[tuple[int, dict[str, Any]]] = []
    for group in groups.values():
        if len(group) <= FEW:
            data += [(place, as_json(e)) for place, e in group]
            continue
        (place, first), *_ = group
        spans = sorted((e.span for _, e in group), key=attrgetter("start"))
        ends = [0, *(end for span in spans for end in (span.start, span.end))]
        steps = [b - a for a, b in itertools.pairwise(ends)]
        unit = gcd(*steps)
        like = {name: value for name, value in as_json(first).items() if name != "span"}
        data.append((place, {"spans": [unit, *(step // unit for step in steps)], **like}))
    return [value for _, value in sorted(data, key=itemgetter(0))]


def entries_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """Return the entries that :func:`entries_as_json` wrote; if some are one value, all are in the order of their spans.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: If *data* is not the form of entries.
    """
    entries: list[Entry] = []
    are_sorted = True
    for value in data:
        if "spans" not in value:
            entries.append(from_json(Entry, value))
            continue
        unit, *steps = value["spans"]
        ends = [unit * n for n in itertools.accumulate(steps)]
        like = from_json(Entry, {name: item for name, item in value.items() if name != "spans"} | {"span": ends[:2]})
        entries += (_within(like, Span(a, b)) for a, b in zip(ends[::2], ends[1::2], strict=True))
        are_sorted = False
    return tuple(entries if are_sorted else sorted(entries, key=_START))


Entries: TypeAlias = Annotated[tuple[Entry, ...], JsonForm(entries_as_json, entries_from_json)]
"""Entries of one event."""


def _within(entry: Entry, span: Span) -> Entry:
    """Return an entry for a part of its span."""
    if span == entry.span:
        return entry
    return Entry(span, entry.after, entry.cause, entry.keys, is_insert_only=entry.is_insert_only, gone=entry.gone)


def _disjoint(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return entries as a sorted log without overlaps, by merging halves."""
    if all(a.span.end <= b.span.start for a, b in itertools.pairwise(entries)):
        return entries
    middle = len(entries) // 2
    return tuple(_merged(_disjoint(entries[:middle]), _disjoint(entries[middle:])))


def _merged(log: Sequence[Entry], other: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries of two sorted logs in one pass; where both have one, the two are joined."""
    rest, others = iter(log), iter(other)
    a, b = next(rest, None), next(others, None)
    while a is not None and b is not None:
        if b.span.start < a.span.start:
            a, b, rest, others = b, a, others, rest
        if a.span.end <= b.span.start:
            yield a
            a = next(rest, None)
            continue
        if a.span.start < b.span.start:
            yield _within(a, Span(a.span.start, b.span.start))
        end = min(a.span.end, b.span.end)
        yield a.joined(b, Span(b.span.start, end))
        a = _within(a, Span(end, a.span.end)) if end < a.span.end else next(rest, None)
        b = _within(b, Span(end, b.span.end)) if end < b.span.end else next(others, None)
    if a is not None:
        yield a
    if b is not None:
        yield b
    yield from rest
    yield from others


def _normalised(entries: Iterable[Entry]) -> Iterator[Entry]:
    current: Entry | None = None
    for entry in sorted(entries, key=_START):
        if current and current.span.end == entry.span.start and _are_joinable(current, entry):
            span = Span(current.span.start, entry.span.end)
            current = replace(current, span=span, gone=max(current.gone, entry.gone))
        else:
            if current:
                yield current
            current = entry
    if current:
        yield current


def _are_joinable(entry: Entry, other: Entry) -> bool:
    if entry.cause in UNTOLD and entry.gone != other.gone:
        return False
    return (
        entry.cause is other.cause
        and entry.after == other.after
        and entry.is_insert_only is other.is_insert_only
        and entry.keys == other.keys
    )


MOST_COMMITS: Final = 8
"""Captured versions whose commits are remembered."""
_OF_MARK: Final = ("columns", "commits", "file", "reason")


@json_fields(later=_OF_MARK, omits=_OF_MARK)
class SourceMark(Struct, frozen=True):
    """What a source was at the cursor.

    Args:
        columns: For each column that the definition reads, in small letters, what Delta calls it underneath; see
            :func:`materializer.lake.capture.source_marks.names_underneath`.
        commits: Digest of the commit of each of the last captured versions, by version as text, newest last.
        file: What tells the file of the newest one from another file.
        reason: Why everything was dirty when a source last turned out to be another one; "" if it never did.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    file: tuple[Any, ...] = ()
    reason: str = ""

    def after(self, new: SourceMark) -> SourceMark:
        """Return the mark of a later version, with the commits of both."""
        commits = {**({} if new.reason else self.commits), **new.commits}  # of another history they would say too much
        newest = sorted(commits, key=int)[-MOST_COMMITS:]
        reason = new.reason or self.reason
        return SourceMark(new.columns or self.columns, {v: commits[v] for v in newest}, new.file, reason)
