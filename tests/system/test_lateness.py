"""How late rows were is told from real commits, whoever reads the change feed."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from materializer.config import Budget, Config
from materializer.core.refresh.lateness import Advice, in_words
from tests.system.builders import Site


def ago(seconds: int) -> datetime:
    """Return a time of the recent past."""
    return datetime.fromtimestamp(time.time() - seconds, UTC)


@pytest.fixture
def late(site: Site, monkeypatch: pytest.MonkeyPatch, is_spark: bool) -> Site:
    """A lake where, after the definition, 190 rows came half an hour late and ten came two days late."""
    if is_spark:
        monkeypatch.setattr(Config, "budget", Budget(rows=10))
    trades = site.table("trades")
    trades.trade((ago(0), "A", 1))
    site.hourly(properties={"refresh.start_offset": "5 hours", "refresh.end_offset": "1 hour"})
    site.lake.refresh("hourly")
    trades.trade(*((ago(1_800), "A", i) for i in range(190)), *((ago(172_800), "A", i) for i in range(10)))
    site.lake.refresh("hourly")
    return site


def said(site: Site) -> list[tuple[str, str, str]]:
    """Return level, code and hint of what the doctor says of late rows."""
    return [(f.level, f.code, f.hint) for f in site.lake.doctor("hourly") if f.code.startswith("doctor.late")]


@pytest.mark.of_spark(
    "what the driver does not read is told by files where the process computes, and files tell no lateness"
)
@pytest.mark.parametrize("is_spark", [False, True], ids=["driver", "spark"])
def test_status_tells_how_late_rows_were(late: Site) -> None:
    """
    Of 200 rows after the definition 190 come half an hour late and ten come two days late; Spark rounds up to a bucket.
    """
    (status,) = late.lake.status("hourly")
    usual, latest = status.lateness.within(0.5), status.lateness.within(0.999)

    assert 200 == status.lateness.total
    assert status.advice
    assert usual
    assert latest
    assert 1_800 <= usual <= (1_800 + 3_600) * 1.2
    assert 172_800 <= latest <= (172_800 + 3_600) * 1.2
    assert [("ts", "hourly", status.lateness)] == [
        (s.time_column, s.aggregate, s.lateness) for s in late.lake.lateness()
    ]
    assert ["doctor.late-rows"] == [f.code for f in late.lake.doctor("hourly") if f.level == "warning"]


@pytest.mark.of_spark(
    "what the driver does not read is told by files where the process computes, and files tell no lateness"
)
@pytest.mark.parametrize(
    "is_spark", [pytest.param(False, id="driver"), pytest.param(True, id="spark", marks=pytest.mark.slow)]
)
def test_doctor_suggests_as_much_as_status(late: Site) -> None:
    """
    Both offsets and how long the source has to keep its changes, whether a policy looks back far enough or not.
    """
    (status,) = late.lake.status("hourly")
    usual, latest = (status.lateness.within(share) or 0 for share in (0.9, 0.999))
    start, end = in_words(latest + 3_600), in_words(usual)
    rest = f"refresh.end_offset {end}, a retention of the source's log and feed >= 24 hours"

    assert 1_800 <= usual <= (1_800 + 3_600) * 1.2
    assert Advice(start, end, "24 hours") == status.advice
    hint = f"set refresh.start_offset to {start} or more, or refresh.catch_dirt = true; this suggests {rest}, too"
    assert [("warning", "doctor.late-rows", hint)] == said(late)
    late.lake.add_policy("hourly", "far", start_offset="10 days", end_offset="5 hours")
    assert [("ok", "doctor.lateness", f"this suggests refresh.start_offset {start}, {rest}")] == said(late)
