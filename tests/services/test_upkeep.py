"""What ``doctor`` tells of real tables of ours; no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.journal.events import SourceIdentity
from materializer.journal.fold import AggregateState
from materializer.lake.commit import append_rows, create_table, fence
from materializer.lake.table import DeltaFolder
from materializer.services.upkeep import unfit_properties, written_by_others
from tests.lake.tables import SCHEMA, rows_of

APP = "materializer/1"
STATE = AggregateState("a", "bars", {}, "d", SourceIdentity("/s", "s"), {}, {}, 0)


def note(n: int) -> dict[str, object]:
    return {"plan": f"p{n}", "n": n, "kind": "data", "source_version": 3}


@pytest.fixture
def bars(tmp_path: Path) -> str:
    """A table of ours with a row of refresh 1."""
    path = str(tmp_path / "bars")
    create_table(path, SCHEMA, name="bars")
    append_rows(path, rows_of([(0, "a", 1)]), APP, 1, note(1))
    return path


def test_a_write_of_others_is_told_as_long_as_the_log_holds_it(bars: str) -> None:
    """
    A day of refreshes each five minutes after it does not hide it; only when its commit leaves the log nobody can tell.
    """
    assert [] == list(written_by_others(STATE, "output", bars))
    DeltaTable(bars).delete("sym = 'a'")
    for n in range(2, 290):
        fence(bars, APP, n, note(n))

    [found] = written_by_others(STATE, "output", bars)
    assert ("warning", "doctor.written-by-others") == (found.level, found.code)
    assert found.message == "its output was written by others: DELETE (version 2)"
    for version, told in ((0, 1), (1, 1), (2, 0)):
        (Path(bars) / "_delta_log" / f"{version:020d}.json").unlink()
        assert told == len(list(written_by_others(STATE, "output", bars)))


def test_the_newest_writes_of_others_are_named(bars: str) -> None:
    """
    Of many the newest four; what changes no row is none.
    """
    for n in range(6):
        write_deltalake(bars, rows_of([(n, "a", 1)]), mode="append")
    DeltaTable(bars).alter.set_table_properties({"delta.checkpointInterval": "20"})

    [found] = written_by_others(STATE, "partials", bars)
    assert found.message == "its partials was written by others: WRITE (version 7, 6, 5, 4 and more)"


@pytest.mark.parametrize(
    ("key", "value", "why", "mend"),
    [
        ("deletedFileRetentionDuration", "interval 2 hours", "files after 2 h", "SET {} = 'interval 7 days'"),
        ("deletedFileRetentionDuration", "interval 0 hours", "files after 0 h", "SET {} = 'interval 7 days'"),
        ("logRetentionDuration", "interval 23 hours", "after 23 h nobody can tell", "SET {} = 'interval 7 days'"),
        ("logRetentionDuration", "interval 0 days", "after 0 h nobody can tell", "SET {} = 'interval 7 days'"),
        ("setTransactionRetentionDuration", "interval 365 days", "forgets which refresh it carries", "UNSET {}"),
        ("enableDeletionVectors", "true", "readers without Spark", "SET {} = false"),
        ("appendOnly", "true", "no bucket can be replaced", "SET {} = false"),
    ],
)
def test_a_setting_that_loses_data_is_told(bars: str, key: str, value: str, why: str, mend: str) -> None:
    """
    What somebody set is named with why it is bad and how to mend it; what a table of ours is made with is fit.
    """
    assert [] == list(unfit_properties(STATE, "output", DeltaFolder.at(bars).properties()))
    DeltaTable(bars).alter.set_table_properties({f"delta.{key}": value})

    [found] = unfit_properties(STATE, "output", DeltaFolder.at(bars).properties())
    assert ("warning", "doctor.property") == (found.level, found.code)
    assert found.message.startswith(f"its output has delta.{key} = '{value}': ")
    assert why in found.message
    verb, _, fit = mend.partition(" ")
    assert found.hint == f"ALTER TABLE … {verb} TBLPROPERTIES ({fit.format(f'delta.{key}')})"


@pytest.mark.parametrize("key", ["deletedFileRetentionDuration", "logRetentionDuration"])
def test_a_day_is_long_enough(bars: str, key: str) -> None:
    """
    Whoever keeps less than we do, but a day, is left alone.
    """
    DeltaTable(bars).alter.set_table_properties({f"delta.{key}": "interval 24 hours"})

    assert [] == list(unfit_properties(STATE, "output", DeltaFolder.at(bars).properties()))
