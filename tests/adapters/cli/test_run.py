"""`run` in a process of its own: it follows a lake, and ends as it is asked to."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from materializer.adapters.cli.app import main
from materializer.adapters.cli.render.run import EndedResult
from materializer.services.observe.dirty import dirty_below_newest
from tests.hints.world import DAILY, World, view
from tests.paths import ROOT
from tests.services.no_spark import each

HOURLY = view("hourly", each("1 hour")).replace("\nAS", "\nTBLPROPERTIES ('refresh.start_offset' = 'none')\nAS", 1)


class Running:
    """A process that runs the lake of a world."""

    def __init__(self, world: World, *more: str) -> None:
        command = [sys.executable, "-m", "materializer", "run", "--every", "100ms", *more, "--lake", str(world.root)]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        self.rest = ""
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def line(self) -> str:
        """Wait for the next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; return the exit status and what was printed as an error."""
        self.process.send_signal(number)
        self.rest, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def asked(url: str) -> tuple[int, str]:
    """Return status and content of an address."""
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as exc:
        return exc.code, exc.read().decode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A lake with an aggregate that has a policy."""
    made = World(tmp_path)
    made.apply(HOURLY, DAILY)
    return made


@pytest.fixture
def running(world: World) -> Iterator[Running]:
    """A process that follows it, in JSON."""
    made = Running(world, "--json")
    begun = json.loads(made.line())
    assert (["hourly"], ["daily"]) == (begun["follows"], begun["without_policy"])
    yield made
    made.process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_follows_until_it_is_asked_to_end(world: World, running: Running, number: int) -> None:
    """
    A line of JSON for each refresh; a late row is published without another command. A signal ends it with status 0 and a line of
    what it did, and no lease stays.
    """
    first: dict[str, Any] = json.loads(running.line())
    world.add([5])
    second = json.loads(running.line())

    assert [48, 1] == [first["buckets"], second["buckets"]]
    assert ("hourly", "default", []) == (second["name"], second["policy"], second["left"])
    assert second["lag_seconds"] >= second["seconds"] > 0
    assert (0, "") == running.end(number)
    ended = json.loads(running.rest)
    assert [2, 0, []] == [ended[key] for key in ("refreshes", "failures", "leases")]
    assert ended["ended_after_seconds"] >= first["seconds"] + second["seconds"]
    assert world.state().lease is None


def test_people_read_what_it_did(world: World) -> None:
    """
    The last line: how long it ran, how often it refreshed and failed, and that no lease is left.
    """
    made = Running(world)
    try:
        made.line()
        made.line()
        made.line()
        status, errors = made.end(signal.SIGTERM)
    finally:
        made.process.kill()

    assert (0, "") == (status, errors)
    said = made.rest.splitlines()[-1].partition(" ")[2]
    assert re.fullmatch(r"ended after [\d.]+ m?s: 1 refresh, 0 failed; all leases are given back", said), made.rest


@pytest.mark.parametrize(
    ("leases", "said"),
    [
        ([], "all leases are given back"),
        (["a", "b"], "the lease of a, b is left; the next command takes it over"),
        (None, "the journal cannot be read, so a lease may be left; the next command takes it over"),
    ],
)
def test_the_last_line_says_which_leases_are_left(leases: list[str] | None, said: str) -> None:
    """
    As of a full disk, or of a store that does not answer any more.
    """
    [line] = EndedResult(7_200.0, 1_000, 3, leases).lines(200)

    assert line.endswith(f"ended after 2 h 00 min: 1,000 refreshes, 3 failed; {said}")


def test_what_fails_is_said_and_tried_again(world: World, running: Running) -> None:
    """
    An error as every command prints it, and when the next try is.
    """
    running.line()
    (world.root / "raw").rename(world.root / "away")
    said = json.loads(running.line())
    (world.root / "away").rename(world.root / "raw")
    world.add([6])
    again = json.loads(running.line())
    status, errors = running.end(signal.SIGTERM)

    assert ("hourly", "table.not-found", 1.0) == (said["name"], said["failed"], said["again_in_seconds"])
    assert ("hourly", 1) == (again["name"], again["buckets"])
    assert 0 == status
    assert [2, 1] == [json.loads(running.rest)[key] for key in ("refreshes", "failures")]
    assert "table.not-found" == json.loads(errors)["error"]["code"]


def test_two_share_the_work(world: World, running: Running) -> None:
    """
    Each row is computed by one of them, and neither fails.
    """
    other = Running(world, "--json")
    try:
        time.sleep(1)
        for hour in range(3):
            world.add([hour])
            time.sleep(0.5)
        ended = [each_.end(signal.SIGTERM) for each_ in (running, other)]
    finally:
        other.process.kill()

    assert [(0, "")] * 2 == ended
    assert not dirty_below_newest(world.state())


def test_it_serves_while_it_follows(world: World) -> None:
    """
    The page at an address with a token, and for programs two fixed ones: what was refreshed is counted, and what fails again and
    again is named, until it works.
    """
    made = Running(world, "--serve", "--json")
    try:
        begun = json.loads(made.line())
        metrics, health = begun["probes"]
        made.line()
        page = asked(begun["page"])
        before = asked(health)
        counted = asked(metrics)[1]
        (world.root / "raw").rename(world.root / "away")
        for _ in range(3):
            made.line()
        failing = asked(health)
        (world.root / "away").rename(world.root / "raw")
        world.add([6])
        made.line()
        after = asked(health)
        assert (0, None) == (made.end(signal.SIGTERM)[0], world.state().lease)
    finally:
        made.process.kill()

    assert (200, True) == (page[0], "hourly" in page[1])
    assert 200 == before[0] == after[0]
    assert {"healthy": True, "follows": 1, "reasons": []} == json.loads(before[1])
    assert 503 == failing[0]
    reason = {"reason": "failing", "aggregate": "hourly", "code": "table.not-found", "times": 3}
    assert {"healthy": False, "follows": 1, "reasons": [reason]} == json.loads(failing[1])
    if importlib.util.find_spec("prometheus_client"):
        assert 'outcome="refreshed"' in counted
    assert urlsplit(begun["page"]).port == urlsplit(health).port == urlsplit(metrics).port


def test_a_port_without_a_server_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """
    As for the report; and a port that is taken is refused before anything is followed.
    """
    assert 64 == main(["run", "--port=9180", "--lake", str(world.root)])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert 64 == main(["run", "--serve", f"--port={taken.getsockname()[1]}", "--lake", str(world.root)])
    said = capsys.readouterr()

    assert "'--serve'" in said.err
    assert "cannot be used" in said.err
    assert "" == said.out


@pytest.mark.parametrize("every", ["0", "1ms", "soon", "5 fortnights", "-1s"])
def test_a_length_that_is_none_is_refused(world: World, every: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The hint says what a length is.
    """
    assert 64 == main(["run", f"--every={every}", "--lake", str(world.root)])
    assert "such as 500ms" in " ".join(capsys.readouterr().err.split())
