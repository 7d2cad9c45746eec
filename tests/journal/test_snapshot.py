"""A copy of a journal is one version of it, whatever goes on meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from materializer.errors import JournalConflictError, JournalError, UsageError
from materializer.journal.events import Defined, Described, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.snapshot import Manifest, copy_journal, manifest_of, seal
from tests.journal.definitions import numbered

DEFINED = Defined("bars", numbered(0), "d1", SourceIdentity("/s", "s"), 0, {}, {"partials": "p", "output": "o"})


def grown(root: Path, commits: int, **options: int) -> Journal:
    """Return a journal whose definition was changed so often."""
    journal = Journal(root, **options)
    journal.append(-1, "a", [DEFINED])
    for n in range(1, commits):
        journal.append(journal.view().version, "a", [Described(numbered(n))])
    return journal


def test_a_copy_is_read_like_the_journal(tmp_path: Path) -> None:
    """
    Snapshots, checkpoints and what was folded away are in it; it can be written to on its own.
    """
    journal = grown(tmp_path / "lake", 12)
    for n in range(12, 20):
        journal.append(journal.view().version, "a", [Described(numbered(n))])
        Journal(tmp_path / "lake", snapshot_every=3).tidy()
    copied = copy_journal(tmp_path / "lake", tmp_path / "copy")

    assert journal.view() == copied
    Journal(tmp_path / "copy").append(copied.version, "a", [Described(numbered(99))])
    assert numbered(19) == journal.view().named("bars").spec


def test_a_copy_while_others_write_is_one_version(tmp_path: Path) -> None:
    """
    Every copy that is taken while commits and snapshots come in holds the definition of exactly its version.
    """
    journal = grown(tmp_path / "lake", 2, snapshot_every=4)
    stop, specs = threading.Event(), {}

    def write() -> None:
        n = 2
        while not stop.is_set():
            version = journal.view().version
            try:
                journal.append(version, "a", [Described(numbered(n))])
            except JournalConflictError:
                continue
            specs[journal.view().version] = n
            n += 1
            journal.tidy()
            specs[journal.view().version] = n - 1

    writer = threading.Thread(target=write)
    writer.start()
    copies = [copy_journal(tmp_path / "lake", tmp_path / f"copy-{i}") for i in range(12)]
    stop.set()
    writer.join()

    assert len({c.version for c in copies}) > 1
    for copied in copies:
        assert str(specs.get(copied.version, 1)) == copied.named("bars").spec["comment"]


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    """
    An empty folder, a copy that was not sealed, words instead of a manifest, and one of a newer release.
    """
    with pytest.raises(JournalError, match="no journal"):
        copy_journal(tmp_path, tmp_path / "copy")
    manifest = Manifest("now", "lake", 3, {"bars": 1})
    with pytest.raises(UsageError, match="holds no backup"):
        manifest_of(tmp_path)
    seal(tmp_path, manifest)
    assert manifest == manifest_of(tmp_path)
    for text in ("words", '{"format": 1}', "[]"):
        (tmp_path / "backup.json").write_text(text)
        with pytest.raises(UsageError, match="cannot be read"):
            manifest_of(tmp_path)
    seal(tmp_path, Manifest("now", "lake", 3, {}, format=2))
    with pytest.raises(UsageError, match="newer release"):
        manifest_of(tmp_path)
