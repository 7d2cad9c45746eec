"""Splits one `CREATE MATERIALIZED VIEW` statement into a draft, by its tokens.

Clauses are found by their keywords outside of brackets, so that an unreadable clause does not hide the problems of the
other clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct, field
from sqlglot import Token, TokenType

from materializer.core.dialect import is_name
from materializer.core.language.assemble import name_problem, plain_name
from materializer.core.language.draft import Draft
from materializer.core.language.properties import PropertyValues, read_properties
from materializer.core.language.selection import group_pieces, rest_of, select_outputs
from materializer.core.spec.spec import CONTINUOUS
from materializer.core.spec.table_names import dotted
from materializer.core.sql import foreign
from materializer.core.sql.expressions import OVER
from materializer.core.sql.tokens import Fragment, Refused, string_value, text_of, words
from materializer.errors import Problem

_ORDER: Final = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING")
_REFUSED_GROUPINGS: Final = ("GROUPING SETS", "ROLLUP", "CUBE", "WITH ROLLUP", "WITH CUBE")
_JOINS: Final = ("JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "OUTER")
_Read = TypeVar("_Read")
_FORM: Final = "CREATE MATERIALIZED VIEW name AS SELECT … FROM … GROUP BY …"


class Source(Struct, frozen=True):
    """The part after FROM: the source as stored, and the names that may qualify its columns."""

    name: str
    qualifiers: frozenset[str]


class _Header(Struct):
    name: str = ""
    comment: str = ""
    properties: list[tuple[str, str, Fragment]] = field(default_factory=list)
    query: int = 0


class EngineDraft(Struct, frozen=True):
    """The definition of an engine, split into its clauses.

    Args:
        name: Name of the aggregate.
        source: The source.
        engine: The engine.
        clauses: The tokens after SELECT, FROM, WHERE and GROUP BY.
        comment: Text for people.
        settings: Settings from the properties.
        place: Start of the definition.
    """

    name: str
    source: Source
    engine: str
    clauses: dict[str, Fragment]
    comment: str
    settings: PropertyValues
    place: Fragment


def read_statement(
    statement: Fragment, problems: list[Problem], columns: frozenset[str] = frozenset()
) -> Draft | EngineDraft | None:
    """Return the draft of a statement; None after adding to *problems* why there is none.

    Args:
        statement: The tokens of the statement without its semicolon.
        problems: List that receives problems, also when a draft is returned.
        columns: Lower-case names of the columns of the source, if they are known.
    """
    try:
        header = _read_header(statement, problems)
    except Refused as refused:
        problems.append(refused.problem)
        return None
    clauses = _clauses(statement.part(header.query), problems)
    implied = _implied_engine(clauses or {})
    settings = read_properties(header.properties, problems, implied)
    if clauses is None:
        return None
    if implied != settings.engine == CONTINUOUS:
        message, hint = f"{implied} stands in GROUP BY, and 'engine' names another", f"write 'engine' = '{implied}'"
        problems.append(clauses["GROUP BY"].problem("definition.engine", message, hint))
        return None
    source = _guarded(problems, lambda: read_source(clauses["FROM"])) or Source("", frozenset())
    where, having = clauses.get("WHERE"), clauses.get("HAVING")
    if settings.engine != CONTINUOUS:
        if words(clauses.get("GROUP BY", statement).tokens) == "DISTINCT":
            problem = "definition.select-distinct", "an engine has no SELECT DISTINCT", "take DISTINCT away"
            problems.append(clauses["GROUP BY"].problem(*problem))
            return None
        if having is not None:
            problems.append(
                having.problem("definition.having", "an engine has no HAVING", "filter when you read its output")
            )
        return EngineDraft(header.name, source, settings.engine, clauses, header.comment, settings, statement)
    group = _guarded(problems, lambda: _group_items(clauses, statement))
    selection = select_outputs(clauses["SELECT"], group, source.qualifiers, problems, columns) if group else None
    if selection is None:
        problems += rest_of(clauses, source.qualifiers)
        return None
    return Draft(
        name=header.name,
        source=source.name,
        qualifiers=source.qualifiers,
        columns=columns,
        time_column=selection.bucket.time_column,
        grid=selection.bucket.grid,
        bucket=selection.bucket.fragment,
        outputs=selection.outputs,
        where=where,
        having=having,
        comment=header.comment,
        settings=settings,
        place=statement,
        sql=statement.text,
        is_origin_text=selection.bucket.is_origin_text,
    )


def split_statement(statement: Fragment) -> tuple[dict[str, Fragment], int]:
    """Return the clauses of a statement that was read before, and where its SELECT begins.

    Raises:
        Refused: If it cannot be read any more.
    """
    problems: list[Problem] = []
    query = statement.part(_read_header(statement, problems).query)
    clauses = _clauses(query, problems)
    if clauses is None or "GROUP BY" not in clauses:
        raise Refused(problems[0] if problems else query.problem("definition.no-bucket", "GROUP BY is missing"))
    return clauses, query.start


def _implied_engine(clauses: Mapping[str, Fragment]) -> str:
    """Return the engine that GROUP BY implies, for a definition without the property ``engine``."""
    starts = [words(piece.tokens[:2]) for piece in group_pieces(clauses)]
    return "session_window" if "SESSION_WINDOW (" in starts else CONTINUOUS


def read_source(fragment: Fragment) -> Source:
    """Return the source after FROM: a name with dots, a path in backticks, or ``delta.`path```, with or without an alias.

    A path is stored without quotes, with a leading ``./`` when it could be read as a name.

    Raises:
        Refused: If FROM holds anything else: a join, a sub-query, a function, another version of a table.
    """
    tokens = fragment.tokens
    if not tokens:
        raise fragment.refused("definition.source", "no source is named", "write FROM and the name of a table")
    depthless = list(fragment.top_level())
    for at in depthless:
        word = tokens[at].text.upper()
        if tokens[at].token_type == TokenType.COMMA or (
            word in _JOINS and at and tokens[at].token_type != TokenType.IDENTIFIER
        ):
            raise fragment.refused(
                "definition.join", "a definition reads one source, no join", "join when the rows are written", token=at
            )
    if tokens[0].token_type == TokenType.L_PAREN:
        raise fragment.refused("definition.sub-query", "the source is a sub-query", "name a table; filter in WHERE")
    parts, at = [tokens[0]], 1
    while at + 1 < len(tokens) and tokens[at].token_type == TokenType.DOT:
        parts.append(tokens[at + 1])
        at += 2
    if not all(is_name(part) for part in parts):
        hint = foreign.source(fragment) or "write a table, or delta.`path`"
        raise fragment.refused("definition.source", f"`{fragment.text}` does not name a source", hint)
    alias = _source_alias(fragment.part(at))
    name = _source_name(fragment, parts)
    qualifiers = {alias.lower()} if alias else {parts[-1].text.lower()}
    return Source(name, frozenset(qualifiers))


def _source_name(fragment: Fragment, parts: list[Token]) -> str:
    last, quoted = parts[-1].text, parts[-1].token_type == TokenType.IDENTIFIER
    looks_like_path = quoted and ("/" in last or ":" in last or "." in last)
    if not all(part.text.strip() for part in parts):
        raise fragment.refused("definition.source", "the source has an empty name", "write a table, or delta.`path`")
    if len(parts) == 2 and parts[0].text.lower() == "delta" and quoted:
        return last if "/" in last or ":" in last else f"./{last}"
    if len(parts) == 2 and looks_like_path:
        raise fragment.refused(
            "definition.source", f"`{parts[0].text}` is no format of a source", "only Delta tables: write delta.`path`"
        )
    if len(parts) == 1 and looks_like_path:
        return last if "/" in last or ":" in last else f"./{last}"
    return last if len(parts) == 1 else dotted(part.text for part in parts)


def _source_alias(rest: Fragment) -> str:
    if not rest.tokens:
        return ""
    named = rest.part(1) if rest.tokens[0].token_type == TokenType.ALIAS else rest
    if len(named) == 1 and is_name(named.tokens[0]):
        return named.tokens[0].text
    text = words(rest.tokens[:3])
    if "AS OF" in text or text.startswith(("FOR ", "@")):
        raise rest.refused("definition.time-travel", "a source is read at its newest version", "take the version away")
    if text.startswith("TABLESAMPLE"):
        raise rest.refused(
            "definition.non-deterministic",
            "a sample of the source is not determined by it",
            "filter by a hash of a column",
        )
    if rest.tokens[0].token_type == TokenType.L_PAREN:
        hint = foreign.source(rest) or "name a table"
        raise rest.refused("definition.source", "the source is a function", hint)
    raise rest.refused(
        "definition.syntax",
        f"`{rest.text}` is not understood after the source",
        "name one table, perhaps with an alias",
    )


def _read_header(statement: Fragment, problems: list[Problem]) -> _Header:
    tokens, header = statement.tokens, _Header()
    at = 1 if words(tokens[:1]) == "CREATE" else 0
    at += 2 if at and words(tokens[at : at + 2]) == "OR REPLACE" else 0
    if not at or words(tokens[at : at + 2]) != "MATERIALIZED VIEW":
        if words(tokens[:1]) == "WITH":
            raise statement.refused("definition.cte", "WITH may not stand in a definition", f"write {_FORM}")
        message = f"a definition begins with CREATE MATERIALIZED VIEW, got `{words(tokens[:3])}`"
        raise statement.refused("definition.not-a-definition", message, foreign.not_a_definition(statement))
    at += 2
    at += 3 if words(tokens[at : at + 3]) == "IF NOT EXISTS" else 0
    at = _read_name(statement, at, header, problems)
    while at < len(tokens) and tokens[at].token_type != TokenType.ALIAS:
        at = _read_option(statement, at, header, problems)
    if at + 1 >= len(tokens):
        raise statement.refused("definition.syntax", "the SELECT is missing", f"write {_FORM}", token=-1)
    header.query = at + 1
    return header


def _read_name(statement: Fragment, at: int, header: _Header, problems: list[Problem]) -> int:
    """Read all tokens of the name up to the next option, so that a name with dots or quotes is refused as a whole."""
    tokens, begin = statement.tokens, at
    if at >= len(tokens) or (
        words(tokens[at : at + 1]) in ("AS", "COMMENT", "TBLPROPERTIES")
        and tokens[at].token_type != TokenType.IDENTIFIER
    ):
        raise statement.refused(
            "definition.bad-name", "the definition has no name", f"write {_FORM}", token=min(at, len(tokens) - 1)
        )
    at += 1
    while at + 1 < len(tokens) and (
        tokens[at].token_type == TokenType.DOT or tokens[at].start == tokens[at - 1].end + 1
    ):
        if tokens[at].token_type == TokenType.L_PAREN:
            break
        at += 1
    name = statement.part(begin, at)
    header.name = tokens[begin].text if len(name) == 1 else name.text
    refusal = name_problem(header.name, "aggregate") if is_name(tokens[begin]) or len(name) > 1 else None
    if refusal:
        problems.append(name.problem(*refusal))
    elif not is_name(tokens[begin]):
        plain = plain_name(tokens[begin].text)
        is_quoted_only = not plain or plain == tokens[begin].text
        hint = (
            "write it without quotes"
            if is_quoted_only
            else f"a name has letters, digits and underscores: write {plain}"
        )
        problems.append(name.problem("definition.bad-name", f"`{name.text}` is no name", hint))
    return at


def _read_option(statement: Fragment, at: int, header: _Header, problems: list[Problem]) -> int:
    tokens, word = statement.tokens, words(statement.tokens[at : at + 1])
    if word == "COMMENT":
        stop = next((i for i in range(at + 1, len(tokens)) if string_value(tokens[i]) is None), len(tokens))
        text = text_of(statement.part(at + 1, stop))
        if text is None:
            raise statement.refused(
                "definition.syntax", "COMMENT needs a text in quotes", "write COMMENT 'text'", token=at
            )
        header.comment = text
        return stop
    if word == "TBLPROPERTIES":
        if at + 1 >= len(tokens) or tokens[at + 1].token_type != TokenType.L_PAREN:
            raise statement.refused(
                "definition.syntax", "TBLPROPERTIES needs a list in brackets", "write ('name' = 'value')", token=at
            )
        closing = statement.closing(at + 1)
        pieces = statement.part(at + 2, closing).split()
        header.properties += [item for piece in pieces if (item := _property(piece, problems))]
        return closing + 1
    message = f"`{tokens[at].text}` is not supported in a definition"
    hint = foreign.option(word)
    raise statement.refused("definition.unsupported-clause", message, hint, token=at)


def _property(piece: Fragment, problems: list[Problem]) -> tuple[str, str, Fragment] | None:
    equals = next((at for at, token in enumerate(piece.tokens) if token.token_type == TokenType.EQ), len(piece))
    name, value = piece.part(0, equals), piece.part(equals + 1)
    if not name.tokens or not value.tokens:
        problems.append(piece.problem("definition.syntax", "a property reads 'name' = 'value'", "add what is missing"))
        return None
    key, text = text_of(name), text_of(value)
    return key or name.text, value.text if text is None else text, piece


def _clauses(query: Fragment, problems: list[Problem]) -> dict[str, Fragment] | None:
    first = words(query.tokens[:1])
    if first != "SELECT":
        code = {"WITH": "definition.cte", "(": "definition.sub-query"}.get(first, "definition.syntax")
        problems.append(
            query.problem(code, f"after AS must stand SELECT, got `{query.tokens[0].text}`", f"write {_FORM}")
        )
        return None
    try:
        query.check_brackets()
    except Refused as refused:
        problems.append(refused.problem)
        return None
    begins: list[tuple[str, int]] = []
    stop = len(query)
    for at in query.top_level():
        word = _clause_word(query, at)
        if (
            word in foreign.CLAUSES
            and begins
            and not (word in ("LATERAL", "WINDOW", "OFFSET") and begins[-1][0] == "SELECT")
        ):
            code, message, hint = foreign.CLAUSES[word]
            problems.append(query.problem(code, message, hint, token=at))
            begins.append((word, at))
            if code == "definition.set-operation":
                stop = at
                break
        elif word in _ORDER:
            if any(name in _ORDER and _ORDER.index(word) <= _ORDER.index(name) for name, _ in begins):
                message = f"a second or misplaced {word}"
                problems.append(
                    query.problem("definition.syntax", message, f"the order is {', '.join(_ORDER)}", token=at)
                )
                return None
            begins.append((word, at))
    ends = [at for _, at in begins[1:]] + [stop]
    clauses = {name: query.part(at + 1, end) for (name, at), end in zip(begins, ends, strict=True)}
    for name in ("WHERE", "HAVING", "GROUP BY", "SELECT"):
        if name in clauses and not clauses[name].tokens:
            at = dict(begins)[name]
            problems.append(
                query.problem(
                    "definition.syntax", f"nothing stands after {name}", "write it, or leave it away", token=at
                )
            )
            return None
    if "FROM" not in clauses:
        problems.append(query.problem("definition.source", "the FROM is missing", f"write {_FORM}"))
        return None
    return clauses if clauses["SELECT"].tokens and _read_distinct(clauses, problems) else None


def _clause_word(query: Fragment, at: int) -> str:
    token = query.tokens[at]
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    word = words((token,))
    before = query.tokens[at - 1] if at else None
    if word == "FROM" and before is not None and before.token_type == TokenType.DISTINCT:
        return ""  # IS [NOT] DISTINCT FROM
    if before is not None and before.token_type in (TokenType.ALIAS, TokenType.DOT):
        return ""
    following = query.tokens[at + 1] if at + 1 < len(query) else None
    if word == "WITH":
        return next((c for n in (2, 3) if (c := words(query.tokens[at : at + n])) in foreign.CLAUSES), "")
    if word == "WINDOW" and (following is None or following.token_type in (TokenType.L_PAREN, TokenType.DOT)):
        return ""
    return word


def _read_distinct(clauses: dict[str, Fragment], problems: list[Problem]) -> bool:
    """Let DISTINCT stand for GROUP BY, and take it out of SELECT; return whether SELECT can be read."""
    items, group = clauses["SELECT"], clauses.get("GROUP BY")
    first = items.tokens[0]
    if first.token_type == TokenType.HINT:
        problems.append(items.problem("definition.unsupported-clause", "hints are not supported", "take the hint away"))
    elif group is not None and group.tokens[0].token_type == TokenType.DISTINCT:
        problems.append(group.problem("definition.syntax", "`DISTINCT` may not stand in GROUP BY", "take it away"))
    elif first.token_type == TokenType.DISTINCT and (group or "HAVING" in clauses):
        message = "SELECT DISTINCT may not stand beside GROUP BY or HAVING"
        hint = "take DISTINCT away: groups are distinct" if group else "write GROUP BY in place of DISTINCT"
        problems.append(items.problem("definition.select-distinct", message, hint))
    else:
        if first.token_type == TokenType.DISTINCT:
            clauses |= {"SELECT": items.part(1), "GROUP BY": items.part(0, 1)}
        return True
    return False


def _group_items(clauses: dict[str, Fragment], statement: Fragment) -> Fragment:
    if "GROUP BY" not in clauses:
        select = clauses["SELECT"]
        over = next((at for at in range(len(select)) if words(select.tokens[at - 1 : at + 2])[:6] == ") OVER"), None)
        if over is not None:
            raise select.refused("definition.window-function", "`OVER` makes a window function", OVER, token=over)
        raise statement.refused(
            "definition.no-bucket", "GROUP BY is missing, so time is not divided", "add GROUP BY window(time, '1 hour')"
        )
    group = clauses["GROUP BY"]
    for at in group.top_level():
        token = group.tokens[at]
        text = words((token,))
        if token.token_type != TokenType.IDENTIFIER and (
            text in _REFUSED_GROUPINGS or words(group.tokens[at : at + 2]) in _REFUSED_GROUPINGS
        ):
            hint = "define one aggregate for each grouping"
            raise group.refused("definition.grouping-sets", f"{text} makes several groupings of one", hint, token=at)
    return group


def _guarded(problems: list[Problem], read: Callable[[], _Read]) -> _Read | None:
    try:
        return read()
    except Refused as refused:
        problems.append(refused.problem)
        return None
