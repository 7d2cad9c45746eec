"""The typed compiler: an expression of Spark's SQL as one of DuckDB with the same value, or a refusal.

Each form and each function of the proven set is a method or an entry of :mod:`.functions` and :mod:`.aggregates`; whatever has
none raises :class:`NotLocal`. ``tests/local`` compares each entry with Spark over generated values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import sqlglot
from msgspec import Struct
from msgspec.structs import replace
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from materializer.core.dialect import SparkSql
from materializer.local import aggregates, functions
from materializer.local.arithmetic import (
    SMALLEST,
    arithmetic,
    compared_as,
    comparison,
    negated,
    positive_modulo,
    try_divide,
)
from materializer.local.kinds import BOOLEAN, DOUBLE, STRING, Kind, NotLocal, common, decimal, kind_of, quoted
from materializer.local.patterns import of_java
from materializer.local.refused import called, no_form, text_of
from materializer.local.scope import Scope
from materializer.local.typed import LIMITS, NULL, Typed, cast, number, text_literal, written

_ARITHMETIC: Final = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "div", exp.Mod: "%"}
_COMPARISONS: Final = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_BITS: Final = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|"}
_CASTS: Final = frozenset({"bigint", "int", "smallint", "tinyint", "double", "float", "boolean", "string", "date"})
_NOT_ANSI: Final = re.compile(r"\btry_(cast|to_|add|subtract|multiply|mod|sum|avg|element_at)", re.IGNORECASE)
_SHORT: Final = re.compile(r"""'[^']*[\\]|\br'|"|/\*\+""", re.IGNORECASE)
_READ: Final = frozenset(
    [
        "this",
        "expression",
        "expressions",
        "typed",
        "safe",
        "big_int",
        "coalesce",
        "ignore_nulls",
        "to",
        "nulls_excluded",
        "nulls_first",
        "quantile",
        "accuracy",
        "deterministic",
        "decimals",
        "low",
        "high",
        "ifs",
        "default",
        "true",
        "false",
        "unit",
        "start",
        "end",
        "step",
        "offset",
        "length",
        "initial",
        "merge",
        "finish",
        "table",
        "db",
        "catalog",
        "quoted",
        "is_string",
        "negate",
        "flatten",
        "zone",
    ]
)
"""The parts of nodes that are read here; a node with another part is refused."""
_WORDS: Final = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER})
_TYPE_WORDS: Final = re.compile(r"\w+")


def compiled(sql: str, scope: Scope) -> Typed:
    """Return an expression of Spark's SQL for DuckDB.

    Args:
        sql: The text.
        scope: The columns that it may name.

    Raises:
        NotLocal: If a part of it is outside the proven set.
    """
    return Compiler(scope).of(parsed(sql))


@lru_cache(maxsize=1_000)
def parsed(sql: str) -> exp.Expr:
    """Return the tree of a text, which callers only read: each refresh of an aggregate has much the same texts."""
    if _NOT_ANSI.search(sql) or _SHORT.search(sql):
        what = "texts with a backslash, as" if "\\" in sql else "the text"
        raise NotLocal(f"{what} {sql}")  # what the parser reads like something else
    try:
        tree = sqlglot.parse_one(sql, read=SparkSql)
        lost = _words(sql) - Counter(_words_of(tree))
    except SqlglotError as exc:
        raise NotLocal(f"the text of {sql!r}") from exc
    if lost:
        raise NotLocal(f"{', '.join(lost)} in {sql!r}")
    if _has_chain(tree):
        raise NotLocal(f"the order of {sql!r}, which has no brackets")
    return tree


def _has_chain(tree: exp.Expr) -> bool:
    """Return whether the result of a predicate is an operand without brackets, which Spark reads in another order than the parser, or refuses.

    ``a = b > c`` is ``(a = b) > c`` there, and ``a IN (1) IS NULL`` is an error.
    """
    return any(
        isinstance(node.parent, exp.Binary | exp.In | exp.Between) and not isinstance(node.parent, exp.Connector)
        for node in tree.find_all(exp.Predicate, exp.Not)
        if not isinstance(node.parent, exp.Escape)  # LIKE … ESCAPE
    )


