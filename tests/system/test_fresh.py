"""The always-fresh read: the truth as of now, at the price of what is dirty, pinned once it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.refresh.plan import Estimate
from materializer.errors import RefreshWindowTooSmallError, UsageError
from tests.adapters.hostile import HOSTILE
from tests.system.builders import HOURLY, Site

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return hour, symbol and total, sorted."""
    return sorted((row[0].hour, row["sym"], row["total"]) for row in frame.collect())


def test_a_fresh_read_merges_is_pinned_and_writes_nothing(site: Site) -> None:
    """
    One late row among a hundred is merged with what is kept; the frame stays as of its version when more rows come and a
    refresh publishes them; the view is a frame that other sessions see, and says which version it shows and at what cost until
    it is created again.
    """
    trades = site.table("trades")
    trades.trade(*((f"{h:02}:{m:02}", "A", h) for h in range(5) for m in range(20)))
    site.hourly()
    site.lake.refresh("hourly")
    trades.trade(("02:30", "A", 100))
    before = site.files()
    read = site.lake.fresh("hourly")
    view = site.lake.create_fresh_view("hourly")

    truth = [(0, "A", 0), (1, "A", 20), (2, "A", 140), (3, "A", 60), (4, "A", 80)]
    assert ("merge", 2) == (read.strategy, read.source_version)
    assert read.estimate.rows < 20
    assert ("global_temp.`hourly`", read.source_version, "merge") == (str(view), view.source_version, view.strategy)
    assert (read.estimate, read.computed) == (view.estimate, view.computed)
    assert view.seconds > 0
    assert before == site.files()
    assert truth == rows_of(read.frame)

    trades.trade(("02:40", "A", 1_000), ("09:00", "B", 1))
    site.lake.refresh("hourly")
    assert truth == rows_of(read.frame)
    assert truth == rows_of(site.spark.sql(f"SELECT * FROM {view}"))
    renewed = site.lake.create_fresh_view("hourly")
    assert (view.name, 3, "nothing", Estimate()) == (
        renewed.name,
        renewed.source_version,
        renewed.strategy,
        renewed.estimate,
    )
    assert (9, "B", 1) == rows_of(site.spark.sql(f"SELECT * FROM {view}"))[-1]
    assert site.rows(HOURLY.format(source=trades.sql)) == site.published("hourly")


def test_what_a_fresh_read_cost_is_what_the_refresh_after_it_reads(site: Site) -> None:
    """
    Late rows are merged, hours of deleted and corrected ones are computed from their rows, or both: fetched whole, few of its
    rows, and again, a read aggregates as many source rows as a refresh of the same state; a frame that others have is not counted.
    """
    trades = site.table("trades")
    trades.trade(*((f"{h:02}:{m:02}", "A", h) for h in range(5) for m in range(20)))
    site.hourly()
    site.lake.refresh("hourly")

    def correct_then_trade() -> None:
        trades.update("price = 3", price=4)
        site.lake.refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")  # knows of it, and leaves it
        trades.trade(("02:40", "C", 9))

    for change, strategy, aggregated in (
        (lambda: trades.trade(("02:30", "A", 100), ("04:30", "B", 1)), "merge", 2),
        (lambda: trades.delete("price = 100"), "recompute", 20),
        (correct_then_trade, "merge+recompute", 1 + 20),
    ):
        change()
        read = site.lake.fresh("hourly")
        assert [0] == [row["bucket"].hour for row in read.frame.where("hour(bucket) = 0").collect()]  # all clean
        found = [read.fetch(), read.fetch(1), read.fetch()]

        assert [aggregated] * 3 == [f.cost.rows_read for f in found]
        assert all(f.cost.seconds and bool(f.cost.jobs) == bool(read.left_to_spark) for f in found)
        assert (1, found[0].table.num_rows) == (found[1].table.num_rows, found[2].table.num_rows)
        assert 4 == found[1].table.to_pylist()[0]["bucket"].hour
        done = site.lake.refresh("hourly")
        assert (strategy, aggregated) == (done.runs[0].plan.strategy, sum(r.report.rows_read for r in done.runs))
        assert strategy == read.strategy

    idle = site.lake.fresh("hourly").fetch()
    assert (0, 7) == (idle.cost.rows_read, idle.table.num_rows)


