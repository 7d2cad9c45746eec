"""Several aggregates of one source in one command, computed by Spark: what is read once, and that every output is what plain Spark says."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks.files import opened
from tests.system.builders import Site, spark_is_slow

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.system.builders import Table, Trade

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of opened files")
PARTS = {
    "sums": ("1 hour", ["sym"], {"n": "count(*)", "total": "sum(price)"}),
    "tops": ("2 hours", [], {"top": "max(price)"}),
    "lows": ("30 minutes", ["sym"], {"low": "min(price)"}),
}
"""Width, keys and measures of each aggregate; none can be computed from another one."""
PAIR = ("sums", "lows")


def define(site: Site, names: Collection[str]) -> None:
    """Define some aggregates over ``trades``."""
    for name in names:
        width, keys, measures = PARTS[name]
        site.hourly(name, width=width, keys=keys, measures=measures)


def expect_true(site: Site, names: Collection[str]) -> None:
    """Assert that each is what plain Spark says."""
    for name in names:
        width, keys, measures = PARTS[name]
        columns = ", ".join([f"window(ts, '{width}').start", *keys, *measures.values()])
        groups = ", ".join(str(i + 1) for i in range(len(keys) + 1))
        site.expect_true(name, f"SELECT {columns} FROM {{source}} WHERE ts IS NOT NULL GROUP BY {groups}")


def openings(site: Site, table: Table, names: Collection[str], *, together: bool, **options: Any) -> int:
    """Refresh some aggregates; return how often files of the source were opened."""
    with opened([table.path]) as found, site.lake.together(names) if together else nullcontext():
        reports = [site.lake.refresh(name, **options) for name in names]
    assert found.is_known
    assert "local" not in {run.report.executor for report in reports for run in report.runs}
    assert len(names) == sum(len(report.runs) for report in reports)
    return found.openings.total()


def change(table: Table, minute: int) -> None:
    """Insert a late row and correct one."""
    table.trade((f"01:{minute:02}", "A", minute))
    table.update("price = 1003", price=minute)
    table.trade(("01:31", "B", 1003))


def test_what_the_driver_reads_for_spark_is_read_once(site: Site) -> None:
    """
    Few rows are read by the driver, whichever executor computes: three aggregates open the files of the source no more often than
    one of another lake, and more often without the block.
    """
    table = site.table()
    table.trade(*(row for hour in range(4) for row in trades(hour)))
    define(site, PARTS)
    other = Site(site.root / "other", site.spark, driver_lane_rows=200_000)
    width, keys, measures = PARTS["tops"]
    other.hourly("tops", str(table.path), width=width, keys=keys, measures=measures)
    for lake, names in ((site, PARTS), (other, ["tops"])):
        openings(lake, table, names, together=True)
    for minute in (17, 18):
        change(table, minute)
        one = openings(other, table, ["tops"], together=True)
        every = openings(site, table, PARTS, together=minute == 17)
        assert (every <= one) == (minute == 17), (one, every)
        expect_true(site, PARTS)


def trades(hour: int) -> list[Trade]:
    """Return a trade of each minute of an hour."""
    return [(f"{hour:02}:{minute:02}", "AB"[minute % 2], 1000 + minute) for minute in range(60)]


@spark_is_slow
def test_a_feed_that_only_spark_reads_is_read_once(site: Site) -> None:
    """
    Of a table with deletion vectors, in both lanes. Captures and merges of all aggregates take the changed rows from Spark's memory,
    where nothing is left after the command.
    """
    table = site.table(properties={"delta.enableDeletionVectors": "true"})
    table.trade(*(row for hour in range(4) for row in trades(hour)))
    define(site, PAIR)
    openings(site, table, PAIR, together=True)
    site.spark.catalog.clearCache()  # of the session that all tests share: frames that other tests have kept
    counts = []
    for together in (True, False):
        for minute in range(3):
            table.trade((f"01:{minute:02}", "A", minute), ("02:10", "B", 2))
        counts.append(openings(site, table, PAIR, together=together, strategy="merge"))
        expect_true(site, PAIR)
        assert site.spark._jsparkSession.sharedState().cacheManager().isEmpty()
    assert counts[0] <= counts[1] / 2

    site.spark.sql(f"DELETE FROM {table.sql} WHERE price = 1003")
    site.spark.sql(f"UPDATE {table.sql} SET ts = ts + INTERVAL 30 MINUTES WHERE price = 1004")
    openings(site, table, PAIR, together=True)
    expect_true(site, PAIR)


@pytest.mark.parametrize("site", [0], ids=["spark"], indirect=True)
def test_a_source_suite_sees_columns_that_no_aggregate_reads(site: Site) -> None:
    """
    What the aggregates share has their columns only; the gate reads the others itself.
    """
    expectation = '{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "note"}, "meta": {"severity": "critical"}}'
    site.root.joinpath("expectations").mkdir()
    for name in PAIR:
        file = site.root / "expectations" / f"{name}.source.json"
        file.write_text(f'{{"name": "{name}", "expectations": [{expectation}]}}', encoding="utf-8")
    table = site.table(properties={"delta.enableDeletionVectors": "true"})
    table.trade(("01:00", "A", 1))
    define(site, PAIR)
    openings(site, table, PAIR, together=True)
    for minute in range(3):
        table.trade((f"01:{minute:02}", "A", minute))
    openings(site, table, PAIR, together=True)
    expect_true(site, PAIR)
