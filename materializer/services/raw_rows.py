"""Who still needs the raw rows below a frozen bound, and how their owner deletes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from materializer.core.definition import quoted
from materializer.core.grid import Grid
from materializer.core.instants import render
from materializer.core.spans import NEG_INF
from materializer.core.spec import AggregateSpec, TimeType
from materializer.journal.events import SourceIdentity
from materializer.journal.fold import AggregateState
from materializer.spark.bucket_sql import instant_sql


@dataclass(frozen=True, slots=True)
class Reader:
    """Another aggregate that reads the same source and would lose history with its rows.

    Args:
        name: The aggregate.
        why: Why it is not safe yet, in words.
    """

    name: str
    why: str


def delete_statement(source: SourceIdentity, time_column: str, grid: Grid, bound: int) -> str:
    """Return the Spark SQL that deletes the rows of a source below an edge; null times stay."""
    table = ".".join(quoted(part) for part in source.name.split(".")) if source.name else f"delta.{quoted(source.path)}"
    return f"DELETE FROM {table} WHERE {quoted(time_column)} < {instant_sql(grid, bound)}"


def readers_of(state: AggregateState, bound: int, states: Iterable[AggregateState]) -> list[Reader]:
    """Return the other aggregates that read the source of *state* and are not frozen up to *bound*."""
    found = []
    mine = AggregateSpec.from_json(state.spec)
    for other in sorted(states, key=lambda s: s.name.lower()):
        if other.id == state.id or other.source.table_id != state.source.table_id:
            continue
        spec = AggregateSpec.from_json(other.spec)
        if other.builds:
            found.append(Reader(other.name, "its next version is being built, from raw rows"))
        elif spec.is_engine:
            found.append(Reader(other.name, "an engine computes it, and needs its raw rows"))
        elif spec.time_column.lower() != mine.time_column.lower():
            found.append(Reader(other.name, f"it is divided by '{spec.time_column}', which this bound says nothing of"))
        elif other.frozen < bound:
            kind = spec.time_type or TimeType.TIMESTAMP
            at = "not frozen" if other.frozen == NEG_INF else f"frozen below {render(other.frozen, kind)}"
            found.append(Reader(other.name, at))
    return found
