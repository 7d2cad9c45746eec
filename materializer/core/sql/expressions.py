"""The parts of an expression (columns, functions, aggregate calls), and whether a definition may contain them.

Function calls are found in the tokens. Columns are found in the syntax tree, which can tell them from lambda variables,
units and types. Everything outside the allow-list of :mod:`materializer.core.sql.functions` is refused, each kind with its
own code.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar, Final

from msgspec import Struct
from sqlglot import Token, TokenType, exp

from materializer.core.dialect import is_name
from materializer.core.sql import foreign
from materializer.core.sql import functions as known
from materializer.core.sql.tokens import Fragment, Refused, fragment_of, string_value
from materializer.errors import Problem
from materializer.structs import ComparedInPart

_NOT_FUNCTIONS: Final = known.names_in(
    "and or not in then when else end case between like ilike rlike regexp is by where on select group escape using from "
    "distinct order having as values within over with div except interval union intersect nulls both leading trailing"
)
CLOCK: Final = known.NON_DETERMINISTIC - known.names_in("ai_query http_request sleep")
"""What checks may call beside the functions of definitions."""
_CLOCK: Final = known.names_in("now curdate current_date current_timestamp current_time localtimestamp getdate sysdate")
"""Functions that give the time of the query."""
_OF_QUERIES: Final = (
    known.SCALARS
    | known.BUCKETS
    | known.AGGREGATES
    | known.UNSUPPORTED_AGGREGATES.keys()
    | known.GENERATORS
    | known.WINDOW_ONLY
    | CLOCK
    | known.names_in("grouping grouping_id range exists")
)
"""The functions of a query of a suite, which may also ask what time it is."""
_CLAUSES: Final = known.names_in(
    "pivot unpivot tablesample sets cube rollup lateral table only all any some limit offset partition rows qualify on join minus repeatable"
)
"""Words before a bracket in a query that are no functions."""
OVER: Final = "aggregate instead, or let the engine `reactive_state` compute it row by row: 'engine' = 'reactive_state'"
"""What mends a window function."""
_UNIT_FIRST: Final = known.names_in("timestampdiff timestampadd")
_UNIT_FIRST_OF_THREE: Final = known.names_in("date_add dateadd datediff date_diff")


class Vocabulary(Struct, frozen=True):
    """Names with a meaning in one definition.

    Args:
        qualifiers: Lower-case names of the source that may stand before a column.
        python: Lower-case names of the user's Python aggregates.
    """

    qualifiers: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()

    def is_aggregate(self, name: str) -> bool:
        """Whether *name* (in lower case) is an aggregate."""
        return name in known.AGGREGATES or name in self.python


class FunctionUse(Struct, frozen=True):
    """A function call: indexes of its name, of its closing bracket, and of its last token (that of FILTER and the like)."""

    name: str
    at: int
    closing: int
    last: int


class ColumnUse(Struct, frozen=True):
    """A column: its name without qualifier, and the indexes of the qualifier, of the column and of its last field."""

    name: str
    at: int
    head: int
    last: int


class Expression(ComparedInPart, Struct, frozen=True):
    """An expression with its parts; all indexes are into ``fragment.tokens``.

    Args:
        fragment: The expression without its alias.
        functions: All function calls, in order.
        calls: The aggregate calls among them that lie in no other aggregate call.
        columns: Columns, in order.
        problems: The problems of the expression.
    """

    _UNCOMPARED: ClassVar = frozenset({"problems"})

    fragment: Fragment
    functions: tuple[FunctionUse, ...]
    calls: tuple[FunctionUse, ...]
    columns: tuple[ColumnUse, ...]
    tree: exp.Expression
    problems: tuple[Problem, ...] = ()

    @property
    def text(self) -> str:
        """The text as written, without qualifiers of the source."""
        return self.cut(0, len(self.fragment) - 1)

    def cut(self, first: int, last: int) -> str:
        """Return the text of the tokens *first* to *last*, both included, without qualifiers of the source."""
        tokens = self.fragment.tokens
        return self.slice(tokens[first].start, tokens[last].end + 1) if first <= last else ""

    def slice(self, start: int, stop: int) -> str:
        """Return the text between two offsets of the script, without qualifiers of the source."""
        text, tokens = "", self.fragment.tokens
        for column in self.columns:
            hole, end = tokens[column.at].start, tokens[column.head].start
            if hole < end and start <= hole and end <= stop:
                text, start = text + self.fragment.script.text[start:hole], end
        return text + self.fragment.script.text[start:stop]

    def chain(self, column: ColumnUse) -> tuple[str, ...]:
        """Return the normal form of a column with its fields, without qualifier."""
        return self.fragment.part(column.head, column.last + 1).normal

    @property
    def normal(self) -> tuple[str, ...]:
        """The normal form of the text, without qualifiers of the source."""
        skipped = {at for c in self.columns for at in range(c.at, c.head)}
        return tuple(word for at, word in enumerate(self.fragment.normal) if at not in skipped)

    @property
    def column_names(self) -> frozenset[str]:
        """The names of all columns, as written."""
        return frozenset(c.name for c in self.columns)

    @property
    def outer_columns(self) -> tuple[ColumnUse, ...]:
        """The columns outside of all aggregate calls."""
        return tuple(c for c in self.columns if not any(use.at <= c.at <= use.last for use in self.calls))


def examine(fragment: Fragment, vocabulary: Vocabulary) -> Expression:
    """Find the parts of an expression and check them against the allow-list.

    Raises:
        Refused: If the fragment is not one expression; smaller problems are in ``problems`` of the result.
    """
    for at, token in enumerate(fragment.tokens):
        if token.token_type == TokenType.SELECT:
            raise fragment.refused(
                "definition.sub-query", "a sub-query may not stand in a definition", "join or filter upstream", token=at
            )
    tree = fragment.tree()
    if isinstance(tree, exp.Alias):
        raise fragment.refused(
            "definition.syntax", f"`{fragment.text}` has an alias where none can stand", "take the alias away"
        )
    functions = tuple(_functions(fragment))
    aggregates = [use for use in functions if vocabulary.is_aggregate(use.name)]
    calls = tuple(u for u in aggregates if not any(o.at < u.at <= o.last for o in aggregates))
    columns = tuple(_columns(fragment, tree, functions, vocabulary))
    problems = [
        *_function_problems(fragment, functions, vocabulary),
        *_nesting_problems(fragment, aggregates, calls),
        *_token_problems(fragment, functions, columns),
    ]
    return Expression(fragment, functions, calls, columns, tree, tuple(problems))


def _functions(fragment: Fragment) -> Iterator[FunctionUse]:
    tokens = fragment.tokens
    for at in range(len(tokens) - 1):
        if tokens[at + 1].token_type != TokenType.L_PAREN or not is_name(tokens[at]):
            continue
        name = tokens[at].text.lower()
        before = tokens[at - 1] if at else None
        word = before.text.lower() if before is not None else ""
        if tokens[at].token_type != TokenType.IDENTIFIER and name in _NOT_FUNCTIONS:
            continue
        if before is not None and (
            before.token_type in (TokenType.DCOLON, TokenType.ALIAS)
            or (name == "filter" and _ends_call(fragment, at - 1))
            or (name in ("any", "some", "all") and word in ("like", "ilike"))
        ):
            continue
        closing = fragment.closing(at + 1)
        yield FunctionUse(name, at, closing, _last(fragment, closing))


def _ends_call(fragment: Fragment, at: int) -> bool:
    token = fragment.tokens[at]
    return token.token_type == TokenType.R_PAREN or token.text.lower() == "nulls"


def _last(fragment: Fragment, closing: int) -> int:
    """Return the index of the last token of a call, including WITHIN GROUP, FILTER and IGNORE NULLS after it."""
    tokens, at = fragment.tokens, closing
    while True:
        following = [t.text.lower() for t in tokens[at + 1 : at + 4]]
        if following[:2] == ["filter", "("]:
            at = fragment.closing(at + 2)
        elif following == ["within", "group", "("]:
            at = fragment.closing(at + 3)
        elif following[:2] in (["ignore", "nulls"], ["respect", "nulls"]):
            at += 2
        else:
            return at


def _columns(
    fragment: Fragment, tree: exp.Expression, functions: tuple[FunctionUse, ...], vocabulary: Vocabulary
) -> Iterator[ColumnUse]:
    tokens = fragment.tokens
    index = {token.start: at for at, token in enumerate(tokens)}
    units = {use.at + 2 for use in functions if _has_unit(fragment, use)}
    found: dict[int, ColumnUse] = {}
    for node in tree.find_all(exp.Column):
        starts = [part.meta["start"] for part in node.parts if "start" in part.meta]
        if not starts or min(starts) not in index:
            continue
        at = head = last = index[min(starts)]
        while last + 2 < len(tokens) and tokens[last + 1].token_type == TokenType.DOT and is_name(tokens[last + 2]):
            last += 2
        if last > at and tokens[at].text.lower() in vocabulary.qualifiers:
            head = at + 2
        if at not in units:
            found[at] = ColumnUse(tokens[head].text, at, head, last)
    yield from (found[at] for at in sorted(found))


def _has_unit(fragment: Fragment, use: FunctionUse) -> bool:
    if use.name in _UNIT_FIRST:
        return True
    return use.name in _UNIT_FIRST_OF_THREE and len(fragment.part(use.at + 2, use.closing).split()) == 3


def _function_problems(
    fragment: Fragment, functions: tuple[FunctionUse, ...], vocabulary: Vocabulary
) -> Iterator[Problem]:
    for use in functions:
        refusal = _refusal(fragment, use, vocabulary)
        if refusal:
            yield fragment.problem(*refusal, token=use.at)


def _refusal(fragment: Fragment, use: FunctionUse, vocabulary: Vocabulary) -> tuple[str, str, str] | None:
    name, tokens = use.name, fragment.tokens
    if use.at and tokens[use.at - 1].token_type == TokenType.DOT:
        return (
            "definition.unknown-function",
            f"`{name}` is a function of a catalog; only Spark's own can be called",
            "write it out",
        )
    if name in vocabulary.python:
        return None
    if name in known.NON_DETERMINISTIC or (name == "unix_timestamp" and use.closing == use.at + 2):
        hint = (
            "take it away: 'refresh.start_offset' and 'output.retention' go with the clock"
            if name in _CLOCK
            else "compute it when the rows are written"
        )
        return "definition.non-deterministic", f"`{name}` does not depend on the row alone", hint
    if name in known.REFLECTION:
        return (
            "definition.reflection",
            f"`{name}` calls arbitrary code",
            "use a Python aggregate, or compute it upstream",
        )
    if name in known.GENERATORS:
        return "definition.generator", f"`{name}` makes several rows of one", "unnest when the rows are written"
    if name in known.WINDOW_ONLY:
        return (
            "definition.window-function",
            f"`{name}` is a window function",
            "aggregate instead, with first, last, min_by or max_by",
        )
    if name == "session_window":
        return "definition.misplaced-bucket", "`session_window` may stand in GROUP BY only", "group by it"
    if name in known.UNSUPPORTED_AGGREGATES:
        return (
            "definition.unsupported-aggregate",
            f"the aggregate `{name}` is not supported: {known.UNSUPPORTED_AGGREGATES[name]}",
            "register a Python aggregate",
        )
    if name in known.SCALARS or name in known.BUCKETS or vocabulary.is_aggregate(name):
        return None
    if name in known.OTHERS:
        hint = "compute it when the rows are written"
        if name in known.CHECKS:
            hint = "let a suite look at the rows: 'quality.source_suite' names one"
        return "definition.unknown-function", f"Spark's `{name}` is not allowed in a definition", hint
    return (
        "definition.unknown-function",
        f"no function `{name}` is allowed in a definition",
        foreign.function(name) or known.misspelled(name, vocabulary.python) or "use Spark's built-in functions",
    )


def _nesting_problems(
    fragment: Fragment, aggregates: list[FunctionUse], calls: Iterable[FunctionUse]
) -> Iterator[Problem]:
    for use in aggregates:
        outer = next((o for o in calls if o.at < use.at <= o.last), None)
        if outer:
            message = f"the aggregate `{use.name}` stands inside the aggregate `{outer.name}`"
            yield fragment.problem(
                "definition.nested-aggregate", message, "make the inner one an aggregate of its own", token=use.at
            )


def _token_problems(
    fragment: Fragment, functions: tuple[FunctionUse, ...], columns: tuple[ColumnUse, ...]
) -> Iterator[Problem]:
    tokens = fragment.tokens
    alone = [use for use in functions if use.closing == use.at + 3]
    stars = {use.at + 2 for use in alone if use.name == "count" or known.misspelled_as(use.name) == "count"}
    for at, token in enumerate(tokens):
        word, before = token.text.lower(), tokens[at - 1] if at else None
        if word == "over" and before is not None and _ends_call(fragment, at - 1) and at + 1 < len(tokens):
            yield fragment.problem("definition.window-function", "`OVER` makes a window function", OVER, token=at)
        if token.token_type == TokenType.STAR and _is_all_columns(fragment, at) and at not in stars:
            yield fragment.problem("definition.star", "`*` may stand in count(*) only", "name the columns", token=at)
        literal = string_value(token)
        is_typed = before is not None and before.text.lower().startswith(("date", "timestamp"))
        if is_typed and literal is not None and literal.strip().lower() in known.MOVING_LITERALS:
            message = f"the literal '{literal}' does not depend on the row alone"
            yield fragment.problem("definition.non-deterministic", message, "write the date out", token=at)
    for column in columns:
        if column.name.lower() == "_metadata" or (
            column.name.lower() in known.BARE_NON_DETERMINISTIC
            and tokens[column.head].token_type != TokenType.IDENTIFIER
        ):
            message = f"`{column.name}` does not depend on the values of the row alone"
            yield fragment.problem(
                "definition.non-deterministic", message, "compute it when rows are written", token=column.at
            )


def _is_all_columns(fragment: Fragment, at: int) -> bool:
    """Whether the star means columns and not a product."""
    tokens = fragment.tokens
    before = (TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.DISTINCT)
    return at == 0 or tokens[at - 1].token_type in before


def attempt(problems: list[Problem], fragment: Fragment, vocabulary: Vocabulary) -> Expression | None:
    """Examine a fragment and add its problems to *problems*; None when it is no expression."""
    try:
        expression = examine(fragment, vocabulary)
    except Refused as refused:
        problems.append(refused.problem)
        return None
    problems.extend(expression.problems)
    return expression


def refused_calls(text: str, more: Collection[str] = ()) -> Iterator[str]:
    """Yield what a text calls and may not call, in words; a text that cannot be read is refused as a whole.

    Args:
        text: Spark SQL.
        more: Further names that may be called, in lower case.
    """
    try:
        fragment = fragment_of(text, "")
    except Refused as refused:
        yield refused.problem.message
        return
    for at, token in enumerate(fragment.tokens):
        if token.token_type in (TokenType.SELECT, TokenType.SEMICOLON):
            yield f"`{token.text}` may not stand in an expression"
        if token.token_type == TokenType.L_PAREN and at and fragment.tokens[at - 1].token_type == TokenType.STRING:
            yield "a text is called"
    for use in _functions(fragment):
        refusal = None if use.name in more else _refusal(fragment, use, Vocabulary())
        if refusal is not None:
            yield refusal[1]


def _names_columns(tokens: Sequence[Token], use: FunctionUse) -> bool:
    """Return whether a name with a bracket is that of a table with its columns: ``WITH t (a, b) AS``, ``(…) t(a, b)``."""
    is_named = use.closing + 1 < len(tokens) and tokens[use.closing + 1].token_type == TokenType.ALIAS
    return is_named or (use.at > 0 and tokens[use.at - 1].token_type == TokenType.R_PAREN)


def refused_in_query(text: str) -> Iterator[str]:
    """Yield what a query does beside reading with functions of Spark, in words."""
    try:
        fragment = fragment_of(text, "")
    except Refused as refused:
        yield refused.problem.message
        return
    tokens = fragment.tokens
    first = next((t.text.lower() for t in tokens if t.token_type != TokenType.L_PAREN), "")
    if first not in ("select", "with", "from", "values", "table"):
        yield f"`{first}` begins no query"
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        word = "" if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else token.text.lower()
        following = "" if after is None or after.token_type == TokenType.STRING else after.text.lower()
        if token.token_type == TokenType.SEMICOLON and after is not None:
            yield "a query is one statement"
        if word == "insert" and following in ("into", "overwrite"):
            yield "`INSERT` writes"
        if word == "using" and after is not None and string_value(after) is not None:
            yield "`USING` with a text runs a program"
    for use in _functions(fragment):
        if use.at and tokens[use.at - 1].token_type == TokenType.DOT:
            yield f"`{use.name}` is a function of a catalog; only Spark's own can be called"
        elif use.name in known.REFLECTION:
            yield f"`{use.name}` calls arbitrary code"
        elif use.name not in _OF_QUERIES and use.name not in _CLAUSES and not _names_columns(tokens, use):
            yield f"no function `{use.name}` is known"
