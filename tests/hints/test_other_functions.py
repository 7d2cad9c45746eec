"""A hint is never a way to another result: no function of Spark that is refused is answered with another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def test_no_hint_leads_to_another_function(spark: SparkSession) -> None:
    """
    Of each function that Spark has and a definition may not call, the hint names no function, unless it gives the same.
    """
    names = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row.function.isidentifier()}
    allowed = known.SCALARS | known.BUCKETS | known.AGGREGATES
    refused = sorted(names - allowed - known.WINDOW_ONLY)
    assert len(refused) > 50
    found = {name: " ".join(hints(view(f"max({name}(price)) AS f"))) for name in refused}

    assert {} == {n: h for n, h in found.items() if "`" in h and n not in known.SAME_UNDER_ANOTHER_NAME}


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
