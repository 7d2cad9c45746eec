"""Definitions of which this process is certain that Spark takes them, and those that it leaves to Spark."""

from __future__ import annotations

import pytest

from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import AggregateSpec
from materializer.local.described import accepted
from materializer.local.expressions import compiled
from materializer.local.kinds import NotLocal, kind_of
from materializer.local.scope import Scope

SOURCE = (
    *(("ts", "timestamp"), ("sym", "string"), ("v", "bigint"), ("x", "double"), ("flag", "boolean")),
    *(("order id", "bigint"), ("date", "date"), ("größe", "string"), ("a-b", "bigint")),
    *(("a.b", "bigint"), ("x`y", "bigint"), ("1", "bigint")),
)
NAMES = [name for name, _ in SOURCE]
HEAD = "date_trunc('HOUR', ts) AS at"


def spec(select: str) -> AggregateSpec:
    """Return a definition, resolved against the source."""
    return resolve(parse_definitions(f"CREATE MATERIALIZED VIEW v1 AS SELECT {select}")[0], SOURCE)


def test_a_plain_definition_has_its_types() -> None:
    """
    Of its arguments, of its partials and of its output.
    """
    text = f"{HEAD}, sym, avg(x) AS x, sum(v) FILTER (WHERE flag) AS s FROM src WHERE v > 1 GROUP BY 1, sym"
    found = accepted(spec(text), NAMES)

    assert found is not None
    assert (("at", "timestamp"), ("sym", "string"), ("x", "double"), ("s", "bigint")) == found.output_columns
    assert [("double",), ("bigint",)] == [call.types for m in found.spec.measures for call in m.formula.calls]


def test_a_source_may_be_named_by_its_path() -> None:
    """
    As `delta` and a path in backticks, which stands in no expression.
    """
    assert accepted(spec(f"{HEAD}, sum(v) AS s FROM delta.`/data/a b/x.y-z` GROUP BY 1"), NAMES) is not None


def test_having_of_aggregates_is_a_condition() -> None:
    """
    Of calls that SELECT has, and of others.
    """
    text = f"{HEAD}, sum(v) AS s FROM src GROUP BY 1 HAVING count(*) >= 4 AND (max(x) > 1 OR sum(v) < 100)"
    found = accepted(spec(text), NAMES)

    assert found is not None
    assert found.spec.having is not None
    assert [("",), ("double",), ("bigint",)] == [call.types for call in found.spec.having.calls]


@pytest.mark.parametrize(
    "select",
    [
        "sum(v) AS s FROM src WHERE NOT flag GROUP BY 1",
        "sum(v) AS s FROM src WHERE v BETWEEN 1 AND 2 AND NOT flag GROUP BY 1",
        "sum(v) FILTER (WHERE NOT flag) AS s FROM src WHERE v > 1 AND NOT (flag OR v = 3) GROUP BY 1",
        "bool_or(NOT flag) AS s FROM src GROUP BY 1 HAVING NOT (count(*) > 4)",
        "sum(v) AS s FROM src GROUP BY 1 HAVING s > 1",
    ],
)
def test_everyday_conditions_are_accepted(select: str) -> None:
    """
    A negation where a condition may begin, and a name of SELECT in HAVING.
    """
    assert accepted(spec(f"{HEAD}, {select}"), NAMES) is not None


@pytest.mark.parametrize(
    "select",
    [
        "sum(`v`) AS s FROM src GROUP BY 1",
        "`größe` AS size, max(`order id`) AS `most` FROM src WHERE `a-b` > 1 GROUP BY 1, `größe`",
        "`date` AS `day`, count_if(`flag`) AS n FROM `src` GROUP BY 1, 2",
        "`date`, sum(`a-b` + `order id`) AS `total` FROM src GROUP BY 1, `date` HAVING count(*) > 1",
    ],
)
def test_quoted_names_are_accepted(select: str) -> None:
    """
    As nearly all are: of words, with spaces and hyphens between them.
    """
    assert accepted(spec(f"{HEAD}, {select}"), NAMES) is not None


