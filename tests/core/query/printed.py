"""A query as text, for people and tests: one line for each node, those that it takes before it."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.query.nodes import Explode, Filter, GroupBy, Join, Named, Over, Project, Query, Union
from materializer.core.spec.table_names import quoted


def printed(query: Query) -> str:
    """Return the text of a query; a node that several others take stands there once.

    Examples:
        >>> rows = Named("raw", (("k", "string"), ("t", "bigint")))
        >>> print(printed(rows.where("t > 0").group(["k"], [("n", "count(*)")])))
        1: raw
        2: 1 where t > 0
        3: 2 group by k: n = count(*)
    """
    places: dict[int, int] = {}
    lines: list[str] = []

    def place(node: Query) -> int:
        if id(node) not in places:
            of = [place(taken) for taken in node.inputs]
            lines.append(f"{len(lines) + 1}: {_line(node, of)}")
            places[id(node)] = len(lines)
        return places[id(node)]

    place(query)
    return "\n".join(lines)


def _line(node: Query, of: Sequence[int]) -> str:
    match node:
        case Named():
            return node.name
        case Project():
            new = [(n, text) for n, text in node.columns if text not in {n, quoted(n)}]
            gone = [n for n in node.input.names if n not in node.names]
            what = [_columns(new), f"without {', '.join(gone)}" if gone else ""]
            return f"{of[0]} select {'; '.join(filter(None, what))}"
        case Filter():
            return f"{of[0]} where {node.test}"
        case GroupBy():
            by = ", ".join(name if text == quoted(name) else f"{name} = {text}" for name, text in node.by)
            return f"{of[0]} group by {by}" + (f": {_columns(node.columns)}" if node.columns else "")
        case Over():
            order = f" order by {', '.join(node.order)}" if node.order else ""
            frame = "" if node.frame is None else " {} {} to {}".format(*node.frame)
            return f"{of[0]} over {', '.join(node.by)}{order}{frame}: {_columns(node.columns)}"
        case Explode():
            return f"{of[0]} explode{'_outer' * node.outer} {node.name} = {node.values}"
        case Join():
            how = "join" if node.how == "inner" else f"{node.how} join"
            return f"{of[0]} {how} {of[1]} on {' and '.join(map(' '.join, node.on))}"
        case Union():
            return f"union of {', '.join(map(str, of))}"
    raise TypeError(node)


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in columns)
