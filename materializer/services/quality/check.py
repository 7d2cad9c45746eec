"""Checking what is published: the suite of an aggregate over its output, at any time; the answer stays in the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field

from materializer.core.printed import Printed, PrintedTable, facts, span_text, spans_text
from materializer.core.quality.builtin import built_in
from materializer.core.quality.failing import FailingRow
from materializer.core.quality.library import Library
from materializer.core.quality.suite import Suite, read
from materializer.core.quality.verdict import Auditor, Verdict
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import Shown
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import UsageError
from materializer.errors.base import masked
from materializer.journal.events import Checked
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.lake.types import columns_of
from materializer.local.kinds import NotLocal, bugs_left_to_spark
from materializer.services.activity import ActivityKind, Listeners, activity, log
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import suites
from materializer.services.observe.withheld import withheld
from materializer.services.quality.audit import Auditable, AuditResult, audit
from materializer.services.quality.gate import summary

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame

    from materializer.local.executor import LocalExecutor
    from materializer.spark.run.spark import Spark


class CheckReport(Printed, Struct, frozen=True):
    """What checking one aggregate found.

    Args:
        name: The aggregate.
        window: The whole buckets that were looked at; None for all of them.
        version: Version of the output.
        verdict: The answers.
        rows: Some of the failing rows.
        docs: The Data Docs page that was written, or "".
        seconds: Wall time.
        time_type: Type of its time column, for showing instants.
        left_to_spark: What this process did not check itself, and why; "" if it checked everything.
        withheld: Buckets that the gate withholds: they are not published, so nothing of them was checked.
    """

    name: str
    window: Span | None
    version: int
    verdict: Verdict
    rows: tuple[FailingRow, ...]
    docs: str
    seconds: float
    time_type: Shown = TimeType.TIMESTAMP
    left_to_spark: str = ""
    withheld: SpanSet = SpanSet()

    def _tables(self) -> list[PrintedTable]:
        rows = [
            (
                finding.type,
                ", ".join(f"{name}={value}" for name, value in finding.kwargs.items()),
                "passed" if finding.success else finding.severity.value,
                finding.error or finding.observed,
                finding.unexpected_count,
                finding.element_count,
            )
            for finding in self.verdict.findings
        ]
        pairs = [
            ("buckets", span_text(self.window, self.time_type)),
            ("output version", self.version),
            ("withheld by the gate", spans_text(self.withheld, self.time_type)),
            ("page", self.docs),
            ("by Spark", self.left_to_spark),
            ("took", f"{self.seconds:.2f} s"),
        ]
        header = ("expectation", "of", "outcome", "observed", "unexpected rows", "checked rows")
        return [
            facts(f"{self.name}: {_outcome(self.verdict)}", pairs),
            *([PrintedTable("", header, rows)] if rows else []),
        ]


class Checker(Struct):
    """Checks aggregates of one lake.

    Args:
        root: The lake's root.
        journal: Its journal.
        engine: Starts Spark on first use.
        library: Loads the library of expectations on first use.
        on_checkpoint: Called when the answers are there, and when the journal has them.
        listeners: Hear of the check.
        local: Checks what is small in this process; None if Spark checks everything.
    """

    root: str
    journal: Journal
    engine: Callable[[], Spark]
    library: Library
    on_checkpoint: Callable[[str], None] = lambda _: None
    listeners: Listeners = field(default_factory=Listeners)
    local: LocalExecutor | None = None

    def check(
        self, name: str, window: Span | None = None, *, suite: str | None = None, docs: str | None = None
    ) -> CheckReport:
        """Answer the suite of an aggregate, and the built-in checks, about its published rows.

        Args:
            name: The aggregate.
            window: Only its whole buckets in here.
            suite: Place of another suite than the one it was applied with.
            docs: Folder of this machine for Data Docs; they need Great Expectations.

        Raises:
            UsageError: If *suite* cannot be read, or *docs* is a URL, or given and there is no suite.
            DefinitionError: If *suite* is no suite for these columns.
        """
        if docs and not places.is_local(docs):
            raise UsageError(
                f"Data Docs cannot be written to {docs}", hint="give a folder of this machine, and copy it"
            )
        state = self.journal.view().named(name)
        grid = Aggregate.of(state, self.root).definition.grid
        window = window and whole_buckets(window, grid)
        ends = (window.start, window.end) if window else (None, None)
        with activity(self.listeners, ActivityKind.CHECK, state, self.root, start=ends[0], end=ends[1]) as telling:
            report = self._checked(state, window, suite, docs)
            now = self.journal.last_view.all.get(state.id, state)
            log(telling.completed(now, _outcome(report.verdict), window=window, verdict=report.verdict))
        return report

    def _checked(self, state: AggregateState, window: Span | None, suite: str | None, docs: str | None) -> CheckReport:
        began = time.perf_counter()
        aggregate = Aggregate.of(state, self.root)
        definition = aggregate.definition
        published = _Published.of(self.engine, self.local, aggregate, window)
        asked = _suite(aggregate, suite, list(published.columns))
        if docs and asked is None:
            raise UsageError(f"'{state.name}' has no suite that pages could show", hint="give one with --suite")
        given = suites.values(definition, state.last_n, state.cursor, window or EVERYTHING)
        checks = built_in(
            definition, published.columns, _bounded(published.spans or SpanSet.of(EVERYTHING), state), None
        )
        column = aggregate.slice_column("output").name

        def answered(rows: Auditable) -> AuditResult:
            return audit(rows, asked, given, column, library=self.library, built_in=checks)

        with published:
            try:
                with bugs_left_to_spark():
                    found = answered(published.here())
                left = _left(found.verdict)
            except NotLocal as exc:
                from materializer.spark.run.audit import RowsToCheck  # noqa: PLC0415 (only where Spark runs)

                found, left = answered(RowsToCheck.of(published.frame())), masked(str(exc))
            page = ""
            if docs and asked:
                page = str(self.library().render(published.frame(), asked.bound(given), Path(docs)))
        report = CheckReport(
            state.name,
            window,
            published.version,
            found.verdict,
            found.rows,
            page,
            time.perf_counter() - began,
            definition.grid.shown,
            left,
            SpanSet.union(s for each in withheld(state) for s in each.spans) & SpanSet.of(window or EVERYTHING),
        )
        self._keep(state, report)
        return report

    def _keep(self, state: AggregateState, report: CheckReport) -> None:
        verdict = summary(report.verdict) | {
            "version": report.version,
            "window": report.window and report.window.as_json(),
        }
        self.on_checkpoint("check_journal")
        self.journal.append_if_living(state.id, state.name, Checked(verdict))
        self.on_checkpoint("checked")


class _Published(Struct):
    """The rows to check, read at most once in this process and at most once by Spark; a block around it ends what Spark holds.

    Args:
        engine: Starts Spark on first use.
        local: Reads what is small in this process; None if Spark does.
        aggregate: The aggregate.
        version: The version of the output.
        columns: Spark type of each column of it.
        spans: The buckets; None for all rows.
    """

    engine: Callable[[], Spark]
    local: LocalExecutor | None
    aggregate: Aggregate
    version: int
    columns: Mapping[str, str]
    spans: SpanSet | None
    _frame: DataFrame | None = None

    @classmethod
    def of(
        cls, engine: Callable[[], Spark], local: LocalExecutor | None, aggregate: Aggregate, window: Span | None
    ) -> Self:
        folder = DeltaFolder.at(aggregate.paths["output"])
        version = folder.head().version
        with folder.reading(version) as table:
            columns = dict(columns_of(table.schema().to_json()))
        return cls(engine, local, aggregate, version, columns, None if window is None else SpanSet.of(window))

    def here(self) -> Auditable:
        """Return the rows in this process.

        Raises:
            NotLocal: If Spark has to read them.
        """
        from materializer.local.audit import LocalRows  # noqa: PLC0415 (it loads a parser)

        if self.local is None:
            raise NotLocal("the settings say so")
        path, column = self.aggregate.paths["output"], self.aggregate.slice_column("output")
        near = None if self.spans is None else column.values_in(self.spans)
        rows = self.local.read(path, self.version, list(self.columns), near, column.name, column.type)
        return LocalRows(self.columns, rows, self.frame)

    def frame(self) -> DataFrame:
        """Return the rows as a frame that Spark persists."""
        if self._frame is None:
            frame = self.engine().read_output(self.aggregate.paths["output"], self.version)
            where = None if self.spans is None else self.aggregate.predicate("output", self.spans)
            self._frame = (frame if where is None else frame.where(where)).persist()
        return self._frame

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frame is not None:
            self._frame.unpersist()


def _left(verdict: Verdict) -> str:
    """Return which expectations this process does not check."""
    left = dict.fromkeys(f.type for f in verdict.findings if f.engine is Auditor.GREAT_EXPECTATIONS)
    return f"Great Expectations checks {', '.join(left)}, over rows of Spark" if left else ""


def _outcome(verdict: Verdict) -> str:
    """Return one word for a verdict: ``passed``, or the severity of its worst failure."""
    return "passed" if verdict.worst is None else str(verdict.worst)


def _suite(aggregate: Aggregate, file: str | None, columns: list[str]) -> Suite | None:
    if file is None:
        return suites.of(aggregate.definition.spec).get(suites.OUTPUT)
    try:
        text = places.read(file).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"the suite {file} cannot be read: {exc}", hint="name a file that exists") from exc
    return read(text, file=file, columns=columns)


def _bounded(spans: SpanSet, state: AggregateState) -> SpanSet:
    """Return where published buckets can lie, for the check of the grid."""
    top = max(state.threshold, state.extent_end)
    return spans & SpanSet.of(Span(NEG_INF, POS_INF if top == NEG_INF else top))
