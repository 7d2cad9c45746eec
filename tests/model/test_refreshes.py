from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from materializer.adapters.memory.lake import MemoryLake, spans_of
from materializer.adapters.memory.ports import MemoryPorts
from materializer.journal.events import Lease
from materializer.services.protocol import refresh_steps
from materializer.services.protocol.process import At, Process
from tests.model.exploration import BUCKETS, COMMITS, WINDOWS, broken_rules

MERGING = st.sampled_from([(), (0,), (1,), (0, 1)])


class Refresh(NamedTuple):
    """A refresh of some buckets that merges some of them where it may, and dies after so many steps (None: never)."""

    window: tuple[int, ...]
    merging: tuple[int, ...] = ()
    dies_after: int | None = None


REFRESHES = st.builds(Refresh, st.sampled_from(WINDOWS), MERGING, st.none() | st.integers(0, 8))
CHANGES = st.sampled_from(COMMITS)


def refreshed(world: MemoryLake, refresh: Refresh) -> MemoryLake:
    """Return the world after a refresh that takes the lease over from whoever has it."""
    ports = MemoryPorts(world, "p", refresh.window, refresh.merging)
    process, count = Process(Lease("p", "", 0, 0, 0.0)), 0
    while process.at is not At.END and count != refresh.dies_after:
        process, count = refresh_steps.advance(process, ports), count + 1
    return ports.lake


def changed(world: MemoryLake, change: tuple[str, int]) -> MemoryLake:
    """Return the world after a source commit; deleting what is not there does nothing."""
    if change[0] == "delete" and world.truth(change[1], len(world.source)) == 0:
        return world
    return world._replace(source=(*world.source, change))


def happened(world: MemoryLake, what: list[tuple[str, int] | Refresh]) -> MemoryLake:
    """Return the world after source commits and refreshes, one after another."""
    for each in what:
        world = refreshed(world, each) if isinstance(each, Refresh) else changed(world, each)
    return world


@st.composite
def worlds(draw: st.DrawFn) -> MemoryLake:
    """A world with some history, in which refreshes may have died."""
    return happened(MemoryLake.first(), draw(st.lists(CHANGES | REFRESHES, max_size=12)))


def result(world: MemoryLake) -> tuple[object, ...]:
    """Return everything that the order of refreshes must not show in."""
    state = world.state
    return world.partials.values, world.output.values, state.log, state.threshold, state.cursor, state.plan


@given(worlds(), MERGING)
def test_a_refresh_makes_its_window_true(world: MemoryLake, merging: tuple[int, ...]) -> None:
    """
    After any history, a refresh of everything leaves both tables equal to the source, whichever strategy it takes.
    """
    after = refreshed(world, Refresh(BUCKETS, merging))
    truth = tuple(world.truth(b, len(world.source)) for b in BUCKETS)

    assert truth == after.output.values == after.partials.values
    assert not after.state.log.spans & spans_of(BUCKETS)
    assert not list(broken_rules(after))


@given(worlds(), st.sampled_from(WINDOWS))
def test_planning_again_plans_nothing(world: MemoryLake, window: tuple[int, ...]) -> None:
    """
    A second refresh of the same window writes nothing and gives no number away.
    """
    once = refreshed(world, Refresh(window))

    assert once == refreshed(once, Refresh(window))


@given(worlds(), MERGING)
def test_disjoint_refreshes_commute(world: MemoryLake, merging: tuple[int, ...]) -> None:
    """
    First one bucket and then the other comes to the same as the other way round, and as both at once.
    """
    one, other = Refresh((0,), merging), Refresh((1,), merging)
    both = result(happened(world, [one, other]))

    assert both == result(happened(world, [other, one])) == result(refreshed(world, Refresh(BUCKETS, merging)))


@given(worlds(), st.integers(0, 9), st.sampled_from(WINDOWS), MERGING)
def test_a_death_changes_nothing(
    world: MemoryLake, step: int, window: tuple[int, ...], merging: tuple[int, ...]
) -> None:
    """
    A refresh that dies at any step, and another one after it, come to what the other one alone comes to.
    """
    died = refreshed(world, Refresh(window, merging, dies_after=step))

    assert result(refreshed(died, Refresh(BUCKETS))) == result(refreshed(world, Refresh(BUCKETS)))
