"""Reports of a refresh: of each run, and of the whole request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from materializer.core.time.spans import NEG_INF, Span, SpanSet

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Plan, RunReport
    from materializer.services.definitions.waiting import WaitingVersion
    from materializer.services.maintenance.maintain import MaintainReport
    from materializer.services.observe.source_deletes import OtherReader


@dataclass(frozen=True, slots=True)
class RunDone:
    """One run of a request.

    Args:
        plan: Its plan.
        report: What it did.
        window: Its buckets.
        runs_left: About how many runs follow, 0 for the last.
        verdict: The gate's verdict, as JSON; empty without one.
    """

    plan: Plan
    report: RunReport
    window: Span
    runs_left: int = 0
    verdict: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh or backfill did.

    Args:
        name: The aggregate.
        outcome: ``refreshed``, ``up-to-date``, or ``empty-window`` when the window holds no whole bucket and something is
            dirty elsewhere.
        window: The whole buckets of the refresh window; None when an open end left nothing.
        source_version: Source version that the result reflects.
        runs: The runs, in order.
        recovered: Refreshes of dead processes that were ended first: (number, ``finished`` or ``aborted``).
        left: The spans that are dirty afterwards.
        null_times: Source rows left out because their time is null, when known.
        seconds: Wall time of everything.
        maintained: Reports of the maintenance that followed, if the definition asks for it.
        warnings: What failed after the refresh; the refresh itself is done.
        frozen: The frozen boundary; ``NEG_INF`` when nothing is frozen.
        stuck: The dirty spans below *frozen* that cannot be computed.
        delete: Statement by which the owner of the source may delete the rows below *frozen*; "" if the boundary did not move
            in this refresh, or if the source is the output of another aggregate.
        readers: Other aggregates that read these rows and are not frozen there.
        waiting: The next version, which waits to be built; None without one.
    """

    name: str
    outcome: str
    window: Span | None
    source_version: int
    runs: tuple[RunDone, ...] = ()
    recovered: tuple[tuple[int, str], ...] = ()
    left: SpanSet = field(default_factory=SpanSet)
    null_times: int | None = None
    seconds: float = 0.0
    maintained: tuple[MaintainReport, ...] = ()
    warnings: tuple[str, ...] = ()
    frozen: int = NEG_INF
    stuck: SpanSet = field(default_factory=SpanSet)
    delete: str = ""
    readers: tuple[OtherReader, ...] = ()
    waiting: WaitingVersion | None = None

    def _repr_html_(self) -> str:
        """Return what was done as HTML, for notebooks."""
        from materializer.core.refresh.price import shown  # noqa: PLC0415 - as below
        from materializer.services import html  # noqa: PLC0415 - only notebooks show it

        head = f"{self.name}: {self.outcome}, source version {self.source_version}, {self.seconds:.2f} s"
        rows = [
            (
                run.plan.n,
                run.report.strategy,
                run.report.executor or "spark",
                run.report.rows_read,
                run.report.rows_written,
                run.report.buckets,
                f"{run.report.seconds:.3f} s",
                f"{guess:.3f} s"
                if (guess := shown(run.report.predicted, run.report.unlearned, run.report.seconds))
                else None,
            )
            for run in self.runs
        ]
        header = ("refresh", "strategy", "executor", "rows read", "rows written", "buckets", "took", "predicted")
        dirty = [("left dirty", self.left), ("dirty below the frozen boundary", self.stuck)]
        left = [(name, f"{len(spans)} spans") for name, spans in dirty if spans]
        left += [("warning", text) for text in self.warnings]
        left += [("next version", self.waiting.text)] if self.waiting else []
        return (html.table(head, header, rows) if rows else html.facts(head, [])) + (
            html.facts("", left) if left else ""
        )


def outcome_of(runs: Sequence[RunDone], window: Span | None, left: SpanSet) -> str:
    """Return the outcome of a refresh: ``up-to-date`` only if it had a window, or if nothing is dirty anywhere."""
    return "refreshed" if runs else "up-to-date" if window is not None or not left else "empty-window"
