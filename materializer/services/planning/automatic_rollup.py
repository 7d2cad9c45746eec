"""Automatic roll-ups: buckets that a finer aggregate of the lake has in partials of the same rows.

A step that would recompute buckets from raw rows becomes a roll-up where another aggregate reads the same source at the same
version with the same filter, has our keys and our partials at a finer or equal grid, is clean in these buckets, and where
reading its partials costs less than reading the raw rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.compiled.rolled_up import finer
from materializer.core.refresh.plan import Merge, Recompute, Rejected, Retract, RollUp, Settle, Step, strategy_of
from materializer.core.refresh.strategies import Facts
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.lake.extent import Extent, files
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.observe.dirty import dirty_at_cursor
from materializer.services.observe.observe import estimate_of

if TYPE_CHECKING:
    from materializer.services.observe.observe import Observation

FEW: Final = 64
"""A recompute of so few rows is not worth a look at other aggregates."""
MOST: Final = 32
"""Of more aggregates that have our partials, those that changed last are looked at: thousands take longer than a refresh."""
ROLL_UP: Final = "roll-up"


class _Finer(Struct, frozen=True):
    """An aggregate that has our partials at a finer grid.

    Args:
        name: Its name.
        path: Its partials.
        version: Their version.
        keys: (name of our key, name of its key).
        extent: Where their rows lie.
        dirty: Where they do not reflect the wanted version of the source, in its own buckets.
        why_not: Why they reflect it nowhere, or "".
    """

    name: str
    path: str = ""
    version: int = 0
    keys: tuple[tuple[str, str], ...] = ()
    extent: Extent | None = None
    dirty: SpanSet = field(default_factory=SpanSet)
    why_not: str = ""


def chosen(steps: Sequence[Step], observation: Observation, version: int, facts: Facts) -> tuple[Step, ...]:
    """Return the steps of a plan, with roll-ups in place of more expensive recomputes.

    Args:
        steps: The steps.
        observation: Of the aggregate.
        version: The version of the source at which the plan reads.
        facts: The facts of the plan, with its prices.
    """
    todo = [s for s in steps if not isinstance(s, Settle | RollUp) and _is_worth_a_look(s, facts)]
    if not todo:
        return tuple(steps)
    others = sorted(_finer(observation, version), key=_rows_of)
    raw, grid = observation.raw(version), observation.aggregate.definition.grid
    found: list[Step] = []
    for step in steps:
        if step not in todo:
            found.append(step)
        elif isinstance(step, Recompute) and step.keys is None:
            found += _parts(step, grid, raw, others, facts)
        elif isinstance(step, Merge | Retract | Recompute):
            found.append(_instead_of(step, grid, others, facts))
    return tuple(found)


def _is_worth_a_look(step: Merge | Retract | Recompute, facts: Facts) -> bool:
    is_whole = isinstance(step, Recompute) and step.keys is None
    if isinstance(step, Recompute) and step.is_discard:
        return False
    return step.estimate.likely_rows > FEW and (is_whole or step.spans.spans[0].start >= facts.frozen)


def _rows_of(other: _Finer) -> tuple[int, str]:
    """Return how many partials another aggregate has, fewest first, and its name."""
    return other.extent.rows if other.extent else 0, other.name


def _parts(step: Recompute, grid: Grid, source: Extent, others: Sequence[_Finer], facts: Facts) -> Iterator[Step]:
    """Yield what becomes of a recompute: roll-ups of what finer aggregates have, and a recompute of the rest."""
    rest, against = step.spans, []
    for other in others:
        if other.why_not or other.extent is None:
            against.append(f"'{other.name}' {other.why_not}")
            continue
        clean = rest - grid.cover_set(other.dirty)
        if not clean:
            against.append(f"'{other.name}' is dirty there")
            continue
        raw, merged = estimate_of(source, clean), estimate_of(other.extent, clean)
        seconds, whole = facts.price(ROLL_UP, merged, clean), facts.price("recompute", raw, clean)
        if not facts.only and not facts.is_cheaper(clean, ROLL_UP, merged, "recompute", raw):
            against.append(f"{merged.likely_rows:,} partials of '{other.name}' would not be cheaper")
            continue
        rejected = (*step.rejected, Rejected("recompute", facts.why_dearer(raw, merged, ROLL_UP), whole))
        found = (other.name, other.path, other.version, other.keys)
        yield RollUp(clean, step.reason, *found, merged, rejected, seconds)
        rest = rest - clean
    if rest:
        left = step.estimate if rest == step.spans else estimate_of(source, rest)
        reasons = tuple(Rejected(ROLL_UP, why) for why in against)
        seconds = facts.price("recompute", left, rest)
        yield replace(step, spans=rest, estimate=left, rejected=(*step.rejected, *reasons), seconds=seconds)


def _instead_of(
    step: Merge | Retract | Recompute, grid: Grid, others: Sequence[_Finer], facts: Facts
) -> Merge | Retract | Recompute | RollUp:
    """Return a roll-up in place of a step that reads what changed, or changed keys, where one is clearly cheaper; else the step."""
    for other in others:
        if other.why_not or other.extent is None or step.spans & grid.cover_set(other.dirty):
            continue
        merged = estimate_of(other.extent, step.spans)
        seconds = facts.price(ROLL_UP, merged, step.spans)
        if seconds < step.seconds - facts.tie:
            reason = step.reason if isinstance(step, Recompute) else f"rows changed since version {step.after}"
            against = Rejected(strategy_of(step), "takes longer", step.seconds)
            found = (other.name, other.path, other.version, other.keys)
            return RollUp(step.spans, reason, *found, merged, (*step.rejected, against), seconds)
    return step


def _finer(observation: Observation, version: int) -> Iterator[_Finer]:
    """Yield the aggregates that have our partials at a finer grid, whether or not they can be used now; see :data:`MOST`."""
    ours = observation.aggregate
    root, states = observation.others()
    wanted = {p.name for p in ours.definition.layout.partials}
    named = (json.dumps(text) for text in (ours.source.path, *sorted(wanted)))
    for state in sorted(islice(states.mentioning(*named), MOST), key=lambda s: s.name):
        has = {str(name) for name, _ in state.schemas["partials"]}
        is_other = state.id != ours.aggregate_id and state.source == ours.source
        if not is_other or not wanted <= has or len(state.spec["keys"]) < len(ours.definition.spec.keys):
            continue
        other = Aggregate.of(state, root)
        keys = finer(ours.definition, other.definition)
        if keys is not None:
            yield _state_of(state, other, keys, version)


def _state_of(state: AggregateState, other: Aggregate, keys: tuple[tuple[str, str], ...], version: int) -> _Finer:
    if state.cursor != version:
        return _Finer(state.name, why_not=f"has captured version {state.cursor} of the source, not {version}")
    if state.plan is not None:
        return _Finer(state.name, why_not="is being refreshed")
    path = other.paths["partials"]
    try:
        folder = DeltaFolder.at(path)
        head, (n, by) = folder.head(), folder.numbered(other.app_ids["partials"])
        if head.table_id != state.tables["partials"] or (n or 0) != state.written_n or state.is_other_plan(by):
            return _Finer(state.name, why_not="is being refreshed, or has to be repaired")
        extent = files(path, head.version, "slice", other.definition.time_type)
    except MaterializerError as exc:
        return _Finer(state.name, why_not=f"cannot be read: {exc.message}")
    above = max(state.extent_end, state.threshold)  # no row lies above
    dirty = dirty_at_cursor(state) & SpanSet.of(Span(NEG_INF, above)) if above > NEG_INF else dirty_at_cursor(state)
    if state.floor > NEG_INF:
        dirty = dirty | SpanSet.of(Span(NEG_INF, state.floor))
    return _Finer(state.name, path, head.version, keys, extent, dirty)
