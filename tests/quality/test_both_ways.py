"""Compiled expectations against Great Expectations itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.quality.catalog import KNOWN
from materializer.core.quality.compiled import COMPILABLE
from materializer.core.quality.verdict import Auditor, Finding
from materializer.services.quality import audit
from materializer.spark.session import work_session
from tests.quality.cases import BAD, GOOD, frame, suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("great_expectations", reason="needs the extra `quality`")
pytestmark = [pytest.mark.quality, pytest.mark.slow]


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


@pytest.mark.parametrize("rows", [GOOD, BAD, ""], ids=["good", "bad", "empty"])
def test_both_ways_give_one_verdict(session: SparkSession, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Every expectation that Great Expectations offers on Spark runs; those that are compiled give its answer, counts and
    observed values included, and the failing buckets are the same.
    """
    given = frame(session, rows).persist()
    try:
        ours = audit(given, suite(), bucket_column="bucket")
        theirs = audit(given, suite(), bucket_column="bucket", is_compiled=False)
    finally:
        given.unpersist()
    pairs = list(zip(ours.verdict.findings, theirs.verdict.findings, strict=True))
    compiled = [(a, b) for a, b in pairs if a.engine is Auditor.COMPILED]
    with capsys.disabled():
        print(
            f"\n{len(pairs)} expectations of {len({a.type for a, _ in pairs})} types; {len(compiled)} compiled and compared"
        )

    assert {a.type for a, _ in compiled} == COMPILABLE
    assert {a.type for a, _ in pairs} == {k.name for k in KNOWN.values() if k.is_on_spark}
    assert [] == [(a.type, dict(a.kwargs), differences(a, b), a, b) for a, b in compiled if differences(a, b)]
    if rows:
        assert [] == [(b.type, b.error) for _, b in pairs if b.error]
        same_result = [
            "expect_column_to_exist",
            "of_type",
            "in_type_list",
            "column_type",
            "column_count",
            "columns_to_match",
        ]
        fixed = [a.type for a, _ in pairs if any(word in a.type for word in same_result)]
        assert [] == [
            (a.type, dict(a.kwargs)) for a, _ in pairs if a.success is not (rows == GOOD) and a.type not in fixed
        ]
