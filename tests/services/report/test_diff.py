"""The outputs of an aggregate in two lakes: what is compared, what is said first, and what cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from materializer.adapters.cli.render.diff import DiffResult
from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import DiffTooLargeError, IncomparableError, RetryableError, UsageError
from materializer.services.report.diff import DiffReport
from tests.hints.world import DAILY, HOURLY, World
from tests.services.no_spark import each, view

FIRST: Final = datetime(2024, 3, 1, tzinfo=UTC)


class Two:
    """Two lakes with a table of rows each, which are the same at first.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.here, self.there = (World(folder / side) for side in ("here", "there"))

    @property
    def both(self) -> tuple[World, World]:
        """Both lakes."""
        return self.here, self.there

    def apply(self, *sql: str) -> None:
        """Define and fill aggregates in both."""
        for world in self.both:
            world.apply(*sql)
            world.works("backfill --all")

    def diff(self, name: str = "hourly", *window: str, **options: Any) -> DiffReport:
        """Compare the lake here with the one there."""
        return Materializer(self.here.root).diff(name, self.there.root, *window, **options)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Two:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    for side in ("here", "there"):
        (tmp_path / side).mkdir()
    return Two(tmp_path)


def text(report: DiffReport) -> str:
    return "\n".join(DiffResult(report).lines(200))


def test_the_same_rows_are_equal(two: Two) -> None:
    """
    Also where both lakes computed them in other runs; the raw tables and their versions are named.
    """
    two.here.apply(HOURLY)
    two.here.works("backfill hourly --buckets-per-run 10")
    two.there.apply(HOURLY)
    two.there.works("backfill hourly")

    report = two.diff()

    assert report.is_equal
    assert (48, 48, 48) == (report.rows.equal, report.here.rows, report.there.rows)
    assert [str(w.root / "raw") for w in two.both] == [report.here.source, report.there.source]
    assert "hourly: 48 rows equal" in text(report)
    assert "the sources are other tables" in text(report)


def test_late_rows_of_one_lake_differ(two: Two) -> None:
    """
    By column with the largest difference, and by group; the versions of both sources are said.
    """
    two.apply(HOURLY)
    two.there.add([5, 7], value=9)
    two.there.works("refresh hourly")

    report = two.diff()

    assert not report.is_equal
    assert (46, 0, 0, 2) == (
        report.rows.equal,
        report.rows.only_here,
        report.rows.only_there,
        report.rows.differing,
    )
    assert [("v", 2, 9.0)] == [(c.name, c.rows, c.largest) for c in report.rows.columns]
    assert [(FIRST.replace(hour=5), {"v": 1}, {"v": 10}), (FIRST.replace(hour=7), {"v": 1}, {"v": 10})] == [
        (e.place["at"], e.here, e.there) for e in report.rows.examples
    ]
    assert report.there.source_version == report.here.source_version + 1
    assert "differs  at=2024-03-01T05:00:00Z: v is 1 here, 10 there" in text(report)


def test_what_is_dirty_in_one_lake_is_left_out(two: Two) -> None:
    """
    Rows that are not refreshed yet are no difference; the lake that has to be refreshed is named.
    """
    two.apply(HOURLY)
    two.there.add([5], value=9)
    two.there.works("plan hourly")
    two.there.works("invalidate hourly --start 2024-03-01T05:00:00Z --end 2024-03-01T06:00:00Z")

    report = two.diff()

    assert report.is_equal
    assert (47, 47) == (report.rows.equal, report.there.rows)
    assert len(report.compared) == 2
    assert (
        "2 spans: [2024-03-01T05:00:00Z, 2024-03-01T06:00:00Z), [2024-03-03T00:00:00Z, open), not clean there"
        in text(report)
    )


def test_a_window_is_compared_alone(two: Two) -> None:
    """
    Its whole buckets; a difference outside of it is not seen.
    """
    two.apply(HOURLY)
    two.there.add([5], value=9)
    two.there.works("refresh hourly")

    assert two.diff("hourly", "2024-03-01T06:00:00Z").is_equal
    assert 1 == two.diff("hourly", "2024-03-01T05:00:00Z", "2024-03-01T06:00:00Z").rows.differing


def test_a_roll_up_names_the_raw_table(two: Two) -> None:
    """
    The versions are those of the table at the end of its chain.
    """
    two.apply(HOURLY, DAILY)
    two.there.add([5], value=9)
    for name in ("hourly", "daily"):
        two.there.works(f"refresh {name}")

    report = two.diff("daily")

    assert 1 == report.rows.differing
    assert (str(two.here.root / "raw"), str(two.there.root / "raw")) == (report.here.source, report.there.source)
    assert report.there.source_version == report.here.source_version + 1


def test_definitions_that_differ_are_said_first(two: Two) -> None:
    """
    Columns without a counterpart are named and not compared, the others are; other columns make a difference of their own.
    """
    two.here.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    two.there.apply(view("hourly", each("1 hour"), measure="max(v) AS high, sum(v) AS v"))
    for world in two.both:
        world.works("backfill hourly")

    report = two.diff()

    assert (48, 0) == (report.rows.equal, report.rows.differing)
    assert (("n",), ("high",)) == (report.only_here, report.only_there)
    assert not report.is_equal
    lines = text(report).splitlines()
    assert "hourly: 48 rows equal, but the columns differ" in lines[0]
    assert "- measure n: count(*)" in lines[1]
    assert any("only here" in line and "column n, not compared" in line for line in lines)


