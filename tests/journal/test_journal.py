"""The journal cleans up after itself: folded, its files removed, its history whole."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.core.language.define import define
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Lane, Plan, Recompute, RunReport, TableBase
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import Span, SpanSet
from materializer.journal import store as stores
from materializer.journal.events import Defined, Delivered, Done, Planned, SourceIdentity
from materializer.journal.journal import WORTH_FOLDING, Journal
from materializer.journal.ports import JournalSnapshot
from materializer.journal.state import spec_of
from materializer.journal.store import JournalStore
from materializer.lake.write import vacuum
from tests.journal.definitions import SPEC

DEFINED = Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {"partials": "p", "output": "o"})
BASE = TableBase("p", 0)


def write(journal: Journal, *events) -> None:
    for event in events:
        journal.append(journal.view().version, "a1", [event])


def refresh(journal: Journal, n: int) -> None:
    steps = (Recompute(SpanSet.of(Span(0, 10)), ""),)
    plan = Plan(f"plan-{n}", n, 1, Span(0, 10), (Entry(Span(0, 10)),), steps, Lane.DRIVER, BASE, BASE)
    write(journal, Planned(plan, 10), Done(n, RunReport(1)))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal with enough commits to be worth folding, which nothing has folded yet."""
    made = Journal(tmp_path, snapshot_every=1_000)
    write(made, DEFINED)
    for n in range(1, WORTH_FOLDING):
        refresh(made, n)
    return made


@pytest.fixture
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no version needs may go at once."""
    monkeypatch.setattr(vacuum, "retention_of", lambda *_: 0.0)


def files(journal: Journal) -> dict[str, int]:
    paths = {name: Path(JournalStore(journal.root, name=name).path) for name in ("journal", "history")}
    return {name: len(list(path.glob("*.parquet"))) for name, path in paths.items()}


def die_before_the_journal(checkpoint: str) -> None:
    if checkpoint == "fold_journal":
        raise KeyboardInterrupt


def test_cleaning_leaves_one_file_and_the_same_state(journal, no_retention, tmp_path):
    """
    All that the journal says stays, the history of refreshes too; a second time nothing is worth doing.
    """
    state = journal.view().states
    before = journal.gathered()[0]
    time.sleep(0.01)
    journal.clean()

    assert before.is_worth_folding
    assert {"journal": 1, "history": 1} == files(journal)
    assert state == journal.view().states == Journal(tmp_path).view().states
    assert list(range(1, WORTH_FOLDING)) == [r["n"] for r in journal.history("a1") if r["kind"] == "done"]
    assert not any(g.is_worth_folding or g.leftovers for g in journal.gathered())


def test_what_was_folded_stays_a_day(journal):
    """
    Files of the rows before stay for who reads them now.
    """
    journal.clean()

    assert files(journal)["journal"] > WORTH_FOLDING
    assert [0, 0] == [g.leftovers for g in journal.gathered()]


def test_a_process_that_slept_through_it_reads_on(journal, no_retention, tmp_path):
    """
    A process whose last look lies before commits that were folded and removed since loads the journal anew.
    """
    sleeper = Journal(tmp_path)
    sleeper.view()
    write(journal, Delivered(1))
    journal.clean()
    write(journal, Delivered(2))

    assert journal.view() == sleeper.view()


def test_the_history_is_folded_too(journal, no_retention, tmp_path):
    """
    A history of many commits becomes one file in which each refresh stands once, also when a fold died half-way.
    """
    for n in range(WORTH_FOLDING, 2 * WORTH_FOLDING + 2):
        refresh(journal, n)
        with pytest.raises(KeyboardInterrupt):
            Journal(tmp_path, snapshot_every=1, on_checkpoint=die_before_the_journal).tidy()
        Journal(tmp_path, snapshot_every=1).tidy()
    journal.clean()

    assert 1 == journal.gathered()[1].files
    assert list(range(1, 2 * WORTH_FOLDING + 2)) == [r["n"] for r in journal.history("a1") if r["kind"] == "done"]


def test_threads_read_the_same_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A lease is renewed by a thread of its own: also when one reads in the middle of the other, no event counts twice.
    """
    journal, writer = (Journal(tmp_path, snapshot_every=1_000) for _ in range(2))
    write(writer, DEFINED)
    journal.view()
    refresh(writer, 1)
    grown_from = stores.JournalSnapshot.grown_from
    others: list[threading.Thread] = []

    def interrupted(self: stores.JournalSnapshot, seen: stores.JournalSnapshot) -> int:
        if not others:
            others.append(threading.Thread(target=journal.view))
            others[0].start()
            others[0].join(0.2)
        return grown_from(self, seen)

    monkeypatch.setattr(stores.JournalSnapshot, "grown_from", interrupted)
    found = journal.view()
    others[0].join()

    assert {} == found.broken
    assert writer.view().states == found.states == journal.view().states


def test_folding_reads_no_history(tmp_path: Path) -> None:
    """
    It is only added to, so a process that stays does not hold every refresh that there ever was, and a new one does not read them.
    """

    class Read(JournalStore):
        """Counts how often its rows are read."""

        times = 0

        def read(self) -> JournalSnapshot:
            """Read, and count."""
            self.times += 1
            return super().read()

    made = {name: Read(tmp_path, name) for name in ("journal", "history")}
    journal = Journal(tmp_path, snapshot_every=5, stores=made.__getitem__)
    write(journal, DEFINED)
    for n in range(1, 20):
        refresh(journal, n)
        journal.tidy()
    before, other = made["history"].times, Journal(tmp_path, snapshot_every=1)
    refresh(other, 20)
    other.tidy()
    refresh(journal, 21)
    Journal(tmp_path, snapshot_every=1).tidy()

    assert before <= 1, "before there is a table"
    assert list(range(1, 22)) == sorted({row["n"] for row in Journal(tmp_path).history("a1")})


def test_many_refreshes_are_folded_once(tmp_path: Path) -> None:
    """
    After the block in which they are listed once; a block of very many is folded in between.
    """
    journal = Journal(tmp_path, snapshot_every=5)
    write(journal, DEFINED)
    folds: list[str] = []
    journal = Journal(tmp_path, snapshot_every=5, on_checkpoint=folds.append)
    with journal.listed_once():
        for n in range(1, 9):
            refresh(journal, n)
            journal.tidy()
        assert [] == folds
    assert ["fold_history", "fold_journal"] == folds
    with journal.listed_once():
        for n in range(9, 25):
            refresh(journal, n)
            journal.tidy()
        assert 4 == len(folds)


def test_what_another_process_folds_is_not_remembered_twice(tmp_path: Path) -> None:
    """
    A reader that loads all aggregates anew after each fold holds as many definitions as there are, however often.
    """
    writer, reader = Journal(tmp_path, snapshot_every=1), Journal(tmp_path)
    spec = define("bars", "/s", time="ts", width="1 hour", measures={"n": "count(*)"})
    write(writer, replace(DEFINED, spec=spec.as_json()))
    held = []
    for n in range(1, 30):
        refresh(writer, n)
        writer.tidy()
        spec_of(reader.view().named("bars"))
        if n in (4, 29):  # each looks at all objects of the process
            gc.collect()
            held.append(sum(isinstance(each, AggregateSpec) and each is not spec for each in gc.get_objects()))

    first, last = held
    assert last <= first
