"""Maintenance: rewrites files in order of time, removes files that no version needs, and shortens logs and journal.

```
plan (log and statistics; no lease, no JVM) ──nothing to do──▶ end
  └▶ LEASE → RECOVER → for each table: vacuum → rewrite, a commit for each group → checkpoint → MAINTAINED → release
                     → the journal and its history: fold, vacuum
```

Under the lease everything is planned anew. The journal has no plan of it, because no step needs recovery: a rewrite replaces
files by others with the same rows, in one commit against the version that was read (see
:mod:`materializer.lake.write.rewrite`), and every other step only removes files that no version needs. A process may stop
anywhere: all tables have the same rows, and a later vacuum removes new files that no commit added. A source is never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.policy.compaction import Group, depth, groups, is_small, target_rows
from materializer.core.policy.table_properties import retention_hours_of
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.errors import LeaseLostError
from materializer.journal.events import Maintained
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.write.commit import CHECKPOINT_EVERY, CommitResult
from materializer.lake.write.new_files import new_files
from materializer.lake.write.rewrite import exchange, pieces_of, rewrite
from materializer.lake.write.vacuum import Leftover, leftovers, log_state, remove, retention_of, shorten_log
from materializer.services.aggregate import Aggregate
from materializer.services.delivery import output_feed
from materializer.services.each import each
from materializer.services.maintenance.orphans import ours
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.commit.lease import WriteLease
from materializer.services.commit.lake import Lake

WEEK_HOURS: Final = 168.0
MONTH_HOURS: Final = 720.0
ROUNDS: Final = 3
"""How often files are rewritten at most: a rewrite may leave small files beside each other. No case needed a fourth round."""
_TABLES: Final = ("partials", "output")


class _RetainedLog(TypedDict):
    """The part of a table's log that is retained: the last *seconds*, and all versions from *since*."""

    seconds: float
    since: int | None


class TablePlan(Struct, frozen=True):
    """What maintenance would do to one table.

    Args:
        table: ``partials``, ``output``, ``changes``, ``journal`` or ``history``.
        files: Number of its files.
        rows: Number of its rows.
        bytes: Size of its files.
        small: Files with less than half of the rows that a file should have.
        deepest: The largest number of files that cover one instant.
        groups: Groups of files that would be rewritten, one commit each.
        leftovers: Files that no version within the retention needs, and folders of versions that the journal does not know.
        leftover_bytes: Their size.
        since_checkpoint: Commits after the newest checkpoint of its log.
        expired: Files of its log that are older than its retention.
        fold: Commits that would be folded into one file (journal and history).
    """

    table: str
    files: int
    rows: int
    bytes: int
    small: int = 0
    deepest: int = 0
    groups: tuple[Group, ...] = ()
    leftovers: int = 0
    leftover_bytes: int = 0
    since_checkpoint: int = 0
    expired: int = 0
    fold: int = 0

    @property
    def is_log_long(self) -> bool:
        """Whether its log needs a checkpoint, or has files that may be removed."""
        return self.since_checkpoint > CHECKPOINT_EVERY or self.expired > 0

    @property
    def has_work(self) -> bool:
        """Whether the table needs maintenance."""
        return bool(self.groups) or self.leftovers > 0 or self.is_log_long or self.fold > 0


class TableDone(Struct, frozen=True):
    """What maintenance did to one table.

    Args:
        table: As in the plan.
        files: Files afterwards.
        bytes: Their size.
        rewritten: Files that were replaced.
        added: Files that replaced them.
        rows: Rows that were written again.
        commits: Commits that were made.
        removed: Files that were removed from its folder.
        removed_bytes: Their size.
        checkpoint: Whether its log was shortened.
    """

    table: str
    files: int
    bytes: int
    rewritten: int = 0
    added: int = 0
    rows: int = 0
    commits: int = 0
    removed: int = 0
    removed_bytes: int = 0
    checkpoint: bool = False


