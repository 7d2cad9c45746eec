"""Aggregates with an unreadable event. Such an aggregate cannot be used; the other aggregates can.

Its readable events are folded for its repair only, which needs its definition, its last numbers and its lease. A snapshot
event makes it usable again, because a snapshot replaces all earlier events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.spec.spec import NAME
from materializer.errors import JournalError, JournalVersionError
from materializer.journal.codec import Row, decode
from materializer.journal.events import Dropped, Snapshot
from materializer.journal.fold import folded
from materializer.journal.state import AggregateState, States


class Broken(Struct, frozen=True):
    """An aggregate with an unreadable event.

    Args:
        id: Its id.
        name: Its name, "" when the name cannot be read either.
        reason: What is wrong with the first unreadable event.
        last: Its state, folded without the unreadable events; None without a definition.
        is_too_new: Whether a newer release may have written the event.
    """

    id: str
    name: str
    reason: str
    last: AggregateState | None
    is_too_new: bool

    def error(self) -> JournalError:
        """Return the error that a command raises when it needs the aggregate."""
        name = self.name or self.id
        by = "a newer release may have written it: use that one. Else " if self.is_too_new else ""
        mend = f"'materializer repair {name}'" if self.last else "'materializer repair --definitions FILE'"
        kind = JournalVersionError if self.is_too_new else JournalError
        return kind(
            f"'{name}' cannot be used: {self.reason}",
            hint=f"{by}{mend} declares everything of it dirty; or restore a backup of the journal",
            name=name,
        )


def fold_each(rows: Iterable[Row], states: States, broken: Mapping[str, Broken]) -> tuple[States, Mapping[str, Broken]]:
    """Return the usable aggregates and the broken ones after *rows*."""
    living, unusable = dict(states), dict(broken)
    for row in rows:
        known = unusable.get(row.aggregate)
        if known is not None and not _heals(row):
            unusable[row.aggregate] = replace(known, last=_followed(known.last, row))
            continue
        if known is not None and row.kind == "dropped":
            unusable.pop(row.aggregate)
            continue
        try:
            state = folded(living.get(row.aggregate) if known is None else known.last, row)
        except JournalError as exc:
            last = living.pop(row.aggregate, None)
            name = last.name if last else _name_in(row)
            is_too_new = isinstance(exc, JournalVersionError)
            unusable[row.aggregate] = Broken(row.aggregate, name, exc.message, last, is_too_new)
            continue
        unusable.pop(row.aggregate, None)
        living.pop(row.aggregate, None)
        if state is not None:
            living[row.aggregate] = state
    return living, unusable


def _heals(row: Row) -> bool:
    try:
        event = decode(row)
    except JournalError:
        return False
    return isinstance(event, (Snapshot, Dropped))


def _followed(last: AggregateState | None, row: Row) -> AggregateState | None:
    """Return the state of a broken aggregate after one more event, unchanged if the event cannot be read or applied."""
    with suppress(JournalError):
        return folded(last, row) or last
    return last


def _name_in(row: Row) -> str:
    try:
        data = json.loads(row.payload)
        name = str(data.get("name") or data.get("state", {}).get("name") or "")
        return name if NAME.match(name) else ""
    except (ValueError, AttributeError, RecursionError):
        return ""
