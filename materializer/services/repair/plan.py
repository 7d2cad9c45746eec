"""The plan of a repair, decided from a diagnosis. The plan that is shown is the value that is carried out.

```
partials   sound ──▶ kept         number differs ──▶ kept, fenced     gone, foreign, damaged ──▶ made anew
output     sound, ahead ──▶ kept  behind, gone, foreign, damaged ──▶ made anew, from the partials where they can be read
dirty      nothing, when partials and journal agree and the output alone was lost; else everything
```
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from materializer.journal.state import AggregateState
from materializer.services.repair.diagnose import READABLE, Diagnosis, TableCondition


class Table(StrEnum):
    """What a repair does to one table."""

    KEPT = "kept"
    """It stays; a fence is written into it when everything is dirty."""
    REBUILT = "rebuilt"
    """The output is computed anew from the partials."""
    EMPTY = "empty"
    """It is created anew, without rows."""


class Old(StrEnum):
    """What a repair does to the old folder of a table that is created anew."""

    NONE = "none"
    REMOVED = "removed"
    ASIDE = "aside"


class Mending(Struct, frozen=True):
    """What a repair does to one aggregate.

    Args:
        name: The aggregate.
        wrong: Code and text of each problem.
        partials: What is done to the partials.
        output: What is done to the output.
        old_output: What is done to the old output, if a new one is created.
        is_everything_dirty: Whether the rows of the tables are unknown, so that everything becomes dirty.
        n: Refresh number that both tables carry afterwards.
        abandons: Number of an open refresh that cannot be recovered, None without one.
        source_rows: Rows that a refresh of everything reads, when known.
        partial_rows: Rows that an output is rebuilt from, when known.
        frozen: Time below which raw rows are gone or may be, as text; "" when nothing is frozen.
    """

    name: str
    wrong: tuple[tuple[str, str], ...]
    partials: Table = Table.KEPT
    output: Table = Table.KEPT
    old_output: Old = Old.NONE
    is_everything_dirty: bool = False
    n: int = 0
    abandons: int | None = None
    source_rows: int | None = None
    partial_rows: int | None = None
    frozen: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of the repair as text, in order."""
        return tuple(self._steps())

    def _steps(self) -> Iterator[str]:
        if not self.wrong:
            return
        if self.partials is not Table.KEPT:
            yield "a new table for the partials, empty"
        if self.old_output is Old.ASIDE:
            yield "the output that is there is renamed, beside its place; nothing of it is removed"
        if self.output is Table.REBUILT:
            rows = "what is stored" if self.partial_rows is None else f"{self.partial_rows:,} stored rows"
            yield f"the output is made again from {rows}; no row of the source is read"
        elif self.output is Table.EMPTY:
            yield "a new table for the output, empty until it is refreshed"
        elif self.is_everything_dirty:
            yield "the output stays as it is, readable, until it is refreshed"
        if self.abandons is not None:
            yield f"refresh {self.abandons}, which has not ended, is given up; its buckets are dirty"
        if self.is_everything_dirty:
            rows = "all" if self.source_rows is None else f"{self.source_rows:,}"
            yield f"everything is dirty: a refresh computes it again from {rows} source rows"
            if self.frozen:
                yield f"but what the tables hold below {self.frozen} stays: raw rows there are gone, or may be"
        else:
            yield "what is clean stays clean"


def repair_plan(d: Diagnosis, state: AggregateState, *, gives_up: bool = False) -> Mending:
    """Return the plan that repairs what *d* found.

    Args:
        d: The diagnosis.
        state: The aggregate.
        gives_up: Whether recovery of the open plan was tried and failed.
    """
    if not d.wrong and not gives_up:
        return Mending(d.name, ())
    is_readable = d.partials.verdict in READABLE
    abandons = d.plan.n if d.plan is not None and (gives_up or not d.is_recoverable) else None
    dirty = (
        d.partials.verdict is not TableCondition.SOUND
        or d.output.verdict is TableCondition.AHEAD
        or (d.output.verdict is TableCondition.OTHER and not is_readable)
        or bool(d.events)
        or d.source is not None
        or (abandons is not None and (state.is_engine or gives_up))
    )
    output, old = _output(d, is_readable=is_readable)
    last = state.written_n if abandons is None else max(abandons, state.written_n)
    return Mending(
        d.name,
        d.wrong or (("tables.ahead", f"refresh {abandons} cannot be ended"),),
        Table.KEPT if is_readable else Table.EMPTY,
        output,
        old,
        is_everything_dirty=dirty,
        n=1 + max(last, state.last_n, d.partials.n, d.output.n) if dirty else last,
        abandons=abandons,
    )


def _output(d: Diagnosis, *, is_readable: bool) -> tuple[Table, Old]:
    is_sound = d.partials.verdict is TableCondition.SOUND
    rebuilds = is_sound if d.output.verdict is TableCondition.OTHER_HISTORY else is_readable
    new = Table.REBUILT if is_readable else Table.EMPTY
    match d.output.verdict:
        case TableCondition.SOUND | TableCondition.AHEAD:
            return Table.KEPT, Old.NONE
        case TableCondition.OTHER | TableCondition.OTHER_HISTORY if not rebuilds:
            return Table.KEPT, Old.NONE
        case TableCondition.OTHER | TableCondition.BEHIND | TableCondition.OTHER_HISTORY if rebuilds:
            return new, Old.REMOVED
        case TableCondition.MISSING:
            return new, Old.NONE
        case _:
            return new, Old.ASIDE
