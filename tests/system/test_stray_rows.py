"""One stray row is bounded work: windows are counted before they are made."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.config import Limits
from materializer.core.refresh.plan import Lane
from materializer.errors import TooManyWindowsError
from tests.system.builders import DAY, Site

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("until", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())]
)
START = datetime(2024, 3, 4, 9, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
HALF_A_CENTURY = (START - LONG_AGO) // timedelta(minutes=1)
FAR_AHEAD = datetime(9999, 12, 30, 10, tzinfo=UTC)
MINUTE_BARS = {"engine": "time_series", "window_size": "1 minute", "step": "1 minute"}
DAILY = {
    "engine": "daily_time_series",
    "window_size": "1 minute",
    "step": "1 minute",
    "session_begin": "09:00:00",
    "session_end": "11:00:00",
}
HOPPING = {"engine": "hopping_window", "end": "until", "duration": "2 minutes", "period": "1 minute"}


def site(tmp_path: Path, spark: SparkSession, engine: dict[str, Any], **limits: int) -> Site:
    """Return a lake with ten minutes of rows of two keys, and an aggregate over them that nobody has refreshed yet."""
    made = Site(tmp_path, spark, **({"limits": Limits(**limits)} if limits else {}))
    made.table("rows", SCHEMA)
    insert(made, *[(START + timedelta(minutes=i), "ab"[i % 2]) for i in range(10)])
    made.lake.define("made", "rows", time="ts", keys=["k"], measures={"total": "sum(v)"}, **engine)
    return made


def insert(made: Site, *rows: tuple[datetime, str], lasts: timedelta = timedelta(seconds=30)) -> None:
    made.tables["rows"].write([{"ts": ts, "until": ts + lasts, "k": k, "v": 1} for ts, k in rows])


def refused(made: Site, **options: Any) -> TooManyWindowsError:
    """Return the error of a refresh, of which the lake's tables show nothing."""
    before = made.files()
    with pytest.raises(TooManyWindowsError) as caught:
        made.lake.refresh("made", **options)
    assert ("data.too-many-windows", "nothing was written") == (caught.value.code, caught.value.wrote)
    tables = {name: at for name, at in made.files().items() if "_materializer" not in name}
    assert {name: at for name, at in before.items() if "_materializer" not in name} == tables
    return caught.value


@pytest.mark.follows_hint("data.too-many-windows")
def test_a_row_long_ago_does_not_fill_half_a_century(spark, tmp_path) -> None:
    """
    One-minute bars with ``fill`` and a row of 1970, before the first refresh and after it: the refresh is refused and names the
    row, its time and the property. When the row is gone, the same refresh succeeds.
    """
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "null"})
    insert(made, (LONG_AGO, "a"))
    error = refused(made)
    assert HALF_A_CENTURY <= error.values["windows"] <= HALF_A_CENTURY + 2
    assert "the row k = 'a' at 1970-01-01T00:01:00Z comes before 2024-03-04T09:00:00Z" in str(error)
    assert "'fill'" in error.hint
    assert "1970-01-01T00:01:00Z" == error.values["time"]

    made.tables["rows"].delete("v = 1 AND ts < '2000-01-01'")
    assert "refreshed" == made.lake.refresh("made").outcome
    published = made.published("made")
    assert 16 == len(published), "all but the open windows of the newest rows"

    insert(made, (LONG_AGO, "a"))
    assert HALF_A_CENTURY <= refused(made).values["windows"] <= HALF_A_CENTURY + 2
    made.tables["rows"].delete("v = 1 AND ts < '2000-01-01'")
    assert "refreshed" == made.lake.refresh("made").outcome
    assert published == made.published("made")


def test_a_row_far_ahead_is_named_too(spark, tmp_path) -> None:
    """
    Where more rows of the key lie before the gap than after it, the later row is the stray one.
    """
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "ffill"})
    made.lake.refresh("made")
    insert(made, (FAR_AHEAD, "b"))
    error = refused(made)
    assert "the row k = 'b' at 9999-12-30T10:00:00Z comes after 2024-03-04T09:09:00Z" in str(error)


def test_a_row_that_forces_windows_of_all_keys_shut_is_named(spark, tmp_path) -> None:
    """
    With ``force_trigger_time`` a row ten years ahead closes and fills ten years of every other key.
    """
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "null", "force_trigger_time": "1 minute"})
    insert(made, (START + timedelta(days=3650), "c"))
    error = refused(made)
    assert "until the newest row of all keys, k = 'c' at 2034-03-02T09:00:00Z" in str(error)
    assert "2034-03-02T09:00:00Z" == error.values["time"]
    assert "'force_trigger_time'" in error.hint


def test_an_event_that_ends_in_9999_is_not_put_into_all_windows(spark, tmp_path) -> None:
    """
    Hopping windows of a minute over an event that lasts for 8,000 years are refused, before the first refresh and after it.
    """
    made = site(tmp_path, spark, HOPPING)
    assert "refreshed" == made.lake.refresh("made").outcome
    insert(made, (START, "a"), lasts=FAR_AHEAD - START)
    error = refused(made)
    assert "the row k = 'a' at 2024-03-04T09:00:00Z lasts until 9999-12-30T10:00:00Z" in str(error)
    assert "'period'" in error.hint
    made.lake.invalidate("made")
    assert error.values == refused(made).values


