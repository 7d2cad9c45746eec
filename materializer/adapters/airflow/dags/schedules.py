"""The schedule of a DAG: the clocks of its policies, the asset of its source, or both. Schedules are in UTC, as in policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable
from croniter import croniter

from materializer.core.policy.policies import Policy

_CLOCK: Final = "UTC"
_ONCE: Final = datetime(2000, 1, 1, tzinfo=UTC)


def schedule_of(policies: Iterable[Policy], source: Asset | None) -> Any:
    """Return the schedule of a DAG.

    A policy with a schedule runs by the clock; a policy without one runs when its source's asset is updated. A DAG with both
    kinds of policies has both.

    Args:
        policies: Policies of the aggregate.
        source: Asset of its source; None if the path of the source is unknown.

    Raises:
        ValueError: If a schedule is never due; Airflow would fail on it only while scheduling all DAGs of the file.
    """
    given = list(policies)
    crons = crons_of(given)
    clock = clock_of(crons) if crons else None
    if source is None or all(p.schedule is not None for p in given):
        return clock
    return [source] if clock is None else AssetOrTimeSchedule(timetable=clock, assets=[source])


def clock_of(crons: Sequence[str]) -> Any:
    """Return the timetable of one or more schedules.

    Raises:
        ValueError: If a schedule is never due, or is none.
    """
    for cron in crons:
        _before(cron, _ONCE)
    if len(crons) == 1:
        return CronTriggerTimetable(crons[0], timezone=_CLOCK)
    return MultipleCronTriggerTimetable(*crons, timezone=_CLOCK)


def crons_of(policies: Iterable[Policy]) -> list[str]:
    """Return the distinct schedules of policies."""
    return list(dict.fromkeys(p.schedule for p in policies if p.schedule is not None))


def previous_point(crons: Iterable[str], point: datetime) -> datetime:
    """Return the last point before *point* of any of the schedules."""
    return max(_before(cron, point) for cron in crons)


def is_due(cron: str, since: datetime | None, at: datetime) -> bool:
    """Return whether a schedule has a point in (*since*, *at*]; True if *since* is None."""
    # points are on whole seconds, and the search excludes its start
    return since is None or _before(cron, at.replace(microsecond=0) + timedelta(seconds=1)) > since


def _before(cron: str, moment: datetime) -> datetime:
    previous: datetime = croniter(cron, moment).get_prev(datetime)
    return previous
