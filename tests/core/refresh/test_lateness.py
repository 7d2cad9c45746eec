from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.refresh.lateness import ENOUGH, LAST, Lateness, advice, in_words
from materializer.lake.capture.lateness import histogram, lateness_of

SECOND = 1_000_000
SECONDS = st.floats(-1e6, 1e9)


@given(st.lists(SECONDS, min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.999, 1.0]))
def test_quantiles_are_upper_bounds_within_a_step(seconds: list[float], share: float) -> None:
    found = histogram(np.array(seconds) * SECOND).within(share)
    exact = max(1.0, sorted(seconds)[math.ceil(share * len(seconds)) - 1])

    assert found is not None
    assert exact * 0.999 <= found <= exact * 1.2


@given(st.lists(SECONDS), st.lists(SECONDS))
def test_histograms_of_parts_add_up(some: list[float], others: list[float]) -> None:
    def of(seconds: list[float]) -> Lateness:
        return histogram(np.array(seconds, dtype=float) * SECOND)

    assert of(some) + of(others) == of(some + others)
    assert Lateness.from_json(of(some).as_json()) == of(some)


def test_nobody_knows_without_rows() -> None:
    assert Lateness().within(0.5) is None
    assert advice(Lateness({0: ENOUGH - 1}), 60.0, 1.0) is None


def test_a_row_is_as_late_as_the_commit_that_inserted_it() -> None:
    """The second version comes a minute after its rows' events, the first with them."""
    instants, versions = pa.chunked_array([[0, 5 * SECOND, 0]]), pa.chunked_array([[7, 7, 9]])
    found = lateness_of(instants, versions, {7: 2 * SECOND, 9: 64 * SECOND})

    assert {0: 1, 4: 1, 24: 1} == found.rows


def test_ages_beyond_counting_are_in_the_last_step() -> None:
    assert {LAST: 1} == histogram(np.array([9e18])).rows


@pytest.mark.parametrize(
    ("waited", "retention"), [(None, None), (3_600.0, "24 hours"), (400_000.0, "10 days")], ids=str
)
def test_advice_covers_late_rows_and_slow_refreshes(waited: Any, retention: Any) -> None:
    found = advice(Lateness({0: 900, 24: 60, 68: 40}), 3_600.0, waited)

    assert found is not None
    assert ("38 hours", "1 second", retention) == (found.start_offset, found.end_offset, found.feed_retention)


@pytest.mark.parametrize("seconds", [0.2, 119, 121, 7_199, 7_201, 172_799, 172_801, 1e9])
def test_lengths_are_rounded_up(seconds: float) -> None:
    number, unit = in_words(seconds).split()
    length = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit[0]]

    assert seconds <= int(number) * length < seconds + length


def test_advice_looks_at_the_last_of_a_thousand() -> None:
    """
    A window of 99.9 % of the rows, from the first hundred rows on.
    """
    found = advice(Lateness({0: 995, 40: 5}), 60.0, None)
    assert found is not None
    assert (found.start_offset, found.end_offset) == ("19 minutes", "1 second")
    assert advice(Lateness({0: ENOUGH}), 60.0, None) is not None
