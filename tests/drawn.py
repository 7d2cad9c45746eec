"""What each run draws by its seed from what the shards do whole: examples of one rule, and second readings.

A test with the mark ``one_of(n)`` has many examples of one rule (pages that can be followed, functions that are equal to Spark's). Each
run takes every n-th of them, at least one, by its seed; the others count as slow, and the shards take all.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import pytest

ALL: Final = "MATERIALIZER_ALL"
"""The variable of the environment with which nothing is drawn, and each run does everything."""
SEED: Final = "MATERIALIZER_FRESH_SEED"


def is_all() -> bool:
    """Return whether nothing is drawn."""
    return bool(os.environ.get(ALL))


def turn(name: str) -> int:
    """Return a number that a name has in this run, and another one in the next."""
    return zlib.crc32(f"{os.environ.get(SEED)} {name}".encode())


def left_out(items: Iterable[pytest.Item], kept: tuple[str, ...]) -> list[pytest.Item]:
    """Return the examples that this run leaves out; every example where nothing is drawn, because these are of the shards.

    Args:
        items: All tests.
        kept: How the names of those begin that each run takes.
    """
    examples: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("one_of")
        if mark and not item.get_closest_marker("slow") and not item.nodeid.startswith(kept):
            examples[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    left = []
    for (_, among), of in examples.items():
        of.sort(key=lambda item: turn(item.nodeid))
        left += of if is_all() else of[-(-len(of) // among) :]
    return left
