"""What the protocol may rely on, of its ports in memory as of those over Delta tables; no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from materializer.adapters.memory.lake import MemoryLake, spans_of
from materializer.adapters.memory.ports import MemoryPorts
from materializer.adapters.memory.switch_ports import NEW, MemorySwitchPorts, MemoryVersions
from materializer.core.refresh.plan import Lane, Plan, Recompute, TableBase
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import JournalConflictError, NotCoveredError, WriteFencedError
from materializer.journal.events import Aborted, Captured, Lease, LeaseReleased, LeaseTaken, Planned
from materializer.lake.computed import Computed
from materializer.services.planning.runs import Request
from materializer.services.protocol.process import BOTH, CommitsGoneError, OwnTableHead, Ports, Which
from tests.services.no_spark import Lake, each, view

LEASE = Lease("me", "here", 1, 1, 0.0)


class Outside(NamedTuple):
    """Ports, and what only a test does to what lies behind them.

    Args:
        ports: The ports.
        result: A computed result without rows.
        forget: Makes the commits of a table so far unreadable.
    """

    ports: Ports
    result: Any
    forget: Callable[[Which], None]

    def plan(self, n: int, plan_id: str = "") -> Plan:
        """Return a plan that was made over the tables as they are now."""
        bases = [TableBase(head.table_id, head.version) for head in self.heads()]
        step = Recompute(spans_of([0]), "")
        return Plan(plan_id or f"plan-{n}", n, 0, Span(0, 10), (), (step,), Lane.DRIVER, *bases)

    def heads(self) -> list[OwnTableHead]:
        """Return the heads of both tables."""
        return [self.ports.head(which) for which in Which]

    def has_commits(self, plan: Plan) -> list[bool]:
        """Return which tables have a commit of a plan."""
        return [self.ports.has_commit(which, plan) for which in Which]


def in_memory(_: Path) -> Outside:
    """Return the ports in memory."""
    ports = MemoryPorts(MemoryLake.first(), LEASE.owner, (0, 1))

    def forget(which: Which) -> None:
        table = ports.table(which)
        ports.put(which, table._replace(gone=len(table.commits)))

    return Outside(ports, (), forget)


def in_delta(root: Path) -> Outside:
    """Return the ports over Delta tables of an aggregate that was just defined."""
    lake = Lake(root)
    lake.apply(view("days", each("1 day")))
    ports = lake.wired.ports(lake.state("days"), Request())
    paths = ports.aggregate.paths
    partials, output = (DeltaTable(paths[which.value]).to_pyarrow_table() for which in Which)

    def forget(which: Which) -> None:
        table = DeltaTable(paths[which.value])
        table.alter.set_table_properties({"delta.checkpointInterval": "20"})
        table.create_checkpoint()
        for file in sorted((Path(paths[which.value]) / "_delta_log").glob("*.json"))[:-1]:
            file.unlink()

    return Outside(ports, Computed(partials, output, 0, 0, 0, 0, ""), forget)


@pytest.fixture(params=[in_memory, in_delta], ids=["memory", "delta"])
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> Outside:
    """The ports of an aggregate on which nothing was done yet."""
    found: Outside = request.param(tmp_path)
    return found


class TestTheProtocolsPorts:
    """The contract of the ports; each test runs over both."""

    def test_an_append_is_by_compare_and_swap(self, outside: Outside) -> None:
        """
        The state has what was appended, and what was decided on an older version is refused.
        """
        version, state = outside.ports.read()
        assert state.lease is None
        outside.ports.append(version, [LeaseTaken(LEASE)])
        with pytest.raises(JournalConflictError):
            outside.ports.append(version, [LeaseReleased(LEASE.owner)])

        assert outside.ports.read()[1].lease == LEASE

    def test_a_table_begins_without_a_number(self, outside: Outside) -> None:
        """
        Its identity stays, whatever is committed.
        """
        before = outside.heads()
        assert [0, 0] == [head.n for head in before]
        outside.ports.fence(Which.OUTPUT, outside.plan(4))
        after = outside.heads()

        assert [head.table_id for head in before] == [head.table_id for head in after]
        assert [0, 4] == [head.n for head in after]

    def test_a_fence_is_no_commit_of_the_plan_and_refuses_it(self, outside: Outside) -> None:
        """
        It records the number once; a plan that comes late writes nothing and is refused, and so is an older one.
        """
        plan, older = outside.plan(3), outside.plan(2)
        for which in Which:
            outside.ports.fence(which, plan)
        fenced = outside.heads()
        for which in Which:
            outside.ports.fence(which, plan)
        for late in (plan, older):
            with pytest.raises(WriteFencedError):
                outside.ports.write(late, outside.result, BOTH)

        assert fenced == outside.heads()
        assert [False] * 4 == [*outside.has_commits(plan), *outside.has_commits(older)]

    @pytest.mark.parametrize("which", Which)
    def test_a_written_table_carries_the_plan(self, outside: Outside, which: Which) -> None:
        """
        Only that table does, once, and no other plan is seen in it.
        """
        plan, other = outside.plan(1), outside.plan(2)
        outside.ports.write(plan, outside.result, frozenset({which}))
        written = outside.heads()
        outside.ports.write(plan, outside.result, frozenset({which}))

        assert written == outside.heads()
        assert [one is which for one in Which] == outside.has_commits(plan)
        assert [int(one is which) for one in Which] == [head.n for head in written]
        assert not outside.ports.has_commit(Which.OUTPUT if which is Which.PARTIALS else Which.PARTIALS, other)

    def test_commits_that_are_gone_are_not_taken_for_absent(self, outside: Outside) -> None:
        """
        Nothing says whether the plan's was among them; a plan that is made afterwards is read again.
        """
        plan = outside.plan(1)
        outside.ports.write(plan, outside.result, BOTH)
        outside.forget(Which.PARTIALS)
        with pytest.raises(CommitsGoneError):
            outside.ports.has_commit(Which.PARTIALS, plan)

        assert outside.ports.has_commit(Which.OUTPUT, plan)
        later = outside.plan(2)
        outside.ports.write(later, outside.result, BOTH)
        assert [True, True] == outside.has_commits(later)


def test_what_the_protocol_forbids_is_noted() -> None:
    """
    The first of them stays: an append without the lease, then an aborted plan that is published.
    """
    ports = MemoryPorts(MemoryLake.first(), "late", (0,))
    plan = in_memory(Path()).plan(1)
    for event in (LeaseTaken(LEASE), Planned(plan, 10), Aborted(1, "dead")):
        ports.append(ports.read()[0], [event])
    assert "lease: Planned by process late, which does not hold it" == ports.lake.wrong

    ports.lake = ports.lake._replace(wrong="")
    ports.publish(plan, SpanSet())
    assert "aborted: output of plan-1 is published" == ports.lake.wrong


@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_a_lake_has_as_many_buckets_as_it_is_given(buckets: int) -> None:
    """
    A refresh of all of them plans, computes and publishes each.
    """
    lake = MemoryLake.first(buckets)._replace(source=tuple(("insert", b) for b in range(buckets)))
    ports = MemoryPorts(lake, "me", range(buckets))
    ports.append(ports.read()[0], [LeaseTaken(LEASE)])
    decision = ports.decide(lake.state, {which: ports.head(which) for which in Which})
    assert decision.plan is not None
    ports.write(decision.plan, ports.compute(decision.plan, None), BOTH)

    assert (1,) * buckets == ports.lake.partials.values == ports.lake.output.values


def test_a_switch_copies_the_build_or_is_refused() -> None:
    """
    Rows of the next version replace those of the old one, where the build covers what is published.
    """
    versions = MemoryVersions.first()._replace(source=(("insert", 0),))
    building = MemorySwitchPorts(versions, "me", NEW, (0, 1), is_build=True)
    plan = in_memory(Path()).plan(1)
    building.write(plan, [(0, 101), (1, 100)], BOTH)
    ports = MemorySwitchPorts(building.versions, "me", "d1", (0, 1), is_build=False)
    _, state, build = ports.read_both()
    assert build is not None
    ports.refuse_switch(state, build)
    ports.copy_build(plan, build)
    ports.fence_build(plan, build)

    assert ((101, 100), (0, 0)) == (ports.lake.output.values, ports.lake.partials.values)
    assert (True, False) == (ports.has_commit(Which.OUTPUT, plan), ports.has_commit(Which.PARTIALS, plan))
    ports.append(ports.read()[0], [Captured(1, ())])
    _, state, build = ports.read_both()
    assert build is not None
    with pytest.raises(NotCoveredError):
        ports.refuse_switch(state, build)
