"""Windows over events that last: what parameters are refused, and that a plan touches whatever a change can touch."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from materializer.core.engines.interval_windows import CLIP, COMPRESSED, COUNT, HOPPING, SNAPSHOT, IntervalWindow
from materializer.core.engines.params import About, Trouble
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.spec.spec import TimeType
from tests.core.engines.histories import Kind, hold, keeps_true
from tests.core.engines.naive_intervals import (
    BOUND,
    ENGINES,
)

ABOUT = About(TimeType.TIMESTAMP)


@pytest.mark.parametrize("recent", [None, -4, 4])
@pytest.mark.parametrize(
    "p",
    [
        IntervalWindow(HOPPING, "e", 7, 3, 1, default_end=BOUND),
        IntervalWindow(HOPPING, "e", 2, 5, 1, default_end=BOUND, tick=3),
        IntervalWindow(HOPPING, "e", 1, 1, default_end=BOUND, tick=3),
        IntervalWindow(COMPRESSED, "e", 7, 3, -2),
        IntervalWindow(COMPRESSED, "e", 2, 1),
        IntervalWindow(COMPRESSED, "e", 4, 4, 1, tick=3),
        IntervalWindow(SNAPSHOT, "e"),
        IntervalWindow(SNAPSHOT, "e", tick=3),
        IntervalWindow(COUNT, "e", count=1),
        IntervalWindow(COUNT, "e", count=3, tick=3),
    ],
    ids=lambda p: f"{p.kind} {p.duration} {p.period} {p.count}, tick {p.tick}",
)
def test_a_plan_keeps_windows_true(rng: random.Random, p: IntervalWindow, recent: int | None) -> None:
    """
    Kept windows with the planned ranges computed anew are the windows of the changed events.
    """
    naive = ENGINES[p.kind](p)
    kind = Kind(is_lasting=True, is_clocked=True)

    hold(rng, kind, lambda h: keeps_true(h, naive, p.ranges, recent), count=250)


def test_a_snapshot_plan_is_small() -> None:
    """
    An event inside one stretch touches that stretch, read so wide that the events that make its edges are seen.
    """
    kept = [StoredResult(a, b, a, a, True, 1) for a, b in ((0, 10), (10, 20), (20, 30), (30, 40))]

    assert IntervalWindow(SNAPSHOT, "e").ranges([(12, 14)], kept, is_complete=True) == [Range(10, 20, 9, 21)]
    assert IntervalWindow(SNAPSHOT, "e").ranges([(20, 24)], kept, is_complete=True) == [Range(10, 30, 9, 31)]


def test_a_count_plan_is_small() -> None:
    """
    Windows of three starts: the two starts before a changed one, and read until the two after it.
    """
    kept = [StoredResult(t, t + 21, t, t + 20, True, 3) for t in range(0, 100, 10)]

    assert IntervalWindow(COUNT, count=3).ranges([(45, 45)], kept, is_complete=True) == [Range(30, 46, 30, 61)]
    assert IntervalWindow(COUNT, count=1).ranges([(45, 45)], kept, is_complete=True) == [Range(45, 46, 45, 46)]


def read(values: dict[str, object]) -> tuple[IntervalWindow | None, list[Trouble]]:
    """Read parameters; ``engine`` among them names the kind."""
    about = replace(ABOUT, engine=str(values["engine"]))
    return IntervalWindow.read({name: value for name, value in values.items() if name != "engine"}, about)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"engine": HOPPING, "end": "e", "duration": 5, "period": 2, "time_kind": "timestamp"},
            IntervalWindow(HOPPING, "e", 5_000, 2_000, tick=1_000),
        ),
        (
            {"engine": HOPPING, "end": "e", "duration": "5 s", "output_policy": "ClipToWindowEnd"},
            IntervalWindow(HOPPING, "e", 5_000_000, 5_000_000, output_policy=CLIP),
        ),
        (
            {"engine": HOPPING, "end": "e", "duration": 5, "default_end": "1970-01-01T00:00:01Z"},
            IntervalWindow(HOPPING, "e", 5_000, 5_000, default_end=1_000_000),
        ),
        (
            {"engine": COMPRESSED, "end": "e", "duration": 5, "period": 2, "alignment": "1970-01-01T00:00:01Z"},
            IntervalWindow(COMPRESSED, "e", 5_000, 2_000, 1_000_000),
        ),
        ({"engine": SNAPSHOT, "end": "e"}, IntervalWindow(SNAPSHOT, "e")),
        ({"engine": COUNT, "count": 3}, IntervalWindow(COUNT, count=3)),
    ],
)
def test_parameters_are_read(values: dict[str, object], expected: IntervalWindow) -> None:
    """
    Lengths become instants, and names of policies are read in both spellings.
    """
    assert read(values) == (expected, [])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"engine": SNAPSHOT}, "end"),
        ({"engine": COMPRESSED, "end": "e", "duration": 2, "period": 5}, "no gap"),
        ({"engine": HOPPING, "end": "e"}, "duration"),
        ({"engine": HOPPING, "end": "e", "duration": 5, "period": 0}, "period"),
        ({"engine": HOPPING, "end": "e", "duration": 5, "output_policy": "middle"}, "output_policy"),
        ({"engine": HOPPING, "end": "e", "duration": 5, "alignment": "noon"}, "alignment"),
        ({"engine": SNAPSHOT, "end": "e", "duration": 5}, "duration"),
        ({"engine": COMPRESSED, "end": "e", "duration": 5, "default_end": "1970-01-02"}, "default_end"),
        ({"engine": COUNT}, "count"),
        ({"engine": COUNT, "count": 0}, "count"),
    ],
)
def test_wrong_parameters_are_refused_by_name(values: dict[str, object], named: str) -> None:
    """
    Each wrong parameter is one trouble that names it, and there are no params.
    """
    params, troubles = read(values)

    assert params is None
    assert [named in t.message for t in troubles] == [True]


def test_hopping_windows_may_leave_gaps() -> None:
    """
    Only the compressed form needs windows that leave none (D19 is about its slots).
    """
    params, troubles = read({"engine": HOPPING, "end": "e", "duration": 2, "period": 5})

    assert (params is not None, troubles) == (True, [])
