"""Maintenance of real tables in both lanes: no row changes, nobody notices, and it may die anywhere."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import maintaining
from materializer.adapters.cli.output import JsonOutput, TextOutput
from materializer.api import Materializer
from materializer.config import SparkConfig
from materializer.errors import LeaseHeldError, OutputHandlerError, StorageError, UnknownAggregateError
from materializer.journal.journal import Journal
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.maintenance import maintain
from tests.system.builders import DAY, Site, spark_is_slow
from tests.system.lake import MAINTENANCE, Death, Died, dying, leave_behind, the_dead
from tests.system.processes.running import World
from tests.system.small_files import files_of, torn

HOURS = 6


def refreshes(site: Site, count: int, *, start: int = 0, name: str = "hourly") -> None:
    """Refresh after each of so many new hours."""
    for hour in range(start, start + count):
        site.tables["trades"].trade((DAY + timedelta(hours=hour, minutes=1), "A", hour))
        site.lake.refresh(name)


@pytest.fixture
def worn(site: Site) -> Site:
    """A lake whose aggregate has a small file for each of its hours."""
    site.table().trade(*[(DAY + timedelta(hours=hour, minutes=1), "A", hour) for hour in range(HOURS)])
    site.hourly()
    site.lake.refresh("hourly")
    torn(site)
    return site


@pytest.fixture
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no version needs may go at once."""
    monkeypatch.setattr(maintain, "retention_hours", lambda *_: 0.0)


def source_of(site: Site) -> dict[str, tuple[int, int]]:
    """Return every file and folder of the source with its size and the time it was changed."""
    path = site.tables["trades"].path
    found = {str(p.relative_to(path)): p.stat() for p in [path, *path.rglob("*")]}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


def versions(site: Site) -> dict[str, int]:
    aggregate = Aggregate.of(site.lake.journal.view().named("hourly"), site.lake.root)
    return {t: DeltaFolder.at(aggregate.paths[t]).head().version for t in ("partials", "output")}


# -- what it does --------------------------------------------------------------------------------------------------------


@spark_is_slow
def test_rows_stay_and_files_go(worn, no_retention):
    """
    Small files become one, files that nobody needs go, no row changes, and a second time nothing is to do. The source's small
    files and those that nobody needs there are its owner's: not one is touched.
    """
    worn.tables["trades"].update("price = 0", price=7)
    before, source = worn.published("hourly"), source_of(worn)
    assert DeltaTable(str(worn.tables["trades"].path)).vacuum(retention_hours=0, enforce_retention_duration=False)
    reports = worn.lake.maintain("hourly")
    [tables, _] = reports

    assert before == worn.published("hourly")
    assert [("partials", 1, HOURS), ("output", 1, HOURS)] == [(d.table, d.files, d.rewritten) for d in tables.done]
    again = worn.lake.maintain("hourly")[0]
    assert (True, 2 * HOURS) == (again.has_work, sum(d.removed for d in again.done))
    assert not any(r.has_work for r in worn.lake.maintain("hourly"))
    assert source == source_of(worn)
    worn.tables["trades"].trade(("01:30", "A", 5), ("02:30", "B", 6))
    worn.expect_refresh()
    worn.expect_true()


def test_a_plan_writes_nothing(worn):
    """
    A dry run and a maintenance that finds nothing touch no file, and take no lease.
    """
    files = worn.files()
    planned = worn.lake.maintain("hourly", dry_run=True)
    assert files == worn.files()

    assert planned[0].has_work
    assert () == planned[0].done
    assert [HOURS, HOURS] == [sum(len(g.pieces) for g in p.groups) for p in planned[0].plans]
    worn.lake.maintain("hourly")
    files = worn.files()
    assert not any(r.has_work for r in worn.lake.maintain())
    assert files == worn.files()


