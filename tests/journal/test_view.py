"""The aggregates of a lake, looked up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from materializer.errors import UnknownAggregateError
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from tests.journal.histories import DEFINED, folded

FIRST = folded(DEFINED)


def crowd(count: int) -> dict[str, AggregateState]:
    """Return so many aggregates, each with a build beside it."""
    named = {f"a{n}": replace(FIRST, id=f"a{n}", name=f"Of_{n}") for n in range(count)}
    builds = {f"b{n}": replace(FIRST, id=f"b{n}", name=f"Of_{n}", builds=f"a{n}") for n in range(count)}
    return named | builds


class Counting(dict[str, AggregateState]):
    """Aggregates, which count how many of them were looked at in a row."""

    seen = 0

    def values(self) -> Iterator[AggregateState]:  # type: ignore[override]
        """Yield them, and count."""
        for state in super().values():
            self.seen += 1
            yield state


def test_each_of_many_is_found_without_looking_at_the_others() -> None:
    """
    A lake is walked through when it is read; 10,000 questions more walk through nothing.
    """
    every = Counting(crowd(5_000))
    view = View.of(3, every)
    before = every.seen

    for n in range(5_000):
        state = view.named(f"oF_{n}")
        build = view.build_of(state)
        assert ("a" + str(n), "b" + str(n)) == (state.id, build and build.id)

    assert before == every.seen <= 2 * len(every)


def test_builds_are_no_aggregates() -> None:
    """
    A build is found by its id and beside its aggregate, and is not listed.
    """
    view = View.of(3, crowd(3))

    assert ["a0", "a1", "a2"] == list(view.states)
    assert "b1" == view.named("b1").id
    assert view.find("of_7") is None
    assert view.build_of(view.named("b1")) is None
    with pytest.raises(UnknownAggregateError):
        view.named("of_7")


def test_an_unknown_name_is_told_a_few_of_very_many() -> None:
    """
    Ten thousand names would fill a screen two hundred times.
    """
    with pytest.raises(UnknownAggregateError, match=r"known: Of_0, Of_1, .* and 480 more\)") as caught:
        View.of(3, crowd(500)).named("another")

    assert 20 == caught.value.message.count("Of_")
