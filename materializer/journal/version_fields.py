"""What belongs to one version of an aggregate's data, and changes hands when a build is published or a version is kept.

A version is a JSON object: definition, source and tables, and how far they are true (cursor, threshold, log). What people
and readers know the aggregate by (id, name, numbers, policies) stays with the aggregate.
"""

from __future__ import annotations

from typing import Any, Final

from materializer.core.codec import as_json, field_forms
from materializer.core.time.spans import NEG_INF, POS_INF
from materializer.journal.state import AggregateState, Version

FIELDS: Final = (
    "spec",
    "data_version",
    "source",
    "schemas",
    "tables",
    "cursor",
    "threshold",
    "log",
    "extent_end",
    "followed_end",
    "null_times",
    "changes",
    "engine",
    "written_n",
    "frozen",
    "retired",
    "expired_rows",
)


def version_of(state: AggregateState) -> dict[str, Any]:
    """Return the version that an aggregate, or a build, has now."""
    data = as_json(state)
    return {field: data[field] for field in FIELDS}


def fields_of(version: Version) -> dict[str, Any]:
    """Return the fields of an aggregate's state that *version* stands for."""
    forms = field_forms(AggregateState)
    later = {"followed_end": POS_INF, "frozen": NEG_INF, "retired": NEG_INF, "expired_rows": 0}
    return later | {f: forms[f].decode(version[f]) for f in FIELDS if f in version or f not in later}
