from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry, InvalidationLog
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import JournalError
from materializer.journal.codec import encode
from materializer.journal.events import (
    Aborted,
    Audited,
    Captured,
    Checked,
    Delivered,
    Described,
    Done,
    Dropped,
    Event,
    Frozen,
    Invalidated,
    Lease,
    LeaseReleased,
    LeaseRenewed,
    LeaseTaken,
    Maintained,
    Planned,
    PolicyRan,
    Repaired,
    Retired,
    Snapshot,
)
from materializer.journal.fold import MAX_CHANGES, MAX_ENDED, apply, fold
from materializer.journal.state import AggregateState, by_name
from tests.fresh import for_new_data
from tests.journal.definitions import SPEC
from tests.journal.histories import DEFINED, REPORT, applied, folded, histories, make_plan, rows_of
from tests.model.strategies import JSON, UNIVERSE


@given(histories(), st.integers(0, 12))
def test_a_snapshot_stands_for_what_came_before(history: list[Event], at: int) -> None:
    """
    Folding a snapshot and the rest gives the state that folding everything gives.
    """
    rows = rows_of(*history)
    head, tail = rows[: 1 + at % len(rows)], rows[1 + at % len(rows) :]
    snapshot = encode("a1", Snapshot(as_json(fold(head)["a1"])), at="now")

    assert fold(rows) == fold([snapshot, *tail]) == fold(tail, fold(head))


test_a_snapshot_stands_for_what_came_before_for_new_data = for_new_data(test_a_snapshot_stands_for_what_came_before)


def test_a_snapshot_of_an_older_release_is_read() -> None:
    """
    A snapshot that was written before policies and verdicts were remembered has none.
    """
    data = as_json(folded(DEFINED))
    for later in ("policy_runs", "verdict", "policy"):
        del data[later]

    assert folded(DEFINED) == from_json(AggregateState, data)


def test_the_newest_run_of_a_policy_counts() -> None:
    """
    A run of an old window moves no schedule back; a changed definition starts over.
    """
    ran = [PolicyRan("default", 5, 7), PolicyRan("old", 1, 1), PolicyRan("default", 4, 6)]

    assert folded(DEFINED, *ran).policy_runs == {"default": (5, 7), "old": (1, 1)}
    assert folded(DEFINED, *ran, DEFINED).policy_runs == {}
    assert folded(DEFINED, *ran, PolicyRan("default", 4, 6, is_by_clock=True)).policy_runs["default"] == (4, 6)


@given(histories())
def test_a_state_survives_json(history: list[Event]) -> None:
    """
    Every field of the state is in its JSON form.
    """
    state = folded(*history)

    assert state == from_json(AggregateState, as_json(state))


@given(histories())
def test_dirt_leaves_only_by_a_refresh_that_is_done(history: list[Event]) -> None:
    """
    Instant by instant: what is captured or declared is in the log or in the open plan until that plan is done.
    """
    dirty, taken, held, before = set(UNIVERSE), set(), set(), NEG_INF
    state = None
    for event in history:
        state = apply(state, "a1", event)
        match event:
            case Captured(entries=entries) | Invalidated(entries=entries):
                dirty |= instants(SpanSet.union(e.span for e in entries))
            case Planned(plan=plan):
                taken, held = instants(SpanSet.union(e.span for e in plan.taken)), set()
                dirty -= taken
            case Audited(held=pairs):
                held = instants(SpanSet.union(Span(a, b) for a, b in pairs))
            case Done():
                dirty, taken = dirty | (taken & held), set()
            case Aborted():
                dirty, taken = dirty | taken, set()
            case Frozen(settled=settled):
                dirty -= instants(settled)
            case Retired(bound=bound) if bound > before:
                assert state
                dirty = {i for i in dirty if i >= bound} | instants(state.log.retired)
            case Retired(bound=bound) if bound < before:
                dirty |= instants(SpanSet.of(Span(bound, before)))
            case _:
                pass
        assert state
        before = state.retired
        assert dirty == instants(state.log.spans)


test_dirt_leaves_only_by_a_refresh_that_is_done_for_new_data = for_new_data(
    test_dirt_leaves_only_by_a_refresh_that_is_done
)


