"""Alignment sizes and first windows, row by row against the shared tables and cases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.engines.alignment import alignment_size, anchor, first_window, scale
from materializer.core.engines.params import About, ParamReader
from materializer.core.spec.spec import Resolution, TimeType
from tests.cases.reading import DATA

TABLES = DATA / "alignment_tables.json"
LONGEST = 10**12


def listed() -> list[tuple[str, str, bool, dict[str, Any]]]:
    """Every row of the shared tables: type, profile, roundTime, row."""
    document = json.loads(TABLES.read_text(encoding="utf-8"))
    rows = [
        (kind.lower(), "en", name == "roundTime_true", row)
        for kind, table in document["tables"].items()
        for name in ("roundTime_true", "roundTime_false")
        for row in table[name]
    ]
    chinese = document["variants"]["cn_tutorial"]
    return rows + [(k.lower(), "cn", True, row) for k in chinese["applies_to"] for row in chinese["roundTime_true"]]


def test_sizes_are_those_of_the_tables() -> None:
    """
    Each row holds at both ends of its steps, which are included, and in between.
    """
    rows = listed()
    assert len(rows) > 200
    for kind, profile, is_rounded, row in rows:
        first = max(row["step_from"], 1)
        last = row["step_to"] or LONGEST
        for step in (first, (first + last) // 2, last):
            found = alignment_size(kind, step, round_time=is_rounded, profile=profile)
            assert row["alignmentSize"] == found, (kind, profile, is_rounded, step)


@pytest.mark.parametrize("kind", ["minute", "datetime", "nanotimestamp"])
def test_profiles_differ_in_milliseconds_only(kind: str) -> None:
    """
    The other tables are the same in both.
    """
    for step in (1, 3, 150, 150_000, 10**9):
        assert alignment_size(kind, step) == alignment_size(kind, step, profile="cn")


def test_months_go_back_to_january_and_days_stay() -> None:
    """
    Types without a table: 2018-05 is month 2018 * 12 + 4.
    """
    assert 2018 * 12 == anchor(2018 * 12 + 4, alignment_size("month", 3))
    assert 17_812 == anchor(17_812, alignment_size("date", 7))


@pytest.mark.parametrize(
    ("first", "step", "size", "expected"),
    [
        (1002, 3, 6, (997, 1003)),
        (61_365, 60_000, 120_000, (0, 120_000)),
        (-1, 3, 3, (-5, -2)),
    ],
)
def test_first_window(first: int, step: int, size: int, expected: tuple[int, int]) -> None:
    """
    It ends a step after the aligned first row, also before the epoch.
    """
    assert expected == first_window(first, step, size, alignment_size("timestamp", step))


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**7))
def test_anchor_of_an_anchor_is_itself(first: int, step: int) -> None:
    """
    So it does not matter whether the first row or its anchor is remembered.
    """
    size = alignment_size("timestamp", step)
    edge = anchor(first, size)

    assert edge <= first < edge + size
    assert edge == anchor(edge, size)


@pytest.mark.parametrize(
    ("time_type", "resolution", "kind", "step", "expected"),
    [
        (TimeType.TIMESTAMP, Resolution.NONE, None, 3_000, 5_000),
        (TimeType.TIMESTAMP, Resolution.NONE, "datetime", 1_800_000_000, 1_800_000_000),
        (TimeType.BIGINT, Resolution.MS, None, 3, 5),
        (TimeType.BIGINT, Resolution.NS, None, 1_500, 10**6),
        (TimeType.BIGINT, Resolution.MS, "datetime", 4_000, 5_000),
        (TimeType.BIGINT, Resolution.NONE, "minute", 4, 5),
        (TimeType.BIGINT, Resolution.NONE, None, 7, 7),
        (TimeType.BIGINT, Resolution.MS, "datetime", 4_500, None),
    ],
)
def test_alignment_counts_ticks_of_the_column(
    time_type: TimeType, resolution: Resolution, kind: str | None, step: int, expected: int | None
) -> None:
    """
    The tables count units of a type; steps and sizes come and go in the ticks of the column.
    """
    reader = ParamReader({"time_kind": kind} if kind else {}, About(time_type, resolution))

    assert expected == scale(reader).alignment(step, round_time=True, profile="en")
    assert not reader.troubles
