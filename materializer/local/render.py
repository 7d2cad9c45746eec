"""Carry out a query of :mod:`materializer.core.query` in this process: as one statement of DuckDB, and passes before it.

Each text of Spark SQL is written as its form of the proven set. A text or a node without one leaves the whole query to Spark.
"""

# ruff: noqa: PLC0415 - windows and passes load the parser, and few queries have them

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.query.nodes import (
    EQUAL,
    Explode,
    Filter,
    Frame,
    GroupBy,
    Join,
    Named,
    Over,
    Pass,
    Project,
    Query,
    Union,
)
from materializer.core.spec.table_names import quoted as spark_quoted
from materializer.local.compiled_before import compiled
from materializer.local.kinds import BOOLEAN, DOUBLE, Kind, NotLocal, kind_of, quoted
from materializer.local.scope import Scope
from materializer.local.typed import Typed, same_zero

if TYPE_CHECKING:
    from materializer.local.passes import OverDoubles, Passed

Kinds = Mapping[str, Kind]
_PLACE = "mz_place"
_KEY = "mz_key_"


class Statement(Struct, frozen=True):
    """A query for DuckDB.

    Args:
        sql: The text.
        kinds: The type of each column.
        passes: The rows that it takes and that have to be made before, in order.
    """

    sql: str
    kinds: Kinds
    passes: tuple[Passed, ...] = ()


def rendered(query: Query, given: Mapping[str, str] | None = None) -> Statement:
    """Return a query as a statement over tables that have the names of its rows.

    Args:
        query: The query.
        given: SQL of rows that are no table.

    Raises:
        NotLocal: If a part of it has no local form.
    """
    uses: Counter[int] = Counter()
    known: dict[int, tuple[str, Kinds]] = {}
    steps: list[str] = []
    passes: list[Passed] = []

    def count(node: Query) -> None:
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            for taken in node.inputs:
                count(taken)

    def render(node: Query) -> tuple[str, Kinds]:
        if id(node) not in known:
            of = [render(taken) for taken in node.inputs]
            if isinstance(node, Named):
                rows = f"({given[node.name]})" if given and node.name in given else quoted(node.name)
                known[id(node)] = rows, {name: kind_of(kind) for name, kind in node.columns}
            elif (found := _passed(node, f"mz_pass{len(passes)}", *of)) is not None:
                passed, kinds = found
                passes.append(replace(passed, sql=f"{_before(steps)}{passed.sql}"))
                known[id(node)] = passed.name, kinds
            else:
                sql, kinds = _node(node, [name for name, _ in of], [kinds for _, kinds in of])
                name = f"mz_q{len(steps)}"
                is_shared = " MATERIALIZED" if uses[id(node)] > 1 else ""
                steps.append(f"{name} AS{is_shared} ({sql})")
                known[id(node)] = name, kinds
        return known[id(node)]

    count(query)
    last, kinds = render(query)
    return Statement(f"{_before(steps)}SELECT * FROM {last}", kinds, tuple(passes))


def _before(steps: Sequence[str]) -> str:
    return f"WITH {', '.join(steps)} " if steps else ""


def _passed(node: Query, name: str, *of: tuple[str, Kinds]) -> tuple[Passed, Kinds] | None:
    """Return the pass that makes the rows of a node, and their types; None where DuckDB makes them."""
    if isinstance(node, Pass):
        from materializer.local.passes import Passed

        made = {**of[0][1], **{column: kind_of(kind) for column, kind in node.made}}
        sql = _in_order(Over(node.input, node.by, (node.place,), None, ()), *of[0])
        return Passed(name, sql, _PLACE, tuple(made), folds=node.folds), made
    if not isinstance(node, Over):
        return None
    from materializer.local.over import of_doubles, over
    from materializer.local.passes import OverDoubles, Passed

    doubles: list[OverDoubles] = []
    (taken, kinds), typed, made = of[0], {}, dict(of[0][1])
    for column, text in node.columns:
        found = of_doubles(text, Scope(kinds), node.frame)
        if found is None:
            typed[column] = over(text, Scope(kinds), _window(node, kinds))
            made[column] = typed[column].kind
        else:
            function, value = found
            doubles.append(OverDoubles(column, function, f"mz_double{len(doubles)}", node.frame or ("rows", None, 0)))
            typed[doubles[-1].of] = value
            made[column] = DOUBLE
    if not doubles:
        return None
    return Passed(name, _in_order(node, taken, kinds, _listed(typed)), _PLACE, tuple(made), tuple(doubles)), made


def _in_order(node: Over, of: str, kinds: Kinds, more: str = "") -> str:
    """Return SQL of rows with their number, those of a key one after the other."""
    ordered = _window(replace(node, frame=None), kinds)
    rows = f"SELECT *, {f'{more}, ' if more else ''}row_number() OVER ({ordered}) AS {_PLACE} FROM {of}"
    return f"SELECT * FROM ({rows}) ORDER BY {', '.join([*_by(node.by, kinds), _PLACE])}"


