"""The process and Spark count the windows that an engine would make alike, and refuse too many in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config, Limits
from materializer.errors import TooManyWindowsError
from materializer.spark.engines.windowing import Windowing
from tests.local.engine_lakes import DEFINITIONS, EXECUTORS, HOPS, World

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILLED = ("filled", "days that are filled", "days that are filled on")
COUNTED = {name: DEFINITIONS[name] for name in (*FILLED, "hopping from rows", "panes")} | {
    "hops of two keys": HOPS | {"default_end": "2025-03-30 09:00:00", "keys": ["sym", "ratio"]},
    "hops without keys": HOPS | {"default_end": "2025-03-30 09:00:00", "keys": []},
}


def counted(world: World, spark: SparkSession, limit: int) -> list[tuple[str, dict[str, Any]]]:
    """Refresh both lakes with a limit that refuses; return what each executor says."""
    said = []
    for executor in EXECUTORS:
        lake = Materializer(world.folder / executor, spark=spark, config=Config(limits=Limits(windows=limit)))
        with pytest.raises(TooManyWindowsError) as caught:
            lake.refresh("made", executor=executor, strategy="recompute-keys" if world.turn else None)
        said.append((caught.value.message, dict(caught.value.values)))
    return said


@pytest.mark.parametrize(
    "name",
    [name if name == "filled" else pytest.param(name, marks=pytest.mark.slow) for name in COUNTED],
)
def test_both_executors_count_windows_alike(
    tmp_path: Path, spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Of all rows, and of some keys after a change: as many windows, and where one row makes the most of them, the same row. Spark
    counts for its own lake alone.
    """
    calls = 0
    by_spark = Windowing.census

    def census(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return by_spark(*args)

    monkeypatch.setattr(Windowing, "census", census)
    world = World(tmp_path, spark, COUNTED[name], seed=len(name))
    world.append(0, 120, 40)
    world.append(40_000, 40_001, 1)
    DeltaTable(world.source).update(updates={"sym": "'a'"}, predicate="seq = 40")
    if "hops" in name:
        DeltaTable(world.source).update(updates={"until": "'2025-04-30T00:00:00Z'"}, predicate="seq = 7")
    here, there = counted(world, spark, 1)
    assert here == there
    assert calls == 1

    world.refresh()
    calls = 0
    world.append(12_000, 12_001, 1)
    DeltaTable(world.source).update(updates={"sym": "'a'"}, predicate="seq = 41")
    here, there = counted(world, spark, 1)
    assert here == there
    assert calls == 1


def test_a_gap_that_64_bits_do_not_hold_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """
    As too many windows, not as an overflow.
    """
    source = str(tmp_path / "events")
    times = [-9 * 10**18, 9 * 10**18, 3]
    write_deltalake(source, pa.table({"at": times, "k": ["a", "a", "b"], "v": [1, 2, 3]}))
    series: dict[str, Any] = {"engine": "time_series", "window_size": 10, "step": 10, "fill": "ffill"}
    said = []
    for executor in EXECUTORS:
        lake = Materializer(tmp_path / executor, spark=spark, config=Config(limits=Limits(windows=1_000)))
        lake.define("made", source, time="at", keys=["k"], measures={"total": "sum(v)"}, **series)
        with pytest.raises(TooManyWindowsError) as caught:
            lake.refresh("made", executor=executor)
        said.append(caught.value.message)
    assert said[0] == said[1]
    assert "the row k = 'a' at -9000000000000000000" in said[0]
