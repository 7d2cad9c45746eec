"""The shared cases that can already be run, each through the real path."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from materializer.core.refresh.plan import Estimate, Lane, Merge, Plan, Recompute, Rejected, TableBase
from materializer.core.time.spans import Span, SpanSet
from tests.cases import reading
from tests.cases.reading import DATA, Outcome, kind_of
from tests.cases.reasons import contradictions
from tests.cases.runner import WITH_SPARK, run_all
from tests.cases.world import How
from tests.paths import ROOT

HOUR = SpanSet.of(Span(0, 3_600_000_000))
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


QUIET = [str(DATA / f"{file}.json") for file in FILES]
"""Every shared case that can be run."""
ONE_EACH = ("tsdb_partial_average", "ts_ex5_grouped", "pub_session_basic")
"""A case of a continuous aggregate, of a time series and of sessions; the shards run all."""
PATIENCE = re.compile(r"'\w+' is being planned for \d+ s now: .*")
"""What a slow machine is told, which is ours."""


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([word for case in ONE_EACH for word in ("--id", case)], id="some"),
        pytest.param([], id="all", marks=pytest.mark.slow),
    ],
)
def test_nothing_that_is_not_ours_is_printed(more: list[str]) -> None:
    """
    Over the shared cases, Spark, the SQL library and all others say nothing on either stream; no reason of a plan speaks against it.
    """
    command = [sys.executable, "-m", "tests.cases", *QUIET, *more]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in ended.stderr.splitlines() if not PATIENCE.fullmatch(line)]

    assert [] == said
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed\n", ended.stdout), ended.stdout


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Recompute(HOUR, "rows changed", Estimate(9, 1, 1, 9), (Rejected("recompute", "would read 20 raw rows"),)), "was chosen"),
        (Merge(HOUR, 1, Estimate(9, 1, 1, 9), (Rejected("recompute", "would read 5 raw rows"),)), "reads"),
        (Merge(HOUR, 1, Estimate(9, 1, 1, 9), (Rejected("recompute", "would take longer", 0.1),), 0.2), "0.2 s"),
        (Merge(HOUR, 1, Estimate(9, 1, 1, 9), (Rejected("recompute", "would take longer"),)), "without a price"),
        (
            Recompute(HOUR, "rows changed", Estimate(9, 1, 1, 9), (Rejected("merge", "about 1 row out of 2 would not be cheaper than 9 rows out of 9"),)),
            "would not be cheaper",
        ),
    ],
)  # fmt: skip
def test_a_reason_against_what_was_chosen_is_found(step: Merge | Recompute, words: str) -> None:
    """
    What the cases are looked through for is found where it is.
    """
    base = TableBase("t", 1)
    plan = Plan("p", 1, 1, Span(0, 3_600_000_000), (), (step,), Lane.DRIVER, base, base)

    [found] = contradictions(plan, 0.005)

    assert words in found


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
