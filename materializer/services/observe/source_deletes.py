"""Who still needs the raw rows below a frozen bound, and how their owner deletes them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from materializer.core.compiled.bucket_sql import instant_sql
from materializer.core.compiled.definition import Definition
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.spec.table_names import in_sql, quoted
from materializer.core.time.instants import render, shown_as
from materializer.core.time.spans import NEG_INF
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.definitions import lineage


class OtherReader(Struct, frozen=True):
    """Another aggregate that reads the same source and would lose history with its rows.

    Args:
        name: The aggregate.
        why: Why it is not safe yet, in words.
    """

    name: str
    why: str


def delete_statement(source: SourceIdentity, definition: Definition, bound: int) -> str:
    """Return the Spark SQL that deletes the rows of a source that nothing above an edge needs; null times stay.

    Events that last go by their ends, and open ones stay.
    """
    grid, engine = definition.grid, definition.engine
    columns = [definition.spec.time_column]
    if engine is not None and engine.params.end is not None:
        last = engine.params.lasts_from(bound)
        if last is not None:
            columns, bound = [*columns, engine.params.end], grid.edge_at(last)
    table = in_sql(source.name) if source.name else f"delta.{quoted(source.path)}"
    return f"DELETE FROM {table} WHERE " + " AND ".join(f"{quoted(c)} < {instant_sql(grid, bound)}" for c in columns)


def _needed_from(spec: AggregateSpec, frozen: int) -> int:
    """Return from where on an aggregate needs rows: from its bound, or events that last until so long before it."""
    if not spec.is_engine:
        return frozen
    from materializer.core.engines.compile import check_params  # noqa: PLC0415

    last = check_params(spec).lasts_from(frozen)
    return frozen if last is None else last


def _why_not(spec: AggregateSpec, mine: AggregateSpec) -> str:
    """Return why an engine needs rows that a bound of *mine* lets go, wherever its own bound stands, or ""."""
    if not spec.is_engine:
        return ""
    from materializer.core.engines.compile import check_params  # noqa: PLC0415

    params = check_params(spec)
    if params.why_not_freezable(spec.lateness):
        return "an engine computes it, and needs its raw rows"
    ends = [
        p.end if p is not None and p.lasts_from(NEG_INF) is not None else None
        for p in (params, check_params(mine) if mine.is_engine else None)
    ]
    if ends[0] not in (None, ends[1]):
        return f"it needs its events until they end, which '{ends[0]}' tells"
    return ""


def readers_of(state: AggregateState, bound: int, states: Iterable[AggregateState]) -> list[OtherReader]:
    """Return the other aggregates that read the source of *state* and are not frozen up to *bound*."""
    found = []
    mine = AggregateSpec.from_json(state.spec)
    gone = _needed_from(mine, bound)
    for other in sorted(states, key=lambda s: s.name.lower()):
        if other.id == state.id or other.source.table_id != state.source.table_id:
            continue
        spec = AggregateSpec.from_json(other.spec)
        if other.builds:
            found.append(OtherReader(other.name, "its next version is being built, from raw rows"))
        elif why := _why_not(spec, mine):
            found.append(OtherReader(other.name, why))
        elif spec.time_column.lower() != mine.time_column.lower():
            found.append(
                OtherReader(other.name, f"it is divided by '{spec.time_column}', which this bound says nothing of")
            )
        elif (needed := _needed_from(spec, other.frozen)) < gone:
            kind = shown_as(spec.time_type or TimeType.TIMESTAMP, spec.resolution)
            at = "not frozen" if other.frozen == NEG_INF else f"frozen below {render(other.frozen, kind)}"
            if gone <= other.frozen:
                at = f"{at}, it needs what lasts until {render(needed, kind)} or longer"
            found.append(OtherReader(other.name, at))
    return found


def left_to_owner(
    state: AggregateState, definition: Definition, root: str, view: View
) -> tuple[str, tuple[OtherReader, ...]]:
    """Return how the owner of a source deletes the raw rows of frozen history, and who else needs them.

    Nothing where nothing is frozen, or where the source is our own output.
    """
    if state.frozen == NEG_INF or lineage.parent_of(state.source.path, root, view.states) is not None:
        return "", ()
    readers = tuple(readers_of(state, state.frozen, view.all.values()))
    return delete_statement(state.source, definition, state.frozen), readers
