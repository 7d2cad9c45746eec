"""A small lake on disk without Java, the command line over it, and what an error's hint says to do."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from materializer.adapters.cli.app import main
from materializer.config import Config
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.spark.run.executor import Executor
from tests.paths import ROOT
from tests.services.no_spark import LocalLake, NoSpark, Opened, each, view

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1) // timedelta(microseconds=1)
HOURLY = view("hourly", each("1 hour"))
DAILY = view("daily", each("1 day"), "hourly")


class Ran(Struct, frozen=True):
    """What a command ended with.

    Args:
        status: Its exit status.
        text: What it printed.
        errors: Its errors, as JSON objects.
    """

    status: int
    text: str
    errors: tuple[dict[str, Any], ...]


class World:
    """A lake in a working directory, with rows of two days and an hourly aggregate over them.

    Args:
        root: An empty folder, which is the working directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_apart = False
        """Whether commands run in processes of their own, in which no Spark runs yet."""
        self.hidden = root / "hidden"
        self.lake = LocalLake(root, rows=1_000_000, size=1 << 28)
        wired = replace(self.lake.wired, journal=Journal(root))
        self.lake.wired = wired
        self.lake.opened = Opened(wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]
        self.add(range(48))

    def add(self, hours: range | list[int], value: int = 1) -> None:
        """Commit a row in each hour."""
        begin = int(BEGIN.timestamp()) * 1_000_000
        self.lake.add(*((begin + hour * HOUR, value) for hour in hours))

    def apply(self, *sql: str) -> None:
        """Apply definitions; a stand-in for Spark looks at their expressions."""
        self.lake.apply(*sql)

    def properties(self, sql: str, **properties: str) -> str:
        """Return a definition with properties, in whose names `__` is a full stop."""
        listed = ", ".join(f"'{name.replace('__', '.')}' = '{value}'" for name, value in properties.items())
        return sql.replace("\nAS", f"\nTBLPROPERTIES ({listed})\nAS", 1)

    def state(self, name: str = "hourly") -> AggregateState:
        """Return an aggregate as the journal on disk has it."""
        return Journal(self.root).view().named(name)

    def run(self, words: str) -> Ran:
        """Run a command, as JSON."""
        arguments = [*shlex.split(words), "--json", "--lake", str(self.root)]
        if self.is_apart:
            command = [sys.executable, "-m", "materializer", *arguments]
            env = os.environ | {"PYTHONPATH": os.pathsep.join([str(self.hidden), str(ROOT)])}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
            status, out, err = done.returncode, done.stdout, done.stderr
        else:
            with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as failed:
                status = main(arguments)
            out, err = printed.getvalue(), failed.getvalue()
        errors = [json.loads(line)["error"] for line in err.splitlines() if line.startswith('{"error"')]
        assert "bug" not in [e["code"] for e in errors], err
        return Ran(status, out, tuple(errors))

    def works(self, words: str, status: int = 0) -> str:
        """Run a command that ends well."""
        ran = self.run(words)
        assert status == ran.status, (words, ran)
        return ran.text

    def fails(self, words: str, code: str) -> Hint:
        """Run a command that ends with an error of this code, and return what it hints at."""
        ran = self.run(words)
        assert [code] == [e["code"] for e in ran.errors], (words, ran)
        assert ran.errors[0]["wrote"]
        return Hint(ran.errors[0]["hint"], ran.errors[0]["message"])

    def hide(self, module: str) -> None:
        """Let a library be missing in processes of their own."""
        self.is_apart = True
        self.hidden.mkdir(exist_ok=True)
        (self.hidden / f"{module}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{module}'\")\n")

    def copy(self, name: str, to: str) -> None:
        """Copy a folder of the lake."""
        shutil.copytree(self.root / name, self.root / to)


class Hint(Struct, frozen=True):
    """What an error says to do next.

    Args:
        text: The hint.
        message: The message beside it.
    """

    text: str
    message: str

    @property
    def commands(self) -> list[str]:
        """The commands that it names, without the name of the program."""
        return re.findall(r"'materializer ([^']+)'", self.text)

    def command(self, **words: str) -> str:
        """Return its one command, or the first, with its placeholders filled in."""
        found = self.commands[0]
        for placeholder, word in words.items():
            assert placeholder in found, (placeholder, found)
            found = found.replace(placeholder, word)
        return found
