"""Hints of definitions and suites: one with a mistake gives the code, and what the hint says mends it; without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_report
from materializer.core.quality.suite import read
from materializer.core.time.grid import build
from materializer.errors import DefinitionError, Problem
from materializer.errors.explained import all_codes
from tests.hints.cases import CASES
from tests.hints.definitions import COLUMNS, DEFINED, FOLLOWED, HOURS, RESOLVED, ROLLED_UP, SESSIONS, SUITES, days
from tests.hints.elsewhere import FAMILIES, followed_elsewhere
from tests.services.no_spark import Lake


def problems(text: str) -> list[Problem]:
    """Return the problems of a definition, its warnings among them."""
    try:
        return list(parse_report(text).warnings)
    except DefinitionError as exc:
        return list(exc.problems)


def resolved(text: str) -> list[Problem]:
    """Return the problems that only the columns of a source tell."""
    [spec] = parse_report(text).specs
    try:
        found = resolve(spec, COLUMNS)
        build(found.grid, found.time_type, found.resolution)
    except DefinitionError as exc:
        return list(exc.problems)
    return []


def of_suite(text: str) -> list[Problem]:
    """Return the problems of a suite."""
    try:
        read(text, columns=["x", "y"], parameters={})
    except DefinitionError as exc:
        return list(exc.problems)
    return []


@pytest.mark.parametrize(
    ("family", "code"),
    [
        *(("parsed", code) for code in FOLLOWED),
        *(("resolved", code) for code in RESOLVED),
        *(("suite", code) for code in SUITES),
    ],
)
def test_a_hint_is_followed(family: str, code: str) -> None:
    """
    What the hint, or where there is none the message, leads to has no problem; with the mistake in it has this one.
    """
    table, asked, name = {
        "parsed": (FOLLOWED, problems, "definition"),
        "resolved": (RESOLVED, resolved, "definition"),
        "suite": (SUITES, of_suite, "suite"),
    }[family]
    right, text, mistake = table[code]
    found = asked(right.replace(text, mistake, 1))

    assert f"{name}.{code}" in [p.code for p in found], [(p.code, p.message) for p in found]
    assert family != "parsed" or all(p.hint for p in found), "the message alone says what to write only of values"
    assert [] == [(p.code, p.message) for p in asked(right)]


@pytest.mark.parametrize("code", ROLLED_UP)
def test_a_hint_about_an_aggregate_over_another_is_followed(tmp_path: Path, code: str) -> None:
    """
    The same of definitions that read an aggregate; what is refused is not there, and what the hint leads to is.
    """
    lake = Lake(tmp_path)
    lake.apply(HOURS)
    right, text, mistake = ROLLED_UP[code]
    with pytest.raises(DefinitionError) as caught:
        lake.apply(right.replace(text, mistake, 1))
    [problem] = caught.value.problems

    assert f"definition.{code}" == problem.code, problem.message
    assert problem.hint
    lake.apply(right)
    assert ["days", "hours"] == lake.names


@pytest.mark.parametrize("code", DEFINED)
def test_a_hint_about_arguments_is_followed(tmp_path: Path, code: str) -> None:
    """
    The same of definitions in Python.
    """
    lake = Lake(tmp_path)
    right, mistake = DEFINED[code]
    with pytest.raises(DefinitionError) as caught:
        lake.opened.define("x", "raw", **mistake)

    assert f"definition.{code}" in [p.code for p in caught.value.problems], caught.value.problems
    lake.opened.define("x", "raw", **right)
    assert ["x"] == lake.names


def test_what_reads_a_wrong_definition_waits_for_it(tmp_path: Path) -> None:
    """
    `definition.source-refused`: with its parent corrected the child is accepted.
    """
    lake = Lake(tmp_path)
    refused = lake.refused(HOURS.replace("sum(v)", "sum(w)"), days())
    lake.apply(HOURS, days())

    assert "definition.source-refused" in [code for code, _ in refused]
    assert ["days", "hours"] == lake.names


def test_the_output_of_an_engine_is_aggregated_instead(tmp_path: Path) -> None:
    """
    `definition.rollup-engine`: an engine has no partials, and its output has columns.
    """
    lake = Lake(tmp_path)
    lake.apply(SESSIONS)
    at = "time_bucket('1 day', window_start)"
    refused = lake.refused(days(at=at, source="sessions"))
    lake.apply(days("sum(v)", at=at, source="sessions"))

    assert "definition.rollup-engine" in [code for code, _ in refused]
    assert ["days", "sessions"] == lake.names


REST = {
    "definition.grid": "stands for what no other code of a grid names, and its hint names the part",
    "definition.name-taken": "needs another process at the same moment; its hint is to apply again",
    "definition.width-zero": "SQL and Python refuse such a width as `definition.width` before a grid is made",
    "definition.invalid-expression": "the message is Spark's, and its hint to correct what that says",
}
"""Codes whose hint is not followed, and why."""


def test_every_code_of_a_definition_is_followed() -> None:
    """
    Here, among the commands, or by a test with the mark `follows_hint`; what is left has a reason.
    """
    tables = [*FOLLOWED, *RESOLVED, *ROLLED_UP, *DEFINED, "source-refused", "rollup-engine"]
    here = {*(f"definition.{code}" for code in tables), *(f"suite.{code}" for code in SUITES)}
    asked = {code for code in all_codes() if code.startswith(FAMILIES)}

    assert asked == {code for code in {*here, *CASES, *followed_elsewhere(), *REST} if code.startswith(FAMILIES)}
    assert set() == REST.keys() & (here | CASES.keys() | followed_elsewhere().keys())
