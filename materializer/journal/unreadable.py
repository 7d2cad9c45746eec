"""Aggregates whose events cannot all be read: each is unusable by itself, the others go on.

What is read of such an aggregate is kept for its repair only: its definition, its last numbers, who worked on it. A
snapshot event heals it, because that stands instead of everything before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from materializer.errors import JournalError, JournalVersionError
from materializer.journal.codec import Row, decode
from materializer.journal.events import Dropped, Snapshot
from materializer.journal.fold import folded
from materializer.journal.state import AggregateState, States


@dataclass(frozen=True, slots=True)
class Broken:
    """An aggregate of which an event cannot be read.

    Args:
        id: Its id.
        name: Its name, "" when even that cannot be read.
        reason: What is wrong with the first such event.
        last: What can be read of it, as if the unreadable events had never been; None without a definition.
        is_too_new: Whether the event may be one that a newer release wrote.
    """

    id: str
    name: str
    reason: str
    last: AggregateState | None
    is_too_new: bool

    def error(self) -> JournalError:
        """Return the error for whoever wants to use it."""
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
    """Return the living aggregates, and those that cannot be used, after *rows*."""
    living, unusable = dict(states), dict(broken)
    for row in rows:
        known = unusable.get(row.aggregate)
        if known is not None and not _heals(row):
            unusable[row.aggregate] = replace(known, last=_followed(known.last, row))
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
    """Return what is read of a broken aggregate after one more event, as far as that makes sense."""
    with suppress(JournalError):
        return folded(last, row) or last
    return last


def _name_in(row: Row) -> str:
    try:
        data = json.loads(row.payload)
        return str(data.get("name") or data.get("state", {}).get("name") or "")
    except (ValueError, AttributeError):
        return ""
