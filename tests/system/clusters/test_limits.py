"""What the driver holds, over Spark Connect: a result beyond the server's limit stays in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.connect import connect_server, url_of
from tests.servers.spark import SparkProcess, why_not
from tests.system.clusters.commands import DEFINITION, NO_JAVA, Commands
from tests.tables import append_trades

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def narrow_server(tmp_path: Path) -> Iterator[SparkProcess]:
    """A server that hands out small results only."""
    if reason := why_not():
        pytest.skip(reason)
    server = connect_server(tmp_path / "server", options={"spark.driver.maxResultSize": "100k"})
    server.start()
    yield server
    server.kill()


def test_a_result_beyond_the_limit_stays_in_spark(tmp_path: Path, narrow_server: SparkProcess) -> None:
    """
    The run is repeated in Spark's lane, as with the embedded Spark.
    """
    (tmp_path / "lake").mkdir()
    commands = Commands(tmp_path / "lake", {**NO_JAVA, "MATERIALIZER_SPARK_REMOTE": url_of(narrow_server)})
    minutes = DEFINITION.replace("1 hour", "20 minutes")
    append_trades(commands.root, 4, rows=20_000)
    run = commands.applied(minutes).done("refresh", "trades_1h")["refreshes"][0]["runs"][0]

    assert ("spark", 20_216) == (run["lane"], run["rows_written"])
