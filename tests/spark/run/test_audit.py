"""Checks run by Spark: one job, the rows and buckets that fail, the built-in checks, and the example suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace

from materializer.core.compiled.bucket_sql import bucket_start_sql
from materializer.core.compiled.definition import Definition
from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.core.quality import builtin
from materializer.core.quality.builtin import built_in
from materializer.core.quality.suite import Suite, read
from materializer.core.quality.verdict import BUILT_IN, Severity
from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build
from materializer.core.time.instants import HOUR, parse
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import DataError
from materializer.lake.computed import Computed
from materializer.services.quality.audit import AuditResult, audit
from materializer.spark.describe.analyse import analyse
from materializer.spark.query.compute import reference
from materializer.spark.run import audit as in_spark
from materializer.spark.run.audit import RowsToCheck
from materializer.spark.runtime.session import work_session
from tests.adapters.great_expectations.cases import BAD, CASES, frame
from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = parse("2024-01-01", TimeType.TIMESTAMP)
HOURS = build(GridSpec(Width(micros=HOUR)), TimeType.TIMESTAMP)
YEAR = SpanSet.of(Span(parse("2013-01-01", TimeType.TIMESTAMP), parse("2014-01-01", TimeType.TIMESTAMP)))
FLIGHTS = """
(1L, timestamp'2013-03-01T10:05:00Z', 'JFK', 'AA', 'N1', 3.0D, false),
(2L, timestamp'2013-03-01T10:45:00Z', 'JFK', 'AA', 'N2', 33.0D, false),
(3L, timestamp'2013-03-01T10:50:00Z', 'EWR', 'UA', 'N3', -2.0D, false),
(4L, timestamp'2013-03-01T12:10:00Z', 'LGA', 'DL', 'N4', null, true)
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session in the state that work runs in."""
    return work_session(spark)


@contextmanager
def jobs(session: SparkSession) -> Iterator[list[int]]:
    """The jobs of the block; known once it ended."""
    context, found, group = session.sparkContext, [], uuid4().hex
    context.setJobGroup(group, "audit")
    try:
        yield found
    finally:
        found += context.statusTracker().getJobIdsForGroup(group)
        context.setLocalProperty("spark.jobGroup.id", None)


def suite(*cases: tuple[str, dict[str, Any]], severity: str = "critical") -> Suite:
    """A suite of expectations that are all compiled."""
    expectations = [{"type": t, "kwargs": k, "severity": severity} for t, k in cases]
    return read(json.dumps({"name": "s", "expectations": expectations}))


def asked(given: DataFrame, *cases: tuple[str, dict[str, Any]], **more: Any) -> AuditResult:
    """Audit without Great Expectations: a suite that needs it fails the test."""
    return audit(
        RowsToCheck.of(given),
        suite(*cases, severity=more.pop("severity", "critical")),
        {},
        "bucket",
        library=forbidden,
        **more,
    )


def forbidden(*_args: Any, **_kwargs: Any) -> Any:
    """Stand in for Great Expectations where it must not be asked."""
    pytest.fail("Great Expectations was asked")


def test_any_number_of_expectations_is_one_job(session: SparkSession):
    """
    All compiled cases over a persisted frame, uniqueness and distinct counts among them, take one job when nothing fails
    and, with adaptive execution on, two more for the rows when something does; the session is left as it was.
    """
    session.conf.set("spark.sql.adaptive.enabled", "true")
    given = frame(session, BAD).persist()
    given.count()
    unique = [c for c in CASES if "unique" in c[0] and "within_record" not in c[0]]
    met = [
        ("expect_column_values_to_not_be_null", {"column": "bucket"}),
        ("expect_column_max_to_be_between", {"column": "k"}),
    ]
    try:
        with jobs(session) as good:
            asked(given, *met * 20, *[(t, {**k, "mostly": 0.0}) for t, k in unique if "mostly" in k])
        with jobs(session) as bad:
            found = asked(given, *met, *unique)
    finally:
        given.unpersist()

    assert 1 == len(good)
    assert found.verdict.failed
    assert 3 == len(bad)
    assert "true" == session.conf.get("spark.sql.adaptive.enabled")


def test_a_suite_of_columns_alone_runs_no_job(session: SparkSession):
    """
    Whether a column exists needs no row.
    """
    given = frame(session, BAD)
    with jobs(session) as found:
        answers = asked(given, ("expect_column_to_exist", {"column": "x"}), ("expect_column_to_exist", {"column": "q"}))

    assert [True, False] == [f.success for f in answers.verdict.findings]
    assert [] == found


def test_failing_rows_and_their_buckets_are_found(session: SparkSession):
    """
    Rows come with all columns, as many as asked for of each expectation; buckets are instants and complete.
    """
    negative = ("expect_column_values_to_be_between", {"column": "x", "min_value": 0, "max_value": 50})
    twice = ("expect_compound_columns_to_be_unique", {"column_list": ["bucket", "id"]})
    found = asked(frame(session, BAD), negative, twice, most=2)

    assert {AT, AT + HOUR, AT + 2 * HOUR} == found.buckets
    assert {0: 2, 1: 2} == {i: sum(r.index == i for r in found.rows) for i in (0, 1)}
    assert [4, 4] == [f.unexpected_count for f in found.verdict.findings]
    assert set(found.rows[0].values) == set(frame(session, BAD).columns)
    assert all(
        r.values["x"] < 0 or r.values["x"] > 50 or r.values["x"] != r.values["x"] for r in found.rows if r.index == 0
    )


def test_too_many_failing_buckets_are_all_of_them(session: SparkSession, monkeypatch: pytest.MonkeyPatch):
    """
    Where more buckets fail than are fetched, nobody can tell the others: none of the run may be published.
    """
    monkeypatch.setattr(in_spark, "MOST_BUCKETS", 1)
    given = session.createDataFrame([(AT, 1), (AT + HOUR, 2)], "bucket bigint, v int")
    one, two = (
        asked(given, ("expect_column_values_to_be_between", {"column": "v", "max_value": most})) for most in (1, 0)
    )

    assert frozenset({AT + HOUR}) == one.buckets
    assert two.buckets is None


def test_times_are_put_down_to_buckets_where_they_are(session: SparkSession):
    """
    Of a source's rows each has a time of its own; what is fetched are the few buckets, not the times.
    """
    seconds = session.range(7_200).selectExpr("id AS x", f"timestamp_micros({AT} + id * 1000000) AS bucket")
    negative = ("expect_column_values_to_be_between", {"column": "x", "min_value": 7_200})
    found = asked(seconds, negative, bucket_sql=bucket_start_sql(HOURS, "bucket", SpanSet.of(EVERYTHING)), most=1)

    assert {AT, AT + HOUR} == found.buckets
    assert 7_200 == found.verdict.findings[0].unexpected_count


def test_only_critical_failures_hold_buckets(session: SparkSession):
    """
    A failed warning shows its rows and holds nothing; a failure of the table as a whole holds everything.
    """
    negative = ("expect_column_values_to_be_between", {"column": "x", "min_value": 0})
    warned = asked(frame(session, BAD), negative, severity="warning")
    whole = asked(frame(session, BAD), negative, ("expect_table_row_count_to_equal", {"value": 1}))
    good = asked(frame(session, BAD), ("expect_column_to_exist", {"column": "x"}))

    assert (frozenset(), Severity.WARNING, 1) == (warned.buckets, warned.verdict.worst, len(warned.rows))
    assert warned.verdict.is_publishable
    assert whole.buckets is None
    assert (frozenset(), None) == (good.buckets, good.verdict.worst)


def test_a_row_that_makes_an_expression_fail_is_an_error_of_ours(session: SparkSession):
    """
    What Spark raises is translated.
    """
    given = session.sql("SELECT timestamp'2024-01-01T00:00:00Z' AS bucket, CAST(id AS INT) DIV 0 AS x FROM range(2)")

    with pytest.raises(DataError, match="auditing"):
        asked(given, ("expect_column_values_to_not_be_null", {"column": "x"}))


@pytest.fixture(scope="module")
def hourly(session: SparkSession) -> tuple[Definition, DataFrame]:
    """The example aggregate and its rows over a few flights."""
    rows = session.sql(
        f"SELECT * FROM VALUES {FLIGHTS} AS t(flight_id, event_time, origin, carrier, tailnum, dep_delay, cancelled)"
    ).selectExpr("*", "flight_id AS flight", "event_time AS known_at")
    (spec,) = parse_definitions((ROOT / "sql/departures_hourly.sql").read_text(encoding="utf-8"))
    found = analyse(session, resolve(spec, [(f.name, f.dataType.simpleString()) for f in rows.schema]), rows.schema)
    assert found.spec.time_type is not None
    grid = build(found.spec.grid, found.spec.time_type, found.spec.resolution)
    definition = Definition(found.spec, found.layout, grid, (), ())
    return definition, reference(definition, rows, YEAR).persist()


def checked(definition: Definition, given: DataFrame, source_rows: int | None = 4) -> dict[str, bool]:
    """Answers of the built-in checks by name."""
    checks = built_in(definition, given.columns, YEAR, source_rows)
    return {
        f.type: f.success
        for f in audit(
            RowsToCheck.of(given), None, bucket_column="hour", library=forbidden, built_in=checks
        ).verdict.findings
    }


def test_what_is_computed_passes_the_built_in_checks(hourly: tuple[Definition, DataFrame]):
    """
    Rows of a definition are unique by bucket and keys, on the grid, and their counts make the rows of the source.
    """
    assert dict.fromkeys([builtin.UNIQUE, builtin.ON_GRID, builtin.ADDS_UP], True) == checked(*hourly)
    assert dict.fromkeys([builtin.UNIQUE, builtin.ON_GRID], True) == checked(*hourly, source_rows=None)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (
            "SELECT * FROM {given} UNION ALL SELECT * FROM {given} WHERE origin = 'LGA'",
            {builtin.UNIQUE, builtin.ADDS_UP},
        ),
        ("SELECT * REPLACE (hour + INTERVAL 1 SECOND AS hour) FROM {given}", {builtin.ON_GRID}),
        ("SELECT * FROM {given} WHERE origin <> 'LGA'", {builtin.ADDS_UP}),
    ],
)
def test_what_was_broken_is_found(
    session: SparkSession, hourly: tuple[Definition, DataFrame], change: str, broken: set[str]
):
    """
    A doubled row, a bucket beside the grid and a lost group each break the checks that are about them.
    """
    definition, rows = hourly
    if "REPLACE" in change:
        given = rows.withColumn("hour", rows["hour"] + session.sql("SELECT INTERVAL 1 SECOND AS s").head()["s"])
    else:
        given = session.sql(change, given=rows)

    assert broken == {name for name, success in checked(definition, given).items() if not success}


def test_a_doubled_bucket_is_held_and_no_other(session: SparkSession, hourly: tuple[Definition, DataFrame]):
    """
    The built-in checks say which buckets they failed on, like those of a suite.
    """
    definition, rows = hourly
    given = session.sql("SELECT * FROM {given} UNION ALL SELECT * FROM {given} WHERE origin = 'LGA'", given=rows)
    checks = built_in(definition, given.columns, YEAR, None)
    found = audit(RowsToCheck.of(given), None, bucket_column="hour", library=forbidden, built_in=checks)

    assert {parse("2013-03-01T12:00:00", TimeType.TIMESTAMP)} == found.buckets
    assert {BUILT_IN} == {r.index for r in found.rows}


def test_the_example_suite_stops_a_clock_that_is_wrong(session: SparkSession, hourly: tuple[Definition, DataFrame]):
    """
    expectations/departures_hourly.json names columns of its aggregate, passes on flights as they are, needs no Great
    Expectations, and holds back the one hour in which a delay is a day too long.
    """
    definition, rows = hourly
    text = (ROOT / "expectations/departures_hourly.json").read_text(encoding="utf-8")
    example = read(text, file="expectations/departures_hourly.json", columns=definition.spec.columns, parameters={})
    wrong = session.sql("SELECT *, IF(origin = 'EWR', 2000D, mean_delay) AS wrong FROM {given}", given=rows)
    wrong = wrong.drop("mean_delay").withColumnRenamed("wrong", "mean_delay")
    passed = audit(RowsToCheck.of(rows), example, {}, "hour", library=forbidden)
    stopped = audit(RowsToCheck.of(wrong), example, {}, "hour", library=forbidden)

    assert passed.verdict.is_publishable
    assert not stopped.verdict.is_publishable
    assert {parse("2013-03-01T10:00:00", TimeType.TIMESTAMP)} == stopped.buckets
    assert ["EWR"] == [r.values["origin"] for r in stopped.rows]


@pytest.mark.parametrize(
    ("kind", "values", "answer"),
    [
        ("bigint", [1, 2, None], [0]),
        ("bigint", [1, 2, 2], []),
        ("string", ["a", None, None], []),
        ("string", ["a", "A", ""], [0]),
        ("string collate UTF8_LCASE", ["a", "b"], []),
        ("double", [0.0, -0.0], []),
        ("double", [1.0, 2.0], []),
        ("array<int>", [[1], [2]], []),
    ],
)
def test_rows_are_compared_without_spark_only_where_arrow_compares_as_spark_does(
    kind: str, values: list[Any], answer: list[int]
):
    """
    Fetched rows of which no two are alike answer a check of uniqueness; equal rows, types with another equality and rows that
    lie in Spark leave it to a job.
    """
    check, question = builtin.unique(["k"]), "count_if(count(1) OVER (PARTITION BY `k`) > 1)"
    table = pa.table({"k": values})
    computed = Computed(table, table, len(values), len(values), 1, 0, "", metrics={"count(*)": len(values)})
    found = in_spark.answers_of(computed, [check], {"k": kind})

    assert {"count(*)": len(values)} | dict.fromkeys([question] if answer else [], 0) == found
    assert {} == in_spark.answers_of(replace(computed, output=None, metrics={}, is_fetched=False), [check], {"k": kind})
