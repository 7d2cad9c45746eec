"""Reports of a refresh: of each run, and of the whole request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from materializer.core.printed import Printed, PrintedTable, facts, span_text, spans_text
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.structs import LateStruct

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Plan, RunReport
    from materializer.services.definitions.waiting import WaitingVersion
    from materializer.services.maintenance.maintain import MaintainReport
    from materializer.services.observe.source_deletes import OtherReader


_HEADER: Final = ("refresh", "strategy", "executor", "rows read", "rows written", "buckets", "took", "predicted")


class RunDone(Printed, LateStruct, frozen=True):
    """One run of a request.

    Args:
        plan: Its plan.
        report: What it did.
        window: Its buckets.
        runs_left: About how many runs follow, 0 for the last.
        verdict: The gate's verdict, as JSON; empty without one.
        time_type: Type of its time column, for showing instants.
    """

    plan: Plan
    report: RunReport
    window: Span
    runs_left: int = 0
    verdict: Mapping[str, Any] = field(default_factory=dict)
    time_type: Shown = TimeType.TIMESTAMP

    def _tables(self) -> list[PrintedTable]:
        pairs = [("buckets", span_text(self.window, self.time_type)), ("runs left", self.runs_left or None)]
        return [PrintedTable("", _HEADER, [_row(self)]), facts("", pairs)]


class RefreshReport(Printed, LateStruct, frozen=True):
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
        time_type: Type of its time column, for showing instants.
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
    time_type: Shown = TimeType.TIMESTAMP

    @property
    def withheld(self) -> SpanSet:
        """What the gates of its runs withheld, and is dirty afterwards."""
        pieces = [SpanSet.from_json(run.verdict.get("held", [])) for run in self.runs]
        return SpanSet.union(span for spans in pieces for span in spans) & self.left

    def _tables(self) -> list[PrintedTable]:
        head = f"{self.name}: {self.outcome}, source version {self.source_version}, {self.seconds:.2f} s"
        pairs: list[tuple[str, object]] = [
            ("buckets", span_text(self.window, self.time_type)),
            ("withheld by its gate", spans_text(self.withheld, self.time_type)),
            ("left dirty", spans_text(self.left, self.time_type)),
            ("dirty below the frozen boundary", spans_text(self.stuck, self.time_type)),
            *(("warning", text) for text in self.warnings),
            ("next version", self.waiting.text if self.waiting else None),
        ]
        runs = [PrintedTable(head, _HEADER, [_row(run) for run in self.runs])] if self.runs else []
        return [*runs, facts("" if runs else head, pairs)]


def _row(run: RunDone) -> tuple[object, ...]:
    from materializer.core.refresh.price import shown  # noqa: PLC0415 - only for printing

    report = run.report
    guess = shown(report.predicted, report.unlearned, report.seconds)
    return (
        run.plan.n,
        report.strategy,
        report.executor or "spark",
        report.rows_read,
        report.rows_written,
        report.buckets,
        f"{report.seconds:.3f} s",
        f"{guess:.3f} s" if guess else None,
    )


def outcome_of(runs: Sequence[RunDone], window: Span | None, left: SpanSet) -> str:
    """Return the outcome of a refresh: ``up-to-date`` only if it had a window, or if nothing is dirty anywhere."""
    return "refreshed" if runs else "up-to-date" if window is not None or not left else "empty-window"
