"""The query of ``time_series``, as in :mod:`materializer.spark.engines.time_series`.

It takes the columns that :mod:`materializer.core.engines.engine_query` names and gives a row for each result: keys, ``_part``, and the
stored columns of a result but ``slice`` and ``revision``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from materializer.core.compiled.definition import Definition, key_column
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import KNOWN_MAX as KNOWN
from materializer.core.engines.engine_query import PART, TIME
from materializer.core.engines.time_series import TimeSeries
from materializer.local.forms import Forms
from materializer.local.kinds import NotLocal, quoted
from materializer.local.typed import failing

_ANCHOR: Final = "mz_anchor"
_AT: Final = "mz_at"
_PANE: Final = "mz_pane"
_SIZE: Final = "mz_size"
_COUNTS: Final = {
    "n": "count(*)",
    "first_t": f"min({TIME})",
    "last_t": f"max({TIME})",
    KNOWN: f"max({KNOWN})",
}
_MERGED: Final = {
    "n": "CAST(sum(n) AS BIGINT)",
    "first_t": "min(first_t)",
    "last_t": "max(last_t)",
    KNOWN: f"max({KNOWN})",
}


@dataclass(frozen=True, slots=True)
class Windows:
    """The query of one definition.

    Args:
        definition: The definition.
        forms: Its local forms.
        at: The bounds that close windows.
    """

    definition: Definition
    forms: Forms
    at: ClosingClock

    def results(self, rows: str) -> str:
        """Return SQL of the results of *rows*, which have the columns that the definition reads, and those of the module."""
        params = None if self.definition.engine is None else self.definition.engine.params
        match params:
            case TimeSeries():
                return self._finished(params, self._series(params, rows))
        raise NotLocal(f"the engine {self.definition.spec.engine}")

    @property
    def _keys(self) -> list[str]:
        return [quoted(key_column(k.name)) for k in self.definition.spec.keys]

    @property
    def _groups(self) -> list[str]:
        return [*self._keys, PART]

    @property
    def _measures(self) -> list[str]:
        return [quoted(f"v_{m.name}") for m in self.definition.spec.measures]

    # -- time series -----------------------------------------------------------------------------------------------------

    def _series(self, p: TimeSeries, rows: str) -> str:
        """Return SQL of windows by their end on the grid, those without rows filled, with the bound up to which they are closed."""
        edge = _ANCHOR if p.has_grid_by_key else str(p.anchor(self.at.origin))
        marks = [_PANE, _ANCHOR] if p.has_grid_by_key else [_PANE]
        placed = self._in_panes(p, rows, edge)
        if p.window_sizes == (p.step,):
            found = f"SELECT *, {_PANE} AS {_AT} FROM ({self._over_rows(placed, [*self._groups, _PANE])})"
        else:
            found = self._over_windows(p, placed, marks)
        if len(p.window_sizes) > 1:
            found = self._side_by_side(p, found)
        key, part = _by(self._keys), _by(self._groups)
        newest = f"greatest(max(last_t) OVER ({key}), max({KNOWN}) OVER ({key}))"
        found = f"SELECT *, {newest} AS mz_key_max, max(last_t) OVER ({part}) AS mz_part_max FROM ({found})"
        # every window ends on an edge of its key's grid
        anchor = f", min({_AT}) OVER ({key}) AS {_ANCHOR}" if p.has_grid_by_key else ""
        found = f"SELECT *, {_bound(p, self.at)} AS mz_bound{anchor} FROM ({found})"
        found = f"SELECT * FROM ({found}) WHERE {_AT} IS NOT NULL"
        if len(p.window_sizes) > 1 and p.multi_window_rule == "all":
            found += f" AND {_SIZE} = {len(p.window_sizes)}"
        return self._filled(p, found, edge) if p.fills else found

    def _in_panes(self, p: TimeSeries, rows: str, edge: str) -> str:
        """Return SQL of rows with the end of their pane; null for a row between sub-windows, which only moves time on."""
        if p.day:
            outside = f"NOT ({TIME} >= 0 AND {TIME} < {p.day})"
            rows = f"(SELECT * REPLACE ({failing(outside, TIME)} AS {TIME}) FROM {rows})"
        if p.has_grid_by_key:
            first = f"min({TIME}) OVER ({_by(self._keys)})"
            rows = f"(SELECT *, {first} - {_pmod(first, p.alignment)} AS {_ANCHOR} FROM {rows})"
        t = f"greatest({TIME} - {p.shift}, {edge})" if p.shift else TIME
        if p.closed == "left":
            end = f"({t} - {_pmod(f'({t} - {edge})', p.step)} + {p.step})"
        else:
            end = f"({t} + {_pmod(f'({edge} - {t})', p.step)})"
        rows = f"SELECT *, {t} AS mz_shifted, {end} AS mz_end FROM {rows}"
        counts = "true"
        if p.sub_window:
            lower, upper = (f"mz_end + {b - p.step}" for b in p.sub_window)
            is_left = p.closed == "left"
            counts = f"mz_shifted {'>=' if is_left else '>'} {lower} AND mz_shifted {'<' if is_left else '<='} {upper}"
        return f"SELECT *, CASE WHEN {counts} THEN mz_end END AS {_PANE} FROM ({rows})"

    def _over_windows(self, p: TimeSeries, placed: str, marks: Sequence[str]) -> str:
        panes = self.forms.panes
        if panes is not None:
            by = [*self._groups, *marks]
            placed = (
                f"SELECT {', '.join([*by, *_named(panes.builds | _COUNTS)])} FROM ({placed}) GROUP BY {', '.join(by)}"
            )
        each = [
            f"SELECT *, unnest(generate_series({_PANE}, {_PANE} + {size - p.step}, {p.step})) AS {_AT}, {i} AS {_SIZE} "
            f"FROM panes WHERE {_PANE} IS NOT NULL"
            for i, size in enumerate(p.window_sizes)
        ]
        none = f"SELECT *, NULL::BIGINT AS {_AT}, NULL::INTEGER AS {_SIZE} FROM panes WHERE {_PANE} IS NULL"
        windows = f"WITH panes AS ({placed}) {' UNION ALL '.join([*each, none])}"
        by = [*self._groups, _AT, _SIZE]
        if panes is None:
            return self._over_rows(windows, by)
        merged = f"SELECT {', '.join([*by, *_named(panes.merges | _MERGED)])} FROM ({windows}) GROUP BY {', '.join(by)}"
        return f"SELECT {', '.join([*by, *_named(panes.finals), *_MERGED])} FROM ({merged})"

    def _side_by_side(self, p: TimeSeries, found: str) -> str:
        """Return SQL in which the windows of several sizes that end together are one row."""
        values = {
            name: f"any_value({name}) FILTER (WHERE {_SIZE} = {size})"
            for name, size in zip(self._measures, p.measure_sizes, strict=True)
        }
        columns = [f"{sql} AS {name}" for name, sql in values.items()]
        whole = _named(_MERGED | {"n": "max(n)", _SIZE: f"count({_SIZE})"})
        by = [*self._groups, _AT]
        return f"SELECT {', '.join([*by, *columns, *whole])} FROM ({found}) GROUP BY {', '.join(by)}"

    def _filled(self, p: TimeSeries, found: str, edge: str) -> str:
        """Return SQL with the closed windows without rows that follow a window with rows; see the query of Spark."""
        limit = f"(mz_bound + {_short(p)})"
        last = f"({limit} - {_pmod(f'({limit} - {edge})', p.step)})"
        until = (
            f"CASE WHEN mz_next IS NOT NULL THEN least(mz_next - {p.step}, {last}) "
            f"WHEN mz_key_max <= mz_part_max THEN {last} END"
        )
        first = f"({_AT} + {p.step})"
        empty = f"CASE WHEN mz_until >= {first} THEN generate_series({first}, mz_until, {p.step}) ELSE [] END"
        following = f"lead({_AT}) OVER ({_by(self._groups)} ORDER BY {_AT})"
        spread = f"SELECT *, {following} AS mz_next FROM ({found})"
        spread = f"SELECT *, {until} AS mz_until FROM ({spread})"
        spread = f"SELECT *, unnest(list_concat([{_AT}], {empty})) AS mz_to FROM ({spread})"
        values = {}
        for measure, (kind, _) in zip(self.definition.spec.measures, p.fills, strict=True):
            name = f"v_{measure.name}"
            values[name] = {"ffill": quoted(name), "null": "NULL"}.get(kind) or self.forms.fills[name]
        is_filled = f"mz_to > {_AT}"
        stands = {"n": "0", "first_t": "NULL", "last_t": "NULL", **values}
        columns = [f"CASE WHEN {is_filled} THEN {sql} ELSE {quoted(n)} END AS {quoted(n)}" for n, sql in stands.items()]
        return f"SELECT * REPLACE ({', '.join([*columns, f'mz_to AS {_AT}'])}) FROM ({spread})"

    def _finished(self, p: TimeSeries, found: str) -> str:
        start, end = f"({_AT} - {p.length})", f"({_AT} - {_short(p)})"
        is_final = f"coalesce({end} <= mz_bound, false)"
        columns = {
            "w_start": start,
            "w_end": end,
            "label": end if p.sub_window or not p.use_window_start_time else start,
            "is_final": is_final,
            "is_shown": "true" if p.update_time is not None else is_final,
        }
        return self._result(found, columns)

    # -- parts of both ---------------------------------------------------------------------------------------------------

    def _over_rows(self, rows: str, by: Sequence[str]) -> str:
        return f"SELECT {', '.join([*by, *_named(self.forms.builds | _COUNTS)])} FROM ({rows}) GROUP BY {', '.join(by)}"

    def _result(self, found: str, columns: Mapping[str, str]) -> str:
        taken = [*self._groups, *self._measures, "n", "first_t", "last_t"]
        return f"SELECT {', '.join([*taken, *_named(columns)])} FROM ({found})"


def _named(columns: Mapping[str, str]) -> list[str]:
    return [f"{sql} AS {quoted(name)}" for name, sql in columns.items()]


def _by(columns: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(columns)}" if columns else ""


def _pmod(x: str, by: int) -> str:
    """Return SQL of the remainder of a division by a positive number that is not negative."""
    return f"(CASE WHEN {x} % {by} < 0 THEN {x} % {by} + {by} ELSE {x} % {by} END)"


def _short(p: TimeSeries) -> int:
    """Return how much earlier than its end on the grid a window closes: the time that its sub-window leaves out."""
    return p.step - p.sub_window[1] if p.sub_window else 0


def _bound(p: TimeSeries, at: ClosingClock) -> str:
    """Return SQL of the latest closed end of a window."""
    right = 0 if p.closed == "left" else 1
    bounds = [f"mz_key_max - {p.accepted_delay + right}"]
    forced = p.accepted_delay if p.use_system_time else p.force_trigger_time
    if forced is not None and at.global_max is not None:
        bounds.append(f"({at.global_max - forced - right})")
    if at.as_of is not None:
        bounds.append(f"({at.as_of - p.shift - right})")
    return f"greatest({', '.join(bounds)}, NULL)"
