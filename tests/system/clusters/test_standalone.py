"""Commands on a standalone cluster, a master and two workers: the main job, and executors and workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.spark import why_not
from tests.servers.standalone import StandaloneCluster, standalone_cluster
from tests.system.clusters.commands import Commands
from tests.tables import append_trades

pytestmark = [pytest.mark.spark, pytest.mark.slow]
OPTIONS = """
[spark.options]
"spark.executor.memory" = "512m"
"spark.sql.shuffle.partitions" = 2
"spark.databricks.delta.snapshotPartitions" = 2
"spark.driver.host" = "127.0.0.1"
"""
TIMES = 3 * 72


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A cluster that only this test has."""
    if reason := why_not():
        pytest.skip(reason)
    cluster = standalone_cluster(tmp_path / "cluster")
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture
def commands(tmp_path: Path, cluster: StandaloneCluster) -> Commands:
    """Commands whose driver is a JVM here, and whose executors are on the cluster."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "materializer.toml").write_text(OPTIONS, encoding="utf-8")
    return Commands(tmp_path / "lake", {"MATERIALIZER_SPARK_MASTER": cluster.url})


def executors(cluster: StandaloneCluster) -> list[int]:
    """Return the process ids of the executors that the workers of a cluster have started."""
    groups = {str(worker.process.pid) for worker in cluster.workers if worker.process}
    shown = subprocess.run(["ps", "-axwwo", "pid=,pgid=,command="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in shown.splitlines()]
    return [int(pid) for pid, group, command in rows if group in groups and "CoarseGrainedExecutorBackend" in command]


def test_the_main_job(commands: Commands) -> None:
    """
    A first materialization whose rows Spark writes, a late row, and a check; jobs are counted.
    """
    commands.environ["MATERIALIZER_DRIVER_LANE_ROWS"] = "1"
    first = commands.applied().done("refresh", "trades_1h")["refreshes"][0]["runs"][0]
    append_trades(commands.root, 2, rows=1, volume=100)
    commands.done("refresh", "trades_1h")
    commands.done("verify", "trades_1h")

    assert (TIMES, "spark") == (first["rows_read"], first["lane"])
    assert first["jobs"] > 0
    assert TIMES + 100 == sum(commands.output()["volume"].to_pylist())


STEPS = """
import sys
from materializer import Materializer

def at(step):
    if step == "compute":
        print("at", step, flush=True)
        sys.stdin.readline()

m = Materializer(on_checkpoint=at)
m.engine().spark.range(1000).repartition(4).count()
print(m.refresh("trades_1h").outcome, flush=True)
"""


@pytest.mark.parametrize("what", ["executor", "worker"])
def test_what_computes_is_killed(commands: Commands, cluster: StandaloneCluster, what: str) -> None:
    """
    Spark computes again what was lost, on what is left; the refresh ends and its rows are right.
    """
    commands.applied()
    process = commands.python(STEPS)
    assert "at compute\n" == process.stdout.readline()
    killed = executors(cluster)
    if what == "executor":
        os.kill(killed[0], signal.SIGKILL)
    else:
        cluster.workers[0].kill()
    said = process.communicate("go on\n", timeout=600)[0]

    assert 2 == len(killed)
    assert "refreshed\n" == said
    assert TIMES == sum(commands.output()["volume"].to_pylist())
