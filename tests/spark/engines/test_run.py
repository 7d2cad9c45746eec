"""How often a result of an engine was published with other content."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.engines.compile import ARGUMENT
from materializer.spark.engines.run import literal, revised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    f"k_sym string, w_start bigint, w_end bigint, slice bigint, v_x double, v_top double, n bigint, {ARGUMENT}x bigint, "
    "is_final boolean, is_shown boolean, revision int"
)
SHOWN = {"v_x": True, "v_top": False, "is_final": False}


def result(
    sym: str | None,
    value: float | None,
    top: float = 1.0,
    *,
    n: int = 1,
    looked: int = 0,
    final: bool = True,
    shown: bool = True,
    revision: int = 0,
) -> Any:
    """A result of [0, 10) with what its functions look back on."""
    return (sym, 0, 10, 0, value, top, n, looked, final, shown, revision)


def test_a_revision_is_another_content_that_was_shown(spark: SparkSession) -> None:
    """
    It rises where readers see another value in a result that was shown, or do not see it any more; not where all that they see
    is the same but for the sign of zero and the last digits of a sum, nor where nobody had been shown what it was.
    """
    old = [
        result("changed", 1.0, revision=4),
        result("more than the last digits", 1e6, revision=4),
        result("the last digits", 0.1 + 0.2, revision=4),
        result("small", 3e-12, revision=4),
        result("the last digits of a maximum", 1.0, 0.1 + 0.2, revision=4),
        result("of zero", 0.0, 0.0, revision=4),
        result("not a number", float("nan"), revision=4),
        result("not a number now", 1.0, revision=4),
        result("infinite", float("inf"), revision=4),
        result("infinite now", 1.0, revision=4),
        result("another count", 1.0, n=3, revision=4),
        result("final now", 1.0, final=False, revision=4),
        result("same", 1.0, revision=4),
        result("same and null", None, revision=4),
        result("looks back on another", 1.0, looked=1, revision=4),
        result("changed before it was shown", 1.0, shown=False, revision=4),
        result("shown now", 1.0, shown=False, revision=4),
        result("hidden now", 1.0, revision=4),
        result(None, 1.0, revision=4),
        result("gone", 1.0, revision=4),
    ]
    new = [
        result("changed", 2.0),
        result("more than the last digits", 1e6 + 0.01),
        result("the last digits", 0.3),
        result("small", 4e-12),
        result("the last digits of a maximum", 1.0, 0.3),
        result("of zero", -0.0, -0.0),
        result("not a number", float("nan")),
        result("not a number now", float("nan")),
        result("infinite", float("inf")),
        result("infinite now", float("inf")),
        result("another count", 1.0, n=4),
        result("final now", 1.0),
        result("same", 1.0),
        result("same and null", None),
        result("looks back on another", 1.0, looked=2),
        result("changed before it was shown", 2.0, shown=False),
        result("shown now", 1.0),
        result("hidden now", 1.0, shown=False),
        result(None, 2.0),
        result("came", 1.0),
    ]
    found = revised(spark.createDataFrame(new, COLUMNS), spark.createDataFrame(old, COLUMNS), SHOWN).collect()

    assert {r.k_sym: r.revision for r in found} == {
        "changed": 5,
        "more than the last digits": 5,
        "the last digits": 4,
        "small": 5,
        "the last digits of a maximum": 5,
        "of zero": 4,
        "not a number": 4,
        "not a number now": 5,
        "infinite": 4,
        "infinite now": 5,
        "another count": 4,
        "final now": 5,
        "same": 4,
        "same and null": 4,
        "looks back on another": 4,
        "changed before it was shown": 4,
        "shown now": 4,
        "hidden now": 5,
        None: 5,
        "came": 0,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TIMESTAMP '0001-01-01 00:00:00 UTC'", datetime(1, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP '1582-10-04 12:00:00.000001 UTC'", datetime(1582, 10, 4, 12, 0, 0, 1, tzinfo=UTC)),
        ("TIMESTAMP '9999-12-31 23:59:59.999999 UTC'", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", datetime(1, 1, 1)),  # noqa: DTZ001 (a time without a zone)
        ("DATE '0001-01-01'", date(1, 1, 1)),
        ("DATE '1582-10-04'", date(1582, 10, 4)),
        ("'a'", "a"),
        ("CAST(NULL AS TIMESTAMP)", None),
    ],
)
def test_the_value_of_a_key_is_that_of_its_column(spark: SparkSession, text: str, value: Any) -> None:
    """
    Also where Java's calendar is another: a result whose key is so old stayed beside the one that replaces it.
    """
    column = spark.sql(f"SELECT {text} AS k")
    same = column.where(column["k"].eqNullSafe(literal(value).cast(column.schema["k"].dataType)))
    assert same.count() == 1