class MaintainReport(Printed, Struct, frozen=True):
    """What maintenance planned and did.

    Args:
        name: The aggregate; None for the lake's journal.
        plans: The plan of each table.
        done: What was done to each table; empty without work, and after a dry run.
        is_dry_run: Whether it was only planned.
        seconds: Wall time of everything.
    """

    name: str | None
    plans: tuple[TablePlan, ...]
    done: tuple[TableDone, ...] = ()
    is_dry_run: bool = False
    seconds: float = 0.0

    def _tables(self) -> list[PrintedTable]:
        done = {each.table: each for each in self.done}
        rows = [
            (
                plan.table,
                plan.files,
                plan.small,
                sum(len(group.pieces) for group in plan.groups),
                plan.leftovers,
                done[plan.table].files if plan.table in done else None,
            )
            for plan in self.plans
        ]
        head = f"{self.name or 'journal'}: {'planned' if self.is_dry_run else 'maintained'}, {self.seconds:.2f} s"
        header = ("table", "files", "small", "worth writing again", "not needed", "files afterwards")
        return [PrintedTable(head, header, rows) if rows else facts(head)]

    @property
    def has_work(self) -> bool:
        """Whether any table needs maintenance."""
        return any(p.has_work for p in self.plans)


OnPlan = Callable[[MaintainReport], None]


