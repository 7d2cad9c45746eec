"""The rows of the journal: each stores one event.

A row is (format, aggregate id, kind, time of the commit as text, payload as JSON). A row of an unknown kind or a newer
format raises an error and is never skipped, because later events depend on it.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from materializer.core.codec import as_json, from_json, parsed
from materializer.errors import NOTHING, JournalError, JournalVersionError
from materializer.journal.events import (
    Aborted,
    Audited,
    BuildClosed,
    BuildOpened,
    BuildStarted,
    Captured,
    Checked,
    Defined,
    Delivered,
    Described,
    Done,
    Dropped,
    Event,
    Frozen,
    Invalidated,
    LeaseReleased,
    LeaseRenewed,
    LeaseTaken,
    Maintained,
    ParentSwitched,
    Planned,
    PolicyRan,
    Registered,
    Repaired,
    Retired,
    Snapshot,
    Switched,
    SwitchPlanned,
)

FORMAT: Final = 1
UNREADABLE: Final = "unreadable"
"""Kind of the row that replaces an unreadable file of one aggregate's events; its payload is the reason."""
COLUMNS: Final = ("version", "position", "format", "aggregate", "kind", "at", "payload")
"""The columns of the journal table: those of a row, and before them the version of its commit and its position in it."""


class Row(Struct, frozen=True):
    """One row of the journal table."""

    aggregate: str
    kind: str
    at: str
    payload: str
    format: int = FORMAT


KINDS: Final[dict[str, type]] = {
    "defined": Defined,
    "described": Described,
    "parent_switched": ParentSwitched,
    "lease_taken": LeaseTaken,
    "lease_renewed": LeaseRenewed,
    "lease_released": LeaseReleased,
    "captured": Captured,
    "invalidated": Invalidated,
    "frozen": Frozen,
    "retired": Retired,
    "planned": Planned,
    "audited": Audited,
    "done": Done,
    "aborted": Aborted,
    "delivered": Delivered,
    "registered": Registered,
    "policy_ran": PolicyRan,
    "checked": Checked,
    "repaired": Repaired,
    "maintained": Maintained,
    "build_started": BuildStarted,
    "switch_planned": SwitchPlanned,
    "build_closed": BuildClosed,
    "build_opened": BuildOpened,
    "switched": Switched,
    "dropped": Dropped,
    "snapshot": Snapshot,
}
_NAMES: Final = {cls: kind for kind, cls in KINDS.items()}


def encode(aggregate: str, event: Event, *, at: str) -> Row:
    """Return the journal row of *event*.

    Args:
        aggregate: Id of the aggregate.
        event: What happened.
        at: Time of the commit as ISO text; people read it, no decision uses it.
    """
    return Row(aggregate, _NAMES[type(event)], at, json.dumps(as_json(event), separators=(",", ":")))


def decode(row: Row) -> Event:
    """Return the event of a journal row.

    Raises:
        JournalVersionError: If the row has a newer format or an unknown kind.
        JournalError: If the payload does not fit its kind.
    """
    if row.kind == UNREADABLE:
        raise JournalError(row.payload, hint="", wrote=NOTHING)
    if row.format > FORMAT or row.kind not in KINDS:
        raise JournalVersionError(
            f"the journal holds a {row.kind!r} event of format {row.format}; this version knows format {FORMAT}",
            hint="use the materializer version that wrote it, or a newer one",
            wrote=NOTHING,
        )
    try:
        event: Event = from_json(KINDS[row.kind], parsed(row.payload))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as exc:
        raise JournalError(
            f"the journal holds a {row.kind!r} event of {row.aggregate} that cannot be read: {exc}",
            hint="'materializer repair NAME' declares everything of it dirty; or restore the journal",
            wrote=NOTHING,
        ) from exc
    return event
