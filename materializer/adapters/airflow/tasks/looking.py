"""Read the state of an aggregate from its journal and the logs of its tables: no JVM, and no Airflow.

The façade does the reading. Each function imports the façade itself, because files in ``dags/`` never need it.
"""

# ruff: noqa: PLC0415 - as explained above

from __future__ import annotations

from typing import TYPE_CHECKING

from materializer.core.policy.policies import MAX_STALENESS, beyond, has_clock, policies_of, read_now
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import parse_window, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

if TYPE_CHECKING:
    from materializer.api import Materializer
    from materializer.core.time.grid import Grid


def grid_of(lake: str, aggregate: str, config: str | None = None) -> Grid:
    """Return the grid of an aggregate.

    Raises:
        UnknownAggregateError: If there is no such aggregate.
    """
    return _opened(lake, config).grid(aggregate)


def now_of(lake: str, aggregate: str, clock: str, config: str | None = None) -> str | None:
    """Return the *now* of an aggregate's policies: the clock or, if its time has no clock, the end of the newest bucket.

    The result is None if the time has no clock and there are no rows.

    Args:
        lake: Root folder of the lake.
        aggregate: Its name.
        clock: ISO text of the clock.
        config: Configuration file, or None.

    Raises:
        UnknownAggregateError: If there is no such aggregate.
    """
    return _now(_opened(lake, config), aggregate, clock)


def policy_windows(lake: str, aggregate: str, now: str, config: str | None = None) -> dict[str, Span | None]:
    """Return the whole buckets that each policy of an aggregate would refresh at *now*; None for a policy without any.

    Raises:
        UnknownAggregateError: If there is no such aggregate.
    """
    return {p.policy.name: p.window for p in _opened(lake, config).policies(aggregate, now)}


def why_stale(lake: str, aggregate: str, until: str | None = None, config: str | None = None) -> str:
    """Return why an aggregate is not fresh, in one line; ``""`` if it is fresh.

    Args:
        lake: Root folder of the lake.
        aggregate: Name of the aggregate.
        until: Only the time before this instant has to be fresh; None for everything.
        config: Configuration file, or None.

    Raises:
        UnknownAggregateError: If there is no such aggregate.
        RefreshWindowError: If *until* cannot be read.
    """
    opened = _opened(lake, config)
    grid = opened.grid(aggregate)
    (status,) = opened.status(aggregate)
    end = parse_window(None, until, grid.time_type, grid.resolution).end
    stale = status.dirty & SpanSet.of(Span(NEG_INF, end))
    if status.problem:
        return f"{aggregate}: {status.problem}"
    if status.open_refresh is not None:
        return f"{aggregate}: refresh {status.open_refresh} has not ended"
    above = status.waits_for
    if above is not None and above.state != "dirty":  # its dirt may lie outside the time that is asked for
        return f"{aggregate} reads {above.name}, which is {above.state}"
    if status.state == "behind" and (above is None or status.newest != status.cursor):
        return f"{aggregate} knows its source up to version {status.cursor}; the newest is {status.newest}"
    if status.state == "empty":
        return f"nothing of {aggregate} was ever materialised"
    if stale:
        before = "" if end == POS_INF else f" before {render(end, grid.time_type)}"
        return f"{aggregate} has {len(stale)} dirty spans{before}"
    return ""


def describe(lake: str, aggregate: str, now: str, config: str | None = None) -> tuple[bool, str]:
    """Return whether an aggregate breaks its promise, and how stale it is: the dirty time, and the part outside all policies.

    Args:
        lake: Root folder of the lake.
        aggregate: Name of the aggregate.
        now: ISO text of the clock.
        config: Configuration file, or None.

    Raises:
        UnknownAggregateError: If there is no such aggregate.
    """
    opened = _opened(lake, config)
    grid = opened.grid(aggregate)
    instant = _now(opened, aggregate, now)
    (status,) = opened.status(aggregate, instant)
    spec = AggregateSpec.from_json(opened.journal.view().named(aggregate).spec)
    policies, outside = policies_of(spec), status.dirty
    if policies and instant is not None:
        outside &= beyond(policies, read_now(instant, grid), grid)
    last = f"last refreshed at {status.last.at}" if status.last else "never refreshed"
    is_broken = status.freshness is None or status.freshness.is_kept is not True
    promise = spec.property_map.get(MAX_STALENESS, "promised")
    texts = [
        f"{aggregate} is {'' if is_broken else 'not '}staler than {promise}: it is {status.state}, {last}",
        f"source version {status.cursor} is known, {status.newest} is the newest",
        f"{len(status.dirty)} dirty spans, {len(outside)} of them in no policy's window",
    ]
    return is_broken, "; ".join([*texts, status.problem] if status.problem else texts)


def _now(opened: Materializer, aggregate: str, clock: str) -> str | None:
    if has_clock(opened.grid(aggregate)):
        return clock
    newest = opened.newest_bucket_end(aggregate)
    return None if newest is None else str(newest)


def _opened(lake: str, config: str | None) -> Materializer:
    from materializer import config as configuration
    from materializer.api import Materializer

    return Materializer(lake, config=configuration.read(config))
