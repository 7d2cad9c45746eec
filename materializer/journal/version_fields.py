"""What belongs to one version of an aggregate's data, and changes hands when a build is published or a version is kept.

A version is a JSON object: definition, source and tables, and how far they are true (cursor, threshold, log). What people
and readers know the aggregate by (id, name, numbers, policies) stays with the aggregate.
"""

from __future__ import annotations

from typing import Any, Final

from materializer.core.refresh.invalidation import InvalidationLog
from materializer.journal.events import SourceIdentity, instant_from_json
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
    data = state.as_json()
    return {field: data[field] for field in FIELDS}


def fields_of(version: Version) -> dict[str, Any]:
    """Return the fields of an aggregate's state that *version* stands for."""
    return {field: version[field] for field in FIELDS if field in version} | {
        "source": SourceIdentity(**version["source"]),
        "threshold": instant_from_json(version["threshold"]),
        "log": InvalidationLog.from_json(version["log"]),
        "extent_end": instant_from_json(version["extent_end"]),
        "followed_end": instant_from_json(version.get("followed_end", "inf")),
        "frozen": instant_from_json(version.get("frozen", "-inf")),
        "retired": instant_from_json(version.get("retired", "-inf")),
        "expired_rows": version.get("expired_rows", 0),
        "changes": tuple((version, rows) for version, rows in version["changes"]),
    }
