"""The invalidation log of one aggregate: what is dirty, why, and which source version its partials still reflect.

```
        log entries:   [=== new ===)      [== change, after 41 ==)             [===== new: the tail ======
        time      ─────┴────────────┴─────┴─────────────────────┴──────────────┴──────────────────────────▶
                                                                               ▲ threshold
```

An entry leaves the log only when a plan takes it (:func:`cut`), and an aborted plan gives it back. Everything at or
above the threshold is in the log from the start, so changes there need no entry of their own. ``after`` is the source
version that the partials of the entry's buckets reflect exactly; a second change over a dirty span keeps the older one,
and None (never materialised, or to be recomputed) wins over every version.

The log must be told before the threshold moves, and the threshold must move before anything is materialised: a row
that arrives in between is then either above the old threshold (covered by the tail) or captured by the next look.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Any, Final, NamedTuple

from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet

MAX_KEYS: Final = 64
"""How many changed keys an entry remembers; more become "any key"."""
ANY_ROWS: Final = 1 << 62
"""More rows than any source has: of an entry from which all of them may have gone."""


@unique
class Cause(IntEnum):
    """Why a span is dirty, from the finest evidence to the coarsest; joining keeps the coarsest."""

    CHANGE = 1
    """The change feed named the rows."""
    FILES = 2
    """Statistics of added and removed files bound it."""
    FORCED = 3
    """A refresh was forced over clean buckets."""
    INVALIDATED = 4
    """Somebody declared it dirty by hand."""
    LOST = 5
    """Neither feed nor statistics could tell what changed."""
    NEW = 6
    """Never materialised."""
    DIFFERED = 7
    """What is published there was compared with the raw rows, and differs."""
    REPAIRED = 8
    """The tables hold something there, and nobody knows any more what."""
    CONFLICT = 9
    """Below the frozen bound something else happened than inserts or deletes, or nobody can tell what; or what happened above
    it changes a result that begins below."""
    RETIRED = 10
    """Older than ``output.retention``: its rows are taken out of our tables."""


UNTOLD: Final = frozenset({Cause.FORCED, Cause.INVALIDATED, Cause.LOST})
"""Causes that do not say which rows went. What a repair left or a canary found to differ may be counted wrong itself."""
Keys = frozenset[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One dirty span.

    Args:
        span: Whole buckets of the aggregate's grid.
        after: Source version that the partials in *span* reflect exactly, or None.
        cause: Why it is dirty.
        keys: The changed keys when they are few and known, or None for any key.
        is_insert_only: Whether every change since *after* was an insert, as the change feed says, or no file went away.
        gone: Source rows that were seen to go from any one bucket of it since it was clean, at most.
    """

    span: Span
    after: int | None = None
    cause: Cause = Cause.NEW
    keys: Keys | None = None
    is_insert_only: bool = False
    gone: int = 0

    def joined(self, other: Entry, span: Span) -> Entry:
        """Return what is known about *span* when both entries cover it."""
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
        """Whether kept partials and the rows inserted since make up its buckets; all that is allowed below a frozen bound."""
        return self.after is not None and self.is_insert_only and self.cause is Cause.CHANGE

    def as_json(self) -> dict[str, Any]:
        """Return a JSON form that leaves out what is default."""
        data: dict[str, Any] = {"span": self.span.as_json(), "cause": self.cause.name.lower()}
        if self.after is not None:
            data["after"] = self.after
        if self.keys is not None:
            data["keys"] = sorted((list(k) for k in self.keys), key=repr)
        if self.is_insert_only:
            data["inserts"] = True
        if self.gone:
            data["gone"] = self.gone
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Entry:
        """Return the entry that :meth:`as_json` wrote."""
        keys = data.get("keys")
        return cls(
            Span.from_json(data["span"]),
            data.get("after"),
            Cause[data["cause"].upper()],
            None if keys is None else frozenset(tuple(k) for k in keys),
            is_insert_only=data.get("inserts", False),
            gone=data.get("gone", 0),
        )