def test_sketches_have_their_types() -> None:
    """
    Where what is written beside the value is a number that Spark takes for certain.
    """
    calls = "approx_percentile(v, array(0.1, 0.5), 100) AS p, approx_percentile(x, 1) AS q, approx_count_distinct(sym, 0.02) AS n"
    found = accepted(spec(f"{HEAD}, {calls} FROM src GROUP BY 1"), NAMES)

    assert found is not None
    assert (("p", "array<bigint>"), ("q", "double"), ("n", "bigint")) == found.output_columns[1:]


LEFT = {
    "a condition that is none": f"{HEAD}, sum(v) AS s FROM src WHERE v GROUP BY 1",
    "a filter that is none": f"{HEAD}, sum(v) FILTER (WHERE x) AS s FROM src GROUP BY 1",
    "HAVING over what SELECT names": f"{HEAD}, sum(v) AS x FROM src GROUP BY 1 HAVING sum(x) > 1",
    "HAVING of a key": f"{HEAD}, sym, sum(v) AS s FROM src GROUP BY 1, 2 HAVING sym = 'a' AND sum(v) > 1",
    "HAVING that is no condition": f"{HEAD}, sum(v) AS s FROM src GROUP BY 1 HAVING sum(v)",
    "a key that hides a column": f"{HEAD}, upper(sym) AS sym, sum(v) AS s FROM src GROUP BY 1, 2",
    "a key beside a call": f"{HEAD}, v % 2 AS k, sum(v) + k AS s FROM src GROUP BY 1, 2",
    "two spellings of a bucket": "window.start AS at, sum(v) AS s FROM src GROUP BY WINDOW(ts, '1 hour'), window(TS, '1 hour')",
    "a bucket inside of another group": "window.start AS at, window_time(window(ts, '1 hour')) AS t, sum(v) AS s FROM src "
    "GROUP BY window(ts, '1 hour'), window_time(window(ts, '1 hour'))",
    "a comment": f"{HEAD}, sum(v) AS s -- of all\nFROM src GROUP BY 1",
    "a quoted name that is no word": f"{HEAD}, sum(`a.b`) AS s FROM src GROUP BY 1",
    "a quoted name with a quote": f"{HEAD}, sum(`x``y`) AS s FROM src GROUP BY 1",
    "a quoted number": f"{HEAD}, sum(`1`) AS s FROM src GROUP BY 1",
    "a function in quotes": f"{HEAD}, max(`abs`(v)) AS s FROM src GROUP BY 1",
    "a column of the source in quotes": f"{HEAD}, sum(src.`v`) AS s FROM src GROUP BY 1",
    "a quoted key that hides a column": f"{HEAD}, upper(sym) AS `sym`, sum(v) AS s FROM src GROUP BY 1, 2",
    "a quoted key beside a call": f"{HEAD}, v % 2 AS k, sum(v) + `k` AS s FROM src GROUP BY 1, 2",
    "HAVING of a quoted name": f"{HEAD}, sum(v) AS s FROM src GROUP BY 1 HAVING max(`order id`) > 1",
    "a backslash": f"{HEAD}, count_if(sym = 'a\\\\b') AS s FROM src GROUP BY 1",
    "a predicate of a predicate": f"{HEAD}, sum(v) AS s FROM src WHERE v IN (1, 2) IS NOT NULL GROUP BY 1",
    "a predicate that is compared": f"{HEAD}, count(DISTINCT flag = v IN (1, 2)) AS s FROM src GROUP BY 1",
    "a comparison of a comparison": f"{HEAD}, sum(v) AS s FROM src WHERE flag = x > 1 GROUP BY 1",
    "a test for null that is compared": f"{HEAD}, sum(v) AS s FROM src WHERE v IS NULL = flag GROUP BY 1",
    "a sign of a condition": f"{HEAD}, sum(v) AS s FROM src WHERE NOT + flag GROUP BY 1",
    "a sign of a condition without negation": f"{HEAD}, sum(v) AS s FROM src WHERE + flag GROUP BY 1",
    "a number in brackets as a group": f"{HEAD}, (0) AS k, sum(v) AS s FROM src GROUP BY 1, (0)",
    "a key of nulls": f"{HEAD}, (NULL) AS k, sum(v) AS s FROM src GROUP BY 1, k",
    "a negation inside": f"{HEAD}, sum(v) AS s FROM src WHERE flag = NOT flag GROUP BY 1",
    "a negation of a bound": f"{HEAD}, sum(v) AS s FROM src WHERE flag BETWEEN false AND NOT flag GROUP BY 1",
    "a negation of a negation": f"{HEAD}, sum(v) AS s FROM src WHERE NOT NOT flag GROUP BY 1",
    "the smallest int, whose sign is part of it": f"{HEAD}, max(v + -2147483648) AS s FROM src GROUP BY 1",
    "the smallest bigint": f"{HEAD}, max(- 9223372036854775808) AS s FROM src GROUP BY 1",
    "a type of another system": f"{HEAD}, max(CAST(v AS INT8)) AS s FROM src GROUP BY 1",
    "a type of two words": f"{HEAD}, max(CAST(v AS DOUBLE PRECISION)) AS s FROM src GROUP BY 1",
    "a text type": f"{HEAD}, max(CAST(v AS VARCHAR)) AS s FROM src GROUP BY 1",
    "a time of another system": f"{HEAD}, max(CAST(ts AS DATETIME)) AS s FROM src GROUP BY 1",
    "the greatest of one": f"{HEAD}, max(greatest(v)) AS s FROM src GROUP BY 1",
    "a day that is none": f"{HEAD}, sum(v) AS s FROM src WHERE ts > DATE '2024-02-30' GROUP BY 1",
    "an hour that is none": f"{HEAD}, max(TIMESTAMP '2024-01-01 25:00:00') AS s FROM src GROUP BY 1",
    "a number beyond its suffix": f"{HEAD}, max(128Y) AS s FROM src GROUP BY 1",
    "a number beyond all": f"{HEAD}, max(99999999999999999999L) AS s FROM src GROUP BY 1",
    "texts as numbers": f"{HEAD}, sum(sym) AS s FROM src GROUP BY 1",
    "what has no local form": f"{HEAD}, max(reverse(sym)) AS s FROM src GROUP BY 1",
    "a rank beyond all": f"{HEAD}, approx_percentile(x, 1.5) AS s FROM src GROUP BY 1",
    "a rank among others that is none": f"{HEAD}, approx_percentile(x, array(0.5, NULL)) AS s FROM src GROUP BY 1",
    "a rank of each row": f"{HEAD}, approx_percentile(x, x) AS s FROM src GROUP BY 1",
    "an accuracy that is no whole number": f"{HEAD}, approx_percentile(x, 0.5, 99.5) AS s FROM src GROUP BY 1",
    "an error that is next to none": f"{HEAD}, approx_count_distinct(x, 0.0000001) AS s FROM src GROUP BY 1",
}


@pytest.mark.parametrize("case", LEFT)
def test_what_leaves_a_doubt_is_left_to_spark(case: str) -> None:
    """
    Spark takes it or says what is wrong with it.
    """
    assert accepted(spec(LEFT[case]), NAMES) is None


@pytest.mark.parametrize("text", ["flag = flag > flag", "flag = v > 1", "v > 1 = flag IN (flag)"])
def test_what_spark_reads_in_another_order_is_not_computed_here(text: str) -> None:
    """
    Comparisons have one rank in Spark and several in the parser; with brackets there is no doubt.
    """
    scope = Scope({name: kind_of(kind) for name, kind in SOURCE})

    with pytest.raises(NotLocal):
        compiled(text, scope)
    assert compiled("flag = (v > 1)", scope).kind.text == "boolean"
