"""The stored form of a definition: its partial columns, and how each output column is computed from them."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

SIGN: Final = "mz_sign"
"""Column of partial rows: 1 where their rows count, -1 where these were counted and are gone."""


class Pick(Struct, frozen=True):
    """A value that is selected by the order of rows: what the struct of a partial holds.

    Args:
        extreme: ``min`` or ``max``.
        columns: The columns that decide, the time first.
        value: SQL of the selected value.
        conditions: Filters of the rows, as SQL; None for none.
    """

    extreme: str
    columns: tuple[str, ...]
    value: str
    conditions: tuple[str | None, ...]


class PartialColumn(Struct, frozen=True):
    """One column of the partials table.

    Args:
        name: Column name, derived from the content, so that equal partials are stored once.
        build: Spark SQL aggregate over source rows.
        merge: Spark SQL aggregate over partial rows (it may name other partial columns of the same call); None when the value
            cannot be merged and its bucket has to be recomputed.
        retract: Spark SQL aggregate over partial rows with :data:`SIGN`, of which those with -1 are subtracted (it may name other
            partial columns); None where that is not exact.
        is_foreign: Whether *build* calls a function that only the session knows, such as a Python aggregate. Spark refuses
            these beside its own aggregates, so they are built in a separate grouping.
        pick: What *build* selects, if it is the extreme struct of times and a value.
    """

    name: str
    build: str
    merge: str | None
    retract: str | None = None
    is_foreign: bool = False
    pick: Pick | None = None


class Layout(Struct, frozen=True):
    """Everything the compiler needs to compute one definition; all texts are Spark SQL.

    Args:
        partials: Partial columns, each name once.
        finals: (output name, scalar expression over partial columns) for every measure, in order.
        having: Boolean expression over partial columns, or None.
        reference: (output name, plain aggregate expression over source rows) of every measure; it defines the measure's value.
        having_reference: The same for HAVING, or None.
        not_mergeable: Why the layout cannot be merged, one reason for each call; empty when it can.
        tolerances: (output name, "exact" | "float" | "rank") for verification.
        brackets: (output name, lowest, highest) for a measure that is one quantile call: aggregate expressions over source
            rows. A measure within its rank error lies between them, both included. NaN counts as infinity here, because
            Spark's own quantiles never give NaN.
        row_count: Partial column that counts the source rows of a group; None where the tables have no such column.
        not_retractable: Why rows cannot be subtracted from partials, one reason for each call; empty when they can.
    """

    partials: tuple[PartialColumn, ...]
    finals: tuple[tuple[str, str], ...]
    having: str | None
    reference: tuple[tuple[str, str], ...]
    having_reference: str | None
    not_mergeable: tuple[str, ...]
    tolerances: tuple[tuple[str, str], ...]
    brackets: tuple[tuple[str, str, str], ...] = ()
    row_count: str | None = None
    not_retractable: tuple[str, ...] = ()

    @property
    def is_mergeable(self) -> bool:
        """Whether stored partials and partials of new rows merge to the partials of all rows."""
        return not self.not_mergeable

    @property
    def why_not_retract(self) -> str:
        """Why rows cannot be subtracted from stored partials; "" when they can."""
        if self.row_count is None:
            return "its tables do not count the rows of a group"
        return next(iter(self.not_retractable), "")

    @property
    def stored_as(self) -> dict[str, str] | None:
        """The measure whose value is each partial, where every partial is the value of one and merges; else None."""
        of = {final: name for name, final in self.finals}
        found = {p.name: of[p.name] for p in self.partials if p.name in of}
        return found if self.is_mergeable and len(found) == len(self.partials) else None

    def stored_in(self, columns: Container[str]) -> Layout:
        """Return the layout of a table with *columns*; an older table without the row count gets a layout without it."""
        if self.row_count is None or self.row_count in columns:
            return self
        return replace(self, partials=tuple(p for p in self.partials if p.name != self.row_count), row_count=None)
