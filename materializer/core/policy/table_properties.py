"""The properties ``maintain.*``, ``log.max_entries`` and ``source.on_replace``: of our tables, and of the one that is read."""

from __future__ import annotations

from typing import Final

from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.grid import parse_width
from materializer.errors import MaterializerError

EVERY: Final = "maintain.every"
LOG_ENTRIES: Final = "log.max_entries"
ON_REPLACE: Final = "source.on_replace"
"""What a refresh makes of a source that was replaced: ``refresh``, or ``refuse``."""
RETENTION: Final = "maintain.retention"
HOUR_MICROS: Final = 3_600_000_000
_DAY_HOURS: Final = 24


def log_entries_of(spec: AggregateSpec, default: int) -> int:
    """Return how many entries the invalidation log may have before neighbours are joined."""
    return int(spec.property_map.get(LOG_ENTRIES, default))


def every_of(spec: AggregateSpec) -> int | None:
    """Return after how many refreshes the tables are maintained; None when they are maintained by hand only."""
    text = spec.property_map.get(EVERY)
    return None if text is None else int(text)


def retention_hours_of(spec: AggregateSpec) -> float | None:
    """Return for how many hours unneeded files are retained; None where the property of the tables themselves decides."""
    text = spec.property_map.get(RETENTION)
    return None if text is None else hours(text)


def hours(text: str) -> float | None:
    """Return a length of time in hours; None for months, for plain numbers and for other text.

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
    """Return what a retention must be if *value* is not valid; one under an hour could remove files of a running write."""
    length = hours(value)
    return None if length is not None and length >= 1 else "a length such as '3 days', of at least an hour"
