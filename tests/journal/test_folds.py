"""Aggregates that are folded when they are asked for are what they are when all are folded at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.errors import JournalError
from materializer.journal import catalog
from materializer.journal.codec import FORMAT, Row, decode, encode
from materializer.journal.events import Defined, Dropped, Invalidated, Snapshot
from materializer.journal.folds import Folds
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState, by_name
from materializer.journal.store import JournalStore
from materializer.journal.unreadable import fold_each
from materializer.journal.view import View
from tests.counting import calls_to
from tests.journal.histories import DEFINED, folded, histories, rows_of

STRANGE = [
    Row("", "unheard", "", "{}"),
    Row("", "dropped", "", "{}", FORMAT + 1),
    Row("", "unreadable", "", "the file is damaged"),
    Row("", "invalidated", "", '{"entries":'),
    Row("", "defined", "", '{"name":"bars",'),
    Row("", "defined", "", '{"name":"bars","name":"other"}'),
    Row("", "snapshot", "", '{"state":{"id":"a1","name":"bars",'),
    Row("", "dropped", "", "{}"),
]


@st.composite
def journals(draw: st.DrawFn) -> list[Row]:
    """Rows of some aggregates, of which some are builds, snapshots, dropped or damaged."""
    ways: list[list[Row]] = []
    for n in range(draw(st.integers(1, 3))):
        key, name = f"a{n}", draw(st.sampled_from(["bars", "Bars", "other"]))
        first, *events = draw(histories())
        assert isinstance(first, Defined)
        known = rows_of(replace(first, name=name), *events, aggregate=key)
        if draw(st.booleans()):
            other = draw(st.sampled_from(["bars", "renamed"]))
            state = replace(folded(first), id=key, name=other, builds=draw(st.sampled_from(["", "a0"])))
            known[draw(st.integers(0, 1)) :] = [encode(key, Snapshot(as_json(state)), at="t0"), *known[2:3]]
        for _ in range(draw(st.integers(0, 2))):
            known.insert(draw(st.integers(0, len(known))), replace(draw(st.sampled_from(STRANGE)), aggregate=key))
        ways.append(known)
    rows = []
    while ways:
        way = draw(st.sampled_from(ways))
        rows.append(way.pop(0))
        ways = [left for left in ways if left]
    return rows


@given(st.data(), journals())
def test_what_is_folded_late_is_what_is_folded_at_once(data: st.DataObject, rows: Sequence[Row]) -> None:
    """
    Whatever was asked before, after any of the events.
    """
    folds, done = Folds({}), 0
    while done < len(rows):
        upto = data.draw(st.integers(done + 1, len(rows)))
        folds, done = folds.after(rows[done:upto]), upto
        asked = data.draw(st.sets(st.sampled_from(["all", "broken", "names", "builds"])))
        _compare(folds, rows[:upto], asked)

    _compare(folds, rows, {"names", "builds", "broken", "all"})


def _compare(folds: Folds, rows: Sequence[Row], asked: set[str]) -> None:
    states, broken = fold_each(rows, {}, {})
    views = {key: state for key, state in states.items() if not state.builds}
    for name in ("bars", "OTHER", "renamed") if "names" in asked else ():
        assert _by_name(views.values(), name) == folds.find(name)
        named = [b for b in broken.values() if name.lower() in (b.name.lower(), b.id)]
        assert (folds.broken_named(name) is not None) == bool(named)
    if "builds" in asked:
        beside = {state.builds: state for state in states.values() if state.builds}
        assert [beside.get(key) for key in states] == [folds.build_of(state) for state in states.values()]
    if "broken" in asked:
        assert broken == folds.broken
    if "all" in asked:
        assert (list(states.items()), list(views.items())) == (list(folds.items()), list(folds.aggregates.items()))


def _by_name(states: Iterable[AggregateState], name: str) -> AggregateState | None:
    """Return the last aggregate of a name, which is the one that is found."""
    return next((s for s in reversed(list(states)) if s.name.lower() == name.lower()), None)


def crowd(count: int) -> list[Row]:
    """Return the events of so many aggregates."""
    return [encode(f"a{n}", replace(DEFINED, name=f"of_{n}"), at="") for n in range(count)]


def test_of_a_crowd_those_are_decoded_that_are_asked_for() -> None:
    """
    By name, by id and by what their events mention.
    """
    rows = [*crowd(1_000), *rows_of(Invalidated((), "by hand"), aggregate="a7")]
    view = View(3, Folds({}).after(rows))

    assert 2 == calls_to(decode, lambda: view.named("OF_7"))
    assert 0 == calls_to(decode, lambda: (view.named("a7"), view.build_of(view.named("of_7"))))
    assert 1 == calls_to(decode, lambda: by_name(view.states, "of_8"))
    assert 1 == calls_to(decode, lambda: [s.name for s in view.states.mentioning('"of_9"')])
    assert 0 == calls_to(decode, lambda: View(4, view.all.after(rows_of(Invalidated((), ""), aggregate="a5"))))


def test_a_first_event_that_gives_two_names_is_refused() -> None:
    """
    The aggregate cannot be used, by neither name.
    """
    text = json.dumps(as_json(replace(DEFINED, name="other")), separators=(",", ":"))
    view = View(3, Folds({}).after([Row("a1", "defined", "", '{"name":"bars",' + text[1:])]))

    with pytest.raises(JournalError, match="two names"):
        view.named("bars")
    assert {} == dict(view.states)


def test_a_fold_of_the_journal_decodes_what_changed_since_the_last(tmp_path: Path) -> None:
    """
    Snapshots of the others go over as they are, and so does the list of aggregates.
    """
    journal = Journal(tmp_path, snapshot_every=1)
    JournalStore(tmp_path).append(crowd(200), expected_version=-1)
    journal.append(journal.view().version, "a8", [Invalidated((), "by hand")])
    journal.tidy()
    JournalStore(tmp_path).append(
        rows_of(Invalidated((), "by hand"), aggregate="a7"), expected_version=journal.view().version
    )
    again = Journal(tmp_path, snapshot_every=1)

    assert 2 == calls_to(decode, again.tidy)
    assert {"snapshot"} == {row.kind for row in JournalStore(tmp_path).read().rows}
    assert 200 == len(catalog.read(tmp_path) or ())
    assert list(journal.view().states.items()) == list(Journal(tmp_path).view().states.items())


def test_a_process_that_folds_the_journal_goes_on_with_what_it_knows(tmp_path: Path) -> None:
    """
    It decodes no snapshot that it wrote, and its next fold hands them on.
    """
    journal = Journal(tmp_path, snapshot_every=1)
    JournalStore(tmp_path).append(crowd(50), expected_version=-1)
    for _ in range(2):
        journal.append(journal.view().version, "a7", [Invalidated((), "by hand")])
        before = dict(journal.view().states)

        assert calls_to(decode, journal.tidy) <= 50
        assert {"snapshot"} == {row.kind for row in JournalStore(tmp_path).read().rows}
        assert 0 == calls_to(decode, lambda: list(journal.view().states.values()))
        assert before == dict(journal.view().states) == dict(Journal(tmp_path).view().states)

    written = {row.aggregate: row for row in JournalStore(tmp_path).read().rows}
    journal.append(journal.view().version, "a9", [Invalidated((), "by hand")])
    journal.tidy()
    assert {"a9"} == {row.aggregate for row in JournalStore(tmp_path).read().rows if row != written[row.aggregate]}


def test_a_fold_leaves_a_journal_with_an_unreadable_event_as_it_is(tmp_path: Path) -> None:
    """
    The event is evidence.
    """
    rows = [*crowd(2), Row("a1", "unheard", "", "{}"), encode("a0", Dropped(), at="")]
    JournalStore(tmp_path).append(rows, expected_version=-1)
    warnings = Journal(tmp_path, snapshot_every=1).tidy()

    assert () == warnings
    assert tuple(rows) == JournalStore(tmp_path).read().rows
