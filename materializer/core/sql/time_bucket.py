"""Reads the one expression of GROUP BY that divides time.

It has three forms: Spark's ``window(time, width [, slide, start])``, which starts at the epoch; ``time_bucket(width, time
[, timezone, origin, offset])`` with the argument names and the order of TimescaleDB, where the last three may also be written
as ``name => value``; and ``date_trunc('unit', time [, 'zone'])``, whose third argument is our addition.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import TokenType

from materializer.core.dialect import is_name
from materializer.core.spec.spec import GridSpec, Resolution, Width
from materializer.core.sql import foreign
from materializer.core.sql.functions import nearest
from materializer.core.sql.tokens import Fragment, string_value
from materializer.core.time.grid import parse_width
from materializer.errors import MaterializerError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPTIONS: Final = ("timezone", "origin", "offset")
_NULL_CODES: Final = {"timezone": "definition.timezone", "origin": "definition.origin", "offset": "definition.width"}
_TICKS_PER_SECOND: Final = {
    Resolution.S: 1,
    Resolution.MS: 1_000,
    Resolution.US: 1_000_000,
    Resolution.NS: 1_000_000_000,
}
_UNITS: Final = {
    "microsecond": Width(micros=1),
    "millisecond": Width(micros=1_000),
    "second": Width(micros=1_000_000),
    "minute": Width(micros=60_000_000),
    "hour": Width(micros=3_600_000_000),
    "day": Width(days=1),
    "dd": Width(days=1),
    "week": Width(days=7),
    "month": Width(months=1),
    "mon": Width(months=1),
    "mm": Width(months=1),
    "quarter": Width(months=3),
    "year": Width(months=12),
    "yyyy": Width(months=12),
    "yy": Width(months=12),
}


class Bucket(Struct, frozen=True):
    """The division of time in a definition, and its place in the text.

    Args:
        form: ``window``, ``time_bucket`` or ``date_trunc``.
        time_column: The event time, without qualifier.
        grid: The division.
        fragment: The call.
        is_origin_text: Whether the origin was given as text; then it is in microseconds whatever the time column counts.
    """

    form: str
    time_column: str
    grid: GridSpec
    fragment: Fragment
    is_origin_text: bool = False


def bucket_form(fragment: Fragment) -> str | None:
    """Return the name of the bucket function when the whole fragment is one call of such a function, else None."""
    if (
        len(fragment) < 3
        or fragment.tokens[1].token_type != TokenType.L_PAREN
        or fragment.closing(1) != len(fragment) - 1
    ):
        return None
    name = fragment.tokens[0].text.lower()
    return name if name in ("window", "time_bucket", "date_trunc", "session_window") else None


def read_bucket(fragment: Fragment, qualifiers: frozenset[str]) -> Bucket:
    """Return the bucket of a call of `window`, `time_bucket` or `date_trunc`.

    Args:
        fragment: The whole call, as :func:`bucket_form` recognises it.
        qualifiers: Lower-case names of the source that may stand before the time column.

    Raises:
        Refused: If an argument is missing, superfluous or unreadable.
    """
    form = bucket_form(fragment)
    positional, named = _arguments(fragment)
    match form:
        case "window":
            column, grid = _window(fragment, positional, named)
        case "time_bucket":
            column, grid = _time_bucket(fragment, positional, named)
        case "date_trunc":
            column, grid = _date_trunc(fragment, positional, named)
        case _:
            raise fragment.refused(
                "definition.misplaced-bucket",
                "session_window may stand in GROUP BY only, as an item of its own",
                "use window, time_bucket or date_trunc",
            )
    is_text = any(string_value(given.tokens[-1]) is not None for given in _origin(form, positional, named))
    width = positional[form == "window"].text if len(positional) > 1 else "'day'"
    zoned = f"{'date_trunc' if form == 'date_trunc' else 'time_bucket'}({width}, {{}}, {{}})"
    return Bucket(form, _time_column(column, qualifiers, zoned), grid, fragment, is_text)


def read_width(fragment: Fragment, *, what: str = "width", may_be_zero: bool = False) -> Width:
    """Return the length in a string, an INTERVAL literal or a whole number.

    Raises:
        Refused: If the fragment is none of these, or a width is not above zero.
    """
    tokens = fragment.tokens
    sign, at = (-1, 1) if tokens and tokens[0].token_type == TokenType.DASH else (1, 0)
    rest = tokens[at:]
    if len(rest) == 1 and rest[0].token_type == TokenType.NUMBER and rest[0].text.isdigit():
        width = Width(ticks=sign * int(rest[0].text))
    else:
        text = _duration_text(fragment)
        try:
            width = parse_width(text)
        except (ValueError, MaterializerError) as error:
            message = f"the {what} `{fragment.text}` is not understood: {getattr(error, 'message', error)}"
            raise fragment.refused(
                "definition.width", message, "write it like '15 minutes', '1 day' or '3 months'"
            ) from None
    parts = (width.months, width.days, width.micros, width.ticks or 0)
    if not may_be_zero and (not any(parts) or min(parts) < 0):
        raise fragment.refused(
            "definition.width", f"the {what} must be above zero, got `{fragment.text}`", "write it like '15 minutes'"
        )
    return width


def read_instant(fragment: Fragment) -> int:
    """Return the instant of a string, of `TIMESTAMP '…'` or `DATE '…'` (UTC unless it names a zone), or of a number.

    Raises:
        Refused: If the fragment is none of these, or outside the years 1 to 9999.
    """
    tokens = fragment.tokens
    sign, at = (-1, 1) if tokens[0].token_type == TokenType.DASH else (1, 0)
    if len(tokens) == at + 1 and tokens[at].token_type == TokenType.NUMBER and tokens[at].text.isdigit():
        return sign * int(tokens[at].text)
    literal = string_value(tokens[-1])
    prefix = " ".join(token.text.lower() for token in tokens[:-1])
    if literal is not None and prefix in ("", "timestamp", "date", "timestamp_ntz", "timestamp_ltz"):
        instant = parse_instant(literal)
        if instant is not None:
            return instant
    raise fragment.refused(
        "definition.origin", f"the origin `{fragment.text}` is no instant", "write it like '2024-01-01 00:00:00'"
    )


def parse_instant(text: str) -> int | None:
    """Return the instant of an ISO text, in UTC unless it names a zone; None for another text or one finer than 1 µs.

    Examples:
        >>> parse_instant("1970-01-02")
        86400000000
        >>> parse_instant("infinity") is None
        True
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    fraction = text.partition(".")[2]
    if len(fraction) - len(fraction.lstrip("0123456789")) > 6:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def with_timezone(grid: GridSpec, timezone: str | None) -> GridSpec:
    """Return *grid* in *timezone*, unless *grid* already has a zone."""
    return grid if grid.timezone or not timezone else replace(grid, timezone=timezone)


