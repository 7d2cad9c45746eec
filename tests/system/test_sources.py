"""Sources as they are: corrected, emptied, replaced, compacted, cleaned; after each the aggregate is what Spark says."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.core.language.define import define
from materializer.errors import (
    ChangeFeedGapError,
    FewerRowsError,
    LogGapError,
    NotIncrementalError,
    RefreshWindowTooSmallError,
    SourceReplacedError,
    SourceRolledBackError,
    SourceSchemaChangedError,
)
from materializer.lake.log import commits
from materializer.spark.runtime.failures import feed_gaps
from tests.system import verifying
from tests.system.builders import (
    DAY,
    HOURLY,
    MEASURES,
    SCHEMA,
    Table,
    at,
    in_both_lanes,
    spark_is_slow,
)
from tests.tables import clean_log

TRADES = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3), ("02:20", "B", 4), ("04:00", "A", 5)]
TRADE_TIME = datetime(2024, 3, 1, 1, 40, tzinfo=UTC)
MIDNIGHT = DAY.replace(tzinfo=None)
EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
SCHEMA_FIELDS = list(SCHEMA)
REPLACE = {"mode": "overwrite", "schema_mode": "overwrite"}


@pytest.fixture
def refreshed(site):
    """Five trades in four hours and an hourly aggregate of them, refreshed."""
    site.table().trade(*TRADES)
    site.hourly()
    site.lake.refresh("hourly")
    return site


def buckets(site, name="hourly"):
    return [row[0].hour for row in site.published(name)]


# -- rows change -----------------------------------------------------------------------------------------------------------


@in_both_lanes
def test_an_update_moves_a_row_to_another_bucket(refreshed):
    """
    Both buckets are computed again: the one the row left and the one it went to, which is new.
    """
    refreshed.tables["trades"].update("price = 3", ts=datetime(2024, 3, 1, 3, 30, tzinfo=UTC))

    refreshed.expect_refresh(strategy="recompute")

    assert [0, 0, 2, 3, 4] == buckets(refreshed)
    refreshed.expect_true()


@spark_is_slow
def test_deletes_empty_a_bucket(refreshed):
    """
    The rows of a bucket without source rows are gone, not zero.
    """
    refreshed.tables["trades"].delete("price = 3 OR price = 2")

    refreshed.expect_refresh()

    assert [0, 2, 4] == buckets(refreshed)
    refreshed.expect_true()


def test_the_newest_rows_are_deleted(refreshed):
    """
    An open end still reaches the buckets that were the newest: they go.
    """
    refreshed.tables["trades"].delete("price >= 4")

    refreshed.expect_refresh()

    assert [0, 0, 1] == buckets(refreshed)
    refreshed.expect_true()


def test_every_row_is_deleted(refreshed):
    """
    An emptied source empties the aggregate.
    """
    refreshed.tables["trades"].delete()

    refreshed.expect_refresh()

    assert [] == refreshed.published("hourly")


def test_a_source_is_overwritten(refreshed):
    """
    Old and new buckets are dirty; what the overwrite left out is gone.
    """
    refreshed.tables["trades"].trade(("01:15", "C", 7), ("09:00", "A", 8), mode="overwrite")

    refreshed.expect_refresh()

    assert [1, 9] == buckets(refreshed)
    refreshed.expect_true()


def test_a_source_is_restored(refreshed):
    """
    RESTORE is a change like others: buckets of the undone commits are computed again.
    """
    trades = refreshed.tables["trades"]
    before = trades.version
    trades.trade(("01:20", "A", 30), ("07:00", "C", 9))
    refreshed.lake.refresh("hourly")
    trades.opened().restore(before)

    refreshed.expect_refresh()

    assert [0, 0, 1, 2, 4] == buckets(refreshed)
    refreshed.expect_true()


def test_rows_without_a_time_are_counted_and_picked_up_when_corrected(refreshed):
    """
    They are left out and reported; once they have a time they are in their bucket.
    """
    trades = refreshed.tables["trades"]
    trades.trade((None, "A", 9), (None, "B", 10), ("00:20", "A", 11))

    assert 2 == refreshed.expect_refresh().null_times
    assert 2 == refreshed.lake.status("hourly")[0].null_times
    refreshed.expect_true()

    trades.update("price = 10", ts=datetime(2024, 3, 1, 1, 30, tzinfo=UTC))

    assert 1 == refreshed.expect_refresh().null_times
    refreshed.expect_true()


def test_a_source_without_rows(site):
    """
    A refresh has nothing to do and says so; rows that arrive later are found.
    """
    trades = site.table()
    site.hourly()

    assert "up-to-date" == site.lake.refresh("hourly").outcome
    assert "up-to-date" == site.opened().refresh("hourly").outcome
    assert "empty" == site.lake.status("hourly")[0].state

    trades.trade(*TRADES)
    site.expect_refresh()
    site.expect_true()


def test_rows_at_the_ends_of_time_cost_a_bucket_each(refreshed):
    """
    A row in the year 9999 and one before 1970 add two buckets and no walk over the time between, whole or in runs.
    """
    ends = [datetime(9999, 12, 31, 22, 30, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    for time_of_row in ends:
        refreshed.tables["trades"].trade((time_of_row, "A", 1))

    [run] = refreshed.expect_refresh().runs
    assert 2 == run.report.buckets
    refreshed.expect_true()

    refreshed.hourly("by_runs")
    assert 3 <= len(refreshed.lake.backfill("by_runs", buckets_per_run=2).runs) <= 5
    refreshed.expect_true("by_runs")


@spark_is_slow
def test_times_that_nanoseconds_cannot_hold(site):
    """
    Spark writes timestamps that the library reads as nanoseconds, which end in 2262: such changes are left to Spark.
    """
    path, asked = f"{site.root}/periods", "date_trunc('DAY', begin), k, count(*), max(until)"
    table = f"delta.`{path}`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false')"
    measures = {"rows": "count(*)", "until": "max(until)"}
    site.spark.sql(f"CREATE TABLE {table} (begin TIMESTAMP, until TIMESTAMP, k STRING) USING delta {feed}")

    def expect(strategy):
        site.expect_refresh("periods", strategy=strategy)
        assert site.rows(f"SELECT {asked} FROM {table} GROUP BY 1, 2") == site.published("periods")
        verifying.expect_equal(site.lake, "periods")

    many = "SELECT timestamp'2024-03-01' + make_interval(0, 0, 0, 0, 0, id), timestamp'2024-03-02', 'a' FROM range(900)"
    site.spark.sql(f"INSERT INTO {table} {many} UNION ALL VALUES (timestamp'9998-01-01', timestamp'9998-01-02', 'b')")
    site.lake.define("periods", path, time="begin", width="1 day", keys=["k"], measures=measures)
    expect("rebuild")

    open_end = "(timestamp'2024-03-01 12:00', timestamp'9999-12-31 23:59:59', 'a')"
    site.spark.sql(f"INSERT INTO {table} VALUES {open_end}")
    expect("merge")

    site.spark.sql(f"UPDATE {table} SET begin = begin - INTERVAL 1 YEAR WHERE k = 'b'")
    expect("recompute")
    assert [2024, 9997] == sorted(row[0].year for row in site.published("periods"))


# -- the table is another one ----------------------------------------------------------------------------------------------


def recreated(site):
    shutil.rmtree(site.tables["trades"].path)
    site.table().trade(("05:05", "Z", 50))


def test_a_recreated_source_is_refused_until_rebuilt(refreshed):
    """
    Another table at the same place is never taken for the old one; applying again builds from it.
    """
    recreated(refreshed)
    before = refreshed.published("hourly")

    with pytest.raises(SourceReplacedError) as refused:
        refreshed.lake.refresh("hourly")
    assert "apply the definition" in refused.value.hint
    assert before == refreshed.published("hourly")

    rebuild(refreshed)
    refreshed.expect_true()


def test_a_source_rolled_back_to_an_older_copy_is_refused_until_rebuilt(refreshed, tmp_path):
    """
    A version that was captured and is no more means an older copy.
    """
    trades = refreshed.tables["trades"]
    shutil.copytree(trades.path, tmp_path / "copy")
    trades.trade(("06:00", "A", 6))
    refreshed.lake.refresh("hourly")
    shutil.rmtree(trades.path)
    shutil.copytree(tmp_path / "copy", trades.path)

    with pytest.raises(SourceRolledBackError) as refused:
        refreshed.lake.refresh("hourly")
    assert "apply the definition" in refused.value.hint

    rebuild(refreshed)
    refreshed.expect_true()


def rebuild(site, **parts):
    given = {"time": "ts", "width": "1 hour", "keys": ["sym"], "measures": MEASURES} | parts
    site.lake.apply(define("hourly", "trades", **given))
    assert site.lake.build("hourly").switched


# -- columns change --------------------------------------------------------------------------------------------------------


def test_a_column_is_added(refreshed):
    """
    A definition that does not read it goes on, incrementally.
    """
    rows = [{"ts": TRADE_TIME, "sym": "A", "price": 6, "note": "", "venue": "X"}]
    schema = refreshed.tables["trades"].schema.append(pa.field("venue", pa.string()))
    refreshed.tables["trades"].write(pa.Table.from_pylist(rows, schema=schema), schema_mode="merge")

    refreshed.expect_refresh(strategy="recompute", strict=True)
    refreshed.expect_true()


def dropped(trades, spark):
    trades.write(pa.table({"ts": [TRADE_TIME], "sym": ["A"]}, schema=pa.schema(SCHEMA_FIELDS[:2])), **REPLACE)


def retyped(trades, spark):
    schema = pa.schema([*SCHEMA_FIELDS[:2], ("price", pa.int32())])
    trades.write(pa.table({"ts": [TRADE_TIME], "sym": ["A"], "price": [7]}, schema=schema), **REPLACE)


def renamed(trades, spark):
    spark.sql(f"ALTER TABLE {trades.sql} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {trades.sql} RENAME COLUMN price TO cost")


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("change", "column"),
    [(dropped, None), (retyped, "price"), (renamed, "cost")],
    ids=["dropped", "retyped", "renamed"],
)
def test_a_column_that_is_read_changes(refreshed, change, column):
    """
    It is refused with the column's name; a definition that fits the source, rebuilt, is true.
    """
    trades = refreshed.tables["trades"]
    change(trades, refreshed.spark)
    before = refreshed.published("hourly")

    with pytest.raises(SourceSchemaChangedError) as refused:
        refreshed.lake.refresh("hourly")
    assert "price" == refused.value.values["column"]
    assert before == refreshed.published("hourly")

    total = "" if column is None else f", sum({column}) AS total"
    rebuild(refreshed, measures={"n": "count(*)"} | ({} if column is None else {"total": f"sum({column})"}))
    query = f"SELECT window(ts, '1 hour').start, sym, count(*) AS n{total} FROM {{source}} GROUP BY 1, 2"
    refreshed.expect_true(query=query)


def test_a_column_that_is_not_read_changes(refreshed):
    """
    A source whose other columns change their type is only overwritten.
    """
    schema = pa.schema([*SCHEMA_FIELDS[:3], ("note", pa.int64())])
    columns = {"ts": [TRADE_TIME], "sym": ["A"], "price": [7], "note": [1]}
    refreshed.tables["trades"].write(pa.table(columns, schema=schema), **REPLACE)

    refreshed.expect_refresh()

    assert [1] == buckets(refreshed)
    refreshed.expect_true()


# -- the change feed and the log -------------------------------------------------------------------------------------------


def test_a_source_without_a_change_feed(site):
    """
    What changed is told by the statistics of files: coarser and never less.
    """
    trades = site.table(feed=False)
    trades.trade(*TRADES[:3])
    trades.trade(*TRADES[3:])
    site.hourly()
    site.lake.refresh("hourly")

    trades.update("price = 5", price=50)
    assert "no change feed" in site.lake.plan("hourly").plan.steps[0].reason
    site.expect_refresh()
    site.expect_true()
    trades.delete("price = 3")
    site.expect_refresh()
    site.expect_true()


@pytest.mark.one_of(3)
@pytest.mark.parametrize("feed", [["true"], ["false", "true"], ["false"]], ids=["on", "off and on", "off"])
def test_the_change_feed_is_switched(site, feed):
    """
    Changes before, between and after the switches are all found.
    """
    trades = site.table(feed=feed[0] == "false")
    trades.trade(*TRADES)
    site.hourly()
    site.lake.refresh("hourly")

    trades.update("price = 1", price=10)
    for i, value in enumerate(feed):
        trades.set(enableChangeDataFeed=value)
        trades.update(f"price = {i + 2}", price=20 * (i + 1), ts=datetime(2024, 3, 1, 10 + i, tzinfo=UTC))
    site.expect_refresh()
    site.expect_true()


@pytest.mark.follows_hint("log.gap")
def test_the_log_was_cleaned(refreshed):
    """
    What the removed commits changed nobody knows: everything is computed again, once somebody accepts that a row is missing.
    """
    trades = refreshed.tables["trades"]
    trades.update("price = 1", price=10)
    trades.delete("price = 5")
    clean_log(trades.path)

    with pytest.raises(LogGapError):
        commits(str(trades.path), 1, trades.version)
    with pytest.raises(NotIncrementalError, match="no longer tell what changed"):
        refreshed.lake.refresh("hourly", strict=True)
    with pytest.raises(FewerRowsError, match="made from 1 row"):
        refreshed.lake.refresh("hourly")
    refreshed.expect_refresh(strategy="rebuild", accept_fewer_rows=True)
    refreshed.expect_true()


@spark_is_slow
def test_versions_were_vacuumed(refreshed):
    """
    Change files that are gone are no reason to miss what they held.
    """
    trades = refreshed.tables["trades"]
    trades.update("price = 3", ts=datetime(2024, 3, 1, 8, tzinfo=UTC))
    trades.delete("price = 5")
    trades.opened().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    shutil.rmtree(trades.path / "_change_data")  # which Spark's VACUUM removes too

    refreshed.expect_refresh()
    refreshed.expect_true()


@pytest.mark.follows_hint("source.feed-gap")
def test_versions_lie_behind_the_retention_wall(site):
    """
    Spark refuses a change feed older than the retention of deleted files; another rung finds the same buckets.
    """
    trades = by_spark(site, "'delta.enableDeletionVectors' = 'true'")
    site.hourly()
    site.lake.refresh("hourly")
    site.spark.sql(f"UPDATE {trades.sql} SET ts = ts + INTERVAL 5 HOURS WHERE price = 3")
    site.spark.sql(f"DELETE FROM {trades.sql} WHERE price = 5")
    age(trades, days=30)
    trades.trade(("03:00", "A", 30))

    feed = site.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    with pytest.raises(ChangeFeedGapError), feed_gaps(str(trades.path), 1, trades.version):
        feed.load(str(trades.path)).collect()
    site.expect_refresh()
    site.expect_true()


def test_the_pinned_version_falls_behind_the_retention_wall(site):
    """
    A commit that makes the pinned version unreadable while a refresh is planned costs another attempt, no truth.
    """
    # what has deletion vectors is read by Spark, which looks at the wall; the driver reads what is still there
    trades = by_spark(
        site, "'delta.deletedFileRetentionDuration' = 'interval 1 days', 'delta.enableDeletionVectors' = 'true'"
    )
    site.hourly()

    def overtake(step):
        if step == "compute" and trades.version < 2:
            trades.trade(("03:00", "A", 30))
            age(trades, days=30)

    lake = Materializer(site.lake.root, spark=site.spark, config=site.config, on_checkpoint=overtake)
    assert 2 == lake.refresh("hourly").source_version
    assert not site.lake.status("hourly")[0].open_refresh
    site.expect_true()


def age(table, *, days):
    """Let every commit be so old."""
    for file in (table.path / "_delta_log").iterdir():
        old = time.time() - days * 86_400
        os.utime(file, (old, old))


# -- how the table lies ----------------------------------------------------------------------------------------------------


def test_compaction_dirties_nothing(refreshed):
    """
    OPTIMIZE and ZORDER move rows between files; a refresh after them starts no JVM and does nothing.
    """
    trades = refreshed.tables["trades"]
    trades.trade(("00:30", "A", 6))
    refreshed.lake.refresh("hourly")
    trades.opened().optimize.compact()
    trades.opened().optimize.z_order(["sym", "price"])
    later = refreshed.opened()

    assert later.plan("hourly").plan is None
    report = later.refresh("hourly")

    assert ("up-to-date", trades.version) == (report.outcome, report.source_version)
    assert not later.has_started_spark
    refreshed.expect_true()


def by_spark(site, properties=""):
    """Return the five trades in a table that Spark made."""
    table = Table.__new__(Table)
    table.path, table.schema = site.lake.root / "trades", SCHEMA
    site.tables["trades"] = table
    more = f", {properties}" if properties else ""
    site.spark.sql(
        f"CREATE TABLE {table.sql} (ts TIMESTAMP, sym STRING, price BIGINT, note STRING) USING delta "
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'{more})"
    )
    values = ", ".join(f"(TIMESTAMP '2024-03-01 {clock}:00', '{sym}', {price}, '')" for clock, sym, price in TRADES)
    site.spark.sql(f"INSERT INTO {table.sql} VALUES {values}")
    return table


def test_deletion_vectors(site):
    """
    Rows marked as deleted are gone, also when the mark is all that a commit wrote; purging them dirties nothing.
    """
    trades = by_spark(site, "'delta.enableDeletionVectors' = 'true'")
    site.hourly()
    site.expect_refresh()
    for condition in ("price = 1", "price = 5"):
        site.spark.sql(f"DELETE FROM {trades.sql} WHERE {condition}")
    assert '"deletionVector":{' in trades.log(trades.version).read_text()

    site.expect_refresh()
    assert [0, 1, 2] == buckets(site)
    site.expect_true()

    site.spark.sql(f"UPDATE {trades.sql} SET ts = ts + INTERVAL 2 HOURS WHERE price = 4")
    site.spark.sql(f"REORG TABLE {trades.sql} APPLY (PURGE)")
    site.expect_refresh()
    site.expect_true()
    site.spark.sql(f"REORG TABLE {trades.sql} APPLY (PURGE)")
    assert "up-to-date" == site.lake.refresh("hourly").outcome


def test_mapped_columns(site):
    """
    Columns whose files have other names are read by Spark alone; renaming one that is not read changes nothing.
    """
    trades = by_spark(site, "'delta.columnMapping.mode' = 'name'")
    site.hourly()
    site.expect_refresh()
    site.expect_true()

    site.spark.sql(f"ALTER TABLE {trades.sql} RENAME COLUMN note TO remark")
    site.spark.sql(f"UPDATE {trades.sql} SET ts = ts + INTERVAL 1 HOUR WHERE price = 2")
    site.spark.sql(f"INSERT INTO {trades.sql} VALUES (TIMESTAMP '2024-03-01 00:40:00', 'A', 70, '')")
    site.expect_refresh()
    site.expect_true()


def test_a_source_partitioned_by_a_key(site):
    """
    Keys that live in folder names, null and hostile ones too, come out as they are.
    """
    trades = site.table(partition_by=["sym"])
    trades.trade(*TRADES, ("00:11", None, 6), ("00:12", "a/b c%2F=ü", 7))
    site.hourly()
    site.expect_refresh()
    site.expect_true()

    trades.delete("sym = 'A'")
    trades.trade(("00:13", "a/b c%2F=ü", 8))
    site.expect_refresh()
    site.expect_true()


def test_a_source_partitioned_by_its_time(site):
    """
    Partition values bound what changed where there is no feed; a removed partition is an emptied bucket.
    """
    schema = pa.schema([("day", pa.date32()), ("price", pa.int64())])
    days = site.table("days", schema, feed=False, partition_by=["day"])
    days.write([{"day": date(2024, 2, d), "price": d} for d in range(1, 10)])
    site.hourly("daily", "days", time="day", width="1 day", keys=[], measures={"total": "sum(price)"})
    site.expect_refresh("daily")

    days.delete("day = '2024-02-03'")
    days.write([{"day": date(2024, 2, 5), "price": 50}])
    days_computed = {instant(s.start).day for s in site.expect_refresh("daily").runs[0].plan.spans}
    assert {3, 5} == days_computed
    site.expect_true("daily", "SELECT day, sum(price) FROM {source} GROUP BY day")


@pytest.mark.parametrize("feed", [True, False], ids=["feed", "no feed"])
@pytest.mark.parametrize("why", ["none kept", "beyond the 32nd column"])
def test_the_time_column_has_no_statistics(site, why, feed):
    """
    Without them the newest row is looked up by a scan, and nothing is missed.
    """
    fields = [pa.field(f"x{i}", pa.int64()) for i in range(33 if why.startswith("beyond") else 0)]
    properties = {} if fields else {"delta.dataSkippingNumIndexedCols": "0"}
    trades = site.table("trades", pa.schema([*fields, *SCHEMA_FIELDS]), feed=feed, properties=properties)
    trades.write([{"ts": at(clock), "sym": sym, "price": price} for clock, sym, price in TRADES])
    site.hourly()
    assert "doctor.no-statistics" in {f.code for f in site.lake.doctor("hourly")}
    site.expect_refresh()
    site.expect_true()

    trades.update("price = 3", ts=datetime(2024, 3, 1, 9, tzinfo=UTC))
    trades.write([{"ts": at("00:15"), "sym": "A", "price": 6}])
    site.expect_refresh()
    site.expect_true()


# -- refresh windows -------------------------------------------------------------------------------------------------------


def test_windows_that_leave_gaps(site):
    """
    Refreshing [0, 10), then [50, 60), then everything: each materialises its own buckets and forgets no other.
    """
    ticks = site.table("ticks", pa.schema([("t", pa.int64()), ("v", pa.int64())]))
    ticks.write([{"t": t, "v": t} for t in range(-5, 75)])
    site.hourly("tens", "ticks", time="t", width=10, keys=[], measures={"n": "count(*)", "total": "sum(v)"})

    def refreshed_to(*window):
        site.expect_refresh("tens", start=window[0], end=window[1])
        return [bucket for bucket, *_ in site.published("tens")]

    assert [0] == refreshed_to(0, 10)
    ticks.write([{"t": 3, "v": 1}, {"t": 55, "v": 1}, {"t": 500, "v": 1}])
    assert [0, 50] == refreshed_to(50, 60)
    assert [0, 10, 50] == refreshed_to(0, 20)
    assert [-10, 0, 10, 20, 30, 40, 50, 60, 70, 500] == refreshed_to(None, None)
    assert not site.lake.status("tens")[0].dirty
    site.expect_true("tens", "SELECT t - pmod(t, 10) AS b, count(*), sum(v) FROM {source} GROUP BY 1")


def test_a_window_smaller_than_a_bucket(refreshed):
    """
    It is refused with the window to ask for; an open end takes whole buckets, the newest included.
    """
    with pytest.raises(RefreshWindowTooSmallError) as refused:
        refreshed.lake.refresh("hourly", "2024-03-01T00:10:00Z", "2024-03-01T00:50:00Z")
    assert "widen it to [2024-03-01T00:00:00Z, 2024-03-01T01:00:00Z)" == refused.value.hint

    refreshed.tables["trades"].trade(("04:59", "A", 6), ("05:00", "A", 7))
    refreshed.expect_refresh(start="2024-03-01T03:30:00Z")

    assert [0, 0, 1, 2, 4, 5] == buckets(refreshed)
    refreshed.expect_true()


def test_an_end_inside_a_bucket_leaves_it_out(refreshed):
    """
    Only whole buckets are refreshed: the one the window ends in stays as it was, dirty and shown.
    """
    refreshed.tables["trades"].trade(("01:20", "A", 6), ("02:20", "B", 7))

    report = refreshed.expect_refresh(end="2024-03-01T02:30:00Z")

    [left] = report.left
    assert (MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=3)) == (instant(left.start), instant(left.end))
    assert 4 == {row[0].hour: row[3] for row in refreshed.published("hourly")}[2]
    refreshed.expect_refresh()
    refreshed.expect_true()


def instant(micros):
    return EPOCH + timedelta(microseconds=micros)


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_backfill_by_runs_of_any_size(site, order):
    """
    Whatever a run takes, the last one leaves no dirt and the same rows; one that was stopped goes on. One file says
    that rows may be in any of ten hours.
    """
    site.table().trade(*TRADES, ("09:00", "A", 6), ("09:30", "B", 7))
    for size, runs in ((1, 10), (3, 4), (7, 2), (50, 1)):
        name = site.hourly(f"by_{size}")
        assert 1 == len(site.lake.backfill(name, buckets_per_run=size, order=order, max_runs=1).runs)
        assert runs - 1 == len(site.lake.backfill(name, buckets_per_run=size, order=order).runs)
        assert not site.lake.status(name)[0].dirty
        assert site.lake.plan(name).plan is None
        assert site.rows(HOURLY.format(source=site.tables["trades"].sql)) == site.published(name)
    verifying.expect_equal(site.lake, "by_3")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mend", ["force", "invalidate"])
def test_force_and_invalidate(refreshed, mend):
    """
    Both compute clean buckets again, which mends an output that somebody changed; verify finds what they mend.
    """
    DeltaTable(str(refreshed.lake.root / "hourly" / "output")).delete("total = 3")
    assert not refreshed.lake.verify("hourly").is_equal
    assert "up-to-date" == refreshed.lake.refresh("hourly").outcome
    if mend == "force":
        window = {"start": "2024-03-01T01:00:00Z", "end": "2024-03-01T02:00:00Z"}
        report = refreshed.expect_refresh(force=True, **window)
    else:
        refreshed.lake.invalidate("hourly", "2024-03-01T01:10:00Z", "2024-03-01T01:11:00Z", reason="by hand")
        assert "dirty" == refreshed.lake.status("hourly")[0].state
        report = refreshed.expect_refresh()
    assert [1] == [run.report.buckets for run in report.runs]
    refreshed.expect_true()


# -- kinds of time, keys and names -----------------------------------------------------------------------------------------

TIMES = {
    "date": (
        pa.date32(),
        "1 month",
        {},
        "CAST(date_trunc('MONTH', t) AS date)",
        lambda i: EPOCH.date() + timedelta(days=i),
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        "1 hour",
        {},
        "CAST(date_trunc('HOUR', t) AS timestamp_ntz)",
        lambda i: EPOCH + timedelta(minutes=i),
    ),
    "smallint": (pa.int16(), 10, {}, "CAST(t - pmod(t, 10) AS smallint)", lambda i: i),
    "int in seconds": (pa.int32(), "1 minute", {"resolution": "s"}, "CAST(t - pmod(t, 60) AS int)", lambda i: i),
    "bigint in milliseconds": (pa.int64(), "1 second", {"resolution": "ms"}, "t - pmod(t, 1000)", lambda i: i * 17),
    "bigint": (pa.int64(), 60, {}, "t - pmod(t, 60)", lambda i: i),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", TIMES)
def test_kinds_of_time(site, kind):
    """
    Every type of time is divided as plain Spark divides it, before and after zero, and late rows reach their bucket.
    """
    type_, width, parts, bucket, time_of = TIMES[kind]
    table = site.table("ticks", pa.schema([("t", type_), ("v", pa.int64())]))
    table.write([{"t": time_of(i), "v": i} for i in range(-150, 150, 7)])
    measures = {"n": "count(*)", "total": "sum(v)", "newest": "last(v)"}
    site.hourly("counts", "ticks", time="t", width=width, keys=[], measures=measures, **parts)
    site.expect_refresh("counts")

    table.write([{"t": time_of(-145), "v": 1000}, {"t": time_of(160), "v": 1001}])
    table.delete("v = 4")
    site.expect_refresh("counts")

    query = f"SELECT {bucket} AS bucket, count(*), sum(v), max_by(v, t) FROM {{source}} GROUP BY 1"
    site.expect_true("counts", query)


SHAPES = {
    "null_keys": ({"keys": ["sym"]}, "sym, count(*), sum(price) FROM {t} GROUP BY 1, 2"),
    "expression_keys": (
        {"keys": {"letter": "substr(sym, 1, 1)", "is_big": "price > 3"}},
        "substr(sym, 1, 1), price > 3, count(*), sum(price) FROM {t} GROUP BY 1, 2, 3",
    ),
    "no_keys": ({"keys": []}, "count(*), sum(price) FROM {t} GROUP BY 1"),
    "having_many": (
        {"having": "count(*) > 1 AND sum(price) < 100"},
        "sym, count(*), sum(price) FROM {t} GROUP BY 1, 2 HAVING count(*) > 1 AND sum(price) < 100",
    ),
    "filtered": (
        {"measures": {"n": "count(*) FILTER (WHERE price > 2)", "total": "sum(price) FILTER (WHERE sym = 'A')"}},
        "sym, count_if(price > 2), sum(price) FILTER (WHERE sym = 'A') FROM {t} GROUP BY 1, 2",
    ),
    "distinct_ones": (
        {"keys": [], "measures": {"n": "count(DISTINCT sym)", "total": "sum(DISTINCT price)"}},
        "count(DISTINCT sym), sum(DISTINCT price) FROM {t} GROUP BY 1",
    ),
    "some_rows": ({"where": "price <> 2"}, "sym, count(*), sum(price) FROM {t} WHERE price <> 2 GROUP BY 1, 2"),
}


def test_keys_and_conditions(site):
    """
    Null keys are a group of their own, a group that HAVING lets go comes back when it fits again.
    """
    trades = site.table()
    trades.trade(*TRADES, ("00:20", None, 6), ("00:21", None, None), ("00:22", "A", 1))
    for name, (parts, _) in SHAPES.items():
        site.hourly(name, **({"measures": {"n": "count(*)", "total": "sum(price)"}} | parts))
        site.expect_refresh(name)

    trades.trade(("02:30", "B", 4), ("00:23", None, 200))
    trades.delete("price = 3")
    for name, (_, query) in SHAPES.items():
        site.expect_refresh(name)
        site.expect_true(name, f"SELECT window(ts, '1 hour').start, {query.format(t=trades.sql)}")


def test_an_aggregate_over_the_output_of_another(refreshed):
    """
    An output is a table like any other: what its refreshes change reaches whoever reads it.
    """
    parts = {"time": "bucket", "width": "1 day", "keys": [], "measures": {"n": "sum(n)", "symbols": "count(*)"}}
    refreshed.hourly("daily", "hourly", **parts)
    refreshed.expect_refresh("daily")
    refreshed.tables["trades"].trade(("02:30", "C", 6))
    refreshed.tables["trades"].delete("price = 1")

    assert "up-to-date" == refreshed.lake.refresh("daily").outcome
    refreshed.expect_refresh("hourly")
    refreshed.expect_refresh("daily")

    assert [(MIDNIGHT, 5, 5)] == refreshed.published("daily")
    verifying.expect_equal(refreshed.lake, "daily")


def test_a_folder_of_new_parents_and_children_begins_a_lake(site):
    """
    Spark knows the types of an output that is not there yet; what was made in one command is refreshed from above.
    """
    site.table().trade(*TRADES)
    folder = site.root / "sql"
    folder.mkdir()
    for name, source, bucket in (("a", "b", "date_trunc('month', at)"), ("b", "trades", "time_bucket('1 day', ts)")):
        n = "sum(n)" if name == "a" else "count(*)"
        text = f"CREATE MATERIALIZED VIEW {name} AS SELECT {bucket} AS at, {n} AS n FROM {source} GROUP BY 1"
        (folder / f"{name}.sql").write_text(text)

    assert ["b", "a"] == [change.name for change in site.lake.apply(folder)]
    for name in ("b", "a"):
        site.lake.refresh(name)
    verifying.expect_equal(site.lake, "a")
    assert [n for _, n in site.published("a")] == [sum(n for _, n in site.published("b"))]


@in_both_lanes
def test_hostile_names(tmp_path, site):
    """
    Spaces, quotes, percent signs and letters of any script in folders and columns are only names.
    """
    root = tmp_path / 'it\'s a "lake" #1? 100% ünï'
    columns = {"tïme's": "ts", 'sym"bol': "sym", "pri`ce": "price", "Größe": "note"}
    hostile = site.beside(root, driver_lane_rows=site.config.driver_lane_rows)
    schema = pa.schema([SCHEMA.field(old).with_name(new) for new, old in columns.items()])
    trades = hostile.table("the trades", schema, partition_by=['sym"bol'])
    rows = [{"tïme's": at(clock), 'sym"bol': f"{sym} é'", "pri`ce": price} for clock, sym, price in TRADES]
    trades.write(rows)
    hostile.hourly(
        source=str(trades.path),
        time="`tïme's`",
        keys={"sym": '`sym"bol`'},
        measures={"n": "count(*)", "total": "sum(`pri``ce`)", "top": "max(`pri``ce`)"},
    )
    hostile.expect_refresh()
    trades.write(rows[:1])
    trades.delete('"pri`ce" = 3')
    hostile.expect_refresh()

    query = HOURLY.replace("(ts,", "(`tïme's`,").replace("ts IS", "`tïme's` IS").replace("price", "`pri``ce`")
    hostile.expect_true(query=query.replace(" sym,", ' `sym"bol`,'))
