"""The connections of the local executor: opened once, used by one computation at a time, and by no forked child."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import duckdb
import pytest

from materializer.local.connection import Connections


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
    After an error, a lack of memory among them, the next computation has a new connection.
    """
    connections = Connections()
    with pytest.raises(duckdb.Error, match="nowhere"), connections.one() as failed:
        failed.execute("SELECT * FROM nowhere")

    with pytest.raises(duckdb.Error, match="closed"):
        failed.execute("SELECT 1")
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
    ours.execute("SELECT 1")
