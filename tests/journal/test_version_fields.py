from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import InvalidationLog
from materializer.core.refresh.plan import RunReport
from materializer.core.time.spans import NEG_INF
from materializer.errors import JournalError
from materializer.journal.codec import Row, encode
from materializer.journal.events import (
    Aborted,
    BuildClosed,
    BuildOpened,
    BuildStarted,
    Defined,
    Described,
    Done,
    Event,
    Lease,
    LeaseTaken,
    Planned,
    PolicyRan,
    SourceIdentity,
    Switched,
    SwitchPlanned,
)
from materializer.journal.fold import fold
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.version_fields import FIELDS, fields_of, version_of
from tests.appending import append
from tests.journal.definitions import SPEC, numbered
from tests.journal.histories import applied, folded, histories, make_plan

TIMED = SPEC | {"time_type": "date"}
OLD = Defined("bars", TIMED, "d1", SourceIdentity("/s", "s"), 0, {}, {"partials": "p", "output": "o"})
REPORT = RunReport(1)


def build_of(old: AggregateState, **parts: Any) -> AggregateState:
    """Return the next version of an aggregate, right after it was started."""
    fresh = {"cursor": 7, "threshold": NEG_INF, "log": InvalidationLog.everything(), "data_version": "d2"}
    tables = {"partials": "p2", "output": "o2"}
    new = replace(old, **({**fresh, "tables": tables} | parts))
    return fold([encode("b1", BuildStarted(old.name, old.id, version_of(new), 4), at="")])["b1"]


def done(state: AggregateState, *events: Event) -> AggregateState:
    """Return the state after more events."""
    for event in events:
        state = applied(state, event)
    return state


@given(histories())
def test_a_version_is_what_changes_hands(history: list[Event]) -> None:
    """
    A version and back gives the same fields, and nothing else of the state.
    """
    state = folded(*history)

    assert {field: getattr(state, field) for field in FIELDS} == fields_of(version_of(state))


def test_a_version_of_an_older_release_is_not_frozen() -> None:
    """
    Versions that were kept before there were bounds have none.
    """
    kept = version_of(folded(OLD))
    old = {key: value for key, value in kept.items() if key not in {"frozen", "retired", "expired_rows"}}

    assert fields_of(kept) == fields_of(old)
    assert NEG_INF == fields_of(old)["frozen"]


def test_a_build_is_an_aggregate_of_its_own() -> None:
    """
    It starts with its own cursor and log, and refers to what it will replace.
    """
    build = build_of(folded(OLD))

    assert ("a1", 7, 4, 4, NEG_INF) == (build.builds, build.cursor, build.last_n, build.written_n, build.threshold)
    assert build == from_json(AggregateState, as_json(build))


def test_a_switch_takes_over_what_was_built_and_keeps_the_old_version() -> None:
    """
    Definition, cursor, log and threshold are those of the build; the id, the output and the numbers go on.
    """
    old = folded(OLD, Planned(make_plan(3), 10), Done(3, REPORT), PolicyRan("default", 5, 5))
    build = done(build_of(old, spec=TIMED | {"comment": "1"}), Planned(make_plan(5), 10), Done(5, REPORT))
    planned = applied(old, SwitchPlanned(replace(make_plan(6), taken=(), steps=()), "b1"))
    assert ("b1", 6) == (planned.switch, planned.last_n)
    after = applied(planned, Switched(6, version_of(applied(build, BuildClosed())), 1, REPORT))

    assert ("a1", "d2", 7, 6, 6) == (after.id, after.data_version, after.cursor, after.last_n, after.written_n)
    assert (build.log, build.threshold) == (after.log, after.threshold)
    assert {"partials": "p2", "output": "o"} == after.tables
    assert ("", None, {"default": (5, 5)}) == (after.switch, after.plan, after.policy_runs)
    [kept] = after.previous
    assert ("d1", 6, old.log.as_json()) == (kept["data_version"], kept["written_n"], kept["log"])
    assert [("done", 3), ("switched", 6)] == [(e.outcome, e.n) for e in after.ended]
    assert after == from_json(AggregateState, as_json(after))


