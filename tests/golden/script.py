"""A scripted lake: every command on it in a good order, what each says, and what the lake's journal and tables say afterwards.

What writes is done twice, as text for the aggregates ``bars`` … and as JSON for their twins ``twin`` …; what looks is asked both ways.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties
from msgspec import Struct, field

from materializer.adapters.cli.app import main
from tests import tables
from tests.golden import journal, normal
from tests.golden.surface import PLAIN

BEGIN: Final = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("price", pa.float64()),
        ("size", pa.int64()),
        ("note", pa.string()),
    ]
)
BARS: Final = """CREATE MATERIALIZED VIEW {name}
COMMENT 'Hours of trades'
TBLPROPERTIES (
  'sequence' = 'id', 'output.change_feed' = 'true',
  'refresh.start_offset' = '2 days', 'refresh.end_offset' = '1 hour', 'refresh.schedule' = '@hourly'
)
AS SELECT window.start AS hour, sym, count(*) AS n, sum(size) AS size, avg(price) AS mean, last(price) AS close
FROM trades GROUP BY window(ts, '{width}'), sym;
"""
DAILY: Final = """CREATE MATERIALIZED VIEW {name}
AS SELECT window.start AS day, sum(n) AS n, sum(size) AS size FROM {source} GROUP BY window(hour, '1 day');
"""
BURSTS: Final = """CREATE MATERIALIZED VIEW {name}
TBLPROPERTIES ('sequence' = 'id')
AS SELECT session_window.start AS begun, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '45 minutes'), sym;
"""
GATED: Final = """CREATE MATERIALIZED VIEW {name}
TBLPROPERTIES ('quality.suite' = 'expectations/few.json')
AS SELECT window.start AS day, sym, count(*) AS n FROM trades GROUP BY window(ts, '1 day'), sym;
"""
NUMBERS: Final = """CREATE MATERIALIZED VIEW numbers
AS SELECT window.start AS day, sum(cast(note AS INT)) AS total FROM trades GROUP BY window(ts, '1 day');
"""
WRONG: Final = "CREATE MATERIALIZED VIEW wrong AS SELECT window.start AS hour, sum(sise) AS size FROM trades GROUP BY window(ts, '1 hour');\n"
SUITE: Final = {
    "name": "few",
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "n", "max_value": 7},
            "severity": "critical",
        },
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "sym", "value_set": ["A"]},
            "severity": "warning",
        },
    ],
}


class Lake:
    """The folder in which the script runs: a source, and files with definitions.

    Args:
        root: Where; everything else is relative to it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = root / "lake"
        self.trades = self.lake / "trades"
        self.commits = 0
        self.last_id = 0
        self.rows: list[dict[str, Any]] = []
        self.tables = ""
        (root / "expectations").mkdir()
        (root / "expectations" / "few.json").write_text(json.dumps(SUITE), encoding="utf-8")
        self.define("bars", BARS.format(name="bars", width="1 hour"), BARS.format(name="twin", width="1 hour"))
        self.define("daily", DAILY.format(name="daily", source="bars"), DAILY.format(name="twin_daily", source="twin"))
        self.define("bursts", BURSTS.format(name="bursts"), BURSTS.format(name="twin_bursts"))
        self.define("gated", GATED.format(name="gated"), GATED.format(name="twin_gated"))
        self.define("wider", BARS.format(name="bars", width="2 hours"), BARS.format(name="twin", width="2 hours"))
        self.define("numbers", NUMBERS, "")
        self.define("wrong", WRONG, "")

    def define(self, file: str, text: str, twin: str) -> None:
        """Write a file with a definition, and one of its twin."""
        for folder, told in (("sql", text), ("twins", twin)):
            if told:
                (self.root / folder).mkdir(exist_ok=True)
                (self.root / folder / f"{file}.sql").write_text(told, encoding="utf-8")

    def copy(self) -> None:
        """Copy the lake."""
        shutil.copytree(self.lake, self.root / "other")

    def write_test(self) -> None:
        """Write a file with a test that passes and one that fails."""
        tests = [
            {
                "name": name,
                "model": "bars",
                "given": [{"input": "trades", "rows": [{"ts": "2024-03-01T09:10:00Z", "sym": "A", "size": 2}]}],
                "expect": {"rows": [{"sym": "A", "n": n}]},
            }
            for name, n in (("one_row", 1), ("two_rows", 2))
        ]
        (self.root / "tests").mkdir()
        (self.root / "tests" / "bars.yml").write_text(json.dumps({"unit_tests": tests}, indent=1), encoding="utf-8")

    def trade(self, day: int, hours: Sequence[int], note: str = "1") -> None:
        """Write two trades of each of two symbols an hour."""
        times = [BEGIN + timedelta(days=day, hours=h, minutes=m) for h in hours for m in (0, 10, 20, 30)]
        ids = range(self.last_id, self.last_id + len(times))
        rows = [
            {"id": n, "ts": when, "sym": "AB"[n % 2], "price": 100 + n % 7 / 4, "size": 1 + n % 5, "note": note}
            for n, when in zip(ids, times, strict=True)
        ]
        self.last_id += len(times)
        tables.append(self.trades, pa.Table.from_pylist(rows, schema=SCHEMA))
        self._date()

    def update(self, where: str, **columns: str) -> None:
        """Change rows of the source in one commit.

        Which of a row before and after the change comes first in its file is chance, and a compressed file of them is a byte
        larger or not.
        """
        plainly = WriterProperties(compression="UNCOMPRESSED")
        DeltaTable(self.trades).update(predicate=where, updates=columns, writer_properties=plainly)
        self._date()

    def delete(self, where: str) -> None:
        """Delete rows of the source in one commit."""
        DeltaTable(self.trades).delete(where)
        self._date()

    def _date(self) -> None:
        """Date the newest commit of the source: the first as of the fourth of March, each other one an hour later."""
        when = int((BEGIN + timedelta(days=3, hours=self.commits)).timestamp() * 1000)
        log = self.trades / "_delta_log" / f"{self.commits:020d}.json"
        actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = when
        log.write_text("".join(f"{json.dumps(a)}\n" for a in actions), encoding="utf-8")
        os.utime(log, (when / 1000, when / 1000))
        self.commits += 1

    def keep(self) -> None:
        """Remember the journal and the commits of all tables as they are: a later command folds and removes them."""
        self.rows = journal.rows(self.lake, self.root)
        self.tables = _commits(self)


