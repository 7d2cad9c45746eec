"""How late rows were is told from real commits, whoever reads the change feed."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from materializer.services import capture
from tests.system.builders import Site


def ago(seconds: int) -> datetime:
    """Return a time of the recent past."""
    return datetime.fromtimestamp(time.time() - seconds, UTC)


@pytest.mark.parametrize("is_spark", [False, True], ids=["driver", "spark"])
def test_status_tells_how_late_rows_were(site: Site, monkeypatch: pytest.MonkeyPatch, is_spark: bool) -> None:
    """
    Of 200 rows after the definition 190 come half an hour late and ten come two days late; Spark rounds up to a bucket.
    """
    if is_spark:
        monkeypatch.setattr(capture, "DRIVER_ROWS", 10)
    trades = site.table("trades")
    trades.trade((ago(0), "A", 1))
    site.hourly(properties={"refresh.start_offset": "5 hours", "refresh.end_offset": "1 hour"})
    site.lake.refresh("hourly")
    trades.trade(*((ago(1_800), "A", i) for i in range(190)), *((ago(172_800), "A", i) for i in range(10)))
    site.lake.refresh("hourly")
    (status,) = site.lake.status("hourly")
    usual, latest = status.lateness.within(0.5), status.lateness.within(0.999)

    assert 200 == status.lateness.total
    assert status.advice
    assert usual
    assert latest
    assert 1_800 <= usual <= (1_800 + 3_600) * 1.2
    assert 172_800 <= latest <= (172_800 + 3_600) * 1.2
    assert ["doctor.late-rows"] == [f.code for f in site.lake.doctor("hourly") if f.level == "warning"]
