from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from materializer.errors import ChangeFeedGapError, ResultTooLargeError, SourceDamagedError, SparkError, StorageError
from materializer.spark.runtime import jvm
from materializer.spark.runtime.failures import feed_gaps, spoken
from tests.spark.runtime.limits import result_limit


def cancelled() -> None:
    """Fail as pyspark does when Ctrl-C stops it: it asks once more for the result of a job that was cancelled."""
    try:
        raise KeyboardInterrupt
    finally:
        raise OSError("SPARK_JOB_CANCELLED")


def test_ctrl_c_stays_ctrl_c() -> None:
    """
    What pyspark raises on the way is not what happened.
    """
    with pytest.raises(KeyboardInterrupt), spoken("computing"):
        cancelled()


def test_an_old_ctrl_c_is_no_new_one() -> None:
    """
    Who goes on after Ctrl-C is told of failures as everybody else.
    """
    try:
        cancelled()
    except OSError:
        with pytest.raises(SparkError, match="disk"), spoken("computing"):
            raise OSError("the disk") from None
        with pytest.raises(KeyboardInterrupt), spoken("computing"):
            cancelled()


# -- what Spark itself raises: these fail when a release says it in another way -------------------------------------------


@pytest.mark.follows_hint("spark.result-too-large")
@pytest.mark.parametrize("fetch", ["collect", "toArrow"])
def test_a_result_beyond_the_limit_is_told_by_its_type(spark: SparkSession, fetch: str) -> None:
    """
    Spark has no condition for it, so the one sentence of `TaskSetManager` is known; it says how much there was.
    """
    frame = spark.range(5000).selectExpr("uuid() AS u")
    with (
        result_limit(spark, "10k"),
        pytest.raises(ResultTooLargeError, match="maxResultSize") as caught,
        spoken("computing"),
    ):
        getattr(frame, fetch)()

    assert caught.value.message.startswith("computing failed: Job aborted")
    assert ("spark.result-too-large", 71) == (caught.value.code, caught.value.exit_status)
    assert "spark.driver.maxResultSize" in caught.value.hint
    with result_limit(spark, "10m"):
        assert 5000 == len(getattr(frame, fetch)())


def test_a_full_heap_is_told_by_its_class(spark: SparkSession) -> None:
    """
    What Java throws is looked at, not what it says.
    """
    java: Any = spark._jvm
    with pytest.raises(ResultTooLargeError), spoken("computing"):
        java.java.util.ArrayList(2**31 - 1)  # refused at once, because no array is as long


@pytest.mark.parametrize(("has_waited", "code"), [(True, "spark.no-cores"), (False, "spark.failed")])
def test_a_cancelled_job_is_told_by_who_cancelled_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, has_waited: bool, code: str
) -> None:
    """
    Cores are to blame only where the watch of a cluster cancelled it; anyone else may cancel jobs, too.
    """
    monkeypatch.setattr(jvm.RECORD, "waits", lambda: has_waited)
    context = spark.sparkContext

    def cancel() -> None:
        while not context.statusTracker().getActiveStageIds():
            time.sleep(0.02)
        context.cancelAllJobs()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(SparkError) as caught, spoken("computing", wrote="nothing was written"):
        spark.range(10**12).selectExpr("sum(hash(id))").collect()
    thread.join()

    assert (code, "nothing was written") == (caught.value.code, caught.value.wrote)


def test_words_alone_decide_nothing(spark: SparkSession) -> None:
    """
    An error of the rows or of the expression stays one, whatever its text speaks of.
    """
    words = "spark.driver.maxResultSize OutOfMemoryError FileNotFoundException FILE_NOT_EXIST"
    with pytest.raises(SparkError) as caught, spoken("computing"):
        spark.sql(f"SELECT `{words}`").collect()

    assert "spark.failed" == caught.value.code
    assert "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION" == caught.value.values["condition"]


def test_a_file_that_is_gone_is_told_by_its_condition(spark: SparkSession, tmp_path: Path) -> None:
    """
    However it is fetched; the sentence names the file.
    """
    spark.range(3).coalesce(1).write.format("delta").save(str(tmp_path))
    frame = spark.read.format("delta").load(str(tmp_path))
    next(tmp_path.glob("*.parquet")).unlink()
    fetches: list[Callable[[], Any]] = [frame.collect, frame.toArrow]
    for fetch in fetches:
        with pytest.raises(SourceDamagedError, match=r"a file is missing: .*part-00000"), spoken("reading"):
            fetch()


def test_a_feed_that_was_off_for_a_commit_says_who_needs_it(spark: SparkSession, tmp_path: Path) -> None:
    """
    By a code of ours and with a way out, wherever the rows are read: asking again would not help.
    """
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (v INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    for is_on in ("false", "true"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{is_on}')")
        spark.sql(f"INSERT INTO {table} VALUES (1)")
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)

    for reading in (spoken("computing", table="/t", version=4), feed_gaps("/t", -1, 4)):
        with pytest.raises(ChangeFeedGapError, match="change feed") as caught, reading:
            feed.load(str(tmp_path / "t")).collect()
        assert ("source.feed-gap", 66) == (caught.value.code, caught.value.exit_status)
        assert "write lateness 'recompute'" in caught.value.hint
        assert "DELTA_MISSING_CHANGE_DATA" == caught.value.values["condition"]


def test_the_file_system_is_told_by_its_number() -> None:
    """
    Of what Python raises the number says what it is.
    """
    for number, reason in (
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "no space left"),
        (errno.EACCES, "permission"),
    ):
        with pytest.raises(StorageError, match=reason), spoken("computing"):
            raise OSError(number, "in any language")
