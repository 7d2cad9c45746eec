"""Results as JSON values with stable keys; `docs/json.md` is their reference and a test compares the two.

Instants are ISO text of the aggregate's time type, integers for integer time, null for an end that does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, assert_never

from materializer.adapters.cli.render import json_retention
from materializer.adapters.cli.render.json_mending import backup_form, repair_form, restore_form
from materializer.adapters.cli.render.results import (
    Abandoned,
    Applied,
    BackedUp,
    Built,
    ChangedRows,
    CheckedRows,
    Dropped,
    Engines,
    Examined,
    Expired,
    FreshCost,
    History,
    Invalidated,
    Maintained,
    Planned,
    PolicyList,
    Published,
    Refreshed,
    Repaired,
    Restored,
    Result,
    SetUp,
    Shown,
    Statuses,
    Thawed,
    Verified,
    Versions,
)
from materializer.adapters.cli.render.text import cell
from materializer.adapters.cli.render.text_plan import why
from materializer.core.engines.guides import COMMON
from materializer.core.policy.policies import describe_offset, render_now
from materializer.core.quality.canaries import CONFIDENCE, Canaries
from materializer.core.refresh.lateness import Advice
from materializer.core.refresh.plan import Estimate, Plan, Settle, Step, strategy_of
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

if TYPE_CHECKING:
    from materializer.core.engines.guides import Guide
    from materializer.errors import Problem
    from materializer.journal.state import Ended
    from materializer.services.maintenance.maintain import MaintainReport, TablePlan
    from materializer.services.quality.check import CheckReport
    from materializer.services.quality.verify import VerifyReport
    from materializer.services.refresh.preview import Preview
    from materializer.services.refresh.reports import RefreshReport, RunDone
    from materializer.services.report.freshness import Freshness
    from materializer.services.report.source_lateness import SourceLateness
    from materializer.services.report.status import Status
    from materializer.services.schedule.policies import PolicyState
    from materializer.services.versions.build import BuildReport
    from materializer.services.versions.versions import SwitchReport


def document(result: Result) -> tuple[str, dict[str, Any]]:
    """Return (list, form): the form, and the name of the list it is an item of, or ``""`` when it stands alone."""
    match result:
        case Applied(changes=changes, warnings=warnings, is_dry_run=is_dry_run):
            return "", {
                "dry_run": is_dry_run,
                "changes": [asdict(c) for c in changes],
                "warnings": [_problem(w) for w in warnings],
                "builds": [_built(b) for b in result.builds],
            }
        case Built(report=report):
            return "", _built(report)
        case Published(report=report):
            return "", _switched(report)
        case Abandoned(name=name):
            return "", {"name": name, "abandoned": True}
        case Planned(preview=preview):
            return "", _preview(preview)
        case Refreshed(report=report, time_type=time_type, policy=policy, now=now):
            return "refreshes", _refreshed(report, time_type) | {"policy": policy, "now": now}
        case PolicyList(items=policies):
            return "", {"policies": [_policy(p) for p in policies]}
        case Statuses(items=items, sources=sources):
            return "", {"aggregates": [_status(s) for s in items], "sources": [_source(s) for s in sources]}
        case History(name=name, time_type=time_type, refreshes=refreshes):
            return "", {"name": name, "refreshes": [_ended(e, time_type) for e in refreshes]}
        case Shown(name=name, columns=columns, rows=rows, fresh=fresh):
            found = [[_value(v) for v in row] for row in rows]
            cost = None if fresh is None else _fresh(fresh)
            return "", {"name": name, "columns": list(columns), "rows": found, "fresh": cost}
        case ChangedRows(name=name, columns=columns, rows=rows, total=total):
            found = [[_value(v) for v in row] for row in rows]
            return "", {"name": name, "columns": list(columns), "rows": found, "total": total}
        case Verified(report=report, time_type=time_type):
            return "verified", _verified(report, time_type)
        case CheckedRows(report=report, time_type=time_type):
            return "checked", _checked(report, time_type)
        case Invalidated(name=name, time_type=time_type, span=span, reason=reason):
            return "", {"name": name, "span": _span(span, time_type), "reason": reason}
        case Expired(expiry=expiry):
            return "", json_retention.expiry(expiry)
        case Thawed(thaw=thaw):
            return "", json_retention.thaw(thaw)
        case Maintained(report=report):
            return "maintained", _maintained(report)
        case Dropped(name=name, readers=readers):
            return "", {"name": name, "dropped": True, "readers": list(readers)}
        case Examined(findings=findings):
            return "", {"findings": [asdict(f) for f in findings]}
        case Repaired(report=repair):
            return "repairs", repair_form(repair)
        case BackedUp(report=backup):
            return "", backup_form(backup)
        case Restored(report=restored):
            return "", restore_form(restored)
        case SetUp(prepared=prepared):
            archive = None if prepared.archive is None else str(prepared.archive)
            return "", {"setup": asdict(prepared) | {"archive": archive, "jars": list(prepared.jars)}}
        case Versions(versions=versions):
            return "", {"versions": versions}
        case Engines(guides=guides):
            return "", {"engines": [_guide(g) for g in guides]}
        case _:
            assert_never(result)


def _checked(r: CheckReport, kind: TimeType) -> dict[str, Any]:
    return {
        "name": r.name,
        "window": None if r.window is None else _span(r.window, kind),
        "version": r.version,
        "suite": r.verdict.suite,
        "publishable": r.verdict.is_publishable,
        "findings": [_plain(f.as_json()) for f in r.verdict.findings],
        "rows": [{"expectation": row.type, "values": _plain(row.values)} for row in r.rows],
        "docs": r.docs or None,
        "seconds": round(r.seconds, 3),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return _value(value)


def _instant(value: int, kind: TimeType) -> str | int | None:
    if value in {NEG_INF, POS_INF}:
        return None
    return value if kind.is_integer else render(value, kind)


def _span(span: Span, kind: TimeType) -> dict[str, Any]:
    return {"start": _instant(span.start, kind), "end": _instant(span.end, kind)}


def _spans(spans: SpanSet, kind: TimeType) -> list[dict[str, Any]]:
    return [_span(s, kind) for s in spans]


def _problem(problem: Problem) -> dict[str, Any]:
    return {f: getattr(problem, f) for f in ("code", "message", "hint", "file", "line", "column")}


def _estimate(estimate: Estimate) -> dict[str, int]:
    return {"rows": estimate.rows, "bytes": estimate.bytes, "files": estimate.files}


def _step(step: Step, kind: TimeType) -> dict[str, Any]:
    rejected = () if isinstance(step, Settle) else step.rejected
    return {
        "strategy": strategy_of(step),
        "reason": why(step),
        "spans": _spans(step.spans, kind),
        "reads": _estimate(Estimate() if isinstance(step, Settle) else step.estimate),
        "rejected": [{"strategy": r.strategy, "reason": r.reason} for r in rejected],
    }


def _plan(plan: Plan, kind: TimeType) -> dict[str, Any]:
    return {
        "refresh": plan.n,
        "source_version": plan.source_version,
        "window": _span(plan.window, kind),
        "strategy": plan.strategy,
        "lane": plan.lane.value,
        "reads": _estimate(plan.estimate),
        "windows": plan.windows,
        "steps": [_step(s, kind) for s in plan.steps],
    }


def _preview(p: Preview) -> dict[str, Any]:
    kind = p.time_type
    captured = None
    if p.captured is not None:
        dirty = SpanSet.union(e.span for e in p.captured.entries)
        captured = {"version": p.captured.version, "dirty": _spans(dirty, kind), "null_times": p.captured.null_times}
    return {
        "name": p.name,
        "window": None if p.window is None else _span(p.window, kind),
        "source_version": p.source_version,
        "captured": captured,
        "dirty": _spans(p.dirty, kind),
        "outside": _spans(p.outside, kind),
        "plan": None if p.plan is None else _plan(p.plan, kind),
        "runs": p.runs,
        "unfinished": p.unfinished,
        **json_retention.below(p.frozen, p.stuck, kind),
    }


_REPORT = (
    "source_version",
    "strategy",
    "lane",
    "buckets",
    "rows_read",
    "partials_written",
    "rows_written",
    "jobs",
    "commits",
    "files_rewritten",
    "seconds",
)


def _run(run: RunDone, kind: TimeType) -> dict[str, Any]:
    report = {k: getattr(run.report, k) for k in _REPORT}
    steps = [_step(s, kind) for s in run.plan.steps]
    return {
        "refresh": run.plan.n,
        "window": _span(run.window, kind),
        **report,
        "steps": steps,
        "runs_left": run.runs_left,
        "gate": _gate(run.verdict, kind) if run.verdict else None,
    }


def _refreshed(r: RefreshReport, kind: TimeType) -> dict[str, Any]:
    return {
        "name": r.name,
        "outcome": r.outcome,
        "window": None if r.window is None else _span(r.window, kind),
        "source_version": r.source_version,
        "runs": [_run(run, kind) for run in r.runs],
        "recovered": [{"refresh": n, "outcome": outcome} for n, outcome in r.recovered],
        "left": _spans(r.left, kind),
        "null_times": r.null_times,
        "seconds": round(r.seconds, 3),
        "maintained": [_maintained(m) for m in r.maintained],
        "warnings": list(r.warnings),
        **json_retention.below(r.frozen, r.stuck, kind),
        **json_retention.let_go(r.delete, r.readers),
    }


def _ended(e: Ended, kind: TimeType) -> dict[str, Any]:
    report = {k: getattr(e.report, k) for k in _REPORT}
    return {
        "refresh": e.n,
        "at": e.at,
        "outcome": e.outcome,
        "policy": e.policy or None,
        "window": _span(e.window, kind),
        **report,
        "reason": e.reason,
        "gate": _gate(e.verdict, kind) if e.verdict else None,
    }


def _last_check(check: Mapping[str, Any], kind: TimeType) -> dict[str, Any]:
    window = check["window"]
    return {**_plain(check), "window": None if window is None else _span(Span.from_json(window), kind)}


def _gate(verdict: Mapping[str, Any], kind: TimeType) -> dict[str, Any]:
    anyway, sampled = verdict.get("published_anyway"), verdict.get("sampled")
    if sampled:
        clean, touched = sampled["clean"], sampled.get("touched", 0)
        sampled = {"clean": clean, "touched": touched, "differed": _spans(SpanSet.from_json(sampled["differed"]), kind)}
    return {
        "published_anyway": anyway["reason"] if anyway else None,
        "held": _spans(SpanSet.from_json(verdict.get("held", [])), kind),
        "sampled": sampled,
        "suites": [{"of": of, **_plain(verdict[of])} for of in ("output", "source", "canaries") if of in verdict],
    }


def _canaries(c: Canaries, kind: TimeType) -> dict[str, Any]:
    return {**asdict(c), "differed": _spans(c.differed, kind), "at_most": c.at_most, "confidence": CONFIDENCE}


def _status(s: Status) -> dict[str, Any]:
    kind = s.time_type
    return {
        "name": s.name,
        "state": s.state,
        "problem": s.problem,
        "source": s.source,
        "grid": s.grid,
        "time_type": kind.value,
        "cursor": s.cursor,
        "newest": s.newest,
        "threshold": _instant(s.threshold, kind),
        "newest_bucket_end": _instant(s.newest_bucket_end, kind),
        "dirty": _spans(s.dirty, kind),
        "log_entries": s.entries,
        "changed_keys": s.changed_keys,
        "null_times": s.null_times,
        "rows": s.rows,
        "open_refresh": s.open_refresh,
        "holder": s.holder,
        "last": None if s.last is None else _ended(s.last, kind),
        "held": _spans(s.held, kind),
        "last_check": None if s.last_check is None else _last_check(s.last_check, kind),
        "canaries": None if s.canaries is None else _canaries(s.canaries, kind),
        "lateness": None if s.advice is None else _lateness(s, s.advice),
        "maintained": _plain(s.maintained) if s.maintained else None,
        "policies": [_policy(p) for p in s.policies],
        "outside_policies": None if s.outside is None else _spans(s.outside, kind),
        **_freshness(s.freshness),
        **json_retention.status(s),
        **_versions(s),
    }


def _built(b: BuildReport) -> dict[str, Any]:
    return {
        "name": b.name,
        "runs": [_run(run, b.time_type) for run in b.runs],
        "missing": _spans(b.lack.spans, b.time_type),
        "why_not": b.why_not,
        "switch": None if b.switched is None else _switched(b.switched),
        "seconds": round(b.seconds, 3),
    }


def _switched(s: SwitchReport) -> dict[str, Any]:
    return asdict(s) | {"seconds": round(s.seconds, 3)}


def _versions(s: Status) -> dict[str, Any]:
    n = s.next
    return {
        "next": None
        if n is None
        else asdict(n) | {"missing": _spans(n.missing, n.time_type), "time_type": n.time_type.value},
        "previous": [asdict(p) for p in s.previous],
    }


def _fresh(cost: FreshCost) -> dict[str, Any]:
    read, measured = cost.estimate, cost.measured
    return {
        "source_version": cost.source_version,
        "strategy": cost.strategy,
        "spans": cost.pieces,
        "rows": read.rows,
        "bytes": read.bytes,
        "files": read.files,
        "planning_seconds": cost.planning,
        "rows_read": measured.rows_read,
        "jobs": measured.jobs,
        "seconds": measured.seconds,
    }


def _lateness(s: Status, advice: Advice) -> dict[str, Any]:
    return {
        "rows": s.lateness.total,
        "half": s.lateness.within(0.5),
        "most": s.lateness.within(0.99),
        "start_offset": advice.start_offset,
        "end_offset": advice.end_offset,
        "feed_retention": advice.feed_retention,
    }


def _source(s: SourceLateness) -> dict[str, Any]:
    within = {
        n: s.lateness.within(share) for n, share in (("half", 0.5), ("most", 0.99), ("nearly_all", 0.999), ("all", 1.0))
    }
    return {
        "source": s.source,
        "time_column": s.time_column,
        "aggregate": s.aggregate,
        "readers": s.readers,
        "rows": s.lateness.total,
        **within,
        "longest_wait": s.longest_wait,
    }


def _policy(p: PolicyState) -> dict[str, Any]:
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
        "window": None if p.window is None else _span(p.window, p.grid.time_type),
        "last_now": None if p.last_now is None else render_now(p.last_now, p.grid),
        "next_due": None if p.next_due is None else render(p.next_due, TimeType.TIMESTAMP),
        "due": p.is_due,
    }


def _freshness(f: Freshness | None) -> dict[str, Any]:
    return {
        "max_staleness": None if f is None else describe_offset(f.promise),
        "staleness": None if f is None else f.staleness,
        "promise_kept": None if f is None else f.is_kept,
    }


def _verified(r: VerifyReport, kind: TimeType) -> dict[str, Any]:
    return {
        "name": r.name,
        "equal": r.is_equal,
        "source_version": r.source_version,
        "compared": _spans(r.compared, kind),
        "left_out": _spans(r.left_out, kind),
        "frozen_below": _instant(r.frozen, kind),
        "rows": r.rows,
        "differing": r.differing,
        "examples": [
            {
                "kind": d.kind,
                "row": d.row,
                "columns": {c: {"published": a, "expected": b} for c, (a, b) in d.columns.items()},
            }
            for d in r.examples
        ],
        "tolerances": r.tolerances,
        "seconds": round(r.seconds, 3),
    }


def _maintained(r: MaintainReport) -> dict[str, Any]:
    done = {d.table: asdict(d) for d in r.done}
    return {
        "name": r.name,
        "dry_run": r.is_dry_run,
        "tables": [_table(p, done.get(p.table)) for p in r.plans],
        "seconds": round(r.seconds, 3),
    }


def _table(p: TablePlan, done: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "table": p.table,
        "files": p.files,
        "rows": p.rows,
        "bytes": p.bytes,
        "small_files": p.small,
        "deepest": p.deepest,
        "rewrite": {
            "commits": len(p.groups),
            "files": sum(len(g.pieces) for g in p.groups),
            "rows": sum(g.rows for g in p.groups),
            "bytes": sum(g.bytes for g in p.groups),
        },
        "leftovers": {"files": p.leftovers, "bytes": p.leftover_bytes},
        "log": {"since_checkpoint": p.since_checkpoint, "expired": p.expired},
        "fold": p.fold,
        "done": None if done is None else {k: v for k, v in done.items() if k != "table"},
    }


def _guide(g: Guide) -> dict[str, Any]:
    return {
        "name": g.name,
        "title": g.title,
        "purpose": g.purpose,
        "follows": g.follows,
        "parameters": [asdict(p) for p in (*g.parameters, *(COMMON if g.name != "continuous_aggregate" else ()))],
        "elsewhere": [{"original": name, "here": here} for name, here in g.elsewhere],
        "sql": g.sql,
        "python": g.python,
    }


def _value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | bytes():
            return cell(value)
        case list() | tuple():
            return [_value(v) for v in value]
        case dict():
            return {str(k): _value(v) for k, v in value.items()}
        case _:
            return str(value)
