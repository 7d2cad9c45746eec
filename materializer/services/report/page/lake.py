"""The first page of a report: the whole lake at a glance, what is wrong first."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from materializer.core.policy.policies import describe_offset
from materializer.core.time.spans import NEG_INF, POS_INF
from materializer.journal.view import View
from materializer.services.report.page.lineage import graph
from materializer.services.report.page.values import instant, moment
from materializer.services.report.status import Status

RANKS: Final = (
    "source-unreadable",
    "output-unreadable",
    "unfinished",
    "withheld",
    "promise broken",
    "check failed",
    "conflict",
    "dirty",
    "behind",
    "empty",
    "fresh",
)
"""What is shown first: what is wrong, then what is to be done."""
RECENT: Final = 20
"""Refreshes of which the price of an aggregate is the median."""


def lake_page(root: str, view: View, statuses: Sequence[Status], at: float) -> dict[str, Any]:
    """Return what the first page shows.

    Args:
        root: The root of the lake.
        view: The journal.
        statuses: What ``status`` says of all aggregates.
        at: When it was made, milliseconds since 1970.
    """
    rows = sorted((_row(view, s) for s in statuses), key=lambda r: (RANKS.index(r["rank"]), r["name"].lower()))
    broken = [{"name": b.name or b.id, "problem": b.reason} for b in view.broken.values()]
    return {
        "root": root,
        "at": at,
        "journal": view.version,
        "aggregates": rows,
        "broken": sorted(broken, key=lambda b: b["name"].lower()),
        "lineage": graph(root, view.states, statuses),
    }


def _row(view: View, s: Status) -> dict[str, Any]:
    ended, last, fresh, kind = view.named(s.name).ended, s.last, s.freshness, s.time_type
    seconds = [e.report.seconds for e in ended[-RECENT:] if e.outcome == "done"]
    rank, why = _rank(s)
    return {
        "name": s.name,
        "state": s.state,
        "rank": rank,
        "why": why,
        "grid": s.grid,
        "source": s.source,
        "integer": kind.is_integer,
        "rows": s.rows,
        "dirty": len(s.dirty),
        "until": instant(s.threshold, kind) if s.threshold not in {NEG_INF, POS_INF} else None,
        "behind": None if s.newest is None else s.newest - s.cursor,
        "promise": None if fresh is None else describe_offset(fresh.promise),
        "staleness": None if fresh is None else fresh.staleness,
        "promise_met": None if fresh is None else fresh.is_kept,
        "price": round(median(seconds), 3) if seconds else None,
        "predicted": None if last is None else last.report.predicted or None,
        "last": None
        if last is None
        else {
            "n": last.n,
            "at": moment(last.at),
            "outcome": last.outcome,
            "seconds": last.report.seconds,
            "strategy": last.report.strategy,
        },
        "quality": _quality(s),
        "due": [p.policy.name for p in s.policies if p.is_due],
    }


def _rank(s: Status) -> tuple[str, str]:
    """Return what is the matter with an aggregate, one of :data:`RANKS`, and why."""
    withheld, conflicts = s.held, s.stuck
    gate = f"the gate withholds {len(withheld)} span" + "s"[: len(withheld) != 1]
    failed = 0 if s.last_check is None else len(s.last_check["failed"])
    cases = (
        (s.state in {"source-unreadable", "output-unreadable"}, s.state, s.problem),
        (s.state == "unfinished", "unfinished", s.holder or f"refresh {s.open_refresh} has not ended"),
        (bool(withheld), "withheld", gate),
        (s.freshness is not None and s.freshness.is_kept is False, "promise broken", "it is older than it promises"),
        (failed > 0, "check failed", f"{failed} expectation{'s'[: failed != 1]} of the last check not met"),
        (bool(conflicts), "conflict", conflicts[0][1] if conflicts else ""),
        (s.state == "dirty", "dirty", f"{len(s.dirty)} dirty span{'s'[: len(s.dirty) != 1]}"),
        (s.state == "behind", "behind", _why_behind(s)),
        (s.state == "empty", "empty", "nothing was materialised yet"),
    )
    return next(((rank, why) for holds, rank, why in cases if holds), ("fresh", s.problem or s.table_problem))


def _why_behind(s: Status) -> str:
    own = f"version {s.newest} of the source is not captured" if s.newest != s.cursor else ""
    above = f"it reads {s.waits_for.name}, which is {s.waits_for.state}" if s.waits_for else ""
    return "; ".join(part for part in (own, above) if part)


def _quality(s: Status) -> dict[str, Any] | None:
    """Return what gate, check and canaries said last; None where nothing was asked."""
    verdict = s.last.verdict if s.last else {}
    suites = [verdict[of] for of in ("output", "source") if of in verdict]
    check = [] if s.last_check is None else [s.last_check]
    if not suites and not check and s.canaries is None:
        return None
    return {
        "failed": sum(len(suite["failed"]) for suite in [*suites, *check]),
        "met": sum(int(suite.get("passed") or 0) for suite in suites),
        "clean": 0 if s.canaries is None else s.canaries.clean,
        "at_most": None if s.canaries is None else s.canaries.at_most,
    }
