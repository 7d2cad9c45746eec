"""The guard of history: what would be computed from fewer raw rows than it was made from, though nobody saw them go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.spec import AggregateSpec
from materializer.errors import FewerRowsError
from materializer.spark import analyse
from tests.system.builders import DAY, MEASURES, Site

HOURS = [(f"{hour:02}:{minute:02}", sym, hour) for hour in range(4) for minute in (5, 35) for sym in "AB"]
GONE = "ts < arrow_cast('2024-03-01T02:00:00+00:00', 'Timestamp(Microsecond, Some(\"UTC\"))')"
TOP = "SELECT window(ts, '1 hour').start AS bucket, sym, max(price) AS top FROM {source} GROUP BY 1, 2"
NEWER = ((DAY + timedelta(hours=3)).replace(tzinfo=None), "A", 9)
"""What the trade makes of its hour that comes when two hours have gone."""
LANES = pytest.mark.parametrize(
    "site",
    [pytest.param(200_000, id="driver"), pytest.param(0, id="spark", marks=pytest.mark.slow)],
    indirect=True,
)


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
    trades.clean_log(trades.version)


def refused(site: Site, **options: Any) -> FewerRowsError:
    with pytest.raises(FewerRowsError) as caught:
        site.lake.refresh("hourly", **options)
    return caught.value


@LANES
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


@LANES
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
    trades.clean_log(trades.version)
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