class Step(Struct, frozen=True):
    """One call of a command.

    Args:
        name: Of the golden file.
        words: What is typed after ``materializer``.
    """

    name: str
    words: str

    @property
    def is_json(self) -> bool:
        """Whether it is asked for JSON."""
        return "--json" in self.words


class Told(Struct):
    """What a run of the script said.

    Args:
        commands: By golden file.
        commits: What the commits of refreshes say, as text.
        journals: Rows of the journal: before it was folded for the first time, and at the end.
    """

    commands: dict[str, str] = field(default_factory=dict)
    commits: str = ""
    journals: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def both(name: str, words: str) -> list[Step]:
    """A command that looks, asked both ways."""
    return [Step(name, words), Step(name, f"{words} --json")]


TWINS: Final = {"bars": "twin", "daily": "twin_daily", "bursts": "twin_bursts", "gated": "twin_gated"}


def twice(name: str, words: str) -> list[Step]:
    """A command that writes, as text, and as JSON for the twin."""
    twin = " ".join(TWINS.get(word, word.replace("sql/", "twins/")) for word in words.split(" "))
    return [Step(name, words), Step(name, f"{twin} --json")]


NOW: Final = "--now 2024-03-04T12:00:00Z"
Act = Callable[[Lake], None]
SCRIPT: Final[Sequence[Sequence[Step] | Act]] = (
    both("status-of-nothing", "status"),
    [Step("version", "version"), Step("version", "version --json")],
    both("engines", "engines"),
    both("engine", "engines session_window"),
    lambda lake: lake.trade(0, range(9, 12)),
    lambda lake: lake.trade(1, range(9, 12)),
    both("apply-dry-run", "apply sql/bars.sql sql/daily.sql --dry-run"),
    both("apply-wrong", "apply sql/wrong.sql"),
    twice("apply", "apply sql/bars.sql sql/daily.sql sql/bursts.sql sql/gated.sql"),
    twice("apply-again", "apply sql/bars.sql"),
    both("status-new", "status"),
    both("plan-first", "plan bars"),
    twice("backfill", "backfill bars --buckets-per-run 24 --order oldest"),
    twice("refresh-rollup", "refresh daily"),
    twice("refresh-engine", "refresh bursts"),
    twice("refresh-gated", "refresh gated"),
    lambda lake: lake.trade(1, [10, 13]),
    lambda lake: lake.update("id = 3", price="99.5"),
    lambda lake: lake.delete("id = 5"),
    lambda lake: lake.trade(2, range(9, 11)),
    both("status-behind", f"status {NOW}"),
    both("plan", "plan bars"),
    twice("refresh", "refresh bars"),
    twice("refresh-nothing", "refresh bars --strict-exit"),
    twice("refresh-engine-again", "refresh bursts"),
    twice("refresh-refused", "refresh gated"),
    twice("refresh-anyway", "refresh gated --publish-anyway 'a busy day'"),
    [Step("refresh-all", "refresh --all")],
    both("status", f"status bars {NOW}"),
    both("status-gated", f"status gated {NOW}"),
    both("history", "history gated"),
    both("show", "show bars --limit 4"),
    both("show-window", "show bars --start 2024-03-02 --end 2024-03-03 --limit 3"),
    both("changes", "changes bars --limit 5"),
    both("changes-late", "changes bars --reason late --after 1 --limit 2"),
    twice("check", "check gated"),
    twice("invalidate", "invalidate bars --start 2024-03-01T09:30:00Z --end 2024-03-01T10:10:00Z --reason 'by hand'"),
    both("show-fresh", "show daily --fresh --limit 3"),
    twice("verify-dirty", "verify bars"),
    twice("policy-add", "policy add bars --policy old --end-offset '2 days' --max-runs 2"),
    both("policy-list", f"policy list bars {NOW}"),
    twice("policy-run", f"policy run bars {NOW}"),
    twice("policy-remove", "policy remove bars --policy old"),
    twice("policy-unknown", "policy remove bars --policy old"),
    twice("refresh-forced", "refresh bars --start 2024-03-01 --end 2024-03-02 --force"),
    twice("verify", "verify bars"),
    twice("apply-wider-dry-run", "apply sql/wider.sql --dry-run"),
    twice("expire-dry-run", "expire bars --before 2024-03-02T00:30:00Z"),
    twice("expire", "expire bars --before 2024-03-02T00:30:00Z --yes"),
    lambda lake: lake.trade(0, [9]),
    both("plan-frozen", "plan bars"),
    twice("refresh-frozen", "refresh bars"),
    both("status-frozen", "status bars"),
    twice("thaw-dry-run", "thaw bars"),
    twice("thaw", "thaw bars --yes"),
    twice("refresh-thawed", "refresh bars"),
    twice("apply-wider", "apply sql/wider.sql"),
    both("status-building", "status bars"),
    twice("build", "build bars --no-switch"),
    twice("switch", "switch bars"),
    twice("rollback", "rollback bars --no-switch"),
    twice("abandon", "abandon bars"),
    twice("rollback-switched", "rollback bars"),
    Lake.keep,
    twice("maintain-dry-run", "maintain bars --dry-run"),
    twice("maintain", "maintain bars"),
    both("doctor", "doctor"),
    twice("repair-nothing", "repair bars"),
    lambda lake: _lose(lake, "bars"),
    lambda lake: _lose(lake, "twin"),
    both("doctor-lost", "doctor bars"),
    twice("refresh-lost", "refresh bars"),
    both("repair-ask", "repair bars"),
    twice("repair", "repair bars --yes"),
    twice("refresh-repaired", "refresh bars"),
    [Step("backup", "backup backups/text"), Step("backup", "backup backups/json --json")],
    [Step("restore-ask", "restore backups/text"), Step("restore-ask", "restore backups/json --json")],
    [Step("restore", "restore backups/text --yes"), Step("restore", "restore backups/json --yes --json")],
    [Step("apply-numbers", "apply sql/numbers.sql"), Step("refresh-numbers", "refresh numbers")],
    lambda lake: lake.trade(2, [12], note="x"),
    both("data-error", "refresh numbers"),
    both("unknown-aggregate", "refresh bras"),
    both("unknown-everywhere", "status bras"),
    both("bad-window", "refresh bars --start yesterday"),
    both("reversed-window", "plan bars --start 2024-03-02 --end 2024-03-01"),
    both("small-window", "refresh bars --start 2024-03-01T09:10:00Z --end 2024-03-01T09:20:00Z"),
    both("no-window", "invalidate bars"),
    both("no-name", "refresh"),
    both("no-option", "refresh bars --fast"),
    both("no-command", "refrehs"),
    both("no-number", "history bars --limit 0"),
    both("no-backup", "restore backups/none"),
    twice("drop-ask", "drop bars"),
    twice("drop-read", "drop bars --yes"),
    twice("drop", "drop bars --cascade --yes"),
    both("status-last", f"status {NOW}"),
    both("explain", "explain window.frozen"),
    both("explain-unknown", "explain frozen"),
    both("completion", "completion bash"),
    both("plan-definitions", "plan --definitions sql/bars.sql --definitions sql/wrong.sql"),
    [Step("plan-markdown", "plan --definitions sql/bars.sql --markdown")],
    Lake.write_test,
    both("test", "test tests/bars.yml --definitions sql/bars.sql"),
    both("show-how", "show gated --how"),
    [Step("export", "export gated --to gated.csv"), Step("export", "export gated --to gated.parquet --json")],
    [Step("new", "new trades --name begun --yes"), Step("new", "new trades --name twin_begun --yes --json")],
    Lake.copy,
    [Step("refresh-copied", "refresh gated --publish-anyway 'a busy day'")],
    both("diff", "diff gated --against other"),
)
"""Steps, and what happens between them."""


