"""Attacks on a terminal by texts of a lake: names, columns, values, comments and errors that a terminal would obey."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from materializer.adapters.cli import completion, live, main
from materializer.adapters.cli.output import JsonOutput, TextOutput, show_logs
from materializer.adapters.cli.render.show import ShowResult
from materializer.api import Materializer
from materializer.config import Config
from materializer.core.spec.spec import TimeType
from materializer.errors import DefinitionError, MaterializerError, UsageError
from tests import tables
from tests.attacks.table import attack

COMMANDS = {
    "title": ("\x1b]0;gone\x07", "\\x1b]0;gone\\x07"),
    "clear screen": ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
    "colour": ("\x1b[31mred", "\\x1b[31mred"),
    "link": ("\x1b]8;;https://evil.example\x1b\\here", "\\x1b]8;;https://evil.example\\x1b\\here"),
    "C1": ("\x9b2J\x85\x90", "\\x9b2J\\x85\\x90"),
    "line over": ("fine\rgone", "fine\\rgone"),
    "erased": ("fine\b\b\b\bgone\x7f", "fine\\x08\\x08\\x08\\x08gone\\x7f"),
    "turned": ("\u202egnp.exe\u2066\u200f", "\\u202egnp.exe\\u2066\\u200f"),
    "unseen": ("ho\u200bur\ufeff", "ho\\u200bur\\ufeff"),
    "ends a line": ("a\u2028b\u2029", "a\\u2028b\\u2029"),
    "bell": ("\a\a", "\\x07\\x07"),
}
ALL = "".join(command for command, _ in COMMANDS.values())
OBEYED = {char for char in ALL if not char.isprintable()}
"""Characters that must not reach a terminal."""
NEW_LINE = "a\nerror: the lake is gone"
PLAIN = "naïve 東京 👩\u200d💻 C:\\new"
VIEW = "CREATE MATERIALIZED VIEW {} COMMENT '{}' AS SELECT time_bucket('1 hour', ts) AS hour, sym, `{}` AS k, count(*) AS n FROM {} GROUP BY ALL"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Materializer:
    """A lake with such texts as values of a key, as the name of a column, of a source, and as a comment."""
    root = tmp_path_factory.mktemp("hostile")
    texts = [*(command for command, _ in COMMANDS.values()), NEW_LINE, PLAIN]
    at = [datetime(2024, 1, 1, tzinfo=UTC)] * len(texts)
    tables.append(root / "trades", pa.table({"ts": at, "sym": texts, f"k{ALL}": texts}))
    made = Materializer(root / "lake", config=Config(sources={"trades": str(root / "trades")}))
    made.apply(VIEW.format("hourly", ALL, f"k{ALL}", "trades"))
    made.refresh("hourly", executor="local")
    return made


def is_quiet(text: str) -> bool:
    """Whether a terminal has nothing to obey in a text but the ends of its lines."""
    return not OBEYED & set(text)


def printed(capsys: pytest.CaptureFixture[str], lake: Materializer, *words: str) -> str:
    """Run a command, and return what it printed and what went to standard error."""
    capsys.readouterr()
    config = Path(str(lake.root)).parent / "materializer.toml"
    config.write_text(f'[sources]\ntrades = "{Path(str(lake.root)).parent / "trades"}"\n')
    main([*words, "--lake", str(lake.root), "--config", str(config)])
    return "".join(capsys.readouterr())


@attack(
    "The terminal",
    "a value sets the title, clears the screen, moves, colours, links, rings, turns or hides text, or ends a line",
    "it is shown escaped: \\x1b, \\n, \\u202e",
)
@pytest.mark.parametrize(
    ("command", "shown"), [*COMMANDS.values(), (NEW_LINE, "a\\nerror: the lake is gone"), ("a\tb", "a\\tb")]
)
@pytest.mark.parametrize("width", [300, 60])
def test_a_value_is_shown_escaped(command: str, shown: str, width: int) -> None:
    """
    In a row of a table, on one line, and in the form of a row that is too wide for the terminal.
    """
    out = io.StringIO()
    long = "x" * (40 if width > 60 else 80)
    TextOutput(out, io.StringIO(), width=width).show(ShowResult("hourly", ("sym", "more"), ((command, long),)))

    assert is_quiet(out.getvalue())
    assert " ".join(shown.split()) in " ".join(out.getvalue().split())
    *why, rows = out.getvalue().split("\n\n")  # why rows are printed below each other, in a paragraph of its own
    assert (len(rows.splitlines()), len(why)) == (2, width == 60)


@attack("The terminal", "the name of a column is a command", "escaped in the head of the table, which stays aligned")
@pytest.mark.parametrize(("command", "shown"), COMMANDS.values())
def test_the_name_of_a_column_is_shown_escaped(command: str, shown: str) -> None:
    """
    Columns are as wide as what is shown.
    """
    out = io.StringIO()
    TextOutput(out, io.StringIO(), width=300).show(ShowResult("hourly", (command, "next"), (("a", "b"),)))
    head, row = out.getvalue().splitlines()

    assert is_quiet(out.getvalue())
    assert head.startswith(shown)
    assert head.index("next") == row.index("b")


@attack("The terminal", "ordinary text of any script", "shown as it is, also a joined emoji and a backslash")
def test_ordinary_text_stays() -> None:
    """
    What obeys nothing is not escaped.
    """
    out = io.StringIO()
    TextOutput(out, io.StringIO()).show(ShowResult("hourly", ("sym",), ((PLAIN,),)))

    assert PLAIN in out.getvalue()


READING = [
    ["show", "hourly"],
    ["status"],
    ["status", "hourly"],
    ["plan", "hourly"],
    ["history", "hourly"],
    ["refresh", "hourly"],
    ["doctor"],
    ["versions", "hourly"],
    ["repair", "hourly"],
    ["show", "hourly", "--start", ALL],
    ["show", ALL],
    ["status", ALL],
    [ALL],
    ["show", "hourly", f"--{ALL}"],
    ["explain", ALL],
    ["report", "--out", "/dev/null/" + ALL],
]


@attack(
    "The terminal",
    "the same in comments, names, columns, arguments, errors and hints, asked by every command that reads",
    "nothing that a terminal obeys is printed, on either stream",
)
@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words).replace(ALL, "COMMANDS"))
def test_no_command_prints_what_a_terminal_obeys(
    lake: Materializer, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """
    And it does print something.
    """
    text = printed(capsys, lake, *words)

    assert text
    assert is_quiet(text)


@attack(
    "The terminal",
    "an error, its hint, a problem of a definition or a traceback has commands of a value",
    "escaped; only our own colour of 'error:' is a command",
)
@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "show",
    [
        lambda o: o.fail(UsageError(f"there is no {ALL}\n{ALL}", hint=f"do {ALL}\n{ALL}")),
        lambda o: o.fail(MaterializerError(ALL, wrote=ALL)),
        lambda o: o.crash(RuntimeError(ALL)),
        lambda o: o.interrupted(f"refresh 1 of '{ALL}'"),
    ],
    ids=["usage", "wrote", "bug", "interrupted"],
)
def test_errors_are_shown_escaped(
    show: Callable[[TextOutput], None], is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    On a terminal and in a file.
    """
    monkeypatch.delenv("NO_COLOR", raising=False)
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: is_terminal)
    show(TextOutput(io.StringIO(), err))
    text = err.getvalue()
    for ours in ("\x1b[1;31merror:\x1b[0m", "\x1b[1;31mbug:\x1b[0m"):
        text = text.replace(ours, "", 1)

    assert "\\x1b[2J" in text
    assert is_quiet(text)


