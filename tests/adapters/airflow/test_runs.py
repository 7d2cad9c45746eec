from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.adapters.airflow.tasks.looking import describe
from materializer.api import Materializer
from materializer.config import Config
from tests import tables
from tests.adapters.airflow.conftest import HOURLY
from tests.adapters.airflow.dag_runs import ran
from tests.system import verifying
from tests.tables import append_trades


@pytest.fixture(scope="module")
def dags_file(airflow_home, lake) -> Path:
    """The file that Airflow reads when it tests a DAG."""
    file = airflow_home / "dags" / "lake.py"
    file.write_text(
        f"from materializer.adapters.airflow import dags_of  # airflow\nglobals().update(dags_of({str(lake)!r}))\n"
    )
    yield file
    file.unlink()


NO_JAVA = {"JAVA_HOME": "/nonexistent", "PATH": "/nonexistent", "MATERIALIZER_EXECUTOR": "spark"}


def test_a_form_is_done_as_it_says(dags_file, lake, spark):
    """
    A dry run writes nothing and needs no Java; a refresh of a window and a backfill of the rest do the work and emit the
    asset with what they did; then nothing is to do: skipped with a summary, no event, no JVM. The table equals plain Spark.
    """
    opened = Materializer(lake, spark=spark, config=Config())
    day = {"start": "2013-12-01T00:00:00Z", "end": "2013-12-02T00:00:00Z"}
    state, plan, events = ran(lake, "trades_1h", {"mode": "refresh", "dry_run": True, **day}, environment=NO_JAVA)
    assert ("skipped", []) == (state, events)
    assert plan["window"] == day
    assert plan["plan"]["steps"]
    assert "empty" == opened.status("trades_1h")[0].state

    state, done, events = ran(lake, "trades_1h", {"mode": "refresh", **day})
    assert ("success", 1) == (state, len(events))
    assert [day] == [run["window"] for run in done["refreshes"][0]["runs"]]
    expected = {"aggregate": "trades_1h", "dirty_buckets": 24, "rows_read": 72, "source_version": 2, "owed": False}
    assert expected.items() <= events[0].items()

    state, done, events = ran(lake, "trades_1h", {"mode": "backfill", "buckets_per_run": 24, "order": "oldest"})
    assert "success" == state
    assert [run["window"]["end"] for run in done["refreshes"][0]["runs"] if run["rows_read"]] == [
        "2013-12-03T00:00:00Z",
        "2013-12-04T00:00:00Z",
    ]
    assert 144 == events[0]["rows_read"]

    state, done, events = ran(lake, "trades_1h", environment=NO_JAVA)
    assert ("skipped", []) == (state, events)
    assert ["up-to-date"] == [r["outcome"] for r in done["refreshes"]]
    verifying.expect_equal(opened, "trades_1h")


def test_a_dry_run_of_policies_plans_their_windows(dags_file, lake, spark, capsys):
    """
    Each the whole buckets that it would refresh now; the log has the plans in words, and why the task was skipped.
    """
    now = "'refresh.start_offset' = '2 hours', 'refresh.schedule' = '@daily'"
    older = "'refresh.old.end_offset' = '1 day', 'refresh.old.schedule' = '@weekly'"
    Materializer(lake, spark=spark, config=Config()).apply(HOURLY.format(properties=f"{now}, {older}"))
    append_trades(lake, 6, rows=3)
    state, done, events = ran(lake, "trades_1h", {"dry_run": True}, environment=NO_JAVA)
    told = capsys.readouterr().out

    assert ("skipped", []) == (state, events)
    assert [True, False] == [done["policies"][name]["plan"] is None for name in ("default", "old")]
    assert "policy default: trades_1h: nothing is to do in an empty window" in told
    assert "policy old:   recompute [2013-12-06T00:00:00Z, 2013-12-06T01:00:00Z)" in told
    assert "dry run: nothing was done" in told


def test_what_cannot_be_done_fails_at_once(dags_file, lake):
    """
    A window given to policies and an aggregate that is gone are not tried again; a missing Java neither.
    """
    assert "failed" == ran(lake, "trades_1h", {"start": "2013-12-01T00:00:00Z"})[0]
    append_trades(lake, 4, rows=3)
    state, _, events = ran(lake, "trades_1h", environment=NO_JAVA)
    assert ("failed", []) == (state, events)


def test_a_debt_is_paid_by_a_run_that_finds_nothing(dags_file, lake, spark):
    """
    The run before published nothing that anybody was told of, because it failed; when somebody else has refreshed
    meanwhile, the next run finds nothing to do and emits the asset all the same, once.
    """
    Materializer(lake, spark=spark, config=Config()).refresh("trades_1h")
    first, _, owed = ran(lake, "trades_1h", environment=NO_JAVA)
    second, _, events = ran(lake, "trades_1h", environment=NO_JAVA)

    assert ("success", [True]) == (first, [e["owed"] for e in owed])
    assert ("skipped", []) == (second, events)


def test_a_gate_that_refuses_fails_the_task_and_emits_nothing(dags_file, lake, spark, tmp_path):
    """
    A bad volume is not published and not tried again; what the log keeps of it is in the history. Corrected, it is
    published, and the DAG that checks finds nothing wrong.
    """
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "volume", "max_value": 1_000}}]
    (tmp_path / "trades_1h.json").write_text(json.dumps({"name": "volumes", "expectations": suite}))
    opened = Materializer(lake, spark=spark, config=Config(expectations=tmp_path))
    asked = "'refresh.start_offset' = 'none', 'refresh.schedule' = '*/5 * * * *', 'quality.schedule' = '@daily'"
    opened.apply(HOURLY.format(properties=asked))
    opened.refresh("trades_1h")
    append_trades(lake, 5, rows=3, volume=5_000)

    state, _, events = ran(lake, "trades_1h")
    assert ("failed", []) == (state, events)
    assert ["volumes"] == [opened.history("trades_1h")[0].verdict["output"]["suite"]]
    assert "success" == ran(lake, "trades_1h.check")[0]

    DeltaTable(str(lake / "trades")).update({"volume": "5"}, predicate="volume = 5000")
    state, done, events = ran(lake, "trades_1h")
    assert ("success", 1) == (state, len(events))
    assert [1] == [s["passed"] for s in done["refreshes"][0]["runs"][0]["gate"]["suites"]]
    verifying.expect_equal(opened, "trades_1h")


def test_policies_of_plain_integers_follow_the_newest_row(dags_file, lake, spark):
    """
    There is no clock among them: now is the end of the bucket of the source's newest row, captured or not.
    """
    rows = {"tick": pa.array([5, 17, 42], pa.int64()), "v": pa.array([1.0, 2.0, 3.0])}
    tables.append(lake / "ticks", pa.table(rows))
    opened = Materializer(lake, spark=spark, config=Config())
    policy = {"refresh.start_offset": "40", "refresh.end_offset": "10"}
    opened.define("by_ten", "ticks", time="tick", width=10, measures={"s": "sum(v)"}, properties=policy)

    state, done, _ = ran(lake, "by_ten")
    assert ("success", [{"start": 10, "end": 40}]) == (
        state,
        [run["window"] for run in done["refreshes"][0]["runs"]],
    )

    tables.append(lake / "ticks", pa.table({"tick": pa.array([61], pa.int64()), "v": pa.array([4.0])}))
    state, done, _ = ran(lake, "by_ten")
    assert ("success", [60]) == (state, [run["window"]["end"] for run in done["refreshes"][0]["runs"]])
    assert "by_ten is staler than promised" in describe(str(lake), "by_ten", "2024-03-01T00:00:00Z")[1]
