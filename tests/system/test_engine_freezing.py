"""Engines whose raw rows go: what stays, what is computed on, what is refused, and random histories of it."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.budget import Budget
from materializer.config import Config
from materializer.core.engines.reactive_state import ReactiveState
from materializer.core.refresh.plan import Recompute
from materializer.errors import DefinitionError, ExpireBoundError, ExpireDirtyError, ExpireEngineError
from materializer.services import aggregate
from materializer.services.commit.ports import DeltaPorts
from tests.system import verifying
from tests.system.builders import DAY, SCHEMA, Site, at, spark_is_slow
from tests.system.engine_freezing import CUT, Frozen
from tests.system.engine_histories import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOUND = "2024-03-01T02:00:00Z"
SESSIONS: dict[str, Any] = {"engine": "session_window", "session_gap": "20 minutes"}
RUNNING: dict[str, Any] = {"engine": "reactive_state", "measures": {"total": "cumsum(price)", "n": "cumcount(price)"}}
MOVING: dict[str, Any] = {
    "engine": "reactive_state",
    "filter": "price > 2",
    "measures": {
        "mean": "mavg(price, 3)",
        "step": "price - prev(price)",
        "back": "move(price, 3)",
        "two": "100 / coalesce(length(note) + msum(100 DIV coalesce(length(note) + 1, 0), 2), 1)",  # fails without a note
    },
}
MIXED: dict[str, Any] = {
    **MOVING,
    "measures": {"total": "cumsum(price)", "smooth": "ema(price, 2)", **MOVING["measures"]},
}
TRADES = [
    ("00:10", "A", 1), ("00:20", "A", 2),
    ("01:50", "A", 4), ("02:05", "A", 8),  # one session across the bound
    ("03:00", "A", 16), ("03:10", "A", 32),
    ("01:00", "B", 1), ("03:30", "B", 2),
]  # fmt: skip


SMALL_AND_LARGE = pytest.mark.parametrize(
    "small", [pytest.param(1 << 28, id="driver"), pytest.param(0, id="spark", marks=pytest.mark.slow)]
)


@pytest.fixture
def full(site: Site) -> Site:
    """Three hours of trades of two symbols."""
    site.table().trade(*TRADES)
    return site


def define(site: Site, name: str, parts: dict[str, Any], **properties: str) -> None:
    """Define an engine over the trades and refresh it."""
    measures = {"measures": {"n": "count(*)", "total": "sum(price)"}}
    site.lake.define(name, "trades", time="ts", keys=["sym"], **{**measures, **parts}, properties=properties)
    site.lake.refresh(name, as_of="2024-03-01T12:00:00Z")


def sessions(site: Site) -> list[tuple[str, str, int]]:
    """Return symbol, first time and total of the published sessions."""
    found = site.records("s")
    return sorted((r["sym"], clock(r["window_start"]), r["total"]) for r in found)


def clock(value: datetime) -> str:
    """Return a time of day."""
    return f"{value:%H:%M}"


def test_a_session_across_the_bound_stays_and_what_would_change_it_is_told(full):
    """
    Rows above the bound are computed as ever, those of the session that begins below change nothing and are reported, and the
    next session begins after its gap.
    """
    define(full, "s", SESSIONS)
    before = sessions(full)
    full.as_told(full.lake.expire("s", BOUND).delete)
    assert full.lake.refresh("s").runs == ()

    full.tables["trades"].trade(("03:20", "A", 64), ("02:40", "B", 128))
    full.lake.refresh("s")

    expected = [row for row in before if row[1] != "03:00"] + [("A", "03:00", 112), ("B", "02:40", 128)]
    assert sorted(expected) == sessions(full)
    [status] = full.lake.status("s")
    assert () == status.stuck
    verifying.expect_equal(full.lake, "s")

    full.tables["trades"].trade(("02:15", "A", 256), ("02:30", "A", 512))
    full.tables["trades"].update("price = 32", price=33)
    full.lake.refresh("s")

    grown = [("A", "03:00", 113) if row == ("A", "03:00", 112) else row for row in sorted(expected)]
    assert sorted([*grown, ("A", "02:30", 512)]) == sessions(full)
    [status] = full.lake.status("s")
    [(span, why)] = status.stuck
    assert "a result that begins there has changed" in why
    assert (span.start, span.end) == (micros(1), micros(2))
    verifying.expect_equal(full.lake, "s")
    assert full.lake.refresh("s").runs == ()


def micros(hour: int) -> int:
    """Return an hour of the day as an instant."""
    return int(DAY.timestamp() * 1_000_000) + hour * 3_600_000_000


def test_sliding_windows_across_the_bound_stay(full):
    """
    Computing again by force is no reason to doubt them; a row of theirs is.
    """
    sliding = {"engine": "time_series", "window_size": "1 hour", "step": "30 minutes"}
    define(full, "w", sliding)
    before = full.published("w")
    full.as_told(full.lake.expire("w", BOUND).delete)
    full.lake.refresh("w", force=True)
    assert before == full.published("w")
    assert () == full.lake.status("w")[0].stuck

    full.tables["trades"].trade(("02:10", "A", 1_000), ("02:40", "B", 5))
    full.lake.refresh("w")
    found = full.records("w")
    shown = {(r["sym"], clock(r["window_start"])): r["total"] for r in found}
    assert {("A", "01:30"): 12, ("A", "02:00"): 1_008, ("B", "02:00"): 5, ("B", "02:30"): 5}.items() <= shown.items()
    [(span, _)] = full.lake.status("w")[0].stuck
    assert (micros(1), micros(2)) == (span.start, span.end)
    verifying.expect_equal(full.lake, "w")


@spark_is_slow
def test_running_state_goes_on_from_what_is_kept(full):
    """
    Also where everything above the bound is computed anew, and in an always-fresh read before.
    """
    define(full, "r", RUNNING)
    full.as_told(full.lake.expire("r", BOUND).delete)
    full.tables["trades"].trade(("02:01", "A", 100), ("05:00", "B", 4), ("05:00", "C", 7))
    full.lake.invalidate("r")

    fresh = {(r["sym"], clock(r["time"])): (r["total"], r["n"]) for r in full.lake.read("r", fresh=True).collect()}
    full.lake.refresh("r")

    shown = {(r["sym"], clock(r["time"])): (r["total"], r["n"]) for r in full.records("r")}
    assert fresh == shown
    assert {("A", "02:01"): (107, 4), ("A", "03:10"): (163, 7), ("B", "05:00"): (7, 3)}.items() <= shown.items()
    assert {("A", "00:10"): (1, 1), ("C", "05:00"): (7, 1)}.items() <= shown.items()
    verifying.expect_equal(full.lake, "r")


@spark_is_slow
def test_filling_goes_on_from_what_is_kept(full):
    """
    Windows without rows above the bound are filled from the last window below it, of a key without rows above it, too.
    """
    filled = {"engine": "time_series", "window_size": "30 minutes", "step": "30 minutes", "fill": "ffill"}
    late = [("05:10", "B", 9), ("02:40", "A", 5), ("12:50", "B", 7)]
    full.tables["trades"].trade(("00:40", "C", 3))
    full.table("every").trade(*TRADES, ("00:40", "C", 3), *late)
    define(full, "f", filled)
    full.lake.define(
        "whole", "every", time="ts", keys=["sym"], measures={"n": "count(*)", "total": "sum(price)"}, **filled
    )
    full.as_told(full.lake.expire("f", BOUND).delete)
    full.tables["trades"].trade(*late)
    full.lake.invalidate("f", "2024-03-01T04:00:00Z")

    for name in ("f", "whole"):
        full.lake.refresh(name, as_of="2024-03-01T14:00:00Z")

    def content(name: str) -> list[Any]:
        return [row[:-1] for row in full.published(name)]

    assert content("whole") == content("f")
    assert {3} == {row[-2] for row in content("f") if row[2] == "C"}
    verifying.expect_equal(full.lake, "f")


@pytest.mark.parametrize(
    "parts", [pytest.param(MOVING, id="moving", marks=pytest.mark.slow), pytest.param(MIXED, id="mixed")]
)
@spark_is_slow
def test_functions_look_back_on_what_is_kept(full, parts):
    """
    Rows above the bound look back over those below it that are gone, whether what changed is computed or everything, with rows
    of one time, nulls and rows that are not shown among them. What comes below is reported.
    """
    more = [("01:55", "A", 5), ("01:55", "A", None), ("01:55", "A", 3), ("01:10", None, 7), ("02:30", None, 4)]
    late = [
        ("02:00", "A", 9),
        ("02:00", "A", 6),
        ("02:05", "A", 3),
        ("04:00", "B", 9),
        ("05:00", None, 4),
        ("05:00", "C", 7),
    ]
    full.tables["trades"].trade(*more)
    full.table("every").trade(*TRADES, *more, *late)
    define(full, "r", parts)
    full.as_told(full.lake.expire("r", BOUND).delete)
    assert full.lake.refresh("r").runs == ()
    full.tables["trades"].trade(*late)

    fresh = shown(full.lake.read("r", fresh=True))
    [run] = full.lake.refresh("r").runs
    define_over_every(full, parts)

    assert not any(step.is_rebuild for step in run.plan.steps if isinstance(step, Recompute))
    assert fresh == shown(full.lake.read("r")) == shown(full.lake.read("whole"))
    verifying.expect_equal(full.lake, "r")

    for table in full.tables.values():
        table.update("price = 9", price=10)
    full.lake.invalidate("r")
    full.lake.refresh("r")
    full.lake.refresh("whole")
    assert shown(full.lake.read("r")) == shown(full.lake.read("whole"))
    verifying.expect_equal(full.lake, "r")

    before = full.published("r")
    full.tables["trades"].trade(("01:57", "A", 1_000))
    full.lake.refresh("r")
    assert before == full.published("r")
    assert 1 == len(full.lake.status("r")[0].stuck)


def define_over_every(site: Site, parts: dict[str, Any]) -> None:
    """Define the same over the table that loses no rows, and refresh it."""
    site.lake.define("whole", "every", time="ts", keys=["sym"], **parts)
    site.lake.refresh("whole")


def shown(frame: DataFrame) -> Counter[Any]:
    """Return rows without how often they were published before, doubles to nine digits."""
    rows = [row.asDict() for row in frame.drop("revision").collect()]
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row.values()) for row in rows)


def test_a_correction_that_changes_no_result_is_none_and_is_looked_back_on(full):
    """
    Nobody is shown what functions look back on; it is kept as it is corrected.
    """
    full.table("few").trade(("01:40", "A", 9), ("01:50", "A", 4), ("02:05", "A", 8), ("03:00", "A", 1))
    full.lake.define("m", "few", time="ts", keys=["sym"], engine="reactive_state", measures={"top": "mmax(price, 2)"})
    full.lake.refresh("m")
    full.tables["few"].update("price = 4", price=5)
    full.lake.refresh("m")
    assert {0} == {r["revision"] for r in full.records("m")}

    full.as_told(full.lake.expire("m", BOUND).delete)
    full.tables["few"].delete("price = 8")
    full.lake.refresh("m")
    tops = {clock(r["time"]): (r["top"], r["revision"]) for r in full.records("m")}
    assert {"01:40": (None, 0), "01:50": (9, 0), "03:00": (5, 1)} == tops
    verifying.expect_equal(full.lake, "m")


def test_a_table_that_is_older_than_arguments_goes_on_without(full, monkeypatch):
    """
    It is refreshed as ever, and its raw rows are needed.
    """
    with monkeypatch.context() as older:
        older.setattr(ReactiveState, "arguments", property(lambda _: {}))
        define(full, "r", MOVING)
    aggregate.COMPILED.clear()  # a process of this version has compiled nothing of it
    full.tables["trades"].trade(("02:01", "A", 100))
    full.lake.refresh("r")
    verifying.expect_equal(full.lake, "r")
    assert 0 < sum(r["revision"] == 1 for r in full.records("r"))

    with pytest.raises(ExpireEngineError, match="do not hold 'price'"):
        full.lake.expire("r", BOUND)
    with pytest.raises(DefinitionError, match="do not hold 'price'"):
        define(full, "r", MOVING, **{"source.retention": "2 hours"})


def test_rows_below_are_reported_and_deletes_ignored(full):
    """
    Nothing of an engine merges.
    """
    define(full, "r", RUNNING)
    before = full.published("r")
    full.lake.expire("r", BOUND)
    full.tables["trades"].delete("price = 1")
    full.tables["trades"].trade(("01:30", "B", 9))
    full.lake.refresh("r")

    assert before == full.published("r")
    [status] = full.lake.status("r")
    assert 2 == status.expired_rows
    assert 1 == len(status.stuck)


def test_what_may_still_change_is_not_frozen(full):
    """
    An open session stops the bound, and a dirty one that reaches across it; the clock closes the first, a refresh the second.
    """
    full.tables["trades"].delete("sym = 'B' AND price = 2")
    full.lake.define("s", "trades", time="ts", keys=["sym"], measures={"n": "count(*)"}, **SESSIONS)
    full.lake.refresh("s")
    with pytest.raises(ExpireDirtyError, match=r"from 2024-03-01T01:00:00Z on are open"):
        full.lake.expire("s", BOUND)  # B has no later row
    full.lake.refresh("s", as_of="2024-03-01T04:00:00Z")
    full.tables["trades"].trade(("02:10", "A", 3))
    with pytest.raises(ExpireDirtyError, match=r"from 2024-03-01T01:50:00Z on"):
        full.lake.expire("s", BOUND, dry_run=True)
    full.lake.refresh("s")
    assert full.lake.expire("s", BOUND).bound == micros(2)


def test_dirt_in_a_slice_that_an_earlier_session_reaches_into_is_not_settled(site):
    """
    The only file of an hour went, and no result begins in that hour: the session that holds its rows begins before.
    """
    trades = site.table()
    for clock in ("01:50", "02:05", "02:20"):
        trades.trade((clock, "A", 1))
    site.lake.define("s", "trades", time="ts", keys=["sym"], measures={"total": "sum(price)"}, **SESSIONS)
    site.lake.refresh("s", as_of="2024-03-01T04:00:00Z")
    trades.trade(("09:00", "A", 1))
    site.lake.refresh("s", as_of="2024-03-01T12:00:00Z")
    assert [("A", "01:50", 3), ("A", "09:00", 1)] == sessions(site)
    trades.delete("ts = '2024-03-01T02:05:00Z' OR ts = '2024-03-01T02:20:00Z'")

    with pytest.raises(ExpireDirtyError, match="is dirty below"):
        site.lake.expire("s", "2024-03-01T05:00:00Z")


def test_thaw_has_everything_below_computed_again(full):
    """
    Also what the output let go: running sums go on from it.
    """
    define(full, "r", RUNNING, **{"output.retention": "2 hours"})
    full.lake.expire("r", BOUND)
    full.tables["trades"].delete("price = 1 AND sym = 'A'")
    full.lake.refresh("r")
    full.lake.thaw("r")
    full.lake.refresh("r")
    assert 63 - 1 == max(r["total"] for r in full.records("r") if r["sym"] == "A")
    verifying.expect_equal(full.lake, "r")


def test_windows_that_are_still_to_be_filled_stop_the_bound(full):
    """
    Those between the last closed window of a key and its open one.
    """
    filled = {
        "engine": "time_series",
        "window_size": "1 hour",
        "step": "1 hour",
        "fill": "ffill",
        "accepted_delay": "1 hour",
    }
    full.tables["trades"].trade(("09:30", "A", 1), ("09:30", "B", 1), ("05:30", "C", 1), ("07:30", "C", 2))
    full.lake.define(
        "f", "trades", time="ts", keys=["sym"], measures={"n": "count(*)", "total": "sum(price)"}, **filled
    )
    full.lake.refresh("f")
    with pytest.raises(ExpireDirtyError, match="from 2024-03-01T06:00:00Z on"):
        full.lake.expire("f", "2024-03-01T07:00:00Z")
    assert micros(6) == full.lake.expire("f", "2024-03-01T06:00:00Z").bound


DAILY: dict[str, Any] = {
    "engine": "daily_time_series",
    "window_size": "30 minutes",
    "session_begin": ["01:00:00", "02:00:00"],
    "session_end": ["02:00:00", "03:40:00"],
    "fill": "ffill",
    "holidays": "2024-03-02",
}


def on(day: int, clock: str) -> datetime:
    """Return a time of a day of March."""
    hours, minutes = clock.split(":")
    return DAY + timedelta(days=day - 1, hours=int(hours), minutes=int(minutes))


@spark_is_slow
@pytest.mark.parametrize(
    ("purges", "bound"),
    [pytest.param(True, on(3, "00:00"), marks=pytest.mark.slow), pytest.param(False, on(3, "02:00"))],
)
def test_filled_trading_days_go_on_above_the_bound(site, purges, bound):
    """
    From day to day nothing is filled across it; where filling goes on, the last window below is what the ones above are filled
    from, of a key without rows above, too. Late rows and a clock give what all rows give.
    """
    old = [
        *[(on(1, "01:10"), "A", 1), (on(1, "03:50"), "A", 2), (on(1, "02:20"), "B", 3), (on(1, "03:10"), "C", 4)],
        *[(on(3, "01:40"), "A", 5), (on(3, "02:10"), "B", 6), (on(4, "03:45"), "A", 7)],
    ]
    late = [(on(3, "02:40"), "A", 8), (on(4, "01:50"), "C", 9)]
    newer = [(on(5, "00:30"), "B", 10), (on(4, "02:40"), "A", 11)]
    parts = {**DAILY, "key_purge_daily": purges, "measures": {"n": "count(*)", "total": "sum(price)"}}
    for name, table in zip(["d", "whole"], ["trades", "every"], strict=True):
        site.table(table).trade(*old)
        site.lake.define(name, table, time="ts", keys=["sym"], **parts)
        site.lake.refresh(name, as_of="2024-03-03T12:00:00Z")

    def content(name: str) -> list[Any]:
        return [row[:-1] for row in site.published(name)]

    frozen = site.lake.expire("d", "2024-03-03T02:30:00Z")
    assert micros_of(bound) == frozen.bound
    site.as_told(frozen.delete)
    for rows, clock in ((late, None), (newer, "2024-03-07T00:00:00Z")):
        for name, table in (("d", "trades"), ("whole", "every")):
            site.tables[table].trade(*rows)
            site.lake.refresh(name, as_of=clock)
        assert content("whole") == content("d")
    verifying.expect_equal(site.lake, "d")
    assert () == site.lake.status("d")[0].stuck
    assert any(row[-2] == 4 for row in content("d") if row[2] == "C")


def micros_of(when: datetime) -> int:
    """Return a time as an instant."""
    return int(when.timestamp() * 1_000_000)


@SMALL_AND_LARGE
def test_a_trading_day_that_is_not_filled_to_its_end_stops_the_bound(site, monkeypatch, small):
    """
    A later row of another key closes its windows and does not fill those after them, nor one that was open yet when the day ended:
    a clock does.
    """
    monkeypatch.setattr(Config, "budget", Budget(bytes=small))
    trades = site.table()
    trades.trade((on(1, "01:10"), "A", 1), (on(1, "03:05"), "A", 2), (on(1, "04:00"), "A", 2), (on(1, "02:40"), "B", 3))
    trades.trade((on(3, "02:10"), "C", 4), (on(3, "03:31"), "C", 5), (on(5, "01:00"), "A", 6))
    parts = {**DAILY, "accepted_delay": "20 minutes", "measures": {"n": "count(*)"}}
    site.lake.define("d", "trades", time="ts", keys=["sym"], **parts)

    def refused(clock: str | None, first: str) -> None:
        site.lake.refresh("d", as_of=clock)
        with pytest.raises(ExpireDirtyError, match=f"results of 'd' from {first} on"):
            site.lake.expire("d", "2024-03-05T00:00:00Z")

    refused(None, "2024-03-01T02:30:00Z")
    refused("2024-03-01T03:39:00Z", "2024-03-01T02:30:00Z")
    refused("2024-03-01T03:40:00Z", "2024-03-03T02:00:00Z")
    assert micros_of(on(3, "00:00")) == site.lake.expire("d", "2024-03-03T02:00:00Z").bound
    refused("2024-03-03T03:29:00Z", "2024-03-03T02:00:00Z")
    site.lake.refresh("d", as_of="2024-03-03T03:30:00Z")
    assert micros_of(on(5, "00:00")) == site.lake.expire("d", "2024-03-05T00:00:00Z").bound


@SMALL_AND_LARGE
def test_filling_that_goes_on_over_days_stops_the_bound_where_it_has_come_to(site, monkeypatch, small):
    """
    Before the window after the last one of the key that is furthest behind, over a day without sessions.
    """
    monkeypatch.setattr(Config, "budget", Budget(bytes=small))
    trades = site.table()
    trades.trade((on(1, "03:05"), "A", 1), (on(1, "03:50"), "A", 2), (on(4, "01:00"), "B", 3), (on(6, "01:00"), "B", 3))
    parts = {**DAILY, "key_purge_daily": False, "measures": {"n": "count(*)"}}
    site.lake.define("d", "trades", time="ts", keys=["sym"], **parts)
    site.lake.refresh("d")
    with pytest.raises(ExpireDirtyError, match="results of 'd' from 2024-03-03T01:00:00Z on"):
        site.lake.expire("d", "2024-03-03T02:00:00Z")
    assert micros_of(on(3, "00:00")) == site.lake.expire("d", "2024-03-03T01:00:00Z").bound
    site.lake.refresh("d", as_of="2024-03-03T03:40:00Z")
    assert micros_of(on(4, "00:00")) == site.lake.expire("d", "2024-03-04T01:00:00Z").bound


def test_trading_sessions_without_an_edge_between_windows_are_not_frozen(full):
    """
    Where each window takes a row of the next slice.
    """
    daily = {
        "engine": "daily_time_series",
        "window_size": "1 hour",
        "session_begin": "00:00:00",
        "session_end": "00:00:00",
    }
    define(full, "d", {**daily, "closed": "right"})
    with pytest.raises(ExpireBoundError, match="trading sessions"):
        full.lake.expire("d", BOUND)
    define(full, "e", {**daily, "closed": "right"}, **{"source.retention": "2 hours"})
    [finding] = [f for f in full.lake.doctor("e") if f.code == "doctor.not-frozen"]
    assert "can freeze nothing" in finding.message


def test_running_state_begins_anew_where_its_kept_results_were_lost(full):
    """
    Somebody removed the partials when the raw rows were gone: what is published below stays, sums above begin at the bound.
    """
    define(full, "r", RUNNING, **{"source.retention": "2 hours"})
    full.as_told(full.lake.expire("r", BOUND).delete)
    shutil.rmtree(full.lake.root / "r" / "partials")
    full.lake.repair("r")
    full.tables["trades"].trade(("03:40", "B", 4))
    full.lake.refresh("r")

    totals = {(r["sym"], clock(r["time"])): r["total"] for r in full.records("r")}
    assert {("A", "00:20"): 3, ("A", "02:05"): 8, ("A", "03:00"): 24, ("B", "03:40"): 6}.items() <= totals.items()


def test_as_stored_leaves_open_results_as_they_are(full):
    """
    They are not shown, and no later row closes them.
    """
    full.lake.define("s", "trades", time="ts", keys=["sym"], measures={"total": "sum(price)"}, **SESSIONS)
    full.lake.refresh("s")
    full.tables["trades"].trade(("03:40", "B", 1), ("01:30", "C", 5))
    full.lake.refresh("s")
    full.lake.expire("s", BOUND, as_stored=True)
    full.tables["trades"].trade(("05:00", "C", 6), ("06:00", "C", 7))
    full.lake.refresh("s")
    assert [("C", "05:00", 6)] == [row for row in sessions(full) if row[0] == "C"]
    verifying.expect_equal(full.lake, "s")
    full.lake.refresh("s", as_of="2024-03-01T12:00:00Z")
    assert micros(6) == full.lake.expire("s", "2024-03-01T06:00:00Z").bound


def test_the_bound_follows_and_stops_before_what_is_open(full):
    """
    With source.retention; thaw takes it back and everything is computed again.
    """
    define(full, "s", SESSIONS, **{"source.retention": "2 hours"})
    assert micros(2) == full.lake.status("s")[0].frozen
    full.tables["trades"].trade(("05:00", "A", 1), ("05:30", "A", 1))
    report = full.lake.refresh("s")
    [status] = full.lake.status("s")
    assert micros(4) == status.frozen
    assert report.delete.endswith("`ts` < TIMESTAMP_LTZ '2024-03-01 04:00:00Z'")
    assert status.delete == report.delete
    full.tables["trades"].trade(("13:00", "A", 1))
    full.lake.refresh("s", as_of="2024-03-01T12:00:00Z")
    full.tables["trades"].trade(("13:10", "A", 1))
    full.lake.refresh("s")
    assert micros(12) == full.lake.status("s")[0].frozen

    before = sessions(full)
    assert micros(12) == full.lake.thaw("s").was
    full.lake.refresh("s")
    assert before == sessions(full)


def test_an_open_result_stops_the_bound_and_doctor_says_so(full, monkeypatch):
    """
    A key that has no later row keeps its last session open.
    """
    full.tables["trades"].delete("sym = 'B' AND price = 2")
    properties = {"source.retention": "2 hours"}
    full.lake.define(
        "s", "trades", time="ts", keys=["sym"], measures={"n": "count(*)"}, properties=properties, **SESSIONS
    )
    full.lake.refresh("s")
    full.tables["trades"].trade(("07:00", "A", 1))
    full.lake.refresh("s")

    assert micros(1) == full.lake.status("s")[0].frozen
    [finding] = [f for f in full.lake.doctor() if f.code == "doctor.not-frozen"]
    assert "below 2024-03-01T06:00:00Z, and results that begin there are open" in finding.message
    monkeypatch.setattr(DeltaPorts, "decide", None)  # a refresh without work does not ask again
    assert "up-to-date" == full.lake.refresh("s").outcome


STAYS = [
    ("00:10", "00:40", "A", 1), ("00:20", "00:30", "A", 2),
    ("01:50", "03:10", "A", 4), ("02:30", "03:30", "A", 8),  # one across the bound
    ("01:10", "01:20", "B", 16), ("03:00", None, "B", 32),
]  # fmt: skip


@pytest.fixture
def stays(site: Site) -> Site:
    """Who stayed from when until when."""
    fields = [SCHEMA.field("ts"), pa.field("until", pa.timestamp("us", "UTC")), *list(SCHEMA)[1:3]]
    site.table("stays", pa.schema(fields))
    stay(site, *STAYS)
    return site


def stay(site: Site, *stays: tuple[str, str | None, str, int]) -> None:
    """Write (start, end, symbol, price) in one commit."""
    names = ("ts", "until", "sym", "price")
    rows = [dict(zip(names, (at(start), at(end), *rest), strict=True)) for start, end, *rest in stays]
    site.tables["stays"].write(rows)


def stretches(site: Site) -> dict[tuple[str, str], int]:
    """Return what the snapshots hold, by symbol and start."""
    found = site.records("s")
    return {(r["sym"], clock(r["window_start"])): r["total"] for r in found}


def test_events_that_last_go_by_their_ends(stays):
    """
    What ends above the bound counts above it, wherever it began; what of it lies below stays, and is reported.
    """
    site, parts = stays, {"measures": {"total": "sum(price)"}, "keys": ["sym"], "time": "ts"}
    site.lake.define("s", "stays", engine="snapshot_window", end="until", **parts)
    site.lake.define("c", "stays", engine="compressed_hopping_window", end="until", duration="90 minutes", **parts)
    site.lake.define("n", "stays", width="1 hour", **parts)
    for name in ("s", "c", "n"):
        site.lake.refresh(name)
    before = stretches(site)
    site.lake.expire("c", BOUND)
    longer = "frozen below 2024-03-01T02:00:00Z, it needs what lasts until 2024-03-01T00:30:00Z or longer"
    assert {"c": longer, "n": "not frozen"} == {r.name: r.why for r in site.lake.expire("s", BOUND).readers}
    [reader] = site.lake.expire("n", BOUND, dry_run=True).readers[1:]
    assert ("s", "it needs its events until they end, which 'until' tells") == (reader.name, reader.why)

    [status] = site.lake.status("s")
    edge = "TIMESTAMP_LTZ '2024-03-01 01:00:00Z'"
    assert status.delete.endswith(f"stays` WHERE `ts` < {edge} AND `until` < {edge}")
    site.as_told(status.delete)
    assert 4 == site.tables["stays"].opened().count()
    site.lake.refresh("s")
    assert before == stretches(site)
    assert () == site.lake.status("s")[0].stuck

    site.tables["stays"].delete("price = 4")
    stay(site, ("01:30", "02:45", "B", 64), ("04:00", "04:10", "A", 128))
    site.lake.refresh("s")

    below = {place: total for place, total in before.items() if place[1] < "02:00"}
    above = {("A", "02:30"): 8, ("B", "03:00"): 32, ("A", "04:00"): 128}
    assert below | above == stretches(site)
    [status] = site.lake.status("s")
    assert [(micros(1), micros(2))] == [(span.start, span.end) for span, _ in status.stuck]
    verifying.expect_equal(site.lake, "s")
    assert site.lake.refresh("s").runs == ()


def test_without_a_feed_nobody_knows_how_long_events_lasted(site):
    """
    Rows that go below the bound may have reached above it: everything there is computed, and what reaches the bound is reported.
    """
    fields = [SCHEMA.field("ts"), pa.field("until", pa.timestamp("us", "UTC")), *list(SCHEMA)[1:3]]
    site.table("stays", pa.schema(fields), feed=False)
    stay(site, *STAYS)
    parts = {"measures": {"total": "sum(price)"}, "keys": ["sym"], "time": "ts"}
    site.lake.define("s", "stays", engine="snapshot_window", end="until", **parts)
    site.lake.refresh("s")
    before = stretches(site)
    site.as_told(site.lake.expire("s", BOUND).delete)

    [run] = site.lake.refresh("s").runs

    assert "rebuild" == run.plan.strategy
    assert before == stretches(site)
    assert [(micros(1), micros(2))] == [(span.start, span.end) for span, _ in site.lake.status("s")[0].stuck]
    verifying.expect_equal(site.lake, "s")


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"engine": "time_series", "window_size": "1 hour", "step": "1 hour", "use_system_time": True}, "ingestion"),
        ({"engine": "time_series", "window_size": "7 minutes", "step": "7 minutes"}, "set 'origin'"),
        (
            {"engine": "reactive_state", "measures": {"m": "mcount(ts - timestamp'2024-01-01', 3)"}},
            "do not hold 'ts - t",
        ),
        ({**SESSIONS, "lateness": "strict"}, "order in which they came"),
    ],
)
def test_what_needs_its_raw_rows_says_why(full, parts, why):
    """
    By hand and as a property.
    """
    define(full, "e", parts)
    with pytest.raises(ExpireEngineError, match=why):
        full.lake.expire("e", BOUND)
    with pytest.raises(DefinitionError, match=why):
        define(full, "f", parts, **{"source.retention": "30 days"})


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "sessions" else pytest.mark.slow) for n in CUT])
def test_random_histories_are_what_all_rows_give(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """
    A second source keeps every row; what is published of the first is the same, and history never changes.
    """
    for seed in (f"frozen {name}", *(f"frozen {name} {n}" for n in range(1, 4))):  # chance may freeze nothing
        folder = tmp_path / seed
        folder.mkdir()
        seen = Frozen(World(spark, folder, random.Random(seed), CUT[name]), name).run(4)
        if seen["frozen"] + seen["stuck"]:
            return
    pytest.fail(f"nothing was ever frozen, last {seen}")
