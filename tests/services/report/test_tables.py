"""What ``doctor`` tells of real tables of ours; no JVM."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.core.language.parse import parse_definitions
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import append_rows, create_table, fence
from materializer.services.report.tables import DoctorFinding, endangered, unfit_properties, written_by_others
from tests.lake.tables import SCHEMA, Trades, rows_of

APP = "materializer/1"
[SPEC] = parse_definitions(
    "CREATE MATERIALIZED VIEW bars AS SELECT window(ts, '1 hour').start AS bucket, count(*) AS n FROM trades GROUP BY 1"
)
FEED, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
BY_FEED, BY_LOG = f"(change feed and vacuum, {FEED})", f"(log, {LOG})"
STATE = AggregateState("a", "bars", {}, "d", SourceIdentity("/s", "s"), {}, {}, 0)


def note(n: int) -> dict[str, object]:
    return {"plan": f"p{n}", "n": n, "kind": "data", "source_version": 3}


@pytest.fixture
def bars(tmp_path: Path) -> str:
    """A table of ours with a row of refresh 1."""
    path = str(tmp_path / "bars")
    create_table(path, SCHEMA, name="bars")
    append_rows(path, rows_of([(0, "a", 1)]), APP, 1, note(1))
    return path


def test_a_write_of_others_is_told_as_long_as_the_log_holds_it(bars: str) -> None:
    """
    A day of refreshes each five minutes after it does not hide it; only when its commit leaves the log nobody can tell.
    """
    assert [] == list(written_by_others(STATE, "output", bars))
    DeltaTable(bars).delete("sym = 'a'")
    for n in range(2, 290):
        fence(bars, APP, n, note(n))

    [found] = written_by_others(STATE, "output", bars)
    assert ("warning", "doctor.written-by-others") == (found.level, found.code)
    assert found.message == "its output was written by others: DELETE (version 2)"
    for version, told in ((0, 1), (1, 1), (2, 0)):
        (Path(bars) / "_delta_log" / f"{version:020d}.json").unlink()
        assert told == len(list(written_by_others(STATE, "output", bars)))


def test_the_newest_writes_of_others_are_named(bars: str) -> None:
    """
    Of many the newest four; what changes no row is none.
    """
    for n in range(6):
        write_deltalake(bars, rows_of([(n, "a", 1)]), mode="append")
    DeltaTable(bars).alter.set_table_properties({"delta.checkpointInterval": "20"})

    [found] = written_by_others(STATE, "partials", bars)
    assert found.message == "its partials was written by others: WRITE (version 7, 6, 5, 4 and more)"


@pytest.mark.parametrize(
    ("key", "value", "why", "mend"),
    [
        ("deletedFileRetentionDuration", "interval 2 hours", "files after 2 h", "SET {} = 'interval 7 days'"),
        ("deletedFileRetentionDuration", "interval 0 hours", "files after 0 h", "SET {} = 'interval 7 days'"),
        ("logRetentionDuration", "interval 23 hours", "after 23 h nobody can tell", "SET {} = 'interval 7 days'"),
        ("logRetentionDuration", "interval 0 days", "after 0 h nobody can tell", "SET {} = 'interval 7 days'"),
        ("setTransactionRetentionDuration", "interval 365 days", "forgets which refresh it carries", "UNSET {}"),
        ("enableDeletionVectors", "true", "readers without Spark", "SET {} = false"),
        ("appendOnly", "true", "no bucket can be replaced", "SET {} = false"),
    ],
)
def test_a_setting_that_loses_data_is_told(bars: str, key: str, value: str, why: str, mend: str) -> None:
    """
    What somebody set is named with why it is bad and how to mend it; what a table of ours is made with is fit.
    """
    assert [] == list(unfit_properties(STATE, "output", DeltaFolder.at(bars).properties()))
    DeltaTable(bars).alter.set_table_properties({f"delta.{key}": value})

    [found] = unfit_properties(STATE, "output", DeltaFolder.at(bars).properties())
    assert ("warning", "doctor.property") == (found.level, found.code)
    assert found.message.startswith(f"its output has delta.{key} = '{value}': ")
    assert why in found.message
    verb, _, fit = mend.partition(" ")
    assert found.hint == f"ALTER TABLE … {verb} TBLPROPERTIES ({fit.format(f'delta.{key}')})"


@pytest.mark.parametrize("key", ["deletedFileRetentionDuration", "logRetentionDuration"])
def test_a_day_is_long_enough(bars: str, key: str) -> None:
    """
    Whoever keeps less than we do, but a day, is left alone.
    """
    DeltaTable(bars).alter.set_table_properties({f"delta.{key}": "interval 24 hours"})

    assert [] == list(unfit_properties(STATE, "output", DeltaFolder.at(bars).properties()))


def behind(tmp_path: Path, *, hours: float = 0, **properties: str) -> tuple[Trades, AggregateState]:
    """Return a source with a commit that was captured and one that was not, so many hours ago, and the state of its reader."""
    table = Trades(tmp_path / "trades", feed=True, **properties)
    table.append((0, "a", 1))
    table.append((1, "a", 1))
    file = table.commit_file(2)
    first, *others = file.read_text().splitlines()
    info = json.loads(first)
    info["commitInfo"]["timestamp"] = int((time.time() - hours * 3600) * 1000)
    file.write_text("\n".join([json.dumps(info), *others]))
    return table, replace(STATE, spec=SPEC.as_json(), source=SourceIdentity(table.path, table.id), cursor=1)


def told(table: Trades, state: AggregateState, parents_hours: float | None = None) -> list[DoctorFinding]:
    return list(endangered(state, DeltaFolder.at(table.path).properties(), table.version, parents_hours))


@pytest.mark.parametrize(
    ("properties", "hours", "level", "left"),
    [
        ({}, 0, "ok", f"168 h {BY_FEED}"),
        ({}, 119, "ok", f"49 h {BY_FEED}"),
        ({}, 130, "warning", f"38 h {BY_FEED}"),
        ({}, 200, "warning", f"0 h {BY_FEED}"),
        ({FEED: "interval 40 hours"}, 10, "warning", f"30 h {BY_FEED}"),
        ({FEED: "interval 60 days"}, 0, "ok", f"720 h {BY_LOG}"),
        ({LOG: "interval 30 hours"}, 0, "warning", f"30 h {BY_LOG}"),
        ({LOG: "interval 30 hours", FEED: "interval 30 days"}, 12, "warning", f"18 h {BY_LOG}"),
        ({LOG: "interval 0 hours"}, 0, "warning", f"0 h {BY_LOG}"),
    ],
)
def test_what_is_forgotten_first_counts_the_hours(
    tmp_path: Path, properties: dict[str, str], hours: float, level: str, left: str
) -> None:
    """
    Whichever of log and feed is kept for less says how long the oldest version that is not captured stays readable.
    """
    [found] = told(*behind(tmp_path, hours=hours, **properties))

    message = f"1 source versions are not captured; the oldest stays readable for {left}"
    hint = "run 'materializer refresh bars' before that" if level == "warning" else ""
    assert found == DoctorFinding(level, "bars", "doctor.retention", message, hint)


def test_a_log_that_was_cleaned_before_it_was_captured_is_an_error(tmp_path: Path) -> None:
    """
    It is told with the first version that is gone and with what the next refresh does; once captured it is fine.
    """
    table, state = behind(tmp_path)
    table.append((2, "a", 1))
    table.table.create_checkpoint()
    for version in range(3):
        table.commit_file(version).unlink()

    [found] = told(table, state)
    assert ("error", "doctor.log-cleaned") == (found.level, found.code)
    assert found.message == "version 2 of the source was cleaned away"
    assert "takes everything below the threshold as dirty" in found.hint
    assert ["doctor.retention"] == [f.code for f in told(table, replace(state, cursor=2))]
    assert [] == told(table, replace(state, cursor=3))


@pytest.mark.parametrize(
    ("properties", "parents_hours", "what", "mend"),
    [
        ({LOG: "interval 30 hours"}, None, BY_LOG, f"({LOG} = 'interval 30 days') on the source"),
        ({FEED: "interval 30 hours"}, None, BY_FEED, f"({FEED} = 'interval 30 days') on the source"),
        ({}, 30, "maintain.retention", "or lengthen maintain.retention of the aggregate that it reads"),
    ],
)
def test_a_schedule_that_is_too_slow_names_what_forgets(
    tmp_path: Path, properties: dict[str, str], parents_hours: float | None, what: str, mend: str
) -> None:
    """
    What has to be kept for longer is what is forgotten first.
    """
    table, state = behind(tmp_path, **properties)
    weekly = replace(SPEC, properties=(("refresh.schedule", "@weekly"),))

    found, _ = told(table, replace(state, spec=weekly.as_json(), cursor=1), parents_hours)
    assert ("warning", "doctor.too-seldom") == (found.level, found.code)
    assert "every 168 h, and its source forgets after 30 h" in found.message
    assert what in found.message
    assert found.hint.endswith(mend)
