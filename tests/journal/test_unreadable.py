"""What one unreadable event costs: the aggregate that it belongs to, and no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.errors import JournalError, LeaseLostError
from materializer.journal.codec import FORMAT, Row, encode
from materializer.journal.events import (
    Checked,
    Defined,
    Delivered,
    Described,
    Dropped,
    Event,
    Invalidated,
    Repaired,
    Snapshot,
    SourceIdentity,
)
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.store import JournalStore
from tests.journal.definitions import SPEC, numbered


def defined(name: str) -> Defined:
    tables = {"partials": f"{name}-p", "output": f"{name}-o"}
    return Defined(name, SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, tables)


def journal_of(root: Path, *rows: Row, **options: int) -> Journal:
    """Return a journal that holds *rows*, each in a commit of its own."""
    store = JournalStore(root)
    for row in rows:
        store.append([row], expected_version=store.read().version)
    return Journal(root, **options)


def event(aggregate: str, what: Event) -> Row:
    return encode(aggregate, what, at="")


BAD = {
    "unknown kind": Row("a", "unheard", "", "{}"),
    "newer format": Row("a", "dropped", "", "{}", FORMAT + 1),
    "broken JSON": Row("a", "invalidated", "", '{"entries":'),
    "other JSON": Row("a", "captured", "", "[1]"),
    "an end without a plan": Row("a", "aborted", "", '{"n": 7, "reason": ""}'),
}


@pytest.mark.parametrize("damage", BAD)
@pytest.mark.parametrize("is_warm", [False, True])
def test_an_unreadable_event_breaks_its_aggregate_alone(tmp_path: Path, damage: str, is_warm: bool) -> None:
    """
    The others go on, and using the broken one is an error that names it and its repair.
    """
    journal = journal_of(tmp_path, event("a", defined("one")), event("b", defined("two")))
    if is_warm:
        journal.view()
    journal_of(tmp_path, BAD[damage], event("b", Described(numbered(1))))
    view = journal.view()

    assert ["two"] == [s.name for s in view.states.values()]
    assert numbered(1) == view.named("TWO").spec
    with pytest.raises(JournalError, match="'one' cannot be used") as caught:
        view.named("One")
    assert "materializer repair one" in caught.value.hint
    assert (damage in {"unknown kind", "newer format"}) == ("a newer release" in caught.value.hint)


def test_what_can_be_read_of_a_broken_one_is_kept_for_its_repair(tmp_path: Path) -> None:
    """
    Definition and numbers that come after the unreadable event are known too.
    """
    rows = event("a", defined("one")), BAD["broken JSON"], event("a", Described(numbered(1))), BAD["other JSON"]
    [broken] = journal_of(tmp_path, *rows).view().broken.values()

    assert broken.last is not None
    assert ("one", numbered(1)) == (broken.name, broken.last.spec)
    assert "invalidated" in broken.reason, "the first one is told"


def test_without_a_readable_definition_only_files_help(tmp_path: Path) -> None:
    """
    A snapshot that cannot be read takes the definition with it; its name may still stand there.
    """
    bad = Row("a", "snapshot", "", json.dumps({"state": {"name": "one"}}))
    view = journal_of(tmp_path, bad, event("a", Described(SPEC))).view()

    with pytest.raises(JournalError) as caught:
        view.named("one")
    assert "--definitions" in caught.value.hint
    assert view.broken["a"].last is None


@pytest.mark.parametrize("heal", ["snapshot", "dropped"])
def test_a_snapshot_heals_and_a_drop_ends(tmp_path: Path, heal: str) -> None:
    """
    What stands instead of everything before needs nothing before it.
    """
    journal = journal_of(tmp_path, event("a", defined("one")), BAD["broken JSON"])
    last = journal.view().broken["a"].last
    assert last is not None
    what = Snapshot(as_json(replace(last, cursor=7))) if heal == "snapshot" else Dropped()
    journal_of(tmp_path, event("a", what))

    for view in (journal.view(), Journal(tmp_path).view()):
        assert not view.broken
        assert ({"a": 7} if heal == "snapshot" else {}) == {i: s.cursor for i, s in view.states.items()}


def test_the_journal_is_not_folded_away_while_it_is_broken(tmp_path: Path) -> None:
    """
    A snapshot would destroy the evidence, and what a newer release could still read.
    """
    journal = journal_of(tmp_path, event("a", defined("one")), BAD["newer format"], snapshot_every=1)
    before = journal.view().version
    journal.tidy()
    assert before == journal.view().version
    journal.append(before, "a", [Dropped()])
    journal.tidy()

    assert before + 2 == Journal(tmp_path).view().version


def test_a_journal_put_back_at_the_same_version_is_read_again(tmp_path: Path) -> None:
    """
    Versions alone do not tell one journal from another.
    """
    journal = journal_of(tmp_path / "a", event("a", defined("one")))
    journal_of(tmp_path / "b", event("b", defined("two")))
    assert ["one"] == [s.name for s in journal.view().states.values()]
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "b", tmp_path / "a")

    assert ["two"] == [s.name for s in journal.view().states.values()]


# -- what a repair means -------------------------------------------------------------------------------------------------


def state_after(root: Path, *events: Event) -> AggregateState:
    return journal_of(root, *(event("a", e) for e in events)).view().named("one")


def test_a_repair_makes_everything_dirty_and_keeps_where_the_tables_hold_rows(tmp_path: Path) -> None:
    """
    The threshold stays above what the tables hold, numbers go on, and nothing is remembered of what was computed.
    """
    tables = {"partials": "p2", "output": "one-o"}
    repair = Repaired(9, "d2", tables, "lost", is_everything_dirty=True, threshold=50, cursor=4)
    state = state_after(tmp_path, defined("one"), Invalidated((Entry(Span(0, 10), 3, Cause.CHANGE),)), repair)

    assert (9, 9, "d2", 4, 50) == (state.last_n, state.written_n, state.data_version, state.cursor, state.threshold)
    assert [
        Entry(Span(NEG_INF, 50), None, Cause.REPAIRED),
        Entry(Span(50, POS_INF), None, Cause.NEW),
    ] == list(state.log.entries)
    assert ({}, NEG_INF, tables) == (state.engine, state.extent_end, state.tables)


def test_a_repair_of_tables_alone_makes_nothing_dirty(tmp_path: Path) -> None:
    """
    An output that was rebuilt is another table, with the number that it had.
    """
    before = state_after(tmp_path / "a", defined("one"))
    repair = Repaired(0, "d1", {"partials": "one-p", "output": "o2"}, "missing", is_everything_dirty=False)
    after = state_after(tmp_path / "b", defined("one"), repair)

    assert replace(before, tables=repair.tables) == after


@pytest.mark.parametrize("told", [Checked({}), Delivered(3), Described(SPEC)])
def test_what_is_told_of_a_dropped_aggregate_harms_nobody(tmp_path: Path, told: Event) -> None:
    """
    Who holds no lease learns that it is gone; what such a process wrote nevertheless is passed over.
    """
    journal = journal_of(tmp_path, event("a", defined("a")), event("b", defined("b")))
    journal.append(journal.view().version, "a", [Dropped()])
    version = journal.view().version

    with pytest.raises(LeaseLostError, match="'a' was dropped"):
        journal.append_if_living("a", "a", told)
    assert version == journal.view().version
    journal.append_if_living("b", "b", told)
    journal.append(journal.view().version, "a", [told])

    assert ({"b"}, {}) == (set(journal.view().states), journal.view().broken)
    assert ({"b"}, {}) == (set(Journal(tmp_path).view().states), Journal(tmp_path).view().broken)