def _words(sql: str) -> Counter[str]:
    """Return the literals and names of a text; the parser drops arguments that it does not expect."""
    tokens = sqlglot.tokenize(sql, read=SparkSql)
    after = [*(t.token_type for t in tokens[1:]), None]
    words = (t for t, then in zip(tokens, after, strict=True) if then is not TokenType.L_PAREN)
    return Counter(t.text.lower() for t in words if t.token_type in _WORDS)


def _words_of(tree: exp.Expr) -> Iterator[str]:
    for node in tree.walk():
        if isinstance(node, exp.Literal | exp.Identifier | exp.Var):
            yield str(node.this).lower()
        elif isinstance(node, exp.DataType):
            yield from (part.lower() for part in _TYPE_WORDS.findall(_type_text(node)))


class Compiler(Struct, frozen=True):
    """Compiles the nodes of a parsed expression.

    Args:
        scope: The names that they may use.
    """

    scope: Scope

    def of(self, node: Any) -> Typed:
        """Return the DuckDB form of a node.

        Raises:
            NotLocal: If it is outside the proven set.
        """
        kind = type(node)
        if unread := {name for name, value in node.args.items() if value} - _READ:
            raise NotLocal(f"{', '.join(sorted(unread))} of {called(node)}")
        if kind in _ARITHMETIC:
            if any(isinstance(side, exp.Interval) for side in (node.this, node.expression)):
                raise NotLocal("arithmetic with an interval")
            return arithmetic(_ARITHMETIC[kind], self.of(node.this), self.of(node.expression))
        if kind in _COMPARISONS:
            return comparison(_COMPARISONS[kind], self.of(node.this), self.of(node.expression))
        if kind in _BITS:
            return self._bits(_BITS[kind], node)
        if aggregates.is_aggregate(node):
            if not self.scope.are_rows:
                raise NotLocal("an aggregate inside another")
            return aggregates.compiled(node, Compiler(replace(self.scope, are_rows=False)))
        method = getattr(self, f"_{kind.__name__.lower()}", None)
        if method is not None:
            found: Typed = method(node)
            return found
        return functions.compiled(node, self)

    def condition(self, node: Any) -> str:
        """Return the DuckDB form of a boolean node."""
        found = self.of(node)
        if found.kind not in {BOOLEAN, NULL.kind}:
            raise NotLocal(f"a condition of type {found.kind.text}")
        return found.sql

    def names(self, count: int) -> list[str]:
        """Return names for the variables of a lambda that nothing around it has."""
        depth = len(self.scope.variables)
        return [f"mz_{depth + i}" for i in range(count)]

    def with_variables(self, variables: Mapping[str, Typed]) -> Compiler:
        """Return the compiler inside a lambda."""
        inner = {**self.scope.variables, **{name.lower(): value for name, value in variables.items()}}
        return Compiler(replace(self.scope, variables=inner))

    # -- names and literals ----------------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Typed:
        names = [part.name for part in node.parts]
        found = self.scope.find(names[0])
        if found is None:
            raise NotLocal(f"the name {text_of(node)}")
        for name in names[1:]:
            found = member(found, name)
        return found

    def _identifier(self, node: exp.Identifier) -> Typed:
        found = self.scope.find(node.name)
        if found is None:
            raise NotLocal(f"the name {node.name}")
        return found

    def _dot(self, node: exp.Dot) -> Typed:
        return member(self.of(node.this), node.expression.name)

    def _paren(self, node: exp.Paren) -> Typed:
        inside = self.of(node.this)
        return Typed(f"({inside.sql})", inside.kind, inside.literal)

    def _literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return Typed(text_literal(node.this), STRING)
        text = str(node.this)
        if text.isdigit():
            return number(int(text))
        if "e" in text.lower():
            raise NotLocal(f"the number {text}")
        digits = Decimal(text).as_tuple()
        scale = -int(digits.exponent)
        kind = decimal(max(len(digits.digits), scale), scale)
        return Typed(f"CAST('{text}' AS {kind.duck})", kind)

    def _boolean(self, node: exp.Boolean) -> Typed:
        return Typed("true" if node.this else "false", BOOLEAN)

    def _null(self, _: exp.Null) -> Typed:
        return NULL

    def _neg(self, node: exp.Neg) -> Typed:
        value = self.of(node.this)
        if isinstance(node.this, exp.Literal) and value.literal in SMALLEST:
            raise NotLocal(f"the number -{value.literal}")  # Spark reads the sign with it, and types it as one
        return negated(value)

    # -- logic -----------------------------------------------------------------------------------------------------------

    def _and(self, node: exp.And) -> Typed:
        return Typed(f"({self.condition(node.this)} AND {self.condition(node.expression)})", BOOLEAN)

    def _or(self, node: exp.Or) -> Typed:
        return Typed(f"({self.condition(node.this)} OR {self.condition(node.expression)})", BOOLEAN)

    def _not(self, node: exp.Not) -> Typed:
        return Typed(f"(NOT {self.condition(node.this)})", BOOLEAN)

    def _is(self, node: exp.Is) -> Typed:
        value = self.of(node.this)
        match node.expression:
            case exp.Null():
                return Typed(f"({value.sql} IS NULL)", BOOLEAN)
            case exp.Boolean(this=wanted) if value.kind == BOOLEAN:
                return Typed(f"({value.sql} IS {'TRUE' if wanted else 'FALSE'})", BOOLEAN)
        raise no_form(node)

    def _between(self, node: exp.Between) -> Typed:
        value = self.of(node.this)
        low = comparison(">=", value, self.of(node.args["low"]))
        high = comparison("<=", value, self.of(node.args["high"]))
        return Typed(f"({low.sql} AND {high.sql})", BOOLEAN)

    def _in(self, node: exp.In) -> Typed:
        if not node.expressions:
            raise NotLocal("IN with a query")
        values = [self.of(node.this), *map(self.of, node.expressions)]
        kind = compared_as(values)
        first, *rest = [cast(v, kind).sql for v in values]
        return Typed(f"({first} IN ({', '.join(rest)}))", BOOLEAN)

    def _like(self, node: exp.Like) -> Typed:
        value, pattern = self.of(node.this), node.expression
        is_plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.this
        if value.kind != STRING or not is_plain:
            raise no_form(node)
        sign = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return Typed(f"({value.sql} {sign} {text_literal(pattern.this)})", BOOLEAN)

    def _regexplike(self, node: exp.RegexpLike) -> Typed:
        value, pattern = self.of(node.this), node.expression
        if value.kind != STRING or not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise NotLocal(f"rlike {text_of(pattern)}")
        return Typed(f"regexp_matches({value.sql}, {text_literal(of_java(pattern.this))})", BOOLEAN)

    # -- choices ---------------------------------------------------------------------------------------------------------

    def _if(self, node: exp.If) -> Typed:
        no = node.args.get("false")
        return self._chosen([(self.condition(node.this), self.of(node.args["true"]))], no)

    def _case(self, node: exp.Case) -> Typed:
        arms = []
        for arm in node.args["ifs"]:
            if node.this is None:
                test = self.condition(arm.this)
            else:
                test = comparison("=", self.of(node.this), self.of(arm.this)).sql
            arms.append((test, self.of(arm.args["true"])))
        return self._chosen(arms, node.args.get("default"))

    def _chosen(self, arms: list[tuple[str, Typed]], default: Any) -> Typed:
        otherwise = NULL if default is None else self.of(default)
        kind = common([*(value.kind for _, value in arms), otherwise.kind])
        texts = " ".join(f"WHEN {test} THEN {cast(value, kind).sql}" for test, value in arms)
        return Typed(f"(CASE {texts} ELSE {cast(otherwise, kind).sql} END)", kind)

    def _coalesce(self, node: exp.Coalesce) -> Typed:
        values = [self.of(node.this), *map(self.of, node.expressions)]
        kind = common([v.kind for v in values])
        return Typed(f"coalesce({', '.join(cast(v, kind).sql for v in values)})", kind)

    def _nullif(self, node: exp.Nullif) -> Typed:
        value = self.of(node.this)
        test = comparison("=", value, self.of(node.expression))
        return Typed(f"(CASE WHEN {test.sql} THEN NULL ELSE {value.sql} END)", value.kind)

    # -- numbers ---------------------------------------------------------------------------------------------------------

    def _safedivide(self, node: exp.SafeDivide) -> Typed:
        return try_divide(self.of(node.this), self.of(node.expression))

    def _bits(self, operator: str, node: exp.Binary) -> Typed:
        a, b = self.of(node.this), self.of(node.expression)
        kind = common([a.kind, b.kind])
        if not kind.is_integer:
            raise NotLocal(f"{a.kind.text} {operator} {b.kind.text}")
        return Typed(f"({cast(a, kind).sql} {operator} {cast(b, kind).sql})", kind)

    def _bitwisenot(self, node: exp.BitwiseNot) -> Typed:
        value = self.of(node.this)
        if not value.kind.is_integer:
            raise NotLocal(f"~{value.kind.text}")
        return Typed(f"(~{value.sql})", value.kind)

    def _cast(self, node: exp.Cast) -> Typed:
        to = kind_of(_type_text(node.to))
        match node.this:
            case exp.Literal(is_string=True, this=text):
                return written(text, to)
            case exp.Literal(is_string=False, this=text) if str(text).isdigit():
                value = number(int(text))
                if to.is_integer and int(text) >= LIMITS[to.name]:
                    raise NotLocal(f"the number {text} as a {to.text}")
                made = cast(value, to)
                return replace(made, literal=value.literal) if to.is_integer else made
            case exp.Literal(is_string=False, this=text) if to == DOUBLE:
                return Typed(f"CAST('{text}' AS DOUBLE)", to)
        return cast(self.of(node.this), to)

    _trycast = _cast  # how the parser reads CAST of Spark; TRY_CAST was refused before

    # -- structs and lists -----------------------------------------------------------------------------------------------

    def _struct(self, node: exp.Struct) -> Typed:
        fields = []
        for part in node.expressions:
            if not isinstance(part, exp.PropertyEQ):
                raise no_form(node)
            fields.append((part.this.name, self.of(part.expression)))
        if any(value.kind == NULL.kind for _, value in fields):
            raise NotLocal("a struct with a bare NULL")
        packed = ", ".join(f"{quoted(name)} := {value.sql}" for name, value in fields)
        kind = Kind("struct", fields=tuple((n, v.kind) for n, v in fields))
        return Typed(f"struct_pack({packed})", kind, fields=tuple(v.sql for _, v in fields))

    def _array(self, node: exp.Array) -> Typed:
        values = [self.of(e) for e in node.expressions]
        kind = common([v.kind for v in values])
        return Typed(f"[{', '.join(cast(v, kind).sql for v in values)}]", Kind("array", element=kind))

    def _bracket(self, node: exp.Bracket) -> Typed:
        value = self.of(node.this)
        index = node.expressions[0]
        is_first = isinstance(index, exp.Literal) and index.this == "0"
        if value.kind.element is None or not is_first:
            raise no_form(node)
        return Typed(f"list_extract({value.sql}, 1)", value.kind.element)

    def _anonymous(self, node: exp.Anonymous) -> Typed:
        name, given = str(node.this).lower(), node.expressions
        if name == "pmod" and len(given) == 2:
            return positive_modulo(*map(self.of, given))
        if name in _CASTS and len(given) == 1:
            return self._cast(exp.Cast(this=given[0], to=exp.DataType.build(name, dialect="spark")))
        return functions.compiled(node, self)


def member(value: Typed, name: str) -> Typed:
    """Return a field of a struct, or of each struct in a list.

    Raises:
        NotLocal: If there is no such field.
    """
    of, element = value.kind, value.kind.element
    if element is not None and (found := element.field(name)):
        field_sql = f"struct_extract(mz_s, {text_literal(found[0])})"
        return Typed(f"list_transform({value.sql}, lambda mz_s: {field_sql})", Kind("array", element=found[1]))
    found = of.field(name)
    if found is None:
        raise NotLocal(f"the field {name}")
    return Typed(f"struct_extract({value.sql}, {text_literal(found[0])})", found[1])


def _type_text(node: exp.DataType) -> str:
    text = node.sql(dialect="spark").lower().replace(", ", ",")
    return {"timestamp_ltz": "timestamp"}.get(text, text)