def test_it_is_told_before_it_is_done_and_remembered(worn):
    """
    The plan comes first; status and the journal, folded or not, know what was done last.
    """
    told: list[tuple[str | None, int]] = []
    worn.lake.maintain("hourly", on_plan=lambda r: told.append((r.name, files_of(worn))))

    assert [("hourly", HOURS), (None, 1)] == told
    [status] = worn.lake.status("hourly")
    assert (1, {"partials", "output"}) == (status.maintained["n"], {t["table"] for t in status.maintained["tables"]})
    Journal(worn.lake.root, snapshot_every=1).tidy()
    [again] = worn.opened().status("hourly")
    assert status.maintained == again.maintained


def test_all_aggregates_and_the_journal(worn, no_retention):
    """
    Without a name every aggregate is maintained, parents first, and the journal last, and no source; an unknown name is refused.
    """
    worn.hourly("other")
    worn.lake.refresh("other")
    torn(worn, "other")
    worn.tables["trades"].update("price = 0", price=7)
    source, out = source_of(worn), io.StringIO()

    reports = worn.lake.maintain()
    assert ["hourly", "other", None] == [r.name for r in reports]
    assert [True, True] == [r.has_work for r in reports[:2]]
    assert 0 == told(worn, JsonOutput(out, io.StringIO()), every=True)
    maintained = json.loads(out.getvalue())["maintained"]
    removed = [sum(t["done"]["removed"] for t in m["tables"]) for m in maintained[:2]]
    assert (["hourly", "other", None], [2 * HOURS] * 2) == ([m["name"] for m in maintained], removed)
    assert source == source_of(worn)
    with pytest.raises(UnknownAggregateError):
        worn.lake.maintain("nobody")


@pytest.mark.parametrize("hours", [14, pytest.param(30, marks=pytest.mark.slow)])
def test_files_and_journal_stay_bounded(site, no_retention, monkeypatch, hours):
    """
    Many small refreshes with maintenance leave few files in every table and in the journal, and the whole history.
    """
    monkeypatch.setattr("materializer.lake.write.vacuum.retention_of", lambda *_: 0.0)
    site.table()
    site.hourly(properties={"maintain.every": "5"})
    most = Counter[str]()
    for hour in range(hours):
        refreshes(site, 1, start=hour)
        folder = site.lake.root / "hourly" / "output"
        most["output"] = max(most["output"], len(list(folder.glob("*.parquet"))))
        journal = site.lake.root / "_materializer" / "journal"
        most["journal"] = max(most["journal"], len(list(journal.glob("*.parquet"))))

    assert most["output"] <= 12
    assert most["journal"] <= 60
    assert list(range(hours, 0, -1)) == [e.n for e in site.lake.history("hourly", None)]
    site.expect_true()


def told(site: Site, output, *names: str, **options) -> int:
    """Run the command and return its exit status."""
    call = CommandCall(output, opened=site.lake, is_strict=True)
    return guarded(call, lambda: maintaining.maintain(call, list(names), **options))


def test_the_command_shows_its_plan_first(worn):
    """
    The plan, then what was done; a second time that nothing is to do, with status 3 for those who ask for it.
    """
    out = io.StringIO()
    assert 0 == told(worn, TextOutput(out, io.StringIO()), "hourly", dry_run=True)
    assert "would be maintained" in out.getvalue()
    assert 0 == told(worn, TextOutput(out, io.StringIO()), "hourly")
    words = " ".join(out.getvalue().split())
    assert words.index("write 6 files again (6 rows") < words.index("6 files became 1 (6 rows) in 1 commit")
    again = io.StringIO()
    assert 3 == told(worn, JsonOutput(again, io.StringIO()), "hourly")
    document = json.loads(again.getvalue())

    assert ["hourly", None] == [m["name"] for m in document["maintained"]]
    assert [None, None] == [t["done"] for t in document["maintained"][0]["tables"]]


# -- nobody notices ------------------------------------------------------------------------------------------------------


