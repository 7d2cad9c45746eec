"""Late and corrected rows of few keys: only their groups are computed, from the log to the output, without a JVM."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.config import Config
from materializer.core.refresh.plan import Recompute
from tests.services.keyed import HOUR, Readings

MANY = {"rows": 1_000_000, "size": 1 << 28}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "'", "é", None]),
    "day": (pa.date32(), [date(1969, 12, 31), date(9999, 12, 31), date(2025, 3, 1), None]),
    "moment": (pa.timestamp("us", "UTC"), [EPOCH - timedelta(microseconds=1), EPOCH + timedelta(days=9999), None]),
    "fee": (pa.decimal128(9, 3), [Decimal("-1.000"), Decimal("0.001"), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "raw": (pa.binary(), [b"", b"\x00\xff", None]),
    "old": (pa.date32(), [date(1, 1, 1), date(1582, 10, 15), date(2025, 3, 1), None]),
}


def filled(root: Path, devices: int = 50, each: int = 10, **options: Any) -> Readings:
    """Return a lake with two hours of some rows of each device, refreshed."""
    lake = Readings(root, {"device": pa.string()}, **(MANY | options))
    for hour in range(2):
        lake.write([(hour * HOUR + j, f"d{i:03}", i + j) for i in range(devices) for j in range(each)])
    lake.opened.refresh("hourly")
    return lake


def test_a_late_device_with_a_correction_is_all_that_is_computed(tmp_path: Path) -> None:
    """
    Its late row is merged, and of the corrected hour its group alone is aggregated; all other groups stay as they are.
    """
    lake = filled(tmp_path)
    lake.write([(7, "d007", 1000)])
    lake.readings.update(
        predicate=f"device = 'd007' AND v = 8 AND ts >= '{EPOCH + timedelta(hours=1)}'", updates={"v": "0"}
    )

    [run] = lake.opened.refresh("hourly").runs

    assert ("merge+recompute-keys", "local", 1 + 10) == (run.report.strategy, run.report.executor, run.report.rows_read)
    assert 100 == run.report.partials_written
    assert lake.naive() == lake.published()


def test_a_group_whose_last_row_goes_vanishes_and_a_new_one_appears(tmp_path: Path) -> None:
    """
    A move makes both: the old key is computed and has no row left, the new one has no partials yet.
    """
    lake = filled(tmp_path, each=1)
    lake.write([(5, "d000", 1)] * 40)
    lake.opened.refresh("hourly")
    lake.readings.update(predicate="device = 'd049'", updates={"device": "NULL"})

    [run] = lake.opened.refresh("hourly").runs

    assert ("recompute-keys", 2) == (run.report.strategy, run.report.rows_read)
    assert lake.naive() == lake.published()
    devices = {row[1] for row in lake.published()}
    assert None in devices
    assert "d049" not in devices


def test_each_bucket_has_its_own_keys(tmp_path: Path) -> None:
    """
    What changed in one hour is not computed in the other.
    """
    lake = filled(tmp_path)
    lake.readings.delete("device = 'd001' AND ts = '1970-01-01T00:00:00Z'")
    lake.readings.delete("device = 'd002' AND ts = '1970-01-01T01:00:00Z'")

    [run] = lake.opened.refresh("hourly").runs

    assert ("recompute-keys", 9 + 9) == (run.report.strategy, run.report.rows_read)
    assert lake.naive() == lake.published()


def test_files_without_the_key_are_not_opened(tmp_path: Path) -> None:
    """
    The plan counts only the files whose statistics allow the changed key.
    """
    lake = Readings(tmp_path, {"device": pa.string()}, **MANY)
    for device in "abcdefgh":
        lake.write([(j, device, j) for j in range(1000)])
    lake.opened.refresh("hourly")
    lake.readings.update(predicate="device = 'c' AND v = 5", updates={"v": "6"})

    plan = lake.opened.plan("hourly").plan
    assert plan is not None
    [step] = [s for s in plan.steps if isinstance(s, Recompute)]
    assert (1, 1000 + 8, 2) == (step.keys, step.estimate.rows, step.estimate.files)
    [run] = lake.opened.refresh("hourly").runs
    assert 1000 == run.report.rows_read
    assert lake.naive() == lake.published()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("v % 1 = 0 AND ts < '1970-01-01T00:00:00.000001Z'", "more than 64 keys changed"),
        ("device = 'd001'", ""),
    ],
)
def test_past_the_bound_the_bucket_is_taken_whole_and_the_plan_says_so(
    tmp_path: Path, change: str, reason: str
) -> None:
    """
    Sixty-five keys are too many; of one key its groups are computed.
    """
    lake = filled(tmp_path, devices=65)
    lake.readings.update(predicate=change, updates={"v": "v + 1"})

    plan = lake.opened.plan("hourly").plan
    assert plan is not None
    [step] = [s for s in plan.steps if isinstance(s, Recompute)]
    assert (step.keys is None) == bool(reason)
    assert any(reason in r.reason for r in step.rejected)
    lake.opened.refresh("hourly")
    assert lake.naive() == lake.published()


def grouped(root: Path, key: str, **options: Any) -> Readings:
    """Return a lake whose key is an expression, with fifty devices of which one row was corrected since the refresh."""
    lake = Readings(root, {"device": pa.string()}, f"{key} AS name", **(MANY | options))
    lake.write([(j, f"d{i}", i + j) for i in range(50) for j in range(10)])
    lake.opened.refresh("hourly", executor="local")
    lake.readings.update(predicate="device = 'd1' AND v = 1", updates={"v": "0"})
    return lake


def test_a_key_that_is_an_expression_is_computed_of_the_changed_rows(tmp_path: Path) -> None:
    """
    Its changed values are recorded as those of a column; whatever of its rows lies in other groups is not aggregated.
    """
    lake = grouped(tmp_path, "CASE WHEN device LIKE 'd1%' THEN 'x' WHEN v = 3 THEN NULL ELSE device END")

    [run] = lake.opened.refresh("hourly").runs
    assert ("recompute-keys", 11 * 10) == (run.report.strategy, run.report.rows_read)


def test_a_key_that_only_spark_computes_is_taken_whole_and_the_plan_says_so(tmp_path: Path) -> None:
    """
    So it is where the settings leave everything to Spark: nothing of the changed rows is computed in the process.
    """
    lake = grouped(tmp_path, "upper(device)", config=Config(executor="spark"))

    plan = lake.opened.plan("hourly").plan
    assert plan is not None
    [step] = [s for s in plan.steps if isinstance(s, Recompute)]
    assert ["merge", "retract", "recompute-keys"] == [r.strategy for r in step.rejected]
    assert "the expression name" in step.rejected[2].reason


def test_the_gate_and_canaries_see_whole_buckets(tmp_path: Path) -> None:
    """
    Counts of rows are compared only where all rows of a bucket were read; sampled buckets are computed whole and are equal.
    """
    lake = filled(
        tmp_path, properties="'quality.checks' = 'true', 'quality.canaries' = '2', 'quality.canaries.every' = '1'"
    )
    lake.readings.delete("device = 'd001' AND v < 5")

    [run] = lake.opened.refresh("hourly").runs

    assert ("recompute-keys", 2 * 6) == (run.report.strategy, run.report.rows_read)
    assert {"output", "canaries", "sampled"} <= run.verdict.keys()
    assert lake.naive() == lake.published()


def test_a_forced_refresh_computes_whole_buckets(tmp_path: Path) -> None:
    """
    What was asked for is not narrowed by what was recorded.
    """
    lake = filled(tmp_path)
    lake.readings.update(predicate="device = 'd001' AND v = 1", updates={"v": "0"})

    [run] = lake.opened.refresh("hourly", force=True).runs
    assert "recompute-keys" not in run.report.strategy
    assert 1000 == run.report.rows_read


@pytest.mark.one_of(4)
@pytest.mark.parametrize("seed", range(12))
def test_random_histories_are_what_a_loop_over_all_rows_gives(tmp_path: Path, seed: int) -> None:
    """
    Whatever is inserted, corrected, moved or deleted, with two keys of any types and nulls, every output is right.
    """
    choose = random.Random(seed)
    keys = dict(choose.sample([*DOMAINS.items()], 2))
    lake = Readings(tmp_path, {name: kind for name, (kind, _) in keys.items()}, **MANY)

    def rows(count: int) -> list[tuple[Any, ...]]:
        return [
            (
                choose.randrange(3 * HOUR),
                *(choose.choice(values) for _, values in keys.values()),
                choose.choice([None, choose.randint(0, 99)]),
            )
            for _ in range(count)
        ]

    lake.write(rows(600))
    found = Counter[str]()
    for _ in range(8):
        table, predicate = DeltaTable(str(tmp_path / "readings")), f"v = {choose.randint(0, 99)}"
        match choose.randrange(5):
            case 0:
                lake.write(rows(choose.randint(1, 3)))
            case 1:
                table.delete(predicate)
            case 2:
                table.update(predicate=predicate, updates={"v": "v + 1"})
            case 3:
                table.update(predicate=predicate, updates={choose.choice([*keys]): "NULL"})
            case _:
                table.update(predicate=predicate, updates={"ts": "ts + INTERVAL '1 hour'"})
        if choose.random() < 0.7:
            for run in lake.opened.refresh("hourly").runs:
                found.update(run.report.strategy.split("+"))
            assert lake.naive() == lake.published()

    if seed == 1:
        assert found["recompute-keys"]


CHAIN = {
    "rollup": ("daily", "SELECT time_bucket('1 day', at) AS at, device, rollup(v) AS v, rollup(n) AS n FROM hourly"),
    "cascade": ("daily", "SELECT time_bucket('1 day', at) AS at, device, sum(v) AS v, sum(n) AS n FROM hourly"),
    "expression": (
        "daily",
        "SELECT time_bucket('1 day', at) AS at, upper(device) AS device, rollup(v) AS v, rollup(n) AS n FROM hourly",
    ),
}


@pytest.mark.parametrize("how", CHAIN)
def test_a_child_computes_the_keys_that_changed_in_its_parent(tmp_path: Path, how: str) -> None:
    """
    The commit of the parent names the one device, though it wrote all devices of the hour again; so do merges and single keys.
    """
    lake = filled(tmp_path, devices=60)
    name, select = CHAIN[how]
    lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {select} GROUP BY ALL")
    lake.opened.refresh(name, executor="local")
    for values in ([(7, "d007", 1000)], [(HOUR + 3, "d008", 1), (9, "d059", 3), (9, None, 4)]):
        lake.write(values)
        lake.opened.refresh("hourly", executor="local")
    lake.readings.update(predicate="device = 'd007' AND v = 8", updates={"v": "0"})
    lake.opened.refresh("hourly", executor="local")

    [run] = lake.opened.refresh(name, executor="local").runs

    keys = {key for entry in run.plan.taken for key in entry.keys or ()}
    assert keys == {("D007",), ("D008",), ("D059",), (None,)} if how == "expression" else len(keys) == 4
    assert "recompute-keys" == run.report.strategy
    assert 2 * 3 + 1 == run.report.rows_read
    assert daily(lake, how) == lake.published(name)


def test_a_child_takes_all_keys_where_its_parent_does_not_know_them(tmp_path: Path) -> None:
    """
    After a forced refresh, of more keys than a note names, or of a key that is no key of the parent.
    """
    lake = filled(tmp_path, devices=66)
    for name, key in (("daily", "device"), ("by_count", "CASE WHEN n > 10 THEN 'many' ELSE 'few' END AS device")):
        select = f"SELECT time_bucket('1 day', at) AS at, {key}, sum(v) AS v, sum(n) AS n FROM hourly"
        lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {select} GROUP BY ALL")
        lake.opened.refresh(name, executor="local")
    for force, values in ((True, [(7, "d007", 1)]), (False, [(j, f"d{j:03}", 1) for j in range(66)])):
        lake.write(values)
        lake.opened.refresh("hourly", executor="local", force=force)
        [run] = lake.opened.refresh("daily", executor="local").runs
        assert "recompute" == run.report.strategy
        [run] = lake.opened.refresh("by_count", executor="local").runs
        assert "recompute" == run.report.strategy
        assert daily(lake, "cascade") == lake.published("daily")


def test_a_scan_of_the_parent_changes_no_clean_bucket_for_its_child(tmp_path: Path) -> None:
    """
    It computes all hours of the window again, and the child has one dirty day.
    """
    lake = filled(tmp_path)
    lake.write([(day * 24 * HOUR, "d001", 1) for day in range(1, 4)])
    lake.opened.refresh("hourly", executor="local")
    lake.apply(f"CREATE MATERIALIZED VIEW daily AS {CHAIN['rollup'][1]} GROUP BY ALL")
    lake.opened.refresh("daily", executor="local")
    lake.write([(7, "d007", 1000)])

    [run] = lake.opened.refresh("hourly", executor="local", strategy="scan").runs
    assert 2 * 500 + 3 + 1 == run.report.rows_read
    plan = lake.opened.plan("daily").plan

    assert plan is not None
    assert ((0, 24 * HOUR),) == tuple((s.start, s.end) for s in plan.spans if s.is_bounded)


def daily(lake: Readings, how: str) -> list[tuple[Any, ...]]:
    """Return the days of a child, from the raw rows."""
    found: dict[Any, list[int]] = {}
    for at, device, v, n, _ in lake.naive():
        name = device.upper() if device is not None and how == "expression" else device
        group = found.setdefault((at - at % (24 * HOUR), name), [0, 0])
        group[0] += v
        group[1] += n
    return sorted(((*key, *values) for key, values in found.items()), key=repr)
