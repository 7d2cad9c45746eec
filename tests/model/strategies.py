"""Hypothesis strategies for what the core and the journal are made of; instants are small so that spans meet."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import (
    Estimate,
    Lane,
    Merge,
    Plan,
    Recompute,
    Rejected,
    Retract,
    RunReport,
    Settle,
    TableBase,
)
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Lease, SourceIdentity

UNIVERSE: Final = range(-1, 44)
"""Instants to look at; spans begin and end between 0 and 42, or reach beyond both ends."""

EDGES: Final = st.integers(0, 30)
NAMES: Final = st.sampled_from(["a", "b", "ä b", "'\"\n"])
VERSIONS: Final = st.integers(0, 5)
KEYS: Final = st.none() | st.frozensets(st.tuples(st.none() | st.integers(0, 3) | NAMES), max_size=3)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS: Final = st.dictionaries(NAMES, JSON, max_size=3)


@st.composite
def spans(draw: st.DrawFn, *, is_bounded: bool = False) -> Span:
    """A span of some instants; sometimes it has no beginning or no end."""
    start, length = draw(EDGES), draw(st.integers(1, 12))
    ends = [(start, start + length)] * 6
    if not is_bounded:
        ends += [(NEG_INF, start), (start, POS_INF), (NEG_INF, POS_INF)]
    return Span(*draw(st.sampled_from(ends)))


def span_sets() -> st.SearchStrategy[SpanSet]:
    """Up to four spans, in normal form."""
    return st.lists(spans(), max_size=4).map(SpanSet.union)


def entries() -> st.SearchStrategy[Entry]:
    """One dirty span with everything that can be known about it."""
    return st.builds(Entry, spans(), st.none() | VERSIONS, st.sampled_from(Cause), KEYS, is_insert_only=st.booleans())


def entry_lists() -> st.SearchStrategy[list[Entry]]:
    """Some entries, which may overlap."""
    return st.lists(entries(), max_size=6)


def logs() -> st.SearchStrategy[InvalidationLog]:
    """A log that some entries were added to."""
    return entry_lists().map(lambda found: InvalidationLog().add(found))


def estimates() -> st.SearchStrategy[Estimate]:
    """What reading costs."""
    return st.builds(Estimate, *[st.integers(0, 100)] * 3)


def steps() -> st.SearchStrategy[Any]:
    """One step of a plan."""
    rejected = st.lists(st.builds(Rejected, NAMES, NAMES), max_size=2).map(tuple)
    return st.one_of(
        st.builds(Settle, span_sets()),
        st.builds(Recompute, span_sets(), NAMES, estimates(), rejected, is_rebuild=st.booleans()),
        st.builds(Recompute, span_sets(), NAMES, is_discard=st.just(True)),
        st.builds(Merge, span_sets(), VERSIONS, estimates(), rejected),
        st.builds(Retract, span_sets(), VERSIONS, estimates(), rejected),
    )


def plans() -> st.SearchStrategy[Plan]:
    """A plan; its steps need not fit its entries."""
    bases = st.builds(TableBase, NAMES, VERSIONS)
    taken, found = entry_lists().map(tuple), st.lists(steps(), max_size=3).map(tuple)
    return st.builds(
        Plan, NAMES, st.integers(1, 9), VERSIONS, spans(), taken, found, st.sampled_from(Lane), bases, bases
    )


def reports() -> st.SearchStrategy[RunReport]:
    """What a refresh did."""
    seconds = st.floats(0, 1e6)
    return st.builds(RunReport, VERSIONS, NAMES, rows_read=VERSIONS, seconds=seconds, extra=OBJECTS)


def leases() -> st.SearchStrategy[Lease]:
    """Somebody's right to write."""
    return st.builds(Lease, NAMES, NAMES, VERSIONS, VERSIONS, st.floats(0, 1e10))


def sources() -> st.SearchStrategy[SourceIdentity]:
    """The identity of a source."""
    return st.builds(SourceIdentity, NAMES, NAMES, NAMES)


def instants() -> st.SearchStrategy[int]:
    """An instant, infinite ones included."""
    return EDGES | st.sampled_from([NEG_INF, POS_INF])
