"""Takeover of what a lost journal left: folders of aggregates that the journal does not know, with definitions from files.

The rows of the tables are not trusted: partials are created anew, everything is dirty, and refresh numbers continue above those
in the tables. The output stays if its columns are those of the definition. Its old identifier is fenced first, so that a
process that still works for the lost journal cannot write to it; no reader looks at what such a process writes elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF
from materializer.errors import DefinitionError, JournalError, MaterializerError, Problem
from materializer.journal.events import Defined, Dropped, Event, Repaired
from materializer.journal.state import AggregateState, States, by_name
from materializer.journal.store import FOLDER
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.log import is_attempt
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import create_table, fence
from materializer.services.aggregate import Aggregate, made_for
from materializer.services.commit.lake import Lake
from materializer.services.definitions.apply import Definitions
from materializer.services.definitions.changes import CheckedDefinition
from materializer.services.delivery import registration
from materializer.services.observe import stored_extent
from materializer.services.repair.apply import RepairReport, source_rows
from materializer.services.repair.diagnose import RETIRED
from materializer.services.repair.plan import Mending, Old, Table
from materializer.services.repair.set_aside import put_aside

LOST: Final = "journal.lost"


class Left(Struct, frozen=True):
    """The tables of an aggregate in its folder.

    Args:
        old_id: Its id in the lost journal; "" when its output does not have it.
        n: The largest refresh number in its tables.
        columns: Columns of its output, None without a readable output.
        partials: Folders of its partials.
    """

    old_id: str
    n: int
    columns: tuple[tuple[str, str], ...] | None
    partials: tuple[str, ...]


class TakeOver:
    """Takes over folders of one lake.

    Args:
        lake: The lake.
        definitions: Checks definitions against their sources.
    """

    def __init__(self, lake: Lake, definitions: Definitions) -> None:
        self._lake = lake
        self._definitions = definitions
        self._root, self._journal = lake.root, lake.journal

    def plan(self, specs: Sequence[AggregateSpec]) -> list[RepairReport]:
        """Return what a takeover would do; writes nothing and starts no JVM."""
        states: States = {}
        lost: tuple[tuple[str, str], ...] = ()
        try:
            states = self._journal.view().states
        except JournalError as exc:
            lost = ((exc.code, exc.message),)
        reports = []
        for spec in _parents_first(specs):
            if by_name(states, spec.name) is not None:
                reports.append(RepairReport(spec.name, "sound", Mending(spec.name, ())))
                continue
            left = left_in(f"{self._root}/{spec.name}")
            reports.append(RepairReport(spec.name, "planned", _plan_of(spec.name, left, left.columns, lost)))
        return reports

    def take_over(self, specs: Sequence[AggregateSpec]) -> list[RepairReport]:
        """Add the definitions to the journal, with the folders that are there; first rename a journal that cannot be read.

        Raises:
            DefinitionError: If a definition is refused; those before it are taken over.
        """
        lost, aside = self._readable_journal()
        return [self._take_over(spec, lost, aside) for spec in _parents_first(specs)]

    def _readable_journal(self) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Rename the journal if it cannot be read; return why, and its new name."""
        try:
            self._journal.view()
        except JournalError as exc:
            self._checkpoint("takeover_journal_aside")
            path = f"{self._root}/{FOLDER}"
            aside = put_aside(path) if places.exists(path) else ()
            self._journal.reopen()
            return ((exc.code, exc.message),), aside
        return (), ()

    def _take_over(
        self, spec: AggregateSpec, lost: tuple[tuple[str, str], ...], aside: tuple[str, ...]
    ) -> RepairReport:
        began = time.perf_counter()
        if by_name(self._journal.view().states, spec.name) is not None:
            return RepairReport(spec.name, "sound", Mending(spec.name, ()))
        left = left_in(f"{self._root}/{spec.name}")
        self._drop_unreadable(spec.name, left)
        [prepared] = self._definitions.prepare([spec])
        todo = _plan_of(spec.name, left, prepared.schemas["output"], lost)
        if not places.exists(f"{self._root}/{spec.name}"):
            self._definitions.apply(prepared, lease=self._lake.lease)
        else:
            aside = (*aside, *self._adopt(prepared, left, todo))
        state = self._journal.view().named(spec.name)
        aggregate = self._lake.aggregate(state)
        if state.frozen != NEG_INF:
            todo = replace(todo, frozen=render(state.frozen, aggregate.definition.grid.shown))
        with suppress(MaterializerError):
            todo = replace(todo, source_rows=source_rows(state, aggregate))
        registration.follow(self._lake, state)
        return RepairReport(spec.name, "repaired", todo, (), aside, time.perf_counter() - began)

    def _drop_unreadable(self, name: str, left: Left) -> None:
        """Drop an aggregate whose definition cannot be read from the journal."""

        def decide(view: View) -> list[tuple[str, Event]]:
            broken = view.broken_named(name) or view.broken.get(left.old_id)
            if broken is not None and broken.last is not None:
                raise broken.error()
            return [] if broken is None else [(broken.id, Dropped())]

        while self._journal.transact(decide):
            pass

    def _checkpoint(self, name: str) -> None:
        self._lake.on_checkpoint(name)

    def _adopt(self, prepared: CheckedDefinition, left: Left, todo: Mending) -> tuple[str, ...]:
        spec, schemas = prepared.spec, prepared.schemas
        new_id = _next_id(left.old_id) if left.old_id else uuid4().hex
        data_version = uuid5(NAMESPACE_OID, f"{new_id} partials").hex
        folder, note = f"{self._root}/{spec.name}", _note(todo.n, prepared.change.source_version)
        output, partials = f"{folder}/output", f"{folder}/partials/{data_version}"
        self._checkpoint("takeover_retire")
        if todo.output is Table.KEPT:
            fence(output, f"materializer/{left.old_id}", RETIRED, note)
        self._checkpoint("takeover_partials")
        if not DeltaFolder.at(partials).exists():
            words = f"materializer partials {new_id}"
            create_table(partials, schemas["partials"], name=f"{spec.name}_partials", description=words)
        fence(partials, f"materializer/{data_version}", todo.n, note)
        self._checkpoint("takeover_output")
        aside: tuple[str, ...] = ()
        if todo.output is not Table.KEPT:
            if places.exists(output) and not is_attempt(output):
                aside = put_aside(output)
            words = f"materializer output {new_id}: {spec.comment}".rstrip(": ")
            create_table(output, schemas["output"], name=spec.name, description=words)
        fence(output, f"materializer/{new_id}", todo.n, note)
        self._append(prepared, new_id, data_version, {"partials": partials, "output": output}, todo)
        self._checkpoint("takeover_clean")
        for old in left.partials:
            if places.name(old) != data_version:
                places.delete_folder(old, ignore_errors=True)
        return aside

    def _append(
        self,
        prepared: CheckedDefinition,
        new_id: str,
        data_version: str,
        paths: Mapping[str, str],
        todo: Mending,
    ) -> None:
        spec, version = prepared.spec, prepared.change.source_version
        tables = {which: DeltaFolder.at(path).head().table_id for which, path in paths.items()}
        defined = Defined(spec.name, spec.as_json(), data_version, prepared.source, version, prepared.schemas, tables)
        state = AggregateState(
            new_id, spec.name, defined.spec, data_version, prepared.source, prepared.schemas, tables, version
        )
        aggregate = Aggregate.of(state, self._root)
        threshold = stored_extent.end_of(aggregate)
        again = stored_extent.frozen_again(replace(state, threshold=threshold), aggregate, self._journal.view().states)
        repaired = Repaired(
            todo.n,
            data_version,
            tables,
            "taken over from a lost journal",
            is_everything_dirty=True,
            threshold=None if threshold == NEG_INF else threshold,
        )
        self._checkpoint("takeover_journal")

        def decide(view: View) -> list[tuple[str, Event]]:
            if by_name(view.states, spec.name) is not None:
                message = f"{spec.name}: another process made it known a moment ago"
                raise DefinitionError([Problem("definition.name-taken", message, "")])
            events: list[Event] = [defined, repaired, *again]
            return [(new_id, event) for event in events]

        self._journal.transact(decide)