def test_comments_and_policies_are_no_difference(two: Two) -> None:
    """
    What changes no row is not compared.
    """
    two.here.apply(two.here.properties(HOURLY, refresh__start_offset="3 days", refresh__schedule="0 * * * *"))
    two.there.apply(HOURLY)
    for world in two.both:
        world.works("backfill hourly")

    assert () == two.diff().definition


def other_buckets(two: Two) -> None:
    two.here.apply(HOURLY)
    two.there.apply(view("hourly", each("1 day")))


def other_zone(two: Two) -> None:
    two.here.apply(view("hourly", each("1 day")))
    two.there.apply(view("hourly", each("1 day", "Europe/Berlin")))


def other_names(two: Two) -> None:
    two.here.apply(HOURLY)
    two.there.apply(view("hourly", each("1 hour"), column="hour"))


def no_such_aggregate(two: Two) -> None:
    two.here.apply(HOURLY)
    two.there.apply(view("hours", each("1 hour")))


def no_lake(two: Two) -> None:
    two.here.apply(HOURLY)


@pytest.mark.parametrize(
    ("differ", "message"),
    [
        (other_buckets, "the buckets of 'hourly' are 1 h .* here and 1 d"),
        (other_zone, "the buckets of 'hourly' are .* Europe/Berlin"),
        (other_names, "the groups of 'hourly' are at here and hour in"),
        (no_such_aggregate, "there has no aggregate 'hourly'; it has hours"),
        (no_lake, "there is no lake, or has no aggregates yet"),
    ],
)
def test_what_has_no_counterpart_is_not_compared(two: Two, differ: Callable[[Two], None], message: str) -> None:
    """
    Other buckets, other columns of groups, no such aggregate, no lake: the error says which lake has what.
    """
    differ(two)
    for world in two.both:
        world.works("backfill --all")

    with pytest.raises(IncomparableError, match=message) as caught:
        two.diff()
    assert caught.value.hint
    assert "nothing was written" == caught.value.wrote


def test_an_aggregate_without_rows_is_built_first(two: Two) -> None:
    """
    The hint names the command for the lake that lacks them; after it, the rows are compared.
    """
    two.here.apply(HOURLY)
    two.here.works("backfill hourly")
    two.there.apply(HOURLY)

    with pytest.raises(
        IncomparableError, match=re.escape(f"nothing of 'hourly' is materialized in {two.there.root}")
    ) as caught:
        two.diff()
    assert f"materializer backfill hourly --lake {two.there.root}" in caught.value.hint
    two.there.works("backfill hourly")
    assert two.diff().is_equal


def test_lakes_without_a_common_clean_bucket_are_refreshed_first(two: Two) -> None:
    """
    Everything is dirty in one of them: both commands are named.
    """
    two.apply(HOURLY)
    two.there.works("invalidate hourly --all-time")

    with pytest.raises(IncomparableError, match="no bucket of 'hourly' is clean in both lakes") as caught:
        two.diff()
    assert 2 == caught.value.hint.count("materializer refresh hourly --lake")


def test_a_lake_is_not_compared_with_itself(two: Two) -> None:
    """
    By the same root, however it is written.
    """
    two.apply(HOURLY)
    here = Materializer(two.here.root)

    for root in (two.here.root, f"{two.here.root}/../here"):
        with pytest.raises(IncomparableError, match="the same lake"):
            here.diff("hourly", root)


def test_rows_of_more_memory_than_the_process_may_take_are_refused(two: Two) -> None:
    """
    With the window as a way out, which then works.
    """
    two.apply(HOURLY)
    here = Materializer(two.here.root, config=Config(local_memory=4096))

    with pytest.raises(DiffTooLargeError, match=r"rows of 'hourly' in .* take more than 512 bytes") as caught:
        here.diff("hourly", two.there.root)
    assert "--start and --end" in caught.value.hint
    assert here.diff("hourly", two.there.root, "2024-03-02").is_equal


def test_stores_with_other_settings_are_refused(two: Two) -> None:
    """
    A process has one set of them, so that one of both lakes would be looked for in the wrong place.
    """
    two.apply(HOURLY)
    config = Config()
    other = Materializer(two.there.root, config=replace(config, storage={"aws_endpoint_url": "http://localhost:1"}))

    with pytest.raises(UsageError, match="other settings of"):
        Materializer(two.here.root, config=config).diff("hourly", other)


def test_a_version_that_is_being_published_is_waited_for(two: Two) -> None:
    """
    Between the two commits of a switch the output is of neither version.
    """
    two.apply(HOURLY)
    state = two.there.lake.state("hourly")
    two.there.lake.put(replace(state, switch="b1"))

    with pytest.raises(RetryableError, match="is being published"):
        two.diff()
