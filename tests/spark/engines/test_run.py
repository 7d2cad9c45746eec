"""How often a result of an engine was published with other content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from materializer.core.engines.compile import ARGUMENT
from materializer.spark.engines.run import revised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    f"k_sym string, w_start bigint, w_end bigint, slice bigint, v_x bigint, {ARGUMENT}x bigint, "
    "is_shown boolean, revision int"
)


def result(sym: str | None, value: int | None, *, looked: int = 0, shown: bool = True, revision: int = 0) -> Any:
    """A result of [0, 10) with what its functions look back on."""
    return (sym, 0, 10, 0, value, looked, shown, revision)


def test_a_revision_is_another_content_that_was_shown(spark: SparkSession) -> None:
    """
    It rises where a result that was shown changed, or is shown no more; not where it is the same, nor where nobody had been
    shown what it was, nor by what functions look back on.
    """
    old = [
        result("changed", 1, revision=4),
        result("same", 1, revision=4),
        result("same and null", None, revision=4),
        result("looks back on another", 1, looked=1, revision=4),
        result("changed before it was shown", 1, shown=False, revision=4),
        result("shown now", 1, shown=False, revision=4),
        result("hidden now", 1, revision=4),
        result(None, 1, revision=4),
        result("gone", 1, revision=4),
    ]
    new = [
        result("changed", 2),
        result("same", 1),
        result("same and null", None),
        result("looks back on another", 1, looked=2),
        result("changed before it was shown", 2, shown=False),
        result("shown now", 1),
        result("hidden now", 1, shown=False),
        result(None, 2),
        result("came", 1),
    ]
    found = revised(spark.createDataFrame(new, COLUMNS), spark.createDataFrame(old, COLUMNS)).collect()

    assert {r.k_sym: r.revision for r in found} == {
        "changed": 5,
        "same": 4,
        "same and null": 4,
        "looks back on another": 4,
        "changed before it was shown": 4,
        "shown now": 4,
        "hidden now": 5,
        None: 5,
        "came": 0,
    }