def _lose(lake: Lake, name: str) -> None:
    """Lose a file of an aggregate's output."""
    file = min(DeltaTable(lake.lake / name / "output").file_uris())
    Path(file).unlink()


def run(folder: Path) -> Told:
    """Run the script in a folder of its own; a Spark session has to be there."""
    lake, told, n = Lake(normal.roomy(folder)), Told(), 0
    quiet = {k: v for k, v in os.environ.items() if not k.startswith("MATERIALIZER")} | PLAIN
    quiet |= {
        "MATERIALIZER_SNAPSHOT_EVERY": "1000",
        "MATERIALIZER_LEASE_SECONDS": "3600",
    }  # nothing is folded or renewed
    with patch.dict(os.environ, quiet, clear=True), chdir(lake.root), normal.still():
        for part in SCRIPT:
            if callable(part):
                part(lake)
                continue
            n += 1
            for step in part:
                file = f"commands/{n:02}-{step.name}.{'json' if step.is_json else 'txt'}"
                text = normal.plain(_called(step), lake.root)
                told.commands[file] = normal.without_sizes(text) if step.name.startswith("maintain") else text
    told.commits = lake.tables
    told.journals = {"events": lake.rows, "folded": journal.rows(lake.lake, lake.root)}
    return told


def _called(step: Step) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(shlex.split(step.words))
    parts = [f"$ materializer {step.words}\n", out.getvalue()]
    parts += [f"--- standard error\n{err.getvalue()}"] if err.getvalue() else []
    return "".join([*parts, f"--- exit {status}\n"])


