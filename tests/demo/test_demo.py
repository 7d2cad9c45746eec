from __future__ import annotations

import doctest
import io
import os
import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct
from rich.console import Console

from materializer.api import Materializer
from materializer.core.language.parse import parse_report
from materializer.core.refresh.plan import Merge, Recompute, strategy_of
from materializer.demo import flights as source
from materializer.demo import story as words
from materializer.demo.run import DEFINITIONS, DemoResult, main, tell
from materializer.demo.story import Refreshed, Story
from materializer.errors import UsageError
from materializer.lake import places
from materializer.lake.log import latest_version
from tests.paths import ROOT
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# the storm, both changes of the clock, the week held back, the corrected days, and two days to feed
DAYS = (
    (date(2013, 2, 8), date(2013, 2, 9)),
    (date(2013, 3, 9), date(2013, 3, 12)),
    (date(2013, 4, 7), date(2013, 4, 15)),
    (date(2013, 7, 12), date(2013, 7, 12)),
    (date(2013, 11, 2), date(2013, 11, 5)),
    (date(2013, 11, 29), date(2013, 12, 2)),
)


class Told(Struct, frozen=True):
    outcome: DemoResult
    text: str
    lake: Path


@pytest.fixture(scope="module")
def some_flights() -> pa.Table:
    flights = source.load()
    days = flights["event_time"].cast(pa.timestamp("us")).cast(pa.date32())
    wanted = [first + timedelta(days=n) for first, last in DAYS for n in range((last - first).days + 1)]
    return flights.filter(pc.is_in(days, value_set=pa.array(wanted)))


