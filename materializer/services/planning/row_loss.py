"""The guard of history: nothing is recomputed from fewer raw rows than it was made from, less those that were seen to go.

A change that was captured says which rows went. Where nothing says so (the source's log was cleaned before it was read, a
refresh was forced, a window was declared dirty), missing rows have expired or were lost, and a recompute
would take them out of history without a word. So the rows of each such bucket are counted against its stored partials. Results of
an engine reach beyond buckets: there the row counts of all results that begin before an instant are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from materializer.core.compiled.definition import Definition
from materializer.core.engines.base import WindowEngine
from materializer.core.refresh.invalidation import ANY_ROWS, UNTOLD, Cause
from materializer.core.refresh.plan import Plan
from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import FewerRowsError
from materializer.lake.computed import Computed, Fewer
from materializer.services.aggregate import Aggregate

MISTRUSTED: Final = frozenset({Cause.DIFFERED, Cause.REPAIRED})
"""Causes by which the stored results of an engine may be wrong anywhere."""


class RowCounter(Protocol):
    """Compares row counts of stored and computed rows: what computed the plan."""

    def fewer_rows(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: Mapping[int, SpanSet]
    ) -> Fewer | None:
        """Return where a computation counts fewer raw rows than the stored partials."""

    def fewer_counted(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: int
    ) -> Fewer | None:
        """Return where an engine's results count fewer rows than the stored ones."""


def check(aggregate: Aggregate, engine: RowCounter, plan: Plan, computed: Computed, *, is_build: bool = False) -> None:
    """Refuse a computation that counts too few raw rows; reads what is stored of guarded buckets only.

    Args:
        aggregate: The aggregate.
        engine: What computed it.
        plan: The refresh.
        computed: What it computed, not yet written.
        is_build: Whether it is about a next version, whose history can be given up.

    Raises:
        FewerRowsError: If raw rows are missing and no capture saw them go.
        NotLocal: If only Spark can count them.
    """
    found = (_of_buckets if aggregate.definition.engine is None else _of_results)(aggregate, engine, plan, computed)
    if found is None:
        return
    words, fewer = found
    hint = f"give it up with 'materializer abandon {aggregate.name}'" if is_build else _hint(aggregate, fewer.last)
    raise FewerRowsError(words, hint=hint, buckets=fewer.buckets, rows=fewer.rows)


def _of_buckets(aggregate: Aggregate, engine: RowCounter, plan: Plan, computed: Computed) -> tuple[str, Fewer] | None:
    guarded = spans_by_gone(plan)
    if not guarded or aggregate.definition.layout.row_count is None:
        return None
    fewer = engine.fewer_rows(aggregate.definition, aggregate.paths["partials"], plan, computed, guarded)
    if fewer is None:
        return None
    grid = aggregate.definition.grid
    more = f", and {fewer.buckets - 1:,} more buckets are short of rows" if fewer.buckets > 1 else ""
    words = (
        f"'{aggregate.name}' was made from {fewer.was:,} row{'s' if fewer.was > 1 else ''} in "
        f"[{_text(grid, fewer.first)}, {_text(grid, grid.next(fewer.first))}), its source has {fewer.now:,} there, and nobody "
        f"saw {'it' if fewer.was - fewer.now == 1 else 'them all'} go{more}"
    )
    return words, fewer


def _of_results(aggregate: Aggregate, engine: RowCounter, plan: Plan, computed: Computed) -> tuple[str, Fewer] | None:

    definition, grid = aggregate.definition, aggregate.definition.grid
    if definition.engine is None:
        return None
    windows: WindowEngine = definition.engine.params
    allowed = counts_gone(plan, grid, windows.most_counts)
    if allowed is None or windows.why_not_counted(definition.spec.lateness):
        return None
    fewer = engine.fewer_counted(definition, aggregate.paths["partials"], plan, computed, allowed)
    if fewer is None:
        return None
    words = (
        f"results of '{aggregate.name}' that begin before {_text(grid, grid.next(fewer.last))} count {fewer.was:,} rows and would "
        f"count {fewer.now:,} (too few from {_text(grid, fewer.first)} on), and nobody saw them all go"
    )
    return words, fewer


def spans_by_gone(plan: Plan) -> dict[int, SpanSet]:
    """Return the guarded buckets of a plan, by how many rows of each were seen to go at most."""
    recomputed = plan.remade
    found: dict[int, list[Span]] = {}
    for entry in plan.taken:
        spans = SpanSet.of(entry.span) & recomputed
        if entry.cause in UNTOLD and spans and entry.gone < ANY_ROWS:
            found.setdefault(entry.gone, []).extend(spans)
    return {gone: SpanSet.union(spans) for gone, spans in found.items()}


def counts_gone(plan: Plan, grid: Grid, each: int | None) -> int | None:
    """Return in how many results of an engine, at most, rows were counted that were seen to go.

    Args:
        plan: A refresh of an engine.
        grid: Its slices.
        each: In how many results a row is counted at most; None when that is unknown.

    Returns:
        None when nothing is guarded: all that changed was captured, what is stored may be counted wrong itself, or nobody
        knows what was lost with the rows that were seen to go.
    """
    causes = {entry.cause for entry in plan.taken}
    if not causes & UNTOLD or causes & MISTRUSTED:
        return None
    gone = [entry for entry in plan.taken if entry.gone]
    if not gone:
        return 0
    if each is None or any(e.gone >= ANY_ROWS or not e.span.is_bounded for e in gone):
        return None
    return each * sum(e.gone * grid.count(e.span) for e in gone)


def _hint(aggregate: Aggregate, last: int) -> str:
    accept = f"take the source's word with 'materializer refresh {aggregate.name} --accept-fewer-rows'"
    if aggregate.definition.engine is not None and aggregate.definition.engine.not_frozen:
        return f"put the rows back, or {accept}"
    end = _text(aggregate.definition.grid, aggregate.definition.grid.next(last))
    return f"keep history as it is stored with 'materializer expire {aggregate.name} --before {end} --as-stored', or {accept}"


def _text(grid: Grid, at: int) -> str:
    return render(at, grid.shown)
