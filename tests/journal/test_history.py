"""Refreshes that the journal has folded away are looked up in its history table, whole."""

from __future__ import annotations

from pathlib import Path

from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Lane, Plan, Recompute, RunReport, TableBase
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import Aborted, Audited, Defined, Done, Event, Planned, SourceIdentity
from materializer.journal.fold import MAX_ENDED
from materializer.journal.journal import Journal
from materializer.services.report.status import Looker
from tests.journal.definitions import SPEC

DEFINED = Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {"partials": "p", "output": "o"})
SPAN = Span(0, 10)


def refresh(n: int, end: Event) -> list[Event]:
    """Return the events of a refresh that ran for a policy and had a gate."""
    base, steps = TableBase("p", 0), (Recompute(SpanSet.of(SPAN), "asked"),)
    plan = Plan(f"plan-{n}", n, 1, SPAN, (Entry(SPAN),), steps, Lane.DRIVER, base, base)
    return [Planned(plan, 10, {"policy": {"name": "old"}}), Audited(n, (), {"published_anyway": {"reason": "so"}}), end]


def test_nothing_is_lost_of_what_was_folded_away(tmp_path: Path) -> None:
    """
    However old a refresh is, its history has outcome, policy and verdict.
    """
    journal = Journal(tmp_path, snapshot_every=1)
    ends: list[Event] = [Aborted(1, "the disk is full"), *(Done(n, RunReport(1)) for n in range(2, MAX_ENDED + 3))]
    for events in ([DEFINED], [e for n, end in enumerate(ends, 1) for e in refresh(n, end)]):
        journal.append(journal.view().version, "a1", events)
    recent = Looker(tmp_path, journal).history("bars", None)
    journal.tidy()
    found = Looker(tmp_path, journal).history("bars", None)

    assert MAX_ENDED == len(recent)
    assert recent == found[:MAX_ENDED]
    assert [(2, "done", ""), (1, "aborted", "the disk is full")] == [(e.n, e.outcome, e.reason) for e in found[-2:]]
    assert {("old", "so")} == {(e.policy, e.verdict["published_anyway"]["reason"]) for e in found}
