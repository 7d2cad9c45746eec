"""Reads definitions from SQL: reports all problems of all statements at once, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import TokenType

from materializer.core.aggregates.parts import column_of
from materializer.core.aggregates.registry import find
from materializer.core.aggregates.rollup import calls_of
from materializer.core.dialect import is_name
from materializer.core.language.assemble import assemble
from materializer.core.language.draft import Draft
from materializer.core.language.engine_statement import engine_of_draft
from materializer.core.language.statement import EngineDraft, read_statement
from materializer.core.spec.spec import AggregateSpec
from materializer.core.sql.functions import misspelled, misspelled_as
from materializer.core.sql.tokens import Fragment, Refused, Script, words
from materializer.errors import DefinitionError, Problem

_BEGINS: Final = ("CREATE MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW")
_LOST: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\[dDwWsSB.+(])")
"""A backslash that a text in quotes does not keep, before what it escapes in patterns."""
_NAMED: Final = re.compile(r"\bVIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)", re.IGNORECASE)
"""The name that a statement which cannot be read would define."""


class ParseReport(Struct, frozen=True):
    """Definitions that may be applied, with warnings about parts that may fail later."""

    specs: tuple[AggregateSpec, ...]
    warnings: tuple[Problem, ...]
    pieces: tuple[str, ...] = ()
    """Of each definition, the text from the end of the one before it to its semicolon; "" for the last, if it has no semicolon."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the other statements."""
    wrong: frozenset[str] = frozenset()
    """The names that these would define, in small letters, as far as they can be read."""


def parse_definitions(text: str, *, file: str = "", known_python: frozenset[str] = frozenset()) -> list[AggregateSpec]:
    """Return the one or more definitions in *text*; each ends at a semicolon or at the end of the text.

    Args:
        text: `CREATE MATERIALIZED VIEW` statements and comments.
        file: Name of the file that holds the text, shown in problems.
        known_python: Names of the user's Python aggregates.

    Raises:
        DefinitionError: With all problems of all statements, if there is any.
    """
    return list(parse_report(text, file=file, known_python=known_python).specs)


def parse_report(text: str, file: str = "", *, known_python: frozenset[str] = frozenset()) -> ParseReport:
    """Return the definitions in *text* with warnings, such as a division that can fail its bucket.

    Raises:
        DefinitionError: With all problems of all statements, if there is any.
    """
    report = parse_as_far(text, file, known_python=known_python)
    if report.problems:
        raise DefinitionError(report.problems)
    return report


def parse_as_far(text: str, file: str = "", *, known_python: frozenset[str] = frozenset()) -> ParseReport:
    """Return the definitions in *text* that can be read, and what is wrong with the other statements."""
    try:
        return _report(text, file, known_python)
    except RecursionError:
        message, hint = "this is nested too deeply", "write it in fewer brackets"
        return ParseReport((), (), problems=(Problem("definition.syntax", message, hint, file),))


def _report(text: str, file: str, known_python: frozenset[str]) -> ParseReport:
    problems: list[Problem] = []
    warnings: list[Problem] = []
    specs: list[AggregateSpec] = []
    pieces: list[str] = []
    names: set[str] = set()
    wrong: set[str] = set()
    script: Script | None = Script(text, file)
    try:
        Script(text, file).tokens()
    except Refused as refused:
        problems.append(refused.problem)
        script = Script(text, file).mended()
    for statement, piece in _statements(Fragment(script, script.tokens()), problems) if script is not None else ():
        since = len(problems)
        draft = read_statement(statement, problems)
        if draft is None:
            wrong.update(found.lower() for found in _NAMED.findall(statement.text)[:1])
            if "definition.not-a-definition" not in {problem.code for problem in problems[since:]}:
                problems += _misspelled(statement, problems[since:])
            continue
        if draft.name.lower() in names:
            message = f"'{draft.name}' is defined twice"
            problems.append(statement.problem("definition.duplicate-name", message, "rename or remove one"))
        names.add(draft.name.lower())
        if isinstance(draft, EngineDraft):
            spec = engine_of_draft(draft, known_python, problems)
        else:
            spec = assemble(draft, known_python, problems, warnings, since=since)
        if spec is None or len(problems) > since:
            wrong.add(draft.name.lower())
            continue
        specs.append(spec)
        pieces.append(piece)
        warnings += _lost_backslashes(statement)
    every = tuple(_without_repeats(problems))
    return ParseReport(tuple(specs), tuple(warnings), tuple(pieces), every, frozenset(wrong))


