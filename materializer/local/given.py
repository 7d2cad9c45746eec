"""Rows that are given by hand: read as the types of their columns, and computed in this process without a table."""

# ruff: noqa: PLC0415 - Arrow is imported when rows are computed

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from materializer.core.compiled.definition import Definition
from materializer.core.language.written import Text, Written, WrittenList, WrittenMapping
from materializer.core.refresh.plan import Lane, Plan, Recompute, TableBase
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import parse
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.lake.keys import Within

MAX_ROWS: Final = 1_000_000
_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d([ Tt]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?( ?[Zz]|[+-]\d\d(:?\d\d)?)?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_BOOLEANS: Final = {"true": True, "false": False}
_DOUBLES: Final = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}


def value_of(written: Written, kind: Any) -> Any:
    """Return what a written value is in a type.

    Args:
        written: The value.
        kind: The type, as in the schema of a Delta table.

    Raises:
        ValueError: If it is no value of the type; the message says what is expected.
    """
    if isinstance(written, Text) and written.is_null:
        return None
    if not isinstance(kind, str):
        return _nested(written, kind)
    if not isinstance(written, Text):
        raise ValueError(f"a value of type {kind} is expected")  # noqa: TRY004 - it is the user's value
    text = written.text.strip() if kind != "string" else written.text
    if kind.startswith("decimal("):
        return _decimal(text, kind)
    read = _READ.get(kind)
    if read is None:
        raise ValueError(f"values of type {kind} cannot be written here; leave the column out")
    return read(text)


def ticks_of(written: Written, resolution: Resolution) -> Written:
    """Return an ISO time as the number of ticks that it is in an integer time column; anything else as it is.

    Args:
        written: The value.
        resolution: What a tick is.

    Raises:
        ValueError: If it is neither a time nor a whole number; the message says what is expected.
    """
    if not isinstance(written, Text) or written.is_null or re.fullmatch(r"\s*[+-]?\d+\s*", written.text):
        return written
    try:
        instant = parse(written.text, TimeType.BIGINT, resolution)
    except ValueError:
        instant = POS_INF
    if instant in {NEG_INF, POS_INF}:
        raise ValueError(f"a whole number, or a time such as 2024-03-01T06:00:00Z in whole {resolution}, is expected")
    return replace(written, text=str(instant))


def _nested(written: Written, kind: Mapping[str, Any]) -> Any:
    match kind["type"], written:
        case "array", WrittenList(items=items):
            return [value_of(item, kind["elementType"]) for item in items]
        case "map", WrittenMapping(items=pairs):
            found = [(value_of(k, kind["keyType"]), value_of(v, kind["valueType"])) for k, v in pairs]
            if any(key is None for key, _ in found):
                raise ValueError("a key is expected, not null")
            return found
        case "struct", WrittenMapping(items=pairs):
            types = {f["name"].lower(): (f["name"], f["type"]) for f in kind["fields"]}
            if unknown := [key.text for key, _ in pairs if key.text.lower() not in types]:
                raise ValueError(
                    f"there is no field `{unknown[0]}` (fields: {', '.join(n for n, _ in types.values())})"
                )
            fields = {types[k.text.lower()][0]: value_of(v, types[k.text.lower()][1]) for k, v in pairs}
            return {name: fields.get(name) for name, _ in types.values()}
    raise ValueError("a list is expected" if kind["type"] == "array" else "a mapping is expected")


def _whole(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,20}", text):
            raise ValueError("a whole number is expected")
        value = int(text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"a whole number of {bits} bits is expected")
        return value

    return read


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text is expected, without half a character") from None
    return text


def _double(text: str) -> float:
    try:
        return float("" if "_" in text else _DOUBLES.get(text.lower(), text))
    except ValueError:
        raise ValueError("a number is expected") from None


def _decimal(text: str, kind: str) -> Decimal:
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    try:
        value = Decimal("" if "_" in text else text)
        parts = value.as_tuple()
    except InvalidOperation:
        raise ValueError("a number is expected") from None
    if not isinstance(parts.exponent, int):
        raise ValueError("a number is expected")  # noqa: TRY004 - it is NaN or infinite
    if -parts.exponent > scale or len(parts.digits) + parts.exponent > precision - scale:
        raise ValueError(f"a number of {precision} digits is expected, {scale} of them after the point")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError("true or false is expected")
    return _BOOLEANS[text.lower()]


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise ValueError("a day such as 2024-03-01 is expected") from None


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.upper().replace(" Z", "Z") if _INSTANT.fullmatch(text) else "")
    except ValueError:
        raise ValueError("an instant such as 2024-03-01T06:00:00Z is expected") from None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise ValueError("an instant of the years 1 to 9999 is expected") from None


def _wall_clock(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.upper() if _INSTANT.fullmatch(text) else "")
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise ValueError("a time such as 2024-03-01T06:00:00, without a zone, is expected")
    return found


def _binary(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("bytes such as 00ff are expected") from None


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": _text,
    "boolean": _boolean,
    "float": _double,
    "double": _double,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _wall_clock,
    "binary": _binary,
    **{name: _whole(bits) for name, bits in _BITS.items()},
}


class GivenRows(LocalExecutor):
    """Computes from rows in memory.

    Args:
        given: The rows of the source.
    """

    given: pa.Table | None = None

    def read(
        self,
        path: str,  # noqa: ARG002 - there is no table
        version: int,  # noqa: ARG002 - as above
        columns: Sequence[str],
        spans: SpanSet | None,
        at: str,
        time_type: TimeType,
        within: Within | None = None,  # noqa: ARG002 - all rows may be returned
    ) -> pa.Table:
        """Return the given rows of some spans."""
        from materializer.lake.span_rows import rows_of_spans

        assert self.given is not None
        found = self.given if spans is None else rows_of_spans(self.given, spans, at, time_type)
        return found.select(list(columns))


def computed(definition: Definition, rows: pa.Table) -> pa.Table:
    """Return the output rows of a definition over rows of its source.

    Raises:
        NotLocal: If this process cannot compute them.
    """
    import pyarrow.compute as pc

    from materializer.lake.extent import instants_of

    instants = instants_of(rows[definition.spec.time_column], definition.time_type).drop_null()
    executor = GivenRows(MAX_ROWS, 1 << 30, given=rows)
    if why := executor.why_not(definition):
        raise NotLocal(why)
    ends = pc.min_max(instants).as_py() if len(instants) else {"min": 0, "max": 0}  # of no rows any bucket is empty
    spans = SpanSet.of(definition.grid.cover(Span(ends["min"], ends["max"] + 1)))
    table = TableBase("", 0)
    plan = Plan("given", 1, 0, EVERYTHING, (), (Recompute(spans, "given"),), Lane.DRIVER, table, table)
    return executor.compute(definition, SourceIdentity("", ""), "", plan, hull=None).output
