"""The input of an engine's query.

A query is a function ``rows(raw, e, at)``. *raw* has one row for each source row that counts, with these columns:

* the columns that the definition reads, and ``k_<key>``;
* ``_t``: event time as an instant;
* ``_part``: the part of the row; rows of different parts never meet;
* ``_known_max``: the largest time of the key outside this part, or null;
* ``_wm``, where lateness is not ``recompute``: the closing bound at the time when the row arrived, or null. A window is closed
  to a row if it ends at or before ``_wm`` (before ``_wm``, if windows hold their end); the row does not count in it;
* ``_carry_<column>``, for queries with running state: the stored row before the part, null where there is none;
* ``_kept_<column>``, for queries that look back over raw rows that may be gone: set in the stored rows, which come before the
  raw rows.
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
    """The last windows below a frozen boundary.

    Args:
        windows: One row for each key, or for each part; see :func:`~.run.windows_before`.
        since: The frozen boundary.
    """

    windows: DataFrame
    since: int


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A definition in the form that its query needs.

    Args:
        params: The engine, a ``WindowEngine``.
        keys: Key columns, ``k_<key>``.
        layout: The measures, split into partials.
        order: Columns that put rows in their total order: ``_t``, the sequence, the other columns by name.
        measures: Names of the measures.
        texts: The SQL texts of the measures, by name.
        lateness: ``recompute``, ``strict`` or ``delay``.
        before: The windows below the frozen boundary after which empty windows are filled, or None.
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
        """The columns that separate keys and parts."""
        return [*self.keys, PART]
