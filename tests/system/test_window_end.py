"""An aggregate of which only the end of the bucket is selected: every way in which its rows come, change, go and are kept."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.core.language.define import define
from materializer.core.spec.spec import AggregateSpec
from tests.system import verifying
from tests.system.builders import DAY, Site, Table, spark_is_slow
from tests.system.lake import micros, replayed
from tests.system.small_files import files_of, torn

SQL = """CREATE MATERIALIZED VIEW ends TBLPROPERTIES ({properties}) AS
SELECT window(ts, '1 hour').end AS until, sym, count(*) AS n, sum(price) AS total FROM trades
GROUP BY window(ts, '1 hour'), sym"""
PLAIN = """SELECT window(ts, '1 hour').end AS until, sym, count(*) AS n, sum(price) AS total FROM {source}
GROUP BY window(ts, '1 hour'), sym"""
FEED: Final = {"output.change_feed": "true"}
TRADES = [(f"{hour:02}:{minute:02}", sym, hour) for hour in range(5) for minute in range(0, 60, 6) for sym in "AB"]
LAST = DAY.replace(hour=2) - timedelta(microseconds=1)
"""The last instant of a bucket; the first one is a row of the next."""


def ends(site: Site, **properties: str) -> Site:
    """Define the aggregate, with a change feed, over five hours of trades with a file an hour, and refresh it."""
    trades = site.table()
    for hour in range(5):
        trades.trade(*[t for t in TRADES if t[0].startswith(f"{hour:02}")])
    apply(site, **properties)
    site.expect_refresh("ends", strategy="rebuild")
    expect_true(site)
    return site


def apply(site: Site, **properties: str) -> None:
    """Define it, or change its properties; a name's first underscore is its dot."""
    given = FEED | {name.replace("_", ".", 1): value for name, value in properties.items()}
    site.lake.apply(SQL.format(properties=", ".join(f"'{name}' = '{value}'" for name, value in given.items())))


def expect_true(site: Site) -> None:
    """Assert that it is what plain Spark says, and where its change feed leads to."""
    site.expect_true("ends", PLAIN)
    expect_fed(site)


def expect_fed(site: Site, name: str = "ends") -> None:
    """Assert that the change feed leads to what is published."""
    rows = DeltaTable(str(site.lake.root / name / "output")).to_pyarrow_table().to_pylist()
    assert Counter(tuple(row.values()) for row in rows) == replayed(site.lake.root, name)


def until(site: Site) -> list[int]:
    """Return the hours at which published buckets end."""
    return sorted({row[0].hour for row in site.published("ends")})


def fed(site: Site, name: str = "ends") -> list[dict[str, Any]]:
    """Return the rows of a change feed."""
    return DeltaTable(str(site.lake.root / name / "changes")).to_pyarrow_table().to_pylist()


def told(site: Site) -> list[tuple[int, str, str, str]]:
    """Return (hour of the end, symbol, change, reason) of the newest refresh in the feed, sorted."""
    rows = fed(site)
    newest = max(row["_refresh"] for row in rows)
    found = [row for row in rows if row["_refresh"] == newest]
    return sorted((row["until"].hour, row["sym"], row["_change"], row["_reason"]) for row in found)


# -- what changes --------------------------------------------------------------------------------------------------------


@spark_is_slow
def test_rows_come_change_move_and_go(site):
    """
    Each ends in the bucket that holds it and in no neighbour, the first and the last instant of a bucket included.
    """
    trades = ends(site).tables["trades"]
    trades.trade((LAST, "A", 100), ("03:00", "A", 7))
    site.expect_refresh("ends", strategy="merge")
    expect_true(site)
    pair = ["update_postimage", "update_preimage"]
    assert [(hour, "A", change, "late") for hour in (2, 4) for change in pair] == told(site)

    trades.update("price = 100", price=50)
    site.expect_refresh("ends", strategy="recompute-keys")
    expect_true(site)
    assert [(2, "A", change, "correction") for change in pair] == told(site)

    trades.update("price = 50", ts=DAY.replace(hour=2))  # an instant later, and in the next bucket
    site.expect_refresh("ends")
    expect_true(site)
    assert [(hour, "A", change, "correction") for hour in (2, 3) for change in pair] == told(site)

    trades.delete("sym = 'B' AND price = 3")
    site.expect_refresh("ends")
    expect_true(site)
    assert [(4, "B", "delete", "delete")] == told(site)

    before = told(site)
    site.lake.refresh("ends", force=True)
    expect_true(site)
    assert before == told(site), "the same rows again are no change"


