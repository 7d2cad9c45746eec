"""Which tests also ask `verify`, whose second reading of a small source takes longer than the rest of most tests."""

from __future__ import annotations

import os
from typing import Final

from tests import drawn

AMONG: Final = 20


def is_drawn() -> bool:
    """Return whether the running test asks: each run draws one in :data:`AMONG` by its seed, the shards all.

    What a test publishes is compared with plain Spark by a query of the test in any case.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    return drawn.is_all() or drawn.turn(test) % AMONG == 0


def repeated() -> str:
    """Return how a difference is met again."""
    return f"with {drawn.ALL}=1 every run of this test asks"
