"""The input of an engine's query, and the parts that queries of several engines share.

A query is a function ``rows(raw, e, at)``. *raw* has one row for each source row that counts, with these columns:

* the columns that the definition reads, and ``k_<key>``;
* ``_t``: event time as an instant;
* ``_part``: the part of the row; rows of different parts never meet;
* ``_known_max``: the largest time of the key outside this part, or null;
* ``_wm``, where lateness is not ``recompute``: the closing bound at the time when the row arrived, or null. A window is closed
  to a row if it ends at or before ``_wm`` (before ``_wm``, if windows hold their end); the row does not count in it;
* ``_origin``, for a time series with such lateness: the time of the first row of the key that arrived;
* ``_carry_<column>``, for queries with running state: the stored row before the part, null where there is none;
* ``_kept_<column>``, for queries that look back over raw rows that may be gone: set in the stored rows, which come before the
  raw rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.aggregates.layout import Layout
from materializer.core.compiled.definition import Definition, EngineDefinition, key_column
from materializer.core.engines.compile import measure_names
from materializer.core.query.nodes import Columns, Query, Union
from materializer.core.spec.table_names import quoted

PART: Final = "_part"
TIME: Final = "_t"
KNOWN_MAX: Final = "_known_max"
CLOSED_ON_ARRIVAL: Final = "_wm"
END: Final = "_end"
VERSION: Final = "_version"
ORIGIN: Final = "_origin"
CARRY: Final = "_carry_"
"""Prefix of the columns with the state before a part."""
STORED: Final = "_kept_"
"""Prefix of the columns of stored rows, which come before the raw rows so that functions can look back on them."""
COUNTS: Final = (("n", "count(1)"), ("first_t", f"min({TIME})"), ("last_t", f"max({TIME})"))
"""The number of rows of a group, and its first and last time."""
KNOWN: Final = "_known"
"""The largest time of the key outside of the part, of the rows of a group."""
KEY_MAX: Final = "_key_max"
"""The newest time of a key, also outside of the part; see :func:`with_newest`."""
PART_MAX: Final = "_part_max"
"""The newest time of a part."""
IS_FILLED: Final = "_is_filled"
"""Whether a window has no rows, and what was before it fills it; see :func:`filled`."""
_OF_ROWS: Final = (*COUNTS, (KNOWN, f"max({KNOWN_MAX})"))
_OF_PANES: Final = (("n", "sum(n)"), ("first_t", "min(first_t)"), ("last_t", "max(last_t)"), (KNOWN, f"max({KNOWN})"))


class Before(Struct, frozen=True):
    """The last windows below a frozen boundary.

    Args:
        windows: One row for each key, or for each part: rows of the executor, of which its queries take the node that names them.
        since: The frozen boundary.
    """

    windows: Any
    since: int


class EngineQuery(Struct, frozen=True):
    """A definition in the form that its query needs.

    Args:
        params: The engine, a ``WindowEngine``.
        keys: Key columns, ``k_<key>``.
        layout: The measures, split into partials.
        order: Columns that put rows in their total order: ``_t``, the sequence, the other columns by name.
        sequence: The column of these that orders the rows of a commit before their time does; or "".
        measures: Names of the measures.
        texts: The SQL texts of the measures, by name.
        types: The Spark types of the measures, by name; empty until the tables of the definition are known.
        lateness: ``recompute``, ``strict`` or ``delay``.
        before: The windows below the frozen boundary after which empty windows are filled, or None.
    """

    params: Any
    keys: tuple[str, ...]
    layout: Layout
    order: tuple[str, ...]
    measures: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    lateness: str = "recompute"
    before: Before | None = None
    sequence: str = ""

    @classmethod
    def of(cls, definition: Definition) -> EngineQuery:
        """Return a definition in the form that its query needs."""
        spec, engine = definition.spec, engine_of(definition)
        texts = {m.name: m.formula.fill([call.text for call in m.formula.calls]) for m in spec.measures}
        stored, measures = dict(definition.partial_columns), measure_names(spec)
        return cls(
            engine.params,
            tuple(key_column(k.name) for k in spec.keys),
            engine.layout,
            (TIME, *engine.order),
            measures,
            texts,
            {name: stored[f"v_{name}"] for name in measures} if stored else {},
            spec.lateness,
            sequence=spec.sequence or "",
        )

    @property
    def groups(self) -> list[str]:
        """The columns that separate keys and parts."""
        return [*self.keys, PART]

    @property
    def arrives_by(self) -> list[str]:
        """The columns that order the rows of a commit as they arrived."""
        first = [self.sequence] if self.sequence else []
        return [*first, *(name for name in self.order if name != self.sequence)]

    @property
    def foreign(self) -> frozenset[str]:
        """The texts of calls that only a session of Spark knows."""
        return frozenset(p.build for p in self.layout.partials if p.is_foreign)


def engine_of(definition: Definition) -> EngineDefinition:
    """Return the engine's part of a definition; a definition without an engine is a :class:`ValueError`."""
    if definition.engine is None:
        msg = f"{definition.spec.name} is not computed by an engine"
        raise ValueError(msg)
    return definition.engine


