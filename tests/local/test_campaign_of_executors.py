"""The campaign of random definitions: a scene compares both executors, finds what differs, and the campaign goes on where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.budget import Budget
from materializer.spark.run.spark import Spark
from tests.local import campaign
from tests.local.campaign import EACH, ENGINES, SCENES, made, run
from tests.local.engine_scenes import EngineScene
from tests.local.engine_trials import compared, unlike
from tests.local.scenes import Scene, alike
from tests.system.campaign import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_scene_is_computed_by_both(spark: SparkSession, tmp_path: Path) -> None:
    """
    Of some definitions of a scene both executors compute every plan, with the same tables.
    """
    found = Scene(1, tmp_path).compared(Spark(spark, {}, Budget()), range(6))

    assert {} == found.wrong
    assert found.cases >= 4


@pytest.mark.spark
@pytest.mark.parametrize(
    "number", [6, pytest.param(4, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.slow)]
)
def test_a_scene_of_an_engine_is_computed_by_both(spark: SparkSession, tmp_path: Path, number: int) -> None:
    """
    Of some definitions of one engine both executors compute every refresh, each alone and all together, with the same tables.
    """
    found = compared(EngineScene(number, tmp_path), Spark(spark, {}, Budget()), range(3))

    assert {} == found.wrong
    assert found.cases >= 1
    assert found.seen["everything"] >= 1


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"v_a": [0.1 + 0.2, 2.0, None]}, ""),
        ({"v_a": [0.3, 2.0, 0.0]}, "v_a of {'slice': 2, 'w_start': 2} is 0.0, in Spark None"),
        ({"w_start": [0, 2, 2]}, "w_start of {'slice': 1, 'w_start': 2} is 2, in Spark 1"),
        ({"v_b": ["x", "y", "z"]}, "v_b of {'slice': 1, 'w_start': 1} is 'y', in Spark 'z'"),
        ({"slice": [0, 1], "w_start": [0, 1], "v_a": [0.3, 2.0], "v_b": ["x", "z"]}, "2 rows, in Spark 3"),
    ],
)
def test_results_that_are_not_equal_are_told(change: dict[str, list[Any]], wrong: str) -> None:
    """
    Every column of each result counts; doubles may differ by rounding, and rows may come in any order.
    """
    theirs = {"slice": [2, 0, 1], "w_start": [2, 0, 1], "v_a": [None, 0.3, 2.0], "v_b": ["z", "x", "z"]}
    ours = {"slice": [0, 1, 2], "w_start": [0, 1, 2], "v_a": [0.3, 2.0, None], "v_b": ["x", "z", "z"]}

    assert wrong == unlike(pa.table(theirs), pa.table(ours | change))


@pytest.mark.parametrize(
    ("a", "b", "is_loose", "expected"),
    [
        (float("nan"), float("nan"), False, True),
        (0.1 + 0.2, 0.3, True, True),
        (0.1 + 0.2, 0.3, False, False),
        (1.0, 1.1, True, False),
        (1, 1.0, True, False),
        (None, 0, True, False),
        ({"v": [1.0, None]}, {"v": [1.0, None]}, False, True),
        ({"v": [1.0, None]}, {"v": [None, 1.0]}, False, False),
        ({"v": 1}, {"w": 1}, False, False),
    ],
)
def test_values_are_alike(a: Any, b: Any, *, is_loose: bool, expected: bool) -> None:
    """
    Only doubles may differ, only up to rounding, and only where that is the law.
    """
    assert expected == alike(a, b, is_loose=is_loose)


def test_chunks_on_record_are_not_run_again(tmp_path: Path) -> None:
    """
    Two workers share the chunks; one that found something ends with status 1, and the next call goes on.
    """
    file, ran = tmp_path / "executors.jsonl", list[int]()

    def chunk(first: int) -> dict[str, Any]:
        ran.append(first)
        wrong = [{"seed": 100 * first, "wrong": "n of () is 1, in Spark 2"}] if first == SCENES else []
        return {
            "first": first, "scenes": SCENES, "cases": 10, "refused": 1, "left": 1, "seconds": 1.0, "seen": {}, "found": wrong,
        }  # fmt: skip

    def go_on(target: int, worker: str) -> int:
        options = argparse.Namespace(minutes=1, target=target, worker=worker, seed=0, engines=False)
        return run(options, chunk, file, lambda: 0.0)

    assert [0, 1, 0] == [go_on(10, "0/2"), go_on(20, "1/2"), go_on(40, "0/2")]
    assert [0, SCENES, 2 * SCENES, 4 * SCENES] == ran == [entry["first"] for entry in kept(file)]
    assert f"seed {100 * SCENES}: n of ()" in campaign.table(kept(file))


def test_engines_are_counted_apart(tmp_path: Path) -> None:
    """
    Chunks of engines neither count as ones of aggregates nor stand for them, and the table has a row for each kind.
    """
    file, ran = tmp_path / "executors.jsonl", list[tuple[str, int]]()

    def go_on(*, engines: bool) -> None:
        kind = ENGINES if engines else campaign.AGGREGATES

        def chunk(first: int) -> dict[str, Any]:
            ran.append((kind, first))
            counts = {"scenes": EACH[kind], "cases": 10, "refused": 0, "left": 0, "seconds": 1.0}
            return {"kind": kind, "first": first, **counts, "seen": {}, "found": []}

        options = argparse.Namespace(minutes=1, target=20, worker="0/1", seed=0, engines=engines)
        run(options, chunk, file, lambda: 0.0)

    go_on(engines=False)
    go_on(engines=True)
    go_on(engines=True)

    assert [("aggregates", 0), ("aggregates", SCENES), ("engines", 0), ("engines", EACH[ENGINES])] == ran
    assert ["aggregates", "engines"] == [
        line.split("|")[1].strip() for line in campaign.table(kept(file)).splitlines()[2:]
    ]


def test_the_page_has_the_cases_on_record() -> None:
    """
    `python -m tests.local.campaign --summary` writes the table.
    """
    assert campaign.PAGE.read_text(encoding="utf-8") == made()