@given(histories())
def test_the_tail_is_dirty_and_numbers_rise(history: list[Event]) -> None:
    """
    [threshold, +∞) is in the log or the open plan, threshold and numbers never go back.
    """
    state = folded(DEFINED)
    for event in history[1:]:
        before, state = state, applied(state, event)
        planned = SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()
        assert (state.log.spans | planned).covers(Span(state.threshold, POS_INF))
        assert before.threshold <= state.threshold
        assert before.last_n <= state.last_n
        assert before.written_n <= state.written_n <= state.last_n


@given(histories(), histories(), st.randoms(use_true_random=False))
def test_aggregates_do_not_meet(one: list[Event], other: list[Event], rng: Any) -> None:
    """
    Rows of two aggregates in any mixture fold to what each folds to alone.
    """
    piles = [rows_of(*one, aggregate="a1"), rows_of(*other, aggregate="a2")]
    mixed = []
    while any(piles):
        mixed.append(rng.choice([pile for pile in piles if pile]).pop(0))

    assert fold(mixed) == {**fold(rows_of(*one, aggregate="a1")), **fold(rows_of(*other, aggregate="a2"))}


def instants(found: SpanSet) -> set[int]:
    """Return the instants of the small universe that are in *found*."""
    return {i for i in UNIVERSE if i in found}


PLANNED = Planned(make_plan(3), 10)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([Done(1, REPORT)], "not defined there"),
        ([Maintained({})], "not defined there"),
        ([DEFINED, Dropped(), LeaseReleased("x")], "not defined there"),
        ([DEFINED, Done(1, REPORT)], "ends refresh 1"),
        ([DEFINED, Aborted(1, "")], "ends refresh 1"),
        ([DEFINED, Audited(1, (), {})], "ends refresh 1"),
        ([DEFINED, PLANNED, Done(2, REPORT)], "the open one is 3"),
        ([DEFINED, PLANNED, Done(3, REPORT), Done(3, REPORT)], "the open one is None"),
        ([DEFINED, PLANNED, Planned(make_plan(4), 10)], "plans refresh 4"),
        ([DEFINED, PLANNED, Aborted(3, ""), Planned(make_plan(3), 10)], "plans refresh 3"),
        ([DEFINED, PLANNED, Aborted(3, ""), Planned(make_plan(2), 10)], "plans refresh 2"),
        ([DEFINED, PLANNED, DEFINED], "while refresh 3 is open"),
        ([DEFINED, PLANNED, Audited(3, ((9, 4),), {})], "makes no sense"),
        ([Snapshot({})], "makes no sense"),
        ([Snapshot({**as_json(folded(DEFINED)), "log": 3})], "makes no sense"),
    ],
)
def test_what_the_protocol_never_writes_is_refused(events: list[Event], found: str) -> None:
    """
    A second open plan, an end without a plan, a number used again: noticed where the journal is read.
    """
    with pytest.raises(JournalError, match=found):
        fold(rows_of(*events))


def test_why_the_source_is_another_one_is_remembered() -> None:
    """
    By what made everything dirty for that, and not by what is declared dirty afterwards, or was taken by a refresh that was given up.
    """
    dirt = (Entry(Span(0, 10), None, Cause.SOURCE),)
    wider = Invalidated(dirt, "column 'x' became wider", is_of_source=True)

    for state in (folded(DEFINED, wider), folded(DEFINED, wider, Invalidated(dirt, "unfinished"))):
        assert "column 'x' became wider" == state.mark.reason
    assert wider == from_json(Invalidated, as_json(wider))
    assert "is_of_source" not in as_json(replace(wider, is_of_source=False))


@pytest.mark.parametrize("event", [Described(SPEC), Delivered(3), Checked({})])
def test_what_is_told_of_the_dead_is_of_no_consequence(event: Event) -> None:
    """
    A check or an output handler holds no lease, so another process may drop what it works on.
    """
    assert {} == fold(rows_of(DEFINED, Dropped(), event))
    assert {} == fold(rows_of(event))


@given(histories(), st.data())
def test_a_damaged_snapshot_is_a_journal_error(history: list[Event], data: st.DataObject) -> None:
    """
    With one field of a snapshot replaced, folding gives a state or a journal error, nothing else.
    """
    payload = as_json(folded(*history))
    payload[data.draw(st.sampled_from(sorted(payload)))] = data.draw(JSON)
    try:
        found: Any = fold([encode("a1", Snapshot(payload), at="")])["a1"]
    except JournalError as error:
        found = error

    assert isinstance(found, AggregateState) or "snapshot" in found.message