def _commits(lake: Lake) -> str:
    """What each commit to our tables says about itself; those of twins say the same."""
    lines: list[str] = []
    ours = (p.parent for p in lake.lake.glob("**/_delta_log") if p.parent != lake.trades and "/twin" not in str(p))
    for table in sorted(ours, key=_place):
        lines.append(f"{table.relative_to(lake.lake).as_posix()}")
        for file in sorted((table / "_delta_log").glob("*.json")):
            if not file.stem.isdecimal():
                continue
            actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            lines += [
                f"    {int(file.stem)}  {_said(action)}"
                for action in actions
                if action.keys() & {"commitInfo", "txn", "metaData"}
            ]
    return normal.plain("".join(f"{line}\n" for line in lines), lake.root)


def _place(table: Path) -> tuple[str, int]:
    """Where a table lies, and when it was made: the folders of partials have ids."""
    begin = table / "_delta_log" / f"{0:020d}.json"
    return str(table.parent if table.parent.name == "partials" else table), begin.stat().st_mtime_ns


_LEFT_OUT: Final = (
    "clientVersion",
    "createdTime",
    "engineInfo",
    "lastUpdated",
    "operationMetrics",
    "operationParameters",
    "timestamp",
    "txnId",
)
"""What libraries say of a commit, and what is another in each run."""


def _said(action: Mapping[str, Any]) -> str:
    [(kind, said)] = action.items()
    return f"{kind} {json.dumps({k: v for k, v in said.items() if k not in _LEFT_OUT}, sort_keys=True)}"


def files(told: Told) -> dict[str, str]:
    """Return the golden files of a run."""
    return told.commands | {"commits.txt": told.commits, "written.jsonl": journal.lines(told.journals["events"])}


def recorded(told: Told) -> dict[str, str]:
    """Return the journals of a run with what they mean."""
    return {
        name: text
        for kind, rows in told.journals.items()
        for name, text in (
            (f"recorded/{kind}.jsonl", journal.lines(rows)),
            (f"recorded/{kind}.state.json", journal.meaning(rows)),
        )
    }
