"""A source without a change feed: said once for each source, where it is cheapest to change."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import defining, starting
from materializer.adapters.cli.output import JsonOutput, TextOutput
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import parse
from tests.services.no_spark import RAW, LocalLake, each, view


def over_plain(name: str, width: str) -> str:
    """Return a definition over the source without a feed."""
    return view(name, each(width)).replace("FROM raw", "FROM plain")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLake:
    """A lake with a source that has a feed, and one that has none; suites are in a folder beside it."""
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    times = pa.array([parse("2024-03-01", TimeType.TIMESTAMP)], pa.int64()).cast(RAW.field("ts").type)
    write_deltalake(str(tmp_path / "plain"), pa.table([times, pa.array([1], pa.int64())], schema=RAW))
    return lake


def run(lake: LocalLake, body: Any, *args: Any, is_json: bool = False, status: int = 0, **options: Any) -> str:
    """Return what a command prints."""
    out = io.StringIO()
    call = CommandCall((JsonOutput if is_json else TextOutput)(out, io.StringIO()), opened=lake.opened)
    assert guarded(call, lambda: body(call, *args, **options)) == status
    return out.getvalue()


def statement(lake: LocalLake) -> str:
    """Return the statement that turns the feed of the source on."""
    return f"ALTER TABLE delta.`{lake.root}/plain` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def written(lake: LocalLake, *sql: str) -> Path:
    """Write definitions into a file and return it."""
    file = lake.root / "views.sql"
    file.write_text("\n".join(sql))
    return file


def test_apply_says_it_once_for_each_source(lake: LocalLake) -> None:
    """With the statement on a line of its own; nothing of our own outputs, and nothing once the definitions are applied."""
    file = written(
        lake, over_plain("hours", "1 hour"), over_plain("days", "1 day"), view("weeks", each("1 week"), source="days")
    )
    printed = run(lake, defining.apply, [str(file)])

    assert [f"    {statement(lake)}"] == [line for line in printed.split("\n") if "ALTER TABLE" in line]
    assert "with one, a refresh computes the groups of changed rows only" in " ".join(printed.split())
    assert "ALTER TABLE" not in run(lake, defining.apply, [str(file)])


def test_apply_has_it_in_json(lake: LocalLake) -> None:
    """Beside the changes, each source once."""
    file = written(lake, over_plain("hours", "1 hour"), over_plain("days", "1 day"), view("weeks", each("1 week")))
    [feed] = json.loads(run(lake, defining.apply, [str(file)], is_json=True))["change_feeds"]

    assert (f"{lake.root}/plain", statement(lake)) == (feed["source"], feed["statement"])


def test_new_says_it(lake: LocalLake) -> None:
    """Of the source that it looked at, as text and as JSON; of one that has a feed it says nothing."""
    into = str(lake.root / "sql")
    printed = run(lake, starting.new, "plain", yes=True, into=into, name="a")
    as_json = run(lake, starting.new, "plain", yes=True, into=into, name="b", is_json=True)
    lake.add((0, 1))

    assert f"    {statement(lake)}" in printed.split("\n")
    assert statement(lake) == json.loads(as_json)["change_feed"]["statement"]
    assert "ALTER TABLE" not in run(lake, starting.new, "raw", yes=True, into=into, name="c")


def test_doctor_says_it_once_for_each_source(lake: LocalLake) -> None:
    """With the aggregates that read it; of roll-ups over our own outputs it says nothing."""
    lake.apply(over_plain("hours", "1 hour"), over_plain("days", "1 day"), view("weeks", each("1 week"), source="days"))
    [found] = [f for f in lake.opened.doctor() if f.code == "doctor.no-feed"]

    assert "days" == found.subject
    assert f"its source {lake.root}/plain, which hours reads, too, has no change feed" in found.message
    assert found.hint.startswith(statement(lake))


def test_the_line_of_python_turns_it_on(lake: LocalLake) -> None:
    """It is on a line of its own, too, and does what it says; then nothing is said any more."""
    printed = run(lake, defining.apply, [str(written(lake, over_plain("hours", "1 hour")))])
    [line] = [line.strip() for line in printed.split("\n") if "deltalake.DeltaTable(" in line]
    eval(line, {"deltalake": deltalake})  # what a user would paste

    assert [] == [f for f in lake.opened.doctor() if f.code == "doctor.no-feed"]
    assert "true" == DeltaTable(str(lake.root / "plain")).metadata().configuration["delta.enableChangeDataFeed"]


def test_the_statement_names_the_table_that_has_none(lake: LocalLake) -> None:
    """Once the property is set, nothing is said any more."""
    lake.apply(over_plain("hours", "1 hour"))
    DeltaTable(str(lake.root / "plain")).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})

    assert [] == [f for f in lake.opened.doctor() if f.code == "doctor.no-feed"]
