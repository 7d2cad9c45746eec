"""What a command loads: each in a new process, over a lake on this machine that was made without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.config import Config
from materializer.journal.journal import Journal
from materializer.local.executor import LocalExecutor
from materializer.spark.run.executor import Executor
from tests.paths import ROOT
from tests.services.no_spark import Lake, NoSpark, Opened, each, view

SPARK = {"pyspark", "py4j", "delta"}
HEAVY = SPARK | {
    "pydantic",
    "typer",
    "numpy",
    "pyarrow",
    "pandas",
    "sqlglot",
    "duckdb",
    "rich",
    "obstore",
    "croniter",
    "ssl",
}
MOST_MODULES = 310
"""Modules of a process whose command had nothing to do, those of Python itself among them."""
TESTED = "TBLPROPERTIES ('quality.checks' = 'true') AS SELECT"
RUN = "import json, sys; from materializer.adapters.cli import main; main(); print(json.dumps(sorted(sys.modules)))"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an aggregate that was refreshed, and with the journal on disk, so that other processes can open it."""
    lake = Lake(tmp_path)
    wired = replace(lake.wired, journal=Journal(tmp_path), local=LocalExecutor(1_000, 1 << 20))
    lake.opened = Opened(wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour")))
    lake.opened.refresh("hourly")
    return lake


def loaded(lake: Lake, *arguments: str) -> tuple[str, set[str]]:
    """Return what a command printed, and the modules that it loaded."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, *arguments, "--lake", str(lake.root)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=lake.root, env=env)
    *text, modules = ran.stdout.splitlines()
    return "\n".join(text), set(json.loads(modules))


@pytest.mark.parametrize("more", [(), ("--json",), ("--all",)])
def test_a_refresh_without_work_loads_little(lake: Lake, more: tuple[str, ...]) -> None:
    """
    It looks at the journal and at the log of the source: nothing that computes, parses, draws, reads or writes tables is loaded.
    """
    text, modules = loaded(lake, "refresh", *more, *(() if "--all" in more else ("hourly",)))

    assert "up-to-date" in text if "--json" in more else "up to date" in text
    assert set() == (HEAVY | {"deltalake"}) & modules
    assert len(modules) <= MOST_MODULES


def test_no_expression_is_parsed_without_work(lake: Lake) -> None:
    """
    A refresh without work parses nothing, also where an aggregate is computed from the parts of several.
    """
    measures = "try_divide(sum(v + 1), sum(v)) AS share, avg(v) AS mean, max(v) FILTER (WHERE v > 1) AS high"
    (lake.root / "shares.sql").write_text(view("shares", each("1 hour"), measure=measures))
    loaded(lake, "apply", "shares.sql")
    loaded(lake, "refresh", "shares")
    text, modules = loaded(lake, "refresh", "shares")

    assert "up to date" in text
    assert set() == HEAVY & modules


def test_the_help_loads_little(lake: Lake) -> None:
    """
    It loads the commands, and nothing that they work with.
    """
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", RUN, "--help"], capture_output=True, text=True, check=True, env=env)
    modules = set(json.loads(ran.stdout.splitlines()[-1]))

    assert set() == (HEAVY - {"rich", "typer"} | {"deltalake", "materializer.api", "materializer.journal"}) & modules


def test_a_refresh_of_a_late_row_loads_no_spark(lake: Lake) -> None:
    """
    It loads DuckDB, and neither Spark nor pandas nor what only Spark needs.
    """
    lake.add((2, 3))
    text, modules = loaded(lake, "refresh", "hourly")

    assert "without Spark" in text
    assert "duckdb" in modules
    assert set() == (SPARK | {"pydantic", "rich", "obstore", "pandas", "datasketches"}) & modules


def test_a_late_row_of_sketches_loads_no_spark(lake: Lake) -> None:
    """
    It loads the library of sketches, which nothing else does.
    """
    measures = "approx_count_distinct(v) AS n, approx_percentile(v, 0.5) AS middle"
    (lake.root / "sketches.sql").write_text(view("sketches", each("1 hour"), measure=measures))
    loaded(lake, "apply", "sketches.sql")
    loaded(lake, "refresh", "sketches")
    lake.add((2, 3))
    text, modules = loaded(lake, "refresh", "sketches")

    assert "without Spark" in text
    assert "datasketches" in modules
    assert set() == (SPARK | {"pydantic", "rich", "obstore", "pandas"}) & modules


def test_a_history_loads_no_table(lake: Lake) -> None:
    """
    It is in the journal: nothing that computes, reads rows or writes tables is loaded.
    """
    text, modules = loaded(lake, "history", "hourly")

    assert "refresh" in text
    assert set() == HEAVY & modules


def test_checks_versions_and_fresh_reads_load_no_spark(lake: Lake) -> None:
    """
    What is published is checked, a next version built and taken back, and what is dirty computed on the fly, without Java.
    """
    measures = "sum(v) AS v, count(*) AS n"
    checked = view("hourly", each("2 hours"), measure=measures).replace("AS SELECT", TESTED, 1)
    (lake.root / "other.sql").write_text(checked)
    lake.add((2, 3))
    for arguments, shown in (
        (("show", "hourly", "--fresh"), "without Spark"),
        (("apply", "other.sql"), "next version"),
        (("build", "hourly"), "is published"),
        (("check", "hourly"), "2 of 2 expectations met"),
        (("rollback", "hourly"), "is published"),
    ):
        text, modules = loaded(lake, *arguments)

        assert shown in text
        assert set() == SPARK & modules


def test_an_apply_of_plain_definitions_loads_no_spark(lake: Lake) -> None:
    """
    This process finds their types, so no Java is started.
    """
    (lake.root / "two.sql").write_text(
        "".join(view(name, each(width)) for name, width in (("a", "2 hours"), ("b", "1 day")))
    )
    text, modules = loaded(lake, "apply", "two.sql")

    assert "a: created" in text
    assert "b: created" in text
    assert set() == (SPARK | {"pydantic", "pandas"}) & modules
