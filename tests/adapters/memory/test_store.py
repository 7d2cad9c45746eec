"""What the journal may rely on, of its store in memory as of its Delta table, on a disk and on S3."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from materializer.adapters.memory.store import MemoryStore, memory_stores
from materializer.errors import JournalConflictError, MaterializerError, StorageError
from materializer.journal.codec import Row
from materializer.journal.events import Defined, Described, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.ports import JournalSnapshot, RowStore
from materializer.journal.store import JournalStore
from tests.appending import append
from tests.journal.definitions import SPEC, numbered

DEFINED = ("a", Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {}))
Opened: TypeAlias = Callable[[], RowStore]


def row(n: int) -> Row:
    return Row("a", "done", "2024-01-01T00:00:00Z", json.dumps({"n": n}))


@pytest.fixture(params=["memory", "delta", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Open one store again and again, as one process each."""
    if request.param == "delta":
        return lambda: JournalStore(tmp_path)
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        return lambda: JournalStore(f"{bucket}/lake")
    store = MemoryStore()
    return lambda: store


class TestAStoreOfRows:
    """The contract of the port; each test runs over all stores."""

    def test_one_that_does_not_exist_is_empty(self, opened: Opened) -> None:
        """
        It has version -1, and an append needs a row.
        """
        store = opened()

        assert JournalSnapshot(-1, ()) == store.read()
        assert (0, [], []) == (store.commits_since_snapshot(), store.file_sizes(), store.leftovers())
        with pytest.raises(ValueError, match="at least one"):
            store.append([], expected_version=-1)

    def test_rows_come_back_in_the_order_of_commits(self, opened: Opened) -> None:
        """
        Also to a process that comes later; the first rows are version 1, and nothing new is the same object.
        """
        store = opened()

        assert 1 == store.append([row(2), row(1)], expected_version=-1)
        assert 2 == store.append([row(3)], expected_version=1)
        assert JournalSnapshot(2, (row(2), row(1), row(3)), 1) == store.read() == opened().read()
        assert store.read() is store.read()
        assert 1 == store.commits_since_snapshot()

    def test_the_second_of_two_is_refused(self, opened: Opened) -> None:
        """
        What was decided on another version than the newest, older or later, writes nothing.
        """
        one, two = opened(), opened()
        one.append([row(1)], expected_version=-1)
        two.append([row(2)], expected_version=1)
        for late in (-1, 1, 3):
            with pytest.raises(JournalConflictError, match="another process"):
                one.append([row(3)], expected_version=late)
        with pytest.raises(JournalConflictError):
            one.snapshot([row(3)], expected_version=1)

        assert (row(1), row(2)) == one.read().rows == two.read().rows

    def test_a_commit_is_recognised_by_its_mark(self, opened: Opened) -> None:
        """
        Also by a process that comes later; a commit without a mark, and a version that does not exist, have none.
        """
        store = opened()
        store.append([row(1)], expected_version=-1, mark="first")
        store.append([row(2)], expected_version=1)

        assert ["first", "", ""] == [opened().mark_of(version) for version in (1, 2, 3)]

    def test_a_snapshot_begins_a_generation(self, opened: Opened) -> None:
        """
        All rows are replaced, so that what was read before is no prefix, and appends count from there.
        """
        store = opened()
        store.append([row(1)], expected_version=-1)
        store.append([row(2)], expected_version=1)
        before = store.read()
        assert 3 == store.snapshot([row(9)], expected_version=2)
        store.append([row(3)], expected_version=3)

        assert JournalSnapshot(4, (row(9), row(3)), 3) == store.read()
        assert 0 == store.read().grown_from(before)
        assert 1 == store.commits_since_snapshot()

    def test_an_append_only_adds_to_what_was_read(self, opened: Opened) -> None:
        """
        So that only the new rows have to be folded.
        """
        store = opened()
        store.append([row(1)], expected_version=-1)
        before = store.read()
        store.append([row(2)], expected_version=1)

        assert 1 == store.read().grown_from(before)


