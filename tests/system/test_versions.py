"""Changed definitions: the next version is built beside what is published, which is refreshed and read meanwhile."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
from deltalake import DeltaTable

from materializer.core.language.define import define
from materializer.core.language.engine_define import define_engine
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF
from materializer.errors import (
    LeaseHeldError,
    NotCoveredError,
    NothingBuiltError,
    QualityGateError,
    StorageError,
    TableNotFoundError,
)
from materializer.journal.events import Lease, LeaseTaken
from materializer.lake.write import copying
from materializer.services import processes
from materializer.services.definitions.changes import Reads, ReusedPartials
from tests.appending import append
from tests.system import verifying
from tests.system.builders import HOURLY, MEASURES, Site, spark_is_slow

TRADES: Final = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3), ("02:20", "B", 4), ("04:00", "A", 5)]
PARTS: Final = {"time": "ts", "width": "1 hour", "keys": ["sym"], "measures": MEASURES}
TWO_HOURS: Final = HOURLY.replace("1 hour", "2 hours")
AVERAGE: Final = HOURLY.replace("max(price) AS top", "max(price) AS top, avg(price) AS mean")


@pytest.fixture
def refreshed(site: Site) -> Site:
    """Five trades in four hours and an hourly aggregate of them, refreshed."""
    site.table().trade(*TRADES)
    site.hourly(measures=MEASURES | {"given": "count(price)"})
    site.lake.refresh("hourly")
    return site


GIVEN: Final = HOURLY.replace("max(price) AS top", "max(price) AS top, count(price) AS given")
WIDER: Final = GIVEN.replace("1 hour", "2 hours")


def applied(site: Site, **parts: Any) -> Any:
    """Apply another definition and return the change."""
    given = PARTS | {"measures": MEASURES | {"given": "count(price)"}} | parts
    return site.lake.apply(define("hourly", "trades", **given))[0]


def folders(site: Site) -> tuple[int, int]:
    """Return how many versions have partials, and how many have an output that is built."""
    root = site.lake.root / "hourly"
    return tuple(len(list((root / kind).iterdir())) if (root / kind).exists() else 0 for kind in ("partials", "build"))


# -- the way of a changed definition -------------------------------------------------------------------------------------


@spark_is_slow
def test_the_old_version_is_refreshed_and_read_until_the_switch(refreshed: Site) -> None:
    """
    Apply starts a build and changes nothing; a few runs later the old version still takes new rows; then one commit
    publishes the new one.
    """
    change = applied(refreshed, width="2 hours")
    assert ("data", "started", 5) == (change.kind, change.next, change.reads.rows)
    refreshed.expect_true(query=GIVEN)
    assert "up-to-date" == refreshed.lake.refresh("hourly").outcome

    one = refreshed.lake.build("hourly", buckets_per_run=1, max_runs=1)
    assert (1, None) == (len(one.runs), one.switched)
    assert "is not built" in one.why_not
    refreshed.tables["trades"].trade(("04:30", "C", 9))
    refreshed.expect_refresh()
    refreshed.expect_true(query=GIVEN)

    before = refreshed.tables["trades"].opened().version()
    rest = refreshed.lake.build("hourly", buckets_per_run=1)
    assert rest.switched is not None
    assert before == rest.switched.source_version
    refreshed.expect_true(query=WIDER)
    assert ("up-to-date", "switched") == (
        refreshed.lake.refresh("hourly").outcome,
        refreshed.lake.history("hourly")[0].outcome,
    )
    refreshed.tables["trades"].trade(("05:30", "C", 9))
    refreshed.expect_refresh()
    refreshed.expect_true(query=WIDER)
    assert (2, 0) == folders(refreshed)


@spark_is_slow
def test_an_added_measure_reads_no_raw_row(refreshed: Site) -> None:
    """
    An average beside sum and count is made from the partials that are there: no run, not a row of the source. What is copied
    is told before, as the log of the partials has it; applied again there is nothing to copy any more.
    """
    refreshed.tables["trades"].trade(("04:30", "C", 9))
    with_mean = {"measures": MEASURES | {"mean": "avg(price)"}}
    stored = refreshed.lake.root / "hourly" / "partials" / refreshed.lake.journal.view().named("hourly").data_version
    files = [Path(unquote(urlsplit(uri).path)) for uri in DeltaTable(str(stored)).file_uris()]
    change = applied(refreshed, **with_mean)
    assert ("measures", "started", Reads(0, 0, 0, 0)) == (change.kind, change.next, change.reads)
    assert ReusedPartials(5, sum(f.stat().st_size for f in files), len(files)) == change.kept
    assert ("building", None) == (applied(refreshed, **with_mean).next, applied(refreshed, **with_mean).kept)

    refreshed.tables["trades"].log(0).parent.rename(refreshed.root / "hidden")  # not even its log
    report = refreshed.lake.switch("hourly")

    (refreshed.root / "hidden").rename(refreshed.tables["trades"].log(0).parent)
    assert 5 == report.rows
    refreshed.expect_refresh()
    refreshed.expect_true(query=AVERAGE)


def test_building_an_added_measure_takes_what_changed(refreshed: Site) -> None:
    """
    What the source did since the last refresh is all that a build from partials computes.
    """
    refreshed.tables["trades"].trade(("04:30", "C", 9))
    applied(refreshed, measures=MEASURES | {"mean": "avg(price)"})

    report = refreshed.lake.build("hourly")

    assert [2] == [run.report.rows_read for run in report.runs]
    refreshed.expect_true(query=AVERAGE)


@spark_is_slow
def test_rolling_back_recomputes_only_what_changed_since(refreshed: Site) -> None:
    """
    The previous version is caught up from its partials and published again; and again the other way.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly")
    refreshed.tables["trades"].trade(("02:30", "C", 9))
    refreshed.lake.refresh("hourly")

    refreshed.lake.rollback("hourly")
    refreshed.expect_true(query=WIDER)
    report = refreshed.lake.build("hourly")

    assert report.switched is not None
    assert [2] == [run.report.rows_read for run in report.runs]
    refreshed.expect_true(query=GIVEN)
    assert (2, 0) == folders(refreshed)
    refreshed.lake.rollback("hourly")
    refreshed.lake.build("hourly")
    refreshed.expect_true(query=WIDER)


