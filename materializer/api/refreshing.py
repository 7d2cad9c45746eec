"""Plans, refreshes, backfills and invalidations."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from materializer.api.opened import OpenedLake
from materializer.errors import MaterializerError
from materializer.services.activity import ActivityKind
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.printed import PrintedSpan
    from materializer.core.refresh.plan import Plan
    from materializer.core.time.instants import Instant
    from materializer.services.definitions.sources import MissingFeed
    from materializer.services.protocol.decision import RunNote
    from materializer.services.refresh.preview import Preview
    from materializer.services.refresh.reports import RefreshReport, RunDone

Strategy: TypeAlias = Literal["merge", "retract", "recompute", "recompute-keys", "roll-up", "scan"]


@watched
class Refreshing(OpenedLake):
    """Plans and carries out refreshes."""

    def together(self, names: Collection[str] | None = None) -> AbstractContextManager[None]:
        """Read what some aggregates read of the same table once during a block that refreshes or plans them.

        What was read is in memory during the block, up to ``local_rows`` rows and a quarter of ``local_memory``. A table is forgotten when
        each of its aggregates was refreshed or planned once. What does not fit is read again. Rows and reports are the same as without the block.

        Args:
            names: The aggregates; None for all.
        """
        return self._lake.together(self.names() if names is None else names)

    def plan(
        self, name: str, start: Instant = None, end: Instant = None, *, force: bool = False, strict: bool = False
    ) -> Preview:
        """Return what a refresh of the window would do; writes nothing.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            force: Compute clean buckets again, too.
            strict: Refuse a plan that is not incremental.

        Raises:
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            NotIncrementalError: If *strict* refuses the plan.
        """
        from materializer.services.refresh.preview import Previewer

        options = replace(self._options(name, start, end), force=force, strict=strict)
        return Previewer(self._lake).preview(name, options)

    def plan_chain(
        self, name: str, start: Instant = None, end: Instant = None, *, force: bool = False, strict: bool = False
    ) -> list[Preview]:
        """Return what refreshing an aggregate and before it all that it reads would do, parents first; writes nothing.

        What a parent would compute is dirty in the plan of its child.

        Args:
            name: The aggregate.
            start: As in :meth:`plan`.
            end: As in :meth:`plan`.
            force: As in :meth:`plan`.
            strict: As in :meth:`plan`.

        Raises:
            RefreshWindowTooSmallError: If the window holds no whole bucket of one of them.
            NotIncrementalError: If *strict* refuses a plan.
        """
        from materializer.services.refresh.preview import Previewer

        return Previewer(self._lake).chain(
            [(n, replace(self._options(n, start, end), force=force, strict=strict)) for n in self.chain(name)]
        )

    def refresh(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        force: bool = False,
        strict: bool = False,
        as_of: Instant = None,
        max_runs: int | None = None,
        publish_anyway: str = "",
        accept_fewer_rows: bool = False,
        executor: Literal["auto", "local", "spark"] | None = None,
        strategy: Strategy | None = None,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Refresh every whole bucket of [start, end), in runs; each run reflects one source version.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            force: Compute clean buckets again, too.
            strict: Refuse a plan that is not incremental.
            as_of: Clock of an engine, which closes windows; it never goes back.
            max_runs: Stop after so many runs; the rest stays dirty.
            publish_anyway: Reason to publish rows that fail their expectations; the journal records it.
            accept_fewer_rows: Compute history from the rows that the source has, although rows are missing whose deletion no
                change feed shows.
            executor: What computes: this process, Spark, or whichever fits; by default as configured.
            strategy: The one strategy that is wanted where it is allowed, elsewhere a recompute; by default the cheapest.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            UsageError: If *max_runs* is less than 1.
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            FrozenWindowError: If the whole window is frozen; RetiredWindowError, if no bucket of it is retained.
            NotIncrementalError: If *strict* refuses the plan.
            NotLocalError: If *executor* is ``local`` and the process cannot compute it without Spark.
            FewerRowsError: If history would be computed from fewer rows than before, and no change feed shows their deletion.
            QualityGateError: If computed rows do not meet the expectations; they are not published, and stay dirty.
            DataError: If rows make a measure fail; the error names their buckets.
            OutputHandlerError: If the output handler failed; the refreshed rows are published.
        """
        options = replace(
            self._options(name, start, end, as_of),
            force=force,
            strict=strict,
            max_runs=max_runs,
            publish_anyway=publish_anyway,
            accept_fewer_rows=accept_fewer_rows,
            executor=executor or "",
            strategy=strategy or "",
        )
        return self._refresher.refresh(name, options, on_plan=on_plan, on_run=on_run)

    def backfill(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        buckets_per_run: int | None = None,
        order: Literal["newest", "oldest"] = "newest",
        max_runs: int | None = None,
        force: bool = False,
        publish_anyway: str = "",
        accept_fewer_rows: bool = False,
        executor: Literal["auto", "local", "spark"] | None = None,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Refresh a window in runs; a stopped backfill can be continued, because the rest stays dirty.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            buckets_per_run: Buckets of one run; None sizes runs by source rows.
            order: The end to start from.
            max_runs: Stop after so many runs.
            force: Compute clean buckets again, too.
            publish_anyway: Reason to publish rows that fail their expectations; the journal records it.
            accept_fewer_rows: As in :meth:`refresh`.
            executor: What computes: this process, Spark, or whichever fits; by default as configured.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            UsageError: If *buckets_per_run* or *max_runs* is less than 1.
            QualityGateError: As :meth:`refresh`, which may raise other errors, too; finished runs stay.
        """
        options = replace(
            self._options(name, start, end),
            run_buckets=buckets_per_run,
            is_newest_first=order == "newest",
            max_runs=max_runs,
            force=force,
            publish_anyway=publish_anyway,
            accept_fewer_rows=accept_fewer_rows,
            executor=executor or "",
            activity=ActivityKind.BACKFILL,
        )
        return self._refresher.refresh(name, options, on_plan=on_plan, on_run=on_run)

    def missing_feed(self, name: str) -> MissingFeed | None:
        """Return how the source of an aggregate gets a change feed; None if it has one, needs none, or cannot be read.

        Args:
            name: The aggregate.
        """
        from materializer.services.definitions.sources import missing_feed

        with suppress(MaterializerError):
            return missing_feed(self.journal.view().named(name).source, self._lake.root)
        return None

    def invalidate(self, name: str, start: Instant = None, end: Instant = None, *, reason: str = "") -> PrintedSpan:
        """Declare a window dirty, for changes that no source version shows.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            reason: The reason, for the journal.

        Returns:
            The dirty span: the window rounded outward to whole buckets.

        Raises:
            FrozenWindowError: If the whole window is frozen; RetiredWindowError, if no bucket of it is retained.
        """
        from materializer.core.printed import PrintedSpan
        from materializer.services.refresh.invalidate import Invalidator

        span = self.grid(name).cover(self._window(name, start, end))
        dirty = Invalidator(self._lake).invalidate(name, span, reason)
        return PrintedSpan(dirty.start, dirty.end, self.grid(name).shown)