class LosesAnswers:
    """A store that makes each commit and loses the first answer.

    Args:
        store: The store.
        error: What the first append raises after its commit.
        is_readable: Whether the commit can be read back.
    """

    def __init__(self, store: RowStore, error: MaterializerError, *, is_readable: bool = True) -> None:
        self._store = store
        self._errors = [error]
        self._is_readable = is_readable

    def __getattr__(self, name: str) -> Any:
        """Return what the store has."""
        return getattr(self._store, name)

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """Append, and raise the error the first time."""
        version = self._store.append(rows, expected_version=expected_version, mark=mark)
        if self._errors:
            raise self._errors.pop()
        return version

    def mark_of(self, version: int) -> str:
        """Return the mark, if it can be read."""
        if not self._is_readable:
            raise StorageError("the store does not answer")
        return self._store.mark_of(version)


@pytest.mark.parametrize("error", [JournalConflictError("version 1 exists"), StorageError("no answer")], ids=str)
def test_an_append_whose_answer_was_lost_was_made(tmp_path: Path, opened: Opened, error: MaterializerError) -> None:
    """
    Once, whether the store says that the version exists or says nothing.
    """
    store = opened()
    journal = Journal(tmp_path, stores=lambda _: LosesAnswers(store, error))
    append(journal, DEFINED)
    append(journal, ("a", Described(numbered(1))))

    assert numbered(1) == journal.view().named("bars").spec
    assert ["defined", "described"] == [r.kind for r in opened().read().rows]


def test_an_append_that_cannot_be_read_back_is_not_made_again(tmp_path: Path, opened: Opened) -> None:
    """
    It is not known whose commit it is, so nothing is decided on it.
    """
    store = opened()
    lost = LosesAnswers(store, JournalConflictError("version 1 exists"), is_readable=False)
    with pytest.raises(StorageError, match="does not answer") as raised:
        append(Journal(tmp_path, stores=lambda _: lost), DEFINED)

    assert "whether the journal has the last commit is not known" in raised.value.wrote
    assert ["defined"] == [r.kind for r in opened().read().rows]


def test_anothers_commit_is_not_taken_for_its_own(tmp_path: Path, opened: Opened) -> None:
    """
    Also if its rows are the same: each append has a mark of its own.
    """
    store = opened()
    one, two = (Journal(tmp_path, now=str, stores=lambda _: store) for _ in range(2))
    append(one, DEFINED)
    version = two.view().version
    one.append(version, "a", [Described(SPEC)])
    with pytest.raises(JournalConflictError):
        two.append(version, "a", [Described(SPEC)])

    assert 2 == len(opened().read().rows)


def test_a_journal_runs_on_stores_in_memory(tmp_path: Path) -> None:
    """
    It folds itself as the real one does, keeps what it folds away, and leaves no table on the disk.
    """
    stores = memory_stores()
    journal = Journal(tmp_path, snapshot_every=2, stores=stores)
    append(journal, DEFINED)
    for n in range(3):
        append(journal, ("a", Described(numbered(n))))
    journal.tidy()

    assert (numbered(2), 5) == (journal.view().named("bars").spec, journal.view().version)
    assert ["snapshot"] == [r.kind for r in stores("journal").read().rows]
    assert journal.view() == Journal(tmp_path, stores=stores).view()
    assert [] == [path for path in tmp_path.rglob("*") if path.suffix == ".parquet"]


def test_nothing_of_it_loads_spark_or_delta() -> None:
    """
    The adapter is imported where neither is installed.
    """
    program = (
        "import sys\n"
        "import materializer.adapters.memory.store, materializer.adapters.memory.switch_ports\n"
        "print(sorted({'pyspark', 'delta', 'deltalake', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ("[]\n", "") == (done.stdout, done.stderr)
