"""A plan that takes long says what it does, where nothing else shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from materializer.services.activity import heard, log

PATIENCE: Final = 5.0
"""Seconds after which a plan says what it does."""


@contextmanager
def announced(name: str, doing: Callable[[], str], seconds: float = PATIENCE) -> Iterator[None]:
    """Log one line if the block has not ended after some seconds; without a handler for logs it goes to standard error.

    Where phases are heard nothing is logged, because they are shown.

    Args:
        name: The aggregate.
        doing: Returns what is being done, when the line is written.
        seconds: The seconds.
    """
    if heard() is not None:
        yield
        return
    timer = Timer(seconds, lambda: log([f"'{name}' is being planned for {seconds:g} s now: {doing()}"]))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
