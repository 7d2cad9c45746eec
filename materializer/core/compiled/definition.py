"""A compiled definition: everything that the query, the tables and the commands need of it, without Spark.

Internal column names: ``slice`` (start of the bucket), ``k_<key>`` and ``p_…`` (partials). Output columns have the
names of the definition.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from materializer.core.aggregates.layout import Layout
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.grid import Grid

SLICE: Final = "slice"
FROM: Final = "materializer from"
"""First instant of a group's buckets, in a table of groups and beside rows that are compared with it."""
KEY: Final = "materializer key "
"""How the columns of keys begin in a table of groups."""


class EngineDefinition(Struct, frozen=True):
    """The part of a definition that only engines have.

    Args:
        params: The engine, a ``WindowEngine``.
        layout: The decomposed measures; :attr:`Definition.layout` describes result rows.
        order: Source columns that give rows their total order after time: the sequence, then the others by name.
        slice_ticks: Length of a slice, in instants.
        not_frozen: Why its history cannot outlive its raw rows, or "".
    """

    params: Any
    layout: Layout
    order: tuple[str, ...]
    slice_ticks: int
    not_frozen: str = ""


def key_column(name: str) -> str:
    """Return the partials column of the key *name*."""
    return f"k_{name}"


class Definition(Struct, frozen=True):
    """A resolved definition with everything that the query needs of it.

    Args:
        spec: The resolved definition of the user.
        layout: Its partials and expressions.
        grid: Its division of time.
        partial_columns: (name, Spark type) of the partials table, ``slice`` first.
        output_columns: (name, Spark type) of the output table.
        engine: What only an engine's query needs; None for a continuous aggregate.
    """

    spec: AggregateSpec
    layout: Layout
    grid: Grid
    partial_columns: tuple[tuple[str, str], ...]
    output_columns: tuple[tuple[str, str], ...]
    engine: EngineDefinition | None = None

    @property
    def time_type(self) -> TimeType:
        """Type of the time column."""
        if self.spec.time_type is None:
            msg = f"the definition of {self.spec.name} was not resolved"
            raise ValueError(msg)
        return self.spec.time_type

    @property
    def key_sources(self) -> list[str | None]:
        """The source column of each key, None for a key that is an expression."""
        columns = {name.lower(): name for name in self.spec.reads}
        return [columns.get(key.sql.strip().strip("`").lower()) for key in self.spec.keys]

    @property
    def key_types(self) -> list[str]:
        """The Spark type of each key."""
        types = dict(self.partial_columns)
        return [types[key_column(key.name)] for key in self.spec.keys]

    @property
    def group_columns(self) -> list[str]:
        """The columns of the partials that identify a group: ``slice`` and the key columns."""
        return [SLICE, *(key_column(k.name) for k in self.spec.keys)]