@attack("The terminal", "a statement that cannot be read has commands; the problem quotes it", "escaped")
def test_problems_of_definitions_are_shown_escaped(lake: Materializer) -> None:
    """
    Also where the place is pointed at.
    """
    err = io.StringIO()
    with pytest.raises(DefinitionError) as found:
        lake.apply(
            f"CREATE MATERIALIZED VIEW b AS SELECT time_bucket('1 hour', `{ALL}`) AS hour, nothing(`{ALL}`) AS n FROM trades GROUP BY `{ALL}`, 1"
        )
    TextOutput(io.StringIO(), err).fail(found.value)

    assert is_quiet(err.getvalue())


@attack(
    "The terminal",
    "the name of an aggregate is a command, in the bar or the lines of a backfill",
    "escaped; markup of the bar is text, too",
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_progress_of_a_refresh_is_shown_escaped(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The bar moves the cursor by itself; nothing of the name does.
    """
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "400")
    with TextOutput(out, err, width=400).watch(
        "[red]a\x1b]0;gone\x07\x9b", TimeType.TIMESTAMP, is_long=is_terminal
    ) as watch:
        watch.__enter__()
    text = out.getvalue() + err.getvalue()

    assert not {"\x07", "\x9b"} & set(text)
    assert "\x1b]" not in text
    assert not is_terminal or "[red]a\\x1b]0;gone\\x07\\x9b" in text


@attack("The terminal", "`watch` draws names, values and problems that are commands", "escaped")
def test_watch_shows_escaped(lake: Materializer) -> None:
    """
    The lake and an aggregate.
    """
    for drawn in (live.of_lake(lake), live.of_aggregate(lake, "hourly", 200)):
        file = io.StringIO()
        Console(file=file, width=200).print(drawn)
        assert is_quiet(file.getvalue())


class Shown:
    """A lake whose page has commands wherever it has a text."""

    def __init__(self, page: dict[str, Any]) -> None:
        self.page = page

    def report_data(self, name: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - the lake has this argument
        """Return the page."""
        return self.page


@attack("The terminal", "`watch` of a lake with a broken aggregate, whose name and problem are commands", "escaped")
def test_watch_shows_what_is_broken_escaped(lake: Materializer) -> None:
    """
    Every text of the page is a command.
    """
    page = lake.report_data()
    row = page["aggregates"][0] | {"name": ALL, "why": ALL}
    hostile: Any = Shown(page | {"root": ALL, "aggregates": [row], "broken": [{"name": ALL, "problem": ALL}]})
    file = io.StringIO()
    Console(file=file, width=900).print(live.of_lake(hostile))

    assert is_quiet(file.getvalue())
    assert file.getvalue().count("\\x1b[2J") >= 4


@attack("The terminal", "a warning that is logged quotes a command", "escaped, in one line")
def test_warnings_are_shown_escaped() -> None:
    """
    Where no handler of the caller takes them.
    """
    program = f"""
import logging
from materializer.adapters.cli import main
main(["--help"])
try:
    raise ValueError({ALL!r})
except ValueError as exc:
    logging.getLogger("materializer").warning("%s", {ALL + NEW_LINE!r}, exc_info=exc)
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )

    assert "\\x1b[2J" in found.stderr
    assert is_quiet(found.stderr)
    assert not [line for line in found.stderr.splitlines() if line.startswith("error:")]
    assert callable(show_logs)
    assert logging.lastResort is not None


@attack("The terminal", "a shell completes the name of an aggregate that is a command", "such a name is left out")
def test_completion_offers_no_command(lake: Materializer, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Others are offered.
    """
    monkeypatch.setenv("MATERIALIZER_LAKE", str(lake.root))

    assert completion.aggregates("") == [name for name in lake.names() if is_quiet(name)]


@attack(
    "The terminal",
    "a program reads the same as JSON, or as a written page",
    "the values are as they were, character by character",
)
def test_json_keeps_every_character() -> None:
    """
    Also half a character, which an argument can have.
    """
    out, err = io.StringIO(), io.BytesIO()
    JsonOutput(out).show(ShowResult("hourly", (ALL,), ((ALL + NEW_LINE,),)))
    found = json.loads(out.getvalue())
    stream = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    JsonOutput(out, stream).fail(UsageError("no \udc9b"))

    assert (found["columns"], found["rows"]) == ([ALL], [[ALL + NEW_LINE]])
    assert json.loads(err.getvalue())["error"]["message"] == "no \udc9b"
