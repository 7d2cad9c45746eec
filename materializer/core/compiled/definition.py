"""A definition compiled for use: what the query, the tables and the commands need of it, without Spark.

Internal column names: ``slice`` (start of the bucket), ``k_<key>`` and ``p_…`` (partials). Output columns have the
names of the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from materializer.core.aggregates.layout import Layout
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.grid import Grid

SLICE: Final = "slice"


@dataclass(frozen=True, slots=True)
class EngineDefinition:
    """An engine's part of a definition.

    Args:
        params: The engine's ``Params``.
        layout: Its measures, taken apart; :attr:`Definition.layout` is about result rows.
        order: Source columns that put rows in their total order after time: the sequence, then the others by name.
        slice_ticks: Length of a slice, in instants.
        end: Column that holds the end of events that last, or None where rows are points in time.
        needs_first: Whether the first row that was ever accepted places windows.
        needs_newest: Whether the newest row of all keys closes windows.
        opens_again: Whether windows that were closed as long as there was no clock are open again by the first one.
        touches_all: Why results of keys that did not change can change as time goes on, or "".
        not_frozen: Why its history cannot outlive its raw rows, or "".
    """

    params: Any
    layout: Layout
    order: tuple[str, ...]
    slice_ticks: int
    end: str | None = None
    needs_first: bool = False
    needs_newest: bool = False
    opens_again: bool = False
    touches_all: str = ""
    not_frozen: str = ""


def quoted(name: str) -> str:
    """Return a column name as a Spark SQL identifier, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def key_column(name: str) -> str:
    """Return the partials' column for the key called *name*."""
    return f"k_{name}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A resolved definition with everything that the query needs of it.

    Args:
        spec: What the user declared.
        layout: Its partials and expressions.
        grid: How its time is divided.
        partial_columns: (name, Spark type) of the partials table, ``slice`` first.
        output_columns: (name, Spark type) of the output table.
        engine: What an engine's query needs besides; None for a continuous aggregate.
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
    def group_columns(self) -> list[str]:
        """``slice`` and the key columns of the partials."""
        return [SLICE, *(key_column(k.name) for k in self.spec.keys)]
