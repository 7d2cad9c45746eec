"""The query of running state against lists of values, between executors, and against itself when it goes on from kept rows."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.queries import reactive_state
from materializer.core.engines.ranges import Range
from materializer.spark.query.render import named, rendered
from tests.core.engines.histories import Kind, Result
from tests.core.engines.naive_state import params_of
from tests.spark.engines import frames

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from materializer.core.engines.engine_query import EngineQuery

Values = list[float | None]
N = 3


def moving(function: Callable[[list[float]], Any], empty: Any = None) -> Callable[[Values], Any]:
    """A function of the values among the last N rows."""

    def last(x: Values) -> Any:
        there = [v for v in x[-N:] if v is not None]
        return None if len(x) < N else function(there) if there else empty

    return last


def running(function: Callable[[list[float]], Any]) -> Callable[[Values], Any]:
    """A function of the values so far."""

    def so_far(x: Values) -> Any:
        there = [v for v in x if v is not None]
        return function(there) if there else None

    return so_far


def before(x: Values, n: int = 1) -> float | None:
    """The value n rows ago."""
    return x[-1 - n] if len(x) > n else None


def ema(x: Values) -> float | None:
    """The mean of the first N values, then each new value with the weight 2 / (N + 1)."""
    there = [v for v in x if v is not None]
    if len(there) < N:
        return None
    found = sum(there[:N]) / N
    for v in there[N:]:
        found += (v - found) * 2 / (N + 1)
    return found


def with_both(function: Callable[[float, float], Any]) -> Callable[[Values], Any]:
    """A function of a value and the one before it, null where one is."""
    return lambda x: None if x[-1] is None or before(x) is None else function(x[-1], before(x))


FUNCTIONS: dict[str, Callable[[Values], Any]] = {
    f"mavg(v, {N})": moving(lambda x: sum(x) / len(x)),
    f"msum(v, {N})": moving(sum),
    f"mmax(v, {N})": moving(max),
    f"mmin(v, {N})": moving(min),
    f"mstd(v, {N})": moving(lambda x: statistics.stdev(x) if len(x) > 1 else None),
    f"mcount(v, {N})": moving(len, 0),
    "prev(v)": before,
    f"move(v, {N})": partial(before, n=N),
    "deltas(v)": with_both(lambda x, y: x - y),
    "ratios(v)": with_both(lambda x, y: x / y if y else None),
    "cumsum(v)": running(sum),
    "cummax(v)": running(max),
    "cummin(v)": running(min),
    "cumavg(v)": running(lambda x: sum(x) / len(x)),
    "cumcount(v)": lambda x: sum(v is not None for v in x),
    f"ema(v, {N})": ema,
    "v * 2": lambda x: None if x[-1] is None else x[-1] * 2,
    "v - cumsum(v)": lambda x: None if x[-1] is None else x[-1] - sum(v for v in x if v is not None),
}


def states(rows: list[Row]) -> dict[frames.Key, list[Row]]:
    """Result rows by key, in order, without the id of their part."""
    found: dict[frames.Key, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r.w_start, r.x_ordinal)):
        found.setdefault(row.k_sym, []).append(row)
    return found


def without_part(row: Row) -> dict[str, Any]:
    """A result row as it is stored."""
    return {name: value for name, value in row.asDict().items() if name != "_part"}


TEXTS = [list(FUNCTIONS), [t for t in FUNCTIONS if t.startswith(("m", "p"))]]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", frames.EXECUTORS)
@pytest.mark.parametrize("texts", TEXTS, ids=["all", "looking back"])
def test_rows_are_those_of_plain_lists(
    spark: SparkSession, rng: random.Random, texts: list[str], executor: str
) -> None:
    """
    Every function, over all rows; and going on from kept rows gives the same rows to the last bit, as the other executor does.
    """
    histories = frames.drawn(rng, Kind(most=12))
    p = params_of(*texts)
    e = frames.query_of(p, {name: "" for name, _ in p.metrics})
    types = dict(_types(spark, e))

    def compute(rows: list[tuple[Any, ...]], more: str = "", by: str = executor) -> list[Row]:
        return frames.computing(by, spark, reactive_state, e, ClosingClock(), more)(rows, False)

    full = {b: states(compute(frames.all_rows(histories, lasting=False, before=b))) for b in (True, False)}
    for key, history in histories.items():
        ordered = sorted(history.after)
        values = [None if row.v is None else row.v / 10 for row in ordered]
        for i, row in enumerate(full[False].get(key, [])):
            wanted = [FUNCTIONS[text](values[: i + 1]) for text in texts]
            assert [row[f"v_{name}"] for name, _ in p.metrics] == [pytest.approx(w, abs=1e-9) for w in wanted]
            assert (row.w_start, row.label, row.n, row.is_final) == (ordered[i].t, ordered[i].t, 1, True)

    kept = {
        key: [Result(r.w_start, r.w_end, r.first_t, r.last_t, 1, True) for r in full[True].get(key, [])]
        for key in histories
    }
    plans = frames.planned(histories, kept, p.ranges)
    carried = [name for name in types if name.startswith("x_")]

    def carry(key: frames.Key, r: Range) -> tuple[Any, ...]:
        older = [row for row in full[True].get(key, []) if row.w_start < r.start]
        return tuple(older[-1][name] if older else None for name in carried)

    more = "".join(f", _carry_{name} {types[name]}" for name in carried)
    raw = frames.part_rows(histories, kept, plans, lasting=False, carry=carry)
    found = compute(raw, more)
    other = compute(raw, more, "local" if executor == "spark" else "spark")
    assert sorted(map(repr, map(without_part, found))) == sorted(map(repr, map(without_part, other)))
    cuts = {number: r for mine in plans.values() for number, r in mine}
    anew = states([row for row in found if frames.is_inside(row.w_start, [cuts[row["_part"]]])])
    for key in histories:
        mine = [r for r in full[True].get(key, []) if not frames.is_inside(r.w_start, [c for _, c in plans[key]])]
        merged = sorted(mine + anew.get(key, []), key=lambda r: (r.w_start, r.x_ordinal))
        assert list(map(without_part, merged)) == list(map(without_part, full[False].get(key, [])))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", frames.EXECUTORS)
@pytest.mark.parametrize("texts", TEXTS, ids=["all", "looking back"])
def test_rows_look_back_on_kept_ones(spark: SparkSession, rng: random.Random, texts: list[str], executor: str) -> None:
    """
    From a bound on, rows are those of all rows to the last bit, where the last kept ones below it stand before them: nothing is
    evaluated over these, of whose columns there are none.
    """
    histories = frames.drawn(rng, Kind(most=12))
    p = params_of(*texts, "1 / coalesce(id + 1, 0)", f"msum(1 DIV coalesce(id + 1, 0), {N})")
    e = frames.query_of(p, {name: "" for name, _ in p.metrics})
    rows = frames.all_rows(histories, lasting=False)
    full = states(frames.computing(executor, spark, reactive_state, e, ClosingClock())(rows, False))
    bound = rng.randint(-6, 6)
    fields = [(name, kind) for name, kind in _types(spark, e) if name.startswith("x_")]
    arguments = [(name, kind) for name, kind in fields if name in {"x_ordinal", *p.arguments.values()}]
    carried = [(name, kind) for name, kind in fields if p.is_cumulative and name not in p.arguments.values()]

    lines: list[tuple[Any, ...]] = []
    for key, history in histories.items():
        below = [row for row in full.get(key, []) if row.w_start < bound]
        carry = [below[-1][name] if below else None for name, _ in carried]
        above = [row for row in history.after if row.t >= bound]
        lines += [(*frames.cells(key, row, 0, None, lasting=False), *[None] * len(arguments), *carry) for row in above]
        kept = below[-p.lookback :]
        lines += [(key, None, None, r.w_start, 0, None, *[r[name] for name, _ in arguments], *carry) for r in kept]
    rng.shuffle(lines)
    more = "".join(f", _kept_{name} {kind}" for name, kind in arguments)
    more += "".join(f", _carry_{name} {kind}" for name, kind in carried)
    found = states(frames.computing(executor, spark, reactive_state, e, ClosingClock(), more)(lines, False))

    assert {"x_arg0", f"x_arg{len(p.calls) - 1}"} == {*p.arguments.values()}
    for key, mine in full.items():
        wanted = [without_part(row) for row in mine if row.w_start >= bound]
        assert wanted == list(map(without_part, found.get(key, [])))


def _types(spark: SparkSession, e: EngineQuery) -> list[tuple[str, str]]:
    raw = frames.frame(spark, [], lasting=False)
    return rendered(reactive_state.rows(named("raw", raw), e, ClosingClock()), {"raw": raw}).dtypes


@pytest.mark.parametrize("executor", frames.EXECUTORS)
def test_the_filter_chooses_what_is_shown_and_never_what_counts(spark: SparkSession, executor: str) -> None:
    """
    It may name columns of the row and metrics; null lets nothing through.
    """
    rows = [("a", i, v, i, 0, None) for i, v in enumerate((1.0, 2.0, None, -1.0))]
    p = params_of("cumsum(v)", "ema(v, 1)", filter="m0 > 1 AND v > 0")
    e = frames.query_of(p, dict(p.metrics))

    found = frames.computing(executor, spark, reactive_state, e, ClosingClock())(rows, False)

    assert [(r.v_m0, r.is_shown) for r in sorted(found, key=lambda r: r.w_start)] == [
        (1.0, False),
        (3.0, True),
        (3.0, False),
        (2.0, False),
    ]


def test_running_sums_keep_their_type(spark: SparkSession) -> None:
    """
    A sum of decimals or whole numbers goes on in the type in which it began.
    """
    raw = frames.frame(spark, [("a", 1, 1.0, 0, 0, None), ("a", 2, 2.5, 1, 0, None)], lasting=False)
    p = params_of("cumsum(CAST(v AS decimal(10, 2)))", "cumsum(id)")
    e = frames.query_of(p, dict(p.metrics))
    full = rendered(reactive_state.rows(named("raw", raw), e, ClosingClock()), {"raw": raw})
    first = full.where("w_start = 0").selectExpr("x_at _carry_x_at", "x_s0 _carry_x_s0", "x_s1 _carry_x_s1")

    on = raw.where("_t = 1").crossJoin(first)
    rest = rendered(reactive_state.rows(named("raw", on), e, ClosingClock()), {"raw": on})

    assert [f.dataType for f in rest.schema] == [f.dataType for f in full.schema]
    assert rest.collect() == full.where("w_start = 1").collect()
