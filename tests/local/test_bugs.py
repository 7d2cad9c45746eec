"""What the process does not expect of itself is left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from materializer.errors import StorageError
from materializer.local.kinds import BUG, NotLocal, bugs_left_to_spark


def _deep() -> Any:
    return _deep()


def _raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("action", "expected", "message"),
    [
        (_raising(ZeroDivisionError("by zero\nmore")), NotLocal, f"{BUG}ZeroDivisionError in this process: by zero$"),
        (_deep, NotLocal, "nested too deeply"),
        (_raising(NotLocal("soundex")), NotLocal, "^soundex$"),
        (_raising(StorageError("a full disk")), StorageError, "full disk"),
        (lambda: None, None, ""),
    ],
)
def test_an_unexpected_error_is_an_answer(action: Callable[[], Any], expected: Any, message: str) -> None:
    """
    Errors that nobody expected become a reason for Spark; answers and errors with a code stay what they are.
    """
    if expected is None:
        with bugs_left_to_spark():
            action()
        return
    with pytest.raises(expected, match=message), bugs_left_to_spark():
        action()
