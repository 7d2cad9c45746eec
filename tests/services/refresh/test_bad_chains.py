"""What can go wrong with an aggregate that another one builds on: a coded error and nothing written, or the right result; no JVM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.refresh.plan import Recompute, RollUp
from materializer.errors import DefinitionError, MaterializerError
from materializer.journal.journal import Journal
from materializer.spark.run.executor import Executor
from tests.histories_of_chains.lake import Analyst
from tests.services.keyed import Readings
from tests.services.no_spark import LocalLake, NoSpark, Opened, each, view

HOUR, DAY = 3_600_000_000, 86_400_000_000
CHAIN = ("hours", "halves", "days")
HOURS = view("hours", each("1 hour"), measure="sum(v) AS v, count(*) AS n")
WITHOUT_7 = HOURS.replace("FROM raw", "FROM raw WHERE v <> 7")
SESSION = (
    "CREATE MATERIALIZED VIEW new TBLPROPERTIES ('engine' = 'session_window', 'session_gap' = '1 minute') AS "
    "SELECT rollup(v) AS v FROM hours GROUP BY session_window(at, '1 minute');"
)
Act = Callable[[LocalLake], object]


def rolled_up(name: str, bucket: str, source: str, measures: str = "rollup(v) AS v, rollup(n) AS n") -> str:
    return view(name, bucket, source, measures)


HALVES = rolled_up("halves", each("12 hours"), "hours")
DAYS = rolled_up("days", each("1 day"), "halves")
AUTOMATIC = view("automatic", each("1 day"), measure="sum(v) AS v, count(*) AS n")


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with a chain of two roll-ups, which are up to date."""
    return filled(LocalLake(tmp_path, rows=10**6, size=1 << 28, engine=Analyst()))


def filled(lake: LocalLake) -> LocalLake:
    lake.add((0, 1), (1, 2), (HOUR, 7), (3 * HOUR, 4), (DAY, 3), (DAY + HOUR, 9))
    lake.apply(HOURS, HALVES, DAYS)
    return refreshed(lake)


def refreshed(lake: LocalLake, *names: str) -> LocalLake:
    for name in names or CHAIN:
        lake.opened.refresh(name)
    return lake


def late(lake: LocalLake) -> None:
    """Let the parent have what the roll-ups lack."""
    lake.add((2, 3), (DAY + 1, 1))
    lake.opened.refresh("hours")


def values(lake: LocalLake, name: str) -> list[tuple[int, int]]:
    return [(row["v"], row["n"]) for row in lake.rows_of(name)]


def everything(lake: LocalLake) -> object:
    """Return what the journal knows, and the versions of all tables."""
    logs = sorted(lake.root.rglob("_delta_log"))
    versions = {str(log): len([*log.glob("*.json")]) for log in logs if "raw" not in log.parts}
    states = {s.id: replace(s, lease=None) for s in lake.opened.journal.view().all.values()}
    return states, versions


def partials(lake: LocalLake, name: str = "hours") -> Path:
    return lake.root / name / "partials" / lake.state(name).data_version


def without_partials(lake: LocalLake) -> None:
    shutil.rmtree(partials(lake))


def without_files(lake: LocalLake) -> None:
    for file in partials(lake).rglob("*.parquet"):
        file.unlink()


def another_table(lake: LocalLake) -> None:
    rows = DeltaTable(str(partials(lake))).to_pyarrow_table()
    without_partials(lake)
    write_deltalake(str(partials(lake)), rows)


def switched(lake: LocalLake, definition: str = WITHOUT_7) -> None:
    lake.apply(definition)
    lake.opened.build("hours")


def expired(lake: LocalLake) -> None:
    lake.opened.expire("hours", "1970-01-02T00:00:00Z")
    DeltaTable(str(lake.root / "raw")).delete("ts < '1970-01-02T00:00:00Z'")


def session(lake: LocalLake) -> None:
    lake.apply(SESSION)


def refused_at_plan(act: Act) -> Act:
    """Return a refresh of a roll-up in the process, in which something happens between plan and computation."""

    def refresh(lake: LocalLake) -> None:
        lake.opened.refresh("halves", executor="local", on_plan=lambda *_: act(lake))

    return refresh


