"""The connections of the local executor: opened once, used by one computation at a time, and by no forked child."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import duckdb
import pyarrow as pa
import pytest

from materializer.api import Materializer
from materializer.config import Config
from materializer.local.connection import Connections, opened
from materializer.local.kinds import NotLocal


def test_a_connection_is_used_again() -> None:
    """
    One computation after the other has the same connection, at the same time each has its own.
    """
    connections = Connections()
    with connections.one() as first:
        pass
    with connections.one() as second, connections.one() as third:
        assert first is second
        assert first is not third


def test_threads_have_their_own() -> None:
    """
    Computations of several threads at the same time never share a connection, and leave as many as there were threads.
    """
    connections, together = Connections(), Barrier(4)

    def used(_: int) -> int:
        with connections.one() as connection:
            together.wait(10)
            return id(connection)

    with ThreadPoolExecutor(4) as pool:
        first, second = (set(pool.map(used, range(4))) for _ in range(2))

    assert 4 == len(first)
    assert first == second


def test_a_connection_that_failed_is_closed() -> None:
    """
    After an error, a lack of memory among them, Spark is asked, and the next computation has a new connection.
    """
    connections = Connections()
    with pytest.raises(NotLocal, match="nowhere"), connections.one() as failed:
        failed.query("SELECT * FROM nowhere")

    with pytest.raises(duckdb.Error, match="closed"):
        failed.query("SELECT 1")
    with connections.one() as other:
        assert failed is not other


def test_a_forked_child_opens_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A child has none of the threads of a database that its parent opened.
    """
    connections = Connections()
    with connections.one() as ours:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with connections.one() as of_child:
        assert ours is not of_child
    assert [{"one": 1}] == ours.query("SELECT 1 AS one").to_pylist()


def test_a_connection_forgets_the_tables_of_the_computation_before() -> None:
    """
    What one computation registered, the next one does not find.
    """
    connections = Connections()
    with connections.one() as first:
        first.register("rows", pa.table({"a": [1]}))
        assert 1 == first.query("SELECT * FROM rows").num_rows
    with pytest.raises(NotLocal, match="rows does not exist"), connections.one() as second:
        second.query("SELECT * FROM rows")
    assert first is second


@pytest.mark.parametrize(
    "condition", ["m * 7 <> 3", "7 * m = 14", "m + 1 > 5", "m - (-1) < 5", "m * 7 IS NULL", "m + 1 IS DISTINCT FROM 3"]
)
def test_a_comparison_does_not_hide_an_overflow(condition: str) -> None:
    """
    What compares with a constant is not brought to the other side, where nothing overflows: Spark raises for such rows.
    """

    def asked(query: str) -> None:
        with Connections().one() as connection:
            connection.register("t", pa.table({"m": pa.array([2**63 - 1, 1], pa.int64())}))
            connection.query(query)

    for query in (f"SELECT {condition} FROM t", f"SELECT count(*) FROM t WHERE {condition}"):
        with pytest.raises(NotLocal, match="Overflow"):
            asked(query)


def test_the_settings_of_a_lake_bound_every_connection(tmp_path: Path) -> None:
    """
    Half of `local_memory`, also for checks and comparisons, which do not say what they need; never less than what one needs at all.
    """

    def allowed(memory: int) -> str:
        Materializer(tmp_path, config=Config(local_memory=memory))
        with opened() as connection:
            return str(connection.query("SELECT current_setting('memory_limit') AS it")["it"][0].as_py())

    assert ["1.0 GiB", "256.0 MiB"] == [allowed(2 << 30), allowed(64 << 20)]
