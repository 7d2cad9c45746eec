"""Damage done for real, then repaired: the next refresh gives the truth, and nothing that can be kept is computed again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.adapters.cli import main
from materializer.errors import MaterializerError, TablesAheadError
from materializer.journal.state import AggregateState
from materializer.lake.notes import find_notes
from materializer.services.repair.apply import RepairReport
from tests.system.builders import Site, spark_is_slow


@pytest.fixture
def refreshed(site: Site) -> Site:
    """A lake with an hourly aggregate, refreshed twice."""
    table = site.table()
    table.trade(("01:10", "A", 1), ("01:20", "B", 2), ("05:00", "A", 3))
    site.hourly()
    site.lake.refresh("hourly")
    table.trade(("01:30", "A", 10), ("09:00", "B", 4))
    site.lake.refresh("hourly")
    return site


def state_of(site: Site) -> AggregateState:
    return site.lake.journal.view().named("hourly")


def journal(site: Site) -> Path:
    return site.lake.root / "_materializer"


def output(site: Site) -> Path:
    return site.lake.root / "hourly" / "output"


def partials(site: Site) -> Path:
    return site.lake.root / "hourly" / "partials" / state_of(site).data_version


def numbers(site: Site) -> tuple[int, int]:
    """Return the numbers that partials and output carry."""
    state = state_of(site)
    found = (partials(site), f"materializer/{state.data_version}"), (output(site), f"materializer/{state.id}")
    first, second = (DeltaTable(str(path)).transaction_version(app_id) or 0 for path, app_id in found)
    return first, second


def replaced(folder: Path, change: Callable[[], Any]) -> None:
    """Copy a folder, make a change, and put the copy in the folder's place."""
    copy = folder.with_name(folder.name + ".copy")
    shutil.copytree(folder, copy)
    change()
    shutil.rmtree(folder)
    copy.rename(folder)


def another_table(path: Path) -> None:
    """Put somebody else's table in a folder's place."""
    shutil.rmtree(path)
    write_deltalake(
        str(path), DeltaTable(str(next(p for p in path.parents if p.name == "lake") / "trades")).to_pyarrow_table()
    )


def ruin(path: Path, damage: str) -> None:
    """Damage a table of ours in a named way."""
    match damage:
        case "missing":
            shutil.rmtree(path)
        case "foreign":
            another_table(path)
        case "no log":
            shutil.rmtree(path / "_delta_log")
        case _:
            Path(DeltaTable(str(path)).file_uris()[0]).unlink()


def change_and_refresh(site: Site) -> None:
    site.tables["trades"].trade(("01:40", "A", 100), ("12:00", "C", 5))
    site.tables["trades"].delete("sym = 'A' AND price = 3")
    site.lake.refresh("hourly")


def repaired(site: Site, *, is_everything_dirty: bool, codes: list[str]) -> RepairReport:
    """Repair, and assert that what is said before is what is done, and that nothing is left to repair."""
    view, files = site.lake.journal.view(), site.files()
    told = site.lake.repair("hourly", dry_run=True)
    assert "planned" == told.outcome
    assert (view.version, files) == (site.lake.journal.view().version, site.files()), "a dry run writes nothing"
    report = site.lake.repair("hourly")
    assert "repaired" == report.outcome
    assert codes == [code for code, _ in report.mending.wrong] == [code for code, _ in told.mending.wrong]
    assert is_everything_dirty == report.mending.is_everything_dirty == told.mending.is_everything_dirty
    assert told.mending.steps == report.mending.steps
    state = state_of(site)
    assert (state.written_n, state.written_n) == numbers(site)
    assert (None, None) == (state.plan, state.lease)
    assert "sound" == site.lake.repair("hourly").outcome
    return report


def expect_true(site: Site, *, strategy: str | None = None) -> None:
    """Refresh, and assert that the output is the truth: also after rows came, changed and went."""
    site.expect_refresh(strategy=strategy)
    site.expect_true()
    site.tables["trades"].trade(("05:30", "A", 7), ("23:00", "Z", 1))
    site.expect_refresh()
    site.expect_true()


# -- nothing is wrong ----------------------------------------------------------------------------------------------------