def vacuumed(lake: LocalLake) -> None:
    """Let the parent go on, and remove all files that its newest version does not have."""
    lake.add((3, 50))
    lake.opened.refresh("hours")
    table = DeltaTable(str(partials(lake)))
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


# -- refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (rolled_up("new", each("1 day", "Asia/Kolkata"), "hours"), "not-nested", "edge 2000-01-01T18:30:00Z"),
        (rolled_up("new", each("1 day", "Australia/Lord_Howe"), "hours"), "not-nested", "edge 2000-03-26T13:30:00Z"),
        (rolled_up("new", each("1 day", "America/New_York"), "halves"), "not-nested", "edge 2000-01-01T05:00:00Z"),
        (rolled_up("new", each("1 month", "Europe/Berlin"), "days"), "not-nested", "lies inside the bucket"),
        (rolled_up("new", each("12 hours"), "days"), "not-nested", "lies inside the bucket"),
        (HOURS.replace("'1 hour'", "'5 hours'"), "not-nested", "'halves' reads it"),
        (rolled_up("hours", each("1 hour"), "days"), "cycle", "hours reads days reads halves reads hours"),
        (view("hours", each("1 hour"), "days", "sum(v) AS v"), "cycle", "hours reads days reads halves reads hours"),
        (rolled_up("new", each("1 day"), "new"), "cycle", "new reads new"),
        (rolled_up("new", each("1 day"), "b") + rolled_up("b", each("1 day"), "new"), "cycle", "b reads new reads b"),
        (rolled_up("new", each("1 day"), "hours").replace(";", " HAVING sum(v) > 3;"), "rollup-mixed", "sum(v) stands"),
        (SESSION, "rollup-engine", "'new' is computed by an engine"),
        (rolled_up("new", each("1 day"), "hours", "sum(v) + rollup(n) AS v"), "rollup-mixed", "sum(v) stands beside"),
    ],
)  # fmt: skip
def test_a_definition_that_does_not_fit_its_parent_is_refused(lake: LocalLake, sql: str, code: str, words: str) -> None:
    """
    The problem names the instant at which grids do not nest, the way round of a cycle, or the call.
    """
    before = everything(lake)

    with pytest.raises(DefinitionError) as caught:
        lake.apply(sql)

    assert {f"definition.{code}"} == {problem.code for problem in caught.value.problems}
    assert any(words in problem.message for problem in caught.value.problems)
    assert before == everything(lake)


