"""Inputs that are nearly right, some of them each run."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from materializer.errors import MaterializerError
from tests.fuzz.__main__ import known, one
from tests.fuzz.mutations import mutated

FOUND = (775, 4313, 8553, 14152, 25977, 32155, 34032)
"""Inputs that were nested so deeply that a traceback came of them."""


def test_each_gives_a_value_or_an_error_with_a_code() -> None:
    """
    Whatever stands in a lake, a request or a file of settings, nothing ends in a traceback, hangs or eats the memory.
    """
    assert [] == [wrong for seed in (*FOUND, *range(200)) if (wrong := one(seed)[2])]


def test_inputs_are_nearly_right() -> None:
    """
    A good part of the inputs still gives a value, so that what lies behind the first check is reached; right ones all do.
    """
    came = [one(seed)[1] for seed in range(200)]

    assert 20 < came.count("a value") < 195
    for target in known():
        for sample in target.samples[:3]:
            target.decode(sample)


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000, b"(" * 100_000])
def test_what_is_nested_without_end_is_an_error(deep: bytes) -> None:
    """
    The parser's stack is no limit that a traceback tells.
    """
    for target in known():
        with suppress(MaterializerError):
            target.decode(deep)


def test_a_mutation_is_repeatable() -> None:
    """
    A seed makes the same input again.
    """
    sample = known()[0].samples[0]

    assert mutated(sample, random.Random(5)) == mutated(sample, random.Random(5))