class Cut(NamedTuple):
    """What a refresh takes out of the log, and what stays: taken ∪ left = dirty, taken ∩ left = ∅."""

    taken: tuple[Entry, ...]
    left: InvalidationLog


@dataclass(frozen=True, slots=True)
class InvalidationLog:
    """Sorted, disjoint entries; neighbours that say the same are one entry, from which went what went from either.

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
        """All that is dirty."""
        return SpanSet.union(e.span for e in self.entries)

    @property
    def retired(self) -> SpanSet:
        """What is dirty because ``output.retention`` takes it out of our tables."""
        return SpanSet.union(e.span for e in self.entries if e.cause is Cause.RETIRED)

    def add(self, entries: Iterable[Entry]) -> InvalidationLog:
        """Return the log with *entries* dirty too; overlaps keep the older ``after``."""
        log = self.entries
        for entry in entries:
            log = tuple(_tidy(_overlay(log, entry)))
        return InvalidationLog(log)

    def cut(self, window: SpanSet) -> Cut:
        """Split the log at the edges of *window*.

        Args:
            window: Whole buckets; entries that reach beyond are cut, and the rest stays.
        """
        taken = tuple(replace(e, span=s) for e in self.entries for s in SpanSet((e.span,)) & window)
        left = (replace(e, span=s) for e in self.entries for s in SpanSet((e.span,)) - window)
        return Cut(tuple(_tidy(taken)), InvalidationLog(tuple(_tidy(left))))

    def split(self, edge: int) -> tuple[InvalidationLog, InvalidationLog]:
        """Return what lies below an edge, and what lies at it or above."""
        if edge == NEG_INF:
            return InvalidationLog(), self
        below, above = self.cut(SpanSet.of(Span(NEG_INF, edge)))
        return InvalidationLog(below), above

    def limited(self, max_entries: int, *, frozen_below: int = NEG_INF) -> InvalidationLog:
        """Return a log of at most *max_entries*, joining the closest neighbours first.

        Keys go first. A joined entry covers the gap between its parts and has no ``after``: coarser, never less. Entries
        below *frozen_below* are not joined, because their buckets can not be recomputed, or are gone from our tables.
        """
        if len(self.entries) <= max_entries:
            return self
        entries = tuple(_tidy(replace(e, keys=None) for e in self.entries))
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
        return InvalidationLog(tuple(_tidy(joined)))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the entries as JSON values."""
        return [e.as_json() for e in self.entries]

    @classmethod
    def from_json(cls, data: Iterable[dict[str, Any]]) -> InvalidationLog:
        """Return the log that :meth:`as_json` wrote."""
        return cls(tuple(Entry.from_json(d) for d in data))


def _overlay(log: tuple[Entry, ...], new: Entry) -> Iterator[Entry]:
    at = new.span.start
    for old in log:
        common = old.span & new.span
        if common is None:
            if old.span.start >= new.span.end and at < new.span.end:
                yield replace(new, span=Span(at, new.span.end))
                at = new.span.end
            yield old
            continue
        if at < common.start:
            yield replace(new, span=Span(at, common.start))
        if old.span.start < common.start:
            yield replace(old, span=Span(old.span.start, common.start))
        yield old.joined(new, common)
        if common.end < old.span.end:
            yield replace(old, span=Span(common.end, old.span.end))
        at = common.end
    if at < new.span.end:
        yield replace(new, span=Span(at, new.span.end))


def _tidy(entries: Iterable[Entry]) -> Iterator[Entry]:
    current: Entry | None = None
    for entry in sorted(entries, key=lambda e: e.span):
        if current and current.span.end == entry.span.start and _says_the_same(current, entry):
            span = Span(current.span.start, entry.span.end)
            current = replace(current, span=span, gone=max(current.gone, entry.gone))
        else:
            if current:
                yield current
            current = entry
    if current:
        yield current


def _says_the_same(one: Entry, other: Entry) -> bool:
    if one.cause in UNTOLD and one.gone != other.gone:
        return False
    return replace(one, span=other.span, gone=other.gone) == other
