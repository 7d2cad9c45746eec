"""Mistakes that people make while they type a statement: all that is wrong is said at once, each at its place, with what mends it."""

from __future__ import annotations

from typing import Final

import pytest

from materializer.core.language.parse import parse_report
from materializer.errors import DefinitionError, Problem
from tests.hints.definitions import by, view

_DAY: Final = "write date_trunc('day', ts)"
_ENGINE: Final = "let the engine `reactive_state` compute it"
MISTAKES: Final = {
    "one wrong letter": (view("sun(price) AS t"), "unknown-function", "sun", "did you mean `sum` or `sin`?"),
    "another order of letters": (view("cuont(*) AS n"), "unknown-function", "cuont", "did you mean `count`?"),
    "a name of other systems": (view("averge(price) AS t"), "unknown-function", "averge", "did you mean `avg`?"),
    "a misspelled bucket": (by("time_bukcet('1 hour', ts)"), "no-bucket", "time_bukcet", "did you mean `time_bucket`?"),
    "a cast to a day": (by("ts::date"), "no-bucket", "ts::date", _DAY),
    "another cast to a day": (by("CAST(ts AS DATE)"), "no-bucket", "CAST", _DAY),
    "a function of days": (by("to_date(ts)"), "no-bucket", "to_date", _DAY),
    "milliseconds": (by("window(timestamp_millis(at), '1 hour').start"), "time-column", "timestamp_millis", "divide at, with the property 'time.resolution' = 'ms'"),
    "an alias that is a column": (
        view(bucket="window.start AS b, coalesce(sym, '') AS sym", group="window(ts, '1 minute'), 2, sym"),
        "ambiguous-group",
        "sym\n\n",
        "add `sym AS sym_1` to SELECT; or give the expression a name that is no column",
    ),
    "an alias in place of its expression": (
        view(bucket="window.start AS b, coalesce(sym, '') AS sym", group="window(ts, '1 minute'), sym"),
        "ambiguous-group",
        "sym\n\n",
        "add `sym AS sym_1` to SELECT, and let `coalesce(sym, '')` stand in GROUP BY; or give the expression a name that is no column",
    ),
    "a digit more": (view("sum0(price) AS t"), "unknown-function", "sum0", "use Spark's built-in functions"),
    "a function that fails": (view("max(raise_error(sym)) AS t"), "unknown-function", "raise_error", "let a suite look at the rows: 'quality.source_suite' names one"),
    "a function of Spark": (view("max(time_trunc('HOUR', at)) AS t"), "unknown-function", "time_trunc", "compute it when the rows are written"),
    "an interval": (by("window(ts, INTERVAL 1 HOUR)"), "width", "INTERVAL", "write '1 hour'"),
    "an interval in quotes": (by("window(ts, '1 hour', INTERVAL '1 hour')"), "width", "INTERVAL", "write '1 hour'"),
    "an interval of silence": (view(bucket="session_window.start AS b, sym", group="session_window(ts, INTERVAL '2' HOURS), sym"), "width", "INTERVAL", "write '2 hours'"),
    "months and days": (by("window(ts, '1 month 2 days')"), "width", "'1 month", "write months, in time_bucket, or days and shorter lengths: a bucket of both has no fixed edges"),
    "OVER": (view("avg(price) OVER (PARTITION BY sym) AS m"), "window-function", "OVER", _ENGINE),
    "OVER without groups": ("CREATE MATERIALIZED VIEW x AS SELECT ts, avg(price) OVER (ORDER BY ts) AS m FROM trades", "window-function", "OVER", _ENGINE),
    "months of silence": (
        view(bucket="session_window.start AS b, sym", group="session_window(ts, '1 month'), sym"),
        "engine-parameter",
        "'1 month'",
        "",
    ),
}  # fmt: skip
"""By name: the statement, the code, the text at the place, and the hint."""


def problems(text: str) -> list[Problem]:
    """Return the problems of a text."""
    with pytest.raises(DefinitionError) as caught:
        parse_report(text)
    return list(caught.value.problems)


def place(text: str, of: str) -> tuple[int, int]:
    """Return the line and column at which a text holds another one."""
    at = text.index(of)
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


@pytest.mark.parametrize("name", MISTAKES)
def test_one_mistake_is_one_problem(name: str) -> None:
    """
    At its place, with what mends it, and with no second problem that is none.
    """
    text, code, of, hint = MISTAKES[name]
    [problem] = problems(text)

    assert f"definition.{code}" == problem.code
    assert place(text, of) == (problem.line, problem.column)
    assert hint in problem.hint


def test_a_backslash_that_takes_a_quote_hides_nothing() -> None:
    """
    The literal is named in which it happens, not the last one, and what is wrong behind it, too.
    """
    text = view("count_if(note = 'C:\\') AS n, smu(price) AS t")
    literal, name = problems(text)

    assert place(text, "'C:") == (literal.line, literal.column)
    assert "a backslash takes the quote after it" in literal.hint
    assert (place(text, "smu"), "did you mean `sum`?") == ((name.line, name.column), name.hint)


def test_an_escaped_quote_is_not_blamed() -> None:
    """
    Of a text with one and another literal that is never closed, the place is that of the latter.
    """
    text = view("count_if(note = 'it\\'s') AS n, count_if(note = 'a) AS m", group="1")
    [literal] = problems(text)

    assert place(text, "'a) AS m") == (literal.line, literal.column)
    assert "close it" == literal.hint


def test_what_stands_before_an_unclosed_literal_is_read() -> None:
    """
    The statements before it are checked as if it were not there.
    """
    text = view("smu(price) AS t") + ";\n" + view("count_if(note = 'a) AS m", name="more", group="1")
    name, literal = problems(text)

    assert (2, "did you mean `sum`?") == (len({literal.line, name.line}), name.hint)


def test_a_missing_semicolon_is_named_where_it_lacks() -> None:
    """
    And both statements are read: the second one's own problems are its own.
    """
    text = view("smu(price) AS t") + view("cuont(*) AS n", name="more")
    found = sorted(problems(text), key=lambda problem: (problem.line, problem.column))

    last = text[: text.index("CREATE", 1)].split()[-1]
    assert ["did you mean `sum`?", f"write `;` after `{last}`", "did you mean `count`?"] == [p.hint for p in found]
    at = text.rindex(last, 0, text.index("CREATE", 1))
    assert (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)) == (found[1].line, found[1].column)


@pytest.mark.parametrize("broken", ["sum(price AS u", "sum(price) AS u FROM more"])
def test_a_misspelled_name_is_found_beside_clauses_that_cannot_be_read(broken: str) -> None:
    """
    It does not come up only after the rest is mended.
    """
    found = problems(view(f"smu(price) AS t, {broken}"))

    assert {"definition.syntax", "definition.unknown-function"} == {problem.code for problem in found}


@pytest.mark.parametrize("literal", ["count_if(note = 'a') AS n", "count_if(note = 'C:\\') AS n"])
def test_a_comment_that_ends_with_a_backslash_is_a_problem(literal: str) -> None:
    """
    Also beside a literal that a backslash leaves open; nothing else is read then.
    """
    text = view(f"{literal}, -- C:\\\nmax(price) AS top")

    assert ["definition.syntax"] == [problem.code for problem in problems(text)]
