"""Raw rows go and history stays: the frozen bound, what comes below it, and what the output keeps."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.adapters.cli.app import main
from materializer.api import Materializer
from materializer.budget import Budget
from materializer.config import Config
from materializer.core.refresh.invalidation import Cause
from materializer.core.refresh.plan import strategy_of
from materializer.core.refresh.strategies import reason_of
from materializer.core.time.spans import NEG_INF
from materializer.errors import (
    DefinitionError,
    ExpireBoundError,
    ExpireDirtyError,
    ExpireEngineError,
    FrozenHistoryError,
    FrozenWindowError,
    RetiredWindowError,
)
from materializer.services.observe import clock
from materializer.services.report.status import PastClock
from tests.system import verifying
from tests.system.builders import DAY, Site, Table, at, spark_is_slow
from tests.system.remembered import BOUND, HOURS, remembered

CLOCKED: dict[str, Any] = {
    "engine": "time_series",
    "time": "ts",
    "keys": ["sym"],
    "measures": {"n": "count(*)"},
    "window_size": "1 hour",
    "step": "1 hour",
    "use_system_time": True,
}


@pytest.fixture
def full(site: Site) -> Site:
    """Five hours of trades, a file an hour, and an hourly aggregate of them, refreshed."""
    trades = site.table()
    for hour in range(5):
        trades.trade(*[t for t in HOURS if str(t[0]).startswith(f"{hour:02}")])
    site.hourly()
    site.lake.refresh("hourly")
    return site


@pytest.fixture
def frozen(full: Site) -> Site:
    """The same, frozen below 02:00."""
    full.lake.expire("hourly", BOUND)
    return full


def stuck(site: Site, name: str = "hourly") -> list[str]:
    """Return the hours that are dirty below the bound and stay so, with why."""
    [status] = site.lake.status(name)
    hour = 3_600_000_000
    start = int(DAY.timestamp() * 1_000_000)
    return [f"{(s.start - start) // hour}-{(s.end - start) // hour} {why}" for s, why in status.stuck]


@spark_is_slow
def test_history_stays_when_its_rows_go(frozen):
    """
    The owner runs the statement that `expire` prints; rows that come below later are merged, an ignored DELETE between them
    or not, and what was published is what somebody knows who remembers every row.
    """
    trades, expiry = frozen.tables["trades"], frozen.lake.expire("hourly", BOUND)
    frozen.spark.sql(expiry.delete)
    assert frozen.lake.refresh("hourly").runs == ()
    assert remembered(HOURS) == frozen.published("hourly")

    late = [("00:10", "A", 100), ("01:10", "C", 200), ("04:50", "A", 300), ("05:10", "A", 1)]
    trades.trade(*late[:2])
    frozen.spark.sql(expiry.delete)
    trades.trade(*late[2:], ("00:20", "A", 400))
    report = frozen.lake.refresh("hourly")

    assert {"merge"} <= set("+".join(r.report.strategy for r in report.runs).split("+"))
    assert remembered([*HOURS, *late, ("00:20", "A", 400)]) == frozen.published("hourly")
    [status] = frozen.lake.status("hourly")
    assert ("fresh", 8 + 2, ()) == (status.state, status.expired_rows, status.stuck)
    verified = frozen.lake.verify("hourly")
    assert verified.is_equal, verified.examples
    assert verified.frozen == status.frozen
    assert frozen.lake.refresh("hourly").runs == ()


def test_expire_says_what_it_would_do_and_then_does_it(full):
    """
    Without --yes nothing is written; the bound is the last edge before the time, and every other reader is named.
    """
    full.hourly("other")
    full.hourly("by_note", keys=["note"])
    full.lake.refresh("by_note")
    full.lake.expire("by_note", "2024-03-01T03:00:00Z")
    before = full.files()

    told = full.lake.expire("hourly", "2024-03-01T02:25:00Z", dry_run=True)

    assert before == full.files()
    assert (
        f"DELETE FROM delta.`{full.tables['trades'].path}` WHERE `ts` < TIMESTAMP_LTZ '2024-03-01 02:00:00Z'"
        == told.delete
    )
    assert (8, 2, True) == (told.below.rows, told.below.files, told.is_dry_run)
    assert [("other", "not frozen")] == [(r.name, r.why) for r in told.readers]
    done = full.lake.expire("hourly", "2024-03-01T02:25:00Z")
    assert (told.bound, NEG_INF) == (done.bound, done.was)
    assert done.bound == full.lake.status("hourly")[0].frozen
    assert done.bound == full.lake.expire("hourly", "2024-03-01T01:00:00Z").was


def test_expire_refuses_what_would_be_lost(full):
    """
    What is dirty and needs its raw rows, what was never materialised, and engines that need older rows are not frozen.
    """
    full.tables["trades"].update("price = 1 AND sym = 'A'", price=7)
    with pytest.raises(ExpireDirtyError, match=r"\[2024-03-01T01:00:00Z, 2024-03-01T02:00:00Z\)"):
        full.lake.expire("hourly", BOUND)
    full.lake.expire("hourly", "2024-03-01T01:00:00Z")
    with pytest.raises(ExpireBoundError, match="nothing from"):
        full.lake.expire("hourly", "2024-03-02")
    with pytest.raises(ExpireBoundError, match="infinity"):
        full.lake.expire("hourly", "inf")
    full.lake.define("clocked", "trades", **CLOCKED)
    with pytest.raises(ExpireEngineError, match="ingestion time"):
        full.lake.expire("clocked", BOUND)


def test_inserts_that_nothing_merges_are_frozen_as_stored(full):
    """
    They are listed, and no refresh takes them for inserts that wait.
    """
    full.hourly("middle", measures={"middle": "median(price)"})
    full.lake.refresh("middle")
    before = full.published("middle")
    full.tables["trades"].trade(("00:40", "A", 50), *[(f"03:1{i}", "A", 60) for i in range(5)])
    with pytest.raises(ExpireDirtyError):
        full.lake.expire("middle", BOUND)
    full.lake.expire("middle", BOUND, as_stored=True)
    assert ["0-1 rows came, and there is nothing that they could be merged into"] == stuck(full, "middle")

    full.lake.refresh("middle")

    assert [row for row in before if row[0].hour < 2] == [row for row in full.published("middle") if row[0].hour < 2]
    assert before != full.published("middle")
    assert 1 == len(stuck(full, "middle"))


def test_inserts_that_wait_below_are_merged_after_expire(full):
    """
    Dirt that can be merged does not stop `expire`: its rows are read from the change feed, gone or not.
    """
    full.tables["trades"].trade(("00:40", "A", 50))

    expiry = full.lake.expire("hourly", BOUND)
    full.spark.sql(expiry.delete)
    full.lake.refresh("hourly")

    assert expiry.waiting
    assert remembered([*HOURS, ("00:40", "A", 50)]) == full.published("hourly")


def test_an_update_below_is_a_conflict_that_is_kept_and_told(frozen):
    """
    An update, a move and rows written again below the bound are listed and never merged; above it they are computed.
    """
    frozen.tables["trades"].update("price = 0 AND sym = 'A'", price=9)
    frozen.tables["trades"].update("price = 1 AND sym = 'B'", ts=at("03:59"))
    frozen.tables["trades"].trade(("00:40", "A", 50))

    report = frozen.lake.refresh("hourly")

    assert 1 == len(report.stuck)
    old = [row for row in remembered(HOURS) if row[0].hour < 2]
    assert old == [row for row in frozen.published("hourly") if row[0].hour < 2]
    assert (DAY.replace(hour=3, tzinfo=None), "B", 4, 8, 3) in frozen.published("hourly")
    assert [f"0-2 {reason_of(Cause.CONFLICT)}"] == stuck(frozen)
    assert {Cause.CONFLICT} == {e.cause for e in frozen.lake.journal.view().named("hourly").uncomputable}
    assert ["doctor.frozen"] == [f.code for f in frozen.lake.doctor("hourly") if "frozen" in f.code]
    assert frozen.lake.refresh("hourly").runs == ()
    assert old == sorted(
        (row["bucket"].replace(tzinfo=None), row["sym"], row["n"], row["total"], row["top"])
        for row in frozen.lake.fresh("hourly").frame.toArrow().to_pylist()
        if row["bucket"].hour < 2
    )


def test_thaw_gives_history_up(frozen):
    """
    It says first what it endangers; then the next refresh computes what the source still has.
    """
    frozen.tables["trades"].delete("price = 0")
    frozen.tables["trades"].update("price = 1 AND sym = 'A'", price=9)
    frozen.lake.refresh("hourly")

    told = frozen.lake.thaw("hourly", dry_run=True)
    assert (4, True) == (told.expired_rows, told.is_dry_run)
    assert stuck(frozen)
    frozen.lake.thaw("hourly")
    assert not stuck(frozen)
    frozen.lake.refresh("hourly")

    frozen.expect_true()
    assert NEG_INF == frozen.lake.thaw("hourly").was


def test_what_does_not_merge_is_reported(full):
    """
    A median cannot take late rows in below the bound; they are listed, and what is published stays.
    """
    full.hourly("middle", measures={"middle": "median(price)"})
    full.lake.refresh("middle")
    full.lake.expire("middle", BOUND)
    before = full.published("middle")
    full.tables["trades"].trade(("00:40", "A", 50))
    full.tables["trades"].delete("price = 1")

    full.lake.refresh("middle")

    assert before == full.published("middle")
    assert ["0-1 rows came, and there is nothing that they could be merged into"] == stuck(full, "middle")


def test_without_a_change_feed_files_tell(site):
    """
    Files that go are retention, rows that come are reported, and files that are written again are a conflict.
    """
    trades = site.table(feed=False)
    for hour in range(5):
        trades.trade(*[t for t in HOURS if str(t[0]).startswith(f"{hour:02}")])
    site.hourly()
    site.lake.refresh("hourly")
    expiry = site.lake.expire("hourly", "2024-03-01T03:30:00Z")
    assert expiry.notes
    trades.delete("price = 0")
    trades.trade(("01:40", "A", 50))
    trades.update("price = 2 AND sym = 'A'", price=3)

    site.lake.refresh("hourly")

    assert [
        "1-2 rows came, and without a change feed nobody can tell which",
        f"2-3 {reason_of(Cause.CONFLICT)}",
    ] == stuck(site)
    assert 4 == site.lake.status("hourly")[0].expired_rows
    assert remembered(HOURS) == site.published("hourly")


def test_what_is_asked_below_the_bound_is_cut_or_refused(frozen):
    """
    A forced refresh and an invalidation begin at the bound; wholly below it they are errors, and so is another definition of the data.
    """
    with pytest.raises(FrozenWindowError, match="frozen below"):
        frozen.lake.refresh("hourly", "2024-03-01T00:00:00Z", BOUND, force=True)
    with pytest.raises(FrozenWindowError, match="frozen below"):
        frozen.lake.invalidate("hourly", "2024-03-01T00:00:00Z", BOUND)
    frozen.tables["trades"].delete("price < 2")

    report = frozen.lake.refresh("hourly", force=True)
    declared = frozen.lake.invalidate("hourly")
    frozen.lake.backfill("hourly", buckets_per_run=1)

    assert 12 == sum(run.report.rows_read for run in report.runs)
    assert frozen.lake.status("hourly")[0].frozen == declared.start
    assert remembered(HOURS) == frozen.published("hourly")
    sql = "CREATE MATERIALIZED VIEW hourly AS SELECT window.start AS bucket, count(*) AS n FROM trades GROUP BY window(ts, '1 hour')"
    with pytest.raises(FrozenHistoryError, match="built again"):
        frozen.lake.apply(sql)


def test_the_bound_follows_the_newest_row(site):
    """
    With source.retention the bound stands two hours before the newest bucket's end, and stops at what is dirty. The refresh
    that moves it says how the owner deletes the rows and who else needs them, as `status` does afterwards.
    """
    trades = site.table()
    trades.trade(*HOURS)
    site.hourly(properties={"source.retention": "2 hours"})
    site.hourly("other")
    reports = [
        site.lake.refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T05:00:00Z"),
        site.lake.refresh("hourly"),
        site.lake.refresh("hourly"),
    ]
    [status] = site.lake.status("hourly")
    assert int(at("03:00").timestamp() * 1_000_000) == status.frozen
    assert f"DELETE FROM delta.`{trades.path}` WHERE `ts` < TIMESTAMP_LTZ '2024-03-01 03:00:00Z'" == status.delete
    assert [("other", "not frozen")] == [(r.name, r.why) for r in status.readers]
    assert [NEG_INF, status.frozen, status.frozen] == [r.frozen for r in reports]
    assert [("", ()), (status.delete, status.readers), ("", ())] == [(r.delete, r.readers) for r in reports]

    trades.delete("price < 2")
    trades.update("price = 3 AND sym = 'A'", price=4)
    trades.trade(("09:00", "A", 1))
    site.lake.refresh("hourly", "2024-03-01T09:00:00Z")
    assert status.frozen == site.lake.status("hourly")[0].frozen
    site.lake.refresh("other")
    site.lake.expire("other", "2024-03-01T08:00:00Z")
    moved = site.lake.refresh("hourly")

    assert int(at("08:00").timestamp() * 1_000_000) == moved.frozen == site.lake.status("hourly")[0].frozen
    assert moved.delete.endswith("'2024-03-01 08:00:00Z'")
    assert () == moved.readers
    found = site.published("hourly")
    assert [row for row in remembered(HOURS) if row[0].hour < 3] == [row for row in found if row[0].hour < 3]
    assert (DAY.replace(hour=3, tzinfo=None), "A", 2, 8, 4) in found


def test_a_policy_that_catches_dirt_says_what_its_first_refresh_let_go(site):
    """
    The bound stops at the dirt in the refresh of the window, and follows the newest row when that of the dirt ends; the report says so.
    """
    trades = site.table()
    trades.trade(*HOURS)
    site.hourly(properties={"source.retention": "2 hours"})
    site.lake.refresh("hourly")
    site.lake.add_policy("hourly", start_offset="2 hours", end_offset="0 hours", catch_dirt=True)
    trades.update("price = 3 AND sym = 'A'", price=7)
    trades.trade(("09:00", "A", 1))

    report = site.lake.run_policy("hourly", now="2024-03-01T10:00:00Z").report

    assert 2 == len(report.runs)
    assert int(at("08:00").timestamp() * 1_000_000) == report.frozen
    assert report.delete.endswith("'2024-03-01 08:00:00Z'")


@spark_is_slow
def test_old_buckets_leave_the_output_and_do_not_come_back(site):
    """
    output.retention takes buckets out once; later rows there make nothing dirty, and asking for them brings them back.
    """
    trades = site.table()
    trades.trade(*HOURS)
    site.hourly(properties={"output.retention": "2 hours"})
    site.lake.refresh("hourly")
    assert [row for row in remembered(HOURS) if row[0].hour >= 3] == site.published("hourly")

    trades.trade(("06:10", "A", 1), ("00:10", "A", 1))
    fresh = site.lake.read("hourly", fresh=True).toArrow().to_pylist()
    assert [6] == [row["bucket"].hour for row in fresh]
    report = site.lake.refresh("hourly", "2024-03-01T06:00:00Z")
    assert "discard" in "+".join(run.report.strategy for run in report.runs)
    assert [(DAY.replace(hour=6, tzinfo=None), "A", 1, 1, 1)] == site.published("hourly")
    site.lake.refresh("hourly")
    trades.trade(("01:10", "A", 1))
    assert site.lake.refresh("hourly").runs == ()
    verifying.expect_equal(site.lake, "hourly")
    with pytest.raises(RetiredWindowError, match=r"output\.retention"):
        site.lake.invalidate("hourly", "2024-03-01T01:00:00Z", "2024-03-01T02:00:00Z")

    site.hourly(properties={})
    assert site.lake.refresh("hourly").runs == ()
    site.lake.invalidate("hourly", "2024-03-01T03:00:00Z", "2024-03-01T04:00:00Z")
    site.lake.refresh("hourly")
    rows = [*HOURS, ("06:10", "A", 1), ("00:10", "A", 1), ("01:10", "A", 1)]
    assert [row for row in remembered(rows) if row[0].hour >= 3] == site.published("hourly")
    verifying.expect_equal(site.lake, "hourly")

    site.hourly(properties={"output.retention": "2 hours"})
    report = site.lake.refresh("hourly")
    assert ["discard"] == [run.report.strategy for run in report.runs]
    assert [(DAY.replace(hour=6, tzinfo=None), "A", 1, 1, 1)] == site.published("hourly")


def test_a_row_past_the_clock_moves_no_bound(site, monkeypatch):
    """
    One row of 2999 empties no output and freezes nothing: both bounds follow the rows before the clock, in a plan, a fresh read,
    a refresh and whatever comes after it, and `status` names the row. Once the clock has come to a row, the next refresh follows
    it, although the source has not changed.
    """
    trades = site.table()
    trades.trade(*HOURS)
    site.hourly(properties={"output.retention": "2 hours", "source.retention": "2 hours"})
    site.lake.refresh("hourly")
    kept = [row for row in remembered(HOURS) if row[0].hour >= 3]
    trades.trade(("05:10", "A", 5))
    trades.trade((datetime(2999, 1, 1, tzinfo=UTC), "A", 1))
    stray = (datetime(2999, 1, 1), "A", 1, 1, 1)  # noqa: DTZ001 (as published)

    fresh = site.lake.read("hourly", fresh=True).toArrow().to_pylist()
    assert [4, 4, 5, 0] == [row["bucket"].hour for row in sorted(fresh, key=lambda row: row["bucket"])]
    assert ["discard"] == [
        strategy_of(s) for s in site.lake.plan("hourly").plan.steps if getattr(s, "is_discard", False)
    ]
    report = site.lake.refresh("hourly")
    expected = [row for row in [*kept, (DAY.replace(hour=5, tzinfo=None), "A", 1, 5, 5), stray] if row[0].hour != 3]
    assert sorted(expected) == sorted(site.published("hourly"))
    assert int(at("04:00").timestamp() * 1_000_000) == report.frozen == site.lake.journal.view().named("hourly").retired
    assert "up-to-date" == site.lake.refresh("hourly").outcome
    [status] = site.lake.status("hourly")
    past = int(datetime(2999, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
    assert (PastClock(past, 1, 1), "fresh") == (status.past_clock, status.state)
    assert harmed(site).refresh("hourly").frozen == report.frozen

    monkeypatch.setattr(clock, "wall_clock", lambda: past)
    assert None is site.lake.status("hourly", now="2999-01-01T00:30:00Z")[0].past_clock
    site.lake.refresh("hourly")
    assert [stray] == site.published("hourly")


def harmed(site: Site) -> Materializer:
    """Lose the partials of the hourly aggregate, repair it, and return the lake."""
    state = site.lake.journal.view().named("hourly")
    shutil.rmtree(site.lake.root / "hourly" / "partials" / state.data_version)
    assert site.lake.repair("hourly").mending.is_everything_dirty
    return site.lake


def test_a_repair_brings_nothing_back_that_the_output_let_go(site):
    """
    Everything is dirty after it, but what output.retention took out stays out, and none of it is reported as stuck.
    """
    trades = site.table()
    trades.trade(*HOURS)
    site.hourly(properties={"output.retention": "2 hours"})
    site.lake.refresh("hourly")
    kept = [row for row in remembered(HOURS) if row[0].hour >= 3]

    harmed(site).refresh("hourly")
    assert kept == site.published("hourly")

    site.lake.expire("hourly", "2024-03-01T04:00:00Z")
    harmed(site).refresh("hourly")
    assert ["3-4 repaired: what the tables hold there is not known"] == stuck(site)
    assert kept == site.published("hourly")


def test_what_the_output_is_to_let_go_goes_after_a_repair_too(site):
    """
    A refresh dies before it takes old buckets out, and the partials are lost: only the output still tells where these lie.
    """

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "compute":
            raise Died

    trades = site.table()
    trades.trade(*HOURS)
    site.hourly()
    site.lake.refresh("hourly")
    site.hourly(properties={"output.retention": "2 hours"})
    trades.delete()
    trades.trade(("09:00", "A", 1))
    with pytest.raises(Died):
        site.opened_with(die).refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")

    harmed(site).refresh("hourly")

    assert [(DAY.replace(hour=9, tzinfo=None), "A", 1, 1, 1)] == site.published("hourly")


def test_an_engine_keeps_its_raw_rows(site):
    """
    Retention of an engine that needs older rows is refused when it is applied.
    """
    site.table()
    with pytest.raises(DefinitionError, match=r"source\.retention"):
        site.lake.define("clocked", "trades", **CLOCKED, properties={"source.retention": "30 days"})


NAIVE = DAY.replace(tzinfo=None)
TIMES: dict[str, tuple[pa.DataType, list[Any], str | int, Any]] = {
    "timestamp": (pa.timestamp("us", "UTC"), [at("00:10"), at("03:10")], "1 hour", "2024-03-01T02:00:00Z"),
    "ntz": (pa.timestamp("us"), [NAIVE, NAIVE.replace(hour=5)], "1 hour", "2024-03-01T02:00:00"),
    "date": (pa.date32(), [date(1969, 12, 1), date(2024, 3, 1)], "1 day", "2024-02-29"),
    "smallint": (pa.int16(), [-7, 30], 10, 20),
    "int": (pa.int32(), [5, 30], 10, 20),
    "bigint": (pa.int64(), [5, 1 << 40], 10, 1 << 39),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "timestamp" else pytest.mark.slow) for kind in TIMES]
)
def test_the_statement_deletes_just_what_is_frozen(site, kind):
    """
    For every type of time, with names that want quoting, Spark takes the statement and the rows below the bound are gone.
    """
    arrow, values, width, before = TIMES[kind]
    name = "my `odd` time"
    schema = pa.schema([(name, arrow), ("v", pa.int64())])
    table = Table(site.lake.root / "odd 'table' `x`", schema)
    table.write([{name: value, "v": 1} for value in values] + [{name: None, "v": 1}])
    lake = Materializer(site.lake.root, spark=site.spark, config=Config(sources={"odd": str(table.path)}))
    lake.define("odd_hours", "odd", time="`my ``odd`` time`", width=width, keys=[], measures={"n": "count(*)"})
    lake.refresh("odd_hours")

    site.spark.sql(lake.expire("odd_hours", before).delete)

    left = DeltaTable(str(table.path)).to_pyarrow_table()[name].to_pylist()
    assert [values[1], None] == sorted(left, key=lambda v: v is None)
    lake.refresh("odd_hours")
    assert [1, 1] == [row[1] for row in site.published("odd_hours")]


@pytest.mark.parametrize("step", [*(pytest.param(s, marks=pytest.mark.slow) for s in ("recover", "bound")), "bounded"])
def test_a_kill_leaves_the_old_bound_or_the_new_one(full, step):
    """
    `expire` is one commit of the journal: wherever a process dies, the bound stands where it stood or where it should.
    """

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == step:
            raise Died

    with pytest.raises(Died):
        full.opened_with(die).expire("hourly", BOUND)
    assert (step == "bounded") == (full.lake.status("hourly")[0].frozen > NEG_INF)
    full.lake.expire("hourly", BOUND)
    full.tables["trades"].delete("price < 2")
    full.lake.refresh("hourly")
    assert remembered(HOURS) == full.published("hourly")


def test_spark_tells_versions_apart_too(frozen, monkeypatch):
    """
    Where there are more changes than the driver reads, Spark groups them by version below the bound: inserts between deletes
    are merged, and an update is a conflict.
    """
    monkeypatch.setattr(Config, "budget", Budget(bytes=0))
    trades = frozen.tables["trades"]
    trades.trade(("00:40", "A", 50), (None, "A", 1), ("06:00", "A", 50))
    trades.delete("price < 1")
    trades.trade(("00:50", "A", 51))
    trades.update("price = 1 AND sym = 'A'", price=9)
    trades.delete("price = 9")

    report = frozen.lake.refresh("hourly")

    assert ["1-2"] == [text.split()[0] for text in stuck(frozen)]
    assert "merge" in report.runs[0].report.strategy
    expected = [*HOURS, ("00:40", "A", 50), ("00:50", "A", 51), ("06:00", "A", 50)]
    assert remembered(expected) == frozen.published("hourly")
    assert 4 + 2 == frozen.lake.status("hourly")[0].expired_rows


def test_the_commands_say_so(full, capsys):
    """
    From the shell, without a JVM: the plan, then the bound, then what thawing would endanger.
    """
    where = ["--lake", str(full.lake.root)]

    assert 0 == main(["expire", "hourly", "--before", "2024-03-01T02:30:00Z", *where])
    told = capsys.readouterr().out
    assert "hourly: would be frozen below 2024-03-01T02:00:00Z" in told
    assert f"    DELETE FROM delta.`{full.tables['trades'].path}` WHERE `ts` < TIMESTAMP_LTZ" in told
    assert "nothing was written" in told
    assert 0 == main(["expire", "hourly", "--before", "2024-03-01T02:30:00Z", "--yes", *where])
    assert 3 == main(["expire", "hourly", "--before", "2024-03-01T01:00:00Z", "--yes", "--strict-exit", *where])
    assert 0 == main(["status", "hourly", *where])
    assert "below 2024-03-01T02:00:00Z" in capsys.readouterr().out
    assert 64 == main(["expire", "hourly", "--before", "yesterday", *where])
    assert "expire.bound" in capsys.readouterr().err
    assert 0 == main(["thaw", "hourly", "--json", *where])
    form = json.loads(capsys.readouterr().out)
    assert (True, "2024-03-01T02:00:00Z", 8) == (
        form["dry_run"],
        form["was_frozen_below"],
        form["source_below"]["rows"],
    )
    assert 0 == main(["thaw", "hourly", "--yes", *where])
    assert NEG_INF == full.lake.status("hourly")[0].frozen