def test_no_more_versions_are_kept_than_asked() -> None:
    """
    The oldest go first; with none kept there is no way back.
    """
    state = folded(OLD)
    for n, keep in ((1, 2), (2, 2), (3, 2), (4, 0)):
        build = build_of(state, data_version=f"v{n}", spec=TIMED | {"comment": str(n)})
        plan = replace(make_plan(n), taken=(), steps=())
        state = done(state, SwitchPlanned(plan, "b1"), Switched(n, version_of(build), keep, REPORT))
        assert {1: ["d1"], 2: ["v1", "d1"], 3: ["v2", "v1"], 4: []}[n] == [v["data_version"] for v in state.previous]


def test_a_version_that_comes_back_is_no_version_before() -> None:
    """
    The one that it replaces is; so both can be had back in turn, and the others stay.
    """
    state = folded(OLD)
    for n, (x, kept) in enumerate([(1, ["d1"]), (2, ["v1", "d1"]), (1, ["v2", "d1"]), (2, ["v3", "d1"])], start=1):
        build = build_of(state, data_version=f"v{n}", spec=TIMED | {"comment": str(x)})
        plan = replace(make_plan(n), taken=(), steps=())
        state = done(state, SwitchPlanned(plan, "b1"), Switched(n, version_of(build), 2, REPORT))
        assert kept == [v["data_version"] for v in state.previous]


def test_a_switch_that_is_undone_changes_nothing_but_the_numbers() -> None:
    """
    The old version goes on; the number is spent.
    """
    old = folded(OLD)
    after = done(old, SwitchPlanned(replace(make_plan(2), taken=(), steps=()), "b1"), Aborted(2, "died"))

    assert version_of(replace(old, written_n=2)) == version_of(after)
    assert ("", None, 2) == (after.switch, after.plan, after.last_n)


def test_a_clock_of_another_kind_forgets_when_policies_ran() -> None:
    """
    What counted as now for dates means nothing to integers.
    """
    old = folded(OLD, PolicyRan("default", 5, 5))
    build = build_of(old, spec=SPEC | {"time_type": "bigint"})
    plan = replace(make_plan(2), taken=(), steps=())

    assert {} == done(old, SwitchPlanned(plan, "b1"), Switched(2, version_of(build), 1, REPORT)).policy_runs


def test_closing_takes_the_lease_away() -> None:
    """
    Whoever held a build that is published has lost it; undone, it is free.
    """
    held = applied(build_of(folded(OLD)), LeaseTaken(Lease("other", "", 1, 1, 9.0)))
    closed = applied(held, BuildClosed())

    assert (True, None) == (closed.is_closed, closed.lease)
    assert not applied(closed, BuildOpened()).is_closed


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([BuildClosed(), Planned(make_plan(5), 10)], "plans refresh 5"),
        ([Planned(make_plan(5), 10), BuildClosed()], "closes"),
        ([Switched(5, {}, 1, REPORT)], "ends refresh 5"),
        ([BuildStarted("bars", "a1", {}, 0)], "twice"),
    ],
)
def test_what_a_switch_never_writes_is_refused(events: list[Event], found: str) -> None:
    """
    A plan of a closed build, a closed plan, an end without a beginning.
    """
    build = version_of(build_of(folded(OLD)))
    rows: list[Row] = [encode("b1", e, at="") for e in (BuildStarted("bars", "a1", build, 4), *events)]

    with pytest.raises(JournalError, match=found):
        fold(rows)


def test_builds_are_no_aggregates_of_the_lake(tmp_path: Any) -> None:
    """
    Names find what is published; the build is found by its id, or from its aggregate; a snapshot keeps both.
    """
    journal = Journal(tmp_path, snapshot_every=1)
    journal.append(-1, "a1", [OLD])
    build = version_of(replace(folded(OLD), data_version="d2"))
    append(journal, ("b1", BuildStarted("bars", "a1", build, 0)), ("a1", Described(numbered(1))))
    for _ in range(2):
        view = journal.view()
        assert ["a1"] == list(view.states)
        assert {"a1", "b1"} == set(view.all)
        assert "a1" == view.named("BARS").id
        assert view.named("b1") == view.build_of(view.named("bars"))
        assert numbered(1) == view.named("bars").spec
        journal.tidy()
