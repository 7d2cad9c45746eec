"""``watch`` in a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

import pytest

from materializer.adapters.cli import main
from materializer.adapters.cli.live import cells
from materializer.api import Materializer
from tests import tables
from tests.adapters import page_lakes


class Terminal:
    """A terminal with a program in it; *text* is everything that it printed, without colours and movements."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process, self.end, self.raw = process, end, b""

    @property
    def text(self) -> str:
        """What was printed so far."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.decode(errors="replace"))

    def read(self) -> None:
        """Read what was printed in the meantime."""
        if select.select([self.end], [], [], 0.2)[0]:
            with suppress(OSError):  # the program has ended
                self.raw += os.read(self.end, 65_536)

    def wait(self, pattern: str, seconds: float = 40) -> str:
        """Read until a pattern was printed after what was read before, and return all of it."""
        before, until = len(self.text), time.monotonic() + seconds
        while time.monotonic() < until:
            self.read()
            if re.search(pattern, self.text[before:], re.DOTALL):
                return self.text[before:]
        raise AssertionError(f"{pattern!r} was not printed in {self.text[-3000:]!r}")


@contextmanager
def terminal(lake: Materializer, *words: str) -> Iterator[Terminal]:
    """Run ``watch`` in a terminal of 100 columns, and end it as a person does."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    command = [sys.executable, "-m", "materializer", "watch", *words, "--lake", str(lake.root), "--interval", "0.2"]
    given = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=given, start_new_session=True)
    os.close(theirs)
    shown = Terminal(process, ours)
    try:
        yield shown
        process.send_signal(signal.SIGINT)
        until = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < until:
            shown.read()  # a program that prints waits for a reader
        assert process.poll() == 0, shown.text[-2000:]
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Materializer:
    """See :mod:`tests.adapters.page_lakes`."""
    return page_lakes.lake(tmp_path_factory.mktemp("watched"), name="[red]MSFT[/red]")


def test_the_lake_is_shown_and_follows_the_journal(lake: Materializer) -> None:
    """
    What is wrong comes first, lines fit 100 columns, and a refresh of another process is shown.
    """
    with terminal(lake) as shown:
        first = shown.wait("ends it")
        assert first.index("gone") < first.index("held") < first.index("ticks")
        assert max(map(len, first.replace("\r", "").split("\n"))) <= 100
        tables.append(Path(lake.root).parent / "numbers", page_lakes.numbers(1_000, 50))
        lake.refresh("ticks", executor="local")
        assert f"journal version {lake.journal.view().version}" in shown.wait(
            rf"version {lake.journal.view().version}.*ends it"
        )


def test_an_aggregate_is_shown_with_its_time_line(lake: Materializer) -> None:
    """
    The time line, its states, the last refreshes and the next plan; markup of a terminal in a text is shown as it is.
    """
    with terminal(lake, "hourly") as shown:
        first = shown.wait("ends it")
    assert "2024-01-01T00:00:00Z" in first
    assert "█ fresh" in first
    assert re.search(r"next: (merge|recompute)", first)
    assert max(map(len, first.replace("\r", "").split("\n"))) <= 100


def test_without_a_terminal_it_is_refused(lake: Materializer, capsys: Any) -> None:
    """
    Nothing is drawn into a pipe, and the hint names what programs read.
    """
    assert main(["watch", "--lake", str(lake.root)]) == 64
    assert "status --json" in capsys.readouterr().err


def test_an_unknown_aggregate_is_refused(lake: Materializer) -> None:
    """
    Before anything is drawn.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "materializer", "watch", "nothing", "--lake", str(lake.root)]
    assert subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=False, timeout=60).returncode == 64
    os.close(theirs)
    os.close(ours)


def test_a_cell_of_the_time_line_has_the_worst_that_lies_in_it() -> None:
    """
    A dirty bucket is seen however many fresh ones lie beside it.
    """
    spans = [
        {"kind": "fresh", "start": 0, "end": 999},
        {"kind": "dirty", "start": 999, "end": 1_000},
        {"kind": "fresh", "start": 1_000, "end": 2_000},
    ]

    assert cells({"extent": [0, 2_000], "spans": spans}, 10) == ["fresh"] * 4 + ["dirty"] + ["fresh"] * 5
