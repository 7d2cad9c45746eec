"""`new` as a user has it: by options, and by answers that are typed into a real terminal."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from materializer.adapters.cli.app import main
from materializer.core.language.parse import parse_definitions
from tests.shapes import TIMES, VALUES, Shape
from tests.terminal import Terminal

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a lake, and in it a table of trades."""
    rng = random.Random(1)
    kinds = {"ts": TIMES["timestamp"], "sym": VALUES["symbols"], "price": VALUES["prices"], "note": VALUES["texts"]}
    Shape(400, {name: make(rng, 400) for name, make in kinds.items()}).write(tmp_path / "lake" / "trades")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path / "lake"))
    return tmp_path


def asked(*arguments: str) -> Terminal:
    """The command in a terminal."""
    return Terminal(sys.executable, "-m", "materializer", *arguments)


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
    terminal = asked("new")
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
    long = [line for line in terminal.shown.splitlines() if len(line) > 100]
    assert [] == [line for line in long if "ALTER TABLE" not in line and "deltalake.DeltaTable(" not in line], (
        "only a statement that is copied is never wrapped"
    )


@pytest.mark.parametrize("answer", ["n", "\x04"])
def test_a_no_and_the_end_of_input_write_nothing(folder: Path, answer: str) -> None:
    """
    Neither is a bug; the exit status says that nothing was done.
    """
    terminal = asked("new", "trades", "--name", "bars", "--time", "ts", "--key", "sym", "--bucket", "1 hour")
    terminal.wait("measures")
    terminal.type("")
    terminal.wait("write it?")
    terminal.type(answer)

    assert {"n": 64, "\x04": 130}[answer] == terminal.end()
    assert "bug" not in terminal.shown
    assert "nothing was written" in terminal.shown
    assert {"lake"} == {p.name for p in folder.iterdir()}
