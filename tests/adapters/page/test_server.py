"""The report from a server on this machine, as docs/report.md shows it."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from materializer.api import Materializer
from materializer.errors import UsageError
from tests import tables
from tests.adapters import page_lakes


@pytest.fixture
def url(lake: Materializer) -> Iterator[str]:
    """The address of a server."""
    server: Any = lake.report_server()
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


def asked(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=30)
    connection.request(method, at.path.removesuffix("/") + path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_it_is_bound_to_the_loopback_address(lake: Materializer) -> None:
    """
    So no other machine reaches it.
    """
    server: Any = lake.report_server()
    assert server.socket.getsockname()[0] == "127.0.0.1"
    server.server_close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_answers_get_alone(url: str, method: str) -> None:
    """
    Any other method is refused, and says which are not.
    """
    status, headers, _ = asked(url, "/", method)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", ""])
def test_a_name_of_another_host_is_refused(url: str, host: str) -> None:
    """
    So a page of somebody else, whose name leads to this machine, cannot read the lake.
    """
    assert asked(url, "/", Host=host)[0] == 421
    assert asked(url, "/", Host=f"localhost:{urlsplit(url).port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../page.css",
        "/data/../../etc/passwd",
        "/data/%2e%2e%2f%2e%2e%2fsuite.js",
        "/data/nothing.json",
        "/data/hourly.js",
        "/data/",
        "/files.py",
        "//etc/passwd",
    ],
)
def test_what_it_does_not_have_it_does_not_serve(url: str, path: str) -> None:
    """
    No path leads out of what a report has.
    """
    assert asked(url, path)[0] == 404


def test_it_serves_what_a_report_has(url: str, lake: Materializer) -> None:
    """
    The first page, assets and pages of aggregates, each with headers by which a browser loads nothing from elsewhere.
    """
    for path in ("/", "/page.js", "/charts.js", "/page.css", "/echarts.min.js", "/data/hourly.json", "/version"):
        status, headers, content = asked(url, path)
        assert (status, bool(content)) == (200, True), path
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        status, of_head, content = asked(url, path, "HEAD")
        assert (status, of_head, content) == (200, headers | {"Date": of_head["Date"]}, b"")
    assert json.loads(asked(url, "/version")[2]) == lake.journal.view().version


def test_it_shows_a_change_at_once(tmp_path: Path) -> None:
    """
    When the journal has a new version, so has the page.
    """
    made = page_lakes.lake(tmp_path)
    server: Any = made.report_server()
    Thread(target=server.serve_forever, daemon=True).start()
    before = json.loads(asked(server.url, "/data/hourly.json")[2])
    tables.append(tmp_path / "trades", page_lakes.trades(range(2), minute=50))
    made.refresh("hourly", executor="local")
    after = json.loads(asked(server.url, "/data/hourly.json")[2])
    server.shutdown()
    server.server_close()

    assert after["refreshes"]["n"] == [*before["refreshes"]["n"], before["refreshes"]["n"][-1] + 1]


def test_a_taken_port_is_refused(lake: Materializer) -> None:
    """
    With a hint; so is one that does not exist.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (taken.getsockname()[1], 70_000):
            with pytest.raises(UsageError, match="cannot be used"):
                lake.report_server(port)


def test_the_command_serves_until_it_is_interrupted(lake: Materializer) -> None:
    """
    It prints the address first, and ends with 0 when a person presses Ctrl-C.
    """
    command = [sys.executable, "-m", "materializer", "report", "--serve", "--lake", str(lake.root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert asked(url, "/version")[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
