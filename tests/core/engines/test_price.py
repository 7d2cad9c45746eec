"""The price of a refresh of an engine."""

from __future__ import annotations

import pytest

from materializer.core.engines.price import RATES, EngineRates
from materializer.core.refresh.plan import ExecutorKind

RAW, STORED = 300_000, 279_000


@pytest.mark.parametrize("rates", RATES.values(), ids=[kind.value for kind in RATES])
def test_few_changes_of_a_large_source_are_never_a_reason_for_everything(rates: EngineRates) -> None:
    """
    Some hundred changes cost less than a source of many rows, however its files lie.
    """
    everything = rates.everything(100 * RAW, 100 * STORED)
    assert not rates.is_worth_it(everything, rates.changes(100 * RAW, 100 * STORED, 500, 500, 5_000))


@pytest.mark.parametrize(
    ("executor", "changed", "computed"),
    [(ExecutorKind.LOCAL, 5_000, 9_000), (ExecutorKind.SPARK, 1_500, 3_000), (ExecutorKind.SPARK, 300, 268_000)],
)
def test_what_was_slower_than_everything_is_priced_so(executor: ExecutorKind, changed: int, computed: int) -> None:
    """
    Shapes that were measured: scattered inserts and updates of a time series, and 300 late rows that go through all running sums.
    """
    rates = RATES[executor]
    changes = rates.changes(RAW, STORED, changed, changed, computed)
    assert rates.is_worth_it(rates.everything(RAW, STORED), changes)


def test_results_that_would_be_computed_are_part_of_the_price() -> None:
    """
    The ranges of some keys may hold nearly all results.
    """
    rates = RATES[ExecutorKind.SPARK]
    few, many = (rates.changes(10 * RAW, 10 * STORED, 120, 120, computed) for computed in (500, 10 * STORED))
    everything = rates.everything(10 * RAW, 10 * STORED)
    assert [False, True] == [rates.is_worth_it(everything, changes) for changes in (few, many)]
