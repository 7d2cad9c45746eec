"""A revision and a line of the change feed mean that a reader sees another value; another order of the same rows is none."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.system import verifying
from tests.system.builders import DAY, Site

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("until", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("seq", pa.int64()),
    ]
)
FEED = {"output.change_feed": "true"}
IMAGES = ("preimage", "postimage")
MEASURES = {
    "total": "sum(x)",
    "mean": "avg(x)",
    "sd": "stddev_samp(x)",
    "top": "max(x)",
    "newest": "last(x)",
    "n": "count(*)",
}
SERIES: dict[str, Any] = {"engine": "time_series", "window_size": "30 minutes", "step": "10 minutes"}
AGGREGATES: dict[str, dict[str, Any]] = {
    "series": SERIES,
    "sessions": {"engine": "session_window", "session_gap": "6 minutes"},
    "snapshots": {"engine": "snapshot_window", "end": "until"},
    "hourly": {"width": "1 hour"},
}


def _rows(count: int, seed: int) -> list[dict[str, Any]]:
    choose = random.Random(seed)
    found = []
    for i in range(count):
        ts = DAY + timedelta(seconds=choose.randrange(8 * 3600))
        until = ts + timedelta(seconds=choose.randrange(1, 1800))
        found.append({"ts": ts, "until": until, "k": choose.choice("abc"), "x": choose.uniform(-10, 100), "seq": i})
    return found


@pytest.fixture(params=["spark", "auto"])
def site(request, tmp_path, spark) -> Site:
    """A lake for which Spark or the process computes, and Spark first."""
    site = Site(tmp_path, spark, executor=request.param)
    site.table(schema=SCHEMA).write(_rows(400, 1))
    return site


def _defined(site: Site, name: str) -> None:
    parts: dict[str, Any] = {"time": "ts", "keys": ["k"], "measures": MEASURES, "properties": FEED, "sequence": "seq"}
    site.lake.define(name, "trades", **(parts | AGGREGATES[name]))
    site.lake.refresh(name, executor="spark")


def _changes(site: Site, name: str) -> list[dict[str, Any]]:
    """Return the lines of the feed after the first refresh."""
    rows = DeltaTable(str(site.lake.root / name / "changes")).to_pyarrow_table().to_pylist()
    first = min(row["_refresh"] for row in rows)
    return [row for row in rows if row["_refresh"] > first]


def _times(change: dict[str, Any]) -> list[datetime]:
    """Return the bounds of the window that a line of the feed is about."""
    return [value for column, value in change.items() if isinstance(value, datetime) and not column.startswith("_")]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", AGGREGATES)
def test_the_same_rows_again_change_nothing(site: Site, name: str) -> None:
    """
    What Spark computed and the process computes again, and rows that are written again as they were, raise no revision and make
    no line of the change feed; the output is the same to the last digit.
    """
    _defined(site, name)
    before = site.published(name)
    site.lake.refresh(name, force=True)
    assert site.lake.refresh(name).outcome == "up-to-date"
    table = site.tables["trades"]
    table.opened().update(predicate="seq = 7", updates={"x": "x"})
    table.opened().update(predicate="k = 'b'", updates={"x": "x"})
    site.lake.refresh(name)

    assert [] == _changes(site, name)
    assert before == site.published(name)
    verifying.expect_equal(site.lake, name)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", AGGREGATES)
def test_what_a_reader_sees_is_a_change(site: Site, name: str) -> None:
    """
    A row replaced by one with the same values makes none; one with another value makes one in each window that has it, and only there.
    """
    _defined(site, name)
    table = site.tables["trades"]
    (row,) = [r for r in _rows(400, 1) if r["seq"] == 7]
    table.delete("seq = 7")
    table.write([row | {"seq": 1000}])
    site.lake.refresh(name)
    assert [] == _changes(site, name)

    table.opened().update(predicate="seq = 1000", updates={"x": "x + 0.001"})
    site.lake.refresh(name)

    changed = _changes(site, name)
    assert changed
    assert {"update_preimage", "update_postimage"} == {c["_change"] for c in changed}
    assert {row["k"]} == {c["k"] for c in changed}
    if "revision" in changed[0]:
        assert {1} == {c["revision"] for c in changed if c["_change"] == "update_postimage"}
    before, after = (
        [c["total"] for c in sorted(changed, key=_times) if c["_change"] == f"update_{image}"] for image in IMAGES
    )
    assert after == pytest.approx([total + 0.001 for total in before], abs=1e-9)
    verifying.expect_equal(site.lake, name)
