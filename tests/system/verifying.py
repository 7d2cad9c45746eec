"""Which tests also ask `verify`, whose second reading of a small source takes longer than the rest of most tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tests import drawn

if TYPE_CHECKING:
    from materializer.api import Materializer

AMONG: Final = 20


def is_drawn() -> bool:
    """Return whether the running test asks: each run draws one in :data:`AMONG` by its seed, the shards all.

    What a test publishes is compared with plain Spark by a query of the test in any case.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    return drawn.is_all() or drawn.turn(test) % AMONG == 0


def expect_equal(lake: Materializer, name: str) -> None:
    """Assert that `verify` finds no difference, if the running test asks; for tests that compare what they publish themselves."""
    if is_drawn():
        report = lake.verify(name)
        assert report.is_equal, (report.examples, repeated())


def is_turn(name: str, at: int, among: int) -> bool:
    """Return whether `verify` is asked about *name* after change *at* of *among*: in a run after one, drawn by its seed; in the shards after each."""
    return drawn.is_all() or drawn.turn(name) % among == at


def repeated() -> str:
    """Return how a difference is met again."""
    return f"with {drawn.ALL}=1 every run of this test asks"