def test_nothing_is_kept_when_nothing_shall_be(refreshed: Site) -> None:
    """
    `versions.keep` of the new definition says how many versions stay.
    """
    applied(refreshed, width="2 hours", properties={"versions.keep": "0"})
    report = refreshed.lake.build("hourly")

    assert report.switched is not None
    assert (False, (1, 0)) == (report.switched.previous, folders(refreshed))
    with pytest.raises(NothingBuiltError, match="no previous version"):
        refreshed.lake.rollback("hourly")


def test_applying_again(refreshed: Site) -> None:
    """
    The same changed definition goes on, another one replaces the build, and the published one gives it up.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", buckets_per_run=1, max_runs=1)
    again = applied(refreshed, width="2 hours", comment="slow")
    other = applied(refreshed, width="3 hours")
    with pytest.raises(NotCoveredError):
        refreshed.lake.switch("hourly")
    back = applied(refreshed)

    assert ["building", "replaced", "abandoned"] == [c.next for c in (again, other, back)]
    assert (1, 0) == folders(refreshed)
    assert 1 == len(refreshed.lake.journal.view().all)
    with pytest.raises(NothingBuiltError):
        refreshed.lake.build("hourly")
    refreshed.expect_true(query=GIVEN)


def test_what_was_never_refreshed_is_replaced_at_once(site: Site) -> None:
    """
    With nothing published there is nothing to keep: apply and refresh are enough.
    """
    site.table().trade(*TRADES)
    site.hourly()
    change = applied(site, width="2 hours")

    assert "switched" == change.next
    site.expect_refresh()
    site.expect_true(query=WIDER)


def test_policies_of_the_old_version_are_those_of_the_new(refreshed: Site) -> None:
    """
    A policy that is added while the next version is built is not forgotten with the old one.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.add_policy("hourly", start_offset="7 days", end_offset="none")
    refreshed.lake.build("hourly")

    assert ["hourly"] == [p.aggregate for p in refreshed.lake.policies("hourly")]