def test_an_aborted_plan_gives_back_what_it_took() -> None:
    """
    The spans come back with their `after`, and a change that was captured meanwhile keeps the older one.
    """
    clean = folded(DEFINED, Planned(make_plan(1), 10), Done(1, REPORT))
    entry = Entry(Span(0, 10), after=0, cause=Cause.CHANGE, is_insert_only=True)
    dirty = applied(clean, Captured(1, (entry,)))
    state = applied(dirty, Planned(make_plan(2, entry), 10))
    state = applied(state, Captured(2, (replace(entry, after=1),)))

    assert dirty.log == applied(state, Aborted(2, "disk full")).log
    assert (2, "aborted", "disk full") == next(
        (e.n, e.outcome, e.reason) for e in reversed(applied(state, Aborted(2, "disk full")).ended)
    )


def test_held_spans_stay_dirty() -> None:
    """
    What a gate holds back returns to the log when the plan is done, the rest is clean.
    """
    plan = make_plan(1, Entry(Span(0, 20)))
    state = folded(DEFINED, Planned(plan, 20), Audited(1, ((10, 20),), {}), Done(1, REPORT))

    assert (SpanSet.of(Span(0, 20)) & state.log.spans) == SpanSet.of(Span(10, 20))
    assert not state.held


def test_the_end_of_a_refresh_names_its_policy() -> None:
    """
    A refresh knows the policy that it was planned for, however it ends; the next one may have none.
    """
    policy = {"policy": {"name": "old", "now": 7, "window": [0, 10]}}
    events = [Planned(make_plan(1), 10, policy), Done(1, REPORT), Planned(make_plan(2), 10, policy), Aborted(2, "died")]
    ended = folded(DEFINED, *events, Planned(make_plan(3), 10), Done(3, REPORT)).ended

    assert ["old", "old", ""] == [e.policy for e in ended]


def test_a_new_definition_starts_again() -> None:
    """
    A changed definition is dirty everywhere and keeps counting.
    """
    state = folded(DEFINED, PLANNED, Done(3, REPORT), replace(DEFINED, data_version="d2", cursor=7))

    assert (InvalidationLog.everything(), NEG_INF, 7, 3) == (state.log, state.threshold, state.cursor, state.last_n)


def test_only_the_holder_renews_and_releases() -> None:
    """
    A lease ends or lasts longer by its owner's word alone.
    """
    lease = Lease("me", "host", 1, 2, 3.0)
    held = folded(DEFINED, LeaseTaken(lease))

    assert held == applied(applied(held, LeaseReleased("other")), LeaseRenewed("other", 9.0))
    assert replace(lease, until=9.0) == applied(held, LeaseRenewed("me", 9.0)).lease
    assert applied(held, LeaseReleased("me")).lease is None


def test_a_dropped_aggregate_is_gone_and_its_name_is_free() -> None:
    """
    Nothing is left of it; another of its name may follow, under another id.
    """
    rows = [*rows_of(DEFINED, Dropped()), *rows_of(replace(DEFINED, name="BARS"), aggregate="a2")]
    states = fold(rows)

    assert ["a2"] == list(states)
    assert states["a2"] == by_name(states, "bars")
    assert by_name(states, "other") is None


def test_the_state_keeps_the_last_ended_refreshes() -> None:
    """
    Older ones leave, newest last.
    """
    ends = [e for n in range(1, MAX_ENDED + 3) for e in (Planned(make_plan(n), 10), Done(n, REPORT))]

    assert list(range(3, MAX_ENDED + 3)) == [e.n for e in folded(DEFINED, *ends).ended]