@pytest.mark.slow
def test_it_is_read_fresh_shown_and_forced_by_window(site):
    """
    A window is about buckets: the one that ends where the window ends is in it, the one that ends where it begins is not.
    """
    trades = ends(site).tables["trades"]
    torn(site, "ends")
    window = "2024-03-01T01:00:00Z", "2024-03-01T02:00:00Z"
    start, end = window
    assert [2, 2] == [row[0].hour for row in site.lake.show("ends", start=start, end=end)[1]]
    assert [1, 1] == [row[0].hour for row in site.lake.show("ends", end=start)[1]]
    assert [5, 5, 4] == [row[0].hour for row in site.lake.show("ends", limit=3)[1]]

    trades.trade(("01:10", "A", 1), ("02:10", "A", 2))
    seen = {row["until"].hour: row["total"] for row in site.lake.fresh("ends", *window).rows.frame.collect()}
    assert [2] == list(seen)
    fresh = [tuple(row) for row in site.lake.read("ends", fresh=True).collect()]
    assert sorted(fresh) == sorted(site.rows(PLAIN.format(source=trades.sql)))

    site.lake.refresh("ends", *window)
    assert [2] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("ends")[0].dirty]
    site.lake.refresh("ends", *window, force=True)
    assert [2] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("ends")[0].dirty]
    site.expect_refresh("ends")
    expect_true(site)
    site.lake.refresh("ends", force=True)
    expect_true(site)


# -- what is kept --------------------------------------------------------------------------------------------------------


@spark_is_slow
def test_it_is_maintained_and_repaired(site):
    """
    Small files become one and no row changes; an output or partials that are lost come back.
    """
    trades = ends(site).tables["trades"]
    torn(site, "ends")
    before = site.published("ends")
    assert files_of(site, name="ends") > 1
    site.lake.maintain("ends")
    assert (1, before) == (files_of(site, name="ends"), site.published("ends"))
    trades.trade((LAST, "A", 1), ("05:00", "C", 1))
    site.expect_refresh("ends")
    expect_true(site)

    state = site.lake.journal.view().named("ends")
    shutil.rmtree(site.lake.root / "ends" / "output")
    assert "repaired" == site.lake.repair("ends").outcome
    assert "up-to-date" == site.lake.refresh("ends").outcome
    expect_true(site)
    shutil.rmtree(site.lake.root / "ends" / "partials" / state.data_version)
    assert site.lake.repair("ends").mending.is_everything_dirty
    trades.delete("price = 4")
    site.expect_refresh("ends", strategy="rebuild")
    expect_true(site)


@spark_is_slow
def test_its_output_lets_old_buckets_go(site):
    """
    What is kept are whole buckets, by their starts; rows that come later below make nothing dirty.
    """
    trades = ends(site).tables["trades"]
    apply(site, output_retention="2 hours")
    site.lake.refresh("ends")
    assert [4, 5] == until(site)
    expect_fed(site)
    trades.trade((DAY.replace(hour=3) - timedelta(microseconds=1), "A", 1))
    assert site.lake.refresh("ends").runs == ()
    trades.trade(("05:59", "A", 1))
    site.lake.refresh("ends")
    assert [5, 6] == until(site)
    expect_fed(site)
    verifying.expect_equal(site.lake, "ends")


@spark_is_slow
def test_its_history_outlives_its_raw_rows(site):
    """
    Raw rows go as source.retention lets them: what they made stays, late rows are merged, and a repair freezes no more.
    """
    trades = ends(site, source_retention="3 hours").tables["trades"]
    assert micros(DAY.replace(hour=2)) == site.lake.status("ends")[0].frozen
    kept = site.published("ends")
    trades.delete("price < 2")
    assert site.lake.refresh("ends").runs == ()
    assert kept == site.published("ends")
    trades.trade((LAST, "A", 100), ("02:00", "A", 1000))
    site.lake.refresh("ends")
    grown = [(*row[:2], row[2] + 1, row[3] + {2: 100, 3: 1000}[row[0].hour]) for row in kept if is_late(row)]
    assert sorted(grown + [row for row in kept if not is_late(row)]) == sorted(site.published("ends"))
    expect_fed(site)

    state = site.lake.journal.view().named("ends")
    shutil.rmtree(site.lake.root / "ends" / "output")
    site.lake.repair("ends")
    assert micros(DAY.replace(hour=2)) == site.lake.status("ends")[0].frozen
    assert sorted(grown + [row for row in kept if not is_late(row)]) == sorted(site.published("ends"))
    shutil.rmtree(site.lake.root / "ends" / "partials" / state.data_version)
    assert site.lake.repair("ends").mending.is_everything_dirty
    assert micros(DAY.replace(hour=2)) == site.lake.status("ends")[0].frozen
    assert sorted(grown + [row for row in kept if not is_late(row)]) == sorted(site.published("ends"))
    verifying.expect_equal(site.lake, "ends")


def is_late(row: tuple[datetime, str]) -> bool:
    """Whether late rows come to a published one."""
    return row[0].hour in (2, 3) and row[1] == "A"


# -- the gate ------------------------------------------------------------------------------------------------------------


