"""Sketches of a lake that this process merges, rolls up and reads; the engine that stands for Spark cannot compute."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from materializer.core.aggregates.sketches import rank_error
from materializer.errors import NotLocalError
from tests.services.no_spark import LocalLake, NoSpark, each, view

HOUR = 3_600_000_000
MEASURES = "approx_count_distinct(v) AS n, approx_percentile(v, array(0.0, 0.5, 1.0)) AS ranks"


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with an aggregate of sketches over two hours."""
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 26)
    lake.add(*((i % 2 * HOUR, i // 2) for i in range(60)))
    lake.apply(view("hourly", each("1 hour"), measure=MEASURES))
    lake.opened.refresh("hourly")
    return lake


def test_a_late_row_joins_the_sketches_that_are_stored(lake: LocalLake) -> None:
    """
    The rows of its bucket are not read again.
    """
    lake.add((HOUR, 500), (HOUR, 3))
    [run] = lake.opened.refresh("hourly").runs

    assert ("local", "merge") == (run.report.executor, run.report.strategy)
    first, second = lake.rows_of("hourly")
    assert (30, [0, 14, 29]) == (first["n"], first["ranks"])
    assert (31, [0, 14, 500]) == (second["n"], second["ranks"])


def test_sketches_roll_up(tmp_path: Path) -> None:
    """
    A coarser aggregate merges those of the finer one, and no raw row is read.
    """
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 26)
    lake.add(*((h * HOUR + i, i) for h in range(48) for i in range(20)))
    lake.apply(
        *(view(name, each(width), measure=MEASURES) for name, width in (("hourly", "1 hour"), ("daily", "1 day")))
    )
    lake.opened.refresh("hourly")
    [run] = lake.opened.refresh("daily").runs

    assert "local" == run.report.executor
    assert "roll-up" in run.report.strategy
    assert [(20, 0, 19)] * 2 == [(day["n"], day["ranks"][0], day["ranks"][-1]) for day in lake.rows_of("daily")]


def test_many_values_stay_within_the_error_through_many_merges(lake: LocalLake) -> None:
    """
    Each refresh merges into the sketch that the one before it wrote.
    """
    choose = random.Random(5)
    values = [i // 2 for i in range(0, 60, 2)]
    for _ in range(6):
        more = [choose.randrange(100_000) for _ in range(700)]
        values += more
        lake.add(*((5, v) for v in more))
        [run] = lake.opened.refresh("hourly").runs
        assert ("local", "merge") == (run.report.executor, run.report.strategy)

    found = lake.rows_of("hourly")[0]
    least, middle, most = found["ranks"]
    assert (min(values), max(values)) == (least, most)
    assert sum(v <= middle for v in values) / len(values) == pytest.approx(0.5, abs=2 * rank_error(200))
    assert found["n"] == pytest.approx(len({*values}), rel=0.06)


CHECKED = view(
    "hourly",
    each("1 hour"),
    measure="approx_percentile(v, array(0.2, 0.9)) AS ranks, approx_percentile(v, 0.7) AS share",
)
CHECKED = CHECKED.replace("\nAS ", "\nTBLPROPERTIES ('quality.canaries' = '9')\nAS ", 1)


class AsksSpark(NoSpark):
    """Says that Spark was asked to compare rows."""

    def counted(self, *_: Any) -> Any:
        """See :class:`materializer.spark.run.spark.Spark`."""
        raise LookupError("Spark compares")


def test_canaries_compare_quantiles_with_their_bounds(tmp_path: Path) -> None:
    """
    A sketch of thousands of values that is built anew says other quantiles; nothing is asked of Spark for that.
    """
    choose = random.Random(11)
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 26)
    lake.apply(CHECKED)
    for _ in range(4):
        lake.add(*((choose.randrange(3) * HOUR, choose.randrange(10_000)) for _ in range(4_000)))
        [run] = lake.opened.refresh("hourly").runs
        assert "local" == run.report.executor

    assert lake.state("hourly").canaries["touched"] > 0


@pytest.mark.parametrize("column", ["ranks", "share"])
def test_a_quantile_beyond_its_bounds_is_shown_to_spark(tmp_path: Path, column: str) -> None:
    """
    Of an array a single one is enough.
    """
    choose = random.Random(11)
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 26, engine=AsksSpark())
    lake.apply(CHECKED)
    lake.add(*((0, choose.randrange(10_000)) for _ in range(2_000)), (HOUR, 1))
    lake.opened.refresh("hourly")
    for file in lake.root.glob("hourly/output/*.parquet"):
        rows = pq.read_table(file)
        wrong = [None if v is None else [v[0], 9_999] if column == "ranks" else 9_999 for v in rows[column].to_pylist()]
        at = rows.column_names.index(column)
        pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(wrong, rows.schema.field(at).type)), file)
    lake.add((HOUR, 3))

    with pytest.raises(LookupError, match="Spark compares"):
        lake.opened.refresh("hourly")


def test_bytes_that_are_no_sketch_end_in_an_error(lake: LocalLake) -> None:
    """
    Somebody wrote them over ours; nothing is written, and the process goes on.
    """
    [file] = lake.root.glob("hourly/partials/*/*.parquet")
    table = pq.read_table(file)
    for i, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            table = table.set_column(i, field, pa.array([b"\x05\x01\x0f\x00" * 20] * len(table), field.type))
    pq.write_table(table, file)
    lake.add((5, 500))

    with pytest.raises(NotLocalError, match="80 bytes that are no sketch") as caught:
        lake.opened.refresh("hourly", executor="local")
    assert "plan.not-local" == caught.value.code
