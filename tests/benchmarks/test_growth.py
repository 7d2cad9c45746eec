"""What the benchmark of growth prints of its figures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks import growth

SHORT = {"seconds": 0.5, "bytes_asked": 1_000_000.0, **dict.fromkeys(growth.COUNTED, 8.0), "jobs": 3.0, "commits": 5.0}
LONG = SHORT | {"seconds": 0.75, "bytes_asked": 2_500_000.0, "bytes_read": 10.0, "jobs": 4.0, "commits": 6.0}
MEMORY = dict.fromkeys(("heap_mb", "python_mb", "jvm_peak_mb", "python_peak_mb", "seconds"), 1.0) | {"runs": 2}


def shown(capsys: pytest.CaptureFixture[str], short: dict[str, float], long: dict[str, float]) -> list[str]:
    """Return the lines that tell of a long history, one for each kind of change."""
    refreshes: dict[str, Any] = {days: dict.fromkeys(growth.CHANGES, of) for days, of in (("1", short), ("30", long))}
    growth.show({"refreshes": refreshes, "memory": {"30": MEMORY}, "differing": 0})
    return [line for line in capsys.readouterr().out.splitlines() if "30 days" in line and "runs" not in line]


def test_what_grows_is_told_beside_the_shortest_history(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Seconds, the bytes that the plan wanted and those that were read, as multiples; Spark jobs and commits as they are.
    """
    lines = shown(capsys, SHORT, LONG)

    assert len(growth.CHANGES) == len(lines)
    for told in lines:
        for text in ("0.75 s = 1.50 x", "4 Spark jobs", "6 commits", "2.50 MB to read = 2.50 x", "bytes read = 1.25 x"):
            assert text in told


def test_what_was_not_counted_has_no_multiple(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Where the kernel did not tell which files were opened, and where nothing was read at first.
    """
    uncounted = {name: value for name, value in SHORT.items() if not name.endswith("_read") or name == "rows_read"}

    for short, long in ((uncounted, LONG), (SHORT, uncounted), (SHORT | {"bytes_read": 0.0}, LONG)):
        assert all("bytes read = unknown" in told for told in shown(capsys, short, long))
