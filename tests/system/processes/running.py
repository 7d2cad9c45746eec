"""The parent's side: a small lake that can be held against plain Spark, and child processes that work on it and die."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.language.define import define
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import SECOND
from materializer.core.time.spans import NEG_INF
from materializer.errors import LeaseHeldError
from materializer.journal.state import AggregateState
from materializer.lake.notes import find_notes
from materializer.services.processes import started
from tests.paths import ROOT
from tests.system import verifying
from tests.system.lake import Source
from tests.system.plain import plain_sql
from tests.system.processes.handed import handlers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE: Final = 300.0
"""Seconds after which a child that says nothing is taken for hung; Spark alone may take 60 on a busy machine."""
START: Final = datetime.fromisoformat("2024-03-01T00:00:00+00:00")
HOURS: Final = 6
MEASURES: Final = {"n": "count(*)", "s": "sum(v)", "open": "first(v)", "latest": "max(id)"}
PLAINLY: Final = "count(*) n, sum(v) s, min_by(v, ts) open, max(id) latest"
DEATHS: Final = {
    "nothing is written": ("write", "", (1, 1), "aborted"),
    "only the partials are": ("wrote_partials", "writing_output", (2, 1), "finished"),
    "only the output is": ("wrote_output", "writing_partials", (1, 2), "aborted"),
    "both are": ("done", "", (2, 2), "finished"),
}
"""Where refresh 2 dies, what it never comes to, refresh numbers of partials and output then, and how it is recovered."""


class Child:
    """A command in a process of its own, with what it said so far."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_at(self, checkpoint: str) -> None:
        """Return when it waits at *checkpoint*."""
        assert {"at": checkpoint} == self.heard()

    def go_on(self) -> None:
        """Let it go on from where it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it without a warning; its JVM, if it has one, may live on for a moment."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def interrupt(self) -> None:
        """Do what Ctrl-C does: signal it and all its children."""
        os.killpg(self.pid, signal.SIGINT)

    def end(self, status: int = 0) -> dict[str, Any]:
        """Return what it said last, after it ended with *status*."""
        said = self.heard()
        found = self._process.wait(PATIENCE)
        assert status == found, f"it ended with {found}: {said} {self._complaints()}"
        return said

    def heard(self) -> dict[str, Any]:
        """Return the next thing it says."""
        try:
            said = self._said.get(timeout=PATIENCE)
        except queue.Empty:
            said = None
        assert said is not None, f"it said nothing more: {self._complaints()}"
        return said

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)

    def _complaints(self) -> str:
        return self._errors.read_text(errors="replace")[-3000:]


class World:
    """One aggregate ``bars`` over one source with a change feed: 200 rows an hour and key at first.

    Args:
        folder: Where everything lies.
        spark: The session of the run.
        driver_lane_rows: 0 makes every commit Spark's.
        measures: Of the aggregate; by default such that :meth:`insert` changes all of them.
        properties: Of the aggregate.
        executor: What computes its refreshes, here and in children.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        *,
        driver_lane_rows: int = 200_000,
        measures: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        executor: str = "spark",
    ) -> None:
        self.folder = folder
        self.executor = executor
        self.spark = spark
        self.driver_lane_rows = driver_lane_rows
        self.source = Source(str(folder / "source"), has_feed=True)
        self.root = folder / "lake"
        self.plainly = PLAINLY if measures is None else ", ".join(f"{sql} {name}" for name, sql in measures.items())
        self._early = 0
        self.measures = measures or MEASURES
        self.properties = properties or {}
        config = Config(
            price_tie_ms=60_000,
            driver_lane_rows=driver_lane_rows,
            executor=executor,
            expectations=folder / "expectations",
        )
        self.lake = Materializer(self.root, spark=spark, config=config, output_handlers=handlers(folder))
        self.insert(200)
        self.define()

    def define(self) -> None:
        """Apply the definition, with the suites that lie in ``expectations`` now."""
        self.lake.apply(self.definition(self.measures, self.properties))

    def definition(self, measures: dict[str, str], properties: dict[str, str], comment: str = "") -> AggregateSpec:
        """Return a definition of the aggregate with other measures."""
        parts: dict[str, Any] = {"measures": measures, "properties": properties, "comment": comment}
        return define("bars", self.source.path, time="ts", width="1 hour", keys=["k"], **parts)

    def insert(self, rows: int, hours: Sequence[int] = tuple(range(HOURS))) -> None:
        """Insert so many rows into each of these hours for each of two keys, in one commit; all before what is there."""
        self._early += rows
        self.source.insert(
            {
                "ts": START + timedelta(hours=hour + 1, seconds=-0.1 * (self._early - i)),
                "k": key,
                "v": (self._early * 7 + i * 3 + hour) % 50,
                "ok": True,
            }
            for hour in hours
            for key in ("a", "b")
            for i in range(rows)
        )

    @property
    def state(self) -> AggregateState:
        """What the journal says of the aggregate."""
        return self.lake.journal.view().named("bars")

    def table(self, which: str) -> Path:
        """Return where a table of the aggregate lies."""
        path = self.root / "bars" / which
        return path if which == "output" else next(p for p in path.iterdir() if DeltaTable.is_deltatable(str(p)))

    def n_in(self, which: str) -> int:
        """Return the refresh number that a table of the aggregate carries."""
        name = self.state.id if which == "output" else self.table(which).name
        return DeltaTable(str(self.table(which))).transaction_version(f"materializer/{name}") or 0

    def written(self, which: str) -> list[int]:
        """Return the number of each commit of data to a table of the aggregate, in order."""
        return [note.n for note in find_notes(str(self.table(which)), 0) if note.kind == "data"]

    def published(self) -> list[tuple[Any, ...]]:
        """Return the rows of the output, sorted."""
        rows = DeltaTable(str(self.root / "bars" / "output")).to_pyarrow_table().to_pylist()
        return sorted(self.told(row) for row in rows)

    def truth(self) -> list[tuple[Any, ...]]:
        """Return what the output shall be, as plain Spark says, sorted."""
        plain = f"SELECT date_trunc('HOUR', ts), k, {self.plainly} FROM {plain_sql(self.spark, self.source.path)} GROUP BY ALL"
        return sorted(map(tuple, self.spark.sql(plain).collect()))

    def told(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a row of the output as :meth:`truth` has it, its time without a zone."""
        return tuple(v.replace(tzinfo=None) if c == "bucket" else v for c, v in row.items())

    @contextmanager
    def child(self, command: str = "refresh", *options: str) -> Iterator[Child]:
        """Start *command* on the aggregate; see :func:`child_of`."""
        given = ["--driver-lane-rows", str(self.driver_lane_rows), "--executor", self.executor]
        with child_of(str(self.root), "bars", command, *given, *options, folder=self.folder, spark=self.spark) as child:
            yield child

    def killed_at(self, checkpoint: str, command: str = "refresh", *options: str) -> None:
        """Run *command* in a child that is killed when it reaches *checkpoint*, its JVM with it."""
        with self.child(command, "--wait", checkpoint, *options) as child:
            child.wait_at(checkpoint.partition(":")[0])
            child.kill()

    def die(self, death: str) -> str:
        """Have refresh 2 die as in :data:`DEATHS`; return how it is to be recovered."""
        checkpoint, hung, numbers, how = DEATHS[death]
        self.killed_at(checkpoint, "refresh", *(["--hang", hung] if hung else []))
        assert numbers == (self.n_in("partials"), self.n_in("output"))
        return how

    def refresh_when_free(self) -> Any:
        """Refresh as soon as no other process works on the aggregate."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.lake.refresh("bars")
            except LeaseHeldError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def expect_true(self) -> None:
        """Assert that nothing is dirty or open, and that the output is what plain Spark says; nothing twice."""
        [status] = self.lake.status("bars")
        assert ("fresh", None) == (status.state, status.open_refresh)
        expected = self.truth()
        assert expected == self.published()
        if verifying.is_drawn():
            report = self.lake.verify("bars")
            frozen = START if report.frozen == NEG_INF else datetime.fromtimestamp(report.frozen / SECOND, UTC)
            compared = [row for row in expected if row[0] >= frozen.replace(tzinfo=None)]
            assert (0, len(compared)) == (report.differing, report.rows), (report.examples, verifying.repeated())
        numbers = [ended.n for ended in self.lake.history("bars", None)]
        assert sorted(set(numbers), reverse=True) == numbers, "a refresh ended twice"


@contextmanager
def child_of(lake: str, name: str, command: str, *options: str, folder: Path, spark: SparkSession) -> Iterator[Child]:
    """Start a command in a process of its own; when the block ends nothing of it is left, but for a JVM that it borrowed.

    Args:
        lake: The lake.
        name: The aggregate.
        command: The command.
        options: Options of :mod:`tests.system.processes.child`; with ``--borrow`` it computes with *spark*.
        folder: Where it finds suites and leaves what it says of errors.
        spark: The session of this process.
    """
    errors = folder / f"child-{time.monotonic_ns()}.err"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.processes.child", lake, name, command, "--folder", folder, *options],
            cwd=ROOT,
            env={**os.environ, **_lent(spark)} if "--borrow" in options else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        yield Child(process, errors)
    finally:
        # the children of a dead leader keep its group; an empty group is nobody's
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _lent(spark: SparkSession) -> dict[str, str]:
    """Return the environment by which another process finds the JVM of *spark*."""
    gateway: Any = spark.sparkContext._gateway
    found = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(found.port), "PYSPARK_GATEWAY_SECRET": found.auth_token}


def gone(pid: int) -> None:
    """Return when a process is gone."""
    end = time.monotonic() + PATIENCE
    while started(pid):
        assert time.monotonic() < end, f"process {pid} does not end"
        time.sleep(0.05)