def test_only_what_is_published_is_built(refreshed: Site, tmp_path: Any) -> None:
    """
    Where the old version was never materialised, the new one need not be.
    """
    site = refreshed.beside(tmp_path / "other")
    site.table().trade(*TRADES)
    site.hourly()
    site.lake.refresh("hourly", "2024-03-01T02:00:00Z", "2024-03-01T05:00:00Z")
    applied(site, width="2 hours")
    report = site.lake.build("hourly")

    assert report.switched is not None
    assert 2 == sum(run.report.rows_read for run in report.runs)
    assert [2, 4] == [row[0].hour for row in site.published("hourly")]


# -- refused -------------------------------------------------------------------------------------------------------------


def test_a_build_that_lags_is_not_published(refreshed: Site) -> None:
    """
    Readers never go back in time: what is published at version 3 is not replaced by what was built at 2.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    refreshed.tables["trades"].trade(("04:30", "C", 9))
    refreshed.lake.refresh("hourly")

    with pytest.raises(NotCoveredError, match="at source version 1, what is published at 2"):
        refreshed.lake.switch("hourly")
    refreshed.expect_true(query=GIVEN)
    assert refreshed.lake.build("hourly").switched is not None


def test_a_build_that_somebody_works_on_is_left_alone(refreshed: Site, tmp_path: Any) -> None:
    """
    A living process that builds stands in the way of a switch, of another definition, and of dropping.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    refreshed.lake.backup(tmp_path / "backup")
    journal = refreshed.lake.journal
    [build] = [s for s in journal.view().all.values() if s.builds]
    append(journal, (build.id, LeaseTaken(Lease("other", "elsewhere", 1, 1, time.time() + 60))))

    for refused in (
        lambda: refreshed.lake.switch("hourly"),
        lambda: applied(refreshed, width="3 hours"),
        lambda: refreshed.lake.abandon("hourly"),
        lambda: refreshed.lake.drop("hourly"),
        lambda: refreshed.lake.restore(tmp_path / "backup"),
    ):
        with pytest.raises(LeaseHeldError) as caught:
            refused()
        assert "nothing was written" == caught.value.wrote
        assert refreshed.lake.journal.view().named("hourly").lease is None
    refreshed.expect_true(query=GIVEN)


def test_a_build_whose_tables_are_gone_is_given_up(refreshed: Site, tmp_path: Any) -> None:
    """
    What is published stays; building names the way out, doctor too, and a journal that is put back gives it up by itself.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    refreshed.lake.backup(tmp_path / "backup")
    [build] = [s for s in refreshed.lake.journal.view().all.values() if s.builds]
    shutil.rmtree(refreshed.lake.root / "hourly" / "partials" / build.data_version)
    refreshed.tables["trades"].trade(("05:30", "C", 9))

    with pytest.raises(TableNotFoundError) as caught:
        refreshed.lake.build("hourly")
    assert "materializer abandon hourly" in caught.value.hint
    found = [(f.code, f.hint) for f in refreshed.lake.doctor("hourly") if f.message.startswith("next version: its")]
    assert [("table.not-found", build.mend)] == found
    assert "sound" == refreshed.lake.repair("hourly").outcome

    report = refreshed.lake.restore(tmp_path / "backup")
    assert (("hourly",), {}) == (report.given_up, report.repairs)
    refreshed.expect_refresh()
    refreshed.expect_true(query=GIVEN)
    applied(refreshed, width="2 hours")
    assert refreshed.lake.build("hourly").switched is not None
    refreshed.expect_true(query=WIDER)


def test_doctor_says_how_long_a_build_can_wait(refreshed: Site) -> None:
    """
    A build has captured less than what is published, so its changes of the source go first.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    refreshed.tables["trades"].trade(("05:30", "C", 9))
    refreshed.lake.refresh("hourly")

    found = [f for f in refreshed.lake.doctor("hourly") if f.message.startswith("next version: ")]
    assert [("ok", "doctor.retention")] == [(f.level, f.code) for f in found]
    assert "1 source versions are not captured" in found[0].message


