"""Airflow as it runs: scheduler, executor, DAG processor, triggerer and API server of its own, on one lake."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from materializer.api import Materializer
from materializer.config import Config
from tests.airflow.conftest import BY_CLOCK, DAILY, HOURLY, ROOT, feed

LONGEST = 240
PROMISED = BY_CLOCK.replace("1 hour", "1 second")
"""Broken while the first refresh runs, kept when the source is captured."""
WAITING = """
from airflow.sdk import DAG

from materializer.adapters.airflow import FreshnessSensor

with DAG("waiting", schedule="@once"):
    FreshnessSensor(task_id="fresh", lake={lake!r}, aggregate="trades_1h", poke_interval=1)
"""
SEEN = HOURLY.replace("trades_1h", "trades_seen").format(properties="'refresh.start_offset' = 'none'")


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Airflow:
    """One installation: its processes, and what its database says."""

    def __init__(self, home: Path, lake: Path) -> None:
        self.home = home
        port, workers, triggers = (str(free_port()) for _ in range(3))
        self.port = port
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "MATERIALIZER"))} | {
            "PYTHONPATH": str(ROOT),
            "MATERIALIZER_LAKE": str(lake),
            "MATERIALIZER_AIRFLOW_POLL_SECONDS": "1",
            "MATERIALIZER_AIRFLOW_RETRY_SECONDS": "1",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "3",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            # four processes write to one SQLite file: each waits its turn for longer than the default of 5 s
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": workers,
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": triggers,
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def command(self, *arguments: str) -> str:
        """Run a command of Airflow and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def command_alone(self, *arguments: str) -> None:
        """Run a command that writes several times, while nobody else writes: SQLite refuses who reads, then writes late."""
        for attempt in range(5):
            self._signal(signal.SIGSTOP)
            try:
                self.command(*arguments)
            except (
                AssertionError
            ) as exc:  # somebody stands still with the lock, so that not even the first write was done
                if "database is locked" not in str(exc) or attempt == 4:
                    raise
            else:
                return
            finally:
                self._signal(signal.SIGCONT)
            time.sleep(2)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def start(self) -> None:
        """Make the database and the pool, and start all processes."""
        self.command("db", "migrate")
        self.command("pools", "set", "materializer", "2", "JVMs")
        api = ("api-server", "--host", "127.0.0.1", "--port", self.port, "--workers", "1")
        for arguments in (api, ("dag-processor",), ("scheduler",), ("triggerer",)):
            with (self.home / f"{arguments[0]}.log").open("wb") as log:
                started = subprocess.Popen(
                    [sys.executable, "-m", "airflow", *arguments],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.processes.append(started)
            if arguments is api:
                self.until("an answer of the API server", self._answers)  # tasks that ask before would be lost

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/version", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def mark_failed(self, name: str, run: str) -> None:
        """Do what *Mark as failed* does in the UI, to the task of a run."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/auth/token", timeout=30) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v2/dags/{name}/dagRuns/{quote(run)}/taskInstances/refresh",
            json.dumps({"new_state": "failed"}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method="PATCH",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200

    def stop(self) -> None:
        """End all processes."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            for process in self.processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True, timeout=30)) as found:
            return found.execute(query, values).fetchall()

    def tasks(self, name: str, state: str) -> list[tuple[Any, ...]]:
        """(run id, run type, tries) of the tasks of a DAG in a state, oldest first."""
        return self.rows(
            "SELECT r.run_id, r.run_type, t.try_number FROM task_instance t JOIN dag_run r USING (dag_id, run_id) "
            "WHERE t.dag_id = ? AND t.state = ? ORDER BY t.end_date",
            name,
            state,
        )

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        """Wait until something is found, and return it."""
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            with suppress(sqlite3.OperationalError):
                if result := found():
                    return result
            assert all(p.poll() is None for p in self.processes), self.said()
            time.sleep(0.5)
        states = self.rows("SELECT dag_id, run_id, state, try_number FROM task_instance")
        pytest.fail(f"{what} did not happen in {LONGEST} s; tasks: {states}\n{self.said()}")

    def said(self) -> str:
        """Return the ends of all logs, for a failure."""
        logs = [*self.home.glob("*.log"), *self.home.glob("logs/dag_id=*/**/*.log")]
        return "\n".join(f"== {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


@pytest.fixture
def lake_now(tmp_path, spark) -> Materializer:
    """A lake with an aggregate by the clock, its child, and one that waits for its source; nothing is refreshed yet."""
    root = tmp_path / "lake"
    for day in (1, 2, 3):
        feed(root, day)
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

    feed(lake_now.root, 2, rows=1, volume=100)
    (pid,) = airflow.until("a refresh after a row arrived", lambda: pids_of(*command))
    airflow.until("its JVM", lambda: len(pids_in(pid)) > 1)
    (run,) = airflow.until("its task", lambda: airflow.tasks("trades_seen", "running"))
    airflow.mark_failed("trades_seen", run[0])
    airflow.until("the end of the command and its JVM", lambda: not pids_in(pid))
    assert [(run[0], "asset_triggered", 1)] == airflow.tasks("trades_seen", "failed")

    feed(lake_now.root, 3, rows=1, volume=100)
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
