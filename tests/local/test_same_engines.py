"""Two lakes over one source have the same results of windowing engines, computed in the process and by Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from materializer.core.time.spans import NEG_INF
from materializer.errors import FewerRowsError, NotLocalError
from tests.local.engine_lakes import COMPRESSED, DEFINITIONS, EXECUTORS, HOPS, SNAPSHOTS, START, World
from tests.tables import clean_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FEW = ("sessions", "filled")
MORE_OF_FEW = (
    "days that are filled",
    "panes",
    "hops",
    "snapshots",
    "counts",
    "state",
    "tumbling, strict",
    "panes, strict",
)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "name",
    [name if name in {*FEW, *MORE_OF_FEW} else pytest.param(name, marks=pytest.mark.slow) for name in DEFINITIONS],
)
def test_both_executors_make_the_same_results(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """
    After the first rows, late ones and ones behind a gap, corrections, moves and deletes, and a forced refresh by a clock, both tables of
    both lakes are equal, row by row, and so are the reports.
    """
    world = World(tmp_path, spark, DEFINITIONS[name], seed=len(name))
    world.append(0, 120, 40)
    world.refresh()
    world.append(0, 120, 5)
    world.append(300, 330, 5)
    world.refresh()
    table = DeltaTable(world.source)
    table.update(updates={"volume": "volume + 1", "price": "1.25"}, predicate=world.some())
    table.update(updates={"ts": f"'{(START + timedelta(minutes=200)).isoformat()}'"}, predicate=world.some())
    table.delete(world.some())
    world.refresh()
    world.append(0, 400, 3)
    # a clock would fill windows until then
    world.refresh(force=True, **({} if DEFINITIONS[name].get("fill") else {"as_of": "2025-03-31 00:00:00"}))


def test_rows_that_went_unseen_are_refused_in_the_same_words(tmp_path: Path, spark: SparkSession) -> None:
    """
    A source that has lost rows stops a refresh; the first and the last slice, and how many rows are missing, are the same.
    """
    for name in FEW:
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, spark, DEFINITIONS[name], seed=3)
        world.append(0, 300, 60)
        world.refresh()
        world.append(310, 330, 4)
        DeltaTable(world.source).delete("seq % 3 = 1 AND seq < 60")
        clean_log(world.source)
        said = []
        for executor in EXECUTORS:
            with pytest.raises(FewerRowsError) as caught:
                world.lakes[executor].refresh("made", executor=executor)
            said.append((str(caught.value), caught.value.values))
        assert said[0] == said[1]


GOING_ON = (
    *("sessions", "hopping", "filled", "forced", "days that are filled", "days that are filled on"),
    *("panes", "hops", "compressed hops", "snapshots", "counts of events", "state", "state of last rows"),
    "state of all rows",
)


@pytest.mark.parametrize(
    "name",
    [
        name if name in {"filled", "snapshots", "state"} else pytest.param(name, marks=pytest.mark.slow)
        for name in GOING_ON
    ],
)
def test_both_executors_go_on_above_frozen_history(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """
    Rows that come above, across and below the frozen boundary, and raw rows below it that go, leave both lakes equal.
    """
    world = World(tmp_path, spark, DEFINITIONS[name] | {"properties": {"source.retention": "2 hours"}}, seed=len(name))
    world.append(0, 400, 60)
    world.refresh()
    frozen = world.lakes["local"].status("made")[0].frozen
    assert frozen > NEG_INF
    world.append(390, 420, 3)
    world.refresh()
    edge = (START + timedelta(hours=3)).isoformat()
    DeltaTable(world.source).delete(f"ts < '{edge}' AND (until IS NULL OR until < '{edge}')")
    world.append(270, 420, 6)
    world.refresh()
    at = datetime.fromtimestamp(world.lakes["local"].status("made")[0].frozen / 1_000_000, UTC) - START
    edge_minute = int(at.total_seconds() // 60)
    world.append(edge_minute, edge_minute + 5, 3)
    world.refresh()
    world.append(100, 500, 3)
    world.refresh()
    world.append(250, 520, 3)
    world.refresh(force=True)
    assert world.lakes["local"].verify("made").is_equal  # the tables of both are equal


@pytest.mark.parametrize(
    "engine", [SNAPSHOTS, pytest.param(COMPRESSED, marks=pytest.mark.slow)], ids=["snapshots", "compressed"]
)
def test_an_open_event_over_a_short_integer_time(tmp_path: Path, spark: SparkSession, engine: dict[str, Any]) -> None:
    """
    The edge where an event without an end would end is no time of the source, and stops no refresh of some slices.
    """
    schema = pa.schema([("at", pa.int32()), ("fin", pa.int32()), ("k", pa.string()), ("v", pa.int64())])
    source = str(tmp_path / "events")
    rows = [(at, None if at % 3 == 0 else at + 7, "ab"[at % 2], at) for at in range(0, 90, 5)]
    DeltaTable.create(source, schema, configuration={"delta.enableChangeDataFeed": "true"})
    _append(source, schema, rows)
    lengths = {name: 4 if name == "duration" else 2 for name in ("duration", "period") if name in engine}
    parts = engine | lengths | {"end": "fin", "slice": 20}
    lakes = {executor: Materializer(tmp_path / executor, spark=spark, config=Config()) for executor in EXECUTORS}
    for executor, lake in lakes.items():
        lake.define("made", source, time="at", keys=["k"], measures={"total": "sum(v)"}, **parts)
        lake.refresh("made", executor=executor)
    _append(source, schema, [(31, 33, "a", 1), (52, None, "b", 1)])
    for executor, lake in lakes.items():
        lake.refresh("made", executor=executor)
    outputs = [DeltaTable(str(tmp_path / executor / "made" / "output")).to_pyarrow_table() for executor in EXECUTORS]
    found, expected = (sorted(map(repr, rows.to_pylist())) for rows in outputs)
    assert found == expected


def _append(source: str, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    write_deltalake(source, pa.table(columns, schema=schema), mode="append")


def test_a_column_that_the_query_has_too_is_left_to_spark(tmp_path: Path, spark: SparkSession) -> None:
    """
    The process refuses to compute from a source column that a step of the query would hide, and says which.
    """
    source = str(tmp_path / "events")
    write_deltalake(source, pa.table({"ts": [START], "until": [START], "_to": [1]}))
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config())
    lake.define("counted", source, time="ts", measures={"total": "sum(_to)"}, **HOPS)

    with pytest.raises(NotLocalError, match="a column with the name _to, which its query has, too"):
        lake.refresh("counted", executor="local")


@pytest.mark.parametrize(
    "name",
    [
        *("sessions", *(pytest.param(name, marks=pytest.mark.slow) for name in ("panes", "filled", "days"))),
        *("snapshots", "state"),
    ],
)
def test_canaries_of_an_engine_need_no_spark(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """
    The process computes slices again, all of them here, and finds them right; nothing is left to Spark.
    """
    every = {"properties": {"quality.canaries": "200"}}
    world = World(tmp_path, spark, DEFINITIONS[name] | every, seed=len(name))
    lake = world.lakes["local"]
    world.append(0, 400, 60)
    lake.refresh("made", executor="local")
    world.append(100, 420, 4)

    report = lake.refresh("made", executor="local")

    assert [(run.report.executor, run.report.jobs) for run in report.runs] == [("local", 0)]
    [found] = lake.status("made")
    assert found.canaries is not None
    assert found.canaries.clean
    assert found.canaries.touched