def in_ticks(grid: GridSpec, resolution: Resolution) -> GridSpec:
    """Return *grid* with its origin converted from microseconds to ticks of an integer time column.

    Examples:
        >>> in_ticks(GridSpec(Width(days=1), origin=86_400_000_000), Resolution.S).origin
        86400
    """
    if grid.origin is None or resolution == Resolution.NONE:
        return grid
    return replace(grid, origin=grid.origin * _TICKS_PER_SECOND[resolution] // 1_000_000)


def _arguments(fragment: Fragment) -> tuple[list[Fragment], dict[str, Fragment]]:
    positional: list[Fragment] = []
    named: dict[str, Fragment] = {}
    inner = fragment.part(2, len(fragment) - 1)
    for piece in inner.split() if inner.tokens else []:
        if not piece.tokens:
            raise fragment.refused(
                "definition.bucket-arguments", "an argument is missing", "write it, or take the comma away"
            )
        if len(piece) > 2 and piece.tokens[1].token_type == TokenType.FARROW:
            name = piece.tokens[0].text.lower()
            if name in named:
                raise piece.refused("definition.bucket-arguments", f"`{name}` is given twice", "keep one")
            named[name] = piece.part(2)
        elif named:
            raise piece.refused(
                "definition.bucket-arguments", "an argument without name follows one with name", "put it first"
            )
        else:
            positional.append(piece)
    return positional, named


def _origin(form: str, positional: list[Fragment], named: dict[str, Fragment]) -> list[Fragment]:
    return [*positional[3:4], *(named[name] for name in ("origin",) if name in named)] if form == "time_bucket" else []


def _window(fragment: Fragment, positional: list[Fragment], named: dict[str, Fragment]) -> tuple[Fragment, GridSpec]:
    if named or not 2 <= len(positional) <= 4:
        raise fragment.refused("definition.bucket-arguments", f"window takes 2 to 4 arguments without names, got `{fragment.text}`",
                        "write window(time, '1 minute')")  # fmt: skip
    for length in positional[1:]:
        refuse_interval(length, "window")
    width = read_width(positional[1])
    if width.months:
        unit = {1: "month", 3: "quarter", 12: "year"}.get(width.months)
        column = positional[0].text
        hint = f"write date_trunc('{unit}', {column})" if unit else f"write time_bucket({positional[1].text}, {column})"
        if width.days or width.micros:
            hint = "write months, in time_bucket, or days and shorter lengths: a bucket of both has no fixed edges"
        raise positional[1].refused(
            "definition.width", f"window takes no months, as in Spark, got `{positional[1].text}`", hint
        )
    if len(positional) > 2 and read_width(positional[2], what="slide") != width:
        raise positional[2].refused("definition.engine-only", "windows that overlap need an engine: the slide must equal the width",
                             "leave the slide away, or add the property 'engine' = 'time_series'")  # fmt: skip
    offset = read_width(positional[3], what="start", may_be_zero=True) if len(positional) > 3 else None
    if offset is not None and offset.months:
        raise positional[3].refused(
            "definition.width", "the start of window takes no months, as in Spark", "write it like '15 minutes'"
        )
    return positional[0], GridSpec(width, origin=0, offset=offset)


def _time_bucket(
    fragment: Fragment, positional: list[Fragment], named: dict[str, Fragment]
) -> tuple[Fragment, GridSpec]:
    options = dict(zip(_OPTIONS, positional[2:], strict=False))
    for name, value in named.items():
        if name not in _OPTIONS:
            hint = nearest(name, _OPTIONS) or f"the names are {', '.join(_OPTIONS)}"
            raise value.refused("definition.bucket-arguments", f"time_bucket has no argument `{name}`", hint)
        if name in options:
            raise value.refused("definition.bucket-arguments", f"`{name}` is given twice", "keep one")
    if not 2 <= len(positional) <= 5:
        raise fragment.refused("definition.bucket-arguments", f"time_bucket takes 2 to 5 arguments, got `{fragment.text}`",
                        "write time_bucket('1 hour', time, timezone => 'Europe/Paris')")  # fmt: skip
    given = options | named
    for name, value in given.items():
        if value.text.lower() == "null":
            hint = f"leave it out; what follows it is named, such as `{_OPTIONS[-1]} => '1 hour'`"
            raise value.refused(_NULL_CODES[name], f"the {name} of time_bucket is NULL, which divides nothing", hint)
    timezone = _zone(given["timezone"]) if "timezone" in given else None
    origin = read_instant(given["origin"]) if "origin" in given else None
    offset = read_width(given["offset"], what="offset", may_be_zero=True) if "offset" in given else None
    return positional[1], GridSpec(read_width(positional[0]), timezone, origin, offset)


def _date_trunc(
    fragment: Fragment, positional: list[Fragment], named: dict[str, Fragment]
) -> tuple[Fragment, GridSpec]:
    if named or not 2 <= len(positional) <= 3:
        raise fragment.refused("definition.bucket-arguments", f"date_trunc takes 2 or 3 arguments without names, got `{fragment.text}`",
                        "write date_trunc('hour', time)")  # fmt: skip
    unit = string_value(positional[0].tokens[0]) if len(positional[0]) == 1 else None
    if unit is None or unit.lower() not in _UNITS:
        hint = (
            foreign.exchanged(fragment, positional)
            or nearest(unit or "", tuple(_UNITS))
            or "write one like 'hour', 'day', 'week', 'month', 'quarter' or 'year'"
        )
        raise positional[0].refused(
            "definition.width", f"`{positional[0].text}` is no unit that date_trunc knows", hint
        )
    timezone = _zone(positional[2]) if len(positional) == 3 else None
    return positional[1], GridSpec(_UNITS[unit.lower()], timezone)


def _zone(fragment: Fragment) -> str:
    literal = string_value(fragment.tokens[0]) if len(fragment) == 1 else None
    if not literal:
        raise fragment.refused(
            "definition.timezone",
            f"the time zone must be a text, got `{fragment.text}`",
            "write it like 'Europe/Paris'",
        )
    return literal


def _time_column(fragment: Fragment, qualifiers: frozenset[str], zoned: str) -> str:
    tokens = fragment.tokens
    if len(tokens) == 3 and tokens[1].token_type == TokenType.DOT and tokens[0].text.lower() in qualifiers:
        tokens = tokens[2:]
    if len(tokens) != 1 or not is_name(tokens[0]) or tokens[0].token_type == TokenType.NULL:
        hint = foreign.time_column(fragment, zoned) or "store the computed time in a column, or name a column here"
        message = f"the time must be a column of the source, got `{fragment.text}`"
        raise fragment.refused("definition.time-column", message, hint)
    return tokens[0].text


def refuse_interval(length: Fragment, window: str) -> None:
    """Refuse a length of a window that is written as an INTERVAL: Spark takes a text there.

    Raises:
        Refused: If it is.
    """
    if length.tokens and length.tokens[0].token_type == TokenType.INTERVAL:
        text = _duration_text(length).lower()
        message = f"{window} takes a length as text, as in Spark, got `{length.text}`"
        raise length.refused("definition.width", message, f"write '{text}'")


def _duration_text(fragment: Fragment) -> str:
    tokens = fragment.tokens
    if len(tokens) == 1 and (literal := string_value(tokens[0])) is not None:
        return literal
    if len(tokens) > 1 and tokens[0].token_type == TokenType.INTERVAL:
        rest = tokens[1:]
        if not any(token.text.upper() == "TO" for token in rest):
            return " ".join(token.text for token in rest).replace("- ", "-")
    raise fragment.refused(
        "definition.width", f"`{fragment.text}` is not a length of time", "write it like '15 minutes' or INTERVAL 1 DAY"
    )
