"""The one compare-and-swap loop over a list of numbers, whose length is its version."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from materializer.errors import JournalConflictError
from materializer.journal.transact import transact


class Numbers:
    """A journal of numbers to which others commit while something is decided.

    Args:
        meanwhile: What others commit, once for each decision.
    """

    def __init__(self, *meanwhile: int) -> None:
        self.committed = [0]
        self.decided: list[int] = []
        self._meanwhile = list(meanwhile)

    def read(self) -> tuple[int, ...]:
        """Return what was committed."""
        return tuple(self.committed)

    def decide(self, seen: tuple[int, ...]) -> int:
        """Return ten times the largest even number, or 1."""
        self.decided.append(len(seen))
        if self._meanwhile:
            self.committed.append(self._meanwhile.pop(0))
        return 10 * _largest_even(seen) + 1

    def append(self, seen: tuple[int, ...], decided: int) -> None:
        """Append if no other commit came first."""
        if len(seen) != len(self.committed):
            raise JournalConflictError("another was first")
        self.committed.append(decided)


def _largest_even(seen: tuple[int, ...]) -> int:
    return max(n for n in seen if n % 2 == 0)


def has_same_evens(before: tuple[int, ...], _: int, now: tuple[int, ...]) -> bool:
    """Odd numbers are of no importance to a decision."""
    return _largest_even(before) == _largest_even(now)


def test_a_decision_that_holds_is_made_once() -> None:
    """
    A commit that changes nothing the decision was made of comes first, and the same decision is appended after it.
    """
    numbers = Numbers(7)

    assert 1 == transact(numbers.read, numbers.decide, numbers.append, holds=has_same_evens)
    assert ([0, 7, 1], [1]) == (numbers.committed, numbers.decided)


@pytest.mark.parametrize("holds", [None, has_same_evens], ids=["never", "it changed"])
def test_a_decision_that_is_void_is_made_anew(holds: Callable[[tuple[int, ...], int, tuple[int, ...]], bool]) -> None:
    """
    By default after every commit of another, else after a commit that changes what the decision was made of.
    """
    numbers = Numbers(2)
    options = {} if holds is None else {"holds": holds}

    assert 21 == transact(numbers.read, numbers.decide, numbers.append, **options)
    assert ([0, 2, 21], [1, 2]) == (numbers.committed, numbers.decided)


def test_decisions_are_bounded() -> None:
    """
    Where every decision is void before it is appended, the loop ends with an error, and nothing was appended.
    """
    numbers = Numbers(2, 4, 6, 8)

    with pytest.raises(JournalConflictError, match="void 3 times"):
        transact(numbers.read, numbers.decide, numbers.append, holds=has_same_evens, decisions=3)
    assert ([0, 2, 4, 6], 3) == (numbers.committed, len(numbers.decided))


def test_appends_are_bounded_apart_from_decisions() -> None:
    """
    Others are first at every append: the decision is made once, and the loop ends after its attempts.
    """
    numbers = Numbers()

    def append(seen: tuple[int, ...], decided: int) -> None:
        numbers.committed.append(9)
        raise JournalConflictError("another was first")

    with pytest.raises(JournalConflictError, match="again and again"):
        transact(numbers.read, numbers.decide, append, holds=has_same_evens, attempts=4, decisions=3)
    assert (5, 1) == (len(numbers.committed), len(numbers.decided))
