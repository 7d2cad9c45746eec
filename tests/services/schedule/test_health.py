"""When a process that stays is well, by a clock that is set."""

from __future__ import annotations

from materializer.services.schedule.health import AT_REST, AT_WORK, OFTEN, Health


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return what it was set to."""
        return self.now


def test_it_is_well_while_it_begins_things() -> None:
    """
    Before the first look it is not; after one that took too long it hangs, until it begins something.
    """
    clock = Clock()
    health = Health(clock)
    assert [{"reason": "not-begun"}] == health.reasons()

    health.lives(AT_REST)
    clock.now += AT_REST
    assert [] == health.reasons()
    clock.now += 1
    assert [{"reason": "hanging", "seconds": 61}] == health.reasons()

    health.lives(AT_WORK)
    clock.now += AT_WORK
    assert [] == health.reasons(), "a step of a refresh may take an hour"


def test_what_fails_again_and_again_is_named() -> None:
    """
    By aggregate, or none for the journal, with the code; a failure or two are none.
    """
    health = Health(Clock())
    health.lives(AT_REST)

    health.fails({"a": (OFTEN - 1, "x"), "b": (OFTEN, "table.not-found"), "": (OFTEN + 2, "store.failed")})

    assert [
        {"reason": "failing", "aggregate": None, "code": "store.failed", "times": 5},
        {"reason": "failing", "aggregate": "b", "code": "table.not-found", "times": 3},
    ] == health.reasons()