@spark_is_slow
def test_a_child_sees_no_change(worn):
    """
    A cascade's child is fresh after its parent's maintenance, and its refresh reads no row and starts no Spark job.
    """
    day = {"time": "bucket", "width": "1 day", "keys": ["sym"], "measures": {"total": "sum(total)"}}
    worn.lake.define("daily", "hourly", **day)
    worn.lake.refresh("daily")
    before = versions(worn)
    worn.lake.maintain("hourly")
    assert before["output"] < versions(worn)["output"]

    child = worn.opened()
    [status] = child.status("daily")
    assert ("fresh", 0) == (status.state, len(status.dirty))
    assert "up-to-date" == child.refresh("daily").outcome
    assert not child.has_started_spark
    worn.tables["trades"].trade(("01:30", "A", 5))
    worn.lake.refresh("hourly")
    assert "refreshed" == worn.lake.refresh("daily").outcome
    assert sum(r[3] for r in worn.published("hourly")) == worn.published("daily")[0][2]


def test_merging_goes_on_over_maintained_partials(worn):
    """
    Numbers and pins of the tables are as before: the next insert is merged into what was written again.
    """
    worn.tables["trades"].trade(*[("01:30", "A", i) for i in range(200)])
    worn.lake.refresh("hourly")
    worn.lake.maintain("hourly")
    worn.tables["trades"].trade(("01:40", "A", 5))

    worn.expect_refresh(strategy="merge")
    worn.expect_true()


def test_a_reader_that_began_before_reads_on(worn):
    """
    Within the retention every version stays readable; the one that a reader opened before is whole after two maintenances.
    """
    path = str(worn.lake.root / "hourly" / "output")
    reader = DeltaTable(path)
    rows = reader.to_pyarrow_table().num_rows
    worn.lake.maintain("hourly")
    torn(worn)
    worn.lake.maintain("hourly")

    assert rows == reader.to_pyarrow_table().num_rows == HOURS
    assert reader.version() < DeltaTable(path).version()


def test_what_a_handler_was_not_given_stays_readable(site, no_retention):
    """
    A handler that failed is given the difference to the version it knows, also after a vacuum; a rewrite gives it nothing.
    """
    given: list[int] = []
    fails: list[bool] = []

    def keep(rows, _version) -> None:
        if fails:
            raise ConnectionError("away")
        given.append(rows.count())

    site.table().trade(*[(f"0{hour}:01", "A", hour) for hour in range(HOURS)])
    lake = Materializer(site.lake.root, spark=site.spark, config=site.config, output_handlers={"keep": keep})
    site.lake = lake
    site.hourly(properties={"output_handler": "keep"})
    lake.refresh("hourly")
    torn(site)
    lake.maintain("hourly")
    lake.refresh("hourly")
    assert [HOURS] == given
    fails.append(True)
    site.tables["trades"].trade(("01:30", "A", 5))
    with pytest.raises(OutputHandlerError):
        lake.refresh("hourly")
    for _ in range(2):
        torn(site)
        lake.maintain("hourly")
    fails.clear()
    lake.refresh("hourly")

    assert [HOURS, 1] == given


# -- leases and deaths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "checkpoints",
    [
        pytest.param(MAINTENANCE[-1:], id="at the end"),
        pytest.param(MAINTENANCE, id="anywhere", marks=pytest.mark.slow),
    ],
)
def test_it_may_die_anywhere(worn, no_retention, checkpoints):
    """
    Killed or stopped at any step no row changes, and the next refresh and the next maintenance do the rest.
    """
    rows = worn.published("hourly")
    with the_dead() as dead:
        for checkpoint in checkpoints:
            for is_kill in (True, False):
                torn(worn)
                for _ in range(10):  # enough commits for the journal to be worth folding
                    worn.lake.invalidate("hourly", "2030-01-01")
                with dying(Death(checkpoint, 1, is_kill)) as on_checkpoint, pytest.raises(Died):
                    worn.opened_with(on_checkpoint).maintain("hourly")
                leave_behind(worn.lake, dead)
                assert rows == worn.published("hourly"), checkpoint
        worn.tables["trades"].trade(("01:30", "A", 5), ("02:30", "B", 6))
        worn.lake.refresh("hourly")
        worn.expect_true()
        torn(worn)
        worn.lake.maintain("hourly")
        worn.lake.maintain("hourly")

    assert (1, 1) == (files_of(worn, "output"), files_of(worn, "partials"))
    assert not any(r.has_work for r in worn.lake.maintain("hourly"))
    worn.expect_true()


