"""Times of rows that Spark's driver fetched get back their zone, whatever that of the machine is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from materializer.core.time.fetched import fetched_text, zoned

FIRST = datetime(2024, 11, 3, tzinfo=UTC)
TYPES = {"at": "timestamp", "local": "timestamp_ntz", "day": "date", "n": "bigint"}


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A machine in some zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.usefixtures("machine")
def test_an_instant_is_told_in_utc() -> None:
    """
    The hour that a clock of the machine shows twice is told apart; what has no zone gets none.
    """
    for hours in range(24):
        instant = FIRST + timedelta(hours=hours)
        fetched = datetime.fromtimestamp(instant.timestamp())  # noqa: DTZ006 - as Spark's driver does
        row = {"at": fetched, "local": FIRST.replace(hour=1, tzinfo=None), "day": date(2024, 11, 3), "n": 1}

        assert row | {"at": instant} == zoned(row, TYPES)
        assert {"expected": row | {"at": instant}, "found": None} == zoned({"expected": row, "found": None}, TYPES)
        assert f"2024-11-03T{hours:02}:00:00Z" == fetched_text(fetched, "timestamp")


def test_a_zone_that_is_known_is_believed() -> None:
    """
    As that of Arrow's values.
    """
    at = datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert "2024-01-01T00:00:00Z" == fetched_text(at, "timestamp")


@pytest.mark.usefixtures("machine")
def test_the_ends_of_time_have_text() -> None:
    """
    Where Python has no hour before or after.
    """
    ends = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)
    assert ["0001", "9999"] == [fetched_text(at.replace(tzinfo=None), "timestamp")[:4] for at in ends]
