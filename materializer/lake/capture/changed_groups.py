"""The buckets and keys that a commit of ours changed, from its note: its files also hold rows that it only copied."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from materializer.core.refresh.invalidation import MAX_KEYS, Entry, Keys
from materializer.core.time.spans import Span, SpanSet
from materializer.lake.capture.buckets import distinct_keys
from materializer.lake.capture.context import CaptureContext
from materializer.lake.keys import typed_column
from materializer.lake.log import Commit
from materializer.lake.types import columns_of

CHANGED: Final = "changed"
"""Key of the changed buckets in the note."""
MOST: Final = 500
"""Most keys in a note, with their buckets; of more, it says nothing about keys."""


class ChangedGroups(Struct, frozen=True):
    """What a commit changed.

    Args:
        spans: The buckets.
        columns: The columns of the table that hold its keys; empty if no keys are known.
        keys: Some of these buckets, each set with the only keys that changed there; elsewhere it may be any key.
    """

    spans: SpanSet
    columns: tuple[str, ...] = ()
    keys: tuple[tuple[SpanSet, Keys], ...] = ()


def note_of_changes(
    column: str, spans: SpanSet, *, most: int, columns: Sequence[str] = (), taken: Iterable[Entry] = ()
) -> dict[str, Any]:
    """Return the part of a note that names buckets and keys.

    Args:
        column: The column of the table by which buckets are named.
        spans: The buckets.
        most: Most spans to name; beyond, what lies between them counts as changed.
        columns: The columns that hold the keys.
        taken: What was dirty, with the changed keys where they are known.
    """
    parts: dict[Keys, list[Span]] = defaultdict(list)
    for entry in taken:
        part = SpanSet.of(entry.span) & spans
        if entry.keys is not None and part:
            parts[entry.keys] += part
    by_keys = {keys: SpanSet.union(part) for keys, part in parts.items()}
    changed: dict[str, Any] = {"column": column, "spans": spans.at_most(most).as_json()}
    size = sum(len(keys) * max(len(part.spans), 1) for keys, part in by_keys.items())
    if columns and by_keys and size <= MOST and len(spans.spans) <= most:
        groups = [[part.as_json(), sorted(map(list, keys), key=repr)] for keys, part in by_keys.items()]
        changed["keys"] = {"columns": list(columns), "of": groups}
    return {CHANGED: changed}


def changed_groups(commit: Commit, column: str) -> ChangedGroups | None:
    """Return what a commit changed, with buckets by a column of the table; None if it does not say, or is not ours."""
    try:
        note = json.loads(str(commit.user_metadata))
        changed = note[CHANGED] if note["plan"] else {}
        if changed["column"] != column:
            return None
        spans, by_keys = _spans(changed["spans"]), changed.get("keys", {"columns": [], "of": []})
        groups = tuple((_spans(part), frozenset(map(tuple, keys))) for part, keys in by_keys["of"])
        columns = tuple(by_keys["columns"])
        is_right = all(len(key) == len(columns) for _, keys in groups for key in keys)
        return ChangedGroups(spans, columns, groups) if is_right else None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def keyed(context: CaptureContext, changed: ChangedGroups) -> Iterator[tuple[SpanSet, Keys]]:
    """Yield the buckets of which a reader knows the changed keys, as its own keys make them from those of the table."""
    for spans, keys in changed.keys:
        found = _keys_of_reader(context, changed.columns, keys)
        if found is not None and len(found) <= MAX_KEYS:
            yield spans, found


def _keys_of_reader(context: CaptureContext, columns: Sequence[str], keys: Keys) -> Keys | None:
    if context.keys is None or not {*context.keys} <= {*columns}:
        return None
    places = [columns.index(name) for name in context.keys]
    kinds, rows = dict(columns_of(context.table.schema_json())), list(keys)
    try:
        typed = [typed_column([key[i] for key in rows], kinds[n]) for n, i in zip(context.keys, places, strict=True)]
    except (pa.ArrowException, LookupError, ValueError, TypeError, ArithmeticError):  # no values of these columns
        return None
    if context.evaluate is None:
        return frozenset(tuple(key[i] for i in places) for key in keys)
    made = context.evaluate(pa.table(typed, names=list(context.keys)))
    return distinct_keys(made, np.zeros(len(rows), dtype=np.int64), 1)[0]


def _spans(data: Any) -> SpanSet:
    spans = SpanSet.from_json(data)
    if not all(type(end) is int for span in spans.spans for end in (span.start, span.end)):
        msg = "an end of a span is no instant"
        raise TypeError(msg)
    return spans
