"""Histories of one aggregate as the protocol writes them, and the states that they fold to."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Lane, Plan, Recompute, RunReport, TableBase
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.journal.codec import Row, encode
from materializer.journal.events import (
    Aborted,
    Audited,
    Captured,
    Defined,
    Delivered,
    Described,
    Done,
    Event,
    Frozen,
    Invalidated,
    LeaseReleased,
    LeaseRenewed,
    LeaseTaken,
    Maintained,
    Planned,
    PolicyRan,
    Retired,
    SourceIdentity,
)
from materializer.journal.fold import apply, fold
from materializer.journal.state import AggregateState
from tests.journal.definitions import SPEC
from tests.model.strategies import NAMES, OBJECTS, entry_lists, leases, spans

DEFINED = Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {"partials": "p", "output": "o"})


SPECS = st.builds(
    lambda comment, properties: SPEC | {"comment": comment, "properties": properties},
    NAMES,
    st.lists(st.tuples(NAMES, NAMES).map(list), max_size=2),
)
REPORT = RunReport(1)


def make_plan(n: int, *taken: Entry, window: Span | None = None) -> Plan:
    """Return a plan that recomputes what it takes."""
    found = taken or (Entry(Span(0, 10)),)
    steps = (Recompute(SpanSet.union(e.span for e in found), "asked"),)
    base = TableBase("p", 0)
    return Plan(f"plan-{n}", n, 1, window or found[0].span, found, steps, Lane.DRIVER, base, base)


def rows_of(*events: Event, aggregate: str = "a1") -> list[Row]:
    """Return the journal rows of *events*."""
    return [encode(aggregate, e, at=f"t{i}") for i, e in enumerate(events)]


def folded(*events: Event) -> AggregateState:
    """Return the state after *events*."""
    return fold(rows_of(*events))["a1"]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Events as the protocol writes them, of one aggregate."""
    events: list[Event] = [replace(DEFINED, spec=draw(SPECS))]
    state = folded(*events)
    for _ in range(draw(st.integers(0, 12))):
        event = draw(_next_event(state))
        events.append(event)
        state = applied(state, event)
    return events


def applied(state: AggregateState, event: Event) -> AggregateState:
    """Return the state after one more event of a living aggregate."""
    after = apply(state, "a1", event)
    assert after is not None
    return after


@st.composite
def _next_event(draw: st.DrawFn, state: AggregateState) -> Event:
    kinds = ["lease", "describe", "capture", "invalidate", "deliver", "policy", "maintain"]
    kinds += ["audit", "done", "abort"] if state.plan else ["plan"] * 3 + ["freeze", "retire"]
    match draw(st.sampled_from(kinds)):
        case "lease":
            owner = state.lease.owner if state.lease else ""
            ways = [LeaseTaken(draw(leases())), LeaseReleased(owner), LeaseRenewed(owner, 7.0)]
            return draw(st.sampled_from(ways))
        case "describe":
            return Described(draw(SPECS))
        case "capture":
            return Captured(state.cursor + 1, tuple(draw(entry_lists())), draw(st.sampled_from([NEG_INF, 40])))
        case "invalidate":
            return Invalidated(tuple(draw(entry_lists())), "by hand")
        case "freeze":
            bound = draw(st.sampled_from([NEG_INF, *range(0, 40, 4)]))
            most = min(bound, state.threshold)
            settled = draw(spans(is_bounded=True)) & Span(NEG_INF, most) if most != NEG_INF else None
            return Frozen(bound, "asked", SpanSet.of(settled) if settled else SpanSet())
        case "retire":
            return Retired(draw(st.sampled_from([NEG_INF, *range(0, 40, 4)])))
        case "deliver":
            return Delivered(draw(st.integers(0, 20)))
        case "maintain":
            return Maintained(draw(OBJECTS))
        case "policy":
            clock = draw(st.integers(0, 20))
            return PolicyRan(draw(st.sampled_from(["default", "old"])), clock, clock)
        case "plan":
            window = draw(spans(is_bounded=True))
            taken = state.log.cut(SpanSet.of(window)).taken
            plan = make_plan(state.last_n + draw(st.integers(1, 2)), *taken, window=window)
            options = draw(st.sampled_from([{}, {"policy": {"name": "old", "now": 7, "window": None}}]))
            return Planned(plan if taken else replace(plan, taken=(), steps=()), window.end, options)
        case "audit":
            assert state.plan
            return Audited(state.plan.n, tuple((s.start, s.end) for s in state.plan.spans), {"rows": 1})
        case "done":
            assert state.plan
            return Done(state.plan.n, REPORT)
        case _:
            assert state.plan
            return Aborted(state.plan.n, "the disk is full")
