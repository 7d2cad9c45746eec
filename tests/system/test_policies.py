"""Refresh policies on a real lake: a run refreshes its window and nothing else, and the journal knows when it ran."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from materializer.api import Materializer
from materializer.core.time.instants import HOUR, SECOND
from materializer.core.time.spans import Span
from materializer.errors import (
    DefinitionError,
    LeaseHeldError,
    PolicyExistsError,
    PolicyNowError,
    UnknownPolicyError,
    UsageError,
)
from materializer.journal.store import JournalStore
from tests.system.builders import DAY, Site
from tests.system.lake import micros

NOW = "2024-03-01T10:30:00Z"
PROPERTIES = {
    "refresh.start_offset": "5 hours",
    "refresh.end_offset": "1 hour",
    "refresh.schedule": "0 * * * *",
    "refresh.history.start_offset": "9 hours",
    "refresh.history.end_offset": "7 hours",
}


def hour(n: int) -> int:
    """Return an instant of the first day."""
    return micros(DAY) + n * HOUR


def filled(site: Site, *, last: int = 11, **parts: Any) -> Materializer:
    """Return the lake with a trade in each hour up to *last*, all refreshed, and policies."""
    trades = site.table("trades")
    trades.trade(*((f"{h:02}:15", "A", h) for h in range(last + 1)))
    site.hourly(**({"properties": PROPERTIES} | parts))
    site.lake.refresh("hourly")
    return site.lake


def hours_of(report: Any) -> list[tuple[int, int]]:
    """Return the runs' windows in hours of the first day."""
    return [((r.window.start - hour(0)) // HOUR, (r.window.end - hour(0)) // HOUR) for r in report.runs]


def dirty(lake: Materializer) -> list[int]:
    """Return the hours that are dirty below the newest row."""
    (status,) = lake.status("hourly", now=NOW)
    return [h for h in range(24) if hour(h) in status.dirty]


def planned(lake: Materializer) -> list[dict[str, Any]]:
    """Return what the journal says of plans that a policy asked for."""
    rows = JournalStore(lake.root).read().rows
    found = (json.loads(row.payload)["options"] for row in rows if row.kind == "planned")
    return [options["policy"] for options in found if "policy" in options]


def test_a_policy_refreshes_its_window_and_takes_dirt_along_only_when_told(site: Site) -> None:
    """
    The window is recorded and repeated; dirt of no policy stays, is shown, and is caught once the policy says so.
    """
    lake = filled(site)
    site.tables["trades"].trade(*((f"{h:02}:40", "A", 100) for h in range(12)))

    first = lake.run_policy("hourly", now=NOW)
    assert ("default", NOW) == (first.policy, first.now)
    assert Span(hour(6), hour(9)) == first.report.window
    assert [0, 1, 2, 3, 4, 5, 9, 10, 11] == dirty(lake)
    again = lake.run_policy("hourly", now=NOW)
    assert ("up-to-date", first.report.window) == (again.report.outcome, again.report.window)

    history = lake.run_policy("hourly", "history", now=NOW)
    assert Span(hour(2), hour(4)) == history.report.window
    assert [0, 1, 4, 5, 9, 10, 11] == dirty(lake)
    windows = {"default": [hour(6), hour(9)], "history": [hour(2), hour(4)]}
    assert [{"name": name, "now": NOW, "window": w} for name, w in windows.items()] == planned(lake)
    assert ["history", "default", ""] == [e.policy for e in lake.history("hourly")][:3]
    (status,) = lake.status("hourly", now=NOW)
    assert [h for h in range(24) if hour(h) in status.outside] == [0, 1, 4, 5]
    quiet = site.opened()
    assert ["up-to-date"] == [r.report.outcome for r in [quiet.run_policy("hourly", now=NOW)]]
    assert not quiet.has_started_spark

    lake.remove_policy("hourly")
    lake.add_policy("hourly", start_offset="5 hours", end_offset="1 hour", max_runs=1, catch_dirt=True)
    caught = lake.run_policy("hourly", now=NOW)
    assert [(4, 6)] == hours_of(caught.report)
    assert caught.report.window == first.report.window
    caught = lake.run_policy("hourly", now=NOW)
    assert [(0, 2)] == hours_of(caught.report)
    assert [9, 10, 11] == dirty(lake)
    assert "up-to-date" == lake.run_policy("hourly", now=NOW).report.outcome
    site.expect_refresh()
    site.expect_true()


def test_what_is_due_is_known_by_the_schedule_and_the_newest_run(site: Site) -> None:
    """
    A policy that never ran is due; then when its schedule comes due; an old window moves nothing back.
    """
    lake = filled(site)
    assert [("hourly", "default")] == lake.due(now=NOW)
    assert [("default", NOW)] == [(r.policy, r.now) for r in lake.run_due(now=NOW)]
    before = site.files()
    assert [] == lake.run_due(now="2024-03-01T10:59:59Z")
    lake.run_policy("hourly", now="2024-03-01T10:59:59Z")
    assert before == site.files()
    lake.run_policy("hourly", now="2024-03-01T08:00:00Z")
    assert before == site.files()

    assert [("hourly", "default")] == lake.due("hourly", now="2024-03-01T11:00:00Z")
    assert 1 == len(lake.run_due(now="2024-03-01T11:00:00Z"))
    assert [] == lake.due(now="2024-03-01T11:00:00Z")
    state, history = lake.policies("hourly", now="2024-03-01T11:00:00Z")
    assert (hour(12), hour(11), False) == (state.next_due, state.last_now, state.is_due)
    assert (None, None, False) == (history.next_due, history.last_now, history.is_due)


def test_policies_are_managed_like_the_definition(site: Site) -> None:
    """
    Adding and removing change metadata, with the checks of a definition and under the lease; nothing is dirty by it.
    """
    lake = filled(site, properties={})
    assert [] == lake.policies()
    change = lake.add_policy(
        "hourly", start_offset="5 hours", end_offset=0, schedule="@hourly", max_staleness="2 hours"
    )
    assert ("metadata", "+ property refresh.end_offset: 0") == (change.kind, change.differences[0])
    assert [] == dirty(lake)

    with pytest.raises(PolicyExistsError, match="has a policy 'default' already"):
        lake.add_policy("hourly", end_offset="9 hours")
    with pytest.raises(DefinitionError, match="policy-exists"):
        lake.add_policy("hourly", "again", start_offset="5 hours", end_offset="0")
    with pytest.raises(DefinitionError, match="policy-overlap"):
        lake.add_policy("hourly", "old", end_offset="4 hours")
    with pytest.raises(DefinitionError, match="policy-window"):
        lake.add_policy("hourly", "old", start_offset="6 hours", end_offset="5 hours")
    with pytest.raises(DefinitionError, match=r"definition\.property"):
        lake.add_policy("hourly", "old", end_offset="5 hours", schedule="0 0 jan * *")
    with pytest.raises(UsageError, match="cannot name a policy"):
        lake.add_policy("hourly", "1st", end_offset="5 hours")
    with pytest.raises(UsageError, match="nothing is said"):
        lake.add_policy("hourly", "old")
    with pytest.raises(UnknownPolicyError, match="known: default"):
        lake.remove_policy("hourly", "old")
    with pytest.raises(UnknownPolicyError):
        lake.run_policy("hourly", "old")
    with lake.writing("hourly"), pytest.raises(LeaseHeldError):
        site.opened().add_policy("hourly", "old", end_offset="5 hours")

    lake.add_policy("hourly", "Old", end_offset="5 hours", order="oldest")
    assert ["default", "old"] == [p.policy.name for p in lake.policies("hourly")]
    assert "metadata" == lake.remove_policy("hourly", "old").kind
    assert "metadata" == lake.add_policy("hourly", max_staleness="none").kind
    assert None is lake.status("hourly")[0].freshness


def test_a_promise_is_judged_by_what_is_not_shown(site: Site) -> None:
    """
    Nothing missing keeps it; a dirty bucket or a version that nobody looked at breaks it in time.
    """
    lake = filled(site, properties={"refresh.max_staleness": "3 hours"})

    def kept(now: str) -> tuple[float | None, bool | None]:
        (status,) = lake.status("hourly", now=now)
        return status.freshness.staleness, status.freshness.is_kept

    assert (0, True) == kept("2034-01-01")
    lake.invalidate("hourly", hour_text(9), hour_text(10))
    assert (3 * HOUR / SECOND, True) == kept("2024-03-01T12:00:00Z")
    assert (4 * HOUR / SECOND, False) == kept("2024-03-01T13:00:00Z")
    lake.refresh("hourly")
    site.tables["trades"].trade(("01:00", "A", 1))
    assert (0, True) == kept("2024-03-01T12:00:00Z")
    assert kept("2094-01-01")[1] is False


def hour_text(n: int) -> str:
    """Return an instant of the first day as text."""
    return (DAY + timedelta(hours=n)).isoformat()


def test_plain_integer_time_needs_an_integer_now(site: Site) -> None:
    """
    Offsets and now are in the column's unit, the clock says nothing, and a schedule is refused.
    """
    trades = site.table("ticks", pa.schema([("ts", pa.int64()), ("sym", pa.string()), ("price", pa.int64())]))
    trades.write([{"ts": t, "sym": "A", "price": t} for t in range(0, 1200, 7)])
    lake = site.lake
    properties = {"refresh.start_offset": "300", "refresh.end_offset": "0"}
    site.hourly(source="ticks", width=100, properties=properties)
    with pytest.raises(DefinitionError, match="policy-schedule"):
        lake.add_policy("hourly", "old", end_offset=300, schedule="@daily")
    with pytest.raises(PolicyNowError, match="no clock"):
        lake.run_policy("hourly")

    done = lake.run_policy("hourly", now=1250)
    assert (1250, Span(1000, 1200)) == (done.now, done.report.window)
    assert [(1250, Span(1000, 1200))] == [(s.last_now, s.window) for s in lake.policies("hourly")]
    (status,) = lake.status("hourly")
    assert [(0, 1000)] == [(max(s.start, 0), s.end) for s in status.outside]
    assert [] == lake.due()
