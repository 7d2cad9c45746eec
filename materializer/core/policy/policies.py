"""Refresh policies: stored rules that turn the current time into a refresh window.

A policy covers ``[now − start_offset, now − end_offset)``; without an offset that end is open. An aggregate may have several
policies, for different ages, as long as they do not overlap. *now* is always an argument: microseconds since the epoch, or a
plain integer for an integer time column without a resolution. Months and days are counted on the wall clock of the grid's
zone, smaller units are elapsed time.

Where months are compared with days, a month counts as 30 days, because its real length depends on the date.

Source:
    TimescaleDB's continuous aggregate policies, for the window, the two-bucket rule, overlap and the seam.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Final, Literal, TypeAlias, cast

from msgspec import Struct

from materializer.core.spec.spec import AggregateSpec, GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import Grid, describe_width, parse_width
from materializer.core.time.instants import (
    DAY,
    SECOND,
    TICKS_PER_SECOND,
    Instant,
    date_of,
    days_of,
    parse,
    render,
    written,
)
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.zones import UTC, Zone, load
from materializer.errors import PolicyNowError

DEFAULT: Final = "default"
KEYS: Final = ("start_offset", "end_offset", "schedule", "max_runs", "order", "catch_dirt")
"""The parts of a policy: properties ``refresh.<key>``, or ``refresh.<policy>.<key>`` for a named policy."""
MAX_STALENESS: Final = "refresh.max_staleness"
OPEN: Final = ("none", "null")
"""Texts for an open end."""

NAME: Final = re.compile(r"[a-z]\w{0,127}", re.ASCII)
"""The form of a policy's name, in lower case."""
_KEY: Final = re.compile(rf"refresh\.(?:(?!{DEFAULT}\.)({NAME.pattern})\.)?({'|'.join(KEYS)})", re.ASCII)
_DAYS_IN_MONTH: Final = 30

Refusal: TypeAlias = tuple[str, str, str, str]
"""The property that is wrong, and the code, message and hint of its problem."""


class Policy(Struct, frozen=True):
    """One policy of an aggregate.

    Args:
        name: ``default``, or the name between the dots of its properties.
        start_offset: Distance of the window's start back from now; None for an open start.
        end_offset: Distance of the window's end back from now; None for an open end.
        schedule: Five cron fields in UTC; None for a policy that is not run by a schedule of its own.
        max_runs: Most runs of each execution; None for no limit.
        order: Which end of its window is refreshed first.
        catch_dirt: Whether the policy also refreshes dirt that lies in no policy's window.
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
    """Return the policies of a definition, the policy with the newest times first."""
    return _policies_in(spec.properties)


@lru_cache(1_024)
def _policies_in(properties: tuple[tuple[str, str], ...]) -> tuple[Policy, ...]:
    """Return what :func:`policies_in` returns; many definitions have the same properties."""
    return policies_in(dict(properties))


def policies_in(properties: Mapping[str, str]) -> tuple[Policy, ...]:
    """Return the policies in well-formed properties, the policy with the newest times first.

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
    """Return the policy and the part of it that a property sets; None for a property of no policy.

    Examples:
        >>> split_key("refresh.start_offset"), split_key("refresh.history.order"), split_key("refresh.max_staleness")
        (('default', 'start_offset'), ('history', 'order'), None)
    """
    match = _KEY.fullmatch(key)
    return (match[1] or DEFAULT, match[2]) if match else None


def key_of(policy: str, part: str) -> str:
    """Return the property that sets *part* of a policy; the inverse of :func:`split_key`."""
    return f"refresh.{part}" if policy == DEFAULT else f"refresh.{policy}.{part}"


def promise_of(spec: AggregateSpec) -> Width | None:
    """Return the promised maximum staleness of an aggregate; None without a promise."""
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
    """Return an offset in the form of its property."""
    return "none" if offset is None else describe_width(offset)


# -- what is wrong with them ---------------------------------------------------------------------------------------------