class Maintainer(Struct):
    """Maintains the aggregates and the journal of one lake.

    Args:
        lake: The lake.
    """

    lake: Lake

    def aggregate(self, name: str, *, is_dry_run: bool = False, on_plan: OnPlan = lambda _: None) -> MaintainReport:
        """Maintain the tables of one aggregate.

        Args:
            name: The aggregate.
            is_dry_run: Only return what would be done; no lease is taken.
            on_plan: Called with the plan before it is carried out.

        Raises:
            LeaseHeldError: If another live process works on it; nothing was written.
            LeaseLostError: If the lease was taken over meanwhile; finished steps stay, and no row has changed.
            StorageError: If the disk is full or permission is refused.
        """
        began = time.perf_counter()
        state = self.lake.journal.view().named(name)
        plans = tuple(self.plans(state))
        report = MaintainReport(state.name, plans, is_dry_run=is_dry_run)
        on_plan(report)
        done: tuple[TableDone, ...] = ()
        if report.has_work and not is_dry_run:
            with self.lake.lease(state.name) as lease:
                leased = lease.state
                output_feed.follow_leased(
                    self.lake, leased
                )  # before the files are removed that the feed is derived from
                done = tuple(self._table(leased, table) for table in _tables(self.lake.aggregate(leased)))
                self._checkpoint("maintain_done")
                self._record(lease, done, time.perf_counter() - began)
        return replace(report, done=done, seconds=time.perf_counter() - began)

    def every(
        self, names: Sequence[str], *, is_dry_run: bool = False, on_plan: OnPlan = lambda _: None
    ) -> list[MaintainReport]:
        """Maintain aggregates, then the journal; after a failure the others are done, and then the first error is raised."""

        def maintained(name: str | None) -> MaintainReport:
            if name is None:
                return self.journal(is_dry_run=is_dry_run, on_plan=on_plan)
            return self.aggregate(name, is_dry_run=is_dry_run, on_plan=on_plan)

        return each("tables", [*names, None], maintained)

    def journal(self, *, is_dry_run: bool = False, on_plan: OnPlan = lambda _: None) -> MaintainReport:
        """Fold the journal and its history, and remove their files that no version needs; takes no lease."""
        began = time.perf_counter()
        plans = tuple(self.journal_plans())
        report = MaintainReport(None, plans, is_dry_run=is_dry_run)
        on_plan(report)
        done: list[TableDone] = []
        if report.has_work and not is_dry_run:
            self._checkpoint("maintain_journal")
            self.lake.journal.clean()
            for before, after in zip(plans, self.journal_plans(), strict=True):
                removed = before.leftovers - after.leftovers, before.leftover_bytes - after.leftover_bytes
                commits = int(before.fold > after.fold)
                done.append(TableDone(before.table, after.files, after.bytes, 0, 0, 0, commits, *removed))
        return replace(report, done=tuple(done), seconds=time.perf_counter() - began)

    def plans(self, state: AggregateState) -> Iterator[TablePlan]:
        """Yield the plan of each table of an aggregate, from the logs; writes nothing."""
        aggregate = self.lake.aggregate(state)
        for table in _tables(aggregate):
            path, (column, time_type, _) = aggregate.paths[table], _laid_out(aggregate, table)
            _, pieces, unknown = pieces_of(path, column, time_type)
            target = target_rows(sum(p.rows for p in pieces))
            removable = [*self._leftovers(state, aggregate, table), *self._orphans(state, table)]
            log = log_state(path, **self._retained_log(state, aggregate, table))
            yield TablePlan(
                table,
                len(pieces) + unknown,
                sum(p.rows for p in pieces),
                sum(p.bytes for p in pieces),
                sum(is_small(p, target) for p in pieces),
                depth(pieces),
                tuple(groups(pieces, target)),
                len(removable),
                sum(f.bytes for f in removable),
                log.since_checkpoint,
                log.expired,
            )

    def journal_plans(self) -> Iterator[TablePlan]:
        """Yield the plans of the journal and of its history; writes nothing."""
        for gathered in self.lake.journal.gathered():
            fold = gathered.commits if gathered.is_worth_folding else 0
            yield TablePlan(
                gathered.table,
                gathered.files,
                gathered.rows,
                gathered.bytes,
                leftovers=gathered.leftovers,
                leftover_bytes=gathered.leftover_bytes,
                fold=fold,
            )

    def _table(self, leased: AggregateState, table: str) -> TableDone:
        """Maintain one table under the lease of *leased*."""
        aggregate = self.lake.aggregate(leased)
        path = aggregate.paths[table]
        self._checkpoint("maintain_vacuum")
        self._check_lease(leased)
        removed = self._leftovers(leased, aggregate, table)
        remove(path, removed)
        for orphan in (orphans := self._orphans(leased, table)):
            places.delete_folder(orphan.name, ignore_errors=True)
        removed = [*removed, *orphans]
        written = self._rewritten(leased, aggregate, table)
        self._checkpoint("maintain_log")
        retained = self._retained_log(leased, aggregate, table)
        log = log_state(path, **retained)
        is_long = log.since_checkpoint > CHECKPOINT_EVERY or log.expired > 0
        checkpoint = is_long and shorten_log(path, **retained)
        column, time_type, _ = _laid_out(aggregate, table)
        _, pieces, unknown = pieces_of(path, column, time_type)
        return TableDone(
            table,
            len(pieces) + unknown,
            sum(p.bytes for p in pieces),
            sum(c.files_removed for c, _ in written),
            sum(c.files_added for c, _ in written),
            sum(rows for _, rows in written),
            len(written),
            len(removed),
            sum(f.bytes for f in removed),
            checkpoint,
        )

    def _rewritten(self, leased: AggregateState, aggregate: Aggregate, table: str) -> list[tuple[CommitResult, int]]:
        """Rewrite the groups of files that need it; return each commit with its rows."""
        column, time_type, _ = _laid_out(aggregate, table)
        written: list[tuple[CommitResult, int]] = []
        for _ in range(ROUNDS):
            _, pieces, _ = pieces_of(aggregate.paths[table], column, time_type)
            target = target_rows(sum(p.rows for p in pieces))
            planned = groups(pieces, target)
            for group in planned:
                self._checkpoint("maintain_rewrite")
                written.append((self._rewrite(leased, aggregate, table, group, target), group.rows))
                self._checkpoint("maintain_committed")
            if not planned:
                break
        return written

    def _rewrite(
        self, leased: AggregateState, aggregate: Aggregate, table: str, group: Group, target: int
    ) -> CommitResult:
        path, (column, time_type, order) = aggregate.paths[table], _laid_out(aggregate, table)
        note = {"plan": "", "n": 0, "kind": "maintain", "source_version": None}
        # a refresh of an engine replaces results of single keys
        by_keys = aggregate.definition.engine is not None and len(order) > 1

        def before_commit() -> None:
            self._checkpoint("maintain_written")
            self._check_lease(leased)

        if self.lake.config.driver_holds(group.rows, group.bytes):
            return rewrite(path, group, column, time_type, order, target, note, before_commit, within_buckets=by_keys)
        with new_files(path) as files:
            names, count = [p.path for p in group.pieces], max(1, round(group.rows / target))
            folder, spark = files.begin(open_table(path)), self.lake.engine()
            spark.lay_out_again(path, names, folder, order=order, files=count, by_keys=by_keys)
            before_commit()
            return exchange(path, group, files, note)

    def _leftovers(self, state: AggregateState, aggregate: Aggregate, table: str) -> list[Leftover]:
        path = aggregate.paths[table]
        hours = retention_hours(aggregate.definition.spec, path)
        since = self._read_since(state, path) if table == "output" else None
        return leftovers(path, before=time.time() - hours * 3600, since=since)

    def _retained_log(self, state: AggregateState, aggregate: Aggregate, table: str) -> _RetainedLog:
        """Return which part of a table's log is retained: as long as its files, or shorter if the log's own retention is shorter.

        A version without its files cannot be read, and every commit lists the log, so a longer log only costs time. Aggregates
        that read the output need its log from their cursor on, however old that is.
        """
        path = aggregate.paths[table]
        own = retention_of(dict(DeltaFolder.at(path).properties()), "delta.logRetentionDuration", MONTH_HOURS)
        seconds = min(own, retention_hours(aggregate.definition.spec, path)) * 3600
        if table != "output":
            return {"seconds": seconds, "since": None}
        readers = [s.cursor for s in self.lake.journal.view().all.values() if s.source.path == path]
        versions = [version for version in (self._read_since(state, path), *readers) if version is not None]
        return {"seconds": seconds, "since": min(versions, default=None)}

    def _orphans(self, state: AggregateState, table: str) -> list[Leftover]:
        return ours(self.lake.root, self.lake.journal.view(), state, table)

    def _read_since(self, state: AggregateState, path: str) -> int | None:
        """Return the oldest version of an output that an open plan or an output handler still needs."""
        states = self.lake.journal.view().all.values()  # builds of other aggregates read it, too
        asked = [s.plan.source_version for s in states if s.plan is not None and s.source.path == path]
        if dict(state.spec["properties"]).get("output_handler") and state.delivered is not None:
            asked.append(state.delivered)
        return min(asked, default=None)

    def _check_lease(self, leased: AggregateState) -> None:
        lease = self.lake.journal.view().named(leased.name).lease
        if lease is None or leased.lease is None or lease.owner != leased.lease.owner:
            msg = f"the lease of '{leased.name}' was taken over while it was maintained"
            raise LeaseLostError(msg, wrote="what was done stays; it changes no row")

    def _record(self, lease: WriteLease, done: tuple[TableDone, ...], seconds: float) -> None:
        """Append what was done to the journal. The tables do not depend on this event."""
        report = {"tables": [as_dict(d) for d in done], "seconds": round(seconds, 3)}
        lease.append((lease.id, Maintained(report)))

    def _checkpoint(self, name: str) -> None:
        self.lake.on_checkpoint(name)


def _tables(aggregate: Aggregate) -> tuple[str, ...]:
    """Return the names of the tables of an aggregate that maintenance works on."""
    return (*_TABLES, output_feed.TABLE) if DeltaFolder.at(aggregate.paths[output_feed.TABLE]).exists() else _TABLES


def _laid_out(aggregate: Aggregate, table: str) -> tuple[str, TimeType, list[str]]:
    """Return the column by which a table is divided, its type, and its order."""
    if table == output_feed.TABLE:  # its readers ask for the rows after a refresh
        return "_refresh", TimeType.BIGINT, ["_refresh"]
    return aggregate.slice_column(table).name, aggregate.definition.time_type, aggregate.order(table)


def retention_hours(spec: AggregateSpec, path: str) -> float:
    """Return for how many hours files are retained that the newest version does not need."""
    asked = retention_hours_of(spec)
    properties = dict(DeltaFolder.at(path).properties())
    return retention_of(properties, "delta.deletedFileRetentionDuration", WEEK_HOURS) if asked is None else asked
