"""Commands over a Spark Connect server: the main job, user's code in Python, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.connect import url_of
from tests.servers.spark import SparkProcess, free_port
from tests.system.clusters.commands import DEFINITION, NO_JAVA, Commands
from tests.tables import append_trades

SPREAD = """
CREATE MATERIALIZED VIEW spreads
AS SELECT time_bucket('1 day', ts) AS day, sym, most_seen(volume) AS seen
FROM trades GROUP BY time_bucket('1 day', ts), sym;
"""
MODULE = """
from materializer.core.aggregates.python import python_aggregate

import sibling


@python_aggregate("long")
def most_seen(values):
    return sibling.most(values)
"""


@pytest.fixture
def commands(tmp_path: Path, connect_server: SparkProcess) -> Commands:
    """Commands over the server of this run; they find no Java."""
    return Commands(tmp_path, {**NO_JAVA, "MATERIALIZER_SPARK_REMOTE": url_of(connect_server)})


def test_the_main_job_starts_no_jvm(commands: Commands) -> None:
    """
    A first materialization, a late row and a check, where no Java is on the path; jobs are unknown, not none. Spark writes the first
    rows itself, and sends the late ones.
    """
    commands.environ["MATERIALIZER_DRIVER_LANE_ROWS"] = "1"
    commands.applied()
    first = commands.done("refresh", "trades_1h")["refreshes"][0]["runs"][0]
    del commands.environ["MATERIALIZER_DRIVER_LANE_ROWS"]
    append_trades(commands.root, 2, rows=1, volume=100)
    late = commands.done("refresh", "trades_1h")["refreshes"][0]["runs"][0]
    text = commands.run("history", "trades_1h").stdout

    assert (216, None) == (first["rows_read"], first["jobs"])
    assert late["rows_read"] < 10
    assert '"jobs": null' in text
    assert 72 * 3 + 100 == sum(commands.output()["volume"].to_pylist())
    commands.done("verify", "trades_1h")


@pytest.mark.parametrize("rows", ["1", "1000000"])
def test_both_lanes(commands: Commands, rows: str) -> None:
    """
    Rows that Spark writes itself are the same as rows that it sends.
    """
    commands.environ["MATERIALIZER_DRIVER_LANE_ROWS"] = rows
    commands.applied().done("refresh", "trades_1h")

    assert (216, 216) == (sum(commands.output()["n"].to_pylist()), sum(commands.output()["volume"].to_pylist()))


def test_a_python_aggregate_travels_with_its_modules(commands: Commands) -> None:
    """
    The server cannot import the user's module, nor what lies beside it.
    """
    (commands.root / "aggregates.py").write_text(MODULE, encoding="utf-8")
    (commands.root / "sibling.py").write_text("def most(values):\n    return int(values.max())\n", encoding="utf-8")
    commands.environ["MATERIALIZER_PYTHON_AGGREGATES"] = "aggregates:most_seen"
    commands.applied(SPREAD).done("refresh", "spreads")

    assert {1} == set(commands.output("spreads")["seen"].to_pylist())


def test_a_literal_means_itself_on_the_server(commands: Commands) -> None:
    """
    The server puts no variable of its environment into a statement, neither when it computes nor when it verifies.
    """
    text = "SELECT date_trunc('day', ts) AS day, '${env:PATH}' AS k, count(*) AS n FROM trades GROUP BY 1, 2"
    commands.applied(f"CREATE MATERIALIZED VIEW plain AS {text};").done("refresh", "plain")

    assert {"${env:PATH}"} == set(commands.output("plain")["k"].to_pylist())
    commands.done("verify", "plain")


def test_no_server_is_one_clear_error(commands: Commands) -> None:
    """
    The address is named without what follows it, which may be a token; nothing was written.
    """
    remote = f"sc://127.0.0.1:{free_port()}/;token=secret"
    ran = commands.applied().run("refresh", "trades_1h", MATERIALIZER_SPARK_REMOTE=remote)

    assert 71 == ran.returncode
    assert "spark.unreachable" in ran.stderr
    assert remote.partition("/;")[0] in ran.stderr
    assert "secret" not in ran.stdout + ran.stderr


def test_an_option_of_the_server_is_not_one_of_a_session(commands: Commands) -> None:
    """
    What only the start of a server can set is refused, and not left out.
    """
    (commands.root / "materializer.toml").write_text("[spark.options]\n'spark.executor.memory' = '1g'\n")
    append_trades(commands.root, 1)
    (commands.root / "definition.sql").write_text(DEFINITION)
    ran = commands.run("apply", "definition.sql")

    assert 64 == ran.returncode
    assert "config.invalid" in ran.stderr
    assert "spark.executor.memory" in ran.stderr