def problems_of(properties: Mapping[str, str], grid: GridSpec | None, resolution: Resolution) -> Iterator[Refusal]:
    """Yield the problems of an aggregate's policies and staleness promise.

    Args:
        properties: Well-formed properties.
        grid: The aggregate's grid, or None while it is unknown; a width in ticks without a *resolution* means plain
            integers.
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
            yield _refusal(
                ticks, properties, "definition.policy-offset", message, "write all of them in one kind of unit"
            )
        return
    for policy in policies:
        newest, oldest = _ages(policy)
        if newest >= oldest:
            message = f"the window of policy '{policy.name}' ends before it starts: {_window_text(policy)}"
            hint = "the start lies further back than the end: start_offset must be the larger one"
            yield _refusal(policy, properties, "definition.policy-window", message, hint)
        elif grid is not None and _is_small(policy, grid, resolution):
            message = f"the window of policy '{policy.name}' is smaller than two buckets: {_window_text(policy)}"
            hint = f"a bucket is {describe_width(grid.width)}; start_offset and end_offset must lie two of them apart"
            yield _refusal(policy, properties, "definition.policy-window", message, hint)
    for left, right in combinations(policies, 2):
        yield from _collision(left, right, properties)


def _unfit(
    policies: tuple[Policy, ...], properties: Mapping[str, str], grid: GridSpec, resolution: Resolution
) -> Iterator[Refusal]:
    """Yield the problems of offsets, promise and schedules that do not fit the time column."""
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
        message = f"a policy with the window of '{left.name}' already exists: '{right.name}', {_window_text(right)}"
        yield _refusal(later, properties, "definition.policy-exists", message, "keep one of them")
    elif max(a, c) < min(b, d):
        message = f"the windows of policies '{left.name}' ({_window_text(left)}) and '{right.name}' ({_window_text(right)}) overlap"
        yield _refusal(later, properties, "definition.policy-overlap", message, "let one begin where the other ends")


def _refusal(policy: Policy, properties: Mapping[str, str], code: str, message: str, hint: str) -> Refusal:
    return (_place(policy, properties), code, message, hint)


def _place(policy: Policy, properties: Mapping[str, str]) -> str:
    """Return the property that a problem points at: the first one that the policy has, in the order of :data:`KEYS`."""
    return next(key for part in KEYS if (key := key_of(policy.name, part)) in properties)


def _window_text(policy: Policy) -> str:
    return f"from {describe_offset(policy.start_offset)} to {describe_offset(policy.end_offset)} ago"


def _kind(offset: Width | None) -> str | None:
    """Return the unit of an offset, ``time`` or ``ticks``; None for an open or zero offset, which fits every time column."""
    if offset is None or not (offset.ticks or offset.months or offset.days or offset.micros):
        return None
    return "time" if offset.ticks is None else "ticks"


def _fits(offset: Width | None, grid: GridSpec, resolution: Resolution) -> bool:
    if _kind(offset) is None or resolution is not Resolution.NONE:
        return True
    return (_kind(offset) == "ticks") == (grid.width.ticks is not None)


def length_of(width: Width) -> int:
    """Return a length in microseconds, with 30 days for a month; or its ticks."""
    return (width.months * _DAYS_IN_MONTH + width.days) * DAY + width.micros if width.ticks is None else width.ticks


def _ages(policy: Policy) -> tuple[int, int]:
    """Return how far back the near end and the far end of the policy's window lie."""
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


_HINT: Final = "give a time such as 2024-03-01T06:00:00Z"


# -- now -----------------------------------------------------------------------------------------------------------------


def has_clock(grid: Grid) -> bool:
    """Whether *now* comes from a clock; plain integer time has none."""
    return not grid.time_type.is_integer or grid.resolution is not Resolution.NONE


def text_of_now(given: Instant) -> str:
    """Return the *now* that a user gave as text; "" for none.

    Raises:
        PolicyNowError: If it is of a type that no time is given in.
    """
    try:
        return "" if given is None else written(given)
    except ValueError as error:
        raise PolicyNowError(f"now cannot be read: {error}", hint=_HINT) from None


