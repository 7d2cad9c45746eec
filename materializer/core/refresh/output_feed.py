"""The change feed of an output: each row that a refresh changed, and the reason.

The reason follows from the dirt that the refresh took. A row that goes away is a delete. A row in a span that was never
materialised is new. Where the source versions only inserted rows, the row is late. In all other cases, unknown changes
included, it is a correction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import Span, SpanSet

PROPERTY: Final = "output.change_feed"
CHANGE: Final = "_change"
REASON: Final = "_reason"
META: Final = (
    (CHANGE, "string"),
    (REASON, "string"),
    ("_refresh", "bigint"),
    ("_source_version", "bigint"),
    ("_published_at", "timestamp"),
)
"""Columns of the feed in addition to those of the output, whose names never begin with an underscore."""
NOTE: Final = "feed"
"""Key of the feed's reasons in the note of an output commit."""


class ChangeType(StrEnum):
    """The kind of change of a row, in the words of Delta's own change data feed."""

    INSERT = "insert"
    PREIMAGE = "update_preimage"
    POSTIMAGE = "update_postimage"
    DELETE = "delete"


class Reason(StrEnum):
    """Why a row changed."""

    NEW = "new"
    """Nothing had been materialised in its span."""
    LATE = "late"
    """Rows arrived for a published bucket, and no row was changed or deleted."""
    CORRECTION = "correction"
    """Rows were changed or deleted, or a user asked for the bucket to be computed again."""
    DELETE = "delete"
    """No source rows are left for the output row."""
    DEFINITION = "definition"
    """Another version of the definition was published."""


def is_on(spec: AggregateSpec) -> bool:
    """Whether a definition turns the feed on."""
    return spec.property_map.get(PROPERTY, "false").lower() == "true"


def reason_of(entry: Entry) -> Reason:
    """Return why the rows of an entry's buckets differ after a refresh took the entry.

    Examples:
        >>> reason_of(Entry(Span(0, 1), 7, Cause.CHANGE, is_insert_only=True))
        <Reason.LATE: 'late'>
    """
    if entry.cause is Cause.NEW:
        return Reason.NEW
    is_late = entry.is_insert_only and entry.cause in (Cause.CHANGE, Cause.FILES)
    return Reason.LATE if is_late else Reason.CORRECTION


def reasons_as_json(taken: Iterable[Entry], *, reaches_beyond: bool) -> dict[str, Any]:
    """Return the spans of each reason, in the form for a commit's note.

    Args:
        taken: The dirt that a refresh took.
        reaches_beyond: Whether the refresh can change results outside the dirt, as refreshes of engines can.

    Examples:
        >>> reasons_as_json([Entry(Span(0, 5)), Entry(Span(5, 9), 7, Cause.CHANGE)], reaches_beyond=False)
        {'new': [[0, 5]], 'late': [], 'else': 'correction'}
    """
    spans: dict[Reason, list[Span]] = {reason: [] for reason in Reason}
    for entry in taken:
        spans[reason_of(entry)].append(entry.span)
    beyond = Reason.LATE if reaches_beyond and not spans[Reason.CORRECTION] else Reason.CORRECTION
    by_reason: dict[str, Any] = {r.value: SpanSet.union(spans[r]).as_json() for r in (Reason.NEW, Reason.LATE)}
    return by_reason | {"else": beyond.value}


def reasons_from_json(data: Mapping[str, Any]) -> tuple[SpanSet, SpanSet, Reason]:
    """Return the spans where rows are new, the spans where they are late, and the reason everywhere else."""
    new, late = (SpanSet.from_json(data[reason.value]) for reason in (Reason.NEW, Reason.LATE))
    return new, late, Reason(data["else"])
