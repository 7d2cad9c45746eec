"""The one compare-and-swap loop: read, decide, append; after another commit came first, append the same again or decide anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
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
    holds: Callable[[_Seen, _Decided, _Seen], bool] = lambda _before, _decided, _now: False,
    attempts: int | None = None,
    decisions: int | None = None,
) -> _Decided:
    """Append what *decide* returns for the newest state, and return that.

    Args:
        read: Returns the newest state and its version.
        decide: Returns what to append after this state. It may raise JournalConflictError to have the state read again.
        append: Appends if the journal still has the version that was read, else raises JournalConflictError.
        holds: Whether a decision for an earlier state is right for the newest one: the decision is then appended as it is. It may raise
            what *decide* would raise. By default every commit of another process makes the decision void.
        attempts: How many times at most to append; None for as many as it takes.
        decisions: How many times at most to decide; None for as many as it takes.

    Raises:
        JournalConflictError: If another commit came first at every attempt, or made every decision void; nothing was appended.

    Examples:
        >>> numbers = [1]
        >>> transact(lambda: len(numbers), lambda seen: seen + 1, lambda _, decided: numbers.append(decided))
        2
        >>> numbers
        [1, 2]
    """
    made: tuple[_Seen, _Decided] | None = None
    from materializer.lake.table import one_look  # noqa: PLC0415 (a journal in memory loads no library of Delta)

    made_so_far = 0
    tries: Iterable[int] = count() if attempts is None else range(attempts)
    for attempt in tries:
        with one_look() if attempt else nullcontext():  # what was looked at before the conflict may have changed
            try:
                seen = read()
                if made is None or not holds(*made, seen):
                    if made_so_far == decisions:
                        msg = f"what was decided was void {made_so_far} times, because its state changed meanwhile"
                        break
                    made, made_so_far = (seen, decide(seen)), made_so_far + 1
                append(seen, made[1])
            except JournalConflictError:
                continue
            return made[1]
    else:
        msg = "other processes committed to the journal first, again and again"
    raise JournalConflictError(msg)
