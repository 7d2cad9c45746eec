"""Refresh policies as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from materializer.adapters.cli.words import count, duration, labelled, number, span, spans
from materializer.core.policy.policies import describe_offset, render_now
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import render

if TYPE_CHECKING:
    from materializer.services.report.freshness import Freshness
    from materializer.services.report.status import Status
    from materializer.services.schedule.policies import PolicyState


def policy_lines(items: tuple[PolicyState, ...], width: int) -> Iterator[str]:
    """Yield each policy with its window, schedule and when it is due."""
    if not items:
        yield "no policies are defined; 'materializer policy add NAME' adds one"
    for p in items:
        yield f"{p.aggregate}: policy {p.policy.name}"
        window = "no whole bucket now" if p.window is None else span(p.window, p.grid.time_type)
        pairs = [
            ("covers", f"from {describe_offset(p.policy.start_offset)} to {describe_offset(p.policy.end_offset)} ago"),
            ("window", window),
            ("schedule", p.policy.schedule or "none; by hand, or when data arrives"),
            ("due", _due(p)),
            ("last run", "never" if p.last_now is None else f"at {render_now(p.last_now, p.grid)}"),
            ("does", _does(p)),
        ]
        yield from labelled(pairs, width=width)


def status_pairs(s: Status) -> list[tuple[str, str]]:
    """Return what a status says of policies and of the promise."""
    policies = "\n".join(_short(p) for p in s.policies)
    outside = f"{spans(s.outside, s.time_type)}: outside every policy" if s.outside else ""
    return [("policies", policies), ("not covered", outside), ("promise", _promise(s.freshness))]


def _short(p: PolicyState) -> str:
    due = _due(p)
    return (
        f"{p.policy.name}, {describe_offset(p.policy.start_offset)} to {describe_offset(p.policy.end_offset)} ago"
        + (f", due {due}" if due else ", no schedule")
    )


def _due(p: PolicyState) -> str:
    if p.is_due:
        return "now"
    if p.policy.schedule is None:
        return ""
    return "never" if p.next_due is None else render(p.next_due, TimeType.TIMESTAMP)


def _does(p: PolicyState) -> str:
    runs = "" if p.policy.max_runs is None else f", at most {count(p.policy.max_runs, 'run')} each time"
    return f"{p.policy.order} first{runs}" + (", takes dirt of no policy along" if p.policy.catch_dirt else "")


def _promise(freshness: Freshness | None) -> str:
    if freshness is None:
        return ""
    stale = freshness.staleness
    if stale == 0:
        found = "nothing is missing"
    else:
        found = (
            f"it is {'not known' if stale is None else number(stale) if isinstance(stale, int) else duration(stale)}"
        )
    kept = {True: "kept", False: "broken", None: "nobody can tell"}[freshness.is_kept]
    return f"{kept}: at most {describe_offset(freshness.promise)} stale, and {found}"
