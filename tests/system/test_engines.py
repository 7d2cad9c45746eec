"""Engines through the real path: histories, deaths, costs, cascades, and cases beside the oracles."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import DefinitionError
from tests import tables
from tests.cases import chance, reading
from tests.cases.reading import DATA, kind_of
from tests.cases.runner import run_all
from tests.cases.world import How
from tests.oracle.engines import cases as engine_cases
from tests.system import verifying
from tests.system.builders import some_slow
from tests.system.engine_histories import BASE, DEFINITIONS, SCHEMA, World, run_history
from tests.system.engine_keeping import OPERATIONS, Kept

FILES = ("seed_cases", "engine_samples")
CASES = [c for file in FILES for c in reading.read(DATA / f"{file}.json")]
IN_CI = ("ts_ex1", "ts_ex5", "ts_ex8", "ibm", "al_", "pub_session_", "pub_mavg", "pub_daily_short", "count_window")
"""Beginnings of the ids that every run takes; the others are slow."""
ENGINE_CASES = [
    pytest.param(c, id=c["id"], marks=() if c["id"].startswith(IN_CI) else pytest.mark.slow)
    for c in CASES
    if kind_of(c) != "continuousAggregate"
]


SEEDS = {"timeSeries": 1018, "dailyTimeSeries": 510, "eventTimeWindow": 1008}
"""Cases by arrival that found rows between windows taken for late, and late rows of a past trading day taken."""


class DiedError(Exception):
    """A process ended here."""


@pytest.mark.parametrize("name", some_slow(DEFINITIONS, ("hopping", "sessions", "rows", "snapshots")))
def test_what_a_change_touches_is_all_that_changes(name, spark, tmp_path) -> None:
    """
    After inserts, late rows, corrections, moves and deletes the output equals the computation of everything.
    """
    world = World(spark, tmp_path, random.Random(f"history {name}"), DEFINITIONS[name])

    seen = run_history(world, 1)

    assert any(what.startswith("strategy recompute") for what in seen), dict(seen)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("sessions", 1), *(pytest.param(name, 4, marks=pytest.mark.slow) for name in DEFINITIONS)],
)
def test_histories_in_sparks_lane(name, steps, spark, tmp_path) -> None:
    """
    Likewise when Spark commits everything.
    """
    run_history(World(spark, tmp_path, random.Random(f"spark {name}"), DEFINITIONS[name], lane_rows=0), steps)


@pytest.mark.parametrize("name", some_slow(DEFINITIONS, ("sessions",)))
def test_what_is_kept_for_long_stays_true(name, spark, tmp_path) -> None:
    """
    Maintained, changed, rolled back, harmed, repaired and read fresh, by processes that die: the output, its feed and the read
    are the whole computation.
    """
    kept = Kept(World(spark, tmp_path, random.Random(f"kept {name}"), DEFINITIONS[name]), name)

    seen = kept.run(4)

    assert sum(seen[what] for what in set(OPERATIONS)) == 4
    assert any(what.startswith("strategy") for what in seen), dict(seen)


@pytest.mark.parametrize("checkpoint", some_slow(["compute", "wrote_partials", "done"], ("wrote_partials",)))
def test_the_next_refresh_mends_what_a_death_left(checkpoint, spark, tmp_path) -> None:
    """
    A process that dies between any two commits of an engine's refresh leaves what the next refresh finishes or undoes.
    """
    world = World(spark, tmp_path, random.Random(checkpoint), DEFINITIONS["sessions"])
    world.refresh(world.begin(30))
    world.insert(3)

    def die(at: str) -> None:
        if at == checkpoint:
            raise DiedError(at)

    with pytest.raises(DiedError):
        world.open(on_checkpoint=die).refresh("made")
    world.refresh(world.open())


def test_an_evening_opens_the_next_trading_day(spark, tmp_path) -> None:
    """
    The evening of 3 January belongs to the 4th. A row between the last session and the evening counts nowhere, one of the small
    hours in the morning's first window; the holiday on the 5th begins with the evening of the 4th.
    """
    hours = [10, 16, 21, 23, 24, 24 + 3, 24 + 10, 24 + 22, 48 + 10, 48 + 22]  # from 3 January on
    at = [datetime(2024, 1, 3, tzinfo=UTC) + timedelta(hours=h, minutes=30) for h in hours]
    rows = pa.table({"ts": pa.array(at, pa.timestamp("us", "UTC")), "v": list(range(10))})
    write_deltalake(str(tmp_path / "source"), rows)
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config())
    lake.define(
        "cut", str(tmp_path / "source"), engine="daily_time_series", time="ts", window_size="2 hours",
        session_begin="00:00:00, 09:00:00, 13:00:00, 21:00:00", session_end="01:00:00, 11:30:00, 15:00:00, 00:00:00",
        holidays="2024-01-05", measures={"total": "sum(v)"},
    )  # fmt: skip
    lake.refresh("cut")
    found = DeltaTable(str(tmp_path / "lake" / "cut" / "output")).to_pyarrow_table().to_pylist()
    shown = sorted((row["time"].strftime("%d %H:%M"), row["total"]) for row in found)
    assert shown == [("03 11:00", 0), ("03 23:00", 2), ("04 01:00", 7), ("04 11:00", 11)]


def test_a_late_row_reads_its_keys_neighbourhood_only(spark, tmp_path) -> None:
    """
    One late row among 2,000 of 50 keys: an engine aggregates the rows of its windows, not the table's.
    """
    rng = random.Random(5)
    count = 2_000
    at = [BASE + timedelta(seconds=rng.randint(0, 86_400)) for _ in range(count)]
    keys = [f"k{rng.randint(0, 49)}" for _ in range(count)]
    rows = pa.table({"ts": pa.array(at, pa.timestamp("us", "UTC")), "k": keys, "v": list(range(count))})
    source = str(tmp_path / "source")
    tables.append(source, rows)
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config())
    wanted = {"tumbling": {"total": "sum(v)"}, "sessions": {"total": "sum(v)"}, "rows": {"m": "mavg(v, 3)"}}
    for name, measures in wanted.items():
        lake.define(name, source, time="ts", keys=["k"], **{**DEFINITIONS[name], "measures": measures})
        lake.refresh(name)
    late = pa.table({"ts": pa.array([BASE + timedelta(hours=23)], pa.timestamp("us", "UTC")), "k": ["k7"], "v": [1]})
    tables.append(source, late)

    read = {name: sum(r.report.rows_read for r in lake.refresh(name).runs) for name in wanted}

    assert all(0 < rows_read <= 40 for rows_read in read.values()), read
    verdicts = [lake.verify(name) for name in wanted]
    assert all(v.compared and v.is_equal for v in verdicts), verdicts


def test_a_run_takes_the_dirt_that_its_results_reach(site) -> None:
    """
    A row that went from one hour ends a session that began in the hour before, which is dirty for another key's sake: a refresh
    of the one hour takes the other, too; else nobody would ever know that its session changed.
    """
    trades = site.table("trades")
    trades.trade(*((at, sym, 1) for sym in "AB" for at in ("08:10", "08:50", "08:56", "09:01", "11:00", "12:00")))
    parts = {"time": "ts", "keys": ["sym"], "session_gap": "10 minutes", "measures": {"n": "count(*)"}}
    site.lake.define("sessions", "trades", engine="session_window", **parts)
    site.lake.refresh("sessions")
    trades.delete("sym = 'A' AND ts = '2024-03-01T09:01:00Z'")
    trades.trade(("08:15", "B", 1))

    site.lake.refresh("sessions", "2024-03-01T09:00:00Z", "2024-03-01T10:00:00Z")
    half = site.lake.verify("sessions")
    site.lake.refresh("sessions")
    verdict = site.lake.verify("sessions")

    assert (0, 0) == (half.differing, verdict.differing), (half.examples, verdict.examples)
    assert verdict.compared


@pytest.mark.parametrize("name", some_slow(["overlapping", "compressed", "snapshots", "counts"], ("overlapping",)))
def test_results_of_events_that_last_are_not_cut_at_an_end(name, spark, tmp_path) -> None:
    """
    An event that began before the end of a refresh has results after it, where no other row may ever begin: they are published,
    by the first refresh and by that of a late event.
    """

    def event(number: int, hour: float, hours: float) -> dict[str, Any]:
        at = BASE + timedelta(hours=hour)
        return {"id": number, "ts": at, "until": at + timedelta(hours=hours), "k": "ab"[number % 2], "v": number}

    world = World(spark, tmp_path, random.Random(1), DEFINITIONS[name])
    events = [event(i, hour, 1 + i % 3) for i, hour in enumerate((0.2, 0.5, 1.1, 1.3, 1.8, 2.3))]
    table = pa.Table.from_pylist([event(9, 0.1, 5), *events], schema=SCHEMA)
    tables.append(world.source, table)
    lake = world.open()
    world.define(lake, world.definition)
    first, end = lake.refresh("made", None, (BASE + timedelta(hours=2)).isoformat()), BASE + timedelta(hours=3)
    world.refresh(lake)
    tables.append(world.source, pa.Table.from_pylist([event(11, 2.5, 4)], schema=SCHEMA))
    late = lake.refresh("made", BASE.isoformat(), end.isoformat())
    world.refresh(lake)

    assert first.runs
    assert late.runs


def test_a_cascade_follows_corrections_of_its_first_stage(spark, tmp_path) -> None:
    """
    Windows feed sessions by their final rows; a correction of a raw row arrives at the end, and nothing else is needed.
    """
    world = World(spark, tmp_path, random.Random(11), DEFINITIONS["tumbling"])
    lake = world.begin(40)
    lake.define("bursts", "made", engine="session_window", time="time", keys=["k"], session_gap="25 minutes",
                measures={"all": "sum(total)", "windows": "count(*)"})  # fmt: skip
    for name in ("made", "bursts"):
        lake.refresh(name)
    before = lake.read("bursts", "pandas")["all"].sum()
    DeltaTable(world.source).update(predicate="id < 20", updates={"v": "1000"})
    for name in ("made", "bursts"):
        lake.refresh(name)
    verdict = lake.verify("bursts")

    assert verdict.compared
    assert verdict.is_equal
    assert before < 1_000 < lake.read("bursts", "pandas")["all"].sum()


def test_open_windows_feed_nothing(spark, tmp_path) -> None:
    """
    Provisional rows stand in an engine's output, but an aggregate over it counts the final ones only.
    """
    lake = World(spark, tmp_path, random.Random(4), DEFINITIONS["shown"]).begin(40)
    lake.define("counted", "made", time="time", width="1 day", measures={"windows": "count(*)"})
    for name in ("made", "counted"):
        lake.refresh(name)
    rows = lake.read("made", "pandas")

    assert 0 < rows["is_final"].sum() < len(rows)
    assert rows["is_final"].sum() == lake.read("counted", "pandas")["windows"].sum()


def test_what_does_not_aggregate_again_is_refused(spark, tmp_path) -> None:
    """
    A continuous aggregate may sum sums of another; an average of averages and a cycle are refused, and nothing is written.
    """
    world = World(spark, tmp_path, random.Random(2), DEFINITIONS["tumbling"])
    world.insert(5)
    lake = world.open()
    lake.define("hourly", world.source, time="ts", width="1 hour", measures={"total": "sum(v)", "mean": "avg(v)"})
    lake.define("daily", "hourly", time="bucket", width="1 day", measures={"total": "sum(total)"})

    with pytest.raises(DefinitionError, match=r"definition\.not-again"):
        lake.define("bad", "hourly", time="bucket", width="1 day", measures={"mean": "avg(mean)"})
    with pytest.raises(DefinitionError, match=r"definition\.cycle"):
        lake.define("hourly", "daily", time="bucket", width="1 hour", measures={"total": "sum(total)"})
    assert [s.name for s in lake.status()] == ["daily", "hourly"]


def test_strings_with_a_collation_are_aggregated_as_spark_does(site) -> None:
    """
    Beside an aggregate that keeps rows together in one buffer: Spark's interpreted projections would keep whatever row came last.
    """
    site.table().trade(*[(f"08:0{i}", sym, i) for i, sym in enumerate(("mmmmm", "zzzzz", "aaaaa", "ccccc"))])
    measures = {"last": "CAST(max(collate(sym, 'UTF8_LCASE')) AS STRING)", "all": "collect_list(price)"}
    given = {"engine": "time_series", "step": "1 hour", "window_size": "1 hour", "measures": measures}
    site.lake.define("c", "trades", time="ts", **given)
    site.lake.refresh("c", as_of="2024-03-02T00:00:00Z")

    assert ["zzzzz"] == [row["last"] for row in site.records("c")]
    verifying.expect_equal(site.lake, "c")


def test_the_first_clock_opens_count_windows_again(site) -> None:
    """
    They were closed as long as there was no clock, whether events have an end or not.
    """
    site.table().trade(*[(f"{hour:02}:00", "A", hour) for hour in range(8)])
    site.lake.define("c", "trades", time="ts", measures={"n": "sum(price)"}, engine="count_window", count=2)
    site.lake.refresh("c")
    assert 7 == len(site.records("c"))

    site.lake.refresh("c", as_of="2024-03-01T04:00:00Z")

    assert 3 == len(site.records("c"))
    verifying.expect_equal(site.lake, "c")


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", ENGINE_CASES)
def test_case(case, spark, tmp_path) -> None:
    """
    A worked example through the public API: one commit each, a refresh after every commit.
    """
    [outcome] = run_all([case], lambda: How(spark, tmp_path))

    assert outcome.passed, f"expected {outcome.expected}, found {outcome.found}"


@pytest.mark.one_of(2)
@pytest.mark.parametrize("engine", some_slow(chance.MAKERS, ("timeSeries", "reactiveState", "eventTimeWindow")))
def test_random_cases_are_answered_as_by_the_oracle(engine, spark, tmp_path) -> None:
    """
    A random definition over eight sets of rows gives what a double loop over all rows gives; odd seeds are cut and shuffled.
    """
    outcome = chance.run(chance.case_of(engine, SEEDS.get(engine, 1), 8), How(spark, tmp_path))

    assert outcome.passed, f"{outcome.id}: expected {outcome.expected}, found {outcome.found}"


def test_a_row_that_was_dropped_makes_no_other_late(spark, tmp_path) -> None:
    """
    A's row at 7 is in a window that B's time had closed, so it is dropped; A's row at 5 is in no window, and is not late by it.
    """
    params = {
        "timeType": "LONG", "timeColumn": "time", "keyColumn": ["k"], "metrics": [{"name": "n", "expr": "count(v)"}], "step": 4,
        "windowSize": 4, "subWindow": [3, 4], "roundTime": False, "forceTriggerTime": 6,
    }  # fmt: skip
    came = [("A", 0), ("B", 20), ("A", 7), ("A", 5), ("A", 21), ("A", 20)]
    rows = [{"time": t, "k": k, "v": 1, "_commit": 1, "_seq": i} for i, (k, t) in enumerate(came, 1)]
    case = {"id": "timeSeries-0", "engine": "timeSeries", "params": params, "input_rows": rows, "expected_rows": []}

    outcome = chance.run(case, How(spark, tmp_path))

    assert outcome.passed, f"expected {outcome.expected}, found {outcome.found}"
    assert [3, 6] == engine_cases.answer(case).discarded


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("engine", chance.MAKERS)
def test_more_random_cases(engine, seed, spark, tmp_path) -> None:
    """
    Likewise with more of them, half of which keep their commits and depend on the order of arrival.
    """
    outcome = chance.run(chance.case_of(engine, seed), How(spark, tmp_path))

    assert outcome.passed, f"{outcome.id}: expected {outcome.expected}, found {outcome.found}"
