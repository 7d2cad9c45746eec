"""What of a plan is guarded against missing raw rows; no table, no JVM."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from materializer.core.language.define import define
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.refresh.plan import Lane, Merge, Plan, Recompute, Settle, Step, TableBase
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.core.time.spans import POS_INF, Span, SpanSet
from materializer.services.planning.row_loss import counts_gone, spans_by_gone

BASE = TableBase("t", 1)
SPEC = define("v", "t", time="ts", width="10", measures={"s": "sum(x)"})
GRID = build(SPEC.grid, TimeType.BIGINT, SPEC.resolution)
IS_COUNTED = {
    Cause.CHANGE: False,
    Cause.FILES: False,
    Cause.FORCED: True,
    Cause.INVALIDATED: True,
    Cause.LOST: True,
    Cause.SOURCE: False,
    Cause.NEW: False,
    Cause.DIFFERED: False,
    Cause.REPAIRED: False,
    Cause.CONFLICT: False,
    Cause.RETIRED: False,
}
"""Of each cause whether its buckets are counted before they are computed; a new one has to say so here."""


def plan_of(taken: list[Entry], *steps: Step) -> Plan:
    return Plan("p", 8, 1, Span(0, 100), tuple(taken), steps, Lane.DRIVER, BASE, BASE)


def spans(*edges: tuple[int, int]) -> SpanSet:
    return SpanSet.union(Span(*e) for e in edges)


@pytest.mark.parametrize("cause", list(Cause))
def test_what_no_captured_change_explains_is_guarded(cause: Cause) -> None:
    """
    Buckets that a change, a repair or nothing yet made dirty are computed as they are; the others are counted first.
    """
    plan = plan_of([Entry(Span(0, 10), None, cause, gone=3)], Recompute(spans((0, 10)), ""))
    assert ({3: spans((0, 10))} if IS_COUNTED[cause] else {}) == spans_by_gone(plan)


def test_only_what_is_computed_from_raw_rows_is_guarded() -> None:
    """
    Merged, settled and discarded buckets are not, nor are those from which all rows may have gone.
    """
    taken = [Entry(Span(start, start + 10), None, Cause.LOST) for start in (0, 10, 20, 30)]
    taken.append(Entry(Span(40, 50), None, Cause.INVALIDATED, gone=ANY_ROWS))
    taken.append(Entry(Span(50, 60), None, Cause.FORCED, gone=2))
    steps = [
        Merge(spans((0, 10)), 3),
        Settle(spans((10, 20))),
        Recompute(spans((20, 25), (40, 60)), ""),
        Recompute(spans((30, 40)), "", is_discard=True),
    ]
    assert {0: spans((20, 25)), 2: spans((50, 60))} == spans_by_gone(plan_of(taken, *steps))


@pytest.mark.parametrize("cause", ["forced", "invalidated", "lost"])
def test_what_was_asked_for_declared_or_lost_is_guarded(cause: str) -> None:
    """
    None of the three says which rows went.
    """
    plan = plan_of([Entry(Span(0, 10), None, Cause[cause.upper()])], Recompute(spans((0, 10)), ""))
    assert {0: spans((0, 10))} == spans_by_gone(plan)


def test_what_one_number_of_rows_went_from_is_guarded_together() -> None:
    """
    Spans apart from each other, from which as many rows went at most.
    """
    taken = [Entry(Span(0, 10), None, Cause.LOST, gone=1), Entry(Span(20, 30), None, Cause.LOST, gone=1)]
    assert {1: spans((0, 10), (20, 30))} == spans_by_gone(plan_of(taken, Recompute(spans((0, 30)), "")))


@pytest.mark.parametrize("mistrusted", [Cause.REPAIRED, Cause.DIFFERED])
def test_what_may_be_counted_wrong_itself_guards_nothing(mistrusted: Cause) -> None:
    """
    After a repair or a found difference the kept counts of an engine may be wrong anywhere, beside a forced span too.
    """
    forced, other = Entry(Span(0, 10), None, Cause.FORCED), Entry(Span(50, 60), None, mistrusted)
    step = Recompute(spans((0, 10), (50, 60)), "")

    assert counts_gone(plan_of([forced], step), GRID, 1) == 0
    assert counts_gone(plan_of([other], step), GRID, 1) is None
    assert counts_gone(plan_of([forced, other], step), GRID, 1) is None


@pytest.mark.parametrize("told", [Cause.CHANGE, Cause.FILES, Cause.NEW, Cause.RETIRED])
def test_results_of_captured_changes_are_not_guarded(told: Cause) -> None:
    """
    An engine's results are guarded where some cause does not say which rows went, beside those that do.
    """
    captured, forced = Entry(Span(0, 10), None, told), Entry(Span(50, 60), None, Cause.LOST)
    step = Recompute(spans((0, 10), (50, 60)), "")

    assert counts_gone(plan_of([captured], step), GRID, 1) is None
    assert counts_gone(plan_of([captured, forced], step), GRID, 1) == 0


def test_rows_that_were_seen_to_go_are_missing_from_each_result_they_can_be_in() -> None:
    """
    Three rows of any of two buckets, each in up to four results: 24 counts less; unknown where that has no bound.
    """
    forced, seen = Entry(Span(0, 10), None, Cause.FORCED, gone=3), Entry(Span(50, 60), None, Cause.CHANGE, gone=3)
    step = Recompute(spans((0, 10), (50, 60)), "")

    assert counts_gone(plan_of([forced, seen], step), GRID, 4) == 24
    assert counts_gone(plan_of([forced, seen], step), GRID, None) is None
    assert counts_gone(plan_of([forced, replace(seen, gone=ANY_ROWS)], step), GRID, 4) is None
    assert counts_gone(plan_of([forced, replace(seen, span=Span(50, POS_INF))], step), GRID, 4) is None
