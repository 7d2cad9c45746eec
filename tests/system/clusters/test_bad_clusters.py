"""Clusters and servers that cannot be used: each is a coded error, nothing is lost, and the same command goes on afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.servers.connect import connect_server, url_of
from tests.servers.spark import free_port, why_not
from tests.servers.standalone import standalone_cluster
from tests.system.clusters.commands import DEFINITION, NO_JAVA, Commands
from tests.tables import append_trades

PATIENCE = "5"
ON_CLUSTER = """
[spark.options]
"spark.executor.memory" = "512m"
"spark.sql.shuffle.partitions" = 2
"spark.databricks.delta.snapshotPartitions" = 2
"spark.driver.host" = "127.0.0.1"
"""
STEPS = """
import sys
from materializer import Materializer
from materializer.errors import MaterializerError

def at(step):
    if step == "compute":
        print("at", step, flush=True)
        sys.stdin.readline()

try:
    m = Materializer(on_checkpoint=at)
    m.engine().spark.range(1000).repartition(4).count()
    print(m.refresh("trades_1h").outcome, flush=True)
except MaterializerError as exc:
    print(exc.code, exc.wrote, sep="|", flush=True)
"""
EXECUTORS = ("spark", "auto")
needs_spark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


def lake(folder: Path, **environ: str) -> Commands:
    """Return commands on a lake with a source and a definition that is not applied."""
    commands = Commands(folder / "lake", dict(environ))
    commands.root.mkdir()
    append_trades(commands.root, 1)
    asked = DEFINITION.replace("FROM", "/* a comment leaves it to Spark */ FROM", 1)
    (commands.root / "definition.sql").write_text(asked, encoding="utf-8")
    return commands


def refused(commands: Commands, *arguments: str) -> dict[str, Any]:
    """Run a command that has to end with an error of ours, and return that."""
    ran = commands.run(*arguments)
    assert ran.returncode, ran.stdout
    return json.loads(ran.stderr.splitlines()[-1])["error"]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_master_that_is_not_there(tmp_path: Path, executor: str) -> None:
    """
    It is looked for before a JVM is started; each of several masters is.
    """
    master = f"spark://127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    environ = {"MATERIALIZER_SPARK_MASTER": master, "MATERIALIZER_EXECUTOR": executor}
    error = refused(lake(tmp_path, **environ), "apply", "definition.sql")

    assert ("spark.unreachable", 71, "nothing was written") == (error["code"], error["exit_status"], error["wrote"])
    assert f"no master answers at {master}" == error["message"]
    assert "spark.master" in error["hint"]


class OlderServer(base_pb2_grpc.SparkConnectServiceServicer):
    """Says that it is Spark 3.5 and takes settings, as far as a session is opened."""

    def AnalyzePlan(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 (the protocol's name)
        """Answer with a version."""
        answer = base_pb2.AnalyzePlanResponse(session_id=request.session_id)
        answer.spark_version.version = "3.5.6"
        return answer


@contextmanager
def older_server() -> Iterator[str]:
    """Run such a server in the block; yield its address."""
    server = grpc.server(ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(OlderServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(None)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_server_of_an_older_spark(tmp_path: Path, executor: str) -> None:
    """
    Its version is named, and the one that is needed.
    """
    with older_server() as remote:
        environ = {"MATERIALIZER_SPARK_REMOTE": remote, "MATERIALIZER_EXECUTOR": executor}
        error = refused(lake(tmp_path, **NO_JAVA, **environ), "apply", "definition.sql")

    assert ("spark.failed", "nothing was written") == (error["code"], error["wrote"])
    assert f"{remote} runs Spark 3.5.6" == error["message"]
    assert "4.1" in error["hint"]


@needs_spark
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.follows_hint("spark.failed")
@pytest.mark.parametrize("token", ["", ";token=secret-wrong"], ids=["none", "wrong"])
def test_a_token_that_the_server_does_not_take(tmp_path: Path, token: str) -> None:
    """
    The error says so and shows neither token; with the right one the same command works.
    """
    server = connect_server(tmp_path / "server", options={"spark.connect.authenticate.token": "secret-right"})
    server.start()
    try:
        remote = f"sc://localhost:{server.port}/"
        commands = lake(tmp_path, **NO_JAVA, MATERIALIZER_SPARK_REMOTE=remote + token)
        error = refused(commands, "apply", "definition.sql")
        commands.environ["MATERIALIZER_SPARK_REMOTE"] = f"{remote};token=secret-right"
        commands.done("apply", "definition.sql")
    finally:
        server.kill()

    assert ("spark.failed", "nothing was written") == (error["code"], error["wrote"])
    assert f"sc://localhost:{server.port} refuses the session: UNAUTHENTICATED" == error["message"]
    assert "token" in error["hint"]
    assert "secret" not in str(error)


@needs_spark
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.follows_hint("spark.no-delta")
def test_a_server_without_delta(tmp_path: Path) -> None:
    """
    Definitions need none; a refresh whose rows Spark writes says what the server lacks. One that has it does the work.
    """
    bare, whole = connect_server(tmp_path / "bare", has_delta=False), connect_server(tmp_path / "whole")
    commands = lake(tmp_path, **NO_JAVA, MATERIALIZER_SPARK_REMOTE=url_of(bare), MATERIALIZER_DRIVER_LANE_ROWS="1")
    bare.start()
    try:
        commands.done("apply", "definition.sql")
        error = refused(commands, "refresh", "trades_1h")
        bare.kill()
        whole.start()
        commands.environ["MATERIALIZER_SPARK_REMOTE"] = url_of(whole)
        commands.done("refresh", "trades_1h")
    finally:
        bare.kill()
        whole.kill()

    assert ("spark.no-delta", 71) == (error["code"], error["exit_status"])
    assert "spark.sql.extensions" in error["hint"]
    assert 72 == sum(commands.output()["n"].to_pylist())


@needs_spark
@pytest.mark.spark
@pytest.mark.slow
def test_what_the_process_computes_needs_no_cluster(tmp_path: Path) -> None:
    """
    Where no master answers, a few rows are refreshed all the same; what is left to Spark has the error, and writes nothing.
    """
    commands = Commands(tmp_path / "lake", {})
    commands.root.mkdir()
    commands.applied(days=(1,))
    commands.environ.update({"MATERIALIZER_SPARK_MASTER": f"spark://127.0.0.1:{free_port()}"})
    errors = [refused(commands, "refresh", "trades_1h")]
    commands.environ.update({"MATERIALIZER_EXECUTOR": "auto", "MATERIALIZER_LOCAL_ROWS": "1"})
    errors += [refused(commands, "refresh", "trades_1h")]
    assert [] == commands.output().to_pylist()
    del commands.environ["MATERIALIZER_LOCAL_ROWS"]
    commands.done("refresh", "trades_1h")

    assert {"spark.unreachable"} == {error["code"] for error in errors}
    assert 72 == sum(commands.output()["n"].to_pylist())


@needs_spark
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.follows_hint("spark.no-cores")
def test_a_cluster_without_cores(tmp_path: Path) -> None:
    """
    A master without workers: the refresh ends after the patience of the configuration, and goes on when there is one.
    """
    cluster = standalone_cluster(tmp_path / "cluster", workers=1)
    commands = lake(tmp_path, MATERIALIZER_SPARK_MASTER=cluster.url, MATERIALIZER_DRIVER_LANE_ROWS="1")
    (commands.root / "materializer.toml").write_text(ON_CLUSTER, encoding="utf-8")
    cluster.master.start()
    try:
        commands.done("apply", "definition.sql")
        commands.environ["MATERIALIZER_SPARK_PATIENCE"] = PATIENCE
        error = refused(commands, "refresh", "trades_1h")
        cluster.workers[0].start()
        del commands.environ["MATERIALIZER_SPARK_PATIENCE"]
        commands.done("refresh", "trades_1h")
    finally:
        cluster.kill()

    assert ("spark.no-cores", 71) == (error["code"], error["exit_status"])
    assert "spark.patience" in error["hint"]
    assert 72 == sum(commands.output()["n"].to_pylist())


@needs_spark
@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_that_loses_all_its_workers(tmp_path: Path) -> None:
    """
    In the middle of a refresh: it ends with the same error, and the next one is right once a worker is back.
    """
    cluster = standalone_cluster(tmp_path / "cluster", workers=1)
    commands = lake(tmp_path, MATERIALIZER_SPARK_MASTER=cluster.url, MATERIALIZER_DRIVER_LANE_ROWS="1")
    (commands.root / "materializer.toml").write_text(ON_CLUSTER, encoding="utf-8")
    cluster.start()
    try:
        commands.done("apply", "definition.sql")
        commands.environ["MATERIALIZER_SPARK_PATIENCE"] = PATIENCE
        process = commands.python(STEPS)
        del commands.environ["MATERIALIZER_SPARK_PATIENCE"]
        assert process.stdout is not None
        assert "at compute\n" == process.stdout.readline()
        cluster.workers[0].kill()
        said = process.communicate("go on\n", timeout=300)[0]
        cluster.workers[0].start()
        commands.done("refresh", "trades_1h")
    finally:
        cluster.kill()

    assert said.startswith("spark.no-cores|")
    assert 72 == sum(commands.output()["n"].to_pylist())
