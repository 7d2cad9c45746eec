"""The reactive state engine: one output row an input row, from the rows of its key so far."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from statistics import stdev
from typing import Any, Final

from tests.oracle.engines.metrics import evaluate, of_row
from tests.oracle.engines.rows import Answer, Event, Lateness, RefusedError, Row, in_order, passes


def run(
    events: Sequence[Event],
    metrics: Sequence[Row],
    *,
    keys: Sequence[str] = (),
    lateness: Lateness = "strict",
    where: Sequence[Row] = (),
) -> Answer:
    """Return one row an input row, in the order of rows: by arrival, or by time under ``recompute``.

    Args:
        events: What has arrived.
        metrics: Each over state functions and columns.
        keys: Names of the key columns.
        lateness: ``recompute`` puts rows in the order of their times first.
        where: The engine's ``filter``: what is output, after all states were moved.

    Raises:
        RefusedError: If a metric is an aggregate.
    """
    ordered = in_order(events, lateness) if lateness == "recompute" else list(events)
    answer = Answer()
    for i, event in enumerate(ordered):
        so_far = [e.row for e in ordered[: i + 1] if e.key == event.key]
        values = {m["name"]: state(m["expr"], so_far) for m in metrics}
        if passes({**event.row, **values}, where):
            answer.final.append(dict(zip(keys, event.key, strict=True)) | values)
    return answer


def state(expression: str, rows: Sequence[Row]) -> Any:
    """Return the value of a metric in the last of these rows of one key."""
    tree = ast.parse(expression, mode="eval").body
    constants: dict[str, Any] = {}

    class States(ast.NodeTransformer):
        """Puts the value of each state function in its place."""

        def visit_Call(self, node: ast.Call) -> ast.expr:
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in STATES:
                self.generic_visit(node)
                return node
            values = [of_row(node.args[0], row) for row in rows]
            constants[f"state {len(constants)}"] = STATES[name](
                values, *(evaluate(ast.unparse(a), []) for a in node.args[1:])
            )
            return ast.Name(f"state {len(constants) - 1}")

    try:
        return of_row(States().visit(tree), {**rows[-1], **constants})
    except ValueError as exc:
        raise RefusedError(str(exc)) from exc


def _moving(function: Callable[[list[Any]], Any]) -> Callable[[list[Any], int], Any]:
    """Null in the first n - 1 rows, then the function of the non-null values among the last n rows."""

    def found(x: list[Any], n: int) -> Any:
        there = [v for v in x[-n:] if v is not None]
        return function(there) if len(x) >= n and there else None

    return found


def _running(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """The function of the non-null values so far, null before the first."""

    def found(x: list[Any]) -> Any:
        there = [v for v in x if v is not None]
        return function(there) if there else None

    return found


def _move(x: list[Any], n: int = 1) -> Any:
    return x[-1 - n] if len(x) > n else None


def _deltas(x: list[Any], n: int = 1) -> Any:
    return None if _move(x, n) is None or x[-1] is None else x[-1] - _move(x, n)


def _ratios(x: list[Any]) -> Any:
    return None if not _move(x) or x[-1] is None else x[-1] / _move(x)


def _moving_count(x: list[Any], n: int) -> int | None:
    return len([v for v in x[-n:] if v is not None]) if len(x) >= n else None


STATES: Final[Mapping[str, Callable[..., Any]]] = {
    "mavg": _moving(lambda v: sum(v) / len(v)),
    "msum": _moving(sum),
    "mmin": _moving(min),
    "mmax": _moving(max),
    "cumsum": _running(sum),
    "cumavg": _running(lambda v: sum(v) / len(v)),
    "cummin": _running(min),
    "cummax": _running(max),
    "mstd": _moving(lambda v: stdev(v) if len(v) > 1 else None),
    "mcount": _moving_count,
    "cumcount": lambda x: len([v for v in x if v is not None]),
    "prev": _move,
    "move": _move,
    "deltas": _deltas,
    "ratios": _ratios,
}
"""State functions of the last row of a list. The design page defines ``mavg`` and names cumsum, prev and deltas; ema it only names, so it is not here."""
