"""What is wrong between the journal and the tables of one aggregate, found without a JVM; and what mends it.

The journal decides: a table is sound when it is the one that the journal names and carries the number that the journal
left it at. Whatever is not provably so is not believed: the partials then count as nothing, and everything is dirty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from materializer.core.refresh.plan import Plan, TableBase
from materializer.errors import NotADeltaTableError, SourceDamagedError, TableNotFoundError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState, States
from materializer.lake.rows import lost_file
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate, is_made_for
from materializer.services.definitions import lineage

RETIRED: Final = 1 << 62
"""Number under which the identifier of a lost journal's aggregate is retired: nobody writes above it."""


class TableCondition(StrEnum):
    """What a table of ours turned out to be."""

    SOUND = "sound"
    AHEAD = "ahead"
    BEHIND = "behind"
    MISSING = "missing"
    DAMAGED = "damaged"
    OTHER = "other"
    """Made for this aggregate, but not the one that the journal names."""
    FOREIGN = "foreign"


READABLE: Final = frozenset({TableCondition.SOUND, TableCondition.AHEAD, TableCondition.BEHIND})


@dataclass(frozen=True, slots=True)
class Seen:
    """One table, as it was found.

    Args:
        which: ``partials`` or ``output``.
        verdict: What it is.
        told: What is wrong with it, in words; "" when it is sound.
        n: Number that it carries; 0 when it cannot be told or is not ours.
        table_id: Its Delta table id, "" when it cannot be told.
        fits_plan: Whether the open plan can be recovered on it.
        version: Newest version of a sound one.
    """

    which: str
    verdict: TableCondition
    told: str = ""
    n: int = 0
    table_id: str = ""
    fits_plan: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One aggregate, as it was found.

    Args:
        name: The aggregate.
        partials: Its partials.
        output: Its output.
        source: Another table in the source's place, the rebuilt output of a parent; None when it is as it was.
        events: Why an event of it cannot be read, "" when all can.
        plan: The refresh that has not ended.
    """

    name: str
    partials: Seen
    output: Seen
    source: SourceIdentity | None = None
    events: str = ""
    plan: Plan | None = None

    @property
    def wrong(self) -> tuple[tuple[str, str], ...]:
        """Code and words of everything that is wrong."""
        return tuple(self._wrong())

    def _wrong(self) -> Iterator[tuple[str, str]]:
        if self.events:
            yield "journal.corrupt", self.events
        for seen in (self.partials, self.output):
            if seen.verdict is not TableCondition.SOUND:
                yield _CODES[seen.verdict], seen.told
        if self.source is not None:
            yield "source.replaced", f"the output that it reads, at {self.source.path}, was made anew"

    @property
    def is_recoverable(self) -> bool:
        """Whether the open plan can be ended as usual."""
        return self.partials.fits_plan and self.output.fits_plan


NUMBERS_EXPIRE: Final = "delta.setTransactionRetentionDuration"
"""A property that lets Delta forget which refresh a table carries."""
_CODES: Final = {
    TableCondition.AHEAD: "tables.ahead",
    TableCondition.BEHIND: "tables.ahead",
    TableCondition.MISSING: "table.not-found",
    TableCondition.DAMAGED: "tables.foreign",
    TableCondition.OTHER: "tables.foreign",
    TableCondition.FOREIGN: "tables.foreign",
}


def diagnose(state: AggregateState, root: Path, states: States, events: str = "") -> Diagnosis:
    """Return what is wrong with an aggregate; reads logs, writes nothing and starts no JVM.

    Args:
        state: What the journal says of it, or what can be read of that.
        root: The lake's root folder.
        states: All aggregates.
        events: Why an event of it cannot be read.

    Raises:
        StorageError: If a table cannot be looked at.
    """
    aggregate = Aggregate.of(state, root)
    partials, output = (_seen(state, aggregate, which) for which in ("partials", "output"))
    return Diagnosis(state.name, partials, output, _new_source(state, root, states), events, state.plan)


def _seen(state: AggregateState, aggregate: Aggregate, which: str) -> Seen:
    path, name = aggregate.paths[which], f"its {which} table"
    folder = DeltaFolder.at(path)
    try:
        head, columns = folder.head(), folder.schema()
        n = folder.transaction_version(aggregate.app_ids[which]) or 0
        lost = lost_file(path)
    except TableNotFoundError:
        return Seen(which, TableCondition.MISSING, f"{name} is not there")
    except (NotADeltaTableError, SourceDamagedError) as exc:
        return Seen(which, TableCondition.DAMAGED, f"{name} cannot be read: {exc.message}")
    is_ours = is_made_for(folder, which, state.id)
    if head.table_id != state.tables[which]:
        verdict = TableCondition.OTHER if is_ours and n < RETIRED else TableCondition.FOREIGN
        whose = "made for it, but not the one that the journal names" if is_ours else "not the one that was made for it"
        return Seen(which, verdict, f"{name} is {whose}", n if is_ours else 0, head.table_id)
    if n >= RETIRED:
        return Seen(which, TableCondition.FOREIGN, f"{name} was taken over when its journal was lost", 0, head.table_id)
    if lost is not None:
        return Seen(which, TableCondition.DAMAGED, f"{name} has lost the file {lost}", n, head.table_id)
    if columns != [(str(c), str(t)) for c, t in state.schemas[which]]:
        return Seen(which, TableCondition.DAMAGED, f"{name} has other columns than the definition", n, head.table_id)
    seen = _numbered(state, which, n, head.table_id, head.version)
    if seen.verdict is TableCondition.BEHIND and n == 0 and NUMBERS_EXPIRE in folder.properties():
        return replace(seen, told=f"{seen.told}; its property {NUMBERS_EXPIRE} lets the number expire")
    return seen


def _numbered(state: AggregateState, which: str, n: int, table_id: str, version: int) -> Seen:
    """Return what the number of a table says that is ours and whole."""
    plan, expected = state.plan, state.written_n
    is_switch = which == "partials" and bool(state.switch)  # what its plan names are the partials of the build
    base: TableBase | None = (
        None if plan is None or is_switch else plan.partials if which == "partials" else plan.output
    )
    most = expected if plan is None else plan.n
    fits = is_switch or (base is not None and base.table_id == table_id and version >= base.version)
    told = f"its {which} table carries refresh {n}, the journal left it at {expected}"
    if n > most:
        return Seen(which, TableCondition.AHEAD, told, n, table_id, fits)
    if n < expected or (base is not None and not fits):
        return Seen(which, TableCondition.BEHIND, told, n, table_id)
    return Seen(which, TableCondition.SOUND, "", n, table_id, fits, version)


def _new_source(state: AggregateState, root: Path, states: States) -> SourceIdentity | None:
    """Return the source of an aggregate that reads another's output, when that is another table or went back."""
    if lineage.parent_of(state.source.path, root, states) is None:
        return None
    try:
        head = DeltaFolder.at(state.source.path).head()
    except (TableNotFoundError, NotADeltaTableError, SourceDamagedError):
        return None  # the parent is to be repaired first
    if head.table_id == state.source.table_id and head.version >= state.cursor:
        return None
    return SourceIdentity(state.source.path, head.table_id, state.source.name)