def test_clean_canaries_add_up_until_one_differs() -> None:
    """
    What was sampled clean adds up over refreshes; a difference starts again and is remembered; a new definition forgets.
    """

    def looked(n: int, clean: int, *differed: list[int]) -> list[Event]:
        found = Audited(n, (), {"sampled": {"clean": clean, "touched": 2, "differed": list(differed)}})
        return [Planned(make_plan(n), 10), found, Aborted(n, "refused") if differed else Done(n, REPORT)]

    clean = [*looked(1, 6), *looked(2, 5), Planned(make_plan(3), 10), Audited(3, (), {}), Done(3, REPORT)]
    wrong = [*looked(4, 2, [0, 10]), *looked(5, 4)]

    assert {"clean": 11, "touched": 4, "n": 2, "at": "t5"} == folded(DEFINED, *clean).canaries
    assert {"clean": 4, "touched": 2, "n": 5, "at": "t14", "differed_n": 4, "differed": [[0, 10]]} == folded(
        DEFINED, *clean, *wrong
    ).canaries
    assert {} == folded(DEFINED, *clean, *wrong, replace(DEFINED, data_version="d2")).canaries


INSERTED = Entry(Span(0, 10), 3, Cause.CHANGE, is_insert_only=True)
CONFLICT = Entry(Span(10, 20), None, Cause.CONFLICT)


def everywhere(*entries: Entry) -> AggregateState:
    """Return a state that is clean but for *entries* and the tail above 40."""
    state = folded(DEFINED, Planned(make_plan(1, Entry(Span(NEG_INF, 40))), 40), Done(1, REPORT))
    return applied(state, Captured(5, entries, 40))


def test_below_the_frozen_bound_only_what_merges_is_planned() -> None:
    """
    Dirt below is kept: inserts may be planned, a conflict is stuck; an entry over the bound is parted.
    """
    over = Entry(Span(20, 30), None, Cause.FILES)
    state = applied(everywhere(INSERTED, CONFLICT, over), Frozen(24, "asked"))

    assert (INSERTED.span, Span(24, 30), Span(40, POS_INF)) == tuple(e.span for e in state.computable.entries)
    assert (CONFLICT.span, Span(20, 24)) == tuple(e.span for e in state.uncomputable)
    assert SpanSet.of(Span(0, 30), Span(40, POS_INF)) == state.log.spans
    thawed = applied(state, Frozen(NEG_INF, "thaw"))
    assert ((), thawed.log) == (thawed.uncomputable, thawed.computable)


def test_freezing_settles_what_it_is_told() -> None:
    """
    Spans in which nothing can be are clean from then on; the counter of rows that went starts anew with a thaw.
    """
    state = folded(DEFINED, Frozen(20, "asked", SpanSet.of(Span(NEG_INF, 20))), Captured(1, (), expired=7))

    assert (SpanSet.of(Span(20, POS_INF)), 7) == (state.log.spans, state.expired_rows)
    assert 0 == applied(state, Frozen(NEG_INF, "thaw")).expired_rows


def test_what_is_retired_is_dirty_once() -> None:
    """
    Whatever was dirty below the bound is forgotten, and all of it is to be taken out; again when the bound moves on before
    that was done; coming back, it is as dirty as by hand.
    """
    state = applied(everywhere(INSERTED, CONFLICT), Retired(20))
    assert [(Span(NEG_INF, 20), Cause.RETIRED)] == [(e.span, e.cause) for e in state.log.entries[:-1]]
    state = applied(state, Retired(30))
    assert SpanSet.of(Span(NEG_INF, 30)) == state.log.retired
    assert state == applied(state, Retired(30))
    back = applied(state, Retired(10))
    assert [(Span(NEG_INF, 10), Cause.RETIRED), (Span(10, 30), Cause.INVALIDATED)] == [
        (e.span, e.cause) for e in back.log.entries[:-1]
    ]
    assert ANY_ROWS == back.log.entries[1].gone
    frozen = applied(back, Frozen(20, "asked"))
    assert (back.log.entries[0], back.log.entries[1].span.end) == (frozen.computable.entries[0], 30)


def test_what_is_dirty_of_an_engine_stays_below_what_its_output_keeps() -> None:
    """
    Later results are built on kept ones: nothing is discarded or forgotten, also after a repair, and a log that is too long is
    made coarser there too. What is wanted again is dirty.
    """
    engine = replace(everywhere(INSERTED, CONFLICT), spec=SPEC | {"engine": "session_window"})
    state = applied(engine, Retired(20))
    assert (engine.log, 20) == (state.log, state.retired)

    entries = tuple(Entry(Span(i, i + 1), 3, Cause.CHANGE, keys=frozenset({(i,)})) for i in range(21, 40, 2))
    crowded = applied(replace(state, retired=30, log=InvalidationLog()), Captured(6, entries, 40, max_entries=3))
    assert 3 == len(crowded.log.entries)
    [first, _] = applied(
        state, Repaired(9, "d2", state.tables, "lost", is_everything_dirty=True, threshold=40)
    ).log.entries
    assert (Span(NEG_INF, 40), Cause.REPAIRED) == (first.span, first.cause)
    back = applied(replace(state, log=InvalidationLog()), Retired(10))
    assert [(Span(10, 20), Cause.INVALIDATED)] == [(e.span, e.cause) for e in back.log.entries]


