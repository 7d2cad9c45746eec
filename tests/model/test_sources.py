from __future__ import annotations

import pytest

from tests.model.sources import FULL, MISTAKES, SMALL, Bounds, explore


@pytest.mark.one_of(3)
@pytest.mark.parametrize("bounds", SMALL, ids=str)
def test_every_order_over_another_source_keeps_every_rule(bounds: Bounds) -> None:
    """
    Whenever columns of the source swap their names, it is replaced, or put back from a copy, no rule is broken.
    """
    found = explore(bounds)

    assert [] == found.trace
    assert found.states > 5_000


@pytest.mark.long
@pytest.mark.parametrize("bounds", FULL, ids=str)
def test_every_order_over_another_source_keeps_every_rule_in_full_bounds(bounds: Bounds) -> None:
    """
    The same with more of everything; minutes.
    """
    assert [] == explore(bounds).trace


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_deliberate_mistake_over_another_source_is_caught(name: str) -> None:
    """
    With one rule broken, the exploration finds a way to wrong data.
    """
    found = explore(MISTAKES[name].bounds, name)

    assert found.trace, f"{found.states} states and nothing was noticed"
    assert MISTAKES[name].caught_by == found.trace[-1].split(":")[0]
