"""What a repair decides, for everything that can be found; no table, no JVM."""

from __future__ import annotations

import itertools

import pytest

from materializer.core.refresh.plan import Lane, Plan, TableBase
from materializer.core.time.spans import Span
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.repair.diagnose import READABLE, DiagnosedTable, Diagnosis, TableCondition
from materializer.services.repair.plan import Mending, Old, Table, repair_plan

N = {
    TableCondition.SOUND: 7,
    TableCondition.AHEAD: 12,
    TableCondition.BEHIND: 3,
    TableCondition.OTHER: 9,
    TableCondition.DAMAGED: 7,
    TableCondition.OTHER_HISTORY: 7,
}
BASE = TableBase("t", 1)
PLAN = Plan("p", 8, 1, Span(0, 10), (), (), Lane.DRIVER, BASE, BASE)


def state_of(plan: Plan | None = None, engine: str = "continuous_aggregate") -> AggregateState:
    source, tables = SourceIdentity("/s", "s"), {"partials": "p", "output": "o"}
    return AggregateState("a", "bars", {"engine": engine}, "d", source, {}, tables, 0, last_n=8, written_n=7, plan=plan)


def found(partials: TableCondition, output: TableCondition, plan: Plan | None = None, **others: object) -> Diagnosis:
    seen = [
        DiagnosedTable(
            which, v, "" if v is TableCondition.SOUND else "told", N.get(v, 0), "t", fits_plan=v is TableCondition.SOUND
        )
        for which, v in (("partials", partials), ("output", output))
    ]
    return Diagnosis("bars", *seen, plan=plan, **others)  # type: ignore[arg-type]


EVERY = [
    (p, o, plan, engine)
    for p, o in itertools.product(TableCondition, TableCondition)
    for plan in (None, PLAN)
    for engine in ("continuous_aggregate", "session_window")
]


@pytest.mark.parametrize(("partials", "output", "plan", "engine"), EVERY)
def test_what_holds_of_every_repair(
    partials: TableCondition, output: TableCondition, plan: Plan | None, engine: str
) -> None:
    """
    Nothing foreign is removed, nothing unproven stays clean, and numbers never go back.
    """
    todo = repair_plan(found(partials, output, plan), state_of(plan, engine))
    if (partials, output) == (TableCondition.SOUND, TableCondition.SOUND):
        assert Mending("bars", ()) == todo
        return

    assert todo.is_everything_dirty or partials is TableCondition.SOUND
    assert (todo.output is Table.REBUILT) <= (partials in READABLE)
    assert todo.output is not Table.EMPTY or partials not in READABLE
    is_removable = output in {TableCondition.OTHER, TableCondition.BEHIND, TableCondition.OTHER_HISTORY}
    assert (todo.old_output is Old.REMOVED) <= is_removable
    assert todo.old_output is Old.ASIDE if output in {TableCondition.FOREIGN, TableCondition.DAMAGED} else True
    numbers = (7, N.get(partials, 0), N.get(output, 0), *([8] if plan else []))
    assert todo.n > max(numbers) if todo.is_everything_dirty else todo.n == (8 if plan else 7)
    assert (todo.abandons == 8) == (plan is not None)
    assert len(todo.steps) == len(set(todo.steps)) > 1


def test_a_lost_output_costs_no_raw_row() -> None:
    """
    Partials that are as the journal says give the output back, whatever stands in its place.
    """
    for output in set(TableCondition) - {TableCondition.SOUND, TableCondition.AHEAD}:
        todo = repair_plan(found(TableCondition.SOUND, output), state_of())
        assert (False, Table.REBUILT, 7) == (todo.is_everything_dirty, todo.output, todo.n)
        assert any("no row of the source is read" in step for step in todo.steps)


@pytest.mark.parametrize("others", [{"events": "an event cannot be read"}, {"source": SourceIdentity("/s", "another")}])
def test_what_the_tables_cannot_tell_makes_everything_dirty(others: dict[str, object]) -> None:
    """
    Lost events and another source are damage although both tables are sound.
    """
    todo = repair_plan(found(TableCondition.SOUND, TableCondition.SOUND, **others), state_of())

    assert (True, Table.KEPT, Table.KEPT, 9) == (todo.is_everything_dirty, todo.partials, todo.output, todo.n)


def test_a_refresh_that_cannot_be_ended_is_given_up_with_everything() -> None:
    """
    When recovery was tried and refused, the tables are not believed.
    """
    todo = repair_plan(found(TableCondition.SOUND, TableCondition.SOUND, PLAN), state_of(PLAN), gives_up=True)

    assert (8, True, 9) == (todo.abandons, todo.is_everything_dirty, todo.n)