@pytest.fixture(scope="module")
def told(spark: SparkSession, some_flights: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The demo on 27 days of the year, told to a pipe."""
    lake = tmp_path_factory.mktemp("demo") / "lake"
    out = io.StringIO()
    outcome = tell(lake, Story(Console(file=out, width=100)), flights=some_flights, days=2, spark=spark)
    return Told(outcome, out.getvalue(), lake)


def test_every_aggregate_is_what_plain_spark_says(told: Told) -> None:
    """
    After late flights, corrections, deletes and a backfill, each aggregate equals plain Spark, everywhere.
    """
    assert told.outcome.is_true
    assert len(told.outcome.verified) == 3
    assert all(report.rows > 0 for report in told.outcome.verified)
    assert len({report.source_version for report in told.outcome.verified}) == 1


def test_days_are_as_long_as_in_new_york(told: Told) -> None:
    """
    10 March has 23 hours and 3 November 25, their neighbours have 24.
    """
    assert told.outcome.day_hours == {
        date(2013, 3, 9): 24,
        date(2013, 3, 10): 23,
        date(2013, 3, 11): 24,
        date(2013, 11, 2): 24,
        date(2013, 11, 3): 25,
        date(2013, 11, 4): 24,
    }


def test_optimize_makes_nothing_dirty(told: Told) -> None:
    """
    What is dirty by the corrections is dirty after OPTIMIZE, and nothing else is.
    """
    for before, after in told.outcome.dirty.values():
        assert before
        assert before == after


def test_a_second_refresh_does_nothing(told: Told) -> None:
    """
    Refreshed again, every aggregate is up to date, without a plan.
    """
    assert len(told.outcome.idle) == 3
    for report in told.outcome.idle:
        assert report.outcome == "up-to-date"
        assert not report.runs


def test_the_story_shows_merging_and_computing_again(told: Told) -> None:
    """
    Late flights are merged into their month; distinct aircraft cannot be, and the plan says so.
    """
    steps = {
        (report.name, strategy_of(step))
        for report in told.outcome.refreshes
        for run in report.runs
        for step in run.plan.steps
        if isinstance(step, (Merge, Recompute))
    }

    assert ("destinations_monthly", "merge") in steps
    assert ("departures_daily", "merge") not in steps
    assert "cannot be merged" not in told.text


def test_every_plan_is_printed_with_its_reasons_if_asked(told: Told) -> None:
    """
    Distinct aircraft cannot be merged, and the plan says so; each run says what it did.
    """
    out, m = io.StringIO(), Materializer(told.lake)
    story = Story(Console(file=out, width=100), is_verbose=True)
    runs = [(report, [(run.plan, run.report) for run in report.runs]) for report in told.outcome.refreshes]
    for report, each in runs:
        story.refreshed("", Refreshed(report.name, m.grid(report.name), each, 1, report.seconds, 1.0))

    assert "not merge: count(DISTINCT tailnum) cannot be merged" in " ".join(out.getvalue().split())
    assert sum(len(each) for _, each in runs) == len(re.findall(r"^[ a-z_]+ did ", out.getvalue(), re.MULTILINE))


def test_the_story_is_two_screens(told: Told) -> None:
    """
    A line for each refresh, and at most 75 for seven days; here two were fed.
    """
    lines = told.text.splitlines()

    assert len(lines) <= 75 - 3 * 5 + 1  # the place of this lake takes a line of its own
    assert len(told.outcome.refreshes) == len(
        [line for line in lines if re.search(r" s$| ms$", line) and " of " in line]
    )
    assert "departures_daily: the same rows by both." in told.text


def test_a_refresh_reads_a_part_of_the_source(told: Told) -> None:
    """
    While days are fed, no refresh aggregates as many rows as the source has.
    """
    fed = [report for report in told.outcome.refreshes if report.source_version <= max(_versions(told)[:6])]
    read = [run.report.rows_read for report in fed for run in report.runs]

    assert read
    assert max(read) < 5_000


def test_what_is_piped_is_plain_text_of_100_columns(told: Told) -> None:
    """
    No escape sequence, no trailing blanks, and no line but a command is longer than 100 columns.
    """
    assert "\x1b" not in told.text
    assert "\r" not in told.text
    for line in told.text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 100 or str(told.lake) in line


def test_definitions_have_no_problems_and_no_warnings() -> None:
    """
    Every file in sql/ defines one aggregate of its name, with a comment and a policy.
    """
    files = sorted(DEFINITIONS.glob("*.sql"))
    assert len(files) >= 3
    for file in files:
        report = parse_report(file.read_text(encoding="utf-8"), file=file.name)

        assert [spec.name for spec in report.specs] == [file.stem]
        assert report.warnings == ()
        for spec in report.specs:
            assert spec.comment
            assert {"refresh.start_offset", "refresh.end_offset", "refresh.schedule"} <= dict(spec.properties).keys()


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_what_the_demo_did_not_make_is_not_removed(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """
    In a folder as in a bucket: a file, another table beside the flights, flights of somebody else, and a file in the place of the lake.
    """
    root = str(tmp_path) if kind == "folder" else request.getfixturevalue("bucket")
    mine = pa.table({"v": [1]})
    places.make_folder(f"{root}/file")
    places.put(f"{root}/file/mine.txt", b"keep me")
    source.write_lake(f"{root}/beside/flights", [])
    write_deltalake(f"{root}/beside/mine", mine)
    write_deltalake(f"{root}/other/flights", mine)
    before = [entry.name for entry in places.files(root)]

    for lake in ("file", "beside", "other", "file/mine.txt"):
        with pytest.raises(UsageError, match="was not made by the demo"):
            main(lake=f"{root}/{lake}")
    assert before == [entry.name for entry in places.files(root)]


def test_the_demo_takes_credentials_of_the_configuration(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    """
    Those of the file that ``--config`` names: with them the demo sees what is in the bucket.
    """
    places.put(f"{bucket}/mine.txt", b"keep me")
    keys = "".join(f'{name.lower()} = "{value}"\n' for name, value in s3.environment().items())
    (tmp_path / "given.toml").write_text(f"[storage]\n{keys}")
    done = subprocess.run(
        [sys.executable, "-m", "materializer", "demo", "--lake", bucket, "--config", str(tmp_path / "given.toml")],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "has 'mine.txt', which was not made by the demo" in done.stderr
    assert s3.secret not in done.stdout + done.stderr


def test_the_demo_on_s3(bucket: str) -> None:
    """
    The command, in a process of its own: every aggregate is correct, an earlier demo is replaced, and what is beside its lake stays.
    """
    source.write_lake(f"{bucket}/demo/flights", [])
    for name in ("demo/_materializer/old", "demo/departures_daily/old", "mine.txt"):
        places.put(f"{bucket}/{name}", b"old")
    command = [sys.executable, "-m", "materializer", "demo", "--lake", f"{bucket}/demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)

    assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
    assert 3 == len(re.findall(r"equal: [0-9,]+ rows", done.stdout))
    assert f"export MATERIALIZER_LAKE={bucket}/demo" in done.stdout
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr
    assert 88 == latest_version(f"{bucket}/demo/flights")
    assert ["mine.txt"] == [file.name for file in places.files(bucket) if file.bytes == len(b"old")]


def test_commands_are_shown_within_the_width() -> None:
    """
    Commands stand on one line each, what they are for beside them, as far as it fits.
    """
    out = io.StringIO()
    Story(Console(file=out, width=60)).commands((("export X=1", ""), ("a" * 40, "why"), ("b" * 10, "a longer reason")))

    assert out.getvalue().splitlines() == [
        "    export X=1",
        "    " + "a" * 40 + "  # why",
        "    " + ("b" * 10).ljust(37) + "  # a longer reason",
    ]


def test_examples_of_the_story_are_true() -> None:
    """
    Every example in the story's docstrings gives what it says.
    """
    assert doctest.testmod(words).failed == 0


def _versions(told: Told) -> list[int]:
    return [report.source_version for report in told.outcome.refreshes]


def test_a_corrupted_day_is_stopped(told: Told) -> None:
    """
    The gate names the expectation, the rows are kept, and the corrected day is published.
    """
    assert "expect_column_values_to_be_between of mean_delay fails for" in told.outcome.stopped
    assert ": a mean delay of" in " ".join(told.text.split())
    assert DeltaTable(str(told.lake / "departures_hourly" / "failing")).to_pyarrow_table().num_rows
    assert told.outcome.is_true
