"""Texts that Spark would cast to numbers or conditions unasked are refused, with the cast to write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as st

from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError
from materializer.local.described import described
from materializer.spark.describe.analyse import analyse
from materializer.spark.runtime.session import work_session
from tests.hints.definitions import view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (("ts", "timestamp"), ("sym", "string"), ("ok", "string"), ("price", "double"), ("pair", "struct<a:string>"))


def described_as(measure: str) -> None:
    """Find the types of a definition with one measure."""
    [spec] = parse_definitions(view(f"{measure} AS m"))
    described(resolve(spec, COLUMNS))


REFUSED = [
    "sum(ok)",
    "sum((ok))",
    "sum(+ok)",
    "sum(upper(sym))",
    "avg(coalesce(ok, '0'))",
    "sum(ok) FILTER (WHERE price > 0)",
    "bool_and(ok)",
    "every((ok))",
    "bool_or(ok)",
    "some(ok)",
    "count_if(ok)",
]


def mended(measure: str) -> str:
    """Return a measure that is refused as the hint writes it."""
    with pytest.raises(DefinitionError) as caught:
        described_as(measure)
    [problem] = caught.value.problems
    [cast] = re.findall(r"write (CAST\(.* AS \w+\)) in its place", problem.hint)
    assert "definition.wrong-type" == problem.code
    return measure.replace(cast.removeprefix("CAST(").rpartition(" AS ")[0], cast, 1)


@pytest.mark.parametrize("measure", REFUSED)
def test_a_text_is_refused(measure: str) -> None:
    """
    In brackets, with a sign or computed; the hint writes the cast.
    """
    assert mended(measure) != measure


@pytest.mark.spark
def test_the_cast_of_the_hint_is_accepted(spark: SparkSession) -> None:
    """
    By Spark's own analysis, which refuses the text as well.
    """
    session, shape = work_session(spark), st.StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in COLUMNS))
    listed = ", ".join(f"{mended(measure)} AS m{i}" for i, measure in enumerate(REFUSED))
    analyse(session, resolve(parse_definitions(view(listed))[0], COLUMNS), shape)
    for measure in [*REFUSED, "sum(-ok)", "sum(- (ok))"]:
        with pytest.raises(DefinitionError):
            analyse(session, resolve(parse_definitions(view(f"{measure} AS m"))[0], COLUMNS), shape)


@pytest.mark.parametrize(
    "measure", ["sum((price))", "sum(-price)", "max((ok))", "count(ok)", "count_if(ok = 'a')", "bool_and(price > 1)"]
)
def test_what_is_no_text_or_needs_no_number_is_accepted(measure: str) -> None:
    """
    A number in brackets, a condition, and aggregates that take any value.
    """
    described_as(measure)


@pytest.mark.spark
@pytest.mark.parametrize("measure", ["every('true')", 'every("true")', "count_if('yes')", "sum('1' '2')"])
def test_a_literal_is_accepted(spark: SparkSession, measure: str) -> None:
    """
    It is the same text in each row, and Spark itself has looked at it.
    """
    shape = st.StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in COLUMNS))
    analyse(work_session(spark), resolve(parse_definitions(view(f"{measure} AS m"))[0], COLUMNS), shape)
