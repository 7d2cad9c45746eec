"""What each test of this folder attacks, in words from which the table of attacks in SECURITY.md is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


class Attack(NamedTuple):
    """A line of the table."""

    room: str
    what: str
    outcome: str


def attack(room: str, what: str, outcome: str) -> Callable[[Test], Test]:
    """Return a decorator of a test, which gives it the attribute ``attack``.

    Args:
        room: What is attacked: "The page", "The terminal".
        what: What the attacker does.
        outcome: What comes of it, which the test asserts.
    """

    def mark(test: Test) -> Test:
        test.attack = Attack(room, what, outcome)  # type: ignore[attr-defined]
        return test

    return mark
