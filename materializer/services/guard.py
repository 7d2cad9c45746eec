"""The guard of history: nothing is recomputed from fewer raw rows than it was made from, less those that were seen to go.

A change that was captured says which rows went. Where nothing says so (the source's log was cleaned before it was read, a
refresh was forced, somebody declared a window dirty), rows that are missing have expired, or were lost, and a recompute
would take them out of history without a word. So the rows of each such bucket are counted against its kept partials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from materializer.core.grid import Grid
from materializer.core.instants import render
from materializer.core.invalidation import ANY_ROWS, Cause
from materializer.core.plan import Plan, Recompute
from materializer.core.spans import SpanSet
from materializer.errors import FewerRowsError
from materializer.services.bound import Bound

if TYPE_CHECKING:
    from materializer.spark.engine import Computed, Engine
    from materializer.spark.guard import Fewer

GUARDED: Final = frozenset({Cause.FORCED, Cause.INVALIDATED, Cause.LOST})
"""Causes that do not say which rows went. What a repair left or a canary found to differ may be counted wrong itself."""


def check(bound: Bound, engine: Engine, plan: Plan, computed: Computed, *, is_build: bool = False) -> None:
    """Refuse a computation that counts too few raw rows in a bucket; reads kept partials of guarded buckets only.

    Args:
        bound: The aggregate. Engines keep results and no count of rows: they are not guarded.
        engine: Spark.
        plan: The refresh.
        computed: What it computed, not yet written.
        is_build: Whether it is about a next version, whose history can be given up.

    Raises:
        FewerRowsError: If raw rows are missing that nobody saw go.
    """
    guarded = spans_by_gone(plan)
    if not guarded or bound.definition.layout.row_count is None:
        return
    fewer = engine.fewer_rows(bound.definition, bound.paths["partials"], plan, computed, guarded)
    if fewer is None:
        return
    grid, name = bound.definition.grid, bound.name
    hint = f"give it up with 'materializer abandon {name}'" if is_build else _hint(name, fewer, grid)
    raise FewerRowsError(_words(name, fewer, grid), hint=hint, buckets=fewer.buckets, rows=fewer.rows)


def spans_by_gone(plan: Plan) -> dict[int, SpanSet]:
    """Return the guarded buckets of a plan, by how many rows of each were seen to go at most."""
    steps = (s for s in plan.steps if isinstance(s, Recompute) and not s.is_discard)
    recomputed = SpanSet.union(span for step in steps for span in step.spans)
    found: dict[int, SpanSet] = {}
    for entry in plan.taken:
        spans = SpanSet.of(entry.span) & recomputed
        if entry.cause in GUARDED and spans and entry.gone < ANY_ROWS:
            found[entry.gone] = found.get(entry.gone, SpanSet()) | spans
    return found


def _words(name: str, fewer: Fewer, grid: Grid) -> str:
    first = f"[{render(fewer.first, grid.time_type)}, {render(grid.next(fewer.first), grid.time_type)})"
    gone = fewer.was - fewer.now
    more = f", and {fewer.buckets - 1:,} more buckets are short of rows" if fewer.buckets > 1 else ""
    return (
        f"'{name}' was made from {fewer.was:,} row{'s' if fewer.was > 1 else ''} in {first}, its source has {fewer.now:,} "
        f"there, and nobody saw {'it' if gone == 1 else 'them all'} go{more}"
    )


def _hint(name: str, fewer: Fewer, grid: Grid) -> str:
    end = render(grid.next(fewer.last), grid.time_type)
    return (
        f"keep history as it is stored with 'materializer expire {name} --before {end} --as-stored', "
        f"or take the source's word with 'materializer refresh {name} --accept-fewer-rows'"
    )
