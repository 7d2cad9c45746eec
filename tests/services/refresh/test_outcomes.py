"""What a refresh says of itself when it does nothing; no JVM."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from materializer.adapters.airflow.tasks.results import summary
from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import refreshing
from materializer.adapters.cli.output import TextOutput
from materializer.api import Materializer
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import parse
from materializer.errors import TableNotFoundError, UsageError
from tests.services.no_spark import Lake, each, view

POLICY = "TBLPROPERTIES ('refresh.start_offset' = '3 days')\nAS"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an aggregate by days, nothing of which was materialised."""
    lake = Lake(tmp_path)
    lake.apply(view("days", each("1 day")).replace("\nAS", f"\n{POLICY}", 1))
    return lake


@pytest.mark.parametrize("most", [0, -1])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, most: m.refresh("days", max_runs=most),
        lambda m, most: m.refresh("days", "2024-01-01", "2024-01-02", max_runs=most, force=True),
        lambda m, most: m.backfill("days", max_runs=most),
        lambda m, most: m.build("days", max_runs=most),
    ],
    ids=["refresh", "forced", "backfill", "build"],
)
def test_no_run_at_all_cannot_be_asked_for(lake: Lake, call: Callable[[Materializer, int], object], most: int) -> None:
    """It would be told that all is well, and nothing was looked at; a source without rows is no exception."""
    lake.apply(view("days", each("1 day"), measure="max(v) AS v"))
    if call.__code__.co_names[0] == "build":
        lake.materialise("days")
        lake.apply(view("days", each("1 day"), measure="min(v) AS v"))
    with pytest.raises(UsageError, match=f"got max_runs = {most}"):
        call(lake.opened, most)


def test_a_window_without_a_bucket_is_not_called_up_to_date(lake: Lake) -> None:
    """Where something is dirty; the text, and what Airflow logs, say what was the matter."""
    lake.filled("days", parse("2024-03-04", TimeType.TIMESTAMP))
    report = lake.opened.refresh("days", "2030-01-01")
    assert ("empty-window", None) == (report.outcome, report.window)
    assert report.left
    out = io.StringIO()
    call = CommandCall(TextOutput(out, io.StringIO()), opened=lake.opened)
    assert guarded(call, lambda: refreshing.refresh(call, "days", start="2030-01-01")) == 0
    assert "up to date" not in out.getvalue()
    assert "days: nothing done, no whole bucket in the window, at source version 0" in out.getvalue()
    assert "stays dirty" in out.getvalue()
    told = summary({"refreshes": [{"name": "days", "outcome": report.outcome, "source_version": 0, "runs": []}]})
    assert told == "nothing was to do: days has no whole bucket in the window at source version 0"


def test_a_policy_without_a_bucket_is_not_called_up_to_date(lake: Lake) -> None:
    """Its window, which has no end of its own, begins after the newest row."""
    lake.filled("days", parse("2024-03-04", TimeType.TIMESTAMP))
    done = lake.opened.run_policy("days", now="2030-01-01").report
    assert ("empty-window", None, True) == (done.outcome, done.window, bool(done.left))


@pytest.mark.parametrize("which", ["partials", "output"])
def test_an_aggregate_whose_table_is_gone_is_not_called_up_to_date(lake: Lake, which: str) -> None:
    """Nothing is dirty, and yet it cannot be read; the hint says which table it is and how to get it back."""
    lake.filled("days", parse("2024-03-04", TimeType.TIMESTAMP))
    lake.opened.refresh("days")
    assert "up-to-date" == lake.opened.refresh("days").outcome
    path = Path(lake.root, "days", which)
    path.rename(path.with_name("elsewhere"))

    with pytest.raises(TableNotFoundError) as refused:
        lake.opened.refresh("days")

    assert f"it is the {which} table of 'days'" in refused.value.hint
    assert "materializer repair days" in refused.value.hint
