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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from materializer.core.codec import JsonForm, as_json, from_json, json_fields, json_methods
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet

MAX_KEYS: Final = 64
"""The largest number of changed keys that an entry records; an entry with more changed keys stands for any key."""
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
    NEW = 6
    """The span was never materialised."""
    DIFFERED = 7
    """The published rows differ from the raw rows."""
    REPAIRED = 8
    """The contents of our tables are unknown in the span."""
    CONFLICT = 9
    """An update or an unknown change below the frozen boundary, or a change above the boundary that affects a result which
    begins below the boundary."""
    RETIRED = 10
    """The span is older than ``output.retention``: its rows are removed from our tables."""


UNTOLD: Final = frozenset({Cause.FORCED, Cause.INVALIDATED, Cause.LOST})
"""Causes that do not show which rows were removed. After ``DIFFERED`` and ``REPAIRED`` the stored counts may be wrong."""
Key: TypeAlias = tuple[Any, ...]
"""A value for each key of the definition, as JSON holds it exactly; :mod:`materializer.lake.keys` says how."""
Keys: TypeAlias = frozenset[Key]
_KEYS: Final = JsonForm(lambda keys: sorted(map(list, keys), key=repr), lambda data: frozenset(map(tuple, data)))
_CAUSE: Final = JsonForm(lambda cause: cause.name.lower(), lambda name: Cause[name.upper()])
_OPTIONAL: Final = ("after", "keys", "is_insert_only", "gone")


@json_fields(order=("span", "cause", ...), names={"is_insert_only": "inserts"}, later=_OPTIONAL, omits=_OPTIONAL)
@dataclass(frozen=True, slots=True)
class Entry:
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
@dataclass(frozen=True, slots=True)
class InvalidationLog:
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
        """Return the log with *entries* added; overlaps keep the older ``after``."""
        log = self.entries
        for entry in entries:
            log = tuple(_normalised(_overlay(log, entry)))
        return InvalidationLog(log)

    def cut(self, window: SpanSet) -> Cut:
        """Split the log at the edges of *window*.

        Args:
            window: Whole buckets. An entry that extends beyond them is cut, and the rest stays in the log.
        """
        taken = tuple(replace(e, span=s) for e in self.entries for s in SpanSet((e.span,)) & window)
        left = (replace(e, span=s) for e in self.entries for s in SpanSet((e.span,)) - window)
        return Cut(tuple(_normalised(taken)), InvalidationLog(tuple(_normalised(left))))

    def split(self, edge: int) -> tuple[InvalidationLog, InvalidationLog]:
        """Return the log below an edge, and the log from the edge on."""
        if edge == NEG_INF:
            return InvalidationLog(), self
        below, above = self.cut(SpanSet.of(Span(NEG_INF, edge)))
        return InvalidationLog(below), above

    def limited(self, max_entries: int, *, frozen_below: int = NEG_INF) -> InvalidationLog:
        """Return a log of at most *max_entries*, joining the closest neighbours first.

        Changed keys are dropped first. A joined entry covers the gap between its parts and has no ``after``: coarser, but never
        less than the parts. Entries below *frozen_below* are not joined, because their buckets cannot be recomputed or are
        already removed from our tables.
        """
        if len(self.entries) <= max_entries:
            return self
        entries = tuple(_normalised(replace(e, keys=None) for e in self.entries))
        gaps = sorted(
            (b.span.start - a.span.end, i)
            for i, (a, b) in enumerate(itertools.pairwise(entries))
            if a.span.start >= frozen_below
        )
        closed = {i for _, i in gaps[: max(0, len(entries) - max_entries)]}
        joined: list[Entry] = []
        for i, entry in enumerate(entries):
            if i - 1 in closed:
                last = joined[-1]
                span = Span(last.span.start, entry.span.end)
                gone = max(last.gone, entry.gone)
                joined[-1] = Entry(span, None, max(last.cause, entry.cause, Cause.FILES), gone=gone)
            else:
                joined.append(entry)
        return InvalidationLog(tuple(_normalised(joined)))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the entries as JSON values."""
        return [as_json(e) for e in self.entries]

    @classmethod
    def from_json(cls, data: Iterable[dict[str, Any]]) -> InvalidationLog:
        """Return the log that :meth:`as_json` wrote."""
        return cls(tuple(from_json(Entry, d) for d in data))


def _overlay(log: tuple[Entry, ...], new: Entry) -> Iterator[Entry]:
    edge = new.span.start
    for old in log:
        common = old.span & new.span
        if common is None:
            if old.span.start >= new.span.end and edge < new.span.end:
                yield replace(new, span=Span(edge, new.span.end))
                edge = new.span.end
            yield old
            continue
        if edge < common.start:
            yield replace(new, span=Span(edge, common.start))
        if old.span.start < common.start:
            yield replace(old, span=Span(old.span.start, common.start))
        yield old.joined(new, common)
        if common.end < old.span.end:
            yield replace(old, span=Span(common.end, old.span.end))
        edge = common.end
    if edge < new.span.end:
        yield replace(new, span=Span(edge, new.span.end))


def _normalised(entries: Iterable[Entry]) -> Iterator[Entry]:
    current: Entry | None = None
    for entry in sorted(entries, key=lambda e: e.span):
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
    return replace(entry, span=other.span, gone=other.gone) == other