def _node(node: Query, of: Sequence[str], kinds: Sequence[Kinds]) -> tuple[str, Kinds]:
    match node:
        case Project():
            typed = {name: _typed(name, text, kinds[0]) for name, text in node.columns}
            return f"SELECT {_listed(typed)} FROM {of[0]}", _kinds(typed)
        case Filter():
            test = compiled(node.test, Scope(kinds[0]))
            if test.kind != BOOLEAN:
                raise NotLocal(f"a condition of type {test.kind.text}")
            return f"SELECT * FROM {of[0]} WHERE {test.sql}", kinds[0]
        case GroupBy():
            return _group(node, of[0], kinds[0])
        case Over():
            from materializer.local.over import over

            typed = {n: over(text, Scope(kinds[0]), _window(node, kinds[0])) for n, text in node.columns}
            return f"SELECT *, {_listed(typed)} FROM {of[0]}", {**kinds[0], **_kinds(typed)}
        case Explode():
            return _explode(node, of[0], kinds[0])
        case Join():
            on = " AND ".join(_holds(left, operator, right, *kinds) for left, operator, right in node.on)
            if not node.has_both:
                return f"SELECT l.* FROM {of[0]} l {node.how.upper()} JOIN {of[1]} r ON {on}", kinds[0]
            return f"SELECT l.*, r.* FROM {of[0]} l {node.how.upper()} JOIN {of[1]} r ON {on}", {**kinds[0], **kinds[1]}
        case Union():
            return _union(of, kinds)
    raise NotLocal(f"the node {type(node).__name__}")


def _group(node: GroupBy, of: str, kinds: Kinds) -> tuple[str, Kinds]:
    if found := [text for _, text in node.columns if any(call in text for call in node.foreign)]:
        raise NotLocal(f"{found[0]}, which only a session of Spark knows")
    keys = {name: _typed(name, text, kinds) for name, text in node.by}
    typed = {name: compiled(text, Scope(kinds, are_rows=True)) for name, text in node.columns}
    # the keys are made first, because the text of one may be long; a column of the rows has no such name
    made = {f"{_KEY}{i}": Typed(same_zero(key), key.kind) for i, key in enumerate(keys.values())}
    rows = f"(SELECT *, {_listed(made)} FROM {of})" if made else of
    listed = {name: Typed(ours, key.kind) for ours, (name, key) in zip(made, keys.items(), strict=True)} | typed
    by = f" GROUP BY {', '.join(made)}" if made else ""
    return f"SELECT {_listed(listed)} FROM {rows}{by}", _kinds(listed)


def _explode(node: Explode, of: str, kinds: Kinds) -> tuple[str, Kinds]:
    values = compiled(node.values, Scope(kinds))
    if values.kind.element is None:
        raise NotLocal(f"explode of {values.kind.text}")
    listed = f"CASE WHEN len({values.sql}) > 0 THEN {values.sql} ELSE [NULL] END" if node.outer else values.sql
    return f"SELECT *, unnest({listed}) AS {quoted(node.name)} FROM {of}", {**kinds, node.name: values.kind.element}


def _union(of: Sequence[str], kinds: Sequence[Kinds]) -> tuple[str, Kinds]:
    wanted = kinds[0]
    for name, kind in wanted.items():
        if other := next((k[name].text for k in kinds if k.get(name, kind) != kind), None):
            raise NotLocal(f"a column {name} of {kind.text} and of {other}")
    rows = [
        ", ".join(quoted(n) if n in own else f"NULL::{kind.duck} AS {quoted(n)}" for n, kind in wanted.items())
        for own in kinds
    ]
    parts = [f"SELECT {columns} FROM {part}" for columns, part in zip(rows, of, strict=True)]
    return " UNION ALL ".join(parts), wanted


def _window(node: Over, kinds: Kinds) -> str:
    by = ", ".join(_by(node.by, kinds))
    if found := next((kinds[n] for n in node.order if kinds[n].name in {"struct", "array"}), None):
        raise NotLocal(f"the order of a {found.text}")
    order = ", ".join(f"{quoted(name)} NULLS FIRST" for name in node.order)
    parts = [f"PARTITION BY {by}" if by else "", f"ORDER BY {order}" if order else ""]
    return " ".join(filter(None, [*parts, "" if node.frame is None else _framed(node.frame)]))


def _by(names: Sequence[str], kinds: Kinds) -> list[str]:
    return [same_zero(Typed(quoted(name), kinds[name])) for name in names]


def _framed(frame: Frame) -> str:
    kind, first, last = frame
    return f"{kind.upper()} BETWEEN {_bound(first, 'PRECEDING')} AND {_bound(last, 'FOLLOWING')}"


def _bound(at: int | None, unbounded: str) -> str:
    if at is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if at == 0 else f"{-at} PRECEDING" if at < 0 else f"{at} FOLLOWING"


def _holds(left: str, operator: str, right: str, *kinds: Kinds) -> str:
    if kinds[0][left] != kinds[1][right]:
        raise NotLocal(f"a join of {kinds[0][left].text} and {kinds[1][right].text}")
    sign = "IS NOT DISTINCT FROM" if operator == EQUAL else operator
    mine, theirs = (
        same_zero(Typed(f"{side}.{quoted(name)}", of[name]))
        for side, name, of in (("l", left, kinds[0]), ("r", right, kinds[1]))
    )
    return f"{mine} {sign} {theirs}"


def _typed(name: str, text: str, kinds: Kinds) -> Typed:
    if name in kinds and text == spark_quoted(name):
        return Typed(quoted(name), kinds[name])
    return compiled(text, Scope(kinds))


def _listed(typed: Mapping[str, Typed]) -> str:
    return ", ".join(f"{found.sql} AS {quoted(name)}" for name, found in typed.items())


def _kinds(typed: Mapping[str, Typed]) -> Kinds:
    return {name: found.kind for name, found in typed.items()}