def test_below_both_bounds_neighbours_are_not_joined() -> None:
    """
    A log that is too long is made coarser above the bounds only.
    """
    entries = tuple(Entry(Span(i, i + 1), i, Cause.CHANGE, is_insert_only=True) for i in range(0, 38, 2))
    state = applied(everywhere(), Frozen(20, "asked"))
    state = applied(state, Captured(6, entries, 40, max_entries=3))

    below, above = state.log.split(20)
    assert entries[:10] == below.entries
    assert len(above.entries) < 9


def test_an_old_snapshot_has_no_bounds() -> None:
    """
    Snapshots of earlier versions say nothing of bounds: nothing is frozen, everything is kept.
    """
    data = as_json(folded(DEFINED))
    for name in ("frozen", "retired", "expired_rows"):
        del data[name]

    assert folded(DEFINED) == from_json(AggregateState, data)


def test_changes_since_an_open_plan_was_clean_stay_counted() -> None:
    """
    While a refresh is open its entries are not in the log; an abort gives them back, and with them what has to be counted.
    """
    old = Entry(Span(0, 10), 3, Cause.CHANGE)
    counts = [Captured(v, (), counts=({"version": v, "rung": "feed", "rows": 10 * v},)) for v in (5, 7)]
    clean = replace(everywhere(), log=InvalidationLog(), cursor=3, changes=())
    state = applied(applied(clean, Captured(4, (old,), counts=({"version": 4, "rung": "feed", "rows": 1},))), counts[0])
    state = applied(state, Planned(make_plan(2, old), 40))
    state = applied(applied(state, counts[1]), Aborted(2, "the disk is full"))

    assert ((old,), 121) == (state.log.entries, state.changed_rows(3))
    assert (120, 70, 0) == tuple(state.changed_rows(v) for v in (4, 5, 7))
    assert () == applied(replace(clean, changes=state.changes), Captured(8, (), counts=counts[1].counts)).changes


def test_changes_that_could_not_be_counted_are_not_known() -> None:
    """
    One capture without a count makes every sum over it unknown, also when old captures are put together.
    """
    old = Entry(Span(0, 10), 0, Cause.CHANGE)
    state = replace(everywhere(old), cursor=0, changes=())
    state = applied(state, Captured(1, (), counts=({"version": 1, "rung": "files", "rows": None},)))
    for version in range(2, MAX_CHANGES + 3):
        state = applied(state, Captured(version, (), counts=({"version": version, "rung": "feed", "rows": 1},)))

    assert MAX_CHANGES == len(state.changes)
    assert (None, MAX_CHANGES - 1) == (state.changed_rows(0), state.changed_rows(3))


def test_what_was_delivered_and_what_the_tables_carry_never_goes_back() -> None:
    """
    A handler that reports late undoes nothing, and a refresh that wrote nothing carries no number into the tables.
    """
    state = folded(DEFINED, Delivered(7), Delivered(5))
    assert 7 == state.delivered

    written = applied(applied(state, Planned(make_plan(1, Entry(Span(0, 10))), 10)), Done(1, REPORT))
    empty = replace(make_plan(2), steps=())
    assert (1, 1) == (written.written_n, applied(applied(written, Planned(empty, 10)), Done(2, REPORT)).written_n)


def test_nothing_is_computed_below_either_bound() -> None:
    """
    The floor is the later of what is frozen and what is kept no longer; a new definition forgets both.
    """
    state = applied(applied(everywhere(), Frozen(10, "asked")), Retired(20))
    assert 20 == state.floor
    assert 30 == applied(state, Frozen(30, "asked")).floor
    assert NEG_INF == applied(state, replace(DEFINED, data_version="d2")).floor