@pytest.mark.parametrize("checkpoint", ["maintain_written", pytest.param("maintain_committed", marks=pytest.mark.slow)])
def test_a_process_that_is_killed(tmp_path, spark, checkpoint):
    """
    A maintenance that is killed for good, before and after its first commit, leaves nothing to mend.
    """
    world = World(tmp_path, spark)
    world.lake.refresh("bars")
    torn(world, "bars")
    world.killed_at(checkpoint, "maintain")
    world.insert(3, (1, 2, 4))
    report = world.lake.refresh("bars")

    assert ((), ["merge"]) == (report.recovered, [run.report.strategy for run in report.runs])
    world.lake.maintain("bars")
    assert 1 == len(DeltaTable(str(world.table("output"))).file_uris())
    world.expect_true()


def test_it_ends_a_refresh_that_died_first(worn):
    """
    Under its lease an unfinished refresh is ended before a file is touched.
    """
    worn.tables["trades"].trade(("01:30", "A", 5))
    with the_dead() as dead:
        with dying(Death("write", 1, is_kill=True)) as on_checkpoint, pytest.raises(Died):
            worn.opened_with(on_checkpoint).refresh("hourly")
        leave_behind(worn.lake, dead)
        worn.lake.maintain("hourly")

    assert worn.lake.status("hourly")[0].open_refresh is None
    assert "aborted" == worn.lake.history("hourly")[0].outcome
    worn.expect_refresh()
    worn.expect_true()


def test_it_waits_for_nobody(worn):
    """
    While another works on the aggregate it is refused, and nothing is written.
    """
    before = versions(worn)
    with worn.lake.writing("hourly"), pytest.raises(LeaseHeldError):
        worn.lake.maintain("hourly")

    assert before == versions(worn)


# -- after refreshes -----------------------------------------------------------------------------------------------------


def test_every_so_many_refreshes_are_followed_by_maintenance(site):
    """
    By number of the refresh, over runs and processes; the others are not followed by any.
    """
    site.table()
    site.hourly(properties={"maintain.every": "2"})
    done = []
    for hour in range(4):
        site.tables["trades"].trade((DAY + timedelta(hours=hour), "A", hour))
        done.append(bool(site.lake.refresh("hourly").maintained))

    assert [2, 4] == [n for n, was in enumerate(done, 1) if was]
    assert (4, 1) == (site.lake.status("hourly")[0].maintained["n"], files_of(site))


def test_a_failure_of_maintenance_fails_no_refresh(site, monkeypatch):
    """
    The refresh is done and says what went wrong afterwards; its lease is free.
    """

    def full(*_args, **_options) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(maintain, "rewrite", full)
    site.table().trade(*[(f"0{hour}:01", "A", hour) for hour in range(HOURS)])
    site.hourly()
    site.lake.refresh("hourly")
    torn(site)
    site.hourly(properties={"maintain.every": "1"})
    site.tables["trades"].trade(("09:30", "A", 5))
    report = site.lake.refresh("hourly")

    assert "refreshed" == report.outcome
    assert ("the maintenance after it failed: the disk is full (storage.failed)",) == report.warnings
    monkeypatch.undo()
    assert () == site.lake.refresh("hourly", force=True).warnings
    assert 1 == files_of(site)


