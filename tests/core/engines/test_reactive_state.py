"""Running state: how measures are read, and that a plan touches whatever a change can touch."""

from __future__ import annotations

import random

import pytest

from materializer.core.engines import freezing
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.engines.reactive_state import ReactiveState
from materializer.core.time.spans import NEG_INF, POS_INF
from tests.core.engines.histories import Clock, History, Kind, expected, hold, keeps_true
from tests.core.engines.naive_state import ABOUT, last_values, params_of


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_plan_keeps_moving_functions_true(rng: random.Random, n: int) -> None:
    """
    Kept rows with the planned ranges computed anew are the rows of the changed source.
    """
    planner = params_of(f"mavg(v, {n})").ranges

    hold(rng, Kind(most=9), lambda h: keeps_true(h, last_values(n), planner))


@pytest.mark.parametrize("recent", [-6, 0, 4])
def test_recent_rows_are_enough_or_it_says_so(rng: random.Random, recent: int) -> None:
    """
    With recent kept rows alone a plan is right, or the planner asks for all of them.
    """
    planner = params_of("mavg(v, 3)").ranges

    hold(rng, Kind(most=9), lambda h: keeps_true(h, last_values(3), planner, recent))


@pytest.mark.parametrize(("n", "recent"), [(1, None), (2, None), (4, None), (3, 0)])
def test_functions_look_back_on_kept_rows_where_raw_ones_are_gone(
    rng: random.Random, n: int, recent: int | None
) -> None:
    """
    Kept rows, with the ranges above a bound computed from the raw rows above it and the last kept rows below it where a range
    reaches it, are the rows of all that ever was.
    """
    p, naive = params_of(f"mavg(v, {n})"), last_values(n)

    def is_true(history: History) -> bool:
        bound = rng.randint(-10, 10)
        frozen = tuple(row for row in history.before if row.t < bound)
        above = History(history.before, frozen + tuple(row for row in history.after if row.t >= bound))
        kept = naive(history.before, None, Clock())
        shown = [k.kept for k in kept if recent is None or k.w_start >= recent]
        plan = p.ranges(above.spans(), shown, is_complete=recent is None)
        if plan is None:
            return recent is not None
        cut = freezing.above(p, plan, bound, shown)
        found = [k for k in kept if not any(r.start <= k.w_start < r.end for r in cut)]
        for r in cut:
            raw = [row for row in above.after if r.raw_start <= row.t < r.raw_end and row.t >= bound]
            context = sorted(frozen)[-p.lookback :] if r.raw_start <= bound and p.lookback else []
            found += [x for x in naive([*context, *raw], None, Clock()) if r.start <= x.w_start < r.end]
        return sorted(found, key=lambda x: (x.w_start, x.values)) == expected(above, naive)

    hold(rng, Kind(most=9), is_true)


def test_what_functions_look_back_on_is_stored_once() -> None:
    """
    Each argument of a function that looks back, and no other.
    """
    p = params_of(
        "cumsum(price)", "mavg(price, 3)", "price - prev(price)", "deltas(size, 2)", "mmax(x, 1) + move(y, 0)"
    )

    assert {"price": "x_arg1", "size": "x_arg3"} == p.arguments


def test_a_change_touches_as_many_rows_as_a_function_looks_back() -> None:
    """
    With ``mavg`` over 3 rows: the changed row and the two after it, from the two before it.
    """
    kept = [StoredResult(t, t, t, t, True, 1) for t in range(0, 100, 10)]

    assert params_of("mavg(v, 3)").ranges([(45, 45)], kept, is_complete=True) == [Range(45, 61, 30, 61)]
    assert params_of("prev(v)").ranges([(45, 45)], kept, is_complete=True) == [Range(45, 51, 40, 51)]
    assert params_of("v + 1").ranges([(45, 45)], kept, is_complete=True) == [Range(45, 46, 45, 46)]


