"""Laws that the other tests check with the same data in every run, with data that nobody has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import test_compaction, test_grid_zones, test_invalidation, test_plan
from tests.core.engines import test_daily_time_series, test_event_time_window, test_freezing, test_time_series
from tests.journal import test_fold

LAWS: list[Callable[[], None]] = [
    test_compaction.test_maintenance_keeps_all_rows_and_ends,
    test_daily_time_series.test_a_plan_covers_what_a_change_can_touch,
    test_event_time_window.test_a_plan_covers_what_a_change_can_touch,
    test_fold.test_a_snapshot_stands_for_what_came_before,
    test_fold.test_dirt_leaves_only_by_a_refresh_that_is_done,
    test_freezing.test_filled_trading_sessions_are_cut_between_what_is_filled_from_each_other,
    test_freezing.test_sessions_are_cut_without_a_seam,
    test_freezing.test_trading_sessions_are_cut_between_windows,
    test_grid_zones.test_offsets_are_pythons,
    test_invalidation.test_a_limited_log_is_coarser_never_less,
    test_invalidation.test_adding_agrees_with_a_dictionary_of_instants,
    test_invalidation.test_cutting_loses_nothing,
    test_invalidation.test_rows_that_went_are_never_forgotten,
    test_plan.test_every_instant_is_in_exactly_one_step,
    test_plan.test_merge_only_where_nothing_but_inserts_happened,
    test_time_series.test_a_plan_covers_what_a_change_can_touch,
]


def check(law: Callable[[], None], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a law with data drawn from a seed; what `hypothesis.seed` would set, for this time only."""
    monkeypatch.setattr(law, "_hypothesis_internal_use_seed", seed)
    law()


def name_of(law: Callable[[], None]) -> str:
    """Return the module and the name of a law."""
    return f"{law.__module__.rpartition('test_')[2]}-{law.__name__.removeprefix('test_')}"


@pytest.mark.parametrize("law", LAWS, ids=name_of)
def test_a_law_holds_for_new_data(law, fresh_seed, monkeypatch) -> None:
    """
    Against the same model as ever, from a seed that is printed at the beginning of the run.
    """
    check(law, fresh_seed, monkeypatch)


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
