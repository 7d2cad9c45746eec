"""The guard of history: what would be computed from fewer raw rows than it was made from, though nobody saw them go."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import FewerRowsError
from materializer.spark.describe import analyse
from tests.oracle.naive import differences
from tests.system.builders import DAY, LANES, MEASURES, Site, at, spark_is_slow
from tests.system.lake import HOURLY, Source, literal, published
from tests.tables import clean_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS = [(f"{hour:02}:{minute:02}", sym, hour) for hour in range(4) for minute in (5, 35) for sym in "AB"]
GONE = "ts < arrow_cast('2024-03-01T02:00:00+00:00', 'Timestamp(Microsecond, Some(\"UTC\"))')"
TOP = "SELECT window(ts, '1 hour').start AS bucket, sym, max(price) AS top FROM {source} GROUP BY 1, 2"
NEWER = ((DAY + timedelta(hours=3)).replace(tzinfo=None), "A", 9)
"""What the trade makes of its hour that comes when two hours have gone."""


@pytest.fixture
def full(site: Site) -> Site:
    """Four hours of trades, four rows an hour, and an hourly aggregate of them, refreshed."""
    trades = site.table()
    for hour in range(4):
        trades.trade(*[t for t in HOURS if str(t[0]).startswith(f"{hour:02}")])
    site.hourly(measures={"top": "max(price)"})
    site.lake.refresh("hourly")
    return site


def unseen(site: Site) -> None:
    """Let the owner delete two hours and clean the log, so that nobody can tell what went."""
    trades = site.tables["trades"]
    trades.delete(GONE)
    trades.trade(("03:40", "A", 9))
    clean_log(trades.path)


def refused(site: Site, **options: Any) -> FewerRowsError:
    with pytest.raises(FewerRowsError) as caught:
        site.lake.refresh("hourly", **options)
    return caught.value


@spark_is_slow
def test_rows_that_nobody_saw_go_take_no_history_with_them(full):
    """
    Rows go and the log is cleaned before a refresh: it stops, says what it counted, and writes nothing, also when it is forced.
    """
    before = full.published("hourly")
    unseen(full)

    for error in (refused(full), refused(full, force=True)):
        assert "made from 4 rows in [2024-03-01T00:00:00Z, 2024-03-01T01:00:00Z), its source has 0 there" in str(error)
        assert ("history.fewer-rows", 66, "nothing was written") == (error.code, error.exit_status, error.wrote)
        assert (2, 8) == (error.values["buckets"], error.values["rows"])
        assert "--before 2024-03-01T02:00:00Z --as-stored" in error.hint
    assert before == full.published("hourly")
    assert {"aborted"} == {e.outcome for e in full.lake.history("hourly") if e.n > 1}


@spark_is_slow
def test_history_is_kept_as_it_is_stored(full):
    """
    What the error says first keeps history: it is frozen as it is stored, listed, and all above it is made true.
    """
    before = full.published("hourly")
    unseen(full)
    refused(full)

    told = full.lake.expire("hourly", "2024-03-01T02:00:00Z", as_stored=True, dry_run=True)
    assert "dirty" in full.lake.status("hourly")[0].state
    done = full.lake.expire("hourly", "2024-03-01T02:00:00Z", as_stored=True)
    report = full.lake.refresh("hourly")

    assert (told.as_stored, 1) == (done.as_stored, len(done.as_stored))
    assert "refreshed" == report.outcome
    assert sorted([*(row for row in before if row[:2] != NEWER[:2]), NEWER]) == full.published("hourly")
    [status] = full.lake.status("hourly")
    assert ["the source can no longer tell what changed"] == list({why for _, why in status.stuck})
    full.lake.thaw("hourly")
    full.lake.refresh("hourly")
    full.expect_true(query=TOP)


def test_a_row_seen_to_go_from_one_bucket_is_none_of_another(full):
    """
    Where a row was seen to go it may be missing when nobody can tell any more what changed; in other buckets it may not.
    """
    trades = full.tables["trades"]
    trades.delete(f"ts = {literal(at('00:05'))} AND sym = 'A'")
    full.lake.refresh("hourly", "2024-04-01T00:00:00Z", "2024-04-02T00:00:00Z")  # captures, and computes nothing
    trades.delete(f"ts = {literal(at('03:05'))} AND sym = 'A'")
    clean_log(trades.path)

    error = refused(full)
    assert "[2024-03-01T03:00:00Z, 2024-03-01T04:00:00Z)" in str(error)
    assert (1, 1) == (error.values["buckets"], error.values["rows"])


def test_the_sources_word_is_taken_where_somebody_says_so(full):
    """
    What the error says next: the refresh goes through, once, and the journal records that it was told to.
    """
    unseen(full)
    refused(full)
    full.lake.refresh("hourly", accept_fewer_rows=True)

    full.expect_true(query=TOP)
    [done] = [e for e in full.lake.history("hourly") if e.outcome == "done"][:1]
    assert {"fewer_rows": "accepted"} == done.report.extra
    assert "up-to-date" == full.lake.refresh("hourly").outcome


def test_rows_that_were_seen_to_go_may_be_missing(full):
    """
    Deletes, moves between buckets and updates that were captured are no reason to stop, whatever else makes buckets dirty.
    """
    trades = full.tables["trades"]
    trades.delete("price = 1")
    trades.update("price = 0 AND sym = 'A'", ts=DAY + timedelta(hours=3))
    full.lake.invalidate("hourly")
    full.lake.refresh("hourly")
    full.expect_true(query=TOP)

    trades.delete("price = 2 AND sym = 'B'")
    full.lake.refresh("hourly", force=True)
    full.expect_true(query=TOP)


def test_deletes_that_only_files_tell_of_may_be_missing(site):
    """
    Without a change feed the rows of the files that went are those that may have gone.
    """
    trades = site.table(feed=False)
    trades.trade(*HOURS)
    site.hourly(measures={"top": "max(price)"})
    site.lake.refresh("hourly")
    trades.delete("price < 2")
    site.lake.refresh("hourly", force=True)

    site.expect_true(query=TOP)


def test_a_log_that_was_cleaned_is_no_reason_to_stop_where_no_row_went(full):
    """
    Everything is computed again when nobody can tell what changed; where the source has as many rows or more, it is published.
    """
    trades = full.tables["trades"]
    trades.trade(("00:10", "C", 50))
    trades.trade(("02:10", "C", 60))
    clean_log(trades.path)
    report = full.expect_refresh()

    assert ["rebuild"] == [r.report.strategy.removesuffix("+settle") for r in report.runs]
    full.expect_true(query=TOP)


def test_a_backfill_stops_where_history_would_go_and_keeps_what_it_did(full):
    """
    Run by run, newest first: the hours that have their rows are published before the first that lacks some is refused.
    """
    unseen(full)
    with pytest.raises(FewerRowsError):
        full.lake.backfill("hourly", buckets_per_run=1)
    assert NEWER in full.published("hourly")
    assert 8 == len(full.published("hourly"))

    full.lake.backfill("hourly", buckets_per_run=1, accept_fewer_rows=True)
    full.expect_true(query=TOP)


def test_tables_that_are_older_than_the_count_go_without(site, monkeypatch):
    """
    Partials that were made before rows were counted are refreshed and merged as ever; a changed definition counts.
    """
    trades = site.table()
    trades.trade(*HOURS)
    with monkeypatch.context() as older:
        older.setattr(analyse, "decompose", _without_count)
        site.hourly(measures={"top": "max(price)"})
    site.lake.refresh("hourly")
    assert 3 == len(_partials(site))
    trades.trade(("00:10", "A", 70))
    site.lake.refresh("hourly")
    site.expect_true(query=TOP)

    unseen(site)
    site.lake.refresh("hourly")
    site.expect_true(query=TOP)
    site.hourly(measures=MEASURES)
    site.lake.build("hourly")
    assert {"n", "top", "total"} <= {name for row in site.lake.read("hourly").collect() for name in row.asDict()}
    assert 3 + 2 == len(_partials(site))


def _without_count(spec: AggregateSpec) -> Layout:
    return decompose(spec).stored_in(())


def _partials(site: Site) -> list[str]:
    """Return the columns of the newest partials."""
    folder = site.lake.root / "hourly" / "partials"
    newest = max(folder.iterdir(), key=lambda f: f.stat().st_mtime_ns)
    return [field.name for field in DeltaTable(str(newest)).schema().fields]


def test_a_policy_never_accepts(full):
    """
    What runs by the clock stops like everybody else, and leaves to a person what has to be decided.
    """
    full.lake.add_policy("hourly", schedule="*/5 * * * *")
    before = full.published("hourly")
    unseen(full)
    with pytest.raises(FewerRowsError):
        full.lake.run_policy("hourly", now="2024-03-02T00:00:00Z")

    assert before == full.published("hourly")


# -- at random -----------------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "move"]), st.integers(0, 5), st.integers(0, 10**6)), max_size=3
)


class Guarded:
    """A source in one lake, how many rows its hours have, and how many changed since they were computed.

    Args:
        root: A folder of its own.
        spark: The session of the run.
        lane_rows: Rows that the driver commits itself.
    """

    def __init__(self, root: Path, spark: SparkSession, lane_rows: int) -> None:
        self.source = Source(str(root / "source"), has_feed=True)
        self.lake = Materializer(
            root / "lake", spark=spark, config=Config(driver_lane_rows=lane_rows, executor="spark")
        )
        self.lake.define("hourly", self.source.path, **HOURLY.parts)
        self.source.insert([self._row(hour, i) for hour in range(6) for i in range(3)])
        self.lake.refresh("hourly")

    def _row(self, hour: int, i: int) -> dict[str, Any]:
        return {"ts": DAY + timedelta(hours=hour, minutes=i % 60), "k": "ab"[i % 2], "v": i % 9, "ok": True}

    def counted(self) -> Counter[int]:
        """Return how many rows each hour has that count."""
        rows = self.source.rows.values()
        return Counter((row["ts"] - DAY) // timedelta(hours=1) for row in rows if HOURLY.where(row))

    def change(self, changes: list[tuple[str, int, int]]) -> None:
        """Commit changes one by one."""
        for what, hour, pick in changes:
            ids = sorted(self.source.rows)
            if what == "insert":
                self.source.insert([self._row(hour, pick)])
            elif ids and what == "delete":
                self.source.delete({ids[pick % len(ids)]})
            elif ids:
                self.source.update({ids[pick % len(ids)]}, "ts", DAY + timedelta(hours=hour))

    def published(self) -> list[tuple[Any, ...]]:
        """Return the rows of the output."""
        return published(self.lake.root, HOURLY)

    def is_true(self) -> bool:
        """Whether the output is the aggregate of the source's rows."""
        return not differences(HOURLY.expected(self.source.rows.values()), self.published(), HOURLY.known_by)


