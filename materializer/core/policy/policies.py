"""Refresh policies: stored rules that turn the current time into a refresh window.

A policy covers ``[now − start_offset, now − end_offset)``; an offset that is left out is an open end. An aggregate may
have several, for different ages, as long as they do not overlap. *now* is always given: a microsecond since the epoch, or
a plain integer where time is one. Months and days are counted on the wall clock of the grid's zone, the rest is time
passed.

Lengths are compared by the 30-day rule where months meet days, because whether one month is longer than 30 days depends on
when it is asked.

Source:
    TimescaleDB's continuous aggregate policies, for the window, the two-bucket rule, overlap and the seam.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, TypeAlias, cast

from materializer.core.spec.spec import AggregateSpec, GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import Grid, describe_width, parse_width
from materializer.core.time.instants import DAY, SECOND, TICKS_PER_SECOND, date_of, days_of, parse, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.zones import UTC, Zone, load
from materializer.errors import PolicyNowError

DEFAULT: Final = "default"
KEYS: Final = ("start_offset", "end_offset", "schedule", "max_runs", "order", "catch_dirt")
"""What a policy consists of: properties ``refresh.<key>``, or ``refresh.<policy>.<key>`` for a named one."""
MAX_STALENESS: Final = "refresh.max_staleness"
OPEN: Final = ("none", "null")
"""How an open end is written."""

NAME: Final = re.compile(r"[a-z]\w{0,127}", re.ASCII)
"""How a policy may be called, in small letters."""
_KEY: Final = re.compile(rf"refresh\.(?:(?!{DEFAULT}\.)({NAME.pattern})\.)?({'|'.join(KEYS)})", re.ASCII)
_DAYS_IN_MONTH: Final = 30

Refusal: TypeAlias = tuple[str, str, str, str]
"""The property that is wrong, and code, message and hint of the problem."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy of an aggregate.

    Args:
        name: ``default``, or what stands between the dots of its properties.
        start_offset: Where its window starts, back from now; None is open.
        end_offset: Where its window ends, back from now; None is open.
        schedule: Five cron fields in UTC, or None: it runs by hand or when something else says so.
        max_runs: Runs that it does at most each time; None for no limit.
        order: Which end of its window is done first.
        catch_dirt: Whether dirt that lies in no policy's window is taken along.
    """

    name: str
    start_offset: Width | None = None
    end_offset: Width | None = None
    schedule: str | None = None
    max_runs: int | None = None
    order: Literal["newest", "oldest"] = "newest"
    catch_dirt: bool = False


# -- from properties and back --------------------------------------------------------------------------------------------


def policies_of(spec: AggregateSpec) -> tuple[Policy, ...]:
    """Return the policies of a definition, the one that covers the newest times first."""
    return policies_in(spec.property_map)


def policies_in(properties: Mapping[str, str]) -> tuple[Policy, ...]:
    """Return the policies that well-formed properties declare, the one that covers the newest times first.

    Examples:
        >>> [p.name for p in policies_in({"refresh.end_offset": "1 h", "refresh.old.end_offset": "7 days"})]
        ['default', 'old']
    """
    parts: dict[str, dict[str, str]] = {}
    for key, value in properties.items():
        split = split_key(key)
        if split:
            parts.setdefault(split[0], {})[split[1]] = value
    return tuple(sorted((_policy(name, given) for name, given in parts.items()), key=lambda p: (_ages(p)[0], p.name)))


def split_key(key: str) -> tuple[str, str] | None:
    """Return the policy that a property belongs to and what it says of it, or None when it is about no policy.

    Examples:
        >>> split_key("refresh.start_offset"), split_key("refresh.history.order"), split_key("refresh.max_staleness")
        (('default', 'start_offset'), ('history', 'order'), None)
    """
    match = _KEY.fullmatch(key)
    return (match[1] or DEFAULT, match[2]) if match else None


def key_of(policy: str, part: str) -> str:
    """Return the property that says *part* of a policy; the inverse of :func:`split_key`."""
    return f"refresh.{part}" if policy == DEFAULT else f"refresh.{policy}.{part}"


def promise_of(spec: AggregateSpec) -> Width | None:
    """Return how stale an aggregate may be, or None when nothing is promised."""
    return _offset(spec.property_map.get(MAX_STALENESS, "none"))


def _policy(name: str, given: Mapping[str, str]) -> Policy:
    return Policy(
        name,
        _offset(given.get("start_offset", "none")),
        _offset(given.get("end_offset", "none")),
        given.get("schedule"),
        int(given.get("max_runs", "0")) or None,
        cast("Literal['newest', 'oldest']", given.get("order", "newest").lower()),
        given.get("catch_dirt", "false").lower() == "true",
    )


def _offset(text: str) -> Width | None:
    return None if text.lower() in OPEN else parse_width(text)


def describe_offset(offset: Width | None) -> str:
    """Return an offset as its property would have it."""
    return "none" if offset is None else describe_width(offset)


# -- what is wrong with them ---------------------------------------------------------------------------------------------


def problems_of(properties: Mapping[str, str], grid: GridSpec | None, resolution: Resolution) -> Iterator[Refusal]:
    """Yield what is wrong with policies and the promise of an aggregate.

    Args:
        properties: Well-formed ones.
        grid: How its time is divided, or None while that is not known; a width in ticks without a *resolution* means
            plain integers.
        resolution: Meaning of a tick of an integer time column.
    """
    policies = policies_in(properties)
    unfit = [] if grid is None else list(_unfit(policies, properties, grid, resolution))
    yield from unfit
    kinds = {_kind(offset) for p in policies for offset in (p.start_offset, p.end_offset)} - {None}
    if unfit or len(kinds) > 1:
        if not unfit:
            ticks = next(p for p in policies if "ticks" in (_kind(p.start_offset), _kind(p.end_offset)))
            message = "some offsets are lengths of time and some are integers"
            yield _told(ticks, properties, "definition.policy-offset", message, "write all of them in one kind of unit")
        return
    for policy in policies:
        newest, oldest = _ages(policy)
        if newest >= oldest:
            message = f"the window of policy '{policy.name}' ends before it starts: {_shown(policy)}"
            hint = "the start lies further back than the end: start_offset must be the larger one"
            yield _told(policy, properties, "definition.policy-window", message, hint)
        elif grid is not None and _is_small(policy, grid, resolution):
            message = f"the window of policy '{policy.name}' is smaller than two buckets: {_shown(policy)}"
            hint = f"a bucket is {describe_width(grid.width)}; start_offset and end_offset must lie two of them apart"
            yield _told(policy, properties, "definition.policy-window", message, hint)
    for left, right in combinations(policies, 2):
        yield from _collision(left, right, properties)


def _unfit(
    policies: tuple[Policy, ...], properties: Mapping[str, str], grid: GridSpec, resolution: Resolution
) -> Iterator[Refusal]:
    """What does not fit the time column."""
    is_plain = grid.width.ticks is not None and resolution is Resolution.NONE
    lengths = [
        (f"the {part} of policy '{p.name}'", key_of(p.name, part), offset)
        for p in policies
        for part, offset in (("start_offset", p.start_offset), ("end_offset", p.end_offset))
    ]
    for what, key, length in (*lengths, ("the promise", MAX_STALENESS, _offset(properties.get(MAX_STALENESS, "none")))):
        if length is not None and not _fits(length, grid, resolution):
            wanted = "a whole number, as its time column counts" if is_plain else "a length of time such as '7 days'"
            message = f"{what} must be {wanted}; found '{describe_width(length)}'"
            yield (key, "definition.policy-offset", message, "write it in the unit of the time column")
    for policy in policies:
        if is_plain and policy.schedule is not None:
            message = f"policy '{policy.name}' has a schedule, and a clock says nothing about plain integer time"
            hint = "declare 'time.resolution', or leave the schedule away and run it with --now"
            yield (key_of(policy.name, "schedule"), "definition.policy-schedule", message, hint)


def _collision(left: Policy, right: Policy, properties: Mapping[str, str]) -> Iterator[Refusal]:
    (a, b), (c, d) = _ages(left), _ages(right)
    later = max((left, right), key=lambda p: list(properties).index(_place(p, properties)))
    if (a, b) == (c, d):
        message = f"a policy with the window of '{left.name}' already exists: '{right.name}', {_shown(right)}"
        yield _told(later, properties, "definition.policy-exists", message, "keep one of them")
    elif max(a, c) < min(b, d):
        message = f"the windows of policies '{left.name}' ({_shown(left)}) and '{right.name}' ({_shown(right)}) overlap"
        yield _told(later, properties, "definition.policy-overlap", message, "let one begin where the other ends")


def _told(policy: Policy, properties: Mapping[str, str], code: str, message: str, hint: str) -> Refusal:
    return (_place(policy, properties), code, message, hint)


def _place(policy: Policy, properties: Mapping[str, str]) -> str:
    """The property to point at: where the window starts or ends, or whatever the policy consists of."""
    return next(key for part in KEYS if (key := key_of(policy.name, part)) in properties)


def _shown(policy: Policy) -> str:
    return f"from {describe_offset(policy.start_offset)} to {describe_offset(policy.end_offset)} ago"


def _kind(offset: Width | None) -> str | None:
    """What an offset is counted in; None when it is open or zero, which fits everything."""
    if offset is None or not (offset.ticks or offset.months or offset.days or offset.micros):
        return None
    return "time" if offset.ticks is None else "ticks"


def _fits(offset: Width | None, grid: GridSpec, resolution: Resolution) -> bool:
    if _kind(offset) is None or resolution is not Resolution.NONE:
        return True
    return (_kind(offset) == "ticks") == (grid.width.ticks is not None)


def length_of(width: Width) -> int:
    """Return the microseconds of a length by the 30-day rule, or its ticks."""
    return (width.months * _DAYS_IN_MONTH + width.days) * DAY + width.micros if width.ticks is None else width.ticks


def _ages(policy: Policy) -> tuple[int, int]:
    """How far back the window of *policy* reaches, its near end and its far end."""
    near = NEG_INF if policy.end_offset is None else length_of(policy.end_offset)
    return near, POS_INF if policy.start_offset is None else length_of(policy.start_offset)


def _is_small(policy: Policy, grid: GridSpec, resolution: Resolution) -> bool:
    near, far = _ages(policy)
    if near == NEG_INF or far == POS_INF or near >= far:
        return False
    window, bucket = far - near, 2 * length_of(grid.width)
    is_ticks = "ticks" in (_kind(policy.start_offset), _kind(policy.end_offset))
    if resolution is Resolution.NONE or is_ticks == (grid.width.ticks is not None):
        return window < bucket
    per_second = TICKS_PER_SECOND[resolution]
    return window * SECOND < bucket * per_second if is_ticks else window * per_second < bucket * SECOND


# -- now -----------------------------------------------------------------------------------------------------------------


def has_clock(grid: Grid) -> bool:
    """Whether a clock says what *now* is; it does not for plain integer time."""
    return not grid.time_type.is_integer or grid.resolution is not Resolution.NONE


def read_now(given: str | int, grid: Grid) -> int:
    """Return the *now* that was given for an aggregate: microseconds since the epoch, or a plain integer.

    Args:
        given: ISO text, UTC unless it says otherwise; for integer time columns an integer too, in their ticks.
        grid: How the aggregate divides time.

    Raises:
        PolicyNowError: If it cannot be read.
    """
    text, hint = str(given).strip(), "give a time such as 2024-03-01T06:00:00Z"
    if grid.time_type.is_integer and re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text) * SECOND // TICKS_PER_SECOND[grid.resolution] if has_clock(grid) else int(text)
    if not has_clock(grid):
        message = f"now must be an integer for a {grid.time_type} time column without a resolution, got {text!r}"
        raise PolicyNowError(message, hint="give a whole number, as the time column counts")
    try:
        now = parse(text, TimeType.TIMESTAMP)
    except ValueError as error:
        raise PolicyNowError(f"now cannot be read: {error}", hint=hint) from None
    if now in (NEG_INF, POS_INF):
        raise PolicyNowError(f"now must be an instant, got {text!r}", hint=hint)
    return now


def render_now(now: int, grid: Grid) -> str | int:
    """Return *now* as :func:`read_now` reads it back: ISO text in UTC, or a plain integer."""
    return render(now, TimeType.TIMESTAMP) if has_clock(grid) else now


# -- windows -------------------------------------------------------------------------------------------------------------


def window(policy: Policy, now: int, grid: Grid) -> Span | None:
    """Return ``[now − start_offset, now − end_offset)`` in instants of the time column; None when it holds none.

    Ends beyond what the column can hold are open.
    """
    start = NEG_INF if policy.start_offset is None else _held(back(now, policy.start_offset, grid), grid)
    end = POS_INF if policy.end_offset is None else _held(back(now, policy.end_offset, grid), grid)
    return Span(start, end) if start < end else None


def refresh_window(policy: Policy, policies: tuple[Policy, ...], now: int, grid: Grid) -> Span | None:
    """Return the whole buckets that *policy* refreshes at *now*, or None when its window holds none.

    A policy that is not the newest reaches to the end of the bucket in which its window ends: the next one begins with the
    bucket after, and so no bucket lies between two windows that touch.

    Args:
        policy: One of *policies*.
        policies: All policies of the aggregate, newest first.
        now: See :func:`read_now`.
        grid: How the aggregate divides time.
    """
    found = window(policy, now, grid)
    if found is None:
        return None
    if policy.name != policies[0].name and found.end != POS_INF:
        found = Span(found.start, grid.edge_from(found.end))
    return grid.within(found)


def beyond(policies: tuple[Policy, ...], now: int, grid: Grid) -> SpanSet:
    """Return the time that lies in no policy's window; what is newer than all of them comes into one by itself."""
    windows = [w for p in policies if (w := refresh_window(p, policies, now, grid))]
    newest = max((w.end for w in windows), default=NEG_INF)
    return SpanSet.of(Span(NEG_INF, newest)) - SpanSet.of(*windows) if windows else SpanSet()


