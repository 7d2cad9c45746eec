"""The examples that each help ends with, all run as they are typed, in an order in which they make sense."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import chdir
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake
from msgspec import Struct

from materializer.adapters.cli.app import main
from materializer.adapters.cli.application import app
from materializer.adapters.cli.examples import EXAMPLES, lines
from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ELSEWHERE: Final = {
    "materializer demo --lake demo": ("takes minutes", "tests/docs/output.py"),
    "materializer setup": ("writes into the user's cache", "tests/spark/runtime/test_class_data.py"),
    "materializer report --serve --port 8080": ("serves until it is ended", "tests/adapters/page/test_server.py"),
    "materializer watch": ("needs a terminal", "tests/adapters/cli/test_watch.py"),
    "materializer watch bars_1h --interval 5": ("needs a terminal", "tests/adapters/cli/test_watch.py"),
    "materializer run": ("stays until it is ended", "tests/adapters/cli/test_run.py"),
    "materializer run bars_1h --every 500ms --json": ("stays until it is ended", "tests/adapters/cli/test_run.py"),
    "materializer run --serve --port 9180": ("stays until it is ended", "tests/adapters/cli/test_run.py"),
    "materializer new": ("asks", "tests/adapters/cli/test_new.py"),
}
"""Examples that are not run here, why, and what runs the command."""
BEGIN: Final = datetime(2024, 3, 1, tzinfo=UTC)
BARS: Final = """CREATE MATERIALIZED VIEW bars_1h
TBLPROPERTIES ('output.change_feed' = 'true', 'quality.suite' = 'expectations/bars.json', 'refresh.start_offset' = '3 days')
AS SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, {measure} AS volume
FROM trades GROUP BY time_bucket('1 hour', ts), sym;
"""
DAYS: Final = """CREATE MATERIALIZED VIEW {name}
AS SELECT time_bucket('1 {unit}', {time}) AS {unit}, sum({what}) AS volume FROM {source} GROUP BY time_bucket('1 {unit}', {time});
"""
SUITE: Final = {
    "name": "bars",
    "expectations": [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "min_value": 1}}],
}


def write(hours: range, size: int = 1) -> None:
    times = [BEGIN + timedelta(hours=hour, minutes=minute) for hour in hours for minute in (0, 20, 40)]
    kinds = [("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("size", pa.int64())]
    rows = pa.table(
        [pa.array(times), ["A", "B", "A"] * len(hours), [size] * len(times)], names=["ts", "sym", "size"]
    ).cast(pa.schema(kinds))
    write_deltalake("lake/trades", rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def define(file: str, text: str) -> None:
    Path("sql").mkdir(exist_ok=True)
    Path("sql", file).write_text(text, encoding="utf-8")


def changed(measure: str) -> Callable[[], None]:
    def change() -> None:
        define("bars.sql", BARS.format(measure=measure))
        assert 0 == main(["apply", "sql/bars.sql"])

    return change


def write_test() -> None:
    Path("tests").mkdir()
    row = "{ts: 2024-03-01, sym: A, size: 3}"
    test = f"name: one, model: bars_1h, given: [{{input: trades, rows: [{row}]}}], expect: {{rows: [{{sym: A, volume: 3}}]}}"
    Path("tests", "bars.yml").write_text(f"unit_tests: [{{{test}}}]", encoding="utf-8")


def copied() -> None:
    """The lake of another environment, which has the same rows."""
    shutil.copytree("lake", "../prod/lake")
    Path("materializer.toml").write_text('[env.prod]\nlake = "../prod/lake"\n', encoding="utf-8")


def begin() -> None:
    Path("expectations").mkdir()
    Path("expectations", "bars.json").write_text(json.dumps(SUITE), encoding="utf-8")
    define("bars.sql", BARS.format(measure="sum(size)"))
    define("hours.sql", DAYS.format(name="trades_1h", unit="hour", time="ts", what="size", source="trades"))
    define("days.sql", DAYS.format(name="trades_of_days", unit="day", time="hour", what="volume", source="trades_1h"))
    write(range(72))


class Step(Struct, frozen=True):
    """One example.

    Args:
        text: What is typed.
        status: The exit status.
        before: What happens before it.
    """

    text: str
    status: int = 0
    before: Callable[[], object] = lambda: None


STORY: Final = (
    Step("materializer new trades --name trades_1d --bucket '1 day' --key sym --into drafts --yes", before=begin),
    Step("materializer apply sql --dry-run"),
    Step("materializer apply sql/bars.sql --build"),
    Step("materializer plan bars_1h --start 2024-03-01 --end 2024-03-02", before=lambda: main(["apply", "sql"])),
    Step("materializer plan --definitions sql --markdown"),
    Step("materializer backfill bars_1h --buckets-per-run 24 --max-runs 2"),
    Step("materializer backfill --all"),
    Step("materializer refresh bars_1h", before=lambda: write(range(70, 72), 2)),
    Step("materializer refresh --all --json"),
    Step("materializer invalidate bars_1h --start 2024-03-01 --end 2024-03-02 --reason 'prices were corrected'"),
    Step("materializer show bars_1h --start 2024-03-01 --end 2024-03-02 --fresh"),
    Step("materializer invalidate bars_1h --all-time"),
    Step("materializer status"),
    Step("materializer status bars_1h --json"),
    Step("materializer history bars_1h --limit 5", before=lambda: main(["refresh", "bars_1h"])),
    Step("materializer show bars_1h --limit 5"),
    Step("materializer show bars_1h --how"),
    Step("materializer export bars_1h --to bars.parquet"),
    Step("materializer export bars_1h --to march.csv --start 2024-03-01 --end 2024-04-01 --force"),
    Step("materializer changes bars_1h --after 1 --reason late"),
    Step("materializer verify bars_1h --start 2024-03-01"),
    Step("materializer verify --all"),
    Step("materializer diff bars_1h --against ../prod/lake", before=copied),
    Step("materializer diff bars_1h --against prod --start 2024-03-01 --limit 5"),
    Step("materializer check bars_1h"),
    Step("materializer doctor bars_1h"),
    Step("materializer report --out site"),
    Step(
        "materializer policy add bars_1h --policy weekly --start-offset '60 days' --end-offset '7 days' --schedule '0 3 * * 0'"
    ),
    Step("materializer policy list bars_1h --now 2024-03-03"),
    Step("materializer policy run bars_1h --policy weekly --now 2024-03-20"),
    Step("materializer policy run --due"),
    Step("materializer policy remove bars_1h --policy weekly"),
    Step("materializer expire bars_1h --before 2024-03-02"),
    Step("materializer expire bars_1h --before 2024-03-02 --yes"),
    Step("materializer thaw bars_1h --yes"),
    Step("materializer backup backups/monday", before=lambda: main(["refresh", "bars_1h"])),
    Step("materializer restore backups/monday", status=1),
    Step("materializer restore backups/monday --yes"),
    Step("materializer repair --all"),
    Step("materializer repair bars_1h --yes"),
    Step("materializer maintain --all --dry-run"),
    Step("materializer maintain bars_1h"),
    Step("materializer abandon bars_1h", before=changed("max(size)")),
    Step("materializer build bars_1h --no-switch", before=changed("min(size)")),
    Step("materializer switch bars_1h"),
    Step("materializer test", before=write_test),
    Step("materializer test bars_1h --definitions sql/bars.sql --executor auto"),
    Step("materializer build bars_1h --max-runs 2", before=changed("sum(size) + 1")),
    Step("materializer rollback bars_1h"),
    Step("materializer drop bars_1h --yes"),
    Step("materializer drop trades_1h --cascade --yes"),
    Step("materializer engines session_window"),
    Step("materializer explain window.frozen"),
    Step("materializer explain definition"),
    Step("materializer completion bash"),
    Step("materializer version"),
)
"""The story. A restore says first what differs, and exits 1."""


def names(group: Any, prefix: str = "") -> list[str]:
    """The commands of a group, however deep."""
    found = []
    for name, command in group.commands.items():
        found += names(command, f"{name} ") if hasattr(command, "commands") else [f"{prefix}{name}"]
    return found


def test_every_command_has_an_example_of_itself() -> None:
    """
    And none is left that no command shows; each example calls the command below which it stands.
    """
    assert sorted(names(typer.main.get_command(app))) == sorted(EXAMPLES)
    assert all(e == f"materializer {c}" or e.startswith(f"materializer {c} ") for c, es in EXAMPLES.items() for e in es)


def test_every_example_is_in_the_story() -> None:
    """
    Once; the others are listed with a reason, and with what runs their command.
    """
    found = [example for examples in EXAMPLES.values() for example in examples]

    assert sorted(found) == sorted([*(step.text for step in STORY), *ELSEWHERE])
    assert all((ROOT / where).exists() for _, where in ELSEWHERE.values())


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_lines_that_a_shell_takes(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """
    As they were written: what is copied from the help is the example, also where it goes on in the next line.
    """
    assert 0 == main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    ending = "\n".join(lines(command))
    copied = [shlex.split(line) for line in ending.replace("\\\n", " ").splitlines()[1:]]

    assert shown.rstrip().endswith(ending.rstrip())
    assert [shlex.split(example) for example in EXAMPLES[command]] == copied
    assert [] == [line for line in ending.splitlines() if len(line) > 100]


@pytest.mark.spark
def test_the_examples_work(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Each ends with the status of a command that did what was asked.
    """
    monkeypatch.setenv("MATERIALIZER_LAKE", "lake")
    (tmp_path / "dev").mkdir()
    with chdir(tmp_path / "dev"):
        for step in STORY:
            step.before()
            capsys.readouterr()
            status = main(shlex.split(step.text)[1:])
            assert step.status == status, f"{step.text}: {capsys.readouterr()}"