def test_a_child_that_was_away_finds_the_log_it_needs(site, monkeypatch):
    """
    The log goes with the files that nobody needs, but not what an aggregate still reads it for: days later it sees which
    days changed, and computes no other.
    """
    monkeypatch.setattr("materializer.services.maintenance.maintain.retention_hours", lambda *_: 0.0)
    trades = site.table()
    for day in range(3):
        trades.trade((DAY + timedelta(days=day), "A", 1))
    site.hourly()
    site.lake.refresh("hourly")
    site.lake.define("daily", "hourly", time="bucket", width="1 day", measures={"n": "sum(n)"})
    site.lake.refresh("daily")
    for minute in range(25):
        trades.trade((DAY + timedelta(days=2, minutes=minute), "A", 1))
        site.lake.refresh("hourly")
        if minute % 12 == 0:
            site.lake.maintain("hourly")

    logs = commits_kept(site)
    assert logs["partials"] < 15
    assert logs["output"] > 25
    report = site.lake.refresh("daily")
    assert ["recompute"] == [run.plan.strategy for run in report.runs]
    assert [1, 1, 26] == [n for _, n in site.published("daily")]
    site.lake.maintain("hourly")
    assert commits_kept(site)["output"] < 15


def commits_kept(site: Site) -> dict[str, int]:
    """Return how many commits are in the logs of the tables of the hourly aggregate."""
    logs = site.lake.root.glob("hourly/*/_delta_log"), site.lake.root.glob("hourly/*/*/_delta_log")
    found = {log.relative_to(site.lake.root / "hourly").parts[0]: log for some in logs for log in some}
    return {table: len(list(log.glob("*.json"))) for table, log in found.items()}


# -- doctor --------------------------------------------------------------------------------------------------------------


def findings(site: Site, **settings) -> dict[str, list[str]]:
    """Return what the doctor says of the aggregate and the environment beyond that all is well: hints by code."""
    found: dict[str, list[str]] = {}
    for f in site.opened(**settings).doctor("hourly"):
        if f.level != "ok":
            found.setdefault(f.code, []).append(f"{f.level}: {f.message} / {f.hint}")
    return found


def test_the_doctor_names_tables_that_are_worn(worn):
    """
    Tables that maintenance would lay out again are named, with the command; afterwards they are not.
    """
    [partials, output] = findings(worn)["doctor.worn"]
    assert "6 of them small" in partials
    assert output.endswith("run 'materializer maintain hourly'")
    worn.lake.maintain("hourly")

    assert "doctor.worn" not in findings(worn)


def test_the_doctor_names_what_nobody_needs(site, monkeypatch):
    """
    Files that no version needs, and commits of the journal that can be folded, are a note until maintenance has been.
    """
    site.table().trade(("01:10", "A", 1))
    site.hourly()
    for minute in range(8):
        site.tables["trades"].trade((f"01:{20 + minute}", "A", 1))
        site.lake.refresh("hourly")
    monkeypatch.setattr("materializer.services.maintenance.maintain.retention_hours", lambda *_: 0.0)
    monkeypatch.setattr("materializer.journal.journal.WORTH_FOLDING", 1)

    said = [f for f in site.opened().doctor() if f.code == "doctor.untidy"]
    assert {"journal", "hourly"} == {f.subject for f in said}
    assert all(f.level == "note" and "materializer maintain" in f.hint for f in said)
    assert any("commits to fold into one file" in f.message for f in said)
    assert any("files that nobody needs" in f.message for f in said)
    site.lake.maintain()
    assert [] == [f for f in site.opened().doctor() if f.code == "doctor.untidy" and f.subject == "hourly"]


