"""`new` as a user has it: by options, and by answers that are typed into a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from materializer.adapters.cli.app import main
from materializer.core.language.parse import parse_definitions
from tests.paths import ROOT
from tests.shapes import TIMES, VALUES, Shape

pytestmark = pytest.mark.usefixtures("folder")
PATIENCE = 30
"""Seconds in which a process asks its next question."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a lake, and in it a table of trades."""
    rng = random.Random(1)
    kinds = {"ts": TIMES["timestamp"], "sym": VALUES["symbols"], "price": VALUES["prices"], "note": VALUES["texts"]}
    Shape(400, {name: make(rng, 400) for name, make in kinds.items()}).write(tmp_path / "lake" / "trades")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path / "lake"))
    return tmp_path


class Terminal:
    """A process in a pseudo-terminal of 100 columns."""

    def __init__(self, *arguments: str) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "materializer", *arguments]
        self._process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=env, close_fds=True)
        os.close(other)
        self.shown = ""
        self._seen = 0

    def wait(self, text: str) -> str:
        """Return what was shown since the last answer, as soon as *text* is there."""
        until = time.monotonic() + PATIENCE
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < until, f"{text!r} was not shown:\n{self.shown}"
            self._read()
        return self.shown[self._seen :]

    def type(self, line: str) -> None:
        """Type a line."""
        self._seen = len(self.shown)
        os.write(self._own, f"{line}\n".encode())

    def end(self) -> int:
        """Return the exit status of the process."""
        while self._process.poll() is None or select.select([self._own], [], [], 0)[0]:
            if not self._read():
                break
        os.close(self._own)
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._own], [], [], 0.2)[0]:
            return True
        try:
            found = os.read(self._own, 65_536)
        except OSError:  # the other end was closed
            return False
        self.shown += found.decode(errors="replace").replace("\r\n", "\n")
        return bool(found)


def test_options_decide_and_nothing_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Without a terminal what is not given is proposed; files are written, and the next commands are named.
    """
    assert 0 == main(["new", "trades", "--name", "bars", "--bucket", "1 day", "--key", "sym"])
    shown = capsys.readouterr().out
    [spec] = parse_definitions((folder / "sql" / "bars.sql").read_text())

    assert ("bars", ("bucket", "sym")) == (spec.name, spec.columns[:2])
    assert ["wrote sql/bars.sql", "wrote expectations/bars.json"] == shown.splitlines()[:2]
    assert [f"  materializer {c}" for c in ("apply sql/bars.sql", "backfill bars", "check bars")] == shown.splitlines()[
        -3:
    ]


def test_json_says_what_was_decided(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    With the files, which are there then; `none` is no key.
    """
    assert 0 == main(["new", "trades", "--key", "none", "--no-policy", "--into", "defs", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert ("ts", [], {}, 400) == (found["time"], found["keys"], found["policy"], found["rows"])
    assert all((folder / file).exists() for file in found["files"])
    assert ["ts", "sym", "price", "note"] == [c["name"] for c in found["columns"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give SOURCE"),
        (("nowhere",), "table.not-found"),
        (("trades", "--time", "sym"), "string"),
        (("trades", "--measure", "sum(nope) AS x"), "nope"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """
    Without a source nothing is asked where there is no terminal.
    """
    assert main(["new", *arguments]) in {64, 65, 66}
    assert said in capsys.readouterr().err
    assert {"lake"} == {p.name for p in folder.iterdir()}


def test_answers_are_typed(folder: Path) -> None:
    """
    An empty line takes what is proposed; a wrong answer is explained and asked for again; later proposals follow earlier answers.
    """
    terminal = Terminal("new")
    terminal.wait("table to aggregate")
    terminal.type("trades")
    assert "400 rows" in terminal.wait("time column")
    terminal.type("price")
    assert "double" in terminal.wait("time column [ts]")
    terminal.type("")
    terminal.wait("keys, with commas between, or none [sym]")
    terminal.type("none")
    terminal.wait("width of the buckets [")
    terminal.type("1 day")
    assert "  count(*) AS n\n    avg(price) AS price_avg\n" in terminal.wait("measures, with commas between [these]")
    terminal.type("count(*) AS n, max(price) AS top")
    terminal.wait("name of the aggregate [trades_1d]")
    terminal.type("")
    shown = terminal.wait("write it?")
    assert "max(price) AS top" in shown
    terminal.type("y")

    assert 0 == terminal.end()
    assert (folder / "sql" / "trades_1d.sql").read_text().count("time_bucket('1 day', ts)") == 2
    assert (folder / "expectations" / "trades_1d.json").exists()
    assert [] == [line for line in terminal.shown.splitlines() if len(line) > 100]


@pytest.mark.parametrize("answer", ["n", "\x04"])
def test_a_no_and_the_end_of_input_write_nothing(folder: Path, answer: str) -> None:
    """
    Neither is a bug; the exit status says that nothing was done.
    """
    terminal = Terminal("new", "trades", "--name", "bars", "--time", "ts", "--key", "sym", "--bucket", "1 hour")
    terminal.wait("measures")
    terminal.type("")
    terminal.wait("write it?")
    terminal.type(answer)

    assert {"n": 64, "\x04": 130}[answer] == terminal.end()
    assert "bug" not in terminal.shown
    assert "nothing was written" in terminal.shown
    assert {"lake"} == {p.name for p in folder.iterdir()}
