"""Triggers for a new version of a Delta table, and for an aggregate that became fresh. They neither need a JVM nor block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from materializer import config as configuration
from materializer.adapters.airflow.tasks.looking import why_stale
from materializer.errors import MaterializerError, NotADeltaTableError, TableNotFoundError
from materializer.lake import places
from materializer.lake.log import has_change, latest_version, tail
from materializer.lake.store_settings import configure

_SEEN: Final = "materializer.version"
_STORED: Final = "materializer.adapters.airflow.triggers"
"""The module by which Airflow's database names these classes; it never changes."""


class DeltaTableTrigger(BaseEventTrigger):
    """Fires when a Delta table has a new version with a change; for an ``AssetWatcher``.

    Several versions between two checks are one event. The state store of the watched assets has the last reported version, so
    a restarted triggerer reports the commits of its downtime once. At the first check of a table, the trigger reports its
    present version, so that readers can catch up. If the table does not exist yet, the trigger waits for it.

    Args:
        path: Folder of the table, a path or a URL.
        poll_seconds: Interval between two checks.
        config: Configuration file, or None; a table on a store needs its settings of stores.
    """

    def __init__(self, path: str, poll_seconds: float = 30.0, config: str | None = None) -> None:
        super().__init__()
        self.path = path
        self.poll_seconds = poll_seconds
        self.config = config

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        arguments = {"path": self.path, "poll_seconds": self.poll_seconds}
        return f"{_STORED}.DeltaTableTrigger", arguments | ({} if self.config is None else {"config": self.config})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each check that finds another version than the last reported one."""
        reported = await self._reported()
        if not places.is_local(self.path):
            configure(configuration.read(self.config).storage)
        while True:
            newest = await asyncio.to_thread(self._newest, reported)
            if newest is not None and newest != reported:
                if await asyncio.to_thread(self._is_news, reported, newest):
                    self.log.info("%s has version %s; told was %s", self.path, newest, reported)
                    yield TriggerEvent({"path": self.path, "version": newest, "after": reported})
                # stored after the event: a repeated event is a refresh without work, but a lost event is stale data
                reported = newest
                if self.asset_state_store is not None:
                    await self.asset_state_store.aset(_SEEN, newest)
            await asyncio.sleep(self.poll_seconds)

    def _is_news(self, reported: int | None, newest: int) -> bool:
        """Return whether a version may have changed rows; maintenance of a table needs no reaction."""
        try:
            return reported is None or newest < reported or has_change(self.path, reported, newest)
        except MaterializerError as exc:
            self.log.warning("%s cannot be read, and may have changed: %s", self.path, exc)
            return True

    async def _reported(self) -> int | None:
        if self.asset_state_store is None:
            return None
        version = await self.asset_state_store.aget(_SEEN)
        return version if isinstance(version, int) else None

    def _newest(self, reported: int | None) -> int | None:
        try:
            # checking an unchanged table looks at two files, or lists once, however long the log is
            if reported is not None and (run := tail(self.path, reported)):
                return reported + len(run) - 1
            return latest_version(self.path)
        except (TableNotFoundError, NotADeltaTableError) as exc:
            self.log.debug("%s is not there yet: %s", self.path, exc)
        except (MaterializerError, OSError) as exc:
            self.log.warning("%s cannot be read: %s", self.path, exc)
        return None


class FreshnessTrigger(BaseTrigger):
    """Fires once, when an aggregate is fresh.

    Args:
        lake: Root folder of the lake.
        aggregate: Name of the aggregate.
        until: Only the time before this instant has to be fresh; None for everything.
        config: Configuration file, or None.
        poll_seconds: Interval between two checks.
    """

    def __init__(
        self,
        lake: str,
        aggregate: str,
        until: str | None = None,
        config: str | None = None,
        poll_seconds: float = 30.0,
    ) -> None:
        super().__init__()
        self.lake = lake
        self.aggregate = aggregate
        self.until = until
        self.config = config
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        names = ("lake", "aggregate", "until", "config", "poll_seconds")
        return f"{_STORED}.FreshnessTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``{"problem": ""}``, or the reason why freshness cannot be determined."""
        try:
            while why := await asyncio.to_thread(why_stale, self.lake, self.aggregate, self.until, self.config):
                self.log.info("%s", why)
                await asyncio.sleep(self.poll_seconds)
        except MaterializerError as exc:
            yield TriggerEvent({"problem": f"{exc.message} (hint: {exc.hint})"})
        else:
            yield TriggerEvent({"problem": ""})
