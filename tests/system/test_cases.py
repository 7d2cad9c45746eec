"""The shared cases that can already be run, each through the real path."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cases import reading
from tests.cases.reading import DATA, Outcome, kind_of
from tests.cases.runner import WITH_SPARK, run_all
from tests.cases.world import How
from tests.paths import ROOT

FILES = ("seed_cases", "engine_samples", "time_bucket_samples", "time_bucket_of_duckdb", "continuous_aggregate_samples")
CASES = [case for file in FILES for case in reading.read(DATA / f"{file}.json")]


def cases_of(*kinds: str) -> list[object]:
    """Return the cases of these kinds as parameters, by their ids."""
    return [pytest.param(case, id=case["id"]) for case in CASES if kind_of(case) in kinds]


def said(outcome: Outcome) -> str:
    """Return what a failing case has to say."""
    return f"{outcome.id}: expected {outcome.expected}, found {outcome.found}"


def test_every_kind_has_cases() -> None:
    """
    The files hold the numbers of cases that their README gives, so that none is lost in reading.
    """
    assert [39, 33, 41, 137, 5] == [len(reading.read(DATA / f"{file}.json")) for file in FILES]
    assert 41 + 137 == len(cases_of("time-bucket"))
    assert 5 == len(cases_of("scenario"))
    assert 6 == len(cases_of("continuousAggregate"))


@pytest.mark.parametrize("case", cases_of("time-bucket"))
def test_time_bucket(case) -> None:
    """
    The grid puts an instant into the expected bucket, or refuses where an error is expected.
    """
    [outcome] = run_all([case], pytest.fail)

    assert outcome.passed, said(outcome)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", cases_of(*WITH_SPARK))
def test_continuous_aggregate(case, spark, tmp_path) -> None:
    """
    After the case's operations the aggregate has the expected rows; small results are committed by the driver.
    """
    [outcome] = run_all([case], lambda: How(spark, tmp_path))

    assert outcome.passed, said(outcome)


@pytest.mark.parametrize(
    ("case", "has_feed"),
    [
        pytest.param(
            case,
            has_feed,
            id=f"{case['id']}-{'feed' if has_feed else 'no-feed'}",
            marks=[] if (case["id"], has_feed) == ("tsdb_partial_average", True) else pytest.mark.slow,
        )
        for case in CASES
        if kind_of(case) in WITH_SPARK
        for has_feed in (True, False)
    ],
)
def test_continuous_aggregate_by_spark(case, has_feed, spark, tmp_path) -> None:
    """
    Likewise when Spark commits everything, and when sources keep no change feed.
    """
    [outcome] = run_all([case], lambda: How(spark, tmp_path, driver_lane_rows=0, has_feed=has_feed))

    assert outcome.passed, said(outcome)


def test_the_command_counts_what_it_does_not_know(tmp_path) -> None:
    """
    A wrong expectation and an engine not known yet are each one line and counted as failed; the last line says so.
    """
    file = tmp_path / "cases.json"
    width = '"width": 10, "timezone": null, "origin": null, "offset": null'
    file.write_text(
        f'[{{"id": "good", "type": "int", {width}, "ts": 99, "expected": 90}},'
        f' {{"id": "bad", "type": "int", {width}, "ts": 99, "expected": 91}},'
        ' {"id": "new", "engine": "perpetuum"}]'
    )
    command = [sys.executable, "-m", "tests.cases", str(file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 1 == ended.returncode, ended.stderr
    assert [
        "bad: expected 91, found 90",
        "new: expected a case that can be run, found engine not known yet: perpetuum",
        "1 passed, 2 failed",
    ] == ended.stdout.splitlines()
