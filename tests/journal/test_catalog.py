"""The list that lies beside the journal says what the journal says, or nothing."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Entry
from materializer.core.time.spans import NEG_INF, Span
from materializer.journal import appended, catalog
from materializer.journal.events import Captured, Described, Dropped, Event
from materializer.journal.journal import Journal
from materializer.journal.store import JournalStore
from tests.journal.definitions import SPEC
from tests.journal.histories import DEFINED, histories

CAPTURED = Captured(1, (Entry(Span(0, 10)),), NEG_INF)


def write(journal: Journal, *events: Event, aggregate: str = "a1") -> None:
    """Append events in one commit."""
    journal.append(journal.view().version, aggregate, events)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal with one aggregate, and its list."""
    journal = Journal(tmp_path)
    write(journal, replace(DEFINED, spec=SPEC | {"comment": "hourly"}))
    journal.tidy()
    return journal


def names(root: Path) -> list[str] | None:
    """Return the names that are listed."""
    rows = catalog.read(root)
    return None if rows is None else [row.name for row in rows]


@given(st.data(), histories(), st.sampled_from([0, 1_000, appended.SMALL]))
def test_what_is_listed_is_what_the_journal_says(data: st.DataObject, history: list[Event], small: int) -> None:
    """
    After any commits, with the list made at any of them and the journal folded or not, it is the same or none, whether lines are
    appended or all are written.
    """
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(appended, "SMALL", small)
        root = Path(folder)
        journal = Journal(root, snapshot_every=data.draw(st.integers(1, 4)))
        for event in history:
            write(journal, event)
            if data.draw(st.booleans()):
                journal.tidy()
            assert catalog.read(root) in (None, catalog.listed(journal.view()))
        journal.tidy()

        assert catalog.read(root) == catalog.listed(journal.view())


def test_it_outlives_what_changes_nothing_that_is_listed(journal: Journal, tmp_path: Path) -> None:
    """
    Other work goes on without making the list worthless.
    """
    write(journal, CAPTURED)

    assert names(tmp_path) == ["bars"]


@pytest.mark.parametrize(
    ("aggregate", "event"),
    [("a1", Described(SPEC | {"comment": "daily"})), ("a1", Dropped()), ("a2", replace(DEFINED, name="other"))],
    ids=["changed", "dropped", "another"],
)
def test_it_is_worthless_until_it_is_made_again(journal: Journal, tmp_path: Path, aggregate: str, event: Event) -> None:
    """
    A definition that came, went or changed is never missing from a list that is taken for true.
    """
    write(journal, event, aggregate=aggregate)
    assert catalog.read(tmp_path) is None

    journal.tidy()
    assert catalog.read(tmp_path) == catalog.listed(journal.view())


def test_many_changes_are_listed_once(journal: Journal, tmp_path: Path) -> None:
    """
    Inside the block the old list is worthless, and after it the list is the newest.
    """
    file = tmp_path / "_materializer/listing.json"
    before = file.read_bytes()
    with journal.listed_once():
        for comment in ("daily", "hourly"):
            write(journal, Described(SPEC | {"comment": comment}))
            journal.tidy()
            assert (catalog.read(tmp_path), file.read_bytes()) == (None, before)

    assert catalog.read(tmp_path) == catalog.listed(journal.view())


def test_commits_that_do_not_say_what_they_did(journal: Journal, tmp_path: Path) -> None:
    """
    A commit of somebody else may have done anything.
    """
    write(journal, CAPTURED)
    newest = max(tmp_path.glob("_materializer/journal/_delta_log/*.json"))
    newest.write_text(newest.read_text().replace("userMetadata", "otherMetadata"))

    assert catalog.read(tmp_path) is None


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"format": 0}', "half of i"])
def test_a_damaged_list_is_not_used(journal: Journal, tmp_path: Path, damage: str) -> None:
    """
    It costs time, not truth.
    """
    (tmp_path / "_materializer/listing.json").write_text(damage)

    assert catalog.read(tmp_path) is None


@pytest.mark.parametrize("damage", [b"\xff", b"a1 " + b"[" * 200_000])
def test_a_damaged_line_is_healed_by_the_next_change(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    """
    Who appends looks at the last line only, so who reads a line that is none removes the file.
    """
    monkeypatch.setattr(appended, "SMALL", 0)
    file = tmp_path / "_materializer/listing.json"
    content = file.read_bytes()
    at = content.index(b"\n", 10)
    file.write_bytes(content[: at - 5] + damage + content[at:])

    assert catalog.read(tmp_path) is None
    write(journal, Described(SPEC | {"comment": "daily"}))
    journal.tidy()
    assert catalog.read(tmp_path) == catalog.listed(journal.view())


@pytest.mark.parametrize("small", [0, appended.SMALL])
def test_lines_that_cannot_be_read_are_not_left_out(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """
    Nobody read the list since a line was damaged: a change of another aggregate makes no list of that one alone.
    """
    monkeypatch.setattr(appended, "SMALL", small)
    write(journal, replace(DEFINED, name="other"), aggregate="a2")
    journal.tidy()
    file = tmp_path / "_materializer/listing.json"
    file.write_bytes(b"\xff" + file.read_bytes()[1:])

    for comment in ("daily", "hourly"):
        write(journal, Described(SPEC | {"comment": comment}))
        journal.tidy()
        assert catalog.read(tmp_path) in (None, catalog.listed(journal.view()))
    assert ["bars", "other"] == [row.name for row in catalog.listed(journal.view())]


def test_a_list_of_another_journal_is_not_used(journal: Journal, tmp_path: Path) -> None:
    """
    A journal that was put back has the same versions and other commits.
    """
    commit = max(tmp_path.glob("_materializer/journal/_delta_log/*.json"))
    stat = commit.stat()
    os.utime(commit, ns=(stat.st_atime_ns, stat.st_mtime_ns - 1))

    assert catalog.read(tmp_path) is None


def test_a_folder_that_cannot_be_written_costs_nothing_else(journal: Journal, tmp_path: Path) -> None:
    """
    The list is a convenience.
    """
    (tmp_path / "_materializer/listing.json").unlink()
    (tmp_path / "_materializer/listing.json").mkdir()
    journal.tidy()

    assert catalog.read(tmp_path) is None
    assert list(journal.view().states) == ["a1"]


def test_what_cannot_be_read_is_not_listed(journal: Journal, tmp_path: Path) -> None:
    """
    A journal of which a part cannot be understood is asked itself, by whoever can say what is wrong.
    """
    JournalStore(tmp_path).append([replace_kind(journal)], expected_version=journal.view().version)
    journal.tidy()

    assert catalog.read(tmp_path) is None
    assert [row.name for row in catalog.listed(journal.view())] == ["bars"]


def replace_kind(journal: Journal):
    """Return a row of a kind that a newer release may write."""
    row = JournalStore(journal.root).read().rows[0]
    return replace(row, kind="from_the_future")


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    """
    Without a journal there is no list.
    """
    assert catalog.read(tmp_path) is None
    Journal(tmp_path).tidy()

    assert list(tmp_path.iterdir()) == []
