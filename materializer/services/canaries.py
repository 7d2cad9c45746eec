"""Canaries: a refresh computes a few buckets again from their raw rows, and compares.

One sample is of the buckets that are about to be published, another of clean ones that are published. A difference means
that partials or output do not say what the source says, though no change of the source tells why. The run is refused, the
rows that were expected and found are kept, and each differing bucket is dirty from then on, without a version that could be
merged into: the next refresh that reaches it recomputes it from raw rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from materializer.core.grid import Grid
from materializer.core.invalidation import Cause, Entry
from materializer.core.plan import Plan
from materializer.core.quality.canaries import COUNT
from materializer.core.quality.failing import FailingRow
from materializer.core.quality.verdict import BUILT_IN, Finding, Severity, Verdict
from materializer.core.spans import NEG_INF, Span, SpanSet
from materializer.journal.fold import AggregateState
from materializer.services import planning, retention
from materializer.services.definitions import Bound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from materializer.spark.engine import Engine

MOST_EVIDENCE: Final = 100
"""Differing rows of one sample that are kept."""


@dataclass(frozen=True, slots=True)
class Sampled:
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
    bound: Bound, state: AggregateState, engine: Engine, plan: Plan, frame: DataFrame, hull: Span | None
) -> Sampled:
    """Compute some buckets again from their raw rows: of those about to be published, and of published clean ones.

    Args:
        bound: The aggregate.
        state: It, as the journal knows it.
        engine: Starts Spark on first use.
        plan: The refresh.
        frame: Output rows that it computed.
        hull: Where the source has rows, when known; nothing is sampled elsewhere.
    """
    grid, count = bound.definition.grid, int(bound.definition.spec.property_map[COUNT])
    inside = grid.cover_set(SpanSet.of(hull) & retention.raw_spans(state)) if hull else SpanSet()
    dirty = state.log.spans | SpanSet.union(e.span for e in plan.taken)
    clean = (inside & SpanSet.of(Span(NEG_INF, state.threshold))) - dirty
    draw = random.Random(plan.id)  # noqa: S311 (which buckets are looked at is no secret)
    findings, rows, shown = [], [], []
    right, differed = [], SpanSet()
    for name, spans, rows_of in (
        ("canaries_touched", plan.spans & inside, lambda: frame),
        ("canaries_untouched", clean, lambda: engine.read_output(bound.paths["output"], plan.output.version)),
    ):
        chosen = sample(spans, grid, count, draw)
        found = _compared(bound, engine, plan, rows_of, chosen) if chosen else None
        buckets, wrong = sum(grid.count(s) for s in chosen), SpanSet()
        if found is not None and found.differing:
            _, is_end = bound.slice_column("output")
            back = 1 if is_end else 0
            wrong = SpanSet.union(grid.cover(Span(at - back, at - back + 1)) for at in found.buckets) & chosen
            rows += [FailingRow(BUILT_IN, name, values) for values in found.evidence]
            shown += [_words(example) for example in found.examples]
        differed |= wrong
        right.append(buckets - sum(grid.count(s) for s in wrong))
        findings.append(
            Finding(
                BUILT_IN,
                name,
                {"buckets": planning.spans_text(grid, chosen) if chosen else "none"},
                Severity.CRITICAL,
                not wrong,
                shown[-1] if wrong else None,
                sum(grid.count(s) for s in wrong),
                buckets,
            )
        )
    touched, untouched = right
    return Sampled(Verdict("", tuple(findings)), tuple(rows), untouched, touched, differed, tuple(dict.fromkeys(shown)))


def sample(spans: SpanSet, grid: Grid, count: int, draw: random.Random) -> SpanSet:
    """Return up to *count* whole buckets of bounded *spans*, each instant as likely as any other."""
    lengths = [s.end - s.start for s in spans]
    found = []
    for _ in range(count if lengths else 0):
        span = draw.choices(list(spans), lengths)[0]
        at = draw.randrange(span.start, span.end)
        found.append(grid.cover(Span(at, at + 1)))
    return SpanSet.union(found)


def _compared(bound: Bound, engine: Engine, plan: Plan, rows_of: Callable[[], DataFrame], chosen: SpanSet) -> Any:
    from materializer.spark.gating import compare_buckets  # noqa: PLC0415 (loads Spark)

    return compare_buckets(
        engine,
        bound.definition,
        bound.source,
        plan.source_version,
        rows_of(),
        chosen,
        where=bound.predicate("output", chosen),
        bucket=bound.slice_column("output")[0],
        examples=MOST_EVIDENCE,
    )


def _words(example: dict[str, Any]) -> str:
    group = ", ".join(f"{name}={value}" for name, value in example["row"].items())
    columns = "; ".join(f"{n}: found {ours}, expected {theirs}" for n, (ours, theirs) in example["columns"].items())
    return f"{group} {example['kind']}" + (f" ({columns})" if columns else "")
