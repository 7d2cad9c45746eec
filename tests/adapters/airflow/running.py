"""Airflow as it runs: scheduler, executor, DAG processor, triggerer and API server of its own, on one lake."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.paths import ROOT

LONGEST = 240


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

    def until(self, what: str, found: Callable[[], Any], patience: int = LONGEST) -> Any:
        """Wait until something is found, at most some seconds, and return it."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(sqlite3.OperationalError):
                if result := found():
                    return result
            assert all(p.poll() is None for p in self.processes), self.said()
            time.sleep(0.5)
        states = self.rows("SELECT dag_id, run_id, state, try_number FROM task_instance")
        pytest.fail(f"{what} did not happen in {patience} s; tasks: {states}\n{self.said()}")

    def said(self) -> str:
        """Return the ends of all logs, for a failure."""
        logs = [*self.home.glob("*.log"), *self.home.glob("logs/dag_id=*/**/*.log")]
        return "\n".join(f"== {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
