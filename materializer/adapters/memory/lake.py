"""A lake as one hashable value: the changes of a source, a journal, and the two tables of one aggregate.

Bucket *b* is ``[10 b, 10 b + 10)``. Its value is the number of its inserted rows minus that of its deleted rows, so that a
merge that is done twice shows. The journal is one snapshot row: every append goes through the real ``encode``, ``decode`` and
``fold``, and what cannot matter (the ended refreshes) is dropped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import AggregateSpec, GridSpec, Width
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import WriteFencedError
from materializer.journal import fold
from materializer.journal.codec import Row, encode
from materializer.journal.events import Defined, Event, Snapshot, SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.protocol.process import Which

AGGREGATE: Final = "a1"
WIDTH: Final = 10
_SPEC: Final = AggregateSpec(
    "bars",
    "src",
    "t",
    GridSpec(Width(ticks=WIDTH)),
    bucket_start="b",
    bucket_end=None,
    keys=(),
    measures=(),
    columns=(),
)
DEFINED: Final = Defined(
    "bars", _SPEC.as_json(), "d1", SourceIdentity("src", "s"), 0, {}, {w.value: w.value for w in Which}
)


class MemoryCommit(NamedTuple):
    """One commit of a table of ours; its version is its place, counted from 1."""

    n: int
    plan: str
    kind: str


class MemoryTable(NamedTuple):
    """A table of ours.

    Args:
        values: The value of each bucket.
        commits: Its commits.
        gone: How many of them can no longer be read.
    """

    values: tuple[int, ...]
    commits: tuple[MemoryCommit, ...] = ()
    gone: int = 0

    @property
    def n(self) -> int:
        """Largest refresh number recorded."""
        return self.commits[-1].n if self.commits else 0

    @property
    def plan(self) -> str:
        """The plan of the newest commit that can be read; "" without one."""
        return self.commits[-1].plan if len(self.commits) > self.gone else ""

    def committed(self, plan: Plan, kind: str, values: Mapping[int, int]) -> MemoryTable:
        """Return the table after a commit of *plan*; unchanged when it has it already.

        Raises:
            WriteFencedError: If another commit gave it that number, or a higher one.
        """
        if self.n >= plan.n:
            if any((c.plan, c.kind) == (plan.id, kind) for c in self.commits):
                return self
            raise WriteFencedError(f"another commit has number {self.n} or a higher one")
        new = tuple(values.get(b, x) for b, x in enumerate(self.values))
        return self._replace(values=new, commits=(*self.commits, MemoryCommit(plan.n, plan.id, kind)))


class MemoryLake(NamedTuple):
    """Everything outside the processes.

    Args:
        source: The change (kind, bucket) that each version made, from version 1 on.
        journal: The folded journal, as its snapshot row.
        partials: The stored partials.
        output: What readers see.
        aborted: Ids of plans that were aborted.
        wrong: The first rule of the protocol that a process broke, or "".
        others: Commits to the journal about other aggregates.
    """

    source: tuple[tuple[str, int], ...]
    journal: Row
    partials: MemoryTable
    output: MemoryTable
    aborted: tuple[str, ...] = ()
    wrong: str = ""
    others: int = 0

    @classmethod
    def first(cls, buckets: int = 2) -> MemoryLake:
        """Return the lake right after the aggregate was defined."""
        empty = MemoryTable((0,) * buckets)
        return cls((), appended(None, DEFINED), empty, empty)

    @property
    def state(self) -> AggregateState:
        """The aggregate as the journal knows it."""
        return folded(self.journal)

    @property
    def version(self) -> int:
        """The version of the journal; equal journals have equal versions, which allows more than a real journal does."""
        return hash((self.journal, self.others))

    @property
    def buckets(self) -> range:
        """All buckets."""
        return range(len(self.output.values))

    def truth(self, bucket: int, version: int) -> int:
        """Return what *bucket* is worth at a source version."""
        return sum(1 if kind == "insert" else -1 for kind, b in self.source[:version] if b == bucket)

    def changes(self, bucket: int, after: int, upto: int) -> list[str]:
        """Return the kinds of change of *bucket* in ``(after, upto]``."""
        return [kind for kind, b in self.source[after:upto] if b == bucket]

    def inside(self, spans: SpanSet) -> list[int]:
        """Return the buckets that begin inside *spans*."""
        return [b for b in self.buckets if b * WIDTH in spans]


def spans_of(buckets: Iterable[int]) -> SpanSet:
    """Return the time of some buckets."""
    return SpanSet.of(*(Span(b * WIDTH, (b + 1) * WIDTH) for b in buckets))


def dirty_buckets(state: AggregateState, buckets: Iterable[int]) -> set[int]:
    """Return which buckets are in the log or in the open plan of an aggregate."""
    taken = [e.span for e in state.plan.taken] if state.plan else []
    return {b for b in buckets if b * WIDTH in state.log.spans or any(b * WIDTH in s for s in taken)}


def appended(journal: Row | None, *events: Event) -> Row:
    """Return a journal, None for one that is new, after an append."""
    return _appended(journal, tuple(encode(AGGREGATE, event, at="") for event in events))


@cache
def folded(journal: Row) -> AggregateState:
    """Return the aggregate that a snapshot row holds."""
    return fold.fold([journal])[AGGREGATE]


@cache
def _appended(journal: Row | None, rows: tuple[Row, ...]) -> Row:
    state = fold.fold(rows if journal is None else (journal, *rows))[AGGREGATE]
    return encode(AGGREGATE, Snapshot(as_json(replace(state, ended=()))), at="")


def forget_folds() -> None:
    """Empty the caches of folded journals, which hold what the code of the fold made of them."""
    folded.cache_clear()
    _appended.cache_clear()
