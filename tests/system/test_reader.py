"""A reader that never waits sees the output before a refresh or after it, never in between."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from tests.system.lake import Source
from tests.system.processes.running import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS: Final = 4
KEYS: Final = tuple("abcdef")
WHOLE: Final = {(bucket, key) for bucket in range(BUCKETS) for key in KEYS}

Seen = set[tuple[int, str, int]]


class Reader:
    """Reads in a thread, again and again, and notes each read: (bucket, key, generation) of every row."""

    def __init__(self, read: Callable[[], Iterable[tuple[Any, str, int]]]) -> None:
        self._read = read
        self._stopped = threading.Event()
        self._reads: list[Seen] = []
        self._failure: BaseException | None = None

    @property
    def reads(self) -> list[Seen]:
        """What was read, in order."""
        if self._failure is not None:
            raise self._failure
        return self._reads

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read while the block runs, and once after it."""
        thread = threading.Thread(target=self._go_on_reading)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _go_on_reading(self) -> None:
        try:
            is_last = False
            while not is_last:
                is_last = self._stopped.is_set()
                self._reads.append({(_hour(at), key, generation) for at, key, generation in self._read()})
        except BaseException as exc:  # noqa: BLE001 (raised again where the reads are asked for)
            self._failure = exc


def _hour(at: Any) -> int:
    return (at.replace(tzinfo=START.tzinfo) - START) // timedelta(hours=1)


def generation_of(read: Seen) -> int:
    """Return the one generation that all rows of a read have; every bucket and key is there once."""
    by_generation = defaultdict(set)
    for bucket, key, generation in read:
        by_generation[generation].add((bucket, key))
    [(generation, rows)] = by_generation.items()
    assert rows == WHOLE
    return generation


@pytest.mark.parametrize("change", [pytest.param("insert", marks=pytest.mark.slow), "correct"])
def test_readers_see_each_refresh_whole(tmp_path: Path, spark: SparkSession, change: str) -> None:
    """
    Each refresh changes all buckets and keys by one generation; no read of any reader mixes two, or goes back.
    """
    source = Source(str(tmp_path / "source"), has_feed=True)
    lakes = [
        Materializer(tmp_path / "lake", spark=spark, config=Config(driver_lane_rows=rows, executor="spark"))
        for rows in (200_000, 0)
    ]

    def insert(generation: int, times: int = 1) -> None:
        source.insert(
            {"ts": START + timedelta(hours=bucket, seconds=i), "k": key, "v": generation, "ok": True}
            for bucket in range(BUCKETS)
            for key in KEYS
            for i in range(times)
        )

    insert(0, times=100)
    lakes[0].define("seen", source.path, time="ts", width="1 hour", keys=["k"], measures={"generation": "max(v)"})
    lakes[0].refresh("seen")
    output, lanes = tmp_path / "lake" / "seen" / "output", []
    without_jvm = Reader(lambda: zip(*DeltaTable(str(output)).to_pyarrow_table().to_pydict().values(), strict=True))
    with_spark = Reader(lambda: map(tuple, spark.read.format("delta").load(str(output)).collect()))
    with without_jvm.reading(), with_spark.reading():
        for generation in range(1, 5):
            if change == "insert":
                insert(generation)
            else:
                source.update(source.rows, "v", generation)
            report = lakes[generation % 2].refresh("seen")
            lanes += [(run.report.strategy, run.report.lane) for run in report.runs]

    strategy = "merge" if change == "insert" else "recompute"
    assert [(strategy, "spark"), (strategy, "driver")] * 2 == lanes
    for reader in (without_jvm, with_spark):
        seen = [generation_of(read) for read in reader.reads]
        assert sorted(seen) == seen
        assert (0, 4) == (seen[0], seen[-1])
        assert len(set(seen)) > 2, "the reader was too slow to see anything"


def test_readers_see_the_process_and_a_switch_whole(tmp_path: Path, spark: SparkSession) -> None:
    """
    Refreshes that the process computes, a backfill of everything, and the switch to a changed definition: no read is empty or mixed.
    """
    source = Source(str(tmp_path / "source"), has_feed=True)
    lake = Materializer(tmp_path / "lake", spark=spark)

    def insert(generation: int) -> None:
        source.insert(
            {"ts": START + timedelta(hours=bucket), "k": key, "v": generation, "ok": True}
            for bucket in range(BUCKETS)
            for key in KEYS
        )

    insert(0)
    parts: dict[str, Any] = {"time": "ts", "width": "1 hour", "keys": ["k"]}
    lake.define("seen", source.path, measures={"generation": "max(v)"}, **parts)
    lake.refresh("seen")
    output, executors = tmp_path / "lake" / "seen" / "output", []
    reader = Reader(lambda: zip(*DeltaTable(str(output)).to_pyarrow_table().to_pydict().values(), strict=True))
    with reader.reading():
        for generation in range(1, 4):
            insert(generation)
            executors += [run.report.executor for run in lake.refresh("seen").runs]
        lake.backfill("seen", force=True)
        lake.define("seen", source.path, measures={"generation": "max(v) + 100"}, **parts)
        assert lake.build("seen").switched is not None

    assert ["local"] * 3 == executors
    seen = [generation_of(read) for read in reader.reads]
    assert sorted(seen) == seen
    assert (0, 103) == (seen[0], seen[-1])
    assert len(set(seen)) > 2, "the reader was too slow to see anything"
