"""Airflow as it runs: scheduler, executor, DAG processor, triggerer and API server of its own, on one lake."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from materializer.api import Materializer
from materializer.config import Config
from tests.adapters.airflow.conftest import BY_CLOCK, DAILY, HOURLY
from tests.adapters.airflow.running import Airflow
from tests.paths import ROOT
from tests.tables import append_trades

PROMISED = BY_CLOCK.replace("1 hour", "1 second")
"""Broken while the first refresh runs, kept when the source is captured."""
WAITING = """
from airflow.sdk import DAG

from materializer.adapters.airflow import FreshnessSensor

with DAG("waiting", schedule="@once"):
    FreshnessSensor(task_id="fresh", lake={lake!r}, aggregate="trades_1h", poke_interval=1)
"""
SEEN = HOURLY.replace("trades_1h", "trades_seen").format(properties="'refresh.start_offset' = 'none'")


@pytest.fixture
def lake_now(tmp_path, spark) -> Materializer:
    """A lake with an aggregate by the clock, its child, and one that waits for its source; nothing is refreshed yet."""
    root = tmp_path / "lake"
    for day in (1, 2, 3):
        append_trades(root, day)
    opened = Materializer(root, spark=spark, config=Config())
    for text in (HOURLY.format(properties=PROMISED), DAILY, SEEN):
        opened.apply(text)
    return opened


@pytest.fixture
def airflow(tmp_path, lake_now) -> Iterator[Airflow]:
    """Airflow, started on that lake."""
    (tmp_path / "airflow" / "dags").mkdir(parents=True)
    shutil.copy(ROOT / "dags" / "materializer_lake.py", tmp_path / "airflow" / "dags")
    (tmp_path / "airflow" / "dags" / "waiting.py").write_text(WAITING.format(lake=str(lake_now.root)))
    started = Airflow(tmp_path / "airflow", lake_now.root)
    try:
        started.start()
        yield started
    finally:
        started.stop()


def pids_of(lake: Path, *words: str) -> list[int]:
    """Processes whose arguments contain *words* one after the other, of this lake: others may run the same test."""
    wanted = "\0".join(words)
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            is_ours = f"MATERIALIZER_LAKE={lake}\0" in (entry / "environ").read_text()
            if is_ours and wanted in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


def pids_in(session: int) -> list[int]:
    """Processes that a command started, and itself; not those that have ended and nobody has asked how."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state, _, _, its, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(its) == session and state != "Z":
                found.append(int(entry.name))
    return found


def test_clock_arrival_parents_and_kills(airflow: Airflow, lake_now: Materializer) -> None:
    """
    A policy comes due, a child follows its parent, an arriving row wakes the aggregate that waits for its source, a killed
    task is tried again, one that was marked as failed ends with its JVM, and ``airflow backfill`` takes the buckets of its
    points. A sensor waits in the triggerer, and a deadline that passes says whether its promise is broken. Every table then
    equals plain Spark.
    """
    command = (lake_now.root, "-m", "materializer", "policy", "run", "trades_seen")
    killed = airflow.until("the first refresh of trades_seen", lambda: pids_of(*command))
    for pid in killed:
        os.killpg(pid, signal.SIGKILL)
    (seen,) = airflow.until("a retry after the kill", lambda: airflow.tasks("trades_seen", "success"))
    assert ("asset_triggered", 2) == seen[1:]

    due = airflow.until("a refresh by the clock", lambda: airflow.tasks("trades_1h", "success"))
    assert "scheduled" == due[0][1]
    waited = airflow.until("the end of the wait", lambda: airflow.tasks("waiting", "success"))
    assert [1] == [tries for _, _, tries in waited]
    assert any("DEFERRED" in log.read_text() for log in airflow.home.glob("logs/dag_id=waiting/**/*.log"))
    (passed,) = airflow.until(
        "the callback of a deadline",
        lambda: airflow.rows("SELECT output FROM callback WHERE state = 'success' ORDER BY created_at LIMIT 1"),
    )
    assert "trades_1h is staler than 1 second" in passed[0]
    child = airflow.until("a child after its parent", lambda: airflow.tasks("trades_1d", "success"))
    assert "asset_triggered" == child[0][1]

    append_trades(lake_now.root, 2, rows=1, volume=100)
    (pid,) = airflow.until("a refresh after a row arrived", lambda: pids_of(*command))
    airflow.until("its JVM", lambda: len(pids_in(pid)) > 1)
    (run,) = airflow.until("its task", lambda: airflow.tasks("trades_seen", "running"))
    airflow.mark_failed("trades_seen", run[0])
    airflow.until("the end of the command and its JVM", lambda: not pids_in(pid))
    assert [(run[0], "asset_triggered", 1)] == airflow.tasks("trades_seen", "failed")

    append_trades(lake_now.root, 3, rows=1, volume=100)
    airflow.until("a refresh after another row arrived", lambda: len(airflow.tasks("trades_seen", "success")) > 1)
    airflow.until("the parent's second refresh", lambda: len(airflow.tasks("trades_1h", "success")) > 1)
    airflow.until("the child's second refresh", lambda: len(airflow.tasks("trades_1d", "success")) > 1)
    names = ["trades_1h", "trades_1d", "trades_seen"]
    airflow.until("everything fresh", lambda: all(lake_now.status(n)[0].state == "fresh" for n in names))

    airflow.until("a run that found nothing", lambda: airflow.tasks("trades_1h", "skipped"))
    emitted = dict(
        airflow.rows("SELECT source_dag_id, count(*) FROM asset_event WHERE source_dag_id IS NOT NULL GROUP BY 1")
    )
    assert {name: len(airflow.tasks(name, "success")) for name in names} == emitted

    point = ("2013-12-02T00:59:00", "2013-12-02T01:00:00")
    airflow.command_alone("backfill", "create", "--dag-id", "trades_1h", "--from-date", point[0], "--to-date", point[1])
    airflow.until(
        "a backfill of two points",
        lambda: len([t for t in airflow.tasks("trades_1h", "skipped") if t[1] == "backfill"]) == 2,
    )
    results = airflow.rows(
        "SELECT x.value FROM xcom x JOIN dag_run r USING (dag_id, run_id) WHERE r.run_type = 'backfill' "
        "AND x.key = 'return_value' ORDER BY r.logical_date"
    )
    assert ["2013-12-02T00:00:00Z" in str(value) for (value,) in results] == [False, True]

    assert [] == pids_of(*command)
    for name in names:
        report = lake_now.verify(name)
        assert report.is_equal, name
        assert report.rows, name
        assert not lake_now.status(name)[0].dirty, name
