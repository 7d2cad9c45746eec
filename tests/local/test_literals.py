"""A literal has the same value in both executors, and the value that was drawn."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from materializer.core.dialect import DIALECT
from materializer.local.connection import opened
from materializer.local.expressions import compiled
from materializer.local.kinds import NotLocal
from materializer.local.scope import Scope
from materializer.spark.runtime.session import work_session
from tests.literals import LITERALS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENV = ("'${env:PATH}'", "${env:PATH}")


@given(LITERALS)
@example(("'it''s'", "it's"))
@example(ENV)
def test_the_process_reads_a_literal_as_it_was_drawn(drawn: tuple[str, str]) -> None:
    """
    The process computes with the value of the literal, or leaves it to Spark; it is one token in any case.
    """
    text, value = drawn

    assert [text] == [text[t.start : t.end + 1] for t in DIALECT.tokenize(text)]
    with suppress(NotLocal), opened() as connection:
        sql = compiled(text, Scope({})).sql
        assert [{"v": value}] == connection.query(f"SELECT {sql} AS v").to_pylist()


@pytest.mark.spark
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LITERALS, min_size=40, max_size=60))
def test_spark_reads_a_literal_as_it_was_drawn(spark: SparkSession, drawn: list[tuple[str, str]]) -> None:
    """
    Spark has the value too, so that the two executors have equal rows.
    """
    found = work_session(spark).sql(f"SELECT array({', '.join(text for text, _ in [*drawn, ENV])}) AS v").first()

    assert found is not None
    assert [value for _, value in [*drawn, ENV]] == found["v"]


@pytest.mark.spark
def test_the_sign_of_a_number_with_a_suffix_is_not_part_of_it(spark: SparkSession) -> None:
    """
    A suffix or brackets say what type the number has; without them Spark reads the sign with it, and the process leaves it to Spark.
    """
    texts = ["-2147483648L", "- 2147483648L", "-(2147483648)", "-CAST(2147483648 AS BIGINT)"]
    for text in texts:
        made = compiled(text, Scope({}))
        with opened() as connection:
            found = connection.query(f"SELECT {made.sql} AS v").to_pylist()[0]["v"]
        by_spark = work_session(spark).sql(f"SELECT {text} AS v")
        assert (made.kind.text, found) == (by_spark.schema["v"].dataType.simpleString(), by_spark.head()["v"])  # type: ignore[index]
    for text in ("-2147483648", "- 9223372036854775808"):
        with pytest.raises(NotLocal):
            compiled(text, Scope({}))
