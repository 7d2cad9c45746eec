"""When a schedule comes due: five cron fields, read in UTC, as Airflow reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def refusal(schedule: str) -> str:
    """Return why *schedule* cannot be read, or an empty text."""
    from croniter import CroniterError, croniter  # noqa: PLC0415 (takes longer to import than a quiet command takes)

    try:
        croniter(schedule, _EPOCH)
    except CroniterError as error:
        return str(error)
    return ""


def next_due(schedule: str, after: int) -> int | None:
    """Return the first instant after *after* at which *schedule* comes due, or None when it never does.

    Args:
        schedule: Five cron fields, or an alias such as ``@daily``.
        after: Microseconds since the epoch.

    Examples:
        >>> next_due("@daily", 0), next_due("0 0 31 2 *", 0)
        (86400000000, None)
    """
    from croniter import CroniterBadDateError, croniter  # noqa: PLC0415 (as above)

    try:
        found: datetime = croniter(schedule, _EPOCH + after * _MICROSECOND).get_next(datetime)
    except CroniterBadDateError:
        return None
    return (found - _EPOCH) // _MICROSECOND
