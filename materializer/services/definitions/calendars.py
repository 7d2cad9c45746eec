"""Trading calendars of definitions: looked up once, when a definition is applied, and stored with it as data.

A refresh reads the stored calendar, so neither an upgraded library nor a changed table can change a result silently.
``apply`` looks again: a calendar that says something else of days that were materialised is another definition of the data;
one that only knows more is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from textwrap import shorten
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from materializer.core.engines.registry import read_params
from materializer.core.spec.spec import AggregateSpec
from materializer.core.sql.functions import nearest
from materializer.core.time.spans import NEG_INF
from materializer.core.time.trading_days import DAYS, agree, calendar_from_sessions
from materializer.errors import NOTHING, CalendarLibraryMissingError, DefinitionError, MaterializerError, Problem
from materializer.journal.events import SourceIdentity
from materializer.lake.trading_sessions import trading_sessions
from materializer.services.definitions.sources import named_in

BEGIN: Final = "2000-01-01"
"""Default start of the calendar of an exchange: fixed, so that it does not move from day to day."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  the clock that a column shows has no zone
_MICROSECOND: Final = timedelta(microseconds=1)


def looked_up(spec: AggregateSpec, table: Callable[[str], SourceIdentity]) -> AggregateSpec:
    """Return a definition with the sessions that its calendar has now; one without a calendar as it is.

    Args:
        spec: The definition.
        table: Resolves the name of a table.

    Raises:
        DefinitionError: If the calendar cannot be found or used.
    """
    params = dict(spec.params)
    if not params.get("calendar"):
        return spec
    kind, _, name = (part.strip() for part in str(params["calendar"]).partition(":"))
    zone, start, end = (params.get(f"calendar_{what}") for what in ("zone", "start", "end"))
    hint, about = "", ""
    try:
        clock = ZoneInfo(str(zone or "UTC"))
        if kind == "exchange":
            first, found = _of_exchange(name, None if start is None else str(start), None if end is None else str(end))
        else:
            first, found = None, trading_sessions(table(name).path)
        text = calendar_from_sessions(_on_the_clock(found, clock), first)
    except MaterializerError as exc:
        code, message, hint, about = exc.code, exc.message, exc.hint, named_in(exc, name)
    except (ValueError, OSError, LookupError) as exc:
        why = shorten(str(exc), 300, placeholder=" …")  # the library may name every date that it does not like
        code, message = "definition.calendar", f"the calendar {params['calendar']} cannot be used: {why}"
    else:
        return replace(spec, params=tuple(sorted((*((n, v) for n, v in spec.params if n != DAYS), (DAYS, text)))))
    raise DefinitionError([Problem(code, f"{spec.name}: {message}", hint, about=about)])


def as_stored(spec: AggregateSpec, old: AggregateSpec, threshold: int) -> AggregateSpec:
    """Return *spec* with the calendar of *old*, where the two say the same of every day that can have been materialised.

    Args:
        spec: What comes in the place of *old*.
        old: As it was applied, resolved.
        threshold: Nothing at or above it was materialised.
    """
    params = dict(old.params)
    if DAYS not in params:
        return spec
    found, _ = read_params(old)
    calendar = None if found is None or found.fills_on else found.calendar  # a clock fills days without rows
    until = None if calendar is None or threshold == NEG_INF else calendar.day_of(threshold) + 1
    return replace(spec, params=old.params) if agree(params, dict(spec.params), until) else spec


def _on_the_clock(found: Iterable[tuple[date, datetime, datetime]], clock: ZoneInfo) -> Iterator[tuple[int, int, int]]:
    for day, *times in found:
        shown = (t if t.tzinfo is None else t.astimezone(clock).replace(tzinfo=None) for t in times)
        begin, end = ((t - _EPOCH) // _MICROSECOND for t in shown)
        yield day.toordinal() - _EPOCH.toordinal(), begin, end


def _of_exchange(name: str, start: str | None, end: str | None) -> tuple[int, list[tuple[date, datetime, datetime]]]:
    """Return the first date of an exchange's calendar, counted from 1970-01-01, and its sessions as instants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other libraries will do in their next versions
        try:
            import exchange_calendars as library  # noqa: PLC0415 - an extra, and slow to import
        except ImportError as exc:
            message = f"the calendar exchange:{name} needs exchange_calendars, which cannot be imported: {exc}"
            raise CalendarLibraryMissingError(message, wrote=NOTHING) from exc
        try:
            known = library.get_calendar_names()
            if name not in known:
                raise ValueError(f"there is no such exchange; {nearest(name, known) or 'XNYS is one'}")
            calendar, first = _calendar(library, name, start, end)
        except library.errors.CalendarError as exc:
            raise ValueError(str(exc)) from exc
        return first.toordinal() - _EPOCH.toordinal(), list(_sessions(calendar.schedule))


def _calendar(library: Any, name: str, start: str | None, end: str | None) -> tuple[Any, date]:
    try:
        return library.get_calendar(name, start=start or BEGIN, end=end), date.fromisoformat(start or BEGIN)
    except ValueError:
        if start is not None or (least := library.get_calendar(name).bound_min()) is None:
            raise
        return library.get_calendar(name, start=least, end=end), least.date()


def _sessions(schedule: Any) -> Iterator[tuple[date, datetime, datetime]]:
    for day, *found in schedule.itertuples():
        times = [t.to_pydatetime() for t in found if t == t]  # noqa: PLR0124  a day without a break says so by NaT
        for begin, end in zip(times[::2], times[1::2], strict=True):
            yield day.date(), begin, end
