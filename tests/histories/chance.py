"""The choices of one history: drawn from a seed, or given; and the search for fewer of them that still do the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias, TypeVar

_Option = TypeVar("_Option")

Choices: TypeAlias = Sequence[Sequence[int]]
"""The numbers that were drawn, in turns."""


class Chance:
    """Turns of small numbers. In each choice 0 is what disturbs least.

    Args:
        seed: Where the numbers come from.
        given: The numbers themselves, instead; after those of a turn every number is 0.
    """

    def __init__(self, seed: int = 0, given: Choices | None = None) -> None:
        self._random = Random(seed)
        self._given = given
        self.drawn: list[list[int]] = [[]]

    def next_turn(self) -> bool:
        """Begin another turn, and return whether there is one."""
        if self._given is not None and len(self.drawn) >= len(self._given):
            return False
        self.drawn.append([])
        return True

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        turn = self.drawn[-1]
        if self._given is None:
            value = int(self._random.random() * n)
        else:
            given, place = self._given[len(self.drawn) - 1 :][:1] or [[]], len(turn)
            value = min(given[0][place], n - 1) if place < len(given[0]) else 0
        turn.append(value)
        return value

    def one_in(self, n: int) -> bool:
        """Return True once in *n* times; never for 0."""
        return n > 0 and self.below(n) == 1

    def pick(self, options: Sequence[_Option]) -> _Option:
        """Return one of the options; the first disturbs least."""
        return options[self.below(len(options))]


def shrunk(choices: Choices, is_same: Callable[[Choices], bool], tries: int = 1_000) -> Choices:
    """Return fewer turns and smaller numbers of which *is_same* is true, as it is of *choices*.

    Args:
        choices: What was drawn.
        is_same: Whether the history of some choices still fails in the same way.
        tries: How often *is_same* is asked at most.

    Examples:
        >>> shrunk([[1], [3, 1], [4, 1], [5, 9], [2, 6]], lambda turns: any(9 in turn for turn in turns))
        [[], [0, 9]]
    """
    best, left = [list(turn) for turn in choices], tries

    def is_better(candidate: list[list[int]]) -> bool:
        nonlocal best, left
        if candidate == best or left == 0:
            return False
        left -= 1
        if not is_same(candidate):
            return False
        best = candidate
        return True

    size = len(best)
    while size := size // 2:  # whole turns first, many at once, the last ones first
        for start in range(len(best) - size, 0, -size):
            is_better(best[:start] + best[start + size :])
    for turn in range(len(best) - 1, -1, -1):
        is_better([*best[:turn], [], *best[turn + 1 :]])
        for place in range(len(best[turn]) - 1, -1, -1):
            numbers = best[turn]
            if place == len(numbers) - 1:
                is_better([*best[:turn], numbers[:-1], *best[turn + 1 :]])
            elif place < len(numbers) and numbers[place]:
                is_better([*best[:turn], [*numbers[:place], 0, *numbers[place + 1 :]], *best[turn + 1 :]])
    for turn in range(len(best) - 1, 0, -1):
        is_better(best[:turn] + best[turn + 1 :])
    return best
