"""Plans that take longer than what is committed meanwhile, over both kinds of ports; no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.time.instants import DAY
from materializer.core.time.spans import Span
from materializer.errors import JournalConflictError, LeaseLostError
from materializer.journal.events import (
    Checked,
    Delivered,
    Described,
    Event,
    Invalidated,
    Lease,
    LeaseReleased,
    LeaseRenewed,
)
from materializer.journal.state import AggregateState
from materializer.services.commit.ports import DeltaPorts
from materializer.services.planning.runs import Request
from materializer.services.protocol import steps
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import PLANS, At, OwnTableHead, Process, Which
from tests.appending import append
from tests.services.no_spark import Lake, each, view

LEASE = Lease("me", "", 0, 0, 0.0)


def dirty(day: int) -> Invalidated:
    """Return what declares a day dirty."""
    return Invalidated((Entry(Span(day * DAY, (day + 1) * DAY), None, Cause.INVALIDATED, gone=ANY_ROWS),))


class Slow:
    """Ports whose plan ends after others have committed.

    Args:
        ports: The ports.
        meanwhile: What is done during each plan.
    """

    def __init__(self, ports: DeltaPorts, *meanwhile: Callable[[], None]) -> None:
        self._ports = ports
        self._meanwhile = list(meanwhile)
        self.plans = 0

    def __getattr__(self, name: str) -> Any:
        """Return the port's method."""
        return getattr(self._ports, name)

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """Plan, and let others commit."""
        self.plans += 1
        decision = self._ports.decide(state, heads)
        if self._meanwhile:
            self._meanwhile.pop(0)()
        return decision


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with two aggregates of which nothing was computed yet."""
    lake = Lake(tmp_path)
    lake.apply(view("days", each("1 day")), view("weeks", each("7 days")))
    lake.add((1, 1), (2, 2))
    return lake


def committing(lake: Lake, *events: Event, to: str = "days") -> Callable[[], None]:
    """Return what commits events of an aggregate in one commit."""
    return lambda: append(lake.opened.journal, *[(lake.state(to).id, event) for event in events])


def planned(lake: Lake, *meanwhile: Callable[[], None]) -> tuple[Slow, Process]:
    """Return the ports, and the process after it has planned a refresh of the days."""
    ports = Slow(lake.wired.ports(lake.state("days"), Request()), *meanwhile)
    process = Process(LEASE)
    while process.at is not At.COMPUTE:
        process = steps.advance(process, ports)
    return ports, process


@pytest.mark.parametrize(
    ("event", "of"),
    [
        (LeaseRenewed(LEASE.owner, 7.0), "days"),
        (Delivered(3), "days"),
        (Checked({"n": 1}), "days"),
        (dirty(0), "weeks"),
    ],
    ids=["its lease", "a delivery", "a check", "another aggregate"],
)
def test_a_plan_outlives_a_commit_that_it_was_not_made_of(lake: Lake, event: Event, of: str) -> None:
    """
    It is planned once, and its plan is in the journal after the other commit.
    """
    ports, process = planned(lake, committing(lake, event, to=of))

    assert process.plan is not None
    assert (1, process.plan.id) == (ports.plans, lake.state("days").plan.id)


def test_a_plan_is_made_anew_after_its_aggregate_changed(lake: Lake) -> None:
    """
    A bucket is declared dirty while it is planned: the plan that is appended knows of it.
    """
    ports, process = planned(lake, committing(lake, dirty(0)))

    assert process.plan is not None
    assert 2 == ports.plans
    assert ANY_ROWS in {entry.gone for entry in process.plan.taken}


def test_a_plan_is_made_anew_after_a_table_moved(lake: Lake) -> None:
    """
    Somebody commits to the partials while the aggregate is planned, and to the journal: the plan is based on what they are now.
    """

    def committed() -> None:
        DeltaTable(path).alter.set_table_properties({"delta.checkpointInterval": "20"})
        committing(lake, Delivered(3))()

    path = lake.wired.aggregate(lake.state("days")).paths["partials"]
    ports, process = planned(lake, committed)

    assert process.plan is not None
    assert (2, ports.head(Which.PARTIALS).version) == (ports.plans, process.plan.partials.version)


def test_a_plan_is_not_appended_without_the_lease(lake: Lake) -> None:
    """
    The lease was given away while it was planned: nothing is planned again, and the journal has no plan.
    """
    with pytest.raises(LeaseLostError):
        planned(lake, committing(lake, LeaseReleased(LEASE.owner)))
    assert lake.state("days").plan is None


def test_plans_are_bounded(lake: Lake) -> None:
    """
    The aggregate changes during every plan: the refresh gives up after a few plans, and says that nothing was written.
    """
    spec = lake.state("days").spec
    meanwhile = [committing(lake, Described({**spec, "comment": f"{n}"})) for n in range(PLANS + 1)]
    ports = Slow(lake.wired.ports(lake.state("days"), Request()), *meanwhile)
    process = Process(LEASE)
    while process.at is not At.PLAN:
        process = steps.advance(process, ports)
    with pytest.raises(JournalConflictError) as caught:
        steps.advance(process, ports)

    assert PLANS == ports.plans
    assert lake.state("days").plan is None
    assert "nothing was written" in caught.value.wrote
