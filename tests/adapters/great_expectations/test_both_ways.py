"""Compiled expectations against Great Expectations itself."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from materializer.adapters.great_expectations import auditor
from materializer.adapters.great_expectations.auditor import examine, refusals, render
from materializer.core.quality.catalog import KNOWN
from materializer.core.quality.compiled import COMPILABLE
from materializer.core.quality.failing import Failing
from materializer.core.quality.suite import Suite, read
from materializer.core.quality.verdict import Finding
from materializer.errors import DefinitionError, QualityLibraryMissingError
from materializer.services.quality.audit import audit
from materializer.spark.run.audit import RowsToCheck
from materializer.spark.runtime.session import work_session
from tests.adapters.great_expectations.cases import BAD, GOOD, asked_both_ways, frame, suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.quality
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session in the state that work runs in."""
    return work_session(spark)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two observed values are the same number or text."""
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return math.isclose(ours, theirs, rel_tol=1e-12)
    return ours == theirs


def differences(ours: Finding, theirs: Finding) -> list[str]:
    """What two answers to one expectation do not agree on."""
    names = ["success", "unexpected_count", "element_count", "error"]
    found = [n for n in names if getattr(ours, n) != getattr(theirs, n)]
    return found + ([] if same(ours.observed, theirs.observed) else ["observed"])


FIXED = ("to_exist", "of_type", "in_type_list", "column_type", "column_count", "columns_to_match")
"""Parts of names of what does not depend on rows."""


@pytest.mark.parametrize(
    "rows",
    [pytest.param(GOOD, marks=SLOW, id="good"), pytest.param(BAD, id="bad"), pytest.param("", marks=SLOW, id="empty")],
)
def test_both_ways_give_one_verdict(session: SparkSession, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Every expectation that Great Expectations offers on Spark runs; those that are compiled give its answer, with its counts
    and observed values. All are met by the good rows; all that can fail do on the bad ones.
    """
    given = frame(session, rows).persist()
    try:
        ours = audit(
            RowsToCheck.of(given),
            suite(),
            bucket_column="bucket",
            most=0,
            library=lambda: SimpleNamespace(examine=skipped),
        )
        theirs = audit(
            RowsToCheck.of(given), suite(), bucket_column="bucket", most=0, is_compiled=False, library=lambda: auditor
        )
    finally:
        given.unpersist()
    pairs = [(a, b) for a in ours.verdict.findings for b in theirs.verdict.findings if a.index == b.index]
    types = {b.type for b in theirs.verdict.findings}
    with capsys.disabled():
        print(f"\n{len(theirs.verdict.findings)} expectations of {len(types)} types ran, {len(pairs)} both ways")

    assert {a.index for a, _ in pairs} == {e.index for e in asked_both_ways()}
    assert {a.type for a, _ in pairs} == COMPILABLE
    assert types == {k.name for k in KNOWN.values() if k.is_on_spark}
    assert [] == [(a.type, differences(a, b), a, b) for a, b in pairs if differences(a, b)]
    if rows:
        changing = [b for b in theirs.verdict.findings if rows == GOOD or not any(part in b.type for part in FIXED)]
        assert [] == [(b.type, b.error) for b in theirs.verdict.findings if b.error]
        assert [] == [(b.type, dict(b.kwargs)) for b in changing if b.success is not (rows == GOOD)]


def skipped(*_args: Any, **_kwargs: Any) -> tuple[list[Finding], Failing]:
    """Stand in for Great Expectations, which is asked everything the other way."""
    return [], Failing()


PLACED = [
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 0, "max_value": 50}),
    ("expect_column_values_to_not_be_null", {"column": "id"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["bucket", "id"]}),
]
LEFT = [
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "k", "column_B": "x"}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE x > 50"}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT max(x) AS top FROM {batch} HAVING max(x) > 50"}),
    ("expect_column_median_to_be_between", {"column": "k", "max_value": 1}),
]


