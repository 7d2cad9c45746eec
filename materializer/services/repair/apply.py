"""Repairing: the problems between journal and tables are shown, then repaired under the lease, in steps that may be repeated.

```
lease ─▶ (recover) ─▶ partials ─▶ output, beside its place ─▶ swap ─▶ journal: Repaired ─▶ clean up
```

Until the event *Repaired* the journal names the old tables and numbers. So, if a repair dies, the next one makes the same
diagnosis. Its number is larger than any number in journal and tables, and fences processes that still write for an older
journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.time.instants import render
from materializer.core.time.spans import EVERYTHING, NEG_INF, SpanSet
from materializer.errors import (
    NOTHING,
    JournalConflictError,
    JournalLostError,
    LeaseHeldError,
    LeaseLostError,
    MaterializerError,
    RetryableError,
    StorageError,
)
from materializer.journal.events import Aborted, BuildOpened, Event, Frozen, Invalidated, Repaired, Snapshot
from materializer.journal.state import AggregateState, by_name
from materializer.journal.unreadable import Broken
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.extent import files
from materializer.lake.rows import row_count
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import append_rows, create_table, fence
from materializer.lake.write.replace import replace_by_files
from materializer.services import processes
from materializer.services.aggregate import Aggregate
from materializer.services.commit.lake import Lake
from materializer.services.commit.lease import leased
from materializer.services.commit.ports import DeltaPorts
from materializer.services.delivery import registration
from materializer.services.observe import stored_extent
from materializer.services.protocol.process import Process
from materializer.services.repair.diagnose import Diagnosis, TableCondition, diagnose
from materializer.services.repair.lost import lost_in
from materializer.services.repair.plan import Mending, Table, repair_plan
from materializer.services.repair.set_aside import cleared
from materializer.structs import as_dict

REBUILDING: Final = "output.rebuilding"
"""Folder of a new output until it is renamed to its place."""
REASON: Final = "repaired"


class RepairReport(Printed, Struct, frozen=True):
    """The result of a repair, or of a dry run of it.

    Args:
        name: The aggregate.
        outcome: ``sound``, ``repaired``, or ``planned`` after a dry run.
        mending: The problems, and what was or would be done.
        recovered: Refreshes of dead processes that were recovered: (number, outcome).
        left: Folders that were renamed, or not touched because they are not ours.
        seconds: Wall time.
    """

    name: str
    outcome: str
    mending: Mending
    recovered: tuple[tuple[int, str], ...] = ()
    left: tuple[str, ...] = ()
    seconds: float = 0.0

    def _tables(self) -> list[PrintedTable]:
        todo = self.mending
        pairs = [
            *(("problem", text) for _, text in todo.wrong),
            ("would do" if self.outcome == "planned" else "done", "\n".join(todo.steps)),
            ("ended before", "\n".join(f"refresh {n}: {outcome}" for n, outcome in self.recovered)),
            ("renamed or left", "\n".join(self.left)),
            ("took", f"{self.seconds:.2f} s"),
        ]
        return [facts(f"{self.name}: {self.outcome}", pairs)]


class Repairer(Struct):
    """Repairs aggregates of one lake."""

    lake: Lake

    def plan(self, name: str) -> RepairReport:
        """Return what a repair would do; writes nothing and starts no JVM.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
            JournalLostError: If its tables are there, but the journal does not know it.
            JournalError: If the journal, or the definition of the aggregate in it, cannot be read.
        """
        began = time.perf_counter()
        self._refuse_lost(name)
        state, events = self._state(name)
        todo = repair_plan(self._diagnosis(state, events), state)
        outcome = "planned" if todo.wrong else "sound"
        return RepairReport(state.name, outcome, self._counted(todo, state), seconds=time.perf_counter() - began)

    def repair(self, name: str) -> RepairReport:
        """Repair an aggregate; write nothing if it is sound.

        Raises:
            LeaseHeldError: If a live process works on it; nothing was written.
            StorageError: If a table cannot be accessed or written; the repair can be run again.
        """
        began = time.perf_counter()
        planned = self.plan(name)
        if planned.outcome == "sound":
            return planned
        state, events = self._state(name)
        if broken := self.lake.journal.view().broken_named(name):
            self._forget_events(broken, state)
        with leased(self.lake, self.lake.journal.view().named(state.name)) as lease:
            state, _ = self._state(state.name)
            diagnosis, gives_up = self._diagnosis(state), False
            recovered: tuple[tuple[int, str], ...] = ()
            if state.plan is not None and diagnosis.is_recoverable:
                n = state.plan.n
                gives_up = not self._recovers(lease.recover)
                state, _ = self._state(state.name)
                diagnosis = self._diagnosis(state)
                recovered = () if gives_up else ((n, state.ended[-1].outcome),)
            todo = repair_plan(diagnosis, state, gives_up=gives_up)
            left = _Work(self.lake, lease.process, lease.ports, state, diagnosis, todo).do() if todo.wrong else ()
        done = todo if todo.wrong else planned.mending
        done = replace(self._counted(done, state), wrong=planned.mending.wrong)
        if events:
            done = replace(done, is_everything_dirty=True)
        registration.follow(self.lake, self.lake.journal.view().named(state.name))
        return RepairReport(state.name, "repaired", done, recovered, left, time.perf_counter() - began)

    def _refuse_lost(self, name: str) -> None:
        view = self.lake.journal.view()
        if by_name(view.states, name) is None and view.broken_named(name) is None and name in self.lost():
            raise JournalLostError(f"the journal does not know '{name}', but tables of it are there", wrote=NOTHING)

    def lost(self) -> list[str]:
        """Return the names of aggregates whose tables are in the lake, but which the journal does not know."""
        return lost_in(self.lake.root, self.lake.journal.view())

    def _state(self, name: str) -> tuple[AggregateState, str]:
        """Return the state of an aggregate, and why one of its events cannot be read, "" when all can."""
        view = self.lake.journal.view()
        broken = view.broken_named(name)
        if broken is None:
            return view.named(name), ""
        if broken.last is None:
            raise broken.error()
        return broken.last, broken.reason

    def _diagnosis(self, state: AggregateState, events: str = "") -> Diagnosis:
        states = {**self.lake.journal.view().states, state.id: state}
        return diagnose(state, self.lake.root, states, events)

    def _recovers(self, recover: Callable[[], None]) -> bool:
        """Try to recover the open plan; return False if it fails because of what is to be repaired."""
        try:
            recover()
        except (RetryableError, StorageError):
            raise
        except MaterializerError:
            return False
        return True

    def _forget_events(self, broken: Broken, state: AggregateState) -> None:
        """Replace the events of an aggregate by its readable state with everything dirty, in one commit.

        The lease cannot be taken first, because its events cannot be read. So the last known holder must be dead.
        """
        lease = state.lease
        if lease is not None and not processes.is_dead(lease, time.time()):
            msg = f"'{state.name}' is being worked on by process {lease.pid} on {lease.host}"
            raise LeaseHeldError(msg, hint="wait until it has ended, then run the same command again")
        aborted: list[Event] = [Aborted(state.plan.n, REASON)] if state.plan else []
        aggregate = self.lake.aggregate(state)
        try:
            threshold = stored_extent.end_of(aggregate)
        except MaterializerError:  # a table is damaged, too; the repair that follows reads the extent again
            threshold = NEG_INF
        repaired = Repaired(
            state.written_n,
            state.data_version,
            dict(state.tables),
            broken.reason,
            is_everything_dirty=True,
            threshold=None if threshold == NEG_INF else threshold,
        )
        journal = self.lake.journal
        self.lake.on_checkpoint("repair_events")
        view = journal.view()
        if view.broken.get(broken.id) != broken:
            raise JournalConflictError(f"another process repairs '{state.name}'")
        again = stored_extent.frozen_again(
            replace(state, threshold=max(threshold, state.threshold)), aggregate, view.states
        )
        events: list[tuple[str, Event]] = [
            (broken.id, e) for e in (Snapshot(as_json(state)), *aborted, repaired, *again)
        ]
        journal.append_each(view.version, [*events, *_opened_again(state, view)])

    def _counted(self, todo: Mending, state: AggregateState) -> Mending:
        """Return *todo* with the number of rows that it reads, and with what stays frozen."""
        source, partials = None, None
        aggregate = self.lake.aggregate(state)
        if todo.is_everything_dirty:
            source = _rows(lambda: source_rows(state, aggregate))
        if todo.output is Table.REBUILT:
            partials = _rows(lambda: row_count(aggregate.paths["partials"]))
        return replace(todo, source_rows=source, partial_rows=partials, frozen=self._frozen(todo, state, aggregate))

    def _frozen(self, todo: Mending, state: AggregateState, aggregate: Aggregate) -> str:
        """Return the instant below which nothing is computed again, "" without one."""
        if not todo.is_everything_dirty:
            return ""
        threshold = state.threshold
        with suppress(MaterializerError):
            threshold = max(threshold, stored_extent.end_of(aggregate))
        states = self.lake.journal.view().states
        again = stored_extent.frozen_again(replace(state, threshold=threshold), aggregate, states)
        boundary = max(state.frozen, *(event.bound for event in again), NEG_INF)
        return "" if boundary == NEG_INF else render(boundary, aggregate.definition.grid.shown)


class _Work(Struct):
    """One repair, carried out under the lease."""

    lake: Lake
    process: Process
    ports: DeltaPorts
    state: AggregateState
    diagnosis: Diagnosis
    todo: Mending

    def do(self) -> tuple[str, ...]:
        """Carry the plan out, and return the folders that were renamed or not touched."""
        state, todo = self.state, self.todo
        new = replace(state, data_version=self._data_version())
        aggregate = self.lake.aggregate(new)
        self._checkpoint("repair_partials")
        self._partials(aggregate)
        self._checkpoint("repair_output")
        aside = self._output(aggregate)
        tables = {which: DeltaFolder.at(aggregate.paths[which]).head().table_id for which in ("partials", "output")}
        self._checkpoint("repair_journal")
        self._append(self._repaired(aggregate, tables), aggregate)
        self._checkpoint("repair_clean")
        left = self._removed_partials() if todo.partials is not Table.KEPT else ()
        return (*aside, *left)

    def _checkpoint(self, name: str) -> None:
        self.lake.on_checkpoint(name)

    def _data_version(self) -> str:
        """Return the id of the data version; a repeated repair gives new partials the same id."""
        state = self.state
        if self.todo.partials is Table.KEPT:
            return state.data_version
        return uuid5(NAMESPACE_OID, f"{state.data_version} repaired after {state.last_n}").hex

    def _note(self, kind: str) -> dict[str, Any]:
        return {"plan": REASON, "n": self.todo.n, "kind": kind, "source_version": self.state.cursor}

    def _partials(self, aggregate: Aggregate) -> None:
        path = aggregate.paths["partials"]
        if self.todo.partials is not Table.KEPT and not DeltaFolder.at(path).exists():
            words = f"materializer partials {self.state.id}"
            create_table(path, self.state.schemas["partials"], name=f"{aggregate.name}_partials", description=words)
        if self.todo.is_everything_dirty or self.todo.abandons is not None:
            fence(path, aggregate.app_ids["partials"], self.todo.n, self._note("fence"))

    def _output(self, aggregate: Aggregate) -> tuple[str, ...]:
        path, todo = aggregate.paths["output"], self.todo
        if todo.output is Table.KEPT:
            if todo.n:
                fence(path, aggregate.app_ids["output"], todo.n, self._note("fence"))
            return ()
        new = f"{places.parent(path)}/{REBUILDING}"
        places.delete_folder(new, ignore_errors=True)
        comment = aggregate.definition.spec.comment
        words = f"materializer output {self.state.id}: {comment}".rstrip(": ")
        create_table(new, self.state.schemas["output"], name=aggregate.name, description=words)
        if todo.output is Table.REBUILT:
            self._rebuild(aggregate, new)
        elif todo.n:
            fence(new, aggregate.app_ids["output"], todo.n, self._note("fence"))
        self._checkpoint("repair_swap")
        aside = cleared(path, self.todo.old_output)
        places.move_folder(new, path)
        return aside

    def _rebuild(self, aggregate: Aggregate, path: str) -> None:
        """Write the finalised rows of all partials to a new table, in the lane for their number."""
        spark, app_id, n = self.lake.engine(), aggregate.app_ids["output"], self.todo.n
        extent = stored_extent.partials(aggregate)
        hull = extent.hull
        if hull is None and not extent.unknown.files:
            if n:
                fence(path, app_id, n, self._note("data"))
            return
        is_known = hull is not None and not extent.unknown.files
        spans = SpanSet.of(aggregate.definition.grid.cover(hull) if hull is not None and is_known else EVERYTHING)
        count = extent.rows + extent.unknown.rows
        is_small = self.lake.config.driver_holds(count, extent.bytes + extent.unknown.bytes)
        partials = aggregate.paths["partials"]
        definition = aggregate.published_from(aggregate.kept_from)
        rows: Any = spark.finalise_committed(definition, partials, extent.version, spans, fetch=is_small)
        note = self._note("data")
        if is_small:
            append_rows(path, rows.sort_by(aggregate.order("output")[0]), app_id, n, note)
            return
        where, order = aggregate.predicate("output", spans), aggregate.order("output")

        def lay_out(folder: str, names: Sequence[str]) -> None:
            spark.lay_out(rows, path, folder, names, predicate=where, order=order, rows=count)

        replace_by_files(path, lay_out, aggregate.slice_column("output"), spans, app_id, n, note, rows=count)

    def _repaired(self, aggregate: Aggregate, tables: dict[str, str]) -> Repaired:
        todo, reason = self.todo, "; ".join(words for _, words in self.todo.wrong)
        if not todo.is_everything_dirty:
            return Repaired(todo.n, places.name(aggregate.paths["partials"]), tables, reason, is_everything_dirty=False)
        threshold = stored_extent.end_of(aggregate)
        source = self.diagnosis.source
        return Repaired(
            todo.n,
            places.name(aggregate.paths["partials"]),
            tables,
            reason,
            is_everything_dirty=True,
            threshold=None if threshold == NEG_INF else threshold,
            cursor=self._cursor(),
            source=None if source is None else as_dict(source),
        )

    def _cursor(self) -> int | None:
        """Return the newest version of the source, from which changes are captured; None when it cannot be trusted."""
        source = self.diagnosis.source or self.state.source
        try:
            head = DeltaFolder.at(source.path).head()
        except MaterializerError:
            return None
        is_same = head.table_id == source.table_id
        is_back = self.diagnosis.source is None and head.version < self.state.cursor
        return head.version if is_same and not is_back else None

    def _frozen_again(self, event: Repaired, aggregate: Aggregate) -> tuple[Frozen, ...]:
        if not event.is_everything_dirty or self.diagnosis.source is not None:
            return ()
        threshold = max(self.state.threshold, NEG_INF if event.threshold is None else event.threshold)
        states = self.lake.journal.view().states
        return stored_extent.frozen_again(replace(self.state, threshold=threshold), aggregate, states)

    def _append(self, event: Repaired, aggregate: Aggregate) -> None:
        events: list[Event] = [event, *self._frozen_again(event, aggregate)]
        plan = self.state.plan
        if plan is not None:
            forgotten = tuple(replace(e, after=None, keys=None, is_insert_only=False) for e in plan.taken)
            events = [Aborted(plan.n, REASON), Invalidated(forgotten, REASON), *events]
        repaired = events

        def decide(view: View) -> list[tuple[str, Event]]:
            state = view.living(self.state.id, self.state.name)
            if state.lease is None or state.lease.owner != self.process.lease.owner:
                msg = f"the lease of '{state.name}' was taken over while it was repaired"
                raise LeaseLostError(msg, wrote="the journal does not know of this repair; run it again")
            return [*((state.id, e) for e in repaired), *_opened_again(self.state, view)]

        self.lake.journal.transact(decide)

    def _removed_partials(self) -> tuple[str, ...]:
        """Remove the old partials if they are ours; else return their folder."""
        old = self.lake.aggregate(self.state).paths["partials"]
        if not places.exists(old):
            return ()
        table = self.diagnosis.partials
        if table.table_id == self.state.tables["partials"] or table.verdict is TableCondition.OTHER:
            places.delete_folder(old, ignore_errors=True)
            return ()
        return (old,)


def _opened_again(state: AggregateState, view: View) -> list[tuple[str, Event]]:
    """Return the event that opens a build again, if the open plan that is given up was its switch."""
    build = view.all.get(state.switch) if state.plan is not None else None
    return [(build.id, BuildOpened())] if build is not None and build.is_closed else []


def source_rows(state: AggregateState, aggregate: Aggregate) -> int:
    """Return the number of rows of the source, from file statistics."""
    head = DeltaFolder.at(state.source.path).head()
    spec = aggregate.definition.spec
    extent = files(state.source.path, head.version, spec.time_column, aggregate.definition.time_type)
    return extent.rows + extent.unknown.rows


def _rows(count: Callable[[], int | None]) -> int | None:
    try:
        return count()
    except MaterializerError:
        return None
