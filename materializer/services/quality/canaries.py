"""Canaries: a refresh computes a few buckets again from their raw rows, and compares.

One sample is of the buckets that are about to be published, another of clean ones that are published. A difference means
that partials or output do not say what the source says, though no change of the source tells why. The run is refused, the
rows that were expected and found are stored, and each differing bucket is dirty from then on, without a version that could be
merged into: the next refresh that reaches it recomputes it from raw rows.

Results of an engine reach beyond their slices. All that has results in the sampled ones is planned as if these were dirty
too, and computed from its raw rows once for both samples; only what lies in them is compared. While anything stays dirty
beside the refresh there is nothing to compare with, as for ``verify``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from materializer.core.engines.work import Work
from materializer.core.quality.canaries import COUNT
from materializer.core.quality.failing import FailingRow
from materializer.core.quality.verdict import BUILT_IN, Finding, Severity, Verdict
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Plan
from materializer.core.time.fetched import zoned
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.core.time.windows import spans_text
from materializer.errors.base import masked
from materializer.journal.state import AggregateState
from materializer.lake.computed import Computed
from materializer.lake.write.commit import part_of
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal, bugs_left_to_spark
from materializer.services.aggregate import Aggregate
from materializer.services.observe import frozen_bound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from materializer.spark.query.compare import Comparison
    from materializer.spark.run.spark import Spark

Again: TypeAlias = Callable[[Plan, SpanSet], Work]
"""Return all that an engine has in some slices, to be computed beside an open plan."""
TOUCHED: Final = "canaries_touched"
UNTOUCHED: Final = "canaries_untouched"
MOST_EVIDENCE: Final = 100
"""Differing rows of one sample that are stored."""


class Sampled(Struct, frozen=True):
    """What the canaries of a refresh found.

    Args:
        verdict: Touched and untouched buckets, as two findings.
        rows: Some of the differing rows, each with what was expected and what was found.
        clean: Sampled published buckets that did not differ.
        touched: Sampled buckets about to be published that did not differ.
        differed: Those that did.
        shown: Some of those in words: bucket and keys.
    """

    verdict: Verdict
    rows: tuple[FailingRow, ...]
    clean: int
    touched: int
    differed: SpanSet
    shown: tuple[str, ...]

    @property
    def dirt(self) -> tuple[Entry, ...]:
        """The log entries of what differs."""
        return tuple(Entry(span, None, Cause.DIFFERED) for span in self.differed)

    def as_json(self) -> dict[str, Any]:
        """Return what the journal keeps beside the verdict."""
        return {"clean": self.clean, "touched": self.touched, "differed": self.differed.as_json()}


def look(
    aggregate: Aggregate,
    state: AggregateState,
    engine: Callable[[], Spark],
    plan: Plan,
    frame: Callable[[], DataFrame],
    hull: Span | None,
    *,
    again: Again | None = None,
    why_spark: Callable[[str, SpanSet], str] = lambda *_: "nothing else is there",
) -> Sampled:
    """Compute some buckets again from their raw rows: of those about to be published, and of published clean ones.

    Args:
        aggregate: The aggregate.
        state: It, as the journal knows it.
        engine: Starts Spark on first use.
        plan: The refresh.
        frame: Returns the output rows that it computed.
        hull: Where the source has rows, when known; nothing is sampled elsewhere.
        again: All that an engine has in some slices; None for an aggregate without one.
        why_spark: Returns why Spark has to compare the buckets of a sample, or "" if this process found them right.
    """
    grid, count = aggregate.definition.grid, int(aggregate.definition.spec.property_map[COUNT])
    inside = grid.cover_set(SpanSet.of(hull) & frozen_bound.raw_spans(state)) if hull else SpanSet()
    if again is not None and _leaves_dirt(state):
        inside = SpanSet()
    dirty = state.log.spans | SpanSet.union(e.span for e in plan.taken) | plan.spans
    clean = (inside & SpanSet.of(Span(NEG_INF, state.threshold))) - dirty
    draw = random.Random(plan.id)  # noqa: S311 (which buckets are looked at is no secret)
    chosen = [sample(spans, grid, count, draw) for spans in (plan.spans & inside, clean)]
    findings, rows, shown = [], [], []
    types = dict(aggregate.definition.output_columns)
    right, differed = [], SpanSet()
    with _comparing(aggregate, engine, plan, again, SpanSet.union(s for spans in chosen for s in spans)) as compared:
        for name, spans in zip((TOUCHED, UNTOUCHED), chosen, strict=True):
            found = None
            if spans and why_spark(name, spans):
                published = aggregate.paths["output"], plan.output.version
                found = compared(frame() if name == TOUCHED else engine().read_output(*published), spans)
            buckets, wrong = sum(grid.count(s) for s in spans), SpanSet()
            if found is not None and found.differing:
                span_of = aggregate.slice_column("output").span_of
                wrong = SpanSet.union(grid.cover(span_of(at)) for at in found.buckets) & spans
                rows += [FailingRow(BUILT_IN, name, zoned(values, types)) for values in found.evidence]
                shown += [_words(example) for example in found.examples]
            differed |= wrong
            right.append(buckets - sum(grid.count(s) for s in wrong))
            findings.append(
                Finding(
                    BUILT_IN,
                    name,
                    {"buckets": spans_text(grid, spans) if spans else "none"},
                    Severity.CRITICAL,
                    not wrong,
                    shown[-1] if wrong else None,
                    sum(grid.count(s) for s in wrong),
                    buckets,
                )
            )
    touched, untouched = right
    return Sampled(Verdict("", tuple(findings)), tuple(rows), untouched, touched, differed, tuple(dict.fromkeys(shown)))


def why_spark(
    aggregate: Aggregate,
    local: LocalExecutor,
    plan: Plan,
    computed: Computed,
    sample: str,
    spans: SpanSet,
    hull: Span | None,
    again: Again | None = None,
) -> str:
    """Return why Spark has to compare the buckets of a sample; "" if this process computes the same rows again.

    Spark confirms each difference: it knows which inputs were behind a result, so how much a double may differ.

    Args:
        aggregate: The aggregate.
        local: Computes the buckets again.
        plan: The refresh.
        computed: What it computed, fetched.
        sample: ``TOUCHED`` for buckets of *computed*, ``UNTOUCHED`` for published ones.
        spans: The buckets.
        hull: Where the source has rows.
        again: All that an engine has in some slices; None for an aggregate without one.
    """
    from materializer.local.comparison import are_equal, bounded  # noqa: PLC0415 (it loads a parser)

    definition, column = aggregate.definition, aggregate.slice_column("output")
    try:
        with bugs_left_to_spark():
            work = None if again is None else again(plan, spans)
            wanted = definition if local.why_not(bounds := bounded(definition)) else bounds
            partials = aggregate.paths["partials"]
            expected = local.recomputed(wanted, aggregate.source, partials, plan, spans, hull=hull, work=work)
            rows = computed.output
            if sample == UNTOUCHED:
                near = column.values_in(spans)
                names = [name for name, _ in definition.output_columns]
                rows = local.read(aggregate.paths["output"], plan.output.version, names, near, column.name, column.type)
            rows = part_of(rows, column, spans)
            is_equal = are_equal(definition, expected, rows, () if again is None else ("revision",))
            return "" if is_equal else "rows that seem to differ"
    except NotLocal as exc:
        return masked(str(exc))


def _leaves_dirt(state: AggregateState) -> bool:
    """Whether something stays dirty beside the open plan: a change reaches results of an engine in clean slices, too."""
    top = max(state.extent_end, state.threshold)
    return top > state.frozen and bool(state.log.spans & SpanSet.of(Span(state.frozen, top)))


def sample(spans: SpanSet, grid: Grid, count: int, draw: random.Random) -> SpanSet:
    """Return up to *count* whole buckets of bounded *spans*, each instant as likely as any other."""
    lengths = [s.end - s.start for s in spans]
    found = []
    for _ in range(count if lengths else 0):
        span = draw.choices(list(spans), lengths)[0]
        at = draw.randrange(span.start, span.end)
        found.append(grid.cover(Span(at, at + 1)))
    return SpanSet.union(found)


@contextmanager
def _comparing(
    aggregate: Aggregate, engine: Callable[[], Spark], plan: Plan, again: Again | None, spans: SpanSet
) -> Iterator[Callable[[DataFrame, SpanSet], Comparison]]:
    """Yield what compares output rows of some of the chosen *spans* with plain Spark."""
    if again is None or not spans:

        def compared(rows: DataFrame, some: SpanSet) -> Comparison:
            from materializer.spark.run import gating  # noqa: PLC0415 (loads Spark)

            return gating.compare_buckets(
                engine(),
                aggregate.definition,
                aggregate.source,
                plan.source_version,
                rows,
                some,
                where=aggregate.predicate("output", some),
                bucket=aggregate.slice_column("output").name,
                examples=MOST_EVIDENCE,
            )

        yield compared
        return
    made: list[DataFrame] = []
    with ExitStack() as closing:

        def compared_slices(rows: DataFrame, some: SpanSet) -> Comparison:
            from materializer.spark.run import gating  # noqa: PLC0415 (loads Spark)

            if not made:
                made.append(
                    closing.enter_context(
                        gating.expected_slices(
                            engine(),
                            aggregate.definition,
                            aggregate.source,
                            plan.source_version,
                            again(plan, spans),
                            spans,
                            partials_path=aggregate.paths["partials"],
                        )
                    )
                )
            return gating.compare_slices(
                aggregate.definition,
                made[0],
                rows,
                where=aggregate.predicate("output", some),
                examples=MOST_EVIDENCE,
            )

        yield compared_slices


def _words(example: dict[str, Any]) -> str:
    group = ", ".join(f"{name}={value}" for name, value in example["row"].items())
    columns = "; ".join(f"{n}: found {ours}, expected {theirs}" for n, (ours, theirs) in example["columns"].items())
    return f"{group} {example['kind']}" + (f" ({columns})" if columns else "")
