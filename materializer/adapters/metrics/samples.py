"""From an activity that ended to samples of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from materializer.adapters.metrics import catalogue as m
from materializer.adapters.metrics.catalogue import Metric, Sample
from materializer.core.policy.policies import has_clock
from materializer.core.time.grid import Grid
from materializer.core.time.instants import SECOND
from materializer.core.time.spans import NEG_INF, POS_INF, SpanSet
from materializer.services.activity import Activity, ActivityEnd, ActivityKind, ActivityRun, Ending
from materializer.services.aggregate import Aggregate
from materializer.services.observe.dirty import stuck_spans
from materializer.services.report.status import Status

_REFRESHING = (ActivityKind.REFRESH, ActivityKind.BACKFILL, ActivityKind.BUILD)


def samples_of(activity: Activity, end: ActivityEnd, status: Status | None) -> Iterator[Sample]:
    """Yield what an activity adds to the metrics.

    Args:
        activity: The activity.
        end: Its end.
        status: The aggregate afterwards; None if it is not known, or not of what readers read.
    """
    common = {"lake": activity.root, "aggregate": activity.state.name}
    kind = str(activity.kind)
    outcome = end.outcome or {Ending.FAIL: "failed", Ending.ABORT: "stopped"}.get(end.ending, "done")

    def sample(metric: Metric, value: float | None, **labels: str) -> Sample:
        return Sample(metric, common | labels, value)

    if activity.kind in _REFRESHING:
        yield sample(
            m.REFRESHES, 1, kind=kind, outcome=outcome, strategy=_strategies(end.runs), executor=_executors(end.runs)
        )
    elif activity.kind is ActivityKind.CHECK:
        yield sample(m.CHECKS, 1, outcome=outcome)
    else:
        yield sample(m.SWITCHES, 1, outcome=outcome)
    yield sample(m.SECONDS_TAKEN, end.seconds, kind=kind, outcome=outcome)
    for run in end.runs:
        report, executor = run.report, run.report.executor or "spark"
        yield sample(m.RUNS, report.seconds, strategy=report.strategy, executor=executor)
        if report.predicted > 0:
            yield sample(m.PREDICTED, report.predicted, executor=executor)
            yield sample(m.TAKEN, report.seconds, executor=executor)
    if end.runs:
        yield sample(m.ROWS_READ, sum(r.report.rows_read for r in end.runs), kind=kind)
        yield sample(m.ROWS_WRITTEN, sum(r.report.rows_written for r in end.runs), kind=kind)
        yield sample(m.BUCKETS, sum(r.report.buckets for r in end.runs), kind=kind)
    for by, severity in _unmet(end):
        yield sample(m.UNMET, 1, by=by, severity=severity)
    yield sample(m.ENDED, end.at, kind=kind)
    if end.ending is Ending.COMPLETE:
        yield sample(m.SUCCEEDED, end.at, kind=kind)
    if status is not None:
        yield from _of_status(status, end, activity.root)


def _of_status(status: Status, end: ActivityEnd, root: str) -> Iterator[Sample]:
    common = {"lake": root, "aggregate": status.name}
    grid = Aggregate.of(end.state, root).definition.grid
    for metric, spans in ((m.DIRTY, status.dirty), (m.UNCOMPUTABLE, stuck_spans(end.state)), (m.WITHHELD, status.held)):
        yield Sample(metric, common, _count(grid, spans))
    promise = status.freshness
    if promise is None or not has_clock(grid):
        return
    width = promise.promise
    days = width.days + 30 * width.months  # months are only promised about
    yield Sample(m.PROMISE, common, days * 86_400 + width.micros / SECOND)
    yield Sample(m.STALENESS, common, None if promise.staleness is None else float(promise.staleness))
    yield Sample(m.FULFILLED, common, None if promise.is_kept is None else float(promise.is_kept))


def _count(grid: Grid, spans: SpanSet) -> float:
    """Return how many buckets spans have; what was never materialised begins at the start of time, and counts as one."""
    total = 0
    for span in spans:
        total += 1 if span.start == NEG_INF or span.end == POS_INF else grid.count(span)
    return float(total)


def _strategies(runs: Sequence[ActivityRun]) -> str:
    found = dict.fromkeys(part for run in runs for part in run.report.strategy.split("+"))
    return "+".join(sorted(found)) or "nothing"


def _executors(runs: Sequence[ActivityRun]) -> str:
    return "+".join(sorted({run.report.executor or "spark" for run in runs})) or "none"


def _unmet(end: ActivityEnd) -> Iterator[tuple[str, str]]:
    if end.verdict is not None:
        yield from (("check", str(f.severity)) for f in end.verdict.failed)
    for verdict in end.verdicts:
        for kind in ("output", "source"):
            yield from (("gate", str(f["severity"])) for f in verdict.get(kind, {}).get("failed", ()))
