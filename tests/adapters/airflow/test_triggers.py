from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string
from deltalake import DeltaTable

from materializer.adapters.airflow.tasks.deadlines import tell_stale
from materializer.adapters.airflow.tasks.looking import describe, why_stale
from materializer.adapters.airflow.tasks.sensors import FreshnessSensor
from materializer.adapters.airflow.tasks.triggers import DeltaTableTrigger, FreshnessTrigger
from materializer.api import Materializer
from materializer.config import Config
from tests.adapters.airflow.conftest import BY_CLOCK, HOURLY, START
from tests.tables import append_trades


def test_what_airflow_stored_is_found_again():
    """
    Tasks that an earlier release deferred, and deadlines that it set, are resumed by the paths in Airflow's database.
    """
    for trigger in (DeltaTableTrigger("/t"), FreshnessTrigger("/l", "bars", until="1 hour")):
        path, _ = trigger.serialize()
        assert path == f"materializer.adapters.airflow.triggers.{type(trigger).__name__}"
        assert import_string(path) is type(trigger)
    assert import_string("materializer.adapters.airflow.deadlines.tell_stale") is tell_stale


class Store:
    """The state store of one asset, as the triggerer gives it to a trigger, kept in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        """Return what was set."""
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        """Keep a value."""
        self.values[key] = value


async def next_event(trigger: DeltaTableTrigger, seconds: float = 20) -> Any:
    events = trigger.run()
    try:
        return (await asyncio.wait_for(anext(events), seconds)).payload
    finally:
        await events.aclose()


def restarted(path, store: Store | None = None) -> DeltaTableTrigger:
    """A trigger as Airflow makes it again from what it stored of the first."""
    from airflow.sdk.module_loading import import_string

    name, arguments = DeltaTableTrigger(str(path), 0.05).serialize()
    trigger = import_string(name)(**arguments)
    trigger.asset_state_store = store
    return trigger


def test_a_new_version_fires_once(tmp_path):
    """
    First the table as it is, also when it comes only later; then each new version, several between two looks at once.
    """

    async def watch() -> list[Any]:
        events = restarted(tmp_path / "trades").run()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        append_trades(tmp_path, 1)
        found = [(await waiting).payload]
        for days in ((2,), (3, 4)):
            for day in days:
                append_trades(tmp_path, day)
            found.append((await asyncio.wait_for(anext(events), 20)).payload)
        silent = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not silent.done()
        silent.cancel()
        return [(e["after"], e["version"]) for e in found]

    assert [(None, 0), (0, 1), (1, 3)] == asyncio.run(watch())


def test_a_restart_tells_what_was_committed_meanwhile(tmp_path):
    """
    And nothing when nothing was; a table that was recreated is told although its version is smaller.
    """

    async def watch() -> None:
        store = Store()
        append_trades(tmp_path, 1)
        append_trades(tmp_path, 2)
        events = restarted(tmp_path / "trades", store).run()
        await anext(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        waiting.cancel()
        assert {"materializer.version": 1} == store.values
        with pytest.raises(TimeoutError):
            await next_event(restarted(tmp_path / "trades", store), 0.3)
        append_trades(tmp_path, 3)
        assert (await next_event(restarted(tmp_path / "trades", store)))["version"] == 2
        shutil.rmtree(tmp_path / "trades")
        append_trades(tmp_path, 1)
        assert (await next_event(restarted(tmp_path / "trades", store)))["version"] == 0

    asyncio.run(watch())


def test_freshness_follows_source_and_log(lake, spark):
    """
    Not fresh before anything was materialised, while versions are not captured, or while something before the instant is dirty; then the sensor ends without
    waiting, and the trigger fires once. What a deadline tells judges the promise as it stands.
    """
    opened = Materializer(lake, spark=spark, config=Config())
    opened.apply(HOURLY.format(properties=BY_CLOCK).replace("trades_1h", "trades_new"))
    assert "ever materialised" in why_stale(str(lake), "trades_new")
    opened.drop("trades_new")
    opened.apply(HOURLY.format(properties=BY_CLOCK))
    opened.refresh("trades_1h")
    assert "trades_1h is not staler than 1 hour" in asyncio.run(tell_stale(lake=str(lake), aggregate="trades_1h"))
    assert why_stale(str(lake), "trades_1h") == ""
    append_trades(lake, 9, rows=1)
    assert "the newest is" in why_stale(str(lake), "trades_1h")
    cut = (START + timedelta(days=1)).isoformat()
    opened.refresh("trades_1h", end=cut)
    assert "1 dirty spans" in why_stale(str(lake), "trades_1h")
    assert "trades_1h is staler than 1 hour" in asyncio.run(tell_stale(lake=str(lake), aggregate="trades_1h"))
    assert why_stale(str(lake), "trades_1h", cut) == ""
    assert "1 of them in no policy" not in describe(str(lake), "trades_1h", "2026-01-01T00:00:00Z")[1]

    sensor = FreshnessSensor(task_id="wait", lake=str(lake), aggregate="trades_1h", until=cut)
    assert sensor.execute({}) is None

    async def wait(name: str) -> Any:
        trigger = FreshnessTrigger(str(lake), name, poll_seconds=0.05)
        waiting = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0.5)
        was_done = waiting.done()
        await asyncio.to_thread(opened.refresh, "trades_1h")
        return was_done, (await asyncio.wait_for(waiting, 20)).payload["problem"]

    assert (False, "") == asyncio.run(wait("trades_1h"))
    assert "no aggregate" in asyncio.run(wait("nothing"))[1]


def test_maintenance_of_a_table_fires_nothing(tmp_path):
    """
    The same rows in other files are not told, and a restart does not tell them either; the next change is, from there on.
    """
    store = Store()
    for day in (1, 2):
        append_trades(tmp_path, day)
    asyncio.run(store.aset("materializer.version", 1))
    DeltaTable(str(tmp_path / "trades")).optimize.compact()
    with pytest.raises(TimeoutError):
        asyncio.run(next_event(restarted(tmp_path / "trades", store), 0.5))
    append_trades(tmp_path, 3)

    assert {"after": 2, "version": 3} == {
        k: v for k, v in asyncio.run(next_event(restarted(tmp_path / "trades", store))).items() if k != "path"
    }
