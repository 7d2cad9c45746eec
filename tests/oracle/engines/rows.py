"""What every oracle is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from tests.oracle.engines.metrics import compare, evaluate

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[Any, ...]
Lateness: TypeAlias = Literal["strict", "delay", "recompute"]


class RefusedError(ValueError):
    """A definition or a run that must be refused."""


class Event(Struct, frozen=True):
    """One source row.

    Args:
        t: Its time in ticks.
        commit: Delta version in which it arrived.
        seq: Position inside the commit.
        key: Values of the key columns.
        row: All its columns.
    """

    t: int
    commit: int
    seq: int
    key: Key
    row: Row


class Answer(Struct):
    """What an engine has said after all rows.

    Args:
        final: Rows of closed windows.
        open: Provisional rows of windows that have rows and are not closed.
        discarded: ``seq`` of the rows that were dropped, in order of arrival.
    """

    final: list[dict[str, Any]] = field(default_factory=list)
    open: list[dict[str, Any]] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)


def events(
    rows: Iterable[Row], *, time: Callable[[Row], int | None], keys: Sequence[str] = (), where: Sequence[Row] = ()
) -> list[Event]:
    """Return the rows that count, in order of arrival: time not null, every condition of *where* true."""
    counted = (row for row in rows if time(row) is not None and passes(row, where))
    found = [
        Event(time(row) or 0, row.get("_commit", 1), row["_seq"], tuple(row.get(k) for k in keys), row)
        for row in counted
    ]
    return sorted(found, key=lambda e: (e.commit, e.seq))


def passes(row: Row, where: Sequence[Row]) -> bool:
    """Whether every ``{col, op, value}`` is true; a null fails every comparison."""
    tests = ((row.get(w["col"]), w.get("op", "=="), w.get("value")) for w in where)
    return all(
        value is not None if op == "notnull" else compare(op, value, other) is True for value, op, other in tests
    )


def in_order(found: Iterable[Event], lateness: Lateness) -> list[Event]:
    """Return events by time, then arrival; under ``recompute`` the commit is no part of the order."""
    if lateness == "recompute":
        return sorted(found, key=lambda e: (e.t, e.seq))
    return sorted(found, key=lambda e: (e.t, e.commit, e.seq))


def measured(metrics: Sequence[Row], found: Iterable[Event], lateness: Lateness) -> dict[str, Any]:
    """Return the value of each metric over events."""
    rows = [e.row for e in in_order(found, lateness)]
    return {m["name"]: evaluate(m["expr"], rows) for m in metrics}


def keys_of(found: Iterable[Event]) -> list[Key]:
    """Return the keys that occur, in order of their first row."""
    return list(dict.fromkeys(e.key for e in found))


def most(*bounds: int | None) -> int | None:
    """Return the largest of the bounds that there are, or None."""
    given = [b for b in bounds if b is not None]
    return max(given, default=None)


def less(bound: int | None, amount: int) -> int | None:
    """Return the bound less an amount; no bound stays none."""
    return None if bound is None else bound - amount


def has_reached(bound: int | None, tick: int) -> bool:
    """Whether the bound stands at the tick or after it; no bound reaches nothing."""
    return bound is not None and bound >= tick
