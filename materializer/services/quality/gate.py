"""The gate: what a run computed is audited before either table is written.

Suites come from the definition as it was applied. What a critical expectation refuses is not published: all of the run, or
only its failing buckets, which neither table gets and which stay as dirty as they were. Failing rows go to a table beside
the output, for people; no refresh ever reads it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.compiled.bucket_sql import bucket_start_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.quality import builtin
from materializer.core.quality.canaries import is_due
from materializer.core.quality.compiled import CompiledSuite
from materializer.core.quality.gates import is_on
from materializer.core.quality.library import Library
from materializer.core.quality.suite import Suite
from materializer.core.quality.verdict import Finding, Severity, Verdict
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Lane, Plan
from materializer.core.spec.table_names import quoted
from materializer.core.time.fetched import plain_text
from materializer.core.time.spans import Span, SpanSet
from materializer.core.time.windows import spans_text
from materializer.errors import CanaryError, DefinitionError, QualityGateError, WriteFencedError
from materializer.errors.base import masked
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.write.commit import append_rows, create_table, part_of
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal, bugs_left_to_spark
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import suites
from materializer.services.protocol.process import Audit
from materializer.services.quality import canaries
from materializer.services.quality.audit import Auditable, AuditResult, audit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from materializer.core.quality.checks import Check
    from materializer.lake.computed import Computed
    from materializer.spark.run.spark import Spark

MAX_WITHHELD: Final = 64
"""Maximum number of withheld pieces of time; with more, nothing of the run is published."""
SHOWN: Final = 3
"""Differing rows that a message names."""
FAILING_COLUMNS: Final = (
    ("refresh", "bigint"),
    ("source_version", "bigint"),
    ("suite", "string"),
    ("expectation", "string"),
    ("severity", "string"),
    ("row", "string"),
)


class Gate(Struct, frozen=True):
    """Audits the runs of one aggregate.

    Args:
        aggregate: The aggregate.
        state: It, as the journal knows it.
        engine: Starts Spark on first use.
        hull: Where the source has rows at a version, when known.
        library: Loads the library of expectations on first use.
        anyway: Why what fails is published all the same, or "".
        again: All that an engine has in some slices; None for an aggregate without one.
        local: Computes canaries in this process; None if Spark computes them.
        sampled: What the canaries of the run found, once they have looked.
        left: What of the checks was left to Spark by this process, and why.
        asked: Spark, if it was asked something.
    """

    aggregate: Aggregate
    state: AggregateState
    engine: Callable[[], Spark]
    hull: Callable[[int], Span | None]
    library: Library
    anyway: str = ""
    again: canaries.Again | None = None
    local: LocalExecutor | None = None
    sampled: list[canaries.Sampled] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    asked: list[Spark] = field(default_factory=list)

    def __call__(self, plan: Plan, computed: Computed) -> Audit:
        """Return what of *computed* may be written, and why not the rest."""
        with ExitStack() as counting:

            def spark() -> Spark:
                engine = self.engine()
                if not self.asked:
                    counting.enter_context(engine.counted(computed.group or plan.id))
                    self.asked.append(engine)
                return engine

            audited = dict(self._audited(plan, computed, spark))
        failed = [(kind, f) for kind, a in audited.items() for f in a.verdict.failed if f.severity is Severity.CRITICAL]
        withheld = self._withheld(plan, audited) if failed and not self.anyway else SpanSet()
        verdict: dict[str, Any] = {kind: summary(a.verdict) for kind, a in audited.items()}
        if failed and self.anyway:
            verdict["published_anyway"] = {"reason": self.anyway}
        dirt: tuple[Entry, ...] = ()
        for found in self.sampled:
            verdict["sampled"], dirt = found.as_json(), found.dirt
        self._keep(plan, audited)
        if not failed or self.anyway:
            return Audit(computed, SpanSet(), verdict, dirt=dirt)
        if withheld is None or not plan.spans - withheld:
            return Audit(computed, plan.spans, verdict, self._refusal(plan, audited, failed), dirt)
        verdict["held"] = withheld.as_json()
        return Audit(self._without(plan, computed, withheld), withheld, verdict)

    def jobs(self, plan: Plan) -> int | None:
        """Return how many Spark jobs were run for the checks of a plan that this process computed."""
        return self.asked[0].jobs_in(plan.id) if self.asked else 0

    def _audited(self, plan: Plan, computed: Computed, spark: Callable[[], Spark]) -> Iterator[tuple[str, AuditResult]]:
        aggregate, spec = self.aggregate, self.aggregate.definition.spec
        known = suites.of(spec)
        given = suites.values(aggregate.definition, plan.n, plan.source_version, plan.window)
        frame = cache(lambda: self._output(plan, computed, spark()))
        only_raw = not plan.merges and not plan.retracts and not plan.keyed and plan.replaced == plan.spans
        checks = _built_in(aggregate.definition, plan, computed.rows_read if only_raw else None)
        if suites.OUTPUT in known or checks:
            yield suites.OUTPUT, self._of_output(plan, computed, known.get(suites.OUTPUT), given, checks, frame)
        if suites.SOURCE in known:
            from materializer.spark.run.audit import RowsToCheck  # noqa: PLC0415 (only where Spark runs)

            hull = self.hull(plan.source_version)
            raw = spark().source_rows(aggregate.definition, aggregate.source, plan, hull=hull).persist()
            inside = plan.spans & SpanSet.of(hull) if hull else plan.spans
            start = bucket_start_sql(aggregate.definition.grid, quoted(spec.time_column), inside)
            try:
                yield (
                    suites.SOURCE,
                    audit(
                        RowsToCheck.of(raw),
                        known[suites.SOURCE],
                        given,
                        spec.time_column,
                        library=self.library,
                        bucket_sql=start,
                    ),
                )
            finally:
                raw.unpersist()
        if is_due(spec.property_map, plan.n):
            found = self._sampled(plan, computed, spark, frame)
            self.sampled.append(found)
            yield "canaries", AuditResult(found.verdict, found.rows, None if found.differed else frozenset())

    def _of_output(
        self,
        plan: Plan,
        computed: Computed,
        suite: Suite | None,
        given: Mapping[str, Any],
        checks: Sequence[Check],
        frame: Callable[[], DataFrame],
    ) -> AuditResult:
        columns = dict(self.aggregate.definition.output_columns)

        def answered(rows: Auditable) -> AuditResult:
            column = self.aggregate.slice_column("output").name
            return audit(rows, suite, given, column, library=self.library, built_in=checks)

        if computed.is_local:
            from materializer.local.audit import LocalRows  # noqa: PLC0415 (it loads a parser)

            rows = part_of(computed.output, self.aggregate.slice_column("output"), plan.spans)
            try:
                with bugs_left_to_spark():
                    return answered(LocalRows(columns, rows, frame))
            except NotLocal as exc:
                self.left.append(f"its gate: {masked(str(exc))}")
        from materializer.spark.run.audit import RowsToCheck, answers_of  # noqa: PLC0415 (only where Spark runs)

        asked = [*checks, *CompiledSuite.of(suite, given, columns).checks]
        answers = answers_of(computed, asked, columns) if plan.replaced == plan.spans else {}
        return answered(RowsToCheck(columns, frame, answers))

    def _sampled(
        self, plan: Plan, computed: Computed, spark: Callable[[], Spark], frame: Callable[[], DataFrame]
    ) -> canaries.Sampled:
        hull = self.hull(plan.source_version)

        def why_spark(sample: str, spans: SpanSet) -> str:
            if self.local is None:
                return "the settings say so"
            why = canaries.why_spark(self.aggregate, self.local, plan, computed, sample, spans, hull, self.again)
            self.left.extend([f"its canaries: {why}"] if why else [])
            return why

        return canaries.look(
            self.aggregate, self.state, spark, plan, frame, hull, again=self.again, why_spark=why_spark
        )

    def _output(self, plan: Plan, computed: Computed, spark: Spark) -> DataFrame:
        where = None if plan.replaced == plan.spans else self.aggregate.predicate("output", plan.spans)
        from materializer.spark.run.gating import output_frame  # noqa: PLC0415 (loads Spark)

        return output_frame(spark, self.aggregate.definition, computed, where)

    def _withheld(self, plan: Plan, audited: Mapping[str, AuditResult]) -> SpanSet | None:
        """Return the buckets that must not be published; None for all of them."""
        if self.aggregate.definition.spec.property_map.get("quality.on_failure", "refresh").lower() != "buckets":
            return None
        grid, column = self.aggregate.definition.grid, self.aggregate.slice_column("output")
        spans: list[Span] = []
        for kind, found in audited.items():
            if found.buckets is None or None in found.buckets:
                return None
            is_output = kind == suites.OUTPUT
            spans += [grid.cover(column.span_of(at) if is_output else Span(at, at + 1)) for at in found.buckets]
        withheld = SpanSet.union(spans) & plan.spans
        return withheld if withheld and len(withheld) <= MAX_WITHHELD else None

    def _without(self, plan: Plan, computed: Computed, withheld: SpanSet) -> Computed:
        spans = plan.replaced - withheld
        of_partials, of_output = (self.aggregate.slice_column(table) for table in ("partials", "output"))
        if not computed.is_fetched:
            from materializer.spark.run.gating import part  # noqa: PLC0415 (loads Spark)

            return part(self.engine(), computed, spans, of_partials, of_output)
        partials = part_of(computed.partials, of_partials, spans)
        output = part_of(computed.output, of_output, spans)
        return replace(
            computed,
            partials=partials,
            output=output,
            rows=partials.num_rows,
            output_rows=output.num_rows,
            buckets=pc.count_distinct(partials[SLICE]).as_py() if partials.num_rows else 0,
            spans=spans,
        )

    def _refusal(
        self, plan: Plan, audited: Mapping[str, AuditResult], failed: list[tuple[str, Finding]]
    ) -> QualityGateError:
        aggregate = self.aggregate
        shown = "; ".join(f"{_suite_name(kind, audited[kind].verdict)}: {f.words()}" for kind, f in failed)
        buckets = spans_text(aggregate.definition.grid, plan.spans)
        severities = [_severity(a.verdict, row.index, row.type) for a in audited.values() for row in a.rows]
        rows, lesser = len(severities), sum(severity != Severity.CRITICAL for severity in severities)
        mild = f" ({lesser} of them not critical)" if lesser else ""
        many = "1 failing row is" if rows == 1 else f"{rows} failing rows{mild} are"
        where = f"; {many} kept in {aggregate.paths['failing']}" if rows else ""
        differed = SpanSet.union(span for found in self.sampled for span in found.differed)
        if differed:
            return self._differing(plan, differed, where, rows)
        return QualityGateError(
            f"'{aggregate.name}' does not meet its expectations at source version {plan.source_version}: {shown} "
            f"(buckets {buckets}){where}",
            wrote="nothing was published; the buckets stay dirty",
            refresh=plan.n,
            source_version=plan.source_version,
            failing_rows=rows,
        )

    def _differing(self, plan: Plan, differed: SpanSet, where: str, rows: int) -> CanaryError:
        aggregate = self.aggregate
        shown = [text for found in self.sampled for text in found.shown]
        more = f" and {len(shown) - SHOWN} more rows" if len(shown) > SHOWN else ""
        return CanaryError(
            f"canaries of '{aggregate.name}' differ from plain Spark at source version {plan.source_version}: "
            f"{'; '.join(shown[:SHOWN])}{more} (buckets {spans_text(aggregate.definition.grid, differed)}){where}",
            wrote="nothing was published; the buckets that differ are dirty, and so is what was to be refreshed",
            refresh=plan.n,
            source_version=plan.source_version,
            failing_rows=rows,
        )

    def _keep(self, plan: Plan, audited: Mapping[str, AuditResult]) -> None:
        """Put the failing rows beside the output; a second time changes nothing."""
        rows = [
            (plan.n, plan.source_version, _suite_name(kind, a.verdict), row.type, severity, _json(row.values))
            for kind, a in audited.items()
            for row in a.rows
            for severity in [_severity(a.verdict, row.index, row.type)]
        ]
        if not rows:
            return
        path, app_id = self.aggregate.paths["failing"], self.aggregate.app_ids["failing"]
        if not places.exists(path):
            name = f"{self.aggregate.name}_failing"
            create_table(path, FAILING_COLUMNS, name=name, description="rows that failed an expectation")
        names = [name for name, _ in FAILING_COLUMNS]
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        note = {"plan": plan.id, "n": plan.n, "kind": "failing", "source_version": plan.source_version}
        with suppress(WriteFencedError):  # a later refresh has written there already
            append_rows(path, table, app_id, plan.n, note)


def metrics(definition: Definition, plan: Plan) -> tuple[str, ...]:
    """Return the SQL aggregates over a plan's output that its gate asks for and that the computation can evaluate on its way.

    There are none where the gate looks at a part of the computed rows, or where the suite cannot be bound: the gate says so.
    """
    if plan.lane is not Lane.DRIVER or plan.replaced != plan.spans:
        return ()
    given = suites.values(definition, plan.n, plan.source_version, plan.window)
    columns = dict(definition.output_columns)
    try:
        asked = CompiledSuite.of(suites.of(definition.spec).get(suites.OUTPUT), given, columns)
    except DefinitionError:
        return ()
    checks = [*_built_in(definition, plan, 0), *asked.checks]
    return tuple(dict.fromkeys(sql for check in checks for sql in check.metrics(columns)))


def _built_in(definition: Definition, plan: Plan, source_rows: int | None) -> list[Check]:
    """Return the built-in checks, where the definition asks for them."""
    if not is_on(definition.spec.property_map, "quality.checks"):
        return []
    return builtin.built_in(definition, dict(definition.output_columns), plan.spans, source_rows)


def summary(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for the journal: expectations that are met are only counted, and so is who answered."""
    return {
        "suite": verdict.suite,
        "passed": len(verdict.findings) - len(verdict.failed),
        "engines": {str(engine): n for engine, n in sorted(Counter(f.engine for f in verdict.findings).items())},
        "failed": [f.as_json() for f in verdict.failed],
    }


def _suite_name(kind: str, verdict: Verdict) -> str:
    return verdict.suite or ("built-in checks" if kind == suites.OUTPUT else kind)


def _severity(verdict: Verdict, index: int, kind: str) -> str:
    return next(str(f.severity) for f in verdict.findings if (f.index, f.type) == (index, kind))


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, default=plain_text, separators=(",", ":"))