def test_a_change_touches_every_later_row_of_a_running_sum() -> None:
    """
    A cumulative function is computed on from the first change to the end of the key.
    """
    kept = [StoredResult(t, t, t, t, True, 1) for t in range(0, 100, 10)]
    both = params_of("cumsum(v)", "mavg(v, 2)")

    assert params_of("cumsum(v)").ranges([(45, 45), (70, 70)], kept, is_complete=True) == [
        Range(45, POS_INF, 45, POS_INF)
    ]
    assert both.ranges([(45, 45)], kept, is_complete=True) == [Range(45, POS_INF, 40, POS_INF)]


def test_rows_that_may_be_gone_are_not_counted_on() -> None:
    """
    Kept rows inside a changed span may be deleted, so a plan reaches past them on both sides.
    """
    kept = [StoredResult(t, t, t, t, True, 1) for t in range(0, 100, 10)]

    assert params_of("prev(v)").ranges([(30, 40), (50, 50)], kept, is_complete=True) == [Range(30, 61, 20, 61)]


def test_state_is_only_carried_from_a_row_that_was_shown() -> None:
    """
    Without a kept row before the change the state to go on from is unknown, unless there is none.
    """
    kept = [StoredResult(50, 50, 50, 50, True, 1)]

    assert params_of("cumsum(v)").ranges([(40, 40)], kept, is_complete=False) is None
    assert params_of("cumsum(v)").ranges([(40, 40)], kept, is_complete=True) == [Range(40, POS_INF, 40, POS_INF)]
    assert params_of("prev(v)").ranges([(40, 40)], kept, is_complete=True) == [Range(40, 51, NEG_INF, 51)]


def test_measures_are_taken_apart() -> None:
    """
    Calls of state functions, each once, and formulas over their values and the row.
    """
    p = params_of("mavg(price * 2, 3)", "price - MAVG( price * 2 , 3)", "deltas(price)", "upper(sym)", filter="m0 > 1")

    assert p.calls == (("mavg", "price * 2", 3), ("deltas", "price", 1))
    assert p.metrics == (("m0", "_call_0"), ("m1", "price - _call_0"), ("m2", "_call_1"), ("m3", "upper(sym)"))
    assert p.reads == ("m0", "price", "sym")
    assert p.lookback == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("sum(price)", "definition.row-aggregate"),
        ("cumsum(avg(price))", "definition.row-aggregate"),
        ("mavg(cumsum(price), 3)", "definition.nested-state"),
        ("mavg(price)", "definition.wrong-arguments"),
        ("mavg(price, 0)", "definition.wrong-arguments"),
        ("mavg(price, n)", "definition.wrong-arguments"),
        ("cumsum(price, 2)", "definition.wrong-arguments"),
        ("move(price, -1)", "definition.wrong-arguments"),
        ("prev()", "definition.wrong-arguments"),
        ("mavg(price, 3", "definition.syntax"),
        ("rand()", "definition.non-deterministic"),
        ("mvag(price, 3)", "definition.unknown-function"),
    ],
)
def test_wrong_measures_are_refused(text: str, code: str) -> None:
    """
    Each is one trouble with its code, which names the measure.
    """
    params, troubles = ReactiveState.read({"metrics": [["m", text]]}, ABOUT)

    assert params is None
    assert [t.code for t in troubles] == [code]
    assert "measure 'm'" in troubles[0].message


def test_all_troubles_are_told_at_once() -> None:
    """
    A wrong measure hides neither another one nor a wrong parameter.
    """
    given = {"metrics": [["a", "sum(x)"], ["b", "mavg(x)"]], "filter": "max(x) > 1", "fliter": "x", "keep_order": 3}
    _, troubles = ReactiveState.read(given | {"key_purge_filter": "x > 1"}, ABOUT)

    assert len(troubles) == 6


def test_move_by_nothing_is_the_row_itself() -> None:
    """
    ``move(x, 0)`` looks back over no row.
    """
    assert params_of("move(v, 0)").lookback == 0