def test_what_cannot_name_a_view_is_refused(site: Site) -> None:
    """
    A view is named like an aggregate: what is code, a path or nothing makes no view; another name of that kind does.
    """
    site.table("trades").trade(("00:10", "A", 1))
    site.hourly()
    before = site.files()
    views = {t.name for t in site.spark.catalog.listTables("global_temp")}

    for name in (*HOSTILE, "", "global_temp.other", "x" * 129, "1st", "a b"):
        with pytest.raises(UsageError, match="view name") as refused:
            site.lake.create_fresh_view("hourly", name)
        assert ("usage", "nothing was written") == (refused.value.code, refused.value.wrote)
    assert views == {t.name for t in site.spark.catalog.listTables("global_temp")}
    assert before == site.files()
    assert "global_temp.`now`" == site.lake.create_fresh_view("hourly", "now").name
    assert 1 == site.spark.table("global_temp.now").count()
    site.spark.catalog.dropGlobalTempView("now")


def test_a_fresh_read_of_a_window_computes_that_window(site: Site) -> None:
    """
    Of two dirty hours only the one inside the window is computed; a window without a whole hour is refused; clean rows are
    read as they were published.
    """
    trades = site.table("trades")
    trades.trade(*((f"{h:02}:10", "A", h) for h in range(6)))
    site.hourly()
    site.lake.refresh("hourly")
    trades.trade(("01:20", "A", 10), ("04:20", "A", 10))
    read = site.lake.fresh("hourly", "2024-03-01T04:00:00Z", "2024-03-01T06:00:00Z")

    assert [(4, "A", 14), (5, "A", 5)] == rows_of(read.frame)
    assert 1 == len(read.computed)
    with pytest.raises(RefreshWindowTooSmallError):
        site.lake.fresh("hourly", "2024-03-01T04:10:00Z", "2024-03-01T04:20:00Z")
    clean = site.lake.fresh("hourly", "2024-03-01T02:00:00Z", "2024-03-01T04:00:00Z")
    assert ("nothing", 0) == (clean.strategy, clean.estimate.rows)
    assert [(2, "A", 2), (3, "A", 3)] == rows_of(clean.frame)


def test_a_fresh_read_where_nothing_is(site: Site) -> None:
    """
    An empty source, and a window above its newest row, have no rows; nothing is computed.
    """
    trades = site.table("trades")
    site.hourly()
    assert ([], "nothing") == (rows_of(site.lake.fresh("hourly").frame), site.lake.fresh("hourly").strategy)

    trades.trade(("01:10", "A", 1))
    above = site.lake.fresh("hourly", "2024-03-01T05:00:00Z", "2024-03-01T06:00:00Z")
    assert ([], "nothing") == (rows_of(above.frame), above.strategy)
    assert [(1, "A", 1)] == rows_of(site.lake.fresh("hourly").frame)


def test_a_fresh_read_of_an_engine_computes_what_a_change_touches(site: Site) -> None:
    """
    One late row joins two sessions of one symbol: these are computed, the others read as they were published; so it is in a
    window, after which the refresh publishes the same.
    """
    trades = site.table("trades")
    trades.trade(*((f"{h:02}:{m:02}", sym, h) for h in range(8) for m in (0, 5, 20) for sym in "AB"))
    parts = {"time": "ts", "keys": ["sym"], "session_gap": "10 minutes", "measures": {"n": "count(*)"}}
    site.lake.define("sessions", "trades", engine="session_window", **parts)
    site.lake.refresh("sessions")
    trades.trade(("03:12", "A", 100))
    read = site.lake.fresh("sessions")
    found = set(read.frame.collect())
    inside = site.lake.fresh("sessions", "2024-03-01T03:00:00Z", "2024-03-01T04:00:00Z")

    assert "recompute" == read.strategy
    assert 10 > read.estimate.likely_rows > 0
    assert [4] == [row["n"] for row in found if row["n"] > 2]
    assert {row for row in found if row["slice"].hour == 3} == set(inside.frame.collect())
    counts = [r.fetch().cost.rows_read for r in (read, inside)]
    done = site.lake.refresh("sessions", executor="spark")  # this process adds the row to its stored session
    assert counts == [done.runs[0].report.rows_read] * 2
    published = site.lake.fresh("sessions")
    assert (found, "nothing", 0) == (set(published.frame.collect()), published.strategy, published.estimate.rows)
