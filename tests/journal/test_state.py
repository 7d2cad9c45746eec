from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.time.spans import Span
from materializer.journal.events import (
    Aborted,
    Audited,
    BuildClosed,
    BuildOpened,
    BuildStarted,
    Captured,
    Checked,
    Defined,
    Delivered,
    Described,
    Done,
    Dropped,
    Event,
    Frozen,
    Invalidated,
    Lease,
    LeaseReleased,
    LeaseRenewed,
    LeaseTaken,
    Maintained,
    ParentSwitched,
    Planned,
    PolicyRan,
    Registered,
    Repaired,
    Retired,
    Snapshot,
    SourceIdentity,
    Switched,
    SwitchPlanned,
)
from materializer.journal.state import AggregateState
from tests.journal.definitions import numbered
from tests.journal.histories import DEFINED, REPORT, applied, folded, make_plan

LEASE = Lease("me", "here", 1, 1, 9.0)
AT_REST = folded(DEFINED, Captured(3, (Entry(Span(0, 10)),), 40), LeaseTaken(LEASE))
HARMLESS = (
    LeaseTaken(replace(LEASE, until=99.0)),
    LeaseRenewed("me", 99.0),
    LeaseReleased("me"),
    Delivered(7),
    Registered("c.s.t"),
    PolicyRan("default", 5, 5),
    Checked({"n": 1}),
    Maintained({"files": 1}),
)
HARMFUL = (
    replace(DEFINED, cursor=4),
    Described(numbered(1)),
    ParentSwitched({}, SourceIdentity("/p", "p"), 0),
    Captured(4, (), 40),
    Invalidated((Entry(Span(20, 30), None, Cause.INVALIDATED, gone=ANY_ROWS),), "by hand"),
    Frozen(10, "asked"),
    Retired(10),
    Planned(make_plan(1), 10),
    Repaired(1, "d2", {"partials": "p2", "output": "o"}, "lost", is_everything_dirty=False),
    SwitchPlanned(make_plan(1), "b"),
    BuildClosed(),
)
OTHERWISE = {Audited, Done, Aborted, Switched, BuildOpened, BuildStarted, Dropped, Snapshot}
"""Events that follow a plan, a switch or nothing, and the one that replaces all."""


@pytest.mark.parametrize("event", HARMLESS, ids=lambda e: type(e).__name__)
def test_what_no_plan_is_made_of_leaves_the_basis(event: Event) -> None:
    """
    Leases, deliveries, names in catalogs, schedules, checks and maintenance change the state, and no plan.
    """
    after = applied(AT_REST, event)

    assert after != AT_REST
    assert after.basis == AT_REST.basis


@pytest.mark.parametrize("event", HARMFUL, ids=lambda e: type(e).__name__)
def test_what_a_plan_is_made_of_changes_the_basis(event: Event) -> None:
    """
    A plan that was made before such an event is void.
    """
    assert applied(AT_REST, event).basis != AT_REST.basis


def test_the_end_of_a_plan_changes_the_basis() -> None:
    """
    Done or aborted, the log or the numbers are other ones; a verdict withholds spans.
    """
    state = applied(AT_REST, Planned(make_plan(1), 10))
    ends = [Done(1, REPORT), Aborted(1, "the disk is full"), Audited(1, ((0, 10),), {"rows": 1})]

    assert all(applied(state, event).basis != state.basis for event in ends)


def test_every_event_is_looked_at() -> None:
    """
    A new kind of event has to be put among those that leave a plan right, or those that make it void.
    """
    named = {type(e) for e in (*HARMLESS, *HARMFUL)} | OTHERWISE

    assert set(get_args(Event)) == named
    assert Defined in named


def test_a_fold_of_the_journal_keeps_the_basis() -> None:
    """
    A state that was read from a snapshot is equal to the state that was folded from events.
    """
    assert from_json(AggregateState, as_json(AT_REST)).basis == AT_REST.basis
