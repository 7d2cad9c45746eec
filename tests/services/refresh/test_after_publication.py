"""What fails after a command has published is a warning, or says what is published; it is no failure of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from materializer.adapters.memory.store import MemoryStore
from materializer.errors import StorageError
from materializer.journal.codec import Row
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000
FULL = "tidying the journal failed: the disk is full (storage.failed)"
DUE = "'refresh.start_offset' = '1 day', 'refresh.schedule' = '@hourly'"


class Failing(MemoryStore):
    """A journal that wants to be folded always, and fails where it is told to."""

    fails_to_fold = True
    fails_to_append = False

    def commits_since_snapshot(self) -> int:
        """Return many."""
        return 1_000

    def snapshot(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """Fail."""
        if self.fails_to_fold:
            raise StorageError("the disk is full")
        return super().snapshot(rows, expected_version=expected_version)

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """Fail, or append."""
        if self.fails_to_append:
            raise StorageError("the disk is full")
        return super().append(rows, expected_version=expected_version, mark=mark)


@pytest.fixture
def store() -> Failing:
    """The store of the journal of the lake."""
    return Failing()


@pytest.fixture
def lake(tmp_path: Path, store: Failing) -> LocalLake:
    """A lake with an aggregate over one row."""
    stores = {"journal": store, "history": MemoryStore()}
    lake = LocalLake(tmp_path, stores=stores.__getitem__)
    lake.add((0, 1))
    lake.apply(view("hourly", each("1 hour")).replace("\nAS", f"\nTBLPROPERTIES ({DUE})\nAS", 1))
    return lake


def test_a_refresh_that_published_does_not_fail_with_the_fold(lake: LocalLake) -> None:
    """
    Its report has a warning, its rows are published, and nothing is left to do.
    """
    report = lake.opened.refresh("hourly")

    assert 1 == len(report.runs)
    assert (FULL,) == report.warnings
    assert [1] == [row["v"] for row in lake.rows_of("hourly")]
    assert () == lake.opened.refresh("hourly").runs


def test_other_commands_log_that_the_fold_failed(lake: LocalLake, caplog: pytest.LogCaptureFixture) -> None:
    """
    What is applied, run by its policy, published or dropped is so, and the log says what failed.
    """
    lake.opened.refresh("hourly")
    lake.apply(view("hourly", each("1 day")))
    commands = {
        "build": lambda: lake.opened.build("hourly"),
        "apply": lambda: lake.apply(view("other", each("1 hour"))),
        "drop": lambda: lake.opened.drop("other"),
    }
    for name, command in commands.items():
        caplog.clear()
        command()
        assert FULL in caplog.messages, name
    assert ["hourly"] == lake.names


@pytest.mark.parametrize("rows", [0, 1], ids=["nothing to do", "a row to publish"])
def test_a_policy_that_cannot_be_recorded_did_its_work(lake: LocalLake, store: Failing, rows: int) -> None:
    """
    Nothing was to do on a disk that takes nothing, or what was to do is published: a warning says that it may be due again.
    """
    now = "1970-01-01T06:00:00Z"
    lake.opened.run_policy("hourly", now="1970-01-01T01:00:00Z")
    for _ in range(rows):
        lake.add((HOUR, 1))
    assert [("hourly", "default")] == lake.opened.due(now=now)
    if rows:
        lake.at["end"] = lambda: setattr(store, "fails_to_append", True)
    else:
        store.fails_to_append = True

    [done] = lake.opened.run_due(now=now)

    assert rows == len(done.report.runs)
    assert "that policy 'default' ran could not be recorded" in done.report.warnings[-1]
    assert [("hourly", "default")] == lake.opened.due(now=now)


def test_what_fails_after_a_run_says_that_it_stays(lake: LocalLake, store: Failing) -> None:
    """
    The journal cannot be read any more when the refresh is reported: the error does not say that nothing was written.
    """

    def broken() -> None:
        store.read = lambda: (_ for _ in ()).throw(StorageError("the disk is gone"))  # type: ignore[method-assign]

    lake.at["end"] = broken

    with pytest.raises(StorageError) as caught:
        lake.opened.refresh("hourly")
    assert caught.value.wrote.startswith("a run of it ended and stays; then ")
