"""Repair of tables and journal, and backups of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from materializer.api.opened import OpenedLake
from materializer.errors import JournalError
from materializer.lake import places
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.spec.spec import AggregateSpec
    from materializer.journal.state import AggregateState
    from materializer.services.commit.lake import Lake
    from materializer.services.repair.apply import RepairReport
    from materializer.services.repair.backup import BackupReport, RestoreReport


@watched
class Repairing(OpenedLake):
    """Repairs aggregates, and copies and restores the journal."""

    def repair(self, name: str, *, dry_run: bool = False) -> RepairReport:
        """Make the tables of an aggregate agree with the journal again; buckets whose rows are not certain become dirty.

        Args:
            name: The aggregate.
            dry_run: Only return the problems and what would be done; starts no JVM.

        Raises:
            LeaseHeldError: If a live process works on it; nothing was written.
            JournalError: If the journal, or the aggregate's definition in it, cannot be read.
        """
        from materializer.services.repair.apply import Repairer

        repairer = Repairer(self._lake)
        return repairer.plan(name) if dry_run else repairer.repair(name)

    def unusable(self) -> list[JournalError]:
        """Return an error for each aggregate with an unreadable event, and one for tables of ours without a journal."""
        from materializer.services.repair.lost import lost_error

        view = self.journal.view()
        lost = lost_error(self._lake.root, view)
        return [*(broken.error() for broken in view.broken.values()), *([] if lost is None else [lost])]

    def lost(self) -> list[str]:
        """Return the names of aggregates whose tables are in the lake, but which the journal does not know."""
        from materializer.services.repair.apply import Repairer

        return Repairer(self._lake).lost()

    def take_over(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec], *, dry_run: bool = False
    ) -> list[RepairReport]:
        """Apply definitions after the journal was lost, with the tables in the lake; everything of them becomes dirty.

        A journal that cannot be read is renamed, and a new one is created.

        Args:
            what: As in :meth:`apply`.
            dry_run: Only return what would be done; starts no JVM.

        Raises:
            DefinitionError: With every problem of every definition.
        """
        from materializer.services.repair.adopt import TakeOver

        specs, _ = self._texts.read(what)
        work = TakeOver(self._lake, self._definitions)
        return work.plan(specs) if dry_run else work.take_over(specs)

    def backup(self, folder: str | Path) -> BackupReport:
        """Copy one version of the journal; refreshes may run meanwhile. Tables are not copied.

        Args:
            folder: A new or an empty folder.

        Raises:
            UsageError: If the folder is not empty.
            JournalError: If the copy cannot be read back.
        """
        from materializer.services.repair.backup import Backups

        return Backups(self._lake).backup(places.normalised(folder))

    def restore(self, folder: str | Path, *, as_stored: bool = False, dry_run: bool = False) -> RestoreReport:
        """Replace the journal by that of a backup; the replaced one is renamed.

        Args:
            folder: A folder that :meth:`backup` wrote.
            as_stored: Freeze rows of ours that outlived their raw rows, as they are stored.
            dry_run: Only return the differences.

        Raises:
            UsageError: If the folder has no complete backup.
            JournalError: If the backup is damaged.
            LeaseHeldError: If a live process works on an aggregate; nothing was written.
            FrozenHistoryError: If a refresh would remove such rows afterwards, without *as_stored*.
        """
        from materializer.services.repair.backup import Backups

        backups, place = Backups(self._lake), places.normalised(folder)
        return backups.plan(place) if dry_run else backups.restore(place, as_stored=as_stored)

    def writing(self, name: str) -> AbstractContextManager[Any]:
        """Hold the lease of an aggregate during a block, after recovery of an open refresh; for code that writes.

        Args:
            name: The aggregate.
        """
        return _leased(self._lake, name)


@contextmanager
def _leased(lake: Lake, name: str) -> Iterator[AggregateState]:
    with lake.lease(name) as lease:
        yield lease.state
