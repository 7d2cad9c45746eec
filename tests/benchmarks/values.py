"""Benchmark: what a class of values costs, and a value, as a dataclass and as a ``Struct`` of msgspec.

    python -m tests.benchmarks.values [--classes 300] [--values 200000] [--rounds 5]

A command makes some two hundred such classes, and ``status`` of ten thousand aggregates a hundred thousand values. Each figure is the least of
some rounds, in microseconds of the processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time

from msgspec import Struct


def as_dataclass() -> type:
    """Return a new class of five fields that is a dataclass."""

    @dataclass(frozen=True, slots=True)
    class Made:
        name: str
        first: int
        last: int | None = None
        is_open: bool = False
        parts: tuple[str, ...] = ()

    return Made


def as_struct() -> type:
    """Return a new class of the same fields that is a ``Struct``."""

    class Made(Struct, frozen=True):
        name: str
        first: int
        last: int | None = None
        is_open: bool = False
        parts: tuple[str, ...] = ()

    return Made


def least(body: Callable[[], object], times: int, rounds: int) -> float:
    """Return the microseconds of a call."""
    found = []
    for _ in range(rounds):
        began = process_time()
        for _ in range(times):
            body()
        found.append((process_time() - began) / times * 1e6)
    return min(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each kind of class."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--classes", type=int, default=300)
    asked.add_argument("--values", type=int, default=200_000)
    asked.add_argument("--rounds", type=int, default=5)
    given = asked.parse_args(arguments)
    for name, make in (("dataclass", as_dataclass), ("Struct", as_struct)):
        made = make()
        of_class = least(make, given.classes, given.rounds)
        of_value = least(lambda made=made: made("a", 1, 2, True, ("b",)), given.values, given.rounds)
        print(f"{name}: a class {of_class:.0f} us, a value {of_value:.2f} us")


if __name__ == "__main__":
    main()
