"""What commands say of buckets that a gate withholds: which, by which check, and what to do; without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.adapters.cli.render.gate import gate_text
from materializer.adapters.cli.render.refresh import RefreshResult
from materializer.adapters.cli.render.run import FollowedResult
from materializer.core.spec.spec import TimeType
from materializer.errors import QualityGateError
from materializer.services.observe.withheld import withheld
from materializer.services.refresh.reports import RunDone
from materializer.services.report.tables import DoctorFinding
from materializer.services.schedule.following import Followed
from materializer.services.schedule.policies import PolicyReport
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000
LIMITS = (("critical", "v", 10), ("warning", "n", 1))
SAID = "hourly: expect_column_values_to_be_between of v fails for 1 of {} rows"


class Gated(LocalLake):
    """A lake with an hourly aggregate over rows of which one, of the first hour, is too large."""

    def __init__(self, root: Path, on_failure: str) -> None:
        super().__init__(root)
        between = "expect_column_values_to_be_between"
        expectations = [
            {"type": between, "kwargs": {"column": column, "max_value": most}, "severity": severity}
            for severity, column, most in LIMITS
        ]
        (root / "expectations").mkdir()
        (root / "expectations" / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": expectations}))
        self.add((0, 50), (1, 1), (HOUR, 7), (2 * HOUR, 3))
        sql = view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n")
        self.apply(sql.replace("\nAS ", f"\nTBLPROPERTIES ('quality.on_failure' = '{on_failure}')\nAS ", 1))

    def withheld(self) -> list[DoctorFinding]:
        """Return what ``doctor`` says of withheld buckets."""
        return [f for f in self.opened.doctor("hourly") if f.code == "doctor.withheld"]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gated:
    """A lake whose gate withholds the buckets that fail."""
    monkeypatch.chdir(tmp_path)
    return Gated(tmp_path, "buckets")


def test_doctor_names_what_a_gate_withholds(lake: Gated) -> None:
    """The buckets, the critical checks that failed, where the failing rows are, and the command that tries them again."""
    lake.opened.refresh("hourly")

    [found] = lake.withheld()
    where = "[1970-01-01T00:00:00Z, 1970-01-01T01:00:00Z)"
    assert ("warning", "hourly") == (found.level, found.subject)
    assert f"the gate withholds {where}; refresh 1 found: {SAID.format(3)}" == found.message
    assert (
        f"look at the failing rows in {lake.root / 'hourly' / 'failing'}, correct the source or the suite" in found.hint
    )
    assert "run 'materializer refresh hourly' again" in found.hint


def test_the_last_look_counts(lake: Gated) -> None:
    """A refresh that has nothing else to publish is refused, and what it found replaces what was found before."""
    lake.opened.refresh("hourly")
    with pytest.raises(QualityGateError):
        lake.opened.refresh("hourly")

    assert [f"refresh 2 found: {SAID.format(1)}"] == [f.message.partition("; ")[2] for f in lake.withheld()]


def test_doctor_names_what_a_gate_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that publishes all or nothing withholds the whole run."""
    monkeypatch.chdir(tmp_path)
    lake = Gated(tmp_path, "refresh")
    with pytest.raises(QualityGateError):
        lake.opened.refresh("hourly")

    assert ["the gate withholds [the beginning, 1970-01-01T03:00:00Z)"] == [
        f.message.partition("; ")[0] for f in lake.withheld()
    ]


def test_what_is_corrected_is_not_withheld(lake: Gated) -> None:
    """The hint was followed: nothing is said any more."""
    lake.opened.refresh("hourly")
    DeltaTable(str(lake.root / "raw")).update(updates={"v": "1"}, predicate="v = 50")
    lake.opened.refresh("hourly")

    assert [] == lake.withheld()
    assert [2, 7, 3] == [row["v"] for row in lake.rows_of("hourly")]


def test_a_refresh_that_ended_for_another_reason_is_no_refusal(lake: Gated) -> None:
    """It was given up after its gate had let everything through, such as by a conflict."""
    lake.opened.refresh("hourly")
    state = lake.opened.journal.view().named("hourly")
    [done] = state.ended
    met = {"output": {"suite": "hourly", "passed": 2, "engines": {}, "failed": []}}
    aborted = replace(done, n=2, outcome="aborted", reason="given up", verdict=met)

    assert [] == withheld(replace(state, ended=(aborted,)))
    assert withheld(state) == withheld(replace(state, ended=(done, aborted)))


def test_a_build_counts_once_what_its_gate_withholds(lake: Gated) -> None:
    """
    Its error names what the line of its run does, by the same rows; the bucket that was withheld is not computed again for it. What was
    let through stays built, and a correction is built and published.
    """
    sql = view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n, max(v) AS most")
    lake.opened.refresh("hourly", publish_anyway="as an example")
    lake.apply(sql.replace("\nAS ", "\nTBLPROPERTIES ('quality.on_failure' = 'buckets')\nAS ", 1))
    runs: list[RunDone] = []
    with pytest.raises(QualityGateError) as caught:
        lake.opened.build("hourly", on_run=runs.append)

    [run] = runs
    assert SAID.format(3).removeprefix("hourly: ") in gate_text(run.verdict, TimeType.TIMESTAMP)
    hour = "[1970-01-01T00:00:00Z, 1970-01-01T01:00:00Z)"
    assert f"at source version 1: {SAID.format(3)}; its gate withholds {hour}" in caught.value.message
    assert "build hourly" in lake.withheld()[0].hint
    DeltaTable(str(lake.root / "raw")).update(updates={"v": "1"}, predicate="v = 50")
    assert lake.opened.build("hourly").switched is not None
    assert [1, 7, 3] == [row["most"] for row in lake.rows_of("hourly")]


def test_a_refresh_says_what_it_did_not_publish(lake: Gated) -> None:
    """What it claims to be true leaves out what it withheld; what is dirty for another reason is told apart."""
    report = lake.opened.refresh("hourly", end="1970-01-01T02:00:00Z")
    told = " ".join(" ".join(RefreshResult(report, report.time_type).lines(100)).split())
    followed = FollowedResult(Followed("hourly", PolicyReport("default", "now", report), 0.0), report.time_type)

    hour = "1 span: [1970-01-01T00:00:00Z, 1970-01-01T01:00:00Z)"
    assert (
        "true in [the beginning, 1970-01-01T02:00:00Z) except in what its gate withholds, at source version 1" in told
    )
    assert f"withheld {hour}; 'materializer doctor hourly' says why" in told
    assert "stays dirty 1 span: [1970-01-01T02:00:00Z, 1970-01-01T03:00:00Z)" in told
    [line] = followed.lines(1000)
    assert "true except in what its gate withholds, at source version 1" in line
    assert f"; withheld: {hour}; stays dirty: 1 span" in line


def test_a_refresh_that_withholds_nothing_says_nothing_of_it(lake: Gated) -> None:
    """Without a failure, and after its correction."""
    lake.opened.refresh("hourly")
    DeltaTable(str(lake.root / "raw")).update(updates={"v": "1"}, predicate="v = 50")
    report = lake.opened.refresh("hourly")

    assert not report.withheld
    assert "withh" not in " ".join(RefreshResult(report, report.time_type).lines(100))