def back(now: int, offset: Width, grid: Grid) -> int:
    """Return the instant of the time column that lies *offset* before *now*."""
    if not has_clock(grid):
        return now - (offset.ticks or 0)
    if offset.ticks is not None:
        return instant_of(now, grid) - offset.ticks
    zone = load(grid.spec.timezone) if grid.spec.timezone else UTC
    if offset.months or offset.days:
        local = now + zone.regime_at(now).offset
        now = _first_at(_months_before(local, offset.months) - offset.days * DAY, zone)
    return instant_of(now - offset.micros, grid)


def instant_of(micros: int, grid: Grid) -> int:
    """Return the instant of the time column that holds a microsecond of the clock; without a zone, of UTC's."""
    return micros * TICKS_PER_SECOND[grid.resolution] // SECOND if grid.time_type.is_integer else micros


def micros_of(instant: int, grid: Grid) -> int:
    """Return an instant of the time column as *now* counts; the inverse of :func:`instant_of` where there is a clock."""
    is_ticks = grid.time_type.is_integer and has_clock(grid)
    return instant * SECOND // TICKS_PER_SECOND[grid.resolution] if is_ticks else instant


def _held(instant: int, grid: Grid) -> int:
    if instant < grid.limits.start:
        return NEG_INF
    return POS_INF if instant >= grid.limits.end else instant


def _months_before(local: int, months: int) -> int:
    """The same day and time of an earlier month, or its last day when it has no such day."""
    year, month, day = date_of(local // DAY)
    months = 12 * year + month - 1 - months
    first, after = _first_of(months), _first_of(months + 1)
    return (first + min(day, after - first) - 1) * DAY + local % DAY


def _first_of(months: int) -> int:
    """The first day of a month counted as 12 * year + month - 1."""
    year, month = divmod(months, 12)
    return days_of(year, month + 1, 1)


def _first_at(local: int, zone: Zone) -> int:
    """The first instant at which the wall clock shows *local*; where it jumps over it, as if it had not jumped yet."""
    regime = zone.regime_at(local - DAY)
    while True:
        found = local - regime.offset
        if found < regime.end:
            return found
        after = zone.regime_at(regime.end)
        if local - after.offset < after.start:
            return found
        regime = after
