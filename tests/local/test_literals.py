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
