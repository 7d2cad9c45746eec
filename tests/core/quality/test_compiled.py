"""What expectations compile to, and how the values are judged; whether Spark agrees is tests/adapters/great_expectations."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from materializer.core.codec import as_json, from_json
from materializer.core.quality.checks import Check
from materializer.core.quality.compiled import compiled, plain
from materializer.core.quality.suite import Expectation
from materializer.core.quality.verdict import Finding, Severity, Verdict

COLUMNS = {"k": "int", "x": "double", "s": "string", "t": "timestamp", "d": "date", "b": "boolean", "l": "array<int>"}
MAX = "expect_column_max_to_be_between"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"


def expectation(name: str, **kwargs: Any) -> Expectation:
    """A critical expectation."""
    return Expectation(0, name, kwargs)


def check(name: str, **kwargs: Any) -> Check:
    """What an expectation compiles to; it must."""
    found = compiled(plain(expectation(name, **kwargs), COLUMNS), COLUMNS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("unexpected", "mostly", "success"), [(0, 1.0, True), (1, 1.0, False), (5, 0.95, True), (6, 0.95, False)]
)
def test_mostly_is_a_share_of_the_values_that_are_not_null(unexpected: int, mostly: float, success: bool):
    """
    Of 120 rows, 100 with a value, 5 may be unexpected where 95 percent must be met.
    """
    finding = check(BETWEEN, column="x", min_value=0, mostly=mostly).finding([120, 100, unexpected])

    assert (success, unexpected, 120) == (finding.success, finding.unexpected_count, finding.element_count)


def test_without_values_nothing_is_unexpected():
    """
    An empty frame, and a column of nulls alone, meet what is asked of values; Spark gives null for a count of nothing.
    """
    between = check(BETWEEN, column="x", min_value=0)

    assert between.finding([0, 0, None]).success
    assert between.finding([7, 0, 0]).success


@pytest.mark.parametrize(
    ("found", "kwargs", "success"),
    [
        (None, {"max_value": 9}, False),
        (None, {}, False),
        (float("nan"), {"min_value": 0}, False),
        (9, {"max_value": 9}, True),
        (9, {"max_value": 9, "strict_max": True}, False),
        (1, {"min_value": 1, "strict_min": True}, False),
        (1, {"min_value": 1}, True),
        (Decimal("3.30"), {"max_value": 3.3}, True),
    ],
)
def test_bounds_include_their_ends_unless_strict(found: Any, kwargs: dict[str, Any], success: bool):
    """
    A missing value, of no rows or NaN, meets no bound, not even none.
    """
    assert success is check(MAX, column="x", **kwargs).finding([found]).success


def test_a_time_is_compared_in_utc_whatever_way_it_is_written():
    """
    A date is its midnight and an offset is applied; what was observed is told in the same form.
    """
    bounds = {"min_value": "2024-01-01T02:00:00+02:00", "max_value": "2024-01-02"}
    finding = check(MAX, column="t", **bounds).finding([1_704_067_200_000_000])

    assert (True, "2024-01-01T00:00:00") == (finding.success, finding.observed)
    assert {"min_value": "2024-01-01T00:00:00", "max_value": "2024-01-02T00:00:00"} == {
        k: v for k, v in finding.kwargs.items() if k != "column"
    }


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        (BETWEEN, {"column": "x", "min_value": 1, "row_condition": "k > 1", "condition_parser": "spark"}),
        (BETWEEN, {"column": "x", "min_value": "1"}),
        (BETWEEN, {"column": "x", "min_value": True}),
        (BETWEEN, {"column": "d", "min_value": "2024-01-01T00:00:00"}),
        (BETWEEN, {"column": "s", "min_value": 1}),
        (BETWEEN, {"column": "gone", "min_value": 1}),
        (BETWEEN, {"column": "x", "min_value": {"$PARAMETER": "low"}}),
        (IN_SET, {"column": "s", "value_set": ["a", None]}),
        (IN_SET, {"column": "s", "value_set": [1]}),
        (IN_SET, {"column": "k", "value_set": [True]}),
        (IN_SET, {"column": "d", "value_set": ["2024-01-01"]}),
        (IN_SET, {"column": "s", "value_set": []}),
        ("expect_column_values_to_be_unique", {"column": "l"}),
        ("expect_column_mean_to_be_between", {"column": "s"}),
        ("expect_table_row_count_to_equal", {"value": 4.0}),
        ("expect_column_median_to_be_between", {"column": "x"}),
    ],
)
def test_what_great_expectations_reads_its_own_way_is_left_to_it(name: str, kwargs: dict[str, Any]):
    """
    Nothing is compiled where types do not fit each other or something more than the value decides.
    """
    assert compiled(expectation(name, **kwargs), COLUMNS) is None


def test_names_and_texts_are_quoted():
    """
    A column or a value may hold anything.
    """
    found = compiled(expectation(IN_SET, column="a`b", value_set=["it's \\"]), {"a`b": "string"})

    assert found is not None
    assert found.failing is not None
    assert r"`a``b` IS NOT NULL AND NOT (`a``b` IN ('it\'s \\'))" == found.failing.sql


def test_a_verdict_survives_json_and_knows_its_worst():
    """
    The worst is of what failed; only a critical failure keeps rows from being published.
    """
    findings = [
        Finding(i, "expect_column_to_exist", {"column": "x"}, severity, success)
        for i, (severity, success) in enumerate(
            [(Severity.CRITICAL, True), (Severity.INFO, False), (Severity.WARNING, False)]
        )
    ]
    verdict = Verdict("daily", tuple(findings), {"low": 3})

    assert (Severity.WARNING, True) == (verdict.worst, verdict.is_publishable)
    assert verdict == from_json(Verdict, as_json(verdict))
    assert (None, True) == (Verdict("").worst, Verdict("").is_publishable)


def test_a_query_answers_on_its_way_what_spark_allows_there():
    """
    No window, no distinct values, and no sum of decimals, whose overflow would leave the question without an answer; sums of
    other columns and everything about single rows is answered.
    """
    columns = COLUMNS | {"m": "decimal(10,2)"}

    def metrics(name: str, **kwargs: Any) -> tuple[str, ...]:
        found = compiled(expectation(name, **kwargs), columns)
        assert found is not None
        assert len(found.questions) == len(found.aggregates)
        return found.metrics(columns)

    assert ("count(*)", "count(`s`)") == metrics("expect_column_values_to_be_unique", column="s")
    assert () == metrics("expect_column_unique_value_count_to_be_between", column="s", max_value=3)
    assert () == metrics("expect_column_sum_to_be_between", column="m", max_value=3)
    assert () == metrics("expect_column_mean_to_be_between", column="m", max_value=3)
    assert ("max(`m`)",) == metrics(MAX, column="m", max_value=3)
    assert ("sum(`x`)",) == metrics("expect_column_sum_to_be_between", column="x", max_value=3)
    assert 3 == len(metrics(BETWEEN, column="x", min_value=0))


@pytest.mark.parametrize(
    ("pattern", "asked"),
    [
        (r"^\d{4}-\d\d$", "^[0-9]{4}-[0-9][0-9]$"),
        (r"^[\w.]+@\w+\.com$", "^[a-zA-Z_0-9.]+@[a-zA-Z_0-9]+[.]com$"),
        (r"[^\d]", "[^0-9]"),
        ("[a-b]|x-y", "[a-b]|x-y"),
        ("", ""),
    ],
)
def test_a_pattern_is_asked_for_without_backslashes(pattern: str, asked: str) -> None:
    """
    Classes say the same, and this process reads no text with a backslash.
    """
    found = check("expect_column_values_to_match_regex", column="s", regex=pattern)

    assert found.failing is not None
    assert f"RLIKE '{asked}'" in str(found.failing)


@pytest.mark.parametrize(
    "pattern", [r"\bfoo", r"[a-\d]", r"[\d-z]", "a\\", r"a\\b", r"[\]d\d]", r"\Qa.b\E", r"(?U)^\d$", r"(?iu)\d"]
)
def test_a_pattern_that_needs_its_backslashes_keeps_them(pattern: str) -> None:
    """
    Ranges to or from a class, brackets in a class, edges of words: Spark reads the pattern as it is written.
    """
    found = check("expect_column_values_to_match_regex", column="s", regex=pattern)

    assert found.failing is not None
    assert "0-9" not in str(found.failing)
    assert "RLIKE" in str(found.failing)
