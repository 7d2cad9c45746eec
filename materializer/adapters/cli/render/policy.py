"""``policy list``: refresh policies, their windows, their schedules, and when they are due."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result, window_form
from materializer.adapters.cli.words import count, labelled, span
from materializer.core.policy.policies import describe_offset, render_now, shown_now
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import render

if TYPE_CHECKING:
    from materializer.services.schedule.policies import PolicyState


class PolicyListResult(Result, frozen=True):
    """Refresh policies, as they stand."""

    items: tuple[PolicyState, ...]
    is_broken: bool = False

    def form(self) -> dict[str, Any]:
        return {"policies": [policy_form(p) for p in self.items]}

    def lines(self, width: int) -> Iterator[str]:
        if not self.items and not self.is_broken:
            yield "no policies are defined; 'materializer policy add NAME' adds one"
        for p in self.items:
            yield f"{p.aggregate}: policy {p.policy.name}"
            runs = "" if p.policy.max_runs is None else f", at most {count(p.policy.max_runs, 'run')} each time"
            catch = ", takes dirt of no policy along" if p.policy.catch_dirt else ""
            pairs = [
                ("covers", f"from {_offsets(p)}"),
                ("window", "no whole bucket now" if p.window is None else span(p.window, p.grid.shown)),
                ("schedule", p.policy.schedule or "none; by hand, or when data arrives"),
                ("due", _due(p)),
                ("last run", "never" if p.last_now is None else f"at {shown_now(p.last_now, p.grid)}"),
                ("does", f"{p.policy.order} first{runs}{catch}"),
            ]
            yield from labelled(pairs, width=width)


def policy_form(p: PolicyState) -> dict[str, Any]:
    """Return one policy."""
    policy = p.policy
    return {
        "aggregate": p.aggregate,
        "policy": policy.name,
        "start_offset": None if policy.start_offset is None else describe_offset(policy.start_offset),
        "end_offset": None if policy.end_offset is None else describe_offset(policy.end_offset),
        "schedule": policy.schedule,
        "max_runs": policy.max_runs,
        "order": policy.order,
        "catch_dirt": policy.catch_dirt,
        "window": window_form(p.window, p.grid.shown),
        "last_now": None if p.last_now is None else render_now(p.last_now, p.grid),
        "next_due": None if p.next_due is None else render(p.next_due, TimeType.TIMESTAMP),
        "due": p.is_due,
    }


def policy_text(p: PolicyState) -> str:
    """Return one policy in short."""
    due = _due(p)
    return f"{p.policy.name}, {_offsets(p)}" + (f", due {due}" if due else ", no schedule")


def _offsets(p: PolicyState) -> str:
    return f"{describe_offset(p.policy.start_offset)} to {describe_offset(p.policy.end_offset)} ago"


def _due(p: PolicyState) -> str:
    if p.is_due:
        return "now"
    if p.policy.schedule is None:
        return ""
    return "never" if p.next_due is None else render(p.next_due, TimeType.TIMESTAMP)
