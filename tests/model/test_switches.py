from __future__ import annotations

import pytest

from tests.model.switches import FULL, MISTAKES, SMALL, Bounds, explore


@pytest.mark.one_of(2)
@pytest.mark.parametrize("bounds", SMALL, ids=str)
def test_every_order_of_a_switch_keeps_every_rule(bounds: Bounds) -> None:
    """
    Whatever is refreshed, built and switched at the same time, and whatever of it dies, no rule is broken.
    """
    found = explore(bounds)

    assert [] == found.trace
    assert found.states > 500


@pytest.mark.long
@pytest.mark.parametrize("bounds", FULL, ids=str)
def test_every_order_of_a_switch_keeps_every_rule_in_full_bounds(bounds: Bounds) -> None:
    """
    The same with more of everything; minutes.
    """
    assert [] == explore(bounds).trace


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_deliberate_mistake_in_a_switch_is_caught(name: str) -> None:
    """
    With one rule of the switch broken, the exploration finds a way to wrong data.
    """
    mistake = MISTAKES[name]
    found = explore(mistake.bounds, name)

    assert found.trace, f"{found.states} states and nothing was noticed"
    assert mistake.caught_by == found.trace[-1].split(":")[0]
