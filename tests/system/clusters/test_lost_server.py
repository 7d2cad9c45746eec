"""A Spark Connect server that ends or is restarted while work goes on: a clear error, and the next refresh goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.connect import connect_server, url_of
from tests.servers.spark import SparkProcess, why_not
from tests.system.clusters.commands import NO_JAVA, Commands
from tests.tables import append_trades

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STEPS = """
import json, sys
from pathlib import Path
from materializer import Materializer
from materializer.errors import MaterializerError

steps = []

def at(step):
    steps.append(step)
    if steps.count(sys.argv[1]) == 1 and step == sys.argv[1]:
        print("at", step, flush=True)
        sys.stdin.readline()

m = Materializer(on_checkpoint=at)
m.engine()
for _ in range(2):
    try:
        print(json.dumps([m.refresh("trades_1h").outcome]), flush=True)
    except MaterializerError as exc:
        print(json.dumps([exc.code, exc.message, exc.wrote]), flush=True)
"""
"""A process that waits before a step for a line, and refreshes twice."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SparkProcess]:
    """A server that only this test has."""
    if reason := why_not():
        pytest.skip(reason)
    server = connect_server(tmp_path / "server")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def commands(tmp_path: Path, server: SparkProcess) -> Commands:
    """Commands over the server, on a lake with a first materialization and a late row."""
    (tmp_path / "lake").mkdir()
    commands = Commands(tmp_path / "lake", {**NO_JAVA, "MATERIALIZER_SPARK_REMOTE": url_of(server)})
    commands.applied().done("refresh", "trades_1h")
    append_trades(commands.root, 2, rows=1, volume=100)
    return commands


@pytest.mark.follows_hint("spark.died")
@pytest.mark.parametrize(
    ("step", "outcomes"),
    [
        ("write", [["refreshed"], ["up-to-date"]]),  # the rows had been fetched
        ("compute", [["spark.died"], ["refreshed"]]),
    ],
)
def test_a_restart_in_the_middle(
    commands: Commands, server: SparkProcess, step: str, outcomes: list[list[str]]
) -> None:
    """
    One process: the refresh that needed the session says that it is gone, the next one opens another.
    """
    process = commands.python(STEPS, step)
    assert f"at {step}\n" == process.stdout.readline()
    server.kill()
    server.start()
    said = process.communicate("go on\n", timeout=300)[0].splitlines()

    assert [o[0] for o in outcomes] == [json.loads(line)[0] for line in said]
    assert 72 * 3 + 100 == sum(commands.output()["volume"].to_pylist())


@pytest.mark.follows_hint("spark.unreachable")
def test_a_server_that_is_gone(commands: Commands, server: SparkProcess) -> None:
    """
    The command ends with a clear error within a minute; when the server is back, the same command does the work.
    """
    process = commands.python(STEPS, "compute")
    assert "at compute\n" == process.stdout.readline()
    server.kill()
    began = time.monotonic()
    said = process.communicate("go on\n", timeout=300)[0].splitlines()
    waited = time.monotonic() - began
    server.start()
    commands.done("refresh", "trades_1h")

    assert ["spark.died", "spark.unreachable"] == [json.loads(line)[0] for line in said]
    assert "does not answer any more" in said[0]
    assert waited < 90
    assert 72 * 3 + 100 == sum(commands.output()["volume"].to_pylist())