def test_both_ways_find_the_same_rows_and_buckets(session: SparkSession) -> None:
    """
    Great Expectations puts failures down to the same buckets as Spark does; a query that gives no bucket, and a column as a
    whole, to none.
    """
    given = frame(session, BAD).persist()
    written = [{"type": t, "kwargs": k} for t, k in [*PLACED, *LEFT]]
    both = read(json.dumps({"name": "places", "expectations": written}))
    found: dict[bool, Failing] = {}

    def kept(*args: Any, **more: Any) -> tuple[list[Finding], Failing]:
        answers, found[True] = examine(*args, **more)
        return answers, found[True]

    try:
        audited = audit(
            RowsToCheck.of(given),
            both,
            bucket_column="bucket",
            is_compiled=False,
            library=lambda: SimpleNamespace(examine=kept),
            most=3,
        )
        spark_only = Suite("places", both.expectations[: len(PLACED)])
        plainly = [
            audit(RowsToCheck.of(given), Suite("one", (e,)), bucket_column="bucket", most=3, library=lambda: auditor)
            for e in spark_only.expectations
        ]
    finally:
        given.unpersist()
    buckets = found[True].buckets

    assert [p.buckets for p in plainly] == [buckets[e.index, e.type] for e in spark_only.expectations]
    assert [True, True, False, False] == [
        buckets[e.index, e.type] is not None for e in both.expectations[len(PLACED) :]
    ]
    assert audited.buckets is None
    assert {0: 3, 1: 1, 2: 3} == {i: sum(r.index == i for r in audited.rows) for i in range(len(PLACED))}
    assert set(given.columns) == set(audited.rows[0].values)
    assert [] == session.catalog.listTables()


@SLOW
def test_what_great_expectations_refuses_is_a_problem_of_the_suite(session: SparkSession) -> None:
    """
    An argument of a wrong type is told when the suite is looked at, and refused when it runs.
    """
    text = json.dumps(
        {"name": "s", "expectations": [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": "many"}}]}
    )
    suite_ = read(text)

    assert ["suite.value"] == [p.code for _, p in refusals(suite_.expectations)]
    with pytest.raises(DefinitionError, match="integer"):
        audit(RowsToCheck.of(frame(session, GOOD)), suite_, bucket_column="bucket", library=lambda: auditor)


@SLOW
def test_data_docs_are_written(session: SparkSession, tmp_path: Path) -> None:
    """
    The pages name the suite and its expectations, one of each type, met and not met; a second run adds to them.
    """
    each = {e.type: e for e in suite().expectations}
    pages = []
    for rows in (GOOD, BAD):
        index = render(frame(session, rows), Suite("daily", tuple(each.values())), tmp_path / "docs")
        pages.append(list(index.parent.glob("validations/**/*.html")))

    assert "daily" in index.read_text(encoding="utf-8")
    assert [1, 2] == [len(p) for p in pages]


@SLOW
def test_data_docs_show_whatever_data_hold_as_text(session: SparkSession, tmp_path: Path) -> None:
    """
    Markup in values, names and comments never becomes a part of the page.
    """
    bad = "<img src=x onerror=alert(1)>\"'&lt;b"
    kwargs = {"column": "k", "value_set": ["a", bad + "set"]}
    notes = {"notes": {"format": "markdown", "content": [bad + "note"]}}
    cases = [
        {"type": "expect_column_values_to_be_in_set", "kwargs": kwargs, "meta": notes},
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "k", "regex": f"^{bad}$"}},
        {"type": "expect_column_distinct_values_to_be_in_set", "kwargs": kwargs},
        {"type": "expect_column_to_exist", "kwargs": {"column": bad}},
    ]
    expectations = read(json.dumps({"name": "s", "expectations": cases})).expectations
    given = session.createDataFrame([("a", 1.0), (bad + "value", 2.0)], "k string, v double")

    index = render(given, Suite("daily", expectations), tmp_path / "docs")
    pages = [p.read_text(encoding="utf-8") for p in index.parent.glob("**/*.html")]

    assert 3 == len(pages)
    assert [] == [page for page in pages if "<img src=x" in page or "onerror=alert(1)>" in page]
    for what in ("set", "value"):
        assert any(f"&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;lt;b{what}" in page for page in pages), what


@SLOW
def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, session: SparkSession
) -> None:
    """
    What is compiled needs no Great Expectations; what is left names the extra.
    """
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    given = frame(session, GOOD)

    def asked(*cases: tuple[str, dict[str, Any]]) -> Suite:
        return read(json.dumps({"name": "s", "expectations": [{"type": t, "kwargs": k} for t, k in cases]}))

    assert audit(
        RowsToCheck.of(given), asked(*PLACED), bucket_column="bucket", library=lambda: auditor
    ).verdict.is_publishable
    with pytest.raises(QualityLibraryMissingError) as raised:
        audit(RowsToCheck.of(given), asked(*LEFT), bucket_column="bucket", library=lambda: auditor)
    assert "delta-materializer[quality]" in raised.value.hint
