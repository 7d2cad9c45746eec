"""Reading suites: what is taken, and everything that is refused, at once and with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from materializer.core.quality.suite import Suite, read
from materializer.core.quality.verdict import Severity
from materializer.errors import DefinitionError, Problem

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"


def entry(name: str = NOT_NULL, **more: Any) -> dict[str, Any]:
    """An expectation, by default a good one about the column `x`."""
    return {"type": name, "kwargs": more.pop("kwargs", {"column": "x"}), **more}


def text(*entries: Any, **more: Any) -> str:
    """A suite as JSON."""
    return json.dumps({"name": "daily", "expectations": list(entries), **more})


def refused(suite: str, **more: Any) -> list[Problem]:
    """The problems that a suite is refused with."""
    with pytest.raises(DefinitionError) as raised:
        read(suite, **more)
    return list(raised.value.problems)


def test_a_suite_is_what_great_expectations_writes():
    """
    Everything its JSON may hold is taken; a severity that is not given is critical.
    """
    suite = read(
        text(
            entry(severity="warning", meta={"owner": "me"}, id=None, notes="n", description="d"),
            entry(BETWEEN, kwargs={"column": "x", "min_value": 0, "max_value": None, "mostly": 0.9}),
            meta={"great_expectations_version": "1.24.1"},
            id=None,
        ),
        columns=["x"],
    )

    assert ("daily", 2) == (suite.name, len(suite.expectations))
    assert (Severity.WARNING, {"owner": "me"}) == (suite.expectations[0].severity, suite.expectations[0].meta)
    assert (Severity.CRITICAL, {"column": "x", "min_value": 0, "mostly": 0.9}) == (
        suite.expectations[1].severity,
        suite.expectations[1].kwargs,
    )


def test_json_that_is_none_is_refused_with_its_place():
    """
    A missing comma is reported with file, line and column.
    """
    (problem,) = refused('{"name": "x"\n  "expectations": []}', file="expectations/x.json")

    assert "suite.syntax" == problem.code
    assert ("expectations/x.json", 2, 3) == (problem.file, problem.line, problem.column)


def test_a_single_backslash_is_told_how_it_is_written():
    """
    A pattern as people write it elsewhere is no JSON.
    """
    (problem,) = refused(r'{"expectations": [{"kwargs": {"regex": "\d"}}]}')

    assert ("suite.syntax", True) == (problem.code, r"as in '\\d'" in problem.hint)


@pytest.mark.parametrize(
    ("suite", "code", "says"),
    [
        ("[]", "suite.shape", "a list"),
        ('{"expectations": []}', "suite.shape", "name"),
        ('{"name": "x"}', "suite.shape", "list of expectations"),
        (text(severities=1), "suite.shape", "severities"),
        (text(3), "suite.shape", "object"),
        (text(entry(severty="info")), "suite.shape", "did you mean `severity`"),
        (text(entry(kwargs=[])), "suite.missing-argument", "column"),
        (text(entry(kwargs=["x"])), "suite.shape", "kwargs"),
        (text(entry(severity="fatal")), "suite.severity", "info, warning, critical"),
        (text(entry("expect_column_values_to_not_be_nul")), "suite.unknown-expectation", f"did you mean `{NOT_NULL}`"),
        (text(entry("expect_column_values_to_be_increasing")), "suite.not-on-spark", "unexpected_rows_expectation"),
        (text(entry(kwargs={})), "suite.missing-argument", "`column`"),
        (text(entry(kwargs={"column": "x", "mostely": 1})), "suite.unknown-argument", "did you mean `mostly`"),
        (text(entry(kwargs={"column": "x", "mostly": 95})), "suite.value", "between 0 and 1"),
        (text(entry(kwargs={"column": ["x"]})), "suite.value", "a column"),
        (text(entry(kwargs={"column": "X"})), "suite.unknown-column", "did you mean `x`"),
        (
            text(entry("expect_compound_columns_to_be_unique", kwargs={"column_list": "x"})),
            "suite.value",
            "a list of columns",
        ),
        (
            text(entry("expect_compound_columns_to_be_unique", kwargs={"column_list": ["x", "q"]})),
            "suite.unknown-column",
            "`q`",
        ),
        (text(entry(BETWEEN)), "suite.missing-argument", "min_value"),
        (text(entry(BETWEEN, kwargs={"column": "x", "min_value": 2, "max_value": 1})), "suite.value", "above"),
        (
            text(entry(BETWEEN, kwargs={"column": "x", "min_value": 2, "strict_min": "false"})),
            "suite.value",
            "true or false",
        ),
        (text(entry(kwargs={"column": {"$PARAMETER": "c"}})), "suite.parameter", "`c`"),
    ],
)
def test_what_is_wrong_is_named(suite: str, code: str, says: str):
    """
    Each kind of mistake has its code, and says what was found or what to write.
    """
    (problem,) = refused(suite, columns=["x", "y"], parameters={})

    assert code == problem.code
    assert says in str(problem)


def test_every_problem_is_told_at_once_with_its_line():
    """
    Two wrong expectations of one file give both problems, each at the line its expectation begins on.
    """
    suite = '{\n "name": "x",\n "expectations": [\n  {"type": "expect_nothing"},\n  {"type": "%s", "kwargs": {}}\n ]\n}'

    assert [(4, 3, "suite.unknown-expectation"), (5, 3, "suite.missing-argument")] == [
        (p.line, p.column, p.code) for p in refused(suite % NOT_NULL)
    ]


def test_parameters_are_filled_before_anything_runs():
    """
    A suite knows its parameters; bound, its arguments are plain values, and values are checked like written ones.
    """
    suite = read(text(entry(BETWEEN, kwargs={"column": "x", "min_value": {"$PARAMETER": "low"}, "max_value": 9})))
    bound = suite.bound({"low": 3, "unused": 1})

    assert {"low"} == suite.parameters
    assert {"column": "x", "min_value": 3, "max_value": 9} == bound.expectations[0].kwargs
    assert frozenset() == bound.parameters
    with pytest.raises(DefinitionError, match="above max_value"):
        suite.bound({"low": 10})
    with pytest.raises(DefinitionError, match="`low`"):
        suite.bound({})


def test_an_empty_suite_is_a_suite():
    """
    No expectations is fine: it finds nothing.
    """
    assert Suite("daily", ()) == read(text(), columns=[], parameters={})
