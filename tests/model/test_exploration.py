from __future__ import annotations

import pytest

from tests.model.exploration import FULL, SMALL, Bounds
from tests.model.mutations import MUTATIONS, explore


@pytest.mark.one_of(4)
@pytest.mark.parametrize("bounds", SMALL, ids=str)
def test_every_order_keeps_every_rule(bounds: Bounds) -> None:
    """
    Whatever dies, sleeps or is taken over, and whenever the source commits, no rule is broken.
    """
    found = explore(bounds)

    assert [] == found.trace
    assert found.states > 1_000


@pytest.mark.long
@pytest.mark.parametrize("bounds", FULL, ids=str)
def test_every_order_keeps_every_rule_in_full_bounds(bounds: Bounds) -> None:
    """
    The same with more source versions and more takeovers; minutes.
    """
    assert [] == explore(bounds).trace


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_deliberate_mistake_is_caught(name: str) -> None:
    """
    With one rule of the protocol broken, the exploration finds a way to wrong data.
    """
    mutation = MUTATIONS[name]
    found = explore(mutation.bounds, name)

    assert found.trace, f"{found.states} states and nothing was noticed"
    assert mutation.caught_by == found.trace[-1].split(":")[0]
