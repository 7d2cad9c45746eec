"""The shared time-bucket cases: what TimescaleDB answers, on our grids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build
from materializer.core.time.instants import parse, render
from materializer.errors import MaterializerError
from tests.cases.reading import DATA

CASES = DATA / "time_bucket_samples.json"
TYPES = {"timestamptz": TimeType.TIMESTAMP, "timestamp": TimeType.TIMESTAMP_NTZ} | {
    str(t): t for t in TimeType if t.is_integer or t is TimeType.DATE
}


def cases() -> list[Any]:
    """The cases that have all their arguments."""
    found = [c for c in json.loads(CASES.read_text()) if "null_argument" not in c]
    return [pytest.param(c, id=c["id"]) for c in found]


def length(value: int | dict[str, int] | None) -> Width | None:
    """A width or offset of a case."""
    if value is None:
        return None
    return Width(ticks=value) if isinstance(value, int) else Width(**value)


def start_of(case: dict[str, Any]) -> str | int:
    """The start of the bucket that a case asks for, in its own notation."""
    time_type = TYPES[case["type"]]
    origin = None if case["origin"] is None else parse(case["origin"], time_type)
    spec = GridSpec(length(case["width"]) or Width(), case["timezone"], origin, length(case["offset"]))
    start = build(spec, time_type).floor(parse(case["ts"], time_type))
    return start if time_type.is_integer else render(start, time_type)


@pytest.mark.parametrize("case", cases())
def test_buckets_start_where_time_bucket_puts_them(case: dict[str, Any]) -> None:
    """Each case gives its bucket, or an error where one is expected."""
    if "expected_error" in case:
        with pytest.raises((MaterializerError, ValueError, KeyError)):
            start_of(case)
    else:
        assert start_of(case) == case["expected"]