def test_a_sound_aggregate_is_left_alone(refreshed: Site) -> None:
    """
    Nothing wrong, nothing written; an open refresh is no damage.
    """
    files = refreshed.files()
    report = refreshed.lake.repair("hourly")

    assert ("sound", (), ()) == (report.outcome, report.mending.wrong, report.mending.steps)
    assert files == refreshed.files()


# -- numbers that do not agree -------------------------------------------------------------------------------------------


@spark_is_slow
def test_a_journal_from_an_old_copy(refreshed: Site) -> None:
    """
    Tables ahead of the journal: everything is dirty, numbers go on above theirs, the output stays readable.
    """
    replaced(journal(refreshed), lambda: change_and_refresh(refreshed))
    with pytest.raises(TablesAheadError, match="journal left it at 2") as caught:
        refreshed.lake.refresh("hourly")
    assert "materializer repair hourly" in caught.value.hint
    before = refreshed.published("hourly")
    report = repaired(refreshed, is_everything_dirty=True, codes=["tables.ahead", "tables.ahead"])

    assert (4, 6) == (report.mending.n, report.mending.source_rows)
    assert before == refreshed.published("hourly")
    expect_true(refreshed, strategy="rebuild")


def test_rows_that_only_the_tables_still_have(refreshed: Site) -> None:
    """
    Rows that went from the source while the journal was away go from the output too, wherever they were.
    """

    def change() -> None:
        refreshed.tables["trades"].trade(("20:00", "X", 1))
        refreshed.lake.refresh("hourly")
        refreshed.tables["trades"].delete("sym = 'X' OR sym = 'B'")

    replaced(journal(refreshed), change)
    shutil.rmtree(partials(refreshed))
    repaired(refreshed, is_everything_dirty=True, codes=["table.not-found", "tables.ahead"])
    expect_true(refreshed)


def test_everything_went_from_the_source(refreshed: Site) -> None:
    """
    With no row left in the source a refresh after a repair still empties the output.
    """
    shutil.rmtree(partials(refreshed))
    refreshed.tables["trades"].delete()
    repaired(refreshed, is_everything_dirty=True, codes=["table.not-found"])
    assert refreshed.published("hourly")
    refreshed.lake.refresh("hourly")

    assert [] == refreshed.published("hourly")


@pytest.mark.parametrize("which", ["partials", "output"])
def test_a_table_from_an_old_copy(refreshed: Site, which: str) -> None:
    """
    Old partials are not believed; an old output is made anew from partials that are as they should be.
    """
    folder = {"partials": partials, "output": output}[which](refreshed)
    replaced(folder, lambda: change_and_refresh(refreshed))
    repaired(refreshed, is_everything_dirty=which == "partials", codes=["tables.ahead"])
    if which == "output":
        refreshed.expect_true()
        assert "up-to-date" == refreshed.lake.refresh("hourly").outcome
    else:
        expect_true(refreshed, strategy="rebuild")


# -- partials ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["missing", "file", *(pytest.param(d, marks=pytest.mark.slow) for d in ("foreign", "no log"))]
)
def test_partials_that_cannot_be_used(refreshed: Site, damage: str) -> None:
    """
    They are made anew and everything is dirty; the output stays readable until it is refreshed.
    """
    old, before = partials(refreshed), refreshed.published("hourly")
    ruin(old, damage)
    code = "table.not-found" if damage == "missing" else "tables.foreign"
    report = repaired(refreshed, is_everything_dirty=True, codes=[code])

    assert partials(refreshed) != old
    assert (damage in {"foreign", "no log"}) == old.exists() == (str(old) in report.left)
    assert before == refreshed.published("hourly")
    expect_true(refreshed, strategy="rebuild")


# -- the output ----------------------------------------------------------------------------------------------------------


