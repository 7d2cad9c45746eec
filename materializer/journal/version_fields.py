"""The fields of an aggregate's state that belong to one version of its data.

A version is a JSON object: definition, source, tables, and how far the tables reflect the source (cursor, threshold, log).
Publishing a build replaces these fields. The fields by which people and readers know the aggregate (id, name, numbers,
policies) stay.
"""

from __future__ import annotations

from typing import Any, Final

from materializer.core.codec import as_json, field_forms
from materializer.core.refresh.invalidation import SourceMark
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
    "mark",
)


def version_of(state: AggregateState) -> dict[str, Any]:
    """Return the version of an aggregate or of a build."""
    data = as_json(state)
    return {field: data[field] for field in FIELDS if field in data}


def fields_of(version: Version) -> dict[str, Any]:
    """Return the fields of an aggregate's state that *version* sets."""
    forms = field_forms(AggregateState)
    later = {"followed_end": POS_INF, "frozen": NEG_INF, "retired": NEG_INF, "expired_rows": 0, "mark": SourceMark()}
    return later | {f: forms[f].decode(version[f]) for f in FIELDS if f in version or f not in later}