def read_now(given: Instant, grid: Grid) -> int:
    """Return the *now* that a user gave: microseconds since the epoch, or a plain integer.

    Args:
        given: ISO text, or a ``datetime`` or a ``date``, in UTC unless it names another zone; for an integer time column also a number of its ticks.
        grid: The aggregate's grid.

    Raises:
        PolicyNowError: If *given* cannot be read.
    """
    text = text_of_now(given)
    if grid.time_type.is_integer and re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text) * SECOND // TICKS_PER_SECOND[grid.resolution] if has_clock(grid) else int(text)
    if not has_clock(grid):
        message = f"now must be an integer for a {grid.time_type} time column without a resolution, got {text!r}"
        raise PolicyNowError(message, hint="give a whole number, as the time column counts")
    try:
        now = parse(text, TimeType.TIMESTAMP)
    except ValueError as error:
        raise PolicyNowError(f"now cannot be read: {error}", hint=_HINT) from None
    if now in (NEG_INF, POS_INF):
        raise PolicyNowError(f"now must be an instant, got {text!r}", hint=_HINT)
    return now


def render_now(now: int, grid: Grid) -> str | int:
    """Return *now* in the form that :func:`read_now` reads: ISO text in UTC, or a plain integer."""
    return render(now, TimeType.TIMESTAMP) if has_clock(grid) else now


def shown_now(now: int, grid: Grid) -> str:
    """Return *now* for people, in whole seconds."""
    return str(render_now(now // SECOND * SECOND if has_clock(grid) else now, grid))


# -- windows -------------------------------------------------------------------------------------------------------------


def window(policy: Policy, now: int, grid: Grid) -> Span | None:
    """Return ``[now − start_offset, now − end_offset)`` in instants of the time column; None when it is empty.

    An end that the time column cannot represent is open.
    """
    start = NEG_INF if policy.start_offset is None else _clamped(back(now, policy.start_offset, grid), grid)
    end = POS_INF if policy.end_offset is None else _clamped(back(now, policy.end_offset, grid), grid)
    return Span(start, end) if start < end else None


def refresh_window(policy: Policy, policies: tuple[Policy, ...], now: int, grid: Grid) -> Span | None:
    """Return the whole buckets that *policy* refreshes at *now*; None when its window holds no whole bucket.

    The window of every policy but the newest extends to the end of the bucket that contains its end. The next policy begins
    with the bucket after. So no bucket lies between two windows that touch.

    Args:
        policy: One of *policies*.
        policies: All policies of the aggregate, newest first.
        now: See :func:`read_now`.
        grid: The aggregate's grid.
    """
    span = window(policy, now, grid)
    if span is None:
        return None
    if policy.name != policies[0].name and span.end != POS_INF:
        span = Span(span.start, grid.edge_from(span.end))
    return grid.within(span)


def beyond(policies: tuple[Policy, ...], now: int, grid: Grid) -> SpanSet:
    """Return the time outside of all policy windows, up to the newest window's end; newer time enters a window later."""
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
    """Return the instant of the time column that contains a microsecond of the clock; without a zone, of UTC's clock."""
    return micros * TICKS_PER_SECOND[grid.resolution] // SECOND if grid.time_type.is_integer else micros


def micros_of(instant: int, grid: Grid) -> int:
    """Return an instant of the time column in the unit of *now*; the inverse of :func:`instant_of` where there is a clock."""
    is_ticks = grid.time_type.is_integer and has_clock(grid)
    return instant * SECOND // TICKS_PER_SECOND[grid.resolution] if is_ticks else instant


def _clamped(instant: int, grid: Grid) -> int:
    if instant < grid.limits.start:
        return NEG_INF
    return POS_INF if instant >= grid.limits.end else instant


def _months_before(local: int, months: int) -> int:
    """Return the same day and time in an earlier month; that month's last day when it has no such day."""
    year, month, day = date_of(local // DAY)
    months = 12 * year + month - 1 - months
    first, after = _first_of(months), _first_of(months + 1)
    return (first + min(day, after - first) - 1) * DAY + local % DAY


def _first_of(months: int) -> int:
    """Return the first day of a month that is counted as 12 * year + month - 1."""
    year, month = divmod(months, 12)
    return days_of(year, month + 1, 1)


def _first_at(local: int, zone: Zone) -> int:
    """Return the first instant when the wall clock shows *local*; where the clock skips it, the instant without that skip."""
    regime = zone.regime_at(local - DAY)
    while True:
        instant = local - regime.offset
        if instant < regime.end:
            return instant
        after = zone.regime_at(regime.end)
        if local - after.offset < after.start:
            return instant
        regime = after
