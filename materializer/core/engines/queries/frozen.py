"""What results above a frozen boundary go on from: the last stored results of their keys below it.

Stored rows are those of the partials table that begin below the boundary. Parts are the ranges that are computed, whose rows would
reach below it; without parts everything above it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from materializer.core.engines.engine_query import CARRY, PART, STORED, TIME, EngineQuery
from materializer.core.engines.reactive_state import ORDINAL
from materializer.core.query.nodes import Named, Query, Union
from materializer.core.spec.table_names import quoted

_ONE: Final = "_mz_one"
_LAST: Final = "_mz_last"


def parts_of(e: EngineQuery, types: Mapping[str, str], carried: Sequence[str]) -> Named:
    """Return parts as rows: ``_part``, the keys as ``_mz_<i>``, and ``_carry_<column>``.

    Args:
        e: The definition.
        types: Type of each column of the partials table.
        carried: The stored columns that running state carries on.
    """
    keys = ((f"_mz_{i}", types[key]) for i, key in enumerate(e.keys))
    return Named("parts", ((PART, "int"), *keys, *((CARRY + name, types[name]) for name in carried)))


def going_on(raw: Query, stored: Query, e: EngineQuery, since: int, carried: Sequence[str]) -> Query:
    """Return raw rows from the boundary on, with the state of their key's last result before it.

    A session that began below the boundary owns the rows within its gap, whether it counts them or not; they are left out.
    Cumulative functions resume from ``_carry_<column>``; the other functions look back on the rows of :func:`rows_before`.

    Args:
        raw: Raw rows, none before *since*.
        stored: The stored rows.
        e: The definition.
        since: The frozen boundary.
        carried: The stored columns that running state carries on.
    """
    if e.params.resumes_from == "nothing":
        return raw
    is_session = e.params.resumes_from == "session"
    place = f"struct(w_start, {ORDINAL})" if ORDINAL in carried else "w_start"
    columns = ["w_end"] if is_session else list(carried)
    last = stored.group(e.keys, [(_LAST, f"max_by(struct({', '.join(map(quoted, columns))}), {place})")])
    passed_on = [(CARRY + name, f"{_LAST}.{quoted(name)}") for name in columns]
    last = last.select(*((key, quoted(key)) for key in e.keys), *passed_on)
    found = _of_keys(raw, last, [(key, key) for key in e.keys], outer=True)
    if not is_session:
        return found
    return found.where(f"{TIME} >= coalesce({quoted(f'{CARRY}w_end')}, {since}L)").only(*raw.names)


def windows_before(stored: Query, e: EngineQuery, parts: Query | None) -> Query:
    """Return the last stored window of each key; empty windows are filled after it.

    Args:
        stored: The stored rows.
        e: The definition.
        parts: The parts; None for everything.

    Shape:
        Keys, ``_part``, ``w_start``, ``v_<measure>``, ``n``, ``first_t``, and ``last_t``: the newest stored time of the key.
        Grain: keys, ``_part``.
    """
    columns = ["w_start", *(f"v_{name}" for name in e.measures), "n", "first_t"]
    window = f"max_by(struct({', '.join(map(quoted, columns))}), w_start)"
    last = stored.group(e.keys, [(_LAST, window), ("last_t", "max(last_t)")]).where(f"{_LAST} IS NOT NULL")
    placed = _in_parts(last, e, parts)
    keys = ((name, quoted(name)) for name in e.groups)
    return placed.select(*keys, *((name, f"{_LAST}.{quoted(name)}") for name in columns), ("last_t", "last_t"))


def rows_before(stored: Query, e: EngineQuery, carried: Sequence[str], parts: Query | None) -> Query:
    """Return the last stored rows of each key, on which functions look back, as raw rows with nothing else.

    Args:
        stored: The stored rows.
        e: The definition.
        carried: The stored columns that running state carries on.
        parts: The parts; None for everything.

    Shape:
        Keys, ``_part``, ``_t``, ``_kept_x_ordinal``, ``_kept_x_arg<i>``, ``_carry_<column>``.
    """
    placed = _in_parts(stored, e, parts).over(e.groups, ["w_start", ORDINAL], _mz_place="row_number()")
    last = placed.over(e.groups, [], _mz_count="count(1)").where(f"_mz_count - _mz_place < {e.params.lookback}")
    if parts is None:  # the state of a key's last row
        newest = ((CARRY + n, f"max(CASE WHEN _mz_place = _mz_count THEN {quoted(n)} END)") for n in carried)
        last = last.over(e.groups, [], *newest) if carried else last
    return last.select(
        *((name, quoted(name)) for name in e.groups),
        (TIME, "w_start"),
        *((STORED + name, quoted(name)) for name in looked_at(e)),
        *((CARRY + name, quoted(CARRY + name)) for name in carried),
    )


def looking_back(raw: Query, before: Query, e: EngineQuery, types: Mapping[str, str]) -> Query:
    """Return raw rows and those of :func:`rows_before`; what only a stored row has is null in a raw row.

    Args:
        raw: The raw rows.
        before: The stored rows.
        e: The definition.
        types: Type of each column of the partials table.
    """
    nothing = ((STORED + name, f"CAST(NULL AS {types[name]})") for name in looked_at(e))
    return Union((raw.add(*nothing), before))


def looked_at(e: EngineQuery) -> list[str]:
    """Return the stored columns on which functions look back."""
    return [ORDINAL, *e.params.arguments.values()]


def _in_parts(rows: Query, e: EngineQuery, parts: Query | None) -> Query:
    """Return rows of keys in each part of their key."""
    if parts is None:
        return rows.add((PART, "0"))
    return _of_keys(rows, parts, [(key, f"_mz_{i}") for i, key in enumerate(e.keys)], is_small=True)


def _of_keys(rows: Query, right: Query, pairs: list[tuple[str, str]], **how: bool) -> Query:
    """Return rows with the other columns of those with the same keys; without keys all are alike."""
    if pairs:
        return rows.same(right, pairs, **how)
    others = [name for name in right.names if name not in rows.names]
    alike = rows.add((_ONE, "1")).same(right.add((_ONE, "1")), [(_ONE, _ONE)], **how)
    return alike.only(*rows.names, *others)
