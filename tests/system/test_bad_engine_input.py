"""Rows that an engine cannot take: the same error whoever computes, and nothing written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from materializer.errors import MaterializerError
from tests.system.builders import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.config import ExecutorChoice

HUGE: Final = 2**63 - 1
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
SESSIONS: Final = {"engine": "session_window", "session_gap": "30 minutes"}
BARS: Final = {"engine": "time_series", "window_size": "1 hour", "step": "1 hour"}
FILLED: Final = {"engine": "time_series", "window_size": "1 minute", "step": "1 minute", "fill": "null"}
INPUTS: Final[dict[str, tuple[dict[str, Any], str, datetime | str, int, str, str]]] = {
    "sum too large": (SESSIONS, "sum(price)", "08:40", HUGE, "data.failed", "ARITHMETIC_OVERFLOW"),
    "sum of a window too large": (BARS, "sum(price)", "08:40", HUGE, "data.failed", "ARITHMETIC_OVERFLOW"),
    "product too large": (SESSIONS, "max(price * 2)", "08:40", HUGE, "data.failed", "ARITHMETIC_OVERFLOW"),
    "division by zero": (SESSIONS, "max(100 / (price - 99))", "08:40", 99, "data.failed", "DIVIDE_BY_ZERO"),
    "remainder by zero": (BARS, "max(100 % (price - 99))", "08:40", 99, "data.failed", "REMAINDER_BY_ZERO"),
    "cast too small": (BARS, "max(CAST(price AS TINYINT))", "08:40", 1000, "data.failed", "CAST_OVERFLOW"),
    "text that is no number": (SESSIONS, "max(CAST(sym AS INT))", "08:40", 1, "data.failed", "CAST_INVALID_INPUT"),
    "half a century of windows": (FILLED, "sum(price)", LONG_AGO, 1, "data.too-many-windows", ""),
}
"""A definition, a measure, time and price of the row, and the error with Spark's condition."""
QUICK: Final = ("sum too large",)
CASES: Final = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in INPUTS]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("executor", ["spark", "auto"])
def test_a_row_that_an_engine_cannot_take(
    tmp_path: Path, spark: SparkSession, executor: ExecutorChoice, case: str
) -> None:
    """
    The error has its code and Spark's condition, the tables stay as they were, and without the row all is published.
    """
    engine, measure, when, price, code, condition = INPUTS[case]
    made = Site(tmp_path, spark, executor=executor)
    rows = made.table()
    rows.trade(("08:00", "1", 1), ("08:10", "2", 2), ("08:50", "1", 3), ("10:00", "2", 4))
    made.lake.define("made", "trades", time="ts", keys=["sym"], measures={"m": measure}, **engine)
    first = made.lake.refresh("made")
    published = made.published("made")
    rows.trade((when, "x" if condition == "CAST_INVALID_INPUT" else "1", price))
    before = tables_of(made)

    with pytest.raises(MaterializerError) as caught:
        made.lake.refresh("made")

    assert code == caught.value.code
    assert condition == caught.value.values.get("condition", "")
    assert before == tables_of(made)
    [status] = made.lake.status("made")
    assert ("dirty" if condition else "behind", None) == (status.state, status.open_refresh)

    rows.delete(f"price = {price} AND ts = arrow_cast('{_text(when)}', 'Timestamp(Microsecond, Some(\"UTC\"))')")
    assert "refreshed" == made.lake.refresh("made").outcome
    assert published == made.published("made")
    computed = {run.report.executor for run in first.runs}
    assert computed == {"local" if executor == "auto" and condition != "CAST_INVALID_INPUT" else ""}


def tables_of(made: Site) -> dict[str, tuple[int, int]]:
    """Return the files of the lake without those of the journal, in which the aborted refresh is, and fences."""
    return {n: at for n, at in made.files().items() if n.endswith(".parquet") and "_materializer" not in n}


def _text(when: datetime | str) -> str:
    return when.isoformat() if isinstance(when, datetime) else f"2024-03-01T{when}:00+00:00"
