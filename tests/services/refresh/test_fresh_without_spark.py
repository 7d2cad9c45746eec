"""Fresh reads in this process; the engine that stands for Spark cannot compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from materializer.config import Config
from tests.services.no_spark import LocalLake, NoSpark, each, view

HOUR = 3_600_000_000


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with three hours that are published."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5), (HOUR, 7), (2 * HOUR, 8))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    lake.opened.refresh("hourly")
    return lake


def fresh(lake: LocalLake, limit: int | None = None, **window: Any) -> list[dict[str, Any]]:
    """Return the rows of a fresh read."""
    read = lake.opened.fresh("hourly", **window)
    assert "" == read.left_to_spark
    return read.fetch(limit).table.to_pylist()


def test_a_fresh_read_is_what_a_refresh_publishes(lake: LocalLake) -> None:
    """
    Late rows, a new bucket, a deletion and buckets that were invalidated are computed on the fly; nothing is written.
    """
    lake.add((2, 10), (5 * HOUR, 1))
    lake.opened.invalidate("hourly", "1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z")
    before = lake.state("hourly"), lake.rows_of("hourly")
    read = lake.opened.fresh("hourly")
    found = read.fetch()
    assert before == (lake.state("hourly"), lake.rows_of("hourly"))

    report = lake.opened.refresh("hourly")
    assert lake.rows_of("hourly") == sorted(found.table.to_pylist(), key=lambda row: row["at"])
    assert (sum(run.report.rows_read for run in report.runs), 0) == (found.cost.rows_read, found.cost.jobs)


def test_the_newest_rows_come_first(lake: LocalLake) -> None:
    """
    A limit takes the newest buckets, the dirty ones among them.
    """
    lake.add((5 * HOUR, 1))

    assert [(1, 1), (8, 1)] == [(row["v"], row["n"]) for row in fresh(lake, 2)]


def test_a_window_has_its_buckets_only(lake: LocalLake) -> None:
    """
    Of a window only its buckets are returned, clean or dirty.
    """
    lake.add((2, 10), (HOUR + 1, 1))

    assert [(8, 2)] == [
        (row["v"], row["n"]) for row in fresh(lake, start="1970-01-01T01:00:00Z", end="1970-01-01T02:00:00Z")
    ]


def test_without_changes_the_published_rows_are_read(lake: LocalLake) -> None:
    """
    Where nothing is dirty no row of the source is aggregated.
    """
    read = lake.opened.fresh("hourly")

    assert ("nothing", 3, 0) == (read.strategy, read.fetch().table.num_rows, read.fetch().cost.rows_read)


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_pandas_frame_is_the_same_read_fresh_or_after_a_refresh(lake: LocalLake, *, is_fresh: bool) -> None:
    """
    Types, zone and order of the rows; a bucket that was dirty stands where it belongs. No JVM is needed.
    """
    lake.add((2, 10), (3, 9), (HOUR, 4))
    before = lake.opened.read("hourly", "pandas", fresh=is_fresh)
    lake.opened.refresh("hourly")
    after = lake.opened.read("hourly", "pandas", fresh=not is_fresh)

    if is_fresh:
        pd.testing.assert_frame_equal(before, after)
    assert "datetime64[us, UTC]" == str(before.dtypes["at"]) == str(after.dtypes["at"])
    for frame in (before, after):
        pd.testing.assert_frame_equal(frame, frame.sort_values("at", ignore_index=True))


class AsksSpark(NoSpark):
    """Says that Spark was asked for the rows."""

    def fresh(self, *_: Any, **more: Any) -> Any:
        """See :class:`materializer.spark.run.spark.Spark`."""
        raise LookupError(f"Spark computes, inside {more['inside']}")


@pytest.mark.parametrize(
    ("bound", "measure"),
    [
        ({"config": Config(executor="spark")}, "sum(v) AS v"),
        ({}, "max(hash(v)) AS v"),
        ({"rows": 1}, "sum(v) AS v"),
    ],
)
def test_what_this_process_does_not_compute_is_left_to_spark(
    tmp_path: Path, bound: dict[str, Any], measure: str
) -> None:
    """
    With ``executor = spark``, for what has no local form, and where more rows are needed than may be held, Spark is asked at once.
    """
    lake = LocalLake(tmp_path, engine=AsksSpark(), **bound)
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour"), measure=measure))

    with pytest.raises(LookupError, match="Spark computes"):
        lake.opened.fresh("hourly")
