"""The one compare-and-swap loop: read, decide, append; decide anew when another commit came first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeVar

from materializer.errors import JournalConflictError

_Seen = TypeVar("_Seen")
_Decided = TypeVar("_Decided")


def transact(
    read: Callable[[], _Seen],
    decide: Callable[[_Seen], _Decided],
    append: Callable[[_Seen, _Decided], object],
    *,
    attempts: int | None = None,
) -> _Decided:
    """Append what *decide* returns for the newest state, and return that.

    Args:
        read: Returns the newest state and its version.
        decide: Returns what to append after this state. It may raise JournalConflictError to have the state read again.
        append: Appends if the journal still has the version that was read, else raises JournalConflictError.
        attempts: How many times at most; None for as many as it takes.

    Raises:
        JournalConflictError: If another commit came first at every attempt; nothing was appended.

    Examples:
        >>> numbers = [1]
        >>> transact(lambda: len(numbers), lambda seen: seen + 1, lambda _, decided: numbers.append(decided))
        2
        >>> numbers
        [1, 2]
    """
    tries: Iterable[int] = count() if attempts is None else range(attempts)
    for _ in tries:
        try:
            seen = read()
            decided = decide(seen)
            append(seen, decided)
        except JournalConflictError:
            continue
        return decided
    msg = "other processes committed to the journal first, again and again"
    raise JournalConflictError(msg)