def _lost_backslashes(statement: Fragment) -> Iterator[Problem]:
    """Yield a warning for each text with a single backslash before a letter of patterns: to Spark it is the letter alone."""
    for at, token in enumerate(statement.tokens):
        text = statement.script.text[token.start : token.end + 1]
        if token.token_type == TokenType.STRING and text[:1] in "'\"" and (lost := _LOST.search(text)):
            message = f"the backslash of `{lost[1]}` in {text} is lost: Spark reads `{lost[1][1]}`"
            hint = f"write `\\{lost[1]}`, or a class such as [0-9]"
            yield statement.problem("definition.lost-backslash", message, hint, token=at)


def read_again(spec: AggregateSpec, columns: Iterable[str]) -> AggregateSpec:
    """Return a definition as it reads over a source with *columns*: a name is a column there before it is an alias.

    Raises:
        DefinitionError: With what Spark would refuse, or would group by without showing it.
    """
    known = frozenset(name.lower() for name in columns)
    own = {key.name.lower() for key in spec.keys if column_of(key.sql) == key.name.casefold()}
    if not spec.sql or not {name.lower() for name in spec.columns} & known - own:
        return spec
    script, problems = Script(spec.sql), list[Problem]()
    python = frozenset(call.function for call in calls_of(spec) if find(call.function) is None)
    again: AggregateSpec | None = None
    match read_statement(Fragment(script, script.tokens()), problems, known):
        case Draft() as draft:
            again = assemble(draft, python, problems, [])
        case EngineDraft() as draft:
            engine_of_draft(draft, python, problems, known)
    if problems:
        raise DefinitionError(
            _without_repeats([Problem(p.code, f"{spec.name}: {p.message}", p.hint) for p in problems])
        )
    if again is None:
        return spec
    return replace(spec, keys=again.keys, measures=again.measures, having=again.having, reads=again.reads)


def _statements(whole: Fragment, problems: list[Problem]) -> Iterator[tuple[Fragment, str]]:
    """Yield each statement without its semicolon, and the text from the semicolon before it to its own."""
    begin = end = 0
    for at, token in enumerate(whole.tokens):
        if token.token_type == TokenType.SEMICOLON:
            if at > begin:
                yield whole.part(begin, at), whole.script.text[end : token.end + 1].strip()
            begin, end = at + 1, token.end + 1
        elif at > begin and words(whole.tokens[at : at + 5]).startswith(_BEGINS):
            last = whole.tokens[at - 1].text
            message, hint = f"a `;` is missing after `{last}`: another definition begins", f"write `;` after `{last}`"
            problems.append(whole.problem("definition.syntax", message, hint, token=at - 1))
            yield whole.part(begin, at), ""
            begin = at
    if begin < len(whole):
        yield whole.part(begin), ""


def _misspelled(statement: Fragment, found: list[Problem]) -> Iterator[Problem]:
    """Yield the misspelled functions of a statement whose clauses could not be read, except where a problem was found."""
    places = {(problem.line, problem.column) for problem in found}
    for name, following in zip(statement.tokens, statement.tokens[1:], strict=False):
        if following.token_type == TokenType.L_PAREN and is_name(name) and misspelled_as(name.text.lower()):
            problem = statement.script.problem(
                name.start,
                "definition.unknown-function",
                f"no function `{name.text.lower()}` is allowed in a definition",
                misspelled(name.text.lower(), frozenset()),
            )
            if (problem.line, problem.column) not in places:
                yield problem


def _without_repeats(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
