"""Versions of an aggregate: built beside what is published, switched, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from materializer.api.opened import OpenedLake
from materializer.core.refresh.plan import Plan
from materializer.core.time.grid import Grid
from materializer.core.time.instants import Instant
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RunDone
from materializer.services.versions.build import Builder, BuildReport
from materializer.services.versions.versions import SwitchReport
from materializer.spark.runtime.jvm import watched


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
        """Build the next version of an aggregate in runs, and publish it once it covers what is published.

        Args:
            name: The aggregate.
            buckets_per_run: Buckets one run takes; None sizes runs by source rows.
            order: Which end is done first.
            max_runs: Stop after so many runs; the next call goes on.
            switch: Whether it is published at the end.
            as_of: Clock instant that closes windows of an engine.
            publish_anyway: Why what fails its expectations is built all the same; recorded.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UsageError: If *buckets_per_run* or *max_runs* is less than 1.
            NothingBuiltError: If there is no next version.
            QualityGateError: If what was computed does not meet the expectations; it is not kept.
            DataError: If rows make a measure fail.
        """
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
        """Return how the next version of an aggregate divides time.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        return self.grid(self._versions.build_of(self.journal.view().named(name)).id)

    def switch(self, name: str) -> SwitchReport:
        """Publish the next version of an aggregate in one commit, if it covers what is published.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
            NotCoveredError: If it lacks a span or a source version that readers have; nothing was switched.
        """
        return self._versions.switch(name)

    def rollback(self, name: str, *, back: int = 1) -> None:
        """Make a previous version the next one, from its kept partials; :meth:`build` brings it up to date.

        Args:
            name: The aggregate.
            back: Which of those that are kept; 1 is the newest.

        Raises:
            NothingBuiltError: If so many are not kept.
            FrozenHistoryError: If history was frozen since.
        """
        self._versions.rollback(name, back)

    def abandon(self, name: str) -> None:
        """Give the next version up; what is published stays.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        self._versions.abandon(name)
