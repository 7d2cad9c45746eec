"""Diagnosis of an aggregate: where its tables do not agree with the journal. Needs no JVM.

A table is sound if it is the one that the journal names and carries the refresh number that the journal has. If this cannot
be proved for the partials, their rows are not used, and everything is dirty.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.refresh.plan import Plan, TableBase
from materializer.errors import NotADeltaTableError, SourceDamagedError, TableNotFoundError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState, States
from materializer.lake.rows import lost_file
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate, is_made_for
from materializer.services.definitions import lineage

RETIRED: Final = 1 << 62
"""Number that fences the identifier of an aggregate of a lost journal for ever: no refresh has a larger one."""


class TableCondition(StrEnum):
    """The condition of a table of ours."""

    SOUND = "sound"
    AHEAD = "ahead"
    BEHIND = "behind"
    MISSING = "missing"
    DAMAGED = "damaged"
    OTHER = "other"
    """Made for this aggregate, but not the one that the journal names."""
    FOREIGN = "foreign"
    OTHER_HISTORY = "other history"
    """It carries the number that the journal has, but another plan wrote it."""


READABLE: Final = frozenset(
    {TableCondition.SOUND, TableCondition.AHEAD, TableCondition.BEHIND, TableCondition.OTHER_HISTORY}
)


class DiagnosedTable(Struct, frozen=True):
    """The diagnosis of one table.

    Args:
        which: ``partials`` or ``output``.
        verdict: Its condition.
        problem: What is wrong with it, as text; "" for a sound table.
        n: Refresh number that it carries; 0 when it cannot be read or the table is not ours.
        table_id: Its Delta table id, "" when it cannot be read.
        fits_plan: Whether the open plan can be recovered on it.
        version: Newest version of a sound table.
    """

    which: str
    verdict: TableCondition
    problem: str = ""
    n: int = 0
    table_id: str = ""
    fits_plan: bool = False
    version: int = 0


class Diagnosis(Struct, frozen=True):
    """The diagnosis of one aggregate.

    Args:
        name: The aggregate.
        partials: Its partials.
        output: Its output.
        source: The rebuilt output of the parent, when another table is in the place of the source; else None.
        events: Why one of its events cannot be read, "" when all can.
        plan: The open refresh.
    """

    name: str
    partials: DiagnosedTable
    output: DiagnosedTable
    source: SourceIdentity | None = None
    events: str = ""
    plan: Plan | None = None

    @property
    def wrong(self) -> tuple[tuple[str, str], ...]:
        """Code and text of each problem."""
        return tuple(self._wrong())

    def _wrong(self) -> Iterator[tuple[str, str]]:
        if self.events:
            yield "journal.corrupt", self.events
        for table in (self.partials, self.output):
            if table.verdict is not TableCondition.SOUND:
                yield _CODES[table.verdict], table.problem
        if self.source is not None:
            yield "source.replaced", f"the output that it reads, at {self.source.path}, was made anew"

    @property
    def is_recoverable(self) -> bool:
        """Whether the open plan can be recovered as usual."""
        return self.partials.fits_plan and self.output.fits_plan


NUMBERS_EXPIRE: Final = "delta.setTransactionRetentionDuration"
"""A property that lets Delta delete the refresh number of a table."""
_CODES: Final = {
    TableCondition.AHEAD: "tables.ahead",
    TableCondition.BEHIND: "tables.ahead",
    TableCondition.MISSING: "table.not-found",
    TableCondition.DAMAGED: "tables.foreign",
    TableCondition.OTHER: "tables.foreign",
    TableCondition.FOREIGN: "tables.foreign",
    TableCondition.OTHER_HISTORY: "tables.foreign-history",
}


def diagnose(state: AggregateState, root: str, states: States, events: str = "") -> Diagnosis:
    """Return the diagnosis of an aggregate, from the logs of its tables; writes nothing and starts no JVM.

    Args:
        state: Its state in the journal, or the part of it that can be read.
        root: The lake's root.
        states: All aggregates.
        events: Why one of its events cannot be read.

    Raises:
        StorageError: If a table cannot be accessed.
    """
    aggregate = Aggregate.of(state, root)
    partials, output = (_diagnosed(state, aggregate, which) for which in ("partials", "output"))
    return Diagnosis(state.name, partials, output, _new_source(state, root, states), events, state.plan)


def _diagnosed(state: AggregateState, aggregate: Aggregate, which: str) -> DiagnosedTable:
    path, name = aggregate.paths[which], f"its {which} table"
    folder = DeltaFolder.at(path)
    try:
        head, columns = folder.head(), folder.schema()
        number, plan = folder.numbered(aggregate.app_ids[which])
        n, lost = number or 0, lost_file(path)
    except TableNotFoundError:
        return DiagnosedTable(which, TableCondition.MISSING, f"{name} is not there")
    except (NotADeltaTableError, SourceDamagedError) as exc:
        return DiagnosedTable(which, TableCondition.DAMAGED, f"{name} cannot be read: {exc.message}")
    is_ours = is_made_for(folder, which, state.id)
    if head.table_id != state.tables[which]:
        verdict = TableCondition.OTHER if is_ours and n < RETIRED else TableCondition.FOREIGN
        whose = "made for it, but not the one that the journal names" if is_ours else "not the one that was made for it"
        return DiagnosedTable(which, verdict, f"{name} is {whose}", n if is_ours else 0, head.table_id)
    if n >= RETIRED:
        return DiagnosedTable(
            which, TableCondition.FOREIGN, f"{name} was taken over when its journal was lost", 0, head.table_id
        )
    if lost is not None:
        return DiagnosedTable(which, TableCondition.DAMAGED, f"{name} has lost the file {lost}", n, head.table_id)
    if columns != [(str(c), str(t)) for c, t in state.schemas[which]]:
        return DiagnosedTable(
            which, TableCondition.DAMAGED, f"{name} has other columns than the definition", n, head.table_id
        )
    table = _numbered(state, which, n, head.table_id, head.version)
    if table.verdict is TableCondition.SOUND and n == state.written_n and state.is_other_plan(plan):
        problem = f"{name} carries refresh {n} of another history: plan {plan} wrote it"
        return DiagnosedTable(which, TableCondition.OTHER_HISTORY, problem, n, head.table_id)
    if table.verdict is TableCondition.BEHIND and n == 0 and NUMBERS_EXPIRE in folder.properties():
        return replace(table, problem=f"{table.problem}; its property {NUMBERS_EXPIRE} lets the number expire")
    return table


def _numbered(state: AggregateState, which: str, n: int, table_id: str, version: int) -> DiagnosedTable:
    """Return the diagnosis of a readable table of ours by its refresh number."""
    plan, expected = state.plan, state.written_n
    is_switch = which == "partials" and bool(state.switch)  # the plan of a switch names the partials of the build
    base: TableBase | None = (
        None if plan is None or is_switch else plan.partials if which == "partials" else plan.output
    )
    most = expected if plan is None else plan.n
    fits = is_switch or (base is not None and base.table_id == table_id and version >= base.version)
    problem = f"its {which} table carries refresh {n}, the journal left it at {expected}"
    if n > most:
        return DiagnosedTable(which, TableCondition.AHEAD, problem, n, table_id, fits)
    if n < expected or (base is not None and not fits):
        return DiagnosedTable(which, TableCondition.BEHIND, problem, n, table_id)
    return DiagnosedTable(which, TableCondition.SOUND, "", n, table_id, fits, version)


def _new_source(state: AggregateState, root: str, states: States) -> SourceIdentity | None:
    """Return the source of an aggregate over another one, if its table was replaced or is older than the cursor."""
    if lineage.parent_of(state.source.path, root, states) is None:
        return None
    try:
        head = DeltaFolder.at(state.source.path).head()
    except (TableNotFoundError, NotADeltaTableError, SourceDamagedError):
        return None  # the parent has to be repaired first
    if head.table_id == state.source.table_id and head.version >= state.cursor:
        return None
    return SourceIdentity(state.source.path, head.table_id, state.source.name)
