"""Whether the tables of an aggregate without work are those that the journal left, as far as the newest commits of their logs say.

A few small files of a table on a path are read, and no table is opened. Nothing is asked of a store, where a refresh with work and
``doctor`` look.
"""

# ruff: noqa: PLC0415 - the tables of an idle aggregate fit nearly always

from __future__ import annotations

from contextlib import suppress

from materializer.errors import LogGapError, MaterializerError, TableNotFoundError
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.failures import missing
from materializer.lake.notes import newest_number
from materializer.services.aggregate import own_tables


def are_left(state: AggregateState, journal: Journal) -> bool:
    """Return whether the tables are those that the journal left; False where it went on after *state* was read.

    Args:
        state: The aggregate as the journal has it, without an open refresh.
        journal: The journal, which is read again where the tables do not fit.

    Raises:
        TableNotFoundError: If one is not there.
        TablesAheadError: If one carries another refresh.
        ForeignHistoryError: If another plan wrote one.
    """
    try:
        _check(state, journal.root)
    except MaterializerError:
        now = journal.view().all.get(state.id)
        if now is None or now.basis != state.basis:
            return False
        raise
    return True


def problem(state: AggregateState, journal: Journal) -> str:
    """Return in which way tables that are there are not those that the journal left, and what mends them; "" where they are."""
    try:
        if state.plan is None:
            are_left(state, journal)
    except TableNotFoundError:
        return ""
    except MaterializerError as exc:
        return f"{exc.message}; {exc.hint}"
    return ""


def _check(state: AggregateState, root: str) -> None:
    for which, (path, app_id) in own_tables(state, root).items():
        if not places.is_local(path):
            continue
        if not places.is_folder(path):
            error = missing(path)
            error.hint = f"it is the {which} table of '{state.name}': {state.mend}"
            raise error
        found = None
        with suppress(LogGapError):
            found = newest_number(path, app_id)
        if found is not None and (found[0] != state.written_n or state.is_other_plan(found[1])):
            from materializer.services.protocol.process import OwnTableHead, Which
            from materializer.services.protocol.refresh_steps import check_heads

            check_heads(state, {Which(which): OwnTableHead(state.tables[which], 0, *found)})
