"""Backup and restore of the journal. Tables are not copied, because they can be computed from their sources.

```
restore:  check the copy ─▶ lease of every aggregate and build ─▶ fence open refreshes ─▶ make ready beside ─▶ rename, rename ─▶ look
```

A restored journal knows less than the tables. The refresh numbers in the tables show that. A repair then makes everything of
the aggregate dirty. A build whose tables do not agree with the journal is dropped instead, because no reader has it yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import (
    NOTHING,
    FrozenHistoryError,
    JournalError,
    LeaseHeldError,
    MaterializerError,
    UsageError,
)
from materializer.journal.events import Dropped, Event, Frozen, LeaseReleased, LeaseTaken, Registered
from materializer.journal.journal import Journal
from materializer.journal.snapshot import Manifest, copy_journal, manifest_of, refuse_foreign, seal
from materializer.journal.state import AggregateState
from materializer.journal.store import FOLDER, RESTORING
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.failures import translated, unfit
from materializer.lake.links import refuse as refuse_links
from materializer.lake.write.commit import fence
from materializer.services import processes
from materializer.services.aggregate import Aggregate
from materializer.services.commit.lake import Lake
from materializer.services.observe import stored_extent
from materializer.services.repair.diagnose import diagnose
from materializer.services.repair.set_aside import put_aside

ATTEMPTS: Final = 50
_COPY: Final = "copy"
"""Folder of the restored journal until it is complete."""


class BackupReport(Printed, Struct, frozen=True):
    """The result of a backup.

    Args:
        folder: Its folder.
        manifest: Its manifest.
        seconds: Wall time.
    """

    folder: str
    manifest: Manifest
    seconds: float = 0.0


class TableComparison(Struct, frozen=True):
    """One aggregate, compared between the backup and the journal that it replaces.

    Args:
        name: The aggregate.
        backup: Last refresh number in the backup, None without the aggregate.
        current: Last refresh number in the current journal, None without the aggregate.
        change: ``same``, ``older`` or ``newer`` (the backup's state), ``gone`` (only the current journal has it), ``back``
            (only the backup has it) or ``another`` (dropped and created again in between).
    """

    name: str
    backup: int | None
    current: int | None
    change: str


class Outlived(Struct, frozen=True):
    """Rows of an aggregate that outlived their raw rows, and that the restored journal would let a refresh remove.

    Args:
        name: The aggregate.
        edge: The edge below which its tables hold rows and its source has none.
        below: The same as text.
        groups: About how many groups they are.
    """

    name: str
    edge: int
    below: str
    groups: int


class RestoreReport(Printed, Struct, frozen=True):
    """The result of a restore, or of a dry run of it.

    Args:
        folder: The folder of the backup.
        manifest: Its manifest.
        outcome: ``restored``, or ``planned`` after a dry run.
        differences: The comparison of each aggregate of either journal.
        problem: Why the current journal cannot be read, "" when it can.
        aside: New path of the replaced journal, "" without one.
        repairs: Aggregates whose tables do not agree with the restored journal: name → problems.
        given_up: Aggregates whose build was dropped, because its tables do not agree with the backup.
        seconds: Wall time.
        outlived: What a refresh would remove, because the backup does not know that it is frozen.
    """

    folder: str
    manifest: Manifest
    outcome: str
    differences: tuple[TableComparison, ...]
    problem: str = ""
    aside: str = ""
    repairs: Mapping[str, tuple[str, ...]] | None = None
    given_up: tuple[str, ...] = ()
    seconds: float = 0.0
    outlived: tuple[Outlived, ...] = ()

    def _tables(self) -> list[PrintedTable]:
        repairs = (self.repairs or {}).items()
        pairs = [
            ("problem", self.problem),
            ("renamed to", self.aside),
            ("to repair", "\n".join(f"{name}: {'; '.join(problems)}" for name, problems in repairs)),
            ("given up", ", ".join(self.given_up)),
            ("would be removed", "\n".join(f"{each.name} below {each.below}" for each in self.outlived)),
            ("took", f"{self.seconds:.2f} s"),
        ]
        rows = [(each.name, each.backup, each.current, each.change) for each in self.differences]
        header = ("aggregate", "refresh in the backup", "refresh now", "change")
        return [PrintedTable(f"{self.folder}: {self.outcome}", header, rows), facts("", pairs)]


class Backups(Struct):
    """Makes and restores backups of the journal of one lake."""

    lake: Lake

    def backup(self, folder: str) -> BackupReport:
        """Copy one version of the journal into a new or empty folder, and read the copy; refreshes may run meanwhile.

        Raises:
            UsageError: If the folder is not empty or inside the journal's, or the Delta library could not read a table there.
            JournalError: If the journal cannot be read, or the copy differs from it.
            StorageError: If the path cannot be a folder, or cannot be accessed or written to.
        """
        began = time.perf_counter()
        with translated(str(folder), "looking at"):
            is_taken = places.exists(folder) and (not places.is_folder(folder) or bool(places.names(folder)))
        if is_taken:
            raise UsageError(f"'{folder}' is not empty", hint="name a new folder for each backup")
        place = places.absolute(folder)
        if any(f"{place}/".startswith(f"{self.lake.root}/{own}/") for own in (FOLDER, RESTORING)):
            message = f"'{folder}' is inside the journal's own folder, and would be lost together with it"
            raise UsageError(message, hint="name a folder elsewhere, better on another disk or in another bucket")
        if reason := unfit(place):
            message = f"a backup in '{folder}' could not be opened again with the Delta library: {reason}"
            raise UsageError(message, hint="name another folder")
        view = copy_journal(self.lake.root, place)
        if view.broken:
            error = next(iter(view.broken.values())).error()
            raise JournalError(error.message, hint=error.hint, wrote=f"the copy in '{folder}' is no backup")
        made_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        numbers = {s.name: s.written_n for s in sorted(view.states.values(), key=lambda s: s.name)}
        manifest = Manifest(made_at, self.lake.root, view.version, numbers)
        self.lake.on_checkpoint("backup_seal")
        seal(place, manifest)
        return BackupReport(folder, manifest, time.perf_counter() - began)

    def plan(self, folder: str) -> RestoreReport:
        """Return what a restore of *folder* would do; writes nothing."""
        manifest, view = self._checked(folder)
        current, problem = self._current()
        outlived = tuple(self._outlived(view, current))
        return RestoreReport(folder, manifest, "planned", _differences(view, current), problem, outlived=outlived)

    def restore(self, folder: str, *, as_stored: bool = False) -> RestoreReport:
        """Replace the journal by that of a backup, and rename the replaced one.

        Args:
            folder: The folder of the backup.
            as_stored: Whether rows of ours that outlived their raw rows are frozen as they are stored.

        Raises:
            UsageError: If the folder has no complete backup.
            LeaseHeldError: If a live process works on an aggregate or its next version; nothing was written.
            JournalError: If the backup cannot be read, or leads out of its folder.
            OutsideLakeError: If the folder of the journal is a link.
            FrozenHistoryError: If a refresh would remove such rows, without *as_stored*; nothing was written.
        """
        began, root = time.perf_counter(), self.lake.root
        refuse_links(root, (FOLDER, RESTORING))
        self._checked(folder)
        self._end_interrupted()
        planned = self.plan(folder)
        if planned.outlived and not as_stored:
            raise _would_remove(planned)
        current, _ = self._current()
        taken = self._leased(current)
        ready = f"{root}/{RESTORING}"
        try:
            self._fence(current)
            self.lake.on_checkpoint("restore_copy")
            places.delete_folder(ready, ignore_errors=True)
            copy_journal(places.absolute(folder), f"{ready}/{_COPY}")
            if current is not None:
                self._carry_on(Journal(f"{ready}/{_COPY}"), current)
            self._freeze(Journal(f"{ready}/{_COPY}"), planned.outlived)
            given_up = self._given_up(Journal(f"{ready}/{_COPY}"))
            places.move_folder(f"{ready}/{_COPY}/{FOLDER}", f"{ready}/{FOLDER}")
        except BaseException:
            self._give_back(taken)
            places.delete_folder(ready, ignore_errors=True)
            raise
        self.lake.on_checkpoint("restore_aside")
        aside = put_aside(f"{root}/{FOLDER}") if places.exists(f"{root}/{FOLDER}") else ()
        self.lake.on_checkpoint("restore_put")
        places.move_folder(f"{ready}/{FOLDER}", f"{root}/{FOLDER}")
        self.lake.on_checkpoint("restore_clean")
        places.delete_folder(ready, ignore_errors=True)
        self.lake.journal.reopen()
        return RestoreReport(
            planned.folder,
            planned.manifest,
            "restored",
            planned.differences,
            planned.problem,
            "".join(aside),
            self._repairs(),
            given_up,
            time.perf_counter() - began,
            planned.outlived,
        )

    def _outlived(self, view: View, current: View | None) -> Iterator[Outlived]:
        """Yield what a refresh would remove after the restore: no current journal knows up to where history is frozen.

        A repair, which tables that do not agree need first, freezes by itself where the definition has a retention or something was frozen.
        """
        for state in sorted(view.states.values(), key=lambda s: s.name):
            if current is not None and state.id in current.states:
                continue
            with suppress(MaterializerError):
                aggregate = self.lake.aggregate(state)
                edge = stored_extent.outlived_edge(state, aggregate, view.states)
                if edge <= state.frozen or self._is_frozen_again(state, aggregate, view):
                    continue
                below = Span(NEG_INF, edge)
                groups = stored_extent.partials(aggregate).rows_in(SpanSet.of(below))
                yield Outlived(state.name, edge, render(edge, aggregate.definition.grid.shown), groups)

    def _is_frozen_again(self, state: AggregateState, aggregate: Aggregate, view: View) -> bool:
        """Whether a repair comes before the next refresh, and freezes what has no raw rows."""
        if not diagnose(state, self.lake.root, view.states).wrong:
            return False
        threshold = max(state.threshold, stored_extent.end_of(aggregate))
        return bool(stored_extent.frozen_again(replace(state, threshold=threshold), aggregate, view.states))

    def _freeze(self, journal: Journal, outlived: Sequence[Outlived]) -> None:
        """Freeze in the prepared journal what outlived its raw rows."""
        for each in outlived:
            view = journal.view()
            journal.append(view.version, view.named(each.name).id, [Frozen(each.edge, "restored")])

    def _end_interrupted(self) -> None:
        """Finish a restore that died between its two renames: rename the prepared journal to its place.

        Only the prepared journal has both the frozen boundaries of the backup and later ones.
        """
        ready, place = f"{self.lake.root}/{RESTORING}/{FOLDER}", f"{self.lake.root}/{FOLDER}"
        if places.exists(ready) and not places.exists(place):
            places.move_folder(ready, place)
            self.lake.journal.reopen()

    def _checked(self, folder: str) -> tuple[Manifest, View]:
        manifest = manifest_of(folder)
        refuse_foreign(places.absolute(folder))
        view = Journal(places.absolute(folder)).view()
        numbers = {s.name: s.written_n for s in view.states.values()}
        if view.broken or (manifest.version, dict(manifest.aggregates)) != (view.version, numbers):
            msg = f"the backup in '{folder}' is not what was copied: version {view.version} of {manifest.version}"
            raise JournalError(msg, hint="take another backup", wrote=NOTHING)
        return manifest, view

    def _current(self) -> tuple[View | None, str]:
        """Return the current journal, or None and the reason when it cannot be read."""
        try:
            view = self.lake.journal.view()
        except JournalError as exc:
            return None, exc.message
        return (view, "") if view.version >= 0 else (None, "there is no journal")

    def _leased(self, current: View | None) -> list[tuple[str, str]]:
        """Take every lease, so that no process writes to the journal that is replaced; return (id, owner) of each."""
        taken: list[tuple[str, str]] = []
        for state in () if current is None else sorted(current.all.values(), key=lambda s: (s.name, s.builds)):
            try:
                taken.append((state.id, self._lease(state)))
            except BaseException:
                self._give_back(taken)
                raise
        return taken

    def _lease(self, state: AggregateState) -> str:
        lease = processes.new_lease(time.time(), self.lake.config.lease_seconds)

        def decide(view: View) -> list[tuple[str, Event]]:
            current = view.living(state.id, state.name).lease
            if current is not None and not processes.is_dead(current, time.time()):
                msg = f"'{state.name}' is being worked on by process {current.pid} on {current.host}"
                raise LeaseHeldError(msg, hint="wait until it has ended, then run the same command again")
            return [(state.id, LeaseTaken(lease))]

        self.lake.journal.transact(decide, attempts=ATTEMPTS)
        return lease.owner

    def _give_back(self, taken: list[tuple[str, str]]) -> None:
        journal = self.lake.journal
        for aggregate, owner in taken:
            with suppress(MaterializerError):
                journal.append(journal.view().version, aggregate, [LeaseReleased(owner)])

    def _fence(self, current: View | None) -> None:
        """Fence open refreshes, which the restored journal may not know."""
        for state in () if current is None else current.all.values():
            if state.plan is None:
                continue
            aggregate = self.lake.aggregate(state)
            note = {"plan": state.plan.id, "n": state.plan.n, "kind": "fence", "source_version": state.cursor}
            for which in ("partials", "output"):
                with suppress(MaterializerError):  # a missing table is found by the repair
                    fence(aggregate.paths[which], aggregate.app_ids[which], state.plan.n, note)

    def _carry_on(self, journal: Journal, current: View) -> None:
        """Release the leases in the prepared journal, and bring frozen boundaries and names in catalogs to the current ones."""
        for state in journal.view().all.values():
            events: list[Event] = [LeaseReleased(state.lease.owner)] if state.lease else []
            events += _frozen_since(state, current.states.get(state.id), self.lake.root)
            events += _named_since(state, current.states.get(state.id))
            journal.append(journal.view().version, state.id, events)

    def _given_up(self, journal: Journal) -> tuple[str, ...]:
        """Drop the builds whose tables do not agree with the prepared journal; return their names."""
        view, names = journal.view(), []
        for build in view.all.values():
            if not build.builds or build.is_closed:
                continue  # recovery of its switch publishes it or opens it again
            try:
                agrees = not diagnose(build, self.lake.root, view.states).wrong
            except MaterializerError:
                agrees = False
            if not agrees:
                journal.append(journal.view().version, build.id, [Dropped()])
                names.append(build.name)
        return tuple(sorted(names))

    def _repairs(self) -> dict[str, tuple[str, ...]]:
        view, problems = self.lake.journal.view(), {}
        for state in sorted(view.states.values(), key=lambda s: s.name):
            try:
                wrong = tuple(words for _, words in diagnose(state, self.lake.root, view.states).wrong)
            except MaterializerError as exc:
                wrong = (exc.message,)
            if wrong:
                problems[state.name] = wrong
        return problems


def _would_remove(planned: RestoreReport) -> FrozenHistoryError:
    what = "; ".join(f"'{o.name}' below {o.below}, about {o.groups:,} groups" for o in planned.outlived)
    return FrozenHistoryError(
        f"after this restore a refresh would remove history whose raw rows are gone: {what}",
        hint=f"run 'materializer restore {planned.folder} --as-stored --yes', which freezes it as it is stored, or restore a newer backup",
        wrote=NOTHING,
    )


def _frozen_since(backup: AggregateState, current: AggregateState | None, root: str) -> list[Event]:
    """Return the event that moves the boundary of a backup up to the current one, below which raw rows may be gone."""
    if current is None or current.frozen <= backup.frozen:
        return []
    grid = Aggregate.of(backup, root).definition.grid
    if grid.time_type != Aggregate.of(current, root).definition.grid.time_type:
        return []
    return [Frozen(grid.cover(Span(current.frozen - 1, current.frozen)).end, "restored")]


def _named_since(backup: AggregateState, current: AggregateState | None) -> list[Event]:
    """Return the event that says which name the output has in a catalog now; of one that was dropped since, the name is gone."""
    table = "" if current is None else current.table
    return [] if table == backup.table else [Registered(table)]


def _differences(backup: View, current: View | None) -> tuple[TableComparison, ...]:
    there = {s.name: s for s in backup.states.values()}
    here = {} if current is None else {s.name: s for s in current.states.values()}
    return tuple(_difference(name, there.get(name), here.get(name)) for name in sorted({*there, *here}))


def _difference(name: str, backup: AggregateState | None, current: AggregateState | None) -> TableComparison:
    if backup is None:
        return TableComparison(name, None, current.last_n if current else None, "gone")
    if current is None:
        return TableComparison(name, backup.last_n, None, "back")
    if backup.id != current.id:
        return TableComparison(name, backup.last_n, current.last_n, "another")
    change = "same" if backup.last_n == current.last_n else "older" if backup.last_n < current.last_n else "newer"
    return TableComparison(name, backup.last_n, current.last_n, change)
