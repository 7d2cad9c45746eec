"""The stored shape of a definition: which partial columns it keeps and how each output column comes from them."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """One column of the partials table.

    Args:
        name: Column name, derived from what it holds, so that equal partials are stored once.
        build: Spark SQL aggregate over source rows.
        merge: Spark SQL aggregate over partial rows (it may name other partial columns of the same call), or None when
            the value cannot be merged and its bucket has to be recomputed.
        is_foreign: Whether *build* calls a function that only the session knows, such as a Python aggregate; Spark
            refuses these beside its own aggregates, so they are built in a grouping of their own.
    """

    name: str
    build: str
    merge: str | None
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything the compiler needs to compute one definition; all texts are Spark SQL.

    Args:
        partials: Partial columns, each name once.
        finals: (output name, scalar expression over partial columns) for every measure, in order.
        having: Boolean expression over partial columns, or None.
        reference: (output name, plain aggregate expression over source rows): what the measure *means*.
        having_reference: The same for HAVING, or None.
        not_mergeable: Why the layout cannot be merged, one reason a call; empty when it can.
        not_retractable: Why rows cannot be taken out exactly, one reason a call; empty when they can.
        tolerances: (output name, "exact" | "float" | "rank") for verification.
        brackets: (output name, lowest, highest) for a measure that is one quantile call: aggregate expressions over
            source rows between which the measure lies, both included, when it is within its rank error. NaN counts as
            infinity there, because Spark's own quantiles never give it.
        row_count: Partial column that counts the source rows of a group; None where the tables have none.
    """

    partials: tuple[PartialColumn, ...]
    finals: tuple[tuple[str, str], ...]
    having: str | None
    reference: tuple[tuple[str, str], ...]
    having_reference: str | None
    not_mergeable: tuple[str, ...]
    not_retractable: tuple[str, ...]
    tolerances: tuple[tuple[str, str], ...]
    brackets: tuple[tuple[str, str, str], ...] = ()
    row_count: str | None = None

    @property
    def is_mergeable(self) -> bool:
        """Whether kept partials and partials of new rows merge to the partials of all rows."""
        return not self.not_mergeable

    def stored_in(self, columns: Container[str]) -> Layout:
        """Return the layout of a table with these columns: one that is older than the count of rows goes without it."""
        if self.row_count is None or self.row_count in columns:
            return self
        return replace(self, partials=tuple(p for p in self.partials if p.name != self.row_count), row_count=None)
