"""Attacks on what ``run --serve`` answers without a token: ``/healthz`` and ``/metrics``."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from materializer.adapters.page.server import CONNECTIONS
from materializer.services.activity import Listeners
from tests.attacks.table import attack
from tests.services.no_spark import LocalLake, each, view

HOURLY = view("hourly", each("1 hour"), measure="sum(v) AS secret_sum").replace(
    "\nAS", " COMMENT 'a comment'\nTBLPROPERTIES ('refresh.start_offset' = 'none')\nAS", 1
)
PROBES = ("/healthz", "/metrics")


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with an aggregate that has a policy."""
    made = LocalLake(tmp_path)
    made.listen(Listeners())
    made.add((0, 1))
    made.apply(HOURLY)
    return made


@pytest.fixture
def server(lake: LocalLake) -> Iterator[Any]:
    """A server about a process that follows the lake."""
    made: Any = lake.opened.follow_server()
    thread = Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def asked(server: Any, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Ask without the token."""
    connection = http.client.HTTPConnection(f"127.0.0.1:{server.server_port}", timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


class Once(Event):
    """Ends a follower after one look."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - nothing waits here
        """End it."""
        self.set()
        return True


def looked(lake: LocalLake) -> None:
    """Follow the lake for a look."""
    for _ in lake.opened.follow(every=0.0, stop=Once()):
        pass


@attack(
    "The probes",
    "a foreign site, a foreign name (DNS rebinding), another method or a body asks for /healthz or /metrics",
    "403, 421, 405 or 400, and not a name of the lake",
)
@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"Host": "evil.example"}, 421),
        ("GET", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("GET", {"Origin": "https://evil.example"}, 403),
        ("GET", {"Content_Length": "4"}, 400),
        ("POST", {}, 405),
    ],
)
def test_probes_are_for_programs_of_this_machine(
    lake: LocalLake, server: Any, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    """
    A program of this machine is answered.
    """
    looked(lake)
    found, text = asked(server, path, method, **headers)

    assert (status, False) == (found, "hourly" in text)
    assert 200 == asked(server, path)[0]


@attack(
    "The probes",
    "a program of this machine, which knows no token, asks for all that is there",
    "names of aggregates, codes of errors, numbers and times; no row, SQL, comment or text of an error; the page stays 403",
)
def test_probes_say_little(lake: LocalLake, server: Any) -> None:
    """
    Also of an aggregate that fails.
    """
    looked(lake)
    shutil.move(lake.root / "raw", lake.root / "away")
    looked(lake)
    said = "".join(asked(server, path)[1] for path in PROBES)

    assert "hourly" in said
    assert not [word for word in ("secret_sum", "time_bucket", "a comment", "raw", "SELECT") if word in said]
    for path in ("/", "/version", "/data/hourly.json", "/healthz/", "/metrics/x", "/healthz/../version"):
        assert 403 == asked(server, path)[0], path


@attack(
    "The probes",
    "clients take all connections, send nothing, and take no answer, while rows come",
    "each look refreshes as without them; the probes answer again after the patience of a request",
)
def test_slow_clients_hold_no_refresh_up(lake: LocalLake, server: Any) -> None:
    """
    The thread that refreshes waits for no client.
    """
    server.patience = 1.0
    looked(lake)
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
        for value in (5, 7):
            lake.add((1, value))
            looked(lake)
        assert [13] == [row["secret_sum"] for row in lake.rows_of("hourly")]
    for _ in range(100):
        try:
            status, text = asked(server, "/healthz")
            break
        except (ConnectionError, http.client.HTTPException):
            Event().wait(0.1)

    assert (200, True) == (status, json.loads(text)["healthy"])
    assert urlsplit(server.url).hostname == "127.0.0.1"
