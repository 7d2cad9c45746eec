"""Prices: what is learned from refreshes, and when one recompute takes the place of several steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate, ExecutorKind, Merge, Recompute, Retract, Settle
from materializer.core.refresh.price import BOUNDS, DOUBT, ENOUGH, RATES, RECENT, Prices, Taken, unlearned
from materializer.core.refresh.strategies import SCAN, Facts, decide, reason_of, together
from materializer.core.time.spans import Span, SpanSet

READ = Estimate(1_000, 10_000, 2, 500)


def taken(*ratios: float, executor: str = "local", strategy: str = "merge") -> list[Taken]:
    """Return refreshes that took so many times what was predicted."""
    return [Taken(executor, strategy, ratio, 1.0) for ratio in ratios]


def test_too_few_refreshes_teach_nothing() -> None:
    """
    Before there are enough, prices are those of the rates.
    """
    prices = Prices.learned(taken(*[3.0] * (ENOUGH - 1)))

    assert 1.0 == prices.factor("local")
    assert RATES[ExecutorKind.LOCAL].reading("merge", READ, 1) == prices.reading("local", "merge", READ, 1)


def test_the_middle_of_recent_refreshes_is_learned() -> None:
    """
    One slow start does not count, nor what is long ago; executors are apart.
    """
    prices = Prices.learned([*taken(*[9.0] * RECENT), *taken(*[2.0] * RECENT), *taken(50.0, 2.0, 2.0)])

    assert 2.0 == prices.factor("local", "merge")
    assert 2 * RATES[ExecutorKind.LOCAL].reading("merge", READ, 1) == prices.reading("local", "merge", READ, 1)
    assert 1.0 == prices.factor("spark", "merge")


def test_a_strategy_has_a_factor_of_its_own() -> None:
    """
    A strategy that takes longer than the others here becomes dearer than they are, within bounds: the more, the more of its
    refreshes say so.
    """
    prices = Prices.learned(
        [*taken(*[1.0] * 25), *taken(*[4.0] * DOUBT, strategy="recompute"), *taken(*[7.0] * 16, strategy="roll-up")]
    )

    assert (1.0, 2.0, 2.0, 1.0) == tuple(
        prices.factor("local", s) for s in ("merge", "recompute", "roll-up", "recompute-keys")
    )


@given(st.integers(ENOUGH, 15))
def test_few_refreshes_of_a_strategy_are_believed_little(count: int) -> None:
    """
    What one more of them says moves its factor towards what all of them say, and never beyond.
    """
    factors = [
        Prices.learned([*taken(*[1.0] * 30), *taken(*[1.5] * n, strategy="roll-up")]).factor("local", "roll-up")
        for n in (count, count + 1)
    ]

    assert 1.0 < factors[0] < factors[1] < 1.5


@given(st.lists(st.floats(1e-9, 1e9), min_size=ENOUGH, max_size=80))
def test_what_is_learned_is_bounded(ratios: list[float]) -> None:
    """
    However strange the reports are.
    """
    found = Prices.learned(taken(*ratios))

    assert BOUNDS[0] <= found.factor("local") <= BOUNDS[1]
    assert BOUNDS[0] / 2 <= found.factor("local", "merge") <= BOUNDS[1] * 2


def test_a_refresh_that_was_not_predicted_teaches_nothing() -> None:
    """
    Reports of earlier versions have no prediction.
    """
    assert {} == Prices.learned([Taken("local", "merge", 1.0, 0.0)] * 9).factors


def test_a_whole_refresh_has_a_floor_and_its_steps() -> None:
    """
    What is read, written and planned in several steps is added to the floor.
    """
    rates = RATES[ExecutorKind.SPARK]

    assert rates.floor == unlearned("spark", "recompute", Estimate(), 0, 1, {})
    assert rates.floor + 2 * rates.step + 10 * rates.written == pytest.approx(
        unlearned("spark", "recompute", Estimate(), 10, 3, {})
    )


# -- one recompute in place of several steps -----------------------------------------------------------------------------


def facts(**others: object) -> Facts:
    """Return facts in which each instant has a row, and a row takes a second."""
    found = Facts(
        raw=lambda spans: Estimate(_length(spans), 0, 0, _length(spans)),
        changed=lambda _after, _spans: Estimate(1, 0, 0, 1),
        stored=lambda spans: Estimate(len(spans), 0, 0, len(spans)),
        present=lambda spans: spans & SpanSet.of(Span(0, 1_000)),
        feed_from=0,
        price=lambda _, estimate, __: float(estimate.likely_rows),
        tie=0.0,
    )
    return replace(found, **others)  # type: ignore[arg-type]


def _length(spans: SpanSet) -> int:
    return sum(span.end - span.start for span in spans)


INSERTS = [Entry(Span(at, at + 10), 7, Cause.CHANGE, is_insert_only=True) for at in (0, 40)]
UPDATE = Entry(Span(20, 30), 7, Cause.CHANGE)
WINDOW = SpanSet.of(Span(0, 60))


def test_steps_stay_where_they_are_cheaper() -> None:
    """
    By default a step beyond the first costs nothing, and nothing is copied.
    """
    steps = decide([*INSERTS, UPDATE], facts())

    assert {Merge, Retract} == {type(s) for s in steps}
    assert steps == together(steps, facts(), WINDOW)


def test_dear_steps_become_one_recompute() -> None:
    """
    Of exactly the dirty buckets; the steps in whose place it is are its rejected ones, with their prices.
    """
    dear = facts(step=100.0)
    steps = decide([*INSERTS, UPDATE], dear)

    [one] = together(steps, dear, WINDOW)

    assert isinstance(one, Recompute)
    assert SpanSet.of(Span(0, 10), Span(20, 30), Span(40, 50)) == one.spans
    assert 30.0 == one.seconds
    assert {"merge", "retract"} == {r.strategy for r in one.rejected}
    assert all(r.seconds for r in one.rejected)


@pytest.mark.parametrize("only", ["", SCAN])
@pytest.mark.parametrize(
    "causes", [(Cause.SOURCE, Cause.FILES), (Cause.NEW, Cause.LOST), (Cause.REPAIRED, Cause.CHANGE), (Cause.FORCED,)]
)
def test_no_reason_speaks_against_what_is_chosen(causes: tuple[Cause, ...], only: str) -> None:
    """
    A recompute, or rebuild, in the place of several has none of these among its rejected ones, and why it is a rebuild is said.
    """
    dear = facts(step=100.0, only=only)
    steps = decide(
        [*INSERTS, *(Entry(Span(at, at + 10), None, cause) for at, cause in zip((20, 30), causes, strict=False))], dear
    )

    [one] = together(steps, dear, WINDOW)

    assert isinstance(one, Recompute)
    assert {"recompute", "rebuild"}.isdisjoint(r.strategy for r in one.rejected)
    is_new = not {Cause.SOURCE, Cause.LOST, Cause.REPAIRED}.isdisjoint(causes)
    assert is_new == one.is_rebuild
    assert all(
        reason_of(cause) in one.reason for cause in causes if cause in {Cause.SOURCE, Cause.LOST, Cause.REPAIRED}
    )


@pytest.mark.parametrize("only", ["", SCAN])
def test_one_recompute_keeps_what_spoke_against_others(only: str) -> None:
    """
    Of several recomputes in whose place it is: why none of them was a merge, or one of changed keys alone, each reason once.
    """
    dear = facts(step=100.0, only=only)
    fed = Entry(Span(0, 10), 7, Cause.FILES)
    steps = decide([fed, replace(fed, span=Span(20, 30)), Entry(Span(30, 40), None, Cause.INVALIDATED)], dear)
    spoke = {r.strategy for s in steps if isinstance(s, Recompute) for r in s.rejected if r.reason}

    [one] = together(steps, dear, WINDOW)

    assert isinstance(one, Recompute)
    assert "merge" in spoke
    assert spoke == {r.strategy for r in one.rejected}
    [merge] = [r.reason for r in one.rejected if r.strategy == "merge"]
    assert f"{reason_of(Cause.FILES)}; {reason_of(Cause.INVALIDATED)}" == merge


def test_one_recompute_names_no_more_than_a_few_reasons() -> None:
    """
    Each step in whose place it is may have its own, such as how many rows it would read; the rest are counted.
    """
    causes = (Cause.FILES, Cause.INVALIDATED, Cause.FORCED, Cause.DIFFERED, Cause.CONFLICT)
    dear = facts(step=100.0)
    steps = decide(
        [Entry(Span(at, at + 10), None, cause) for at, cause in zip(range(0, 50, 10), causes, strict=True)], dear
    )

    [one] = together(steps, dear, WINDOW)

    assert isinstance(one, Recompute)
    [merge] = one.rejected
    assert [*map(reason_of, causes[:3]), "and 2 more reasons"] == merge.reason.split("; ")


def test_dear_copies_become_one_scan() -> None:
    """
    Where many clean buckets lie between, they are computed again in place of being copied; nothing outside the window is.
    """
    many = [Entry(Span(at, at + 1), 7, Cause.CHANGE) for at in range(0, 200, 2)]
    dear = facts(copy=lambda spans: 10.0 * _length(spans))
    window = SpanSet.of(Span(0, 200))
    steps = decide(many, dear)

    [one] = [s for s in together(steps, dear, window) if not isinstance(s, Settle)]

    assert isinstance(one, Recompute)
    assert window == one.spans
    assert "one scan" in one.reason


def test_frozen_buckets_are_never_scanned() -> None:
    """
    Their raw rows may be gone.
    """
    dear = facts(step=100.0, frozen=15, copy=lambda spans: 1000.0 * _length(spans))
    steps = decide([*INSERTS, UPDATE], dear)

    assert steps == together(steps, dear, WINDOW)
    assert any(isinstance(s, Merge) and s.spans.spans[0].start == 0 for s in steps)


@pytest.mark.parametrize("only", ["merge", "recompute", SCAN])
def test_a_strategy_can_be_asked_for(only: str) -> None:
    """
    It is used where it is allowed, whatever it costs.
    """
    asked = facts(only=only)
    steps = together(decide([INSERTS[0]], asked), asked, WINDOW)

    [step] = steps
    assert (only == "merge") == isinstance(step, Merge)
    assert (WINDOW if only == SCAN else SpanSet.of(Span(0, 10))) == step.spans


def test_a_scan_of_what_was_never_computed_is_a_rebuild() -> None:
    """
    So ``--strict`` refuses it like the recompute in whose place it is.
    """
    first = facts(is_first=True, only=SCAN)

    [one] = together(decide([Entry(Span(0, 10))], first), first, WINDOW)

    assert isinstance(one, Recompute)
    assert one.is_rebuild
