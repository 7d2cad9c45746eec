"""Journals that are lost, put back or unreadable: never a wrong table, and a way back to the truth from each."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.errors import (
    ForeignTableError,
    JournalError,
    JournalLostError,
    LeaseHeldError,
    TablesAheadError,
    UsageError,
    WriteFencedError,
)
from materializer.journal.codec import Row
from materializer.journal.events import LeaseTaken
from materializer.journal.store import JournalStore
from materializer.lake.write.replace import replace_spans
from materializer.services import processes
from tests.system.builders import Site
from tests.system.lake import Death, Died, dying

SQL = """CREATE MATERIALIZED VIEW hourly AS
SELECT window(ts, '1 hour').start AS bucket, sym, count(*) AS n, sum(price) AS total, max(price) AS top
FROM trades GROUP BY window(ts, '1 hour'), sym"""


@pytest.fixture
def refreshed(site: Site) -> Site:
    """A lake with an hourly aggregate, refreshed once."""
    site.table().trade(("01:10", "A", 1), ("01:20", "B", 2), ("05:00", "A", 3))
    site.lake.apply(SQL)
    site.lake.refresh("hourly")
    return site


def journal(site: Site) -> Path:
    return site.lake.root / "_materializer"


def later(site: Site) -> None:
    """Insert a late row and a new one, and delete one."""
    site.tables["trades"].trade(("01:40", "A", 100), ("12:00", "C", 5))
    site.tables["trades"].delete("price = 3")


def unreadable(site: Site) -> None:
    """Append an event of the aggregate that nobody can read."""
    store, state = JournalStore(site.lake.root), site.lake.journal.view().named("hourly")
    store.append([Row(state.id, "captured", "", '{"version":')], expected_version=store.read().version)


def mended(site: Site) -> None:
    """Repair what is to be repaired, refresh, and assert the truth, also after more rows came and went."""
    site.lake.repair("hourly")
    site.lake.refresh("hourly")
    site.expect_true()
    site.tables["trades"].trade(("05:30", "A", 7), ("23:00", "Z", 1))
    site.tables["trades"].delete("sym = 'B'")
    site.lake.refresh("hourly")
    site.expect_true()


# -- a journal that is gone ----------------------------------------------------------------------------------------------


def test_a_lost_journal_is_begun_anew_with_the_tables_that_are_there(refreshed: Site) -> None:
    """
    Numbers go on above the tables', the output stays readable, and who still writes for the lost journal is fenced.
    """
    later(refreshed)
    refreshed.lake.refresh("hourly")
    old, before = refreshed.lake.journal.view().named("hourly"), refreshed.published("hourly")
    shutil.rmtree(journal(refreshed))
    refreshed.lake.journal.reopen()
    assert ["hourly"] == refreshed.lake.lost()
    with pytest.raises(JournalLostError, match="tables of it are there") as caught:
        refreshed.lake.repair("hourly")
    assert "--definitions" in caught.value.hint
    with pytest.raises(ForeignTableError) as refused:
        refreshed.lake.apply(SQL)
    assert "repair --definitions" in refused.value.hint
    [planned] = refreshed.lake.take_over(SQL, dry_run=True)
    assert -1 == refreshed.lake.journal.view().version
    [done] = refreshed.lake.take_over(SQL)

    state = refreshed.lake.journal.view().named("hourly")
    assert ("planned", "repaired", 3) == (planned.outcome, done.outcome, done.mending.n)
    assert planned.mending.steps == (*done.mending.steps[:-1], planned.mending.steps[-1])
    assert old.id != state.id
    assert before == refreshed.published("hourly")
    output = str(refreshed.lake.root / "hourly" / "output")
    rows = DeltaTable(output).to_pyarrow_table().slice(0, 0)
    everything = SpanSet.of(EVERYTHING)
    with pytest.raises(WriteFencedError):
        replace_spans(
            output, rows, SliceColumn("bucket", False, TimeType.TIMESTAMP), everything, f"materializer/{old.id}", 99, {}
        )
    assert ["sound"] == [r.outcome for r in refreshed.lake.take_over(SQL)]
    assert [state.data_version] == [p.name for p in (refreshed.lake.root / "hourly" / "partials").iterdir()]
    mended(refreshed)


def test_a_journal_that_is_lost_twice(refreshed: Site) -> None:
    """
    An aggregate that was taken over can be taken over again, and one whose columns changed gets a new output.
    """
    for _ in range(2):
        shutil.rmtree(journal(refreshed))
        refreshed.lake.journal.reopen()
        refreshed.lake.take_over(SQL)
    later(refreshed)
    mended(refreshed)
    shutil.rmtree(journal(refreshed))
    refreshed.lake.journal.reopen()
    [report] = refreshed.lake.take_over(SQL.replace("AS top", "AS most"))

    assert [str(refreshed.lake.root / "hourly" / "output.aside")] == list(report.left)
    refreshed.lake.refresh("hourly")
    refreshed.expect_true()


def test_a_journal_whose_log_cannot_be_read(refreshed: Site) -> None:
    """
    Everything that needs it says what helps; taking over renames it.
    """
    log = sorted((journal(refreshed) / "journal" / "_delta_log").glob("*.json"))[2]
    log.unlink()
    lake = refreshed.opened_with(lambda _: None)
    for call in (lake.status, lambda: lake.repair("hourly"), lambda: lake.repair("hourly", dry_run=True)):
        with pytest.raises(JournalError) as caught:
            call()
        assert "materializer restore" in caught.value.hint
        assert "repair --definitions" in caught.value.hint
    [report] = lake.take_over(SQL)

    assert [str(journal(refreshed)) + ".aside"] == list(report.left)
    refreshed.lake = lake
    mended(refreshed)


# -- an event that cannot be read ----------------------------------------------------------------------------------------


def test_an_event_that_cannot_be_read(refreshed: Site) -> None:
    """
    The aggregate is unusable and says so everywhere; the other one goes on; a repair makes it dirty and usable.
    """
    refreshed.hourly("other")
    unreadable(refreshed)
    lake = refreshed.lake
    lake.refresh("other")
    assert ["other", "hourly"] == lake.names()
    assert [("hourly", "journal.corrupt")] == [(f.subject, f.code) for f in lake.doctor() if f.level == "error"]
    for call in (lambda: lake.refresh("hourly"), lambda: lake.status("hourly"), lambda: lake.apply(SQL)):
        with pytest.raises(JournalError, match="'hourly' cannot be used") as caught:
            call()
        assert "materializer repair hourly" in caught.value.hint
    told = lake.repair("hourly", dry_run=True)
    report = lake.repair("hourly")

    assert ["journal.corrupt"] == [code for code, _ in report.mending.wrong] == [code for code, _ in told.mending.wrong]
    assert report.mending.is_everything_dirty
    assert not lake.journal.view().broken
    later(refreshed)
    mended(refreshed)


def test_an_unreadable_event_and_a_journal_from_an_old_copy(refreshed: Site) -> None:
    """
    Damage of both kinds is mended by one repair.
    """
    copy = refreshed.root / "copy"
    shutil.copytree(journal(refreshed), copy)
    later(refreshed)
    refreshed.lake.refresh("hourly")
    shutil.rmtree(journal(refreshed))
    copy.rename(journal(refreshed))
    unreadable(refreshed)
    report = refreshed.lake.repair("hourly")

    assert {"journal.corrupt", "tables.ahead"} == {code for code, _ in report.mending.wrong}
    mended(refreshed)


# -- backup and restore --------------------------------------------------------------------------------------------------


def test_a_restored_journal_knows_less_than_the_tables(refreshed: Site, tmp_path: Path) -> None:
    """
    It is put in place with the old one beside it, names what needs a repair, and what needs none goes on.
    """
    refreshed.hourly("other")
    refreshed.lake.refresh("other")
    made = refreshed.lake.backup(tmp_path / "backup")
    assert {"hourly": 1, "other": 1} == made.manifest.aggregates
    with pytest.raises(UsageError, match="not empty"):
        refreshed.lake.backup(tmp_path / "backup")
    later(refreshed)
    refreshed.lake.refresh("hourly")
    planned = refreshed.lake.restore(tmp_path / "backup", dry_run=True)
    assert [("hourly", "older"), ("other", "same")] == [(d.name, d.change) for d in planned.differences]
    report = refreshed.lake.restore(tmp_path / "backup")

    assert ["hourly"] == list(report.repairs)
    assert Path(report.aside).is_dir()
    refreshed.lake.refresh("other")
    refreshed.expect_true("other")
    with pytest.raises(TablesAheadError):
        refreshed.lake.refresh("hourly")
    mended(refreshed)


def test_only_a_whole_backup_is_restored(refreshed: Site, tmp_path: Path) -> None:
    """
    A copy that was interrupted or changed is refused, and nothing is written.
    """
    with pytest.raises(Died), dying(Death("backup_seal", 1, is_kill=True)) as die:
        refreshed.opened_with(die).backup(tmp_path / "part")
    with pytest.raises(UsageError, match="interrupted"):
        refreshed.lake.restore(tmp_path / "part")
    refreshed.lake.backup(tmp_path / "changed")
    for commit in sorted((tmp_path / "changed" / "_materializer" / "journal" / "_delta_log").iterdir())[-1:]:
        commit.unlink()
    with pytest.raises(JournalError, match="not what was copied"):
        refreshed.lake.restore(tmp_path / "changed")
    with pytest.raises(JournalError, match="no journal"):
        Site(tmp_path / "elsewhere", refreshed.spark).lake.backup(tmp_path / "none")
    assert "up-to-date" == refreshed.lake.refresh("hourly").outcome


def test_a_live_holder_is_respected(refreshed: Site, tmp_path: Path) -> None:
    """
    Neither a repair nor a restore takes a lease away from who works, and neither writes anything then.
    """
    refreshed.lake.backup(tmp_path / "backup")
    shutil.rmtree(refreshed.lake.root / "hourly" / "output")
    view = refreshed.lake.journal.view()
    lease = processes.new_lease(0, 30)
    refreshed.lake.journal.append(view.version, view.named("hourly").id, [LeaseTaken(lease)])
    before = refreshed.lake.journal.view().version
    with processes.at_work(lease):
        for call in (lambda: refreshed.lake.repair("hourly"), lambda: refreshed.lake.restore(tmp_path / "backup")):
            with pytest.raises(LeaseHeldError) as caught:
                call()
            assert "nothing was written" == caught.value.wrote
        unreadable(refreshed)
        with pytest.raises(LeaseHeldError):
            refreshed.lake.repair("hourly")

    assert before + 1 == refreshed.lake.journal.view().version
    mended(refreshed)


# -- dying ---------------------------------------------------------------------------------------------------------------

REPAIRS = ("repair_events", "repair_partials", "repair_output", "repair_swap", "repair_journal", "repair_clean")
RESTORES = ("restore_copy", "restore_aside", "restore_put", "restore_clean")


def test_a_repair_that_dies_anywhere_is_done_again(refreshed: Site) -> None:
    """
    Killed at each of its steps, one after the other, and at last let through.
    """
    later(refreshed)
    unreadable(refreshed)
    shutil.rmtree(next((refreshed.lake.root / "hourly" / "partials").iterdir()))
    shutil.rmtree(refreshed.lake.root / "hourly" / "output")
    died = []
    for checkpoint in REPAIRS:
        with suppress(Died), dying(Death(checkpoint, 1, is_kill=True)) as die:
            try:
                refreshed.opened_with(die).repair("hourly")
            except Died:
                died.append(checkpoint)
                raise

    assert list(REPAIRS) == died
    mended(refreshed)
    assert 1 == len(list((refreshed.lake.root / "hourly" / "partials").iterdir()))


def test_an_output_is_rebuilt_without_dirt_although_the_repair_died(refreshed: Site) -> None:
    """
    What a dead repair left of a rebuilt output is made again from the partials; nothing becomes dirty.
    """
    before = refreshed.published("hourly")
    shutil.rmtree(refreshed.lake.root / "hourly" / "output")
    for checkpoint in ("repair_swap", "repair_journal"):
        with pytest.raises(Died), dying(Death(checkpoint, 1, is_kill=True)) as die:
            refreshed.opened_with(die).repair("hourly")
    report = refreshed.lake.repair("hourly")

    assert not report.mending.is_everything_dirty
    assert before == refreshed.published("hourly")
    assert "up-to-date" == refreshed.lake.refresh("hourly").outcome


def test_a_restore_that_dies_anywhere_is_done_again(refreshed: Site, tmp_path: Path) -> None:
    """
    Between the two renames there is no journal, and everybody says so; the same restore again ends it.
    """
    refreshed.lake.backup(tmp_path / "backup")
    later(refreshed)
    refreshed.lake.refresh("hourly")
    for checkpoint in RESTORES:
        with pytest.raises(Died), dying(Death(checkpoint, 1, is_kill=True)) as die:
            refreshed.opened_with(die).restore(tmp_path / "backup")
        if checkpoint == "restore_put":
            with pytest.raises(JournalError, match="restored, or that was interrupted"):
                refreshed.opened().apply(SQL)
    refreshed.lake = refreshed.opened_with(lambda _: None)
    report = refreshed.lake.restore(tmp_path / "backup")

    assert ["hourly"] == list(report.repairs)
    mended(refreshed)


@pytest.mark.parametrize("checkpoint", ["wrote_partials", "done"])
def test_an_open_refresh_and_a_lost_output(refreshed: Site, checkpoint: str) -> None:
    """
    A refresh that cannot be ended as usual is given up: its buckets are dirty, the rest is rebuilt.
    """
    later(refreshed)
    with pytest.raises(Died), dying(Death(checkpoint, 1, is_kill=True)) as die:
        refreshed.opened_with(die).refresh("hourly")
    assert "sound" == refreshed.lake.repair("hourly", dry_run=True).outcome, "an open refresh is no damage"
    shutil.rmtree(refreshed.lake.root / "hourly" / "output")
    report = refreshed.lake.repair("hourly")

    assert (2, False) == (report.mending.abandons, report.mending.is_everything_dirty)
    mended(refreshed)


# -- anything, in any order ----------------------------------------------------------------------------------------------

STOPPED = (TablesAheadError, ForeignTableError)
"""How a refresh says that journal and tables do not agree."""
STEPS = st.lists(
    st.sampled_from(["late", "late", "refresh", "refresh", "backup", "restore", "die", "lose"]), min_size=5, max_size=9
)


@pytest.mark.parametrize("examples", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_random_restores_never_give_a_wrong_table(spark, tmp_path_factory, examples: int) -> None:
    """
    Whatever is backed up and restored between refreshes, deaths and losses: no refresh that succeeds leaves a wrong row.
    """
    restored = []

    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(STEPS)
    def explore(steps: list[str]) -> None:
        site = Site(tmp_path_factory.mktemp("site"), spark)
        site.table().trade(("01:10", "A", 1), ("05:00", "B", 2))
        site.lake.apply(SQL)
        site.lake.refresh("hourly")
        backup = [site.root / "backup-0"]
        site.lake.backup(backup[0])
        for i, step in enumerate([*steps, "late", "restore", "refresh"]):
            match step:
                case "late":
                    site.tables["trades"].trade((f"0{1 + i % 9}:30", "A", i), (f"{10 + i}:00", "C", i))
                    site.tables["trades"].delete(f"price = {i - 2}")
                case "backup":
                    backup.append(site.root / f"backup-{i + 1}")
                    site.lake.backup(backup[-1])
                case "restore":
                    report = site.lake.restore(backup[i % len(backup)])
                    restored.append(bool(report.repairs))
                case "die":
                    with suppress(Died, *STOPPED), dying(Death("wrote_partials", 1, is_kill=True)) as die:
                        site.opened_with(die).refresh("hourly")
                case "lose":
                    shutil.rmtree(site.lake.root / "hourly" / "output", ignore_errors=True)
                    site.lake.repair("hourly")
                case _:
                    with suppress(*STOPPED):
                        site.lake.refresh("hourly")
                        site.expect_true()
        site.lake.repair("hourly")
        site.lake.refresh("hourly")
        site.expect_true()

    explore()
    assert (examples == 1 and restored) or {True, False} == set(restored), "both kinds of restore occurred"
