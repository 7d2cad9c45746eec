"""The buckets that a commit of ours changed, from its note: its files also hold rows of clean buckets, which it copied."""

from __future__ import annotations

import json
from typing import Any, Final

from materializer.core.time.spans import SpanSet
from materializer.lake.log import Commit

CHANGED: Final = "changed"
"""Key of the changed buckets in the note."""


def note_of_changes(column: str, spans: SpanSet) -> dict[str, Any]:
    """Return the part of a note that names the buckets, by a column of the table."""
    return {CHANGED: {"column": column, "spans": spans.as_json()}}


def changed_spans(commit: Commit, column: str) -> SpanSet | None:
    """Return in which buckets a commit changed rows, by a column of the table; None if it does not say, or is not ours."""
    try:
        note = json.loads(str(commit.user_metadata))
        changed = note[CHANGED] if note["plan"] else {}
        spans = SpanSet.from_json(changed["spans"]) if changed["column"] == column else None
        ends = [] if spans is None else [end for span in spans.spans for end in (span.start, span.end)]
        return spans if all(type(end) is int for end in ends) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
