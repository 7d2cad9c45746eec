"""What the query of an engine is given.

A query is a function ``rows(raw, e, at)``. *raw* has one row per source row that counts: the columns that the definition
reads, ``k_<key>``, ``_t`` (event time as an instant), ``_part`` (rows of different parts never meet), ``_known_max`` (the
largest time of the key outside this part, or null) and, where lateness is not ``recompute``, ``_wm``: the closing bound that
stood when the row arrived, or null. A window is closed to a row when its end is at or before ``_wm`` (for windows that hold
their end: before it), so the row does not count there. Queries that keep running state find the row kept before the part
as ``_carry_<column>``, null where there is none; where they look back over rows that may be gone, the kept ones stand before
the raw rows, with ``_kept_<column>`` set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from materializer.core.aggregates.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART: Final = "_part"
TIME: Final = "_t"
KNOWN_MAX: Final = "_known_max"
CLOSED_ON_ARRIVAL: Final = "_wm"
END: Final = "_end"
VERSION: Final = "_version"


@dataclass(frozen=True, slots=True)
class Before:
    """The last windows below a frozen bound.

    Args:
        windows: One for each key, or part; see :func:`~.run.windows_before`.
        since: The bound.
    """

    windows: DataFrame
    since: int


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A definition as its query sees it.

    Args:
        params: The engine's ``Params``.
        keys: Key columns, ``k_<key>``.
        layout: The measures, taken apart.
        order: Columns that put rows in their total order: ``_t``, the sequence, the other columns by name.
        measures: Names of the measures.
        texts: The measures' texts, by name.
        lateness: ``recompute``, ``strict`` or ``delay``.
        before: From which windows below the frozen bound others are filled, or None.
    """

    params: Any
    keys: tuple[str, ...]
    layout: Layout
    order: tuple[str, ...]
    measures: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    lateness: str = "recompute"
    before: Before | None = None

    @property
    def groups(self) -> list[str]:
        """The columns that keep keys and parts apart."""
        return [*self.keys, PART]
