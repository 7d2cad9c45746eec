"""Maintenance of tables and journal, and frozen history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from materializer.api.opened import OpenedLake
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.time.instants import Instant
    from materializer.services.maintenance.expire import Expiry, Thaw
    from materializer.services.maintenance.maintain import Maintainer, MaintainReport, OnPlan


@watched
class Maintaining(OpenedLake):
    """Maintains tables, and freezes history."""

    def maintain(
        self, name: str | None = None, *, dry_run: bool = False, on_plan: OnPlan = lambda _: None
    ) -> list[MaintainReport]:
        """Rewrite files in order of time, remove unneeded files, and shorten logs and the journal; changes no row.

        Args:
            name: The aggregate; None for all, parents first. The journal comes last each time.
            dry_run: Only return what would be done.
            on_plan: Called with each plan before it is carried out.

        Raises:
            LeaseHeldError: If another live process works on an aggregate; the others are maintained.
        """
        if name is not None:
            self.journal.view().named(name)
        names = self.names() if name is None else [name]
        return self.maintainer.every(names, is_dry_run=dry_run, on_plan=on_plan)

    @property
    def maintainer(self) -> Maintainer:
        """The maintainer, which maintains one aggregate or the journal at a time."""
        from materializer.services.maintenance.maintain import Maintainer

        return Maintainer(self._lake)

    def expire(self, name: str, before: Instant, *, as_stored: bool = False, dry_run: bool = False) -> Expiry:
        """Freeze the history of an aggregate before its raw rows are deleted; writes to no source.

        Args:
            name: The aggregate.
            before: End of the frozen history, rounded down to an edge: ISO text, a ``datetime`` or a ``date``, or an integer for integer time.
            as_stored: Freeze dirty buckets that need their raw rows, too, as they are stored; they stay in the log, stuck.
            dry_run: Only return what would be done.

        Returns:
            The frozen boundary, the statement that deletes the rows below it, and other aggregates that read them.

        Raises:
            ExpireBoundError: If *before* is no time, or nothing was materialised up to there.
            ExpireDirtyError: If buckets below it are dirty and need their raw rows, without *as_stored*.
            ExpireEngineError: If an engine computes the aggregate.
            HistoryBuildingError: While a next version is built.
        """
        from materializer.services.maintenance.expire import Expirer

        return Expirer(self._lake).expire(name, before, as_stored=as_stored, dry_run=dry_run)

    def thaw(self, name: str, *, dry_run: bool = False) -> Thaw:
        """Thaw history: the next refresh computes it from the rows that the source still has.

        Args:
            name: The aggregate.
            dry_run: Only return what would be done.

        Raises:
            HistoryBuildingError: While a next version is built.
        """
        from materializer.services.maintenance.expire import Expirer

        return Expirer(self._lake).thaw(name, dry_run=dry_run)