def test_each_kept_version_can_be_had_back(refreshed: Site) -> None:
    """
    The version that is published again is no previous one of its own.
    """
    applied(refreshed, properties={"versions.keep": "2"})
    for width in ("2 hours", "3 hours"):
        applied(refreshed, width=width, properties={"versions.keep": "2"})
        refreshed.lake.build("hourly")

    refreshed.lake.rollback("hourly", back=2)
    refreshed.lake.build("hourly")
    refreshed.expect_true(query=GIVEN)
    refreshed.lake.rollback("hourly")
    refreshed.lake.build("hourly")
    refreshed.expect_true(query=GIVEN.replace("1 hour", "3 hours"))
    refreshed.lake.rollback("hourly", back=2)
    refreshed.lake.build("hourly")
    refreshed.expect_true(query=WIDER)
    with pytest.raises(NothingBuiltError, match="2 previous versions of 'hourly' are kept"):
        refreshed.lake.rollback("hourly", back=3)


def test_a_version_comes_back_thawed(refreshed: Site) -> None:
    """
    What was thawed since is computed again from its raw rows, and what changed there meanwhile counts.
    """
    refreshed.lake.expire("hourly", "2024-03-01T02:00:00Z")
    applied(refreshed, measures=MEASURES | {"mean": "avg(price)"})
    refreshed.lake.switch("hourly")
    refreshed.lake.thaw("hourly")
    refreshed.lake.refresh("hourly")
    refreshed.tables["trades"].delete("price = 3")

    refreshed.lake.rollback("hourly")
    report = refreshed.lake.build("hourly")

    assert report.switched is not None
    assert NEG_INF == refreshed.lake.journal.view().named("hourly").frozen
    refreshed.expect_true(query=GIVEN)


