"""The properties ``maintain.*`` and ``log.max_entries`` of a definition: how often its tables are maintained, what is kept."""

from __future__ import annotations

from typing import Final

from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.grid import parse_width
from materializer.errors import MaterializerError

EVERY: Final = "maintain.every"
LOG_ENTRIES: Final = "log.max_entries"
RETENTION: Final = "maintain.retention"
HOUR_MICROS: Final = 3_600_000_000
_DAY_HOURS: Final = 24


def log_entries_of(spec: AggregateSpec, default: int) -> int:
    """Return how many entries its invalidation log may have before neighbours are joined."""
    return int(spec.property_map.get(LOG_ENTRIES, default))


def every_of(spec: AggregateSpec) -> int | None:
    """Return after how many refreshes the tables are maintained, or None: only by hand."""
    text = spec.property_map.get(EVERY)
    return None if text is None else int(text)


def retention_hours_of(spec: AggregateSpec) -> float | None:
    """Return how long files that no version needs any more are kept, in hours; None where the tables' own property tells."""
    text = spec.property_map.get(RETENTION)
    return None if text is None else hours(text)


def hours(text: str) -> float | None:
    """Return a length of days, hours and less in hours, or None when it is no such length.

    Examples:
        >>> hours("3 days"), hours("90 minutes"), hours("1 month"), hours("soon")
        (72.0, 1.5, None, None)
    """
    try:
        width = parse_width(text)
    except (ValueError, MaterializerError):
        return None
    if width.months or width.ticks:
        return None
    return width.days * _DAY_HOURS + width.micros / HOUR_MICROS


def refusal_of_retention(value: str) -> str | None:
    """Return what the retention must be when *value* is not that; less than an hour could take files of a write that goes on."""
    found = hours(value)
    return None if found is not None and found >= 1 else "a length such as '3 days', of at least an hour"