def over_rows(rows: Query, by: Sequence[str], e: EngineQuery, extra: Columns = ()) -> Query:
    """Return measures in their reference form, the number of rows, and first, last and known time of groups of raw rows.

    Args:
        rows: Raw rows.
        by: Names of the columns to group by.
        e: The definition.
        extra: Further (name, aggregate) columns.
    """
    measured = [(f"v_{name}", sql) for name, sql in e.layout.reference]
    return rows.group(by, [*measured, *_OF_ROWS, *extra], e.foreign)


def over_windows(
    rows: Query,
    e: EngineQuery,
    marks: Sequence[str],
    windows: Callable[[Query], Query],
) -> Query:
    """Aggregate rows into windows that overlap.

    A pane is the interval between two neighbouring edges of the grid; a window is a run of neighbouring panes. If every measure
    can be merged, rows are first aggregated by pane, and then each pane's partials are merged into all its windows. Otherwise each
    row goes into each of its windows.

    Args:
        rows: Raw rows with the columns *marks*.
        e: The definition.
        marks: Columns that are equal for all rows of a pane.
        windows: Puts rows or panes into their windows, by what the marks say. The columns that it adds are those of a window; they
            are null for what is in none, which still advances time.

    Shape:
        Keys, part, the columns of a window, ``v_<measure>``, ``n``, ``first_t``, ``last_t``, :data:`KNOWN`.
    """
    panes = split(rows, [*e.groups, *marks], e) if e.layout.is_mergeable else rows
    placed = windows(panes)
    by = [*e.groups, *(name for name in placed.names if name not in panes.names)]
    return merged(placed, by, e) if e.layout.is_mergeable else over_rows(placed, by, e)


def split(rows: Query, by: Sequence[str], e: EngineQuery) -> Query:
    """Return partials, the number of rows, and first, last and known time of groups of raw rows."""
    return rows.group(by, [*((p.name, p.build) for p in e.layout.partials), *_OF_ROWS], e.foreign)


def merged(panes: Query, by: Sequence[str], e: EngineQuery) -> Query:
    """Return measures, the number of rows, and first, last and known time of groups of partials."""
    merges = [(p.name, p.merge) for p in e.layout.partials if p.merge is not None]
    found = panes.group(by, [*merges, *_OF_PANES])
    taken = {name.lower() for name in found.names}
    keys = {k.removeprefix("k_"): quoted(k) for k in e.keys}  # final expressions may name them as the output does
    named = found.add(*((name, key) for name, key in keys.items() if name.lower() not in taken))
    finals = [(f"v_{name}", sql) for name, sql in e.layout.finals]
    return named.select(*((n, quoted(n)) for n in by), *finals, *((n, n) for n, _ in _OF_PANES))


def with_newest(found: Query, e: EngineQuery) -> Query:
    """Add the newest time of the key and of the part; call it before the rows that are in no window are dropped."""
    found = found.over(e.keys, [], _newest="max(last_t)", _newest_known=f"max({KNOWN})")
    found = found.over(e.groups, [], (PART_MAX, "max(last_t)"))
    return found.add((KEY_MAX, "greatest(_newest, _newest_known)")).without("_newest", "_newest_known")


def with_earlier(found: Query, earlier: Query) -> Query:
    """Return windows together with the last stored ones below the frozen boundary, which have some of the columns."""
    return Union((found, earlier.only(*(name for name in found.names if name in earlier.names))))


def filled(found: Query, e: EngineQuery, *moved: tuple[str, str]) -> Query:
    """Return windows that are in their places; those without rows count none, and have what fills each measure.

    Args:
        found: Windows with :data:`IS_FILLED`; one without rows has the measures of the window before it.
        e: The definition; the types of its measures are known where a constant fills one.
        moved: Name and text of the columns that say where a window is.
    """
    columns = [*moved, ("n", f"IF({IS_FILLED}, 0L, n)")]
    columns += [(name, f"IF({IS_FILLED}, NULL, {name})") for name in ("first_t", "last_t")]
    for name, (kind, literal) in zip(e.measures, e.params.fills, strict=True):
        if kind != "ffill":
            stands = "NULL" if kind == "null" else f"CAST({literal} AS {e.types[name]})"
            columns.append((f"v_{name}", f"IF({IS_FILLED}, {stands}, {quoted(f'v_{name}')})"))
    return found.add(*columns)


def as_results(found: Query, e: EngineQuery, **columns: str) -> Query:
    """Return results: their keys, part, measures and counts as *found* has them, and other columns."""
    same = [*e.groups, *(f"v_{name}" for name in e.measures), "n", "first_t", "last_t"]
    return found.select(*((name, quoted(name)) for name in same), **columns)