@pytest.mark.parametrize(
    ("prepare", "act", "code"),
    [
        (late, lambda lake: lake.opened.drop("hours"), "aggregate.has-readers"),
        (late, lambda lake: lake.opened.rollback("hours"), "version.none"),
        (without_partials, lambda lake: lake.opened.refresh("halves", force=True), "table.not-found"),
        (without_partials, lambda lake: lake.opened.plan("halves"), "table.not-found"),
        (without_partials, lambda lake: lake.opened.plan_chain("days"), "table.not-found"),
        (without_partials, lambda lake: lake.apply(rolled_up("new", each("1 day"), "hours")), "table.not-found"),
        (another_table, lambda lake: lake.opened.refresh("halves"), "source.replaced"),
        (
            lambda lake: lake.apply(HOURS.replace(", count", ", max(v) AS most, count")),
            lambda lake: lake.apply(rolled_up("new", each("1 day"), "hours", "rollup(most) AS v")),
            "definition.invalid",
        ),
        (
            lambda lake: switched(lake, HOURS.replace("sum(v)", "sum(v + 1)")),
            lambda lake: lake.opened.refresh("halves"),
            "rollup.changed",
        ),
        (
            lambda lake: switched(lake, HOURS.replace("sum(v)", "sum(v + 1)")),
            lambda lake: lake.opened.plan("halves"),
            "rollup.changed",
        ),
        (expired, lambda lake: lake.apply(WITHOUT_7), "history.frozen"),
        (expired, lambda lake: lake.opened.refresh("hours", end="1970-01-02", force=True), "window.frozen"),
        (
            lambda lake: lake.apply(WITHOUT_7),
            lambda lake: lake.opened.expire("hours", "1970-01-02T00:00:00Z"),
            "history.building",
        ),
        (late, lambda lake: lake.opened.refresh("halves", "1970-01-01", "1970-01-01T06:00:00Z"), "window.too-small"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(lake: LocalLake, prepare: Act, act: Act, code: str) -> None:
    """
    The error has a code, and nothing was written.
    """
    prepare(lake)
    before = everything(lake)

    with pytest.raises(MaterializerError) as caught:
        act(lake)

    assert code == caught.value.code
    assert before == everything(lake)


@pytest.mark.parametrize("gone", [without_partials, without_files])
def test_partials_that_vanish_under_a_plan_publish_nothing(lake: LocalLake, gone: Act) -> None:
    """
    The output stays, and after a repair of the parent the next refresh is right.
    """
    late(lake)
    before = values(lake, "halves")

    with pytest.raises(MaterializerError) as caught:
        refused_at_plan(gone)(lake)

    assert "plan.not-local" == caught.value.code
    assert before == values(lake, "halves")
    shutil.rmtree(partials(lake), ignore_errors=True)
    lake.opened.repair("hours", dry_run=False)
    refreshed(lake)
    assert [(17, 5), (13, 3)] == values(lake, "halves") == values(lake, "days")


# -- right ---------------------------------------------------------------------------------------------------------------


def corrupted(change: Callable[[dict[str, Any]], Any]) -> Act:
    """Return what changes the note of the parent's newest commit."""

    def act(lake: LocalLake) -> None:
        late(lake)
        file = max((partials(lake) / "_delta_log").glob("*.json"))
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                note = change(json.loads(action["commitInfo"]["userMetadata"]))
                action["commitInfo"]["userMetadata"] = note if isinstance(note, str) else json.dumps(note)
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    return act


def saying(spans: Any, column: str = "slice") -> Act:
    return corrupted(lambda note: note | {"changed": {"column": column, "spans": spans}})


def with_a_gap_in_its_log(lake: LocalLake) -> None:
    late(lake)
    table, log = DeltaTable(str(partials(lake))), partials(lake) / "_delta_log"
    table.create_checkpoint()
    for file in sorted(log.glob("*.json"))[:-1]:
        file.unlink()


def while_another_version_is_built(lake: LocalLake) -> None:
    late(lake)
    lake.apply(WITHOUT_7)
    lake.opened.build("hours", switch=False)


def repaired(lake: LocalLake) -> None:
    late(lake)
    without_partials(lake)
    lake.opened.repair("hours", dry_run=False)
    lake.opened.refresh("hours")


def rolled_back(lake: LocalLake) -> None:
    """Switch the parent, let the roll-ups follow, and take its old version again."""
    switched(lake)
    refreshed(lake)
    assert [(7, 3), (12, 2)] == values(lake, "halves")
    lake.opened.rollback("hours")
    lake.opened.build("hours")
    late(lake)


def switched_while_the_rollup_is_built(lake: LocalLake) -> None:
    late(lake)
    lake.apply(HALVES.replace("12 hours", "6 hours"))
    lake.opened.build("halves", max_runs=1, buckets_per_run=1, switch=False)
    switched(lake, HOURS.replace("FROM raw", "FROM raw WHERE v <> 99"))
    lake.opened.build("halves")


def frozen_with_a_late_row(lake: LocalLake) -> None:
    expired(lake)
    late(lake)


def raced(act: Act) -> Act:
    """Return a refresh of the roll-up, between whose plan and computation the parent's version moves."""

    def refresh(lake: LocalLake) -> None:
        late(lake)
        lake.opened.refresh("halves", executor="local", on_plan=lambda *_: act(lake))
        assert [(17, 5), (13, 3)] == values(lake, "halves"), "as planned"
        DeltaTable(str(lake.root / "raw")).delete("v = 50")
        lake.opened.refresh("hours")

    return refresh


def restored(lake: LocalLake) -> None:
    """Take a journal back from which the last refreshes are missing, and repair what it does not know."""
    lake.opened.backup(lake.root / "backup")
    late(lake)
    refreshed(lake, "halves", "days")
    lake.opened.restore(lake.root / "backup")
    for name in CHAIN:
        with pytest.raises(MaterializerError) as caught:
            lake.opened.refresh(name)
        assert "tables.ahead" == caught.value.code
        lake.opened.repair(name, dry_run=False)


def vacuumed_at_plan(lake: LocalLake) -> None:
    """Let files of the version that a plan pins vanish: the run fails or reads the files before."""
    late(lake)
    with suppress(MaterializerError):
        refused_at_plan(vacuumed)(lake)
    DeltaTable(str(lake.root / "raw")).delete("v = 50")
    lake.opened.refresh("hours")


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    "act",
    [
        late,
        corrupted(lambda _: "{"),
        corrupted(lambda _: "[1]"),
        corrupted(lambda note: {k: v for k, v in note.items() if k != "changed"}),
        corrupted(lambda note: {k: v for k, v in note.items() if k != "plan"}),
        corrupted(lambda note: note | {"changed": "slice"}),
        corrupted(
            lambda note: note | {"changed": note["changed"] | {"keys": {"columns": ["k"], "of": [[[[0, 1]], [[]]]]}}}
        ),
        saying([], "at"),
        saying([["a", "b"]]),
        saying([[5, 1]]),
        saying([[0.5, 3.5]]),
        saying([[False, True]]),
        saying([[1, 2, 3]]),
        saying([[None, None]]),
        saying(7),
        with_a_gap_in_its_log,
        while_another_version_is_built,
        repaired,
        rolled_back,
        switched_while_the_rollup_is_built,
        frozen_with_a_late_row,
        raced(lambda lake: (lake.add((3, 50)), lake.opened.refresh("hours"))),
        vacuumed_at_plan,
    ],
)
def test_whatever_became_of_the_parent_the_rollups_are_right(lake: LocalLake, act: Act) -> None:
    """
    A refresh of each, parents first, gives the roll-up of what the parent has.
    """
    act(lake)
    refreshed(lake)

    assert [(17, 5), (13, 3)] == values(lake, "halves") == values(lake, "days")


def test_a_journal_restored_from_a_backup_is_told_from_the_tables(tmp_path: Path) -> None:
    """
    Each aggregate of the chain says that its tables are ahead, and after repairs all is right.
    """
    lake = LocalLake(tmp_path, rows=10**6, size=1 << 28)
    lake.wired = replace(lake.wired, journal=Journal(tmp_path))
    lake.opened = Opened(lake.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]
    restored(filled(lake))
    refreshed(lake)

    assert [(17, 5), (13, 3)] == values(lake, "halves") == values(lake, "days")


def test_a_switch_under_a_plan_counts_in_the_next_refresh(lake: LocalLake) -> None:
    """
    The run reads the partials that it planned to read; the next one follows the switch.
    """
    late(lake)
    refused_at_plan(switched)(lake)
    first = values(lake, "halves")
    refreshed(lake)

    assert [(17, 5), (13, 3)] == first
    assert [(10, 4), (13, 3)] == values(lake, "halves") == values(lake, "days")


def test_a_parent_is_dropped_with_what_rolls_it_up(lake: LocalLake) -> None:
    """
    Children first; an aggregate whose next version alone rolls it up loses that version, and stays as it is.
    """
    lake.apply(view("beside", each("1 day")))
    lake.opened.refresh("beside")
    lake.apply(rolled_up("beside", each("1 day"), "hours", "rollup(v) AS v"))

    assert ["days", "halves", "hours"] == lake.opened.drop("hours", cascade=True)
    assert ["beside"] == lake.names
    assert [14, 12] == [row["v"] for row in lake.rows_of("beside")]


def test_buckets_that_the_parent_no_longer_retains_leave_the_rollup(lake: LocalLake) -> None:
    """
    Unless the roll-up froze them before: its `source.retention` is shorter than `output.retention` of the parent.
    """
    lake.apply(HOURS.replace("\nAS SELECT", "\nTBLPROPERTIES ('output.retention' = '4 days')\nAS SELECT"))
    lake.apply(HALVES.replace("\nAS SELECT", "\nTBLPROPERTIES ('source.retention' = '1 day')\nAS SELECT"))
    lake.apply(rolled_up("loses", each("12 hours"), "hours"))
    for day in (2, 4, 6):
        lake.add((day * DAY, day))
        refreshed(lake, *CHAIN, "loses")

    assert [4, 6] == [v for v, _ in values(lake, "hours")]
    assert [14, 12, 2, 4, 6] == [v for v, _ in values(lake, "halves")] == [v for v, _ in values(lake, "days")]
    assert [4, 6] == [v for v, _ in values(lake, "loses")]


# -- automatic roll-ups, and keys ----------------------------------------------------------------------------------------


def with_many_rows(lake: LocalLake) -> LocalLake:
    lake.add(*((i * 60_000_000, 1) for i in range(400)))
    lake.opened.refresh("hours")
    lake.apply(AUTOMATIC)
    return lake


@pytest.mark.parametrize("gone", [without_partials, without_files, vacuumed])
def test_partials_that_vanish_under_an_automatic_rollup_publish_nothing(lake: LocalLake, gone: Act) -> None:
    """
    The run fails by a code; the next one reads raw rows, where the partials are gone, or the newest partials.
    """
    with_many_rows(lake)

    def once(plan: Any, _: Any) -> None:
        assert any(isinstance(step, RollUp) for step in plan.steps)
        gone(lake)

    with pytest.raises(MaterializerError) as caught:
        lake.opened.refresh("automatic", executor="local", on_plan=once)

    assert "plan.not-local" == caught.value.code
    assert [] == values(lake, "automatic")
    if gone is without_files:
        without_partials(lake)
    lake.opened.refresh("automatic", executor="local")
    more = [(464, 405)] if gone is vacuumed else [(414, 404)]
    assert [*more, (12, 2)] == values(lake, "automatic")


@pytest.mark.parametrize("act", [switched, lambda lake: (lake.add((3, 50)), lake.opened.refresh("hours"))])
def test_an_automatic_rollup_reads_what_was_planned(lake: LocalLake, act: Act) -> None:
    """
    Another version of the partials, or of the definition, does not count in this run.
    """
    with_many_rows(lake)
    lake.opened.refresh("automatic", executor="local", on_plan=lambda *_: act(lake))

    assert [(414, 404), (12, 2)] == values(lake, "automatic")


def test_of_two_aggregates_that_fit_one_is_read(lake: LocalLake) -> None:
    """
    Each bucket is merged from one of them.
    """
    with_many_rows(lake)
    lake.apply(view("coarse", each("12 hours"), measure="sum(v) AS v, count(*) AS n"))
    lake.opened.refresh("coarse")

    plan = lake.opened.plan("automatic").plan
    assert plan is not None
    assert 1 == sum(isinstance(step, RollUp) for step in plan.steps)
    lake.opened.refresh("automatic")
    assert [(414, 404), (12, 2)] == values(lake, "automatic")


@pytest.mark.parametrize("keys", [64, 65])
def test_keys_past_the_bound_reach_the_rollup(tmp_path: Path, keys: int) -> None:
    """
    The parent computes up to 64 keys alone, or its buckets whole; the roll-up has the right rows of all.
    """
    lake = Readings(tmp_path, {"device": pa.string()}, rows=10**6, size=1 << 28)
    measures = "rollup(v) AS v, rollup(n) AS n, rollup(most) AS most"
    lake.apply(
        f"CREATE MATERIALIZED VIEW daily AS SELECT time_bucket('1 day', at) AS at, device, {measures} FROM hourly GROUP BY ALL"
    )
    lake.write([(i, f"d{i % 80}", i % 80) for i in range(1600)])
    refreshed(lake, "hourly", "daily")
    lake.readings.update(predicate=f"v < {keys}", updates={"v": "v + 1000"})

    plan = lake.opened.plan("hourly").plan
    assert plan is not None
    [step] = [step for step in plan.steps if isinstance(step, Recompute)]
    assert (keys if keys == 64 else None) == step.keys
    refreshed(lake, "hourly", "daily")
    found = {row["device"]: (row["v"], row["n"]) for row in lake.rows_of("daily")}
    assert {f"d{i}": (20 * (i + 1000 * (i < keys)), 20) for i in range(80)} == found
