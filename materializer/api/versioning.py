"""Versions of an aggregate: building, publishing, rolling back and giving up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from materializer.api.opened import OpenedLake
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Plan
    from materializer.core.time.grid import Grid
    from materializer.core.time.instants import Instant
    from materializer.services.protocol.decision import RunNote
    from materializer.services.refresh.reports import RunDone
    from materializer.services.versions.build import BuildReport
    from materializer.services.versions.versions import SwitchReport


@watched
class Versioning(OpenedLake):
    """Builds, publishes and gives up next versions."""

    def build(
        self,
        name: str,
        *,
        buckets_per_run: int | None = None,
        order: Literal["newest", "oldest"] = "newest",
        max_runs: int | None = None,
        switch: bool = True,
        as_of: Instant = None,
        publish_anyway: str = "",
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> BuildReport:
        """Build the next version of an aggregate in runs, and publish it when it covers the published version.

        Args:
            name: The aggregate.
            buckets_per_run: Buckets of one run; None sizes runs by source rows.
            order: The end to start from.
            max_runs: Stop after so many runs; the next call continues the build.
            switch: Whether the build is published at the end.
            as_of: Clock of an engine, which closes windows.
            publish_anyway: Reason to accept rows that fail their expectations; the journal records it.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            UsageError: If *buckets_per_run* or *max_runs* is less than 1.
            NothingBuiltError: If there is no next version.
            QualityGateError: If computed rows do not meet the expectations; they are not stored.
            DataError: If rows make a measure fail.
        """
        from materializer.services.versions.build import Builder

        build = self._versions.build_after_switch(name)
        options = replace(
            self._options(build.id, as_of=as_of),
            run_buckets=buckets_per_run,
            is_newest_first=order == "newest",
            max_runs=max_runs,
            publish_anyway=publish_anyway,
        )
        builder = Builder(self._versions, self._refresher)
        return builder.build(name, options, switches=switch, on_plan=on_plan, on_run=on_run)

    def next_grid(self, name: str) -> Grid:
        """Return the grid of the next version of an aggregate.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        return self.grid(self._versions.build_of(self.journal.view().named(name)).id)

    def switch(self, name: str) -> SwitchReport:
        """Publish the next version of an aggregate in one commit, if it covers the published version.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
            NotCoveredError: If it lacks a span or a source version of the published version; nothing was switched.
        """
        return self._versions.switch(name)

    def rollback(self, name: str, *, back: int = 1) -> None:
        """Make a previous version the next one, from its stored partials; :meth:`build` brings it up to date.

        Args:
            name: The aggregate.
            back: Which previous version; 1 is the newest.

        Raises:
            NothingBuiltError: If there are fewer previous versions.
            FrozenHistoryError: If history was frozen since.
        """
        self._versions.rollback(name, back)

    def abandon(self, name: str) -> None:
        """Give the next version up; the published version stays.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        self._versions.abandon(name)
