"""A hint is never a way to another result: no function of Spark that is refused is answered with another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.language.parse import parse_report
from materializer.core.sql import functions as known
from materializer.errors import DefinitionError
from tests.hints.definitions import view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def hints(text: str) -> list[str]:
    """Return the hints of the problems of a definition."""
    try:
        parse_report(text)
    except DefinitionError as exc:
        return [problem.hint for problem in exc.problems]
    return []


def functions_of(spark: SparkSession) -> set[str]:
    """Return the names of all functions that Spark has."""
    return {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row.function.isidentifier()}


def test_no_hint_leads_to_another_function(spark: SparkSession) -> None:
    """
    Of each function that Spark has and a definition may not call, the hint names no function.
    """
    names = functions_of(spark)
    allowed = known.SCALARS | known.BUCKETS | known.AGGREGATES
    refused = sorted(names - allowed - known.WINDOW_ONLY)
    assert len(refused) > 50
    found = {name: " ".join(hints(view(f"max({name}(price)) AS f"))) for name in refused}

    assert {} == {n: h for n, h in found.items() if "`" in h}


def test_each_aggregate_of_spark_is_decided_about(spark: SparkSession) -> None:
    """
    It is merged, recomputed, or refused with a reason. If Spark has a new one, somebody has to say which.
    """
    java: Any = spark
    identifier = java._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    registry = java._jsparkSession.sessionState().functionRegistry()
    infos = {name: registry.lookupFunction(identifier(name)) for name in functions_of(spark)}
    aggregates = {name for name, info in infos.items() if info.isDefined() and info.get().getGroup() == "agg_funcs"}
    refused = set(known.UNSUPPORTED_AGGREGATES)

    assert len(aggregates) > 70
    assert set() == aggregates - known.AGGREGATES - refused, "new in Spark: accept it, or say why not"
    assert set() == known.AGGREGATES & refused
    assert set() == refused - functions_of(spark), "gone from Spark"
    for name in sorted(refused):
        with pytest.raises(DefinitionError, match=f"`{name}` is not supported: {known.UNSUPPORTED_AGGREGATES[name]}"):
            parse_report(view(f"{name}(price) AS f"))


def test_a_misspelled_name_is_corrected() -> None:
    """
    A slip in a name that nothing has is.
    """
    assert ["did you mean `coalesce`?"] == hints(view("sum(coalesc(price, 0)) AS total"))


def test_a_key_is_written_by_its_name_and_not_grouped_anew() -> None:
    """
    Of a column that a key is made of the hint names the key: one more key would be another grouping.
    """
    text = view(
        bucket="window.start AS bucket, price + 1 AS k, {} AS more, count(*) AS n",
        group="window(ts, '1 minute'), price + 1",
    )

    assert ["aggregate it, or write the key by its name: `k`"] == hints(text.format("price + 1 + 1"))
    assert [] == list(parse_report(text.format("k + 1")).warnings)
