"""Which tests also ask `verify`, whose second reading of a small source takes longer than the rest of most tests."""

from __future__ import annotations

import os
import zlib
from typing import Final

EVERY: Final = 5
ALL: Final = "MATERIALIZER_VERIFY_ALL"
"""The variable of the environment with which each test asks."""
SEED: Final = "MATERIALIZER_FRESH_SEED"


def is_drawn() -> bool:
    """Return whether the running test asks: each run draws one in :data:`EVERY`, by its seed; with :data:`ALL` all do.

    What a test publishes is compared with plain Spark by a query of the test in any case.
    """
    if os.environ.get(ALL):
        return True
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    return zlib.crc32(f"{os.environ.get(SEED)} {test}".encode()) % EVERY == 0


def repeated() -> str:
    """Return how a difference is met again."""
    return f"with {ALL}=1 every run of this test asks"
