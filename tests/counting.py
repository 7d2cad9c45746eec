"""Count what code does, so that a test can say how it grows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(action: Callable[[], object]) -> int:
    """Return how many functions of Python *action* calls: a measure of its work that is the same in every run."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def grows_by(action: Callable[[int], object], small: int, large: int) -> float:
    """Return how many times as much *action* does for a large input as for a small one."""
    return calls_of(lambda: action(large)) / calls_of(lambda: action(small))


def calls_to(function: Callable[..., object], action: Callable[[], object]) -> int:
    """Return how often *action* calls one function of Python."""
    count, code = 0, getattr(function, "__wrapped__", function).__code__

    def profile(frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