def test_drop_takes_the_build_along(refreshed: Site) -> None:
    """
    Nothing of an aggregate is left, in the lake or in the journal.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.drop("hourly")

    assert {} == dict(refreshed.lake.journal.view().all)
    assert not (refreshed.lake.root / "hourly").exists()


def suite(site: Site, most: int) -> None:
    """Expect a mean of at most *most*."""
    folder = site.config.expectations
    folder.mkdir(exist_ok=True)
    kwargs = {"column": "mean", "max_value": most}
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    (folder / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": [expectation]}))


def test_what_is_made_of_partials_has_to_meet_its_expectations(refreshed: Site) -> None:
    """
    No refresh audits an added measure, so its first output is audited whole; a failure changes nothing.
    """
    suite(refreshed, 2)
    measures = MEASURES | {"mean": "avg(price)"}
    with pytest.raises(QualityGateError, match="mean"):
        applied(refreshed, measures=measures)
    assert (1, 0) == folders(refreshed)

    suite(refreshed, 5)
    assert "measures" == applied(refreshed, measures=measures).kind
    refreshed.lake.switch("hourly")
    refreshed.expect_true(query=AVERAGE)


def test_what_is_made_of_partials_is_published_anyway(refreshed: Site) -> None:
    """
    A reason stands for the expectations, and is recorded with what fails.
    """
    suite(refreshed, 2)
    spec = define("hourly", "trades", **PARTS | {"measures": MEASURES | {"mean": "avg(price)"}})
    refreshed.lake.apply(spec, publish_anyway="known")
    [build] = [s for s in refreshed.lake.journal.view().all.values() if s.builds]
    assert ({"reason": "known"}, 1) == (build.checks[-1]["published_anyway"], len(build.checks[-1]["failed"]))
    refreshed.lake.switch("hourly")
    refreshed.expect_true(query=AVERAGE)


def test_what_the_gate_holds_back_is_not_switched(refreshed: Site) -> None:
    """
    A build whose gate refuses a run is not published; once it lets it through, it is.
    """
    suite(refreshed, 2)
    applied(refreshed, width="2 hours", measures=MEASURES | {"mean": "avg(price)"})
    with pytest.raises(QualityGateError) as refused:
        refreshed.lake.build("hourly")
    assert "'materializer build hourly --publish-anyway REASON' publishes it" in str(refused.value.hint)
    with pytest.raises(NotCoveredError, match="is not built"):
        refreshed.lake.switch("hourly")
    refreshed.expect_true(query=GIVEN)

    assert refreshed.lake.build("hourly", publish_anyway="known").switched is not None
    refreshed.expect_true(query=AVERAGE.replace("1 hour", "2 hours"))


def test_an_engine_is_built_from_the_source_and_taken_back(site: Site) -> None:
    """
    Results of an engine are whole rows: another parameter is another computation of the data, and switches likewise.
    """
    site.table().trade(*TRADES)

    def sessions(gap: str) -> AggregateSpec:
        parts = {"time": "ts", "session_gap": gap, "keys": ["sym"], "measures": {"n": "count(*)"}}
        return define_engine("sess", "trades", engine="session_window", **parts)

    site.lake.apply(sessions("90 minutes"))
    site.lake.refresh("sess", as_of="2024-03-02T00:00:00Z")
    before = site.published("sess")
    [change] = site.lake.apply(sessions("1 minute"))
    assert ("data", "started") == (change.kind, change.next)
    assert site.lake.build("sess", as_of="2024-03-02T00:00:00Z").switched is not None
    assert 5 == len(site.published("sess")) > len(before)
    assert site.lake.verify("sess").is_equal

    site.lake.rollback("sess")
    assert site.lake.build("sess", as_of="2024-03-02T00:00:00Z").switched is not None
    assert before == site.published("sess")
    verifying.expect_equal(site.lake, "sess")


# -- dying ---------------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """A process is gone."""


def killed(site: Site, checkpoint: str, do: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command in a process that dies at the start of a step, without any clean-up; its lease is a dead one's."""

    def die(name: str) -> None:
        if name == checkpoint:
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr("materializer.services.protocol.refresh_steps.release", lambda *_: None)
        with pytest.raises(Died):
            do(site.opened_with(die))
    monkeypatch.setattr(processes, "is_dead", lambda *_: True)


STEPS: Final = {
    "lease": None,
    "recover": None,
    "switch_plan": None,
    "switch_write": "aborted",
    "switch_fence": "switched",
    "switch_done": "switched",
}
"""Where a switch dies, and how whoever comes next ends it."""