def left_in(folder: str) -> Left:
    """Return the tables of an aggregate in *folder*, without those that cannot be read."""
    old_id, n, columns = "", 0, None
    output = DeltaFolder.at(f"{folder}/output")
    with suppress(MaterializerError):
        old_id = _newest_id(output, made_for(output, "output"))
        n = output.transaction_version(f"materializer/{old_id}") or 0
        columns = tuple(output.schema())
    partials = []
    for name in sorted(places.names(f"{folder}/partials")):
        path = f"{folder}/partials/{name}"
        table = DeltaFolder.at(path)
        with suppress(MaterializerError):
            if made_for(table, "partials"):
                partials.append(path)
                n = max(n if n < RETIRED else 0, table.transaction_version(f"materializer/{name}") or 0)
    return Left(old_id, n if n < RETIRED else 0, columns, tuple(partials))


def _plan_of(name: str, left: Left, wanted: Any, lost: tuple[tuple[str, str], ...]) -> Mending:
    keeps = bool(left.old_id) and left.columns is not None and _pairs(left.columns) == _pairs(wanted)
    there = "tables of it are there" if left.old_id or left.partials else "no table of it can be read"
    return Mending(
        name,
        (*lost, (LOST, f"the journal does not know it; {there}")),
        Table.EMPTY,
        Table.KEPT if keeps else Table.EMPTY,
        Old.NONE if keeps or left.columns is None else Old.ASIDE,
        is_everything_dirty=True,
        n=1 + left.n,
    )


def _pairs(columns: Any) -> list[tuple[str, str]]:
    return [(str(name), str(kind)) for name, kind in columns]


def _note(n: int, source_version: int) -> dict[str, Any]:
    return {"plan": "taken over", "n": n, "kind": "fence", "source_version": source_version}


def _next_id(aggregate: str) -> str:
    """Return the next id of an aggregate after its journal was lost; a repeated takeover computes the same id."""
    return uuid5(NAMESPACE_OID, f"{aggregate} taken over").hex


def _newest_id(output: DeltaFolder, aggregate: str) -> str:
    """Return the last id under which an output was written: the id in its description, or a later one."""
    while aggregate and output.transaction_version(f"materializer/{_next_id(aggregate)}") is not None:
        aggregate = _next_id(aggregate)
    return aggregate


def _parents_first(specs: Sequence[AggregateSpec]) -> Iterator[AggregateSpec]:
    """Yield definitions, each after its parent."""
    waiting = {spec.name.lower(): spec for spec in specs}
    while waiting:
        ready = [s for s in waiting.values() if s.source.lower() not in waiting or s.source.lower() == s.name.lower()]
        for spec in ready or list(waiting.values()):
            yield waiting.pop(spec.name.lower())
