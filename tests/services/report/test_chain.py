"""The freshness of an aggregate that reads another one: that of the whole chain."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import pytest

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import looking
from materializer.adapters.cli.output import JsonOutput, TextOutput
from materializer.errors import QualityGateError
from materializer.services.observe.withheld import withheld
from tests.counting import calls_to
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000
PROMISE = "\nTBLPROPERTIES ('refresh.max_staleness' = '1 hour')\nAS"


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with hours, days of them and weeks of these, all refreshed, and a row that came since."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (25 * HOUR, 3))
    lake.apply(
        view("hours", each("1 hour")),
        view("days", each("1 day"), source="hours"),
        view("weeks", each("1 week"), source="days").replace("\nAS", PROMISE, 1),
    )
    for name in ("hours", "days", "weeks"):
        lake.opened.refresh(name)
    lake.add((2 * HOUR, 5))
    return lake


def states(lake: LocalLake) -> dict[str, tuple[str, str]]:
    """Return the state of each aggregate, and which one it waits for."""
    return {s.name: (s.state, s.waits_for.name if s.waits_for else "") for s in lake.opened.status()}


def printed(lake: LocalLake, *, is_json: bool = False) -> str:
    """Return what `status` prints."""
    out = io.StringIO()
    call = CommandCall((JsonOutput if is_json else TextOutput)(out, io.StringIO()), opened=lake.opened)
    assert guarded(call, lambda: looking.status(call)) == 0
    return out.getvalue()


def test_a_rollup_is_as_fresh_as_what_it_reads(lake: LocalLake) -> None:
    """While raw rows are not captured, nothing of the chain is fresh, and each names the one that has to be refreshed first."""
    assert {"hours": ("behind", ""), "days": ("behind", "hours"), "weeks": ("behind", "hours")} == states(lake)
    lake.opened.refresh("hours")
    assert {"hours": ("fresh", ""), "days": ("behind", ""), "weeks": ("behind", "days")} == states(lake)
    lake.opened.refresh("days")
    lake.opened.refresh("weeks")
    assert {("fresh", "")} == set(states(lake).values())


def test_what_is_dirty_above_holds_a_rollup_up(lake: LocalLake) -> None:
    """A bucket that was invalidated, or an aggregate that was never filled, is a reason like any other."""
    for name in ("hours", "days", "weeks"):
        lake.opened.refresh(name)
    lake.opened.invalidate("days", "1970-01-01", "1970-01-02")
    assert {"hours": ("fresh", ""), "days": ("dirty", ""), "weeks": ("behind", "days")} == states(lake)


def test_text_and_json_name_the_one_that_is_waited_for(lake: LocalLake) -> None:
    """Both say its state, too; the text has the command that refreshes it first."""
    found = {s["name"]: (s["state"], s["waits_for"]) for s in json.loads(printed(lake, is_json=True))["aggregates"]}
    assert ("behind", {"name": "hours", "state": "behind"}) == found["weeks"]
    text = " ".join(printed(lake).split())
    assert "weeks: it reads 'hours', which is behind; 'materializer refresh weeks --chain' refreshes that first" in text


def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLake:
    """Return a lake with an aggregate whose gate withholds an hour, and days of it."""
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    most = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "v", "max_value": 10}}
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": [most]}))
    of_buckets = "\nTBLPROPERTIES ('quality.on_failure' = 'buckets')\nAS"
    lake.apply(view("hourly", each("1 hour")).replace("\nAS", of_buckets, 1))
    lake.apply(view("days", each("1 day"), source="hourly"))
    lake.add((0, 1), (25 * HOUR, 30))
    with suppress(QualityGateError):
        lake.opened.refresh("hourly")
    lake.opened.refresh("days")
    return lake


def test_what_a_gate_withholds_above_is_for_the_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh of the chain does not help while the gate withholds it; it does where something else is dirty, too."""
    lake = gated(tmp_path, monkeypatch)

    text = " ".join(printed(lake).split())
    assert "days: it reads 'hourly', which is dirty: its gate withholds that; 'materializer doctor hourly' says" in text
    assert "--chain" not in text
    assert "the gate withholds" in str(lake.opened.doctor("hourly"))
    lake.opened.invalidate("hourly", "1970-01-01", "1970-01-01T01:00:00Z")
    assert "'materializer refresh days --chain' refreshes that first" in " ".join(printed(lake).split())


def test_what_a_gate_withholds_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each aggregate, however many read it."""
    lake = gated(tmp_path, monkeypatch)
    lake.apply(view("weeks", each("1 week"), source="hourly"))

    assert 3 == calls_to(withheld, lambda: tuple(lake.opened.status()))


def test_the_page_names_it_too(lake: LocalLake) -> None:
    """In the list of the lake, beside the state."""
    found = {a["name"]: (a["state"], a["why"]) for a in lake.opened.report_data()["aggregates"]}
    assert ("behind", "it reads hours, which is behind") == found["days"]


def test_a_promise_is_about_the_whole_chain(lake: LocalLake) -> None:
    """The oldest change that is not shown may wait far above: a promise of an hour is broken where raw rows wait for years."""
    for name in ("hours", "days", "weeks"):
        lake.opened.refresh(name)
    assert [True] == [s.freshness.is_kept for s in lake.opened.status("weeks") if s.freshness]
    lake.opened.invalidate("hours", "1970-01-01", "1970-01-02")
    assert [False] == [s.freshness.is_kept for s in lake.opened.status("weeks") if s.freshness]
