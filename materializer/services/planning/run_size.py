"""How many groups a plan makes at most, and how much memory it takes; of how many source rows a run is made so that the driver holds its result."""

from __future__ import annotations

from typing import Final, assert_never

from materializer.core.compiled.definition import Definition
from materializer.core.refresh.plan import Merge, Plan, Recompute, Retract, RollUp, Settle
from materializer.core.time.spans import SpanSet
from materializer.journal.state import AggregateState
from materializer.lake.extent import Extent
from materializer.services.planning.prices import groups_per_row

SAFETY: Final = 1.2
"""How much larger a result may be than earlier ones let expect."""
ROOM: Final = 0.95
"""Share of what a run may hold that it is sized for; it ends at a bucket's edge, a little later."""
MAX_SHRINK: Final = 8
"""Runs are made smaller for the driver's lane by this factor at most."""
ENOUGH_GROUPS: Final = 1_000
"""Fewer stored groups say little about how large one is, or where they lie."""
UNPACKED: Final = 2
"""How many times as large rows are in memory as in files where files are large: texts that hardly repeat."""
VALUE: Final = 16
"""Bytes that a value of fixed size takes in memory at most."""


def most_groups(plan: Plan, state: AggregateState, raw: Extent, stored: Extent, results: int | None = None) -> float:
    """Return how many groups a plan makes and copies at most: as many as it reads raw rows, or stored groups and changed rows.

    Args:
        plan: The plan.
        state: The aggregate; where that bound is too coarse, its refreshes tell how many groups a row makes.
        raw: The files of the source.
        stored: The files of the partials.
        results: Where an engine replaces the results of some keys, how many these are at most.
    """
    ratio = groups_per_row(state)
    made = SpanSet.union(s for step in plan.steps if not isinstance(step, Merge | Retract) for s in step.spans)
    bound = _likely(stored, plan.replaced - made)
    for step in plan.steps:
        match step:
            case Recompute(keys=int()) if results is not None:
                bound += results
            case Recompute(spans=spans, windows=int(windows), changed_rows=changed):
                bound += windows + (0 if changed is None else _likely(stored, spans))  # None: everything is new
            case Recompute(spans=spans, estimate=estimate, changed_rows=changed):
                groups = float(estimate.rows) if changed is None else _likely(stored, spans) + changed
                if ratio:
                    groups = min(groups, raw.rows_in(spans) * ratio * SAFETY)
                bound += min(estimate.rows, groups)
            case Merge(after=after) | Retract(after=after):
                bound += state.changed_rows(after) or 0
            case RollUp(estimate=estimate):
                bound += estimate.rows
            case Settle():
                continue
            case _:
                assert_never(step)
    return bound


def row_bytes(stored: Extent) -> float:
    """Return how many bytes of files a stored group takes; 0 if there are too few groups to tell."""
    rows = stored.rows
    return stored.bytes / rows if rows > ENOUGH_GROUPS else 0.0


def for_driver(rows: int, most: int, state: AggregateState, raw: Extent, stored: Extent) -> int:
    """Return the source rows of a run: *rows*, or fewer if the result then has at most *most* groups, which the driver commits."""
    there = raw.rows
    ratio = groups_per_row(state) or (stored.rows / there if there else 0.0)
    small = round(ROOM * most / (ratio * SAFETY)) if ratio else most // 2
    return min(rows, small) if small * MAX_SHRINK >= rows else rows


def group_bytes(definition: Definition, stored: Extent) -> float:
    """Return how many bytes a group takes in memory, about."""
    values = sum(max(kind.count(":"), 1) for _, kind in definition.partial_columns)
    return row_bytes(stored) + VALUE * values


def read_bytes(plan: Plan, definition: Definition, stored: Extent) -> float:
    """Return how many bytes the rows take in memory that this process reads for a plan: of the source, and of the partials."""
    reads = plan.estimate
    of_files = UNPACKED * reads.bytes / reads.rows if reads.rows else 0.0  # texts take more than a value of fixed size
    raw = reads.likely_rows * max(VALUE * max(len(definition.spec.reads), 1), of_files)
    others = stored.estimate(plan.replaced - plan.remade - plan.discarded).likely_rows
    return max(raw, others * group_bytes(definition, stored))


def _likely(stored: Extent, spans: SpanSet) -> float:
    """Return how many stored groups lie in *spans*: as the files' times tell, generously, and never more than they hold."""
    estimate = stored.estimate(spans)
    return min(estimate.rows, 2.0 * estimate.likely_rows + ENOUGH_GROUPS)
