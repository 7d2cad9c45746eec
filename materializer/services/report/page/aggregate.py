"""The page of one aggregate: its refreshes, measures, lateness, quality, definition and next plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from materializer.core.quality.verdict import Finding
from materializer.core.refresh.lateness import STEPS
from materializer.core.refresh.plan import Plan, Recompute, Settle, strategy_of
from materializer.core.refresh.strategies import reason_of
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import Shown
from materializer.core.time.spans import SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState, Ended
from materializer.lake.output_diff import newest_of
from materializer.lake.rows import newest_rows
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.refresh.preview import Preview
from materializer.services.report.page.time_line import time_line
from materializer.services.report.page.values import instant, moment, number, span, spans, text, time_of
from materializer.services.report.status import Status
from materializer.structs import as_dict

MOST_ROWS: Final = 20_000
"""Newest rows of an output of which a page draws measures."""
MOST_KEYS: Final = 8
"""Keys that a page draws lines of, those with the most buckets."""
MOST_CHANGES: Final = 5_000
"""Newest rows of a change feed that a page marks."""
MOST_FAILING: Final = 50
"""Newest failing rows that a page shows."""
RECENT: Final = 200
"""Refreshes of which changes and failing rows are read, the newest ones: what a page reads does not grow with history."""
CORRECTED: Final = ("late", "correction", "delete")
"""Reasons of a change of a bucket that was published before."""


def aggregate_page(
    state: AggregateState,
    aggregate: Aggregate,
    status: Status,
    ended: Iterable[Ended],
    preview: Callable[[], Preview] | None,
) -> dict[str, Any]:
    """Return everything that the page of an aggregate shows.

    Args:
        state: The aggregate.
        aggregate: Its compiled handle.
        status: What ``status`` says of it.
        ended: Its refreshes that ended, oldest first.
        preview: Plans the next refresh; None if there is nothing to plan.
    """
    spec = aggregate.definition.spec
    plan, coming = _plan(preview, status.time_type)
    return {
        "name": state.name,
        "comment": spec.comment,
        "definition": spec.sql,
        "engine": spec.engine,
        "properties": dict(spec.properties),
        "facts": _facts(state, status, spec),
        "timeline": time_line(state, aggregate, status, coming),
        "refreshes": _refreshes(ended, status.time_type),
        "measures": _measures(aggregate, state.last_n),
        "lateness": [[2 ** (step / STEPS), rows] for step, rows in sorted(state.lateness.rows.items())],
        "quality": _quality(aggregate, status, state.last_n),
        "plan": plan,
    }


def _facts(state: AggregateState, status: Status, spec: AggregateSpec) -> dict[str, Any]:
    kind, fresh = status.time_type, status.freshness
    return {
        "state": status.state,
        "problem": status.problem or status.table_problem,
        "source": status.source,
        "cursor": status.cursor,
        "newest": status.newest,
        "rows": status.rows,
        "keys": [key.name for key in spec.keys],
        "measures": [measure.name for measure in spec.measures],
        "dirty": len(status.dirty),
        "withheld": spans(status.held, kind),
        "conflicts": [{"span": span(at, kind), "why": why} for at, why in status.stuck],
        "holder": status.holder,
        "staleness": None if fresh is None else fresh.staleness,
        "promise_met": None if fresh is None else fresh.is_kept,
        "threshold": instant(status.threshold, kind),
        "frozen": instant(status.frozen, kind),
        "retired": instant(status.retired, kind),
        "next_version": None if status.next is None else status.next.state,
        "previous": len(state.previous),
    }


def _refreshes(ended: Iterable[Ended], kind: Shown) -> dict[str, list[Any]]:
    """Return refreshes as columns, oldest first."""
    names = (
        "n",
        "at",
        "outcome",
        "seconds",
        "predicted",
        "strategy",
        "executor",
        "read",
        "written",
        "buckets",
        "policy",
    )
    columns: dict[str, list[Any]] = {name: [] for name in (*names, "start", "end", "reason", "version")}
    for e in ended:
        r = e.report
        row: tuple[Any, ...] = (
            e.n,
            moment(e.at),
            e.outcome,
            r.seconds,
            r.predicted,
            r.strategy,
            r.executor or "spark",
            r.rows_read,
        )
        row += (r.rows_written, r.buckets, e.policy, *span(e.window, kind), e.reason, r.source_version)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns


# -- measures ------------------------------------------------------------------------------------------------------------


def _measures(aggregate: Aggregate, last: int) -> dict[str, Any]:
    """Return the measures of the newest published rows as lines over time, and the buckets that were corrected.

    Shape:
        ``names``: the measures that are numbers. ``lines``: ``key``, ``at``, and a list of values for each measure.
        ``keys``: how many keys there are. ``corrected``: ``at``, ``key``, ``reason``, ``refresh``. ``note``: what is left out.
    """
    spec, column = aggregate.definition.spec, aggregate.slice_column("output")
    found: dict[str, Any] = {"names": [], "lines": [], "keys": 0, "corrected": [], "note": "", "feed": False}
    try:
        columns, rows = newest_rows(aggregate.paths["output"], column, limit=MOST_ROWS)
    except MaterializerError as exc:
        return found | {"note": f"the output cannot be read: {exc.message}"}
    at, by = columns.index(column.name), [columns.index(k.name) for k in spec.keys if k.name in columns]
    others = [i for i in range(len(columns)) if i != at and i not in by]
    names = [i for i in others if any(number(row[i]) is not None for row in rows[:1000])]
    lines: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    for row in reversed(rows):
        lines.setdefault(tuple(text(row[i]) for i in by), []).append(row)
    most = sorted(lines, key=lambda key: (-len(lines[key]), key))[:MOST_KEYS]
    notes = [f"the newest {MOST_ROWS:,} rows"] if len(rows) == MOST_ROWS else []
    notes += [f"{len(most)} of {len(lines):,} keys, those with the most buckets"] if len(lines) > len(most) else []
    return found | {
        "names": [columns[i] for i in names],
        "lines": [
            {
                "key": ", ".join(key),
                "at": [time_of(row[at]) for row in lines[key]],
                "values": [[number(row[i]) for row in lines[key]] for i in names],
            }
            for key in most
        ],
        "keys": len(lines),
        "note": "; ".join(notes),
        **_corrected(aggregate, column.name, {", ".join(key) for key in most}, last),
    }


def _corrected(aggregate: Aggregate, column: str, shown: set[str], last: int) -> dict[str, Any]:
    """Return the buckets of shown keys that a refresh changed after they were published, from the change feed if there is one."""
    path = aggregate.paths["changes"]
    if not DeltaFolder.at(path).exists():
        return {"feed": False, "corrected": []}
    marks: dict[tuple[Any, str], dict[str, Any]] = {}
    by = [key.name for key in aggregate.definition.spec.keys]
    wanted = (column, *by, "_reason", "_refresh")
    with suppress(MaterializerError):
        for row in newest_of(path, wanted, "_refresh", after=last - RECENT, limit=MOST_CHANGES, reasons=CORRECTED):
            at, key = time_of(row[column]), ", ".join(text(row[name]) for name in by)
            if key in shown:
                marks[at, key] = {"at": at, "key": key, "reason": row["_reason"], "refresh": row["_refresh"]}
    return {"feed": True, "corrected": list(marks.values())}


# -- quality -------------------------------------------------------------------------------------------------------------


def _quality(aggregate: Aggregate, status: Status, last_n: int) -> dict[str, Any]:
    """Return the suites of the definition with their last answers, failing rows, and what canaries bound."""
    kind, last = status.time_type, status.last
    verdict: Mapping[str, Any] = {} if last is None else last.verdict
    check = status.last_check
    canaries = status.canaries
    return {
        "suites": sorted(name for name, _ in aggregate.definition.spec.suites),
        "gate": [_answers(of, verdict[of]) for of in ("output", "source", "canaries") if of in verdict],
        "refresh": None if last is None else last.n,
        "anyway": (verdict.get("published_anyway") or {}).get("reason", ""),
        "withheld": spans(SpanSet.from_json(verdict.get("held", [])), kind),
        "check": None if check is None else _answers("output", check) | {"at": moment(check["at"])},
        "canaries": None
        if canaries is None
        else as_dict(canaries) | {"differed": spans(canaries.differed, kind), "at_most": canaries.at_most},
        "failing": _failing(aggregate, last_n),
    }


def _answers(of: str, suite: Mapping[str, Any]) -> dict[str, Any]:
    failed = [Finding.from_json(f) for f in suite["failed"]]
    return {
        "of": of,
        "suite": suite.get("suite", ""),
        "passed": suite.get("passed"),
        "failed": [{"severity": f.severity.value, "words": f.words()} for f in failed],
    }


def _failing(aggregate: Aggregate, last: int) -> list[dict[str, Any]]:
    """Return the newest failing rows that gates wrote beside the output."""
    path = aggregate.paths["failing"]
    if not DeltaFolder.at(path).exists():
        return []
    columns = ("refresh", "suite", "expectation", "severity", "row")
    with suppress(MaterializerError):
        return newest_of(path, columns, "refresh", after=last - RECENT, limit=MOST_FAILING)[::-1]
    return []


# -- the next plan -------------------------------------------------------------------------------------------------------


def _plan(preview: Callable[[], Preview] | None, kind: Shown) -> tuple[dict[str, Any] | None, SpanSet]:
    """Return what the next refresh would do, None if nothing; and what versions that are not captured yet make dirty."""
    if preview is None:
        return None, SpanSet()
    try:
        found = preview()
    except MaterializerError as exc:
        return {"problem": exc.message, "hint": exc.hint, "steps": []}, SpanSet()
    captured = SpanSet() if found.captured is None else SpanSet.union(e.span for e in found.captured.entries)
    plan = found.plan
    if plan is None:
        return None, captured
    form = {
        "problem": "",
        "refresh": plan.n,
        "version": plan.source_version,
        "strategy": plan.strategy,
        "executor": plan.executor.value,
        "because": plan.executor_reason,
        "seconds": _rounded(plan.seconds),
        "runs": found.runs,
        "window": span(plan.window, kind),
        "reads": as_dict(plan.estimate),
        "steps": [_step(plan, i, kind) for i in range(len(plan.steps))],
    }
    return form, captured


def _step(plan: Plan, i: int, kind: Shown) -> dict[str, Any]:
    step = plan.steps[i]
    found: dict[str, Any] = {"strategy": strategy_of(step), "spans": spans(step.spans.at_most(50), kind)}
    if isinstance(step, Settle):
        return found | {"why": "neither the source nor our tables have rows there", "rejected": [], "seconds": 0.0}
    causes = dict.fromkeys(reason_of(e.cause) for e in plan.taken if SpanSet.of(e.span) & step.spans)
    why = step.reason if isinstance(step, Recompute) else "; ".join(causes)
    keys = step.keys if isinstance(step, Recompute) else None
    return found | {
        "why": why + ("" if keys is None else f"; only the groups of {keys} changed key{'s'[: keys != 1]}"),
        "seconds": _rounded(step.seconds),
        "reads": as_dict(step.estimate),
        "rejected": [{"strategy": r.strategy, "why": r.reason, "seconds": _rounded(r.seconds)} for r in step.rejected],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or not math.isfinite(seconds) else round(seconds, 4)