@spark_is_slow
def test_a_gate_holds_its_bucket_back(site):
    """
    The bucket that fails, and neither neighbour; corrected, it is published.
    """
    site.config.expectations.mkdir()
    most = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "total", "max_value": 60}}
    (site.config.expectations / "ends.json").write_text(json.dumps({"name": "ends", "expectations": [most]}))
    trades = ends(site, quality_on_failure="buckets", quality_checks="true").tables["trades"]
    trades.trade(("01:10", "A", 1), ("02:10", "A", 90), ("03:10", "A", 1), ("05:00", "A", 1))
    before = site.published("ends")
    site.lake.refresh("ends")
    assert [2] == [span.start // 3_600_000_000 % 24 for span in site.lake.status("ends")[0].dirty]
    assert [row for row in before if row[0].hour == 3] == [r for r in site.published("ends") if r[0].hour == 3]
    changed = {row[0].hour for row in set(site.published("ends")) ^ set(before)}
    assert {2, 4, 6} == changed
    expect_fed(site)
    assert site.lake.check("ends").verdict.is_publishable

    trades.update("price = 90", price=9)
    site.expect_refresh("ends")
    expect_true(site)


# -- other grids ---------------------------------------------------------------------------------------------------------

BERLIN = "from_utc_timestamp(ts, 'Europe/Berlin')"
CALENDARS: Final = {
    "month": (
        {"width": "1 month"},
        "CAST(add_months(date_trunc('MONTH', ts), 1) AS TIMESTAMP)",
        ["2024-01-31T23:59:59", "2024-02-01", "2024-02-29", "2024-03-01"],
    ),
    "day in a zone": (
        {"width": "1 day", "timezone": "Europe/Berlin"},
        f"to_utc_timestamp(date_trunc('DAY', {BERLIN}) + INTERVAL 1 DAY, 'Europe/Berlin')",
        ["2024-03-30T22:59:59", "2024-03-30T23:00:00", "2024-03-31T21:59:59", "2024-03-31T22:00:00"],
    ),
    "date": ({"width": "1 day"}, "date_add(ts, 1)", ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]),
}
"""What makes the grid, the end of a bucket in plain Spark, and times of rows on both sides of edges, in order."""


@pytest.mark.slow
@pytest.mark.parametrize("calendar", CALENDARS)
@spark_is_slow
def test_a_calendar_ends_its_buckets(site, calendar):
    """
    Months, days of a zone over a change of its clock, and dates: rows come, change, go and are let go, and a lost output
    comes back.
    """
    grid, plain, times = CALENDARS[calendar]
    kind, read = (pa.date32(), date) if calendar == "date" else (pa.timestamp("us", "UTC"), datetime)
    trades = site.table(schema=pa.schema([("ts", kind), ("price", pa.int64())]))
    query = f"SELECT {plain} AS until, count(*) AS n, sum(price) AS total FROM {{source}} GROUP BY 1"

    def insert(price: int, count: int = 1) -> None:
        for at in times:
            when = read.fromisoformat(at[:10] if read is date else at)
            row = {"ts": when.replace(tzinfo=UTC) if isinstance(when, datetime) else when, "price": price}
            trades.write([row] * count)

    insert(1, 50)
    site.lake.apply(end_only("bars", trades, **grid))
    site.expect_refresh("bars")
    site.expect_true("bars", query)
    insert(2)
    site.expect_refresh("bars", strategy="merge")
    trades.update("price = 1", price=5)
    site.expect_refresh("bars")
    trades.delete("price = 2")
    site.expect_refresh("bars")
    site.expect_true("bars", query)
    torn(site, "bars")
    site.lake.maintain("bars")
    shutil.rmtree(site.lake.root / "bars" / "output")
    site.lake.repair("bars")
    site.lake.refresh("bars", force=True)
    site.expect_true("bars", query)
    expect_fed(site, "bars")

    whole = site.published("bars")
    site.lake.apply(end_only("bars", trades, **grid, properties=FEED | {"output.retention": f"2 {grid['width'][2:]}s"}))
    site.lake.refresh("bars")
    assert whole[-2:] == site.published("bars")
    expect_fed(site, "bars")


def end_only(name: str, source: Table, **parts: Any) -> AggregateSpec:
    """Return a definition of a calendar's buckets with their ends alone."""
    measures = {"n": "count(*)", "total": "sum(price)"}
    given = {"bucket_end": "until", "measures": measures, "properties": FEED} | parts
    spec = define(name, str(source.path), time="ts", **given)
    return replace(spec, bucket_start=None, columns=tuple(c for c in spec.columns if c != spec.bucket_start))


# -- over it -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_aggregate_reads_it(site):
    """
    Its ends are the times of another aggregate's rows; what changes, moves and goes reaches that one.
    """
    trades = ends(site).tables["trades"]
    site.lake.define("over", "ends", time="until", width="2 hours", measures={"total": "sum(total)"})
    query = f"SELECT window(until, '2 hours').start AS bucket, sum(total) AS total FROM ({PLAIN}) GROUP BY 1"
    site.lake.refresh("over")
    site.expect_true("over", query)
    trades.update("price = 1", ts=DAY.replace(hour=2))
    trades.delete("price = 4 AND sym = 'A'")
    trades.trade((LAST, "A", 3))
    site.lake.refresh("ends")
    site.lake.refresh("over")
    site.expect_true("over", query)