def test_the_doctor_names_the_setting_by_which_numbers_expire(site):
    """
    A table that forgot which refresh it carries is to be repaired, and what let it forget is named.
    """
    site.table().trade(("01:10", "A", 1))
    site.hourly()
    site.lake.refresh("hourly")
    output = site.lake.root / "hourly" / "output"
    for commit in (output / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("txn", {}).update(lastUpdated=1)
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    DeltaTable(str(output)).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 hour"})
    for i in range(10):  # the newest commits are read, whatever expired
        DeltaTable(str(output)).alter.set_table_properties({"delta.checkpointInterval": str(100 + i)})

    [told] = findings(site)["tables.ahead"]
    assert (
        "carries refresh 0, the journal left it at 1; its property delta.setTransactionRetentionDuration lets" in told
    )
    assert told.endswith("run 'materializer repair hourly'")


def test_the_doctor_of_a_lake_that_is_not_there(site):
    """
    No journal yet is no version of one.
    """
    [journal] = [f for f in site.opened().doctor() if f.subject == "journal"]
    assert ("ok", "not there yet") == (journal.level, journal.message)


def test_the_doctor_says_how_long_late_rows_below_the_frozen_bound_can_wait(site):
    """
    Captured is not enough there: they are merged as the changes that they came in, and these go with the source's log.
    """
    trades = site.table()
    trades.trade(*[("01:10", "A", n) for n in range(20)], ("05:10", "A", 1))
    site.hourly()
    site.lake.refresh("hourly")
    site.lake.expire("hourly", "2024-03-01T03:00:00Z")
    trades.trade(("01:20", "A", 5))
    site.lake.refresh("hourly", "2024-03-01T05:00:00Z", "2024-03-01T06:00:00Z")

    [said] = findings(site)["doctor.retention"]
    assert said.startswith(
        "note: late rows below the frozen bound wait to be merged; their changes stay readable for 16"
    )
    trades.trade(("05:20", "A", 1))
    trades.opened().create_checkpoint()
    for version in range(trades.opened().version()):
        trades.log(version).unlink()
    assert "computes history again" in findings(site)["doctor.log-cleaned"][0]


def test_a_child_forgets_as_its_parent_is_maintained(site):
    """
    Files of a parent's output go by its own retention, not by what its table says.
    """
    site.table().trade(("01:10", "A", 1))
    site.hourly(properties={"maintain.retention": "30 hours"})
    site.lake.refresh("hourly")
    site.lake.define("daily", "hourly", time="bucket", width="1 day", measures={"n": "sum(n)"})
    site.lake.refresh("daily")
    site.tables["trades"].trade(("02:10", "A", 1))
    site.lake.refresh("hourly")

    [said] = [f for f in site.opened().doctor("daily") if f.code == "doctor.retention"]
    assert ("warning", True) == (said.level, "maintain.retention of the aggregate that it reads" in said.message)


def test_the_doctor_names_what_others_did(worn):
    """
    Rows that somebody else changed, and properties that lose data, are told with the way to mend them; vacuumed changes too.
    """
    path = worn.lake.root / "hourly" / "output"
    assert not {"doctor.written-by-others", "doctor.property", "doctor.vacuumed"} & findings(worn).keys()
    DeltaTable(str(path)).delete("n > 0")
    DeltaTable(str(path)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 hours"})
    worn.tables["trades"].trade(("05:30", "A", 5))
    newest = worn.tables["trades"].opened().get_add_actions()
    names = pa.RecordBatchReader.from_stream(newest).read_all()["path"].to_pylist()
    for name in names:
        (worn.tables["trades"].path / name).unlink()
    said = findings(worn, spark=SparkConfig(options={"spark.sql.files.ignoreMissingFiles": "true"}))

    [others] = said["doctor.written-by-others"]
    assert "its output was written by others: DELETE" in others
    assert "--force" in others
    assert "'interval 7 days'" in said["doctor.property"][0]
    assert "before they were captured: 1" in said["doctor.vacuumed"][0]
    assert "error" in said["spark.unsafe-setting"][0]


def test_the_doctor_compares_schedule_and_retention(worn):
    """
    A schedule that is slower than the source forgets is a warning that says how much.
    """
    assert "doctor.too-seldom" not in findings(worn)
    worn.lake.add_policy("hourly", schedule="@monthly")

    [said] = findings(worn)["doctor.too-seldom"]
    assert "forgets after 168 h (change feed and vacuum, delta.deletedFileRetentionDuration)" in said
