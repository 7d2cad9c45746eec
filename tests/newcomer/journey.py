"""A newcomer's path from an empty environment to a verified number on a table of their own, step by step, each with its time.

Every command runs in a pseudo-terminal. Typing is not waited for; it is counted: characters, and what has to be read before an answer.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct, field

from tests.terminal import Terminal

Kind = Literal["parquet", "delta"]
KINDS: Final[tuple[Kind, ...]] = ("parquet", "delta")
CHARACTERS_A_MINUTE: Final = 200
SECONDS_A_QUESTION: Final = 5
"""What reading a question, or copying a printed command, takes besides the characters that are typed."""
MOST_SECONDS: Final = 600
MOST_TYPING: Final = 120
PATIENCE: Final = 120
"""Seconds in which a question appears, on a busy machine with cold caches."""

ENVIRONMENT: Final = "python3 -m venv .venv && source .venv/bin/activate"
INSTALL: Final = "pip install delta-materializer"
NEW: Final = "materializer new my_table"
FIRST: Final = ("materializer apply sql", "materializer backfill --all")
AGAIN: Final = ("materializer refresh --all", "materializer verify --all", "materializer report")
"""What is typed, as the README has it; late rows arrive between the last two groups."""
QUESTIONS: Final = (
    ("time column", ""),
    ("keys, with commas between", ""),
    ("width of the buckets", "1 day"),
    ("measures, with commas between", ""),
    ("name of the aggregate", ""),
    ("write it?", "y"),
)
"""What `new` asks, and what a newcomer answers: the proposals, but for the width."""
WITHOUT_A_TABLE: Final = 66
"""The exit status of `new` for a folder of Parquet files."""


class Step(Struct, frozen=True):
    """One step of a path.

    Args:
        what: The command, or what happened.
        seconds: Wall time, without typing.
        characters: How many are typed, with the key that ends each line.
        questions: How many are answered, and how many commands are copied from what was printed.
    """

    what: str
    seconds: float
    characters: int = 0
    questions: int = 0

    @property
    def typing(self) -> float:
        """Seconds of typing and reading.

        Examples:
            >>> Step("materializer new t", 1.0, characters=200, questions=6).typing
            90.0
        """
        return self.characters * 60 / CHARACTERS_A_MINUTE + self.questions * SECONDS_A_QUESTION


def exceeded(steps: Sequence[Step]) -> list[str]:
    """Return which limits a path exceeds.

    Examples:
        >>> exceeded([Step("pip install", 700.0), Step("ls", 0.1, characters=3)])
        ['701 s from the first command to the verified number, at most 600 s']
    """
    typing = sum(s.typing for s in steps)
    whole = typing + sum(s.seconds for s in steps)
    found = []
    if whole > MOST_SECONDS:
        found.append(f"{whole:.0f} s from the first command to the verified number, at most {MOST_SECONDS} s")
    if typing > MOST_TYPING:
        found.append(f"{typing:.0f} s of typing, at most {MOST_TYPING} s")
    return found


def table(steps: Sequence[Step]) -> str:
    """Return the steps as a table of Markdown, with a sum."""
    lines = ["| step | seconds | characters | questions | typing, s |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {_cell(s.what)} | {s.seconds:.1f} | {s.characters} | {s.questions} | {s.typing:.0f} |"
        for s in [*steps, summed(steps)]
    ]
    return "\n".join(lines)


def summed(steps: Sequence[Step]) -> Step:
    """Return all steps as one."""
    return Step(
        "all",
        sum(s.seconds for s in steps),
        sum(s.characters for s in steps),
        sum(s.questions for s in steps),
    )


def _cell(what: str) -> str:
    is_command = re.match(r"materializer|pip|python", what)
    return f"`{what}`" if is_command else what


class Shell(Struct):
    """Where a newcomer types.

    Args:
        folder: The working directory.
        env: The environment, with the programs of the newcomer's environment in its path.
        steps: What was done.
    """

    folder: Path
    env: Mapping[str, str]
    steps: list[Step] = field(default_factory=list)

    def type(self, line: str, *, runs: Sequence[str] = (), status: int = 0) -> str:
        """Type a command and return what it shows.

        Args:
            line: What is typed.
            runs: What is run in its place: a wheel has another name than the release that a user installs.
            status: The exit status that it has.
        """
        return self._do(line, line, runs, (), status, characters=len(line) + 1)

    def paste(self, line: str, what: str) -> str:
        """Copy a command that was printed, and run it."""
        return self._do(line, what, (), (), 0, characters=1, questions=1)

    def answer(self, line: str, answers: Sequence[tuple[str, str]]) -> str:
        """Type a command that asks, and answer."""
        typed = len(line) + 1 + sum(len(answer) + 1 for _, answer in answers)
        return self._do(line, line, (), answers, 0, characters=typed, questions=len(answers))

    def _do(
        self,
        line: str,
        what: str,
        runs: Sequence[str],
        answers: Sequence[tuple[str, str]],
        status: int,
        *,
        characters: int,
        questions: int = 0,
    ) -> str:
        began = time.monotonic()
        command = runs or ("sh", "-c", line)
        terminal = Terminal(*command, folder=self.folder, base=self.env, patience=PATIENCE)
        for question, answer in answers:
            terminal.wait(question)
            terminal.type(answer)
        ended = terminal.end()
        assert status == ended, f"{line} ended with {ended}:\n{terminal.shown}"
        self.steps.append(Step(what, time.monotonic() - began, characters, questions))
        return terminal.shown


class OwnTable:
    """The table that a newcomer has already: orders of ninety days, written by another program.

    Args:
        path: Its folder.
        rows: How many orders it has before some come late.
        counted: Orders by day and country, as plain Python counts them.
    """

    COUNTRIES: Final = ("AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "NL", "PL")
    BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
    DAYS: Final = 90

    def __init__(self, path: Path, rows: int) -> None:
        self.path = path
        self.rows = rows
        self.counted: Counter[tuple[str, str]] = Counter()
        self._rng = random.Random(1)

    def write(self, kind: Kind) -> None:
        """Write all rows, a file for each day."""
        for day in range(self.DAYS):
            part = self._orders(day, self.rows // self.DAYS + (day < self.rows % self.DAYS))
            if kind == "delta":
                self._append(part)
            else:
                self.path.mkdir(exist_ok=True)
                pq.write_table(part, self.path / f"orders-{day:02}.parquet")

    def add_late(self, rows: int = 40) -> None:
        """Append orders of ten days, the newest of them nine days old, in one commit."""
        days = range(self.DAYS - 19, self.DAYS - 9)
        self._append(pa.concat_tables([self._orders(day, rows // len(days)) for day in days]))

    def _append(self, part: pa.Table) -> None:
        write_deltalake(self.path, part, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    def _orders(self, day: int, size: int) -> pa.Table:
        begin = self.BEGIN + timedelta(days=day)
        times = sorted(begin + timedelta(seconds=self._rng.randrange(86_400)) for _ in range(size))
        countries = self._rng.choices(self.COUNTRIES, k=size)
        self.counted.update((f"{begin:%Y-%m-%d}", country) for country in countries)
        columns = {
            "ordered_at": pa.array(times, pa.timestamp("us", "UTC")),
            "country": pa.array(countries),
            "items": pa.array([self._rng.randrange(1, 9) for _ in range(size)], pa.int64()),
            "amount": pa.array([self._rng.randrange(100, 20_000) / 100 for _ in range(size)]),
        }
        return pa.table(columns)


def walk(shell: Shell, kind: Kind, rows: int, again: Sequence[str] = AGAIN) -> str:
    """Go from a table to numbers that are verified, and return what was shown after late rows arrived.

    The steps are added to those of the shell. In the end the output has exactly the orders that plain Python counts.

    Args:
        shell: Where it is typed.
        kind: What the table is.
        rows: How many rows it has.
        again: What is typed after late rows arrived.
    """
    own = OwnTable(shell.folder / "my_table", rows)
    own.write(kind)
    if kind == "parquet":
        shown = shell.type(NEW, status=WITHOUT_A_TABLE)
        [command] = [line.strip() for line in shown.splitlines() if line.strip().startswith("python -c")]
        shell.paste(command, "the command that it prints, copied")
    shell.answer(NEW, QUESTIONS)
    for line in FIRST:
        shell.type(line)
    assert own.counted == output(shell.folder), "the first materialization is not what was written"
    began = time.monotonic()
    own.add_late()
    shell.steps.append(Step("late rows arrive, from your own writer", time.monotonic() - began))
    assert own.counted != output(shell.folder), "late rows changed nothing"
    shown = ""
    for line in again:
        shown += shell.type(line)
    assert own.counted == output(shell.folder), "the refresh is not what was written"
    return shown


def output(folder: Path) -> Counter[tuple[str, str]]:
    """Return what the output says, by day and country."""
    [definition] = (folder / "sql").glob("*.sql")
    rows = DeltaTable(folder / "lake" / definition.stem / "output").to_pyarrow_table().to_pylist()
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        found[f"{row['bucket']:%Y-%m-%d}", row["country"]] += row["n"]
    return found