@pytest.mark.parametrize("lane_rows", LANES)
def test_a_rebuild_is_refused_where_rows_are_missing_and_nowhere_else(tmp_path, spark, lane_rows):
    """
    Random changes, some seen, some not: with rows missing that could not have been seen to go a refresh is refused and changes
    nothing; with none missing it is the truth; and it is the truth whenever somebody accepts.
    """
    seen: Counter[str] = Counter()

    @settings(max_examples=6, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(CHANGES, CHANGES, st.booleans())
    def check(told: list[tuple[str, int, int]], untold: list[tuple[str, int, int]], is_forced: bool) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            world = Guarded(Path(folder), spark, lane_rows)
            stored = world.counted()
            world.change(told)
            world.lake.refresh(
                "hourly", *(f"2024-02-2{day}T00:00:00Z" for day in (1, 2))
            )  # captures, and computes nothing
            world.change(untold)
            if untold:
                clean_log(world.source.path)
            now, shown = world.counted(), world.published()
            lacks = max(stored[hour] - now[hour] for hour in range(6))
            try:
                world.lake.refresh("hourly", force=is_forced)
            except FewerRowsError:
                seen["refused"] += 1
                assert untold
                assert lacks > 0
                assert shown == world.published()
                world.lake.refresh("hourly", accept_fewer_rows=True)
            else:
                seen["not refused"] += 1
                assert not untold or lacks <= 2 * len(told), "a change is two rows of the feed at most"
            assert world.is_true()

    check()
    assert {"refused", "not refused"} == set(seen)
