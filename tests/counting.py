"""Count what code does, so that a test can say how it grows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(action: Callable[[], object]) -> int:
    """Return how many functions of Python *action* calls: a measure of its work that is the same in every run."""
    return _counted(action, lambda _, event: event in {"call", "c_call"})


def grows_by(action: Callable[[int], object], small: int, large: int) -> float:
    """Return how many times as much *action* does for a large input as for a small one."""
    return calls_of(lambda: action(large)) / calls_of(lambda: action(small))


def calls_to(function: Callable[..., object], action: Callable[[], object]) -> int:
    """Return how often *action* calls one function of Python."""
    code = getattr(function, "__wrapped__", function).__code__
    return _counted(action, lambda frame, event: event == "call" and frame.f_code is code)


def _counted(action: Callable[[], object], is_wanted: Callable[[Any, str], bool]) -> int:
    count = 0

    def profile(frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += is_wanted(frame, event)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
