"""What a run leaves out of the examples of one rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import drawn

pytest_plugins = ["pytester"]

FILE = """
import pytest

@pytest.mark.one_of(3)
@pytest.mark.parametrize("n", range(7))
def test_examples(n): pass

def test_alone(): pass
"""


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    """Seven examples of a rule, of which each run takes a third, and another test."""
    pytester.makeini("[pytest]\nmarkers = one_of(n): drawn")
    return pytester.getitems(FILE)


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run that draws, by a seed of its own."""
    monkeypatch.delenv(drawn.ALL, raising=False)
    monkeypatch.setenv(drawn.SEED, "1")
    return


def test_a_run_takes_every_third(items) -> None:
    """
    Of seven examples three are taken, and what is no example always.
    """
    left = drawn.left_out(items, ())

    assert 4 == len(left)
    assert {"test_examples"} == {item.name.partition("[")[0] for item in left}


def test_other_runs_take_others(items, monkeypatch) -> None:
    """
    A seed leaves out the same examples each time, and in some runs each example is taken.
    """
    taken = set()
    for seed in range(30):
        monkeypatch.setenv(drawn.SEED, str(seed))
        left = drawn.left_out(items, ())
        assert left == drawn.left_out(reversed(items), ())
        taken |= set(items) - set(left)

    assert taken == set(items)


def test_what_stands_for_a_slow_test_is_taken(items) -> None:
    """
    An example that guards the rule of a slow test is in every run.
    """
    names = tuple(item.nodeid for item in items[:5])

    assert {item.name for item in drawn.left_out(items, names)} <= {f"test_examples[{n}]" for n in (5, 6)}


def test_the_shards_take_all(items, monkeypatch) -> None:
    """
    Where nothing is drawn every example is of the shards.
    """
    monkeypatch.setenv(drawn.ALL, "1")

    assert 7 == len(drawn.left_out(items, ()))
