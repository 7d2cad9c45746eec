"""The slow tests cut into shards of at most about twenty minutes; the same tests give the same shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

MOST: Final = 20 * 60
"""Seconds that a shard may be expected to take."""
OTHERS: Final = 15
"""Seconds that a slow test takes, if no line below says something else."""
SECONDS: Final[Mapping[str, int]] = {
    "tests/demo/": 10,
    "tests/model/": MOST,
    "tests/newcomer/": 180,
    "tests/adapters/great_expectations/": 8,
    "tests/system/processes/test_clock.py": 10,
    "tests/system/processes/test_full_disk.py": 6,
    "tests/system/processes/test_killed_anywhere.py": 12,
    "tests/system/test_cases.py": 6,
    "tests/system/test_engines.py::test_case": 3,
    "tests/system/test_engines.py::test_more_random_cases": 25,
    "tests/system/test_stateful.py": MOST // 2,
}
"""Seconds that a test takes whose name begins so; of several beginnings the longest counts."""


class Shard(Struct, frozen=True):
    """Tests of one file that run together.

    Args:
        name: The file without what all have in common, with a number where a file has several shards.
        tests: Their ids, in the order of collection.
    """

    name: str
    tests: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file of its tests."""
        return self.tests[0].partition("::")[0]

    @property
    def seconds(self) -> int:
        """How long it is expected to take."""
        return sum(map(seconds_of, self.tests))


def seconds_of(test: str) -> int:
    """Return how long a test is expected to take."""
    known = [beginning for beginning in SECONDS if test.startswith(beginning)]
    return SECONDS[max(known, key=len)] if known else OTHERS


def cut(tests: Iterable[str]) -> tuple[Shard, ...]:
    """Return shards that have each of the tests exactly once: a file at a time, from its first test to its last."""
    files: dict[str, list[list[str]]] = {}
    for test in tests:
        parts = files.setdefault(test.partition("::")[0], [[]])
        if parts[-1] and sum(map(seconds_of, parts[-1])) + seconds_of(test) > MOST:
            parts.append([])
        parts[-1].append(test)
    return tuple(
        Shard(_name(file) + (f":{number}" if len(parts) > 1 else ""), tuple(part))
        for file, parts in files.items()
        for number, part in enumerate(parts, 1)
    )


def _name(file: str) -> str:
    *folders, last = file.removeprefix("tests/").removesuffix(".py").split("/")
    return "/".join([*folders, last.removeprefix("test_")])