def test_trading_days_are_not_filled_until_9999(spark, tmp_path) -> None:
    """
    A filled daily engine that forgets no keys, and a row in 9999.
    """
    made = site(tmp_path, spark, {**DAILY, "fill": "ffill", "key_purge_daily": "false"})
    insert(made, (FAR_AHEAD, "a"))
    error = refused(made)
    assert error.values["windows"] > 7_970 * 365 * 120
    assert "9999-12-30T10:00:00Z" == error.values["time"]
    assert "'key_purge_daily'" in error.hint


def test_a_clock_does_not_fill_for_ever(spark, tmp_path) -> None:
    """
    A refresh as of the year 2999 would fill windows until then.
    """
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "null"})
    made.lake.refresh("made")
    error = refused(made, as_of="2999-01-01")
    assert "until the clock, 2999-01-01T00:00:00Z" in str(error)
    assert "refreshed" == made.lake.refresh("made", as_of="2024-03-05").outcome
    assert 14 * 60 + 50 < len(made.published("made")) / 2 <= 15 * 60


@pytest.mark.slow
def test_many_dirty_spans_are_not_walked_bucket_by_bucket(spark, tmp_path) -> None:
    """
    Buckets of a microsecond, and more dirty spans than stand in a predicate, each of an hour: all are computed, none is walked.
    """
    made = Site(tmp_path, spark)
    made.table("trades").trade(*[(f"{i // 60:02}:{i % 60:02}", "A", i) for i in range(0, 24 * 60, 20)])
    made.hourly("ticks", width="1 microsecond", keys=[], measures={"n": "count(*)", "total": "sum(price)"})
    made.lake.refresh("ticks")
    for i in range(0, 24 * 60, 20):
        made.lake.invalidate("ticks", clock(i), clock(i + 10))
    began = time.monotonic()
    report = made.lake.refresh("ticks")
    assert time.monotonic() - began < 120
    assert 72 == sum(run.report.rows_read for run in report.runs)
    made.expect_true("ticks", "SELECT ts, count(*), sum(price) FROM {source} GROUP BY 1")


def clock(minute: int) -> str:
    """Return a minute of the first day of the trades."""
    return (DAY + timedelta(minutes=minute)).isoformat()


def test_the_limit_is_a_setting_and_what_is_made_decides_the_lane(spark, tmp_path) -> None:
    """
    Eleven rows that make 2,000 windows: refused with a limit of 1,000, planned as 2,000 windows without one, and committed by Spark
    where the driver may commit 1,500 rows.
    """
    gap = timedelta(minutes=1_990)
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "null"}, windows=1_000)
    insert(made, (START - gap, "a"))
    error = refused(made)
    assert 1_000 == error.values["limit"]
    with pytest.raises(TooManyWindowsError) as planned:
        made.lake.plan("made")
    assert str(planned.value) == str(error), "a plan says the same"
    opened = Site(tmp_path, spark, driver_lane_rows=1_500).lake
    plan = opened.plan("made").plan
    assert plan is not None
    assert 11 == plan.estimate.rows
    assert 2_000 <= plan.windows <= 30_000, "by the files' times alone"
    assert Lane.SPARK == plan.lane
    assert 2_006 == sum(run.report.rows_written for run in opened.refresh("made").runs)


def test_many_small_gaps_are_too_many_together(spark, tmp_path) -> None:
    """
    No row makes more windows than the limit, but all of them together do.
    """
    made = site(tmp_path, spark, {**MINUTE_BARS, "fill": "null"}, windows=500)
    insert(made, *[(START - timedelta(minutes=400), f"key {i}") for i in range(20)])
    insert(made, *[(START, f"key {i}") for i in range(20)])
    error = refused(made)
    assert "windows for 50 rows, most of them" in str(error)
    assert 8_000 < error.values["windows"] < 9_000


def test_overlapping_windows_of_a_row_are_counted(spark, tmp_path) -> None:
    """
    A row in a million windows of a second is refused; the two properties that decide it are named.
    """
    made = site(tmp_path, spark, {"engine": "time_series", "window_size": "12 days", "step": "1 second"})
    error = refused(made)
    assert 12 * 86_400 == error.values["windows"]
    assert "'window_size' and 'step'" in error.hint


def test_windows_that_neighbours_share_are_counted_once(spark, tmp_path) -> None:
    """
    Ten rows, each in three windows: 30 allow for more than the limit, so they are counted, and are the 22 that come out.
    """
    made = site(
        tmp_path,
        spark,
        {"engine": "time_series", "window_size": "3 minutes", "step": "1 minute", "update_time": "1 s"},
        windows=20,
    )
    plan = made.lake.plan("made").plan
    assert plan is not None
    assert 22 == plan.windows
    assert 22 == sum(run.report.rows_written for run in made.lake.refresh("made").runs)


def test_overlapping_panes_of_a_row_are_counted(spark, tmp_path) -> None:
    """
    A row in a million panes of a second is refused as well, and the properties of panes are named.
    """
    made = site(
        tmp_path,
        spark,
        {"engine": "event_time_window", "interval_duration": "12 days", "creation_period": "1 second"},
    )
    error = refused(made)
    assert 12 * 86_400 == error.values["windows"]
    assert "'interval_duration' and 'creation_period'" in error.hint