@spark_is_slow
@pytest.mark.parametrize(
    "step", [pytest.param(s, marks=[] if s.startswith("switch") else pytest.mark.slow) for s in STEPS]
)
def test_a_switch_that_dies_is_ended_by_the_next_command(
    refreshed: Site, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Before the output has the new rows it is undone, after that it is completed; by whatever writes next.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    killed(refreshed, step, lambda lake: lake.switch("hourly"), monkeypatch)

    assert [] == [f for f in refreshed.lake.doctor("hourly") if f.level == "error"]
    assert "sound" == refreshed.lake.repair("hourly").outcome
    refreshed.tables["trades"].trade(("05:30", "C", 9))
    refreshed.expect_refresh()
    ended = [e.outcome for e in refreshed.lake.history("hourly")]
    assert STEPS[step] == next((e for e in ended if e in ("aborted", "switched")), None)
    refreshed.expect_true(query=WIDER if STEPS[step] == "switched" else GIVEN)

    if STEPS[step] != "switched":
        assert refreshed.lake.build("hourly").switched is not None
    refreshed.expect_true(query=WIDER)


def test_undoing_a_switch_dies_again_and_again(refreshed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each step of undoing may die; the next process goes on.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    for step in ("switch_write", "switch_undo", "switch_refuse", "switch_undone"):
        killed(refreshed, step, lambda lake: lake.switch("hourly"), monkeypatch)
    refreshed.lake.refresh("hourly")
    refreshed.expect_true(query=GIVEN)
    assert refreshed.lake.switch("hourly").previous
    refreshed.expect_true(query=WIDER)


@pytest.mark.parametrize(
    ("parts", "kind", "following"),
    [
        pytest.param({"comment": "as it was"}, "data", "started", id="the-old-one-again"),
        pytest.param({"width": "2 hours"}, "unchanged", "", id="the-new-one-again"),
        pytest.param({"width": "2 hours", "comment": "wide"}, "metadata", "", id="a-comment"),
        pytest.param({"width": "3 hours"}, "data", "started", id="a-third"),
    ],
)
def test_what_is_applied_after_a_switch_that_died_changes_what_it_published(
    refreshed: Site, parts: dict[str, Any], kind: str, following: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The switch is ended first: the definition is compared with the one that is published then.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    killed(refreshed, "switch_done", lambda lake: lake.switch("hourly"), monkeypatch)

    change = applied(refreshed, **parts)

    assert (change.kind, change.next) == (kind, following)
    refreshed.expect_true(query=WIDER)
    if following:
        assert refreshed.lake.build("hourly").switched is not None
    state = refreshed.lake.journal.view().named("hourly")
    assert AggregateSpec.from_json(state.spec).comment == parts.get("comment", "")


@pytest.mark.parametrize("step", ["switch_fence", "switch_done"])
def test_a_switch_asked_again_is_one_switch(refreshed: Site, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whoever asks for the switch again after it was written gets that one.
    """
    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    killed(refreshed, step, lambda lake: lake.switch("hourly"), monkeypatch)

    report = refreshed.lake.switch("hourly")

    assert ["switched"] == [e.outcome for e in refreshed.lake.history("hourly") if e.n == report.refresh]
    refreshed.expect_true(query=WIDER)


def test_a_full_disk_leaves_the_old_version(refreshed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A switch that cannot be written is undone at once, and the build stays.
    """

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("no space left")

    applied(refreshed, width="2 hours")
    refreshed.lake.build("hourly", switch=False)
    with monkeypatch.context() as patch:
        patch.setattr(copying, "replace_all", full)
        with pytest.raises(StorageError):
            refreshed.lake.switch("hourly")
    refreshed.expect_true(query=GIVEN)
    assert "aborted" == refreshed.lake.history("hourly")[0].outcome
    refreshed.lake.switch("hourly")
    refreshed.expect_true(query=WIDER)


@pytest.mark.parametrize(
    "step",
    [
        "compute",
        "wrote_partials",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("plan", "write", "done")),
    ],
)
def test_a_build_that_dies_goes_on(refreshed: Site, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A run of a build is a refresh like any other; the old version does not notice that it died.
    """
    applied(refreshed, width="2 hours")
    killed(refreshed, step, lambda lake: lake.build("hourly"), monkeypatch)
    refreshed.tables["trades"].trade(("05:30", "C", 9))
    refreshed.expect_refresh()
    refreshed.expect_true(query=GIVEN)

    assert refreshed.lake.build("hourly").switched is not None
    refreshed.expect_true(query=WIDER)


# -- who reads it --------------------------------------------------------------------------------------------------------


def test_a_child_follows_the_switch(refreshed: Site) -> None:
    """
    An aggregate over the output sees a switch as a change of all that it reads, and is true after its next refresh.
    """
    measures = {"n": "sum(n)", "total": "sum(total)"}
    refreshed.lake.define("daily", "hourly", time="bucket", width="1 day", keys=["sym"], measures=measures)
    refreshed.lake.refresh("daily")
    before = refreshed.published("daily")
    applied(refreshed, width="2 hours", where="sym <> 'B'")
    refreshed.lake.build("hourly")

    refreshed.expect_refresh("daily")

    assert before != refreshed.published("daily")
    assert [("A", 3, 9)] == [row[1:] for row in refreshed.published("daily")]
    verifying.expect_equal(refreshed.lake, "daily")