@spark_is_slow
@pytest.mark.parametrize(
    "damage", ["missing", "file", *(pytest.param(d, marks=pytest.mark.slow) for d in ("foreign", "no log"))]
)
def test_an_output_is_rebuilt_without_a_raw_row(refreshed: Site, damage: str) -> None:
    """
    It comes back from the partials with the source out of reach; dirty stays dirty, clean stays clean.
    """
    refreshed.lake.invalidate("hourly", "2024-03-01T05:00:00", "2024-03-01T06:00:00")
    before, state, old = refreshed.published("hourly"), state_of(refreshed), output(refreshed)
    ruin(old, damage)
    source = refreshed.tables["trades"].path
    source.rename(source.with_name("away"))
    code = "table.not-found" if damage == "missing" else "tables.foreign"
    report = repaired(refreshed, is_everything_dirty=False, codes=[code])
    source.with_name("away").rename(source)

    after = state_of(refreshed)
    assert (before, state.log, state.written_n) == (refreshed.published("hourly"), after.log, after.written_n)
    assert [("data", 2)] == [(note.kind, note.n) for note in find_notes(str(old), 0)]
    assert ([] if damage == "missing" else [str(old.with_name("output.aside"))]) == list(report.left)
    expect_true(refreshed, strategy="recompute")


def test_an_engine_is_rebuilt_from_its_results(site: Site) -> None:
    """
    Sessions come back without a raw row, and go on where they were.
    """
    table = site.table()
    table.trade(("01:10", "A", 1), ("01:15", "A", 2), ("03:00", "A", 6), ("05:00", "B", 3))
    site.lake.define(
        "hourly", "trades", engine="session_window", time="ts", keys=["sym"], session_gap="10 minutes",
        measures={"n": "count(*)", "total": "sum(price)"},
    )  # fmt: skip
    site.lake.refresh("hourly")
    before, memory = site.published("hourly"), state_of(site).engine
    shutil.rmtree(output(site))
    repaired(site, is_everything_dirty=False, codes=["table.not-found"])
    assert (before, memory) == (site.published("hourly"), state_of(site).engine)
    assert before
    table.trade(("01:20", "A", 4), ("09:00", "B", 5), ("09:00", "A", 5))
    site.expect_refresh()

    assert site.lake.verify("hourly").is_equal


def test_a_child_of_an_output_that_was_made_anew(refreshed: Site) -> None:
    """
    The aggregate that reads it finds another table: its own repair takes that one, with everything dirty.
    """
    refreshed.lake.define("daily", "hourly", time="bucket", width="1 day", measures={"total": "sum(total)"})
    refreshed.lake.refresh("daily")
    expected = refreshed.published("daily")
    shutil.rmtree(output(refreshed))
    refreshed.lake.repair("hourly")
    with pytest.raises(MaterializerError, match="dropped and recreated") as caught:
        refreshed.lake.refresh("daily")
    assert "materializer repair daily" in caught.value.hint
    report = refreshed.lake.repair("daily")
    assert ["source.replaced"] == [code for code, _ in report.mending.wrong]
    refreshed.lake.refresh("daily")

    assert expected == refreshed.published("daily")


# -- the command line ----------------------------------------------------------------------------------------------------


def test_commands_say_what_they_will_do_and_do_it_with_yes(refreshed: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Without --yes nothing is written and the status is 1; with it 0; with nothing to repair 3 where that is asked for.
    """
    where = ["--lake", str(refreshed.lake.root)]
    shutil.rmtree(partials(refreshed))
    files = refreshed.files()
    assert 1 == main(["repair", "hourly", *where])
    told = capsys.readouterr().out
    assert "its partials table is not there" in told
    assert "5 source rows" in told
    assert "nothing was written" in told
    assert 1 == main(["repair", "--all", "--json", *where])
    [form] = json.loads(capsys.readouterr().out)["repairs"]
    assert ("planned", True, 5) == (form["outcome"], form["everything_dirty"], form["source_rows"])
    assert files == refreshed.files()
    lake = refreshed.opened()
    lake.repair("hourly")
    assert not lake.has_started_spark
    assert 3 == main(["repair", "--all", "--yes", "--strict-exit", *where])
    assert "nothing to repair" in capsys.readouterr().out
    assert 0 == main(["backup", str(refreshed.root / "backup"), *where])
    assert 1 == main(["restore", str(refreshed.root / "backup"), *where])
    assert 0 == main(["restore", str(refreshed.root / "backup"), "--yes", *where])
    assert "every table agrees" in capsys.readouterr().out
    expect_true(refreshed, strategy="rebuild")
