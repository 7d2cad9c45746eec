from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.core.refresh.plan import RunReport
from materializer.core.time.spans import Span
from materializer.journal.state import Ended
from tests.services.no_spark import Lake, each, view

SLOW, QUICK = 60.0, 0.4


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with aggregates of hours, days and weeks over the same rows, of which nothing was computed yet."""
    lake = Lake(tmp_path)
    lake.apply(view("hours", each("1 hour")), view("days", each("1 day")), view("weeks", each("7 days")))
    return lake


def took(lake: Lake, name: str, *seconds: float) -> None:
    """Tell the journal how long refreshes of an aggregate took."""
    lake.materialise(name)
    reports = (RunReport(1, seconds=s) for s in seconds)
    ended = tuple(Ended(n, "", "done", Span(0, 1), report) for n, report in enumerate(reports, 1))
    lake.put(replace(lake.state(name), ended=ended))


def other_rows(lake: Lake, name: str, rows: str) -> None:
    """Let an aggregate select other rows of the source, so that nothing of it serves the others."""
    state = lake.state(name)
    lake.put(replace(state, spec={**state.spec, "where": rows}))


def test_short_buckets_come_first_if_all_are_quick(lake: Lake) -> None:
    """
    Whatever the seconds are: the order is the same in each command.
    """
    for name, seconds in (("weeks", 0.1), ("days", 0.3), ("hours", 4.9)):
        took(lake, name, seconds)

    assert ["hours", "days", "weeks"] == lake.opened.names()


def test_a_slow_aggregate_comes_after_those_that_do_not_need_it(lake: Lake) -> None:
    """
    What may be computed from its partials still comes after it.
    """
    for name, seconds in (("hours", QUICK), ("days", SLOW), ("weeks", QUICK)):
        took(lake, name, seconds)
    assert ["hours", "days", "weeks"] == lake.opened.names()

    other_rows(lake, "days", "v > 3")
    assert ["hours", "weeks", "days"] == lake.opened.names()


def test_one_slow_refresh_of_many_makes_no_aggregate_slow(lake: Lake) -> None:
    """
    The median of the recent ones counts, as the first of a day may have started Spark.
    """
    other_rows(lake, "hours", "v > 3")
    for name in ("days", "weeks"):
        took(lake, name, QUICK)
    took(lake, "hours", QUICK, SLOW, QUICK)
    assert "hours" == lake.opened.names()[0]

    took(lake, "hours", SLOW, QUICK, SLOW)
    assert "hours" == lake.opened.names()[-1]


def test_what_was_never_computed_comes_last(lake: Lake) -> None:
    """
    Its first materialization reads everything; what may be computed from it waits.
    """
    other_rows(lake, "hours", "v > 3")
    took(lake, "weeks", QUICK)
    took(lake, "days", SLOW)

    assert ["days", "weeks", "hours"] == lake.opened.names()


def test_a_child_of_a_quick_parent_does_not_wait_for_a_slow_stranger(lake: Lake) -> None:
    """
    Each comes after what it reads, and a slow aggregate comes after both.
    """
    other_rows(lake, "hours", "v > 3")
    took(lake, "hours", SLOW)
    took(lake, "days", QUICK)
    state = lake.state("weeks")
    lake.put(replace(state, source=replace(state.source, path=f"{lake.root}/days/output", table_id="days")))
    took(lake, "weeks", QUICK)

    assert ["days", "weeks", "hours"] == lake.opened.names()
