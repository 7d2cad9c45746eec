"""Tests that draw new data in each run can be repeated."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fresh import check


def test_another_seed_gives_other_data(monkeypatch) -> None:
    """
    The same seed gives the same data, so that a failure can be repeated.
    """
    drawn: list[Any] = []

    @settings(max_examples=20, database=None)
    @given(st.integers())
    def law(number: int) -> None:
        drawn.append(number)

    for seed in (1, 1, 2):
        check(law, seed, monkeypatch)
    first, again, other = drawn[:20], drawn[20:40], drawn[40:]

    assert first == again
    assert first != other
