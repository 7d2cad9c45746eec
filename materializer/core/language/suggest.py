"""What a definition over a source could be, from a look at its data: time column, width of buckets, keys, measures and policy.

What is proposed must pass: every column exists, no sum can overflow with the values that were seen, and the window of
the policy has room for two buckets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.language.new_text import alias_of, free_name, quoted
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.refresh.lateness import Lateness, advice
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import render

_TIMELY: Final = re.compile(
    r"(?i)(^|_)(ts|time|timestamp|datetime|date|day|at|on|when|epoch|event|created|updated|t)($|_)|time|date"
)
_OTHER_WORDS: Final = re.compile(
    r"(?i)(^|_)(booked|gebucht|heure|jour|hora|hor[aá]rio|ora|giorno|data|dato|dia|dag|tag|tid|czas|stunde|jahr|epoche?)($|_)"
    r"|zeit|datum|stamp|fecha|tiempo|tempo|moment|instant|horodat|tijd"
)
"""Words for times and days in other languages."""
_UNIT: Final = re.compile(
    r"(?i)_(s|sec|secs|seconds|ms|millis|milliseconds|us|micros|microseconds|ns|nanos)$|[a-z](Ms|Millis|Us|Micros)$"
)
"""How the name of a column ends that counts ticks."""
_SERIAL: Final = re.compile(
    r"(^|[_ -])(?i:id|ids|pk|fk|uid|uuid|guid|key|hash|no|nr|num|number|seq|sequence|serial|offset|index|idx|sku|ref|code)$"
    r"|(^|[_ -])(?i:id|zip|phone|mobile|fax|ssn|isbn|ean|iban|card|account|konto|plz)\d*$"
    r"|[a-z](Id|ID|Key)\d*$|[a-z](No|Nr|Ref)$|(?i:[a-z]{3,}(id|code|number))$"
)
_NO_ID: Final = re.compile(r"(?i)(paid|valid|solid|quid|fluid|acid|brid|umid|apid|void|roid|grid|bid)$")
"""Words that end like one of these."""
_EPOCHS: Final = {
    Resolution.S: 1,
    Resolution.MS: 1_000,
    Resolution.US: 1_000_000,
    Resolution.NS: 1_000_000_000,
}
_SINCE, _UNTIL = 631_152_000, 4_102_444_800
"""Seconds of 1990 and 2100: an integer between them, in some unit, is taken for a time."""
_SPREAD: Final = 20 * 366 * 86_400
"""Seconds between which integers without the name of a time lie that are taken for times; amounts lie further apart."""
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_TIMES: Final = {"timestamp": TimeType.TIMESTAMP, "timestamp_ntz": TimeType.TIMESTAMP_NTZ, "date": TimeType.DATE}
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400
_WIDTHS: Final = (
    ("1 second", _SECOND),
    ("10 seconds", 10 * _SECOND),
    ("1 minute", _MINUTE),
    ("5 minutes", 5 * _MINUTE),
    ("15 minutes", 15 * _MINUTE),
    ("1 hour", _HOUR),
    ("6 hours", 6 * _HOUR),
    ("1 day", _DAY),
    ("7 days", 7 * _DAY),
    ("30 days", 30 * _DAY),
)
ROWS_PER_BUCKET: Final = 50
"""Rows of a bucket from which it is worth a row of the output."""
MOST_BUCKETS: Final = 100_000
LEAST_BUCKETS: Final = 3
MOST_KEYS: Final = 2
MOST_VALUES: Final = 1_000
"""Distinct values that a key has at most."""
MOST_MEASURED: Final = 3
"""Columns of which measures are proposed."""
UNIQUE: Final = 0.98
"""Share of different values from which integers that lie close together are serial numbers."""
CLOSE: Final = 4
"""How many times as many integers as rows lie between the lowest and the highest of them; of as many random ones 0.89 are different."""
LEAST_SERIAL: Final = 100
"""Rows from which values say that they are serial numbers."""
_OVERFLOW: Final = 1 << 62
"""Half of what a sum of integers can hold: rows may come."""
_OF_A_SAMPLE: Final = 1 << 53
"""The same where not all rows were looked at, and others may be larger."""
_LARGEST: Final = {"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "bigint": 1 << 63}


class ColumnFacts(Printed, Struct, frozen=True):
    """What a sample says of one column.

    Args:
        name: The column.
        type: Its Spark type as text.
        distinct: Distinct values in the sample; None without a sample, or of a type that has none.
        nulls: Rows of the sample without a value.
        least: The lowest value, of a number or a time; times are in microseconds, integers as they are.
        most: The highest value.
        low: The value that one in two hundred rows lies below; a row far from all others does not move it.
        high: The value that one in two hundred rows lies above.
        is_finite: Whether no value is NaN or infinite.
    """

    name: str
    type: str
    distinct: int | None = None
    nulls: int = 0
    least: Any = None
    most: Any = None
    low: Any = None
    high: Any = None
    is_finite: bool = True

    def _tables(self) -> list[PrintedTable]:
        kind = TimeType(self.type) if self.type in {"date", "timestamp", "timestamp_ntz"} else TimeType.BIGINT
        ends = [
            render(value, kind) if isinstance(value, int) and not isinstance(value, bool) else value
            for value in (self.least, self.low, self.high, self.most)
        ]
        names = ("least", "one in 200 is lower", "one in 200 is higher", "most")
        counts = [("different values", self.distinct), ("rows without a value", self.nulls or None)]
        return [facts(f"{self.name}: {self.type}", [*counts, *zip(names, ends, strict=True)])]


class SourceFacts(Struct, frozen=True):
    """What was looked at of a source.

    Args:
        columns: Its columns, in order.
        rows: Its rows; None if the log does not count them.
        sampled: Rows of the sample.
        lateness: How late rows were committed, by time column.
    """

    columns: tuple[ColumnFacts, ...]
    rows: int | None
    sampled: int
    lateness: dict[str, Lateness] = field(default_factory=dict)

    def column(self, name: str) -> ColumnFacts | None:
        """Return a column by its name, in any letters."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


class TimeChoice(Struct, frozen=True):
    """A column that can divide time.

    Args:
        column: The column.
        type: Its type.
        resolution: What a tick of an integer is.
        ticks: Ticks of its values in a second; 1 of plain integers.
    """

    column: ColumnFacts
    type: TimeType
    resolution: Resolution = Resolution.NONE
    ticks: int = 1_000_000

    @property
    def is_plain(self) -> bool:
        """Whether its values are integers that no clock knows."""
        return self.type.is_integer and self.resolution is Resolution.NONE


# -- what fits the data --------------------------------------------------------------------------------------------------


def times(facts: SourceFacts) -> list[TimeChoice]:
    """Return the columns that can divide time, the most likely first."""
    found = [choice for column in facts.columns if (choice := _time_of(column)) is not None]
    order = {name: at for at, name in enumerate(c.name for c in facts.columns)}
    return sorted(found, key=lambda c: (_unlikely(c, facts), order[c.column.name]))


def times_in_text(facts: SourceFacts, time: str) -> list[str]:
    """Return the columns of text that sound like times, where the column *time* is a plain number: text cannot divide time."""
    chosen = facts.column(time)
    choice = None if chosen is None else _time_of(chosen)
    if choice is None or not choice.is_plain or _is_timely(time):
        return []
    return [c.name for c in facts.columns if c.type == "string" and _is_timely(c.name)]


def _time_of(column: ColumnFacts) -> TimeChoice | None:
    if column.type in _TIMES:
        return TimeChoice(column, _TIMES[column.type])
    if column.type not in {"smallint", "int", "bigint"}:
        return None
    kind = TimeType(column.type)
    for resolution, ticks in _EPOCHS.items() if column.low is not None else ():
        if _SINCE * ticks <= column.low and column.high <= _UNTIL * ticks and _is_clock(column, resolution, ticks):
            return TimeChoice(column, kind, resolution, ticks)
    return TimeChoice(column, kind, Resolution.NONE, 1)


def _is_clock(column: ColumnFacts, resolution: Resolution, ticks: int) -> bool:
    """Whether integers that could be times of a clock are ones: as their name says, or because they lie close together and are no ids.

    Numbers that machines give out often lie where nanoseconds do.
    """
    if _is_timely(column.name) or _UNIT.search(column.name):
        return True
    is_close = bool(column.high - column.low <= _SPREAD * ticks)
    return resolution is not Resolution.NS and is_close and not _is_name_of_serial(column.name)


def _is_timely(name: str) -> bool:
    """Whether a name sounds like a time.

    Examples:
        >>> [name for name in ("created_at", "Zeitpunkt", "fecha", "booked", "amount", "stage", "floor") if _is_timely(name)]
        ['created_at', 'Zeitpunkt', 'fecha', 'booked']
    """
    return _TIMELY.search(name) is not None or _OTHER_WORDS.search(name) is not None


def _unlikely(choice: TimeChoice, facts: SourceFacts) -> tuple[int, bool, bool, bool]:
    """Return an order: types that hold times first, then names that sound so, then columns that have many values and no gap."""
    column = choice.column
    rank = {TimeType.TIMESTAMP: 0, TimeType.TIMESTAMP_NTZ: 1, TimeType.DATE: 2}.get(choice.type, 4)
    rank = 3 if choice.type.is_integer and not choice.is_plain else rank
    is_empty = facts.sampled > 0 and column.nulls == facts.sampled
    return rank + 10 * is_empty, not _is_timely(column.name), column.distinct in {0, 1}, column.nulls > 0


def bucket(facts: SourceFacts, choice: TimeChoice, groups: int = 1) -> str:
    """Return the width of buckets that have enough rows and are not too many.

    Args:
        facts: The source.
        choice: Its time column.
        groups: Groups of keys in a bucket, about.
    """
    if choice.is_plain:
        return _plain_width(facts, choice)
    least = _DAY if choice.type is TimeType.DATE else 0
    widths = [w for w in _WIDTHS if w[1] >= least]
    length = _length(choice)
    rows = facts.rows if facts.rows is not None else facts.sampled
    if not length or not rows:
        return "1 day" if least else "1 hour"
    wanted = max(ROWS_PER_BUCKET, 5 * min(groups, MOST_VALUES))
    fitting = [w for w in widths if length / w[1] <= MOST_BUCKETS]
    several = [w for w in fitting if length / w[1] >= LEAST_BUCKETS] or fitting[:1] or widths[-1:]
    dense = [w for w in several if rows * w[1] / length >= wanted]
    return (dense[0] if dense else several[-1])[0]


def _plain_width(facts: SourceFacts, choice: TimeChoice) -> str:
    length = _length(choice)
    rows = facts.rows if facts.rows is not None else facts.sampled
    if not length or not rows:
        return "1000"
    width = length * ROWS_PER_BUCKET / rows
    width = max(min(width, length / LEAST_BUCKETS), length / MOST_BUCKETS, 1)
    digits = 10 ** math.floor(math.log10(width))
    rounded = min((n * digits for n in (1, 2, 5, 10)), key=lambda n: abs(n - width))
    most = {"smallint": 1 << 14, "int": 1 << 30}.get(choice.column.type, 1 << 62)
    return str(min(int(rounded), most))


def _length(choice: TimeChoice) -> float:
    """Return the time between rows that are not far from all others, in seconds or ticks."""
    column = choice.column
    return 0.0 if column.low is None else (column.high - column.low) / choice.ticks


def keys(facts: SourceFacts, time: str) -> tuple[str, ...]:
    """Return the columns with few values that many rows share, at most two, those with the fewest first."""
    found = []
    for column in facts.columns:
        kind = column.type
        if column.name.lower() == time.lower() or column.distinct is None or column.distinct < 2:
            continue
        if kind not in {"string", "boolean", "date", *_INTEGERS} or (kind in _INTEGERS and _is_amount(column)):
            continue
        if column.distinct <= min(MOST_VALUES, facts.sampled / 20):
            found.append((kind != "string", column.distinct, column.name))
    chosen: list[str] = []
    groups = 1
    for _, distinct, name in sorted(found):
        if len(chosen) < MOST_KEYS and groups * distinct <= 10 * MOST_VALUES:
            chosen.append(name)
            groups *= distinct
    return tuple(chosen)


def _is_amount(column: ColumnFacts) -> bool:
    """Whether an integer counts or measures something, as far as its name and its values say."""
    return not _is_name_of_serial(column.name) and (column.distinct or 0) > 2


def groups_of(facts: SourceFacts, names: Sequence[str]) -> int:
    """Return how many groups some keys make, about."""
    found = (facts.column(name) for name in names)
    return math.prod(c.distinct or 1 for c in found if c is not None)


def measures(facts: SourceFacts, time: str, chosen: Sequence[str]) -> tuple[str, ...]:
    """Return measures by the types of columns that are neither time nor key, after the count of rows."""
    taken = {"bucket", *(alias_of(name) for name in chosen)}
    found = [f"count(*) AS {free_name('n', taken)}"]
    left = [c for c in facts.columns if c.name.lower() not in {time.lower(), *(k.lower() for k in chosen)}]
    for column in [c for c in left if _is_number(c, facts.sampled)][:MOST_MEASURED]:
        for function in _functions(column, facts):
            alias = free_name(f"{alias_of(column.name)}_{function}", taken)
            found.append(f"{function}({quoted(column.name)}) AS {alias}")
    return tuple(found)


def _is_number(column: ColumnFacts, sampled: int) -> bool:
    kind = column.type
    if kind in _INTEGERS and (choice := _time_of(column)) is not None and not choice.is_plain:
        return False
    if kind in _INTEGERS or (kind.startswith("decimal") and _digits(kind)[1] == 0):
        return not _is_name_of_serial(column.name) and not _is_serial(column, sampled)
    return kind in {"double", "float"} or kind.startswith("decimal")


def _is_name_of_serial(name: str) -> bool:
    """Whether a column is called like what identifies something; its sum says nothing.

    Examples:
        >>> [name for name in ("order_id", "orderid", "tradeId", "invoice_no", "zipcode", "zip5", "Customer ID", "userId2", "phone", "no2", "paid", "is_valid", "bid", "amount") if _is_name_of_serial(name)]
        ['order_id', 'orderid', 'tradeId', 'invoice_no', 'zipcode', 'zip5', 'Customer ID', 'userId2', 'phone']
    """
    return _SERIAL.search(name) is not None and _NO_ID.search(name) is None


def _is_serial(column: ColumnFacts, sampled: int) -> bool:
    """Whether integers are serial numbers, as far as their values say: nearly all are different, and hardly one is left out."""
    rows = sampled - column.nulls
    if rows < LEAST_SERIAL or column.distinct is None or column.low is None:
        return False
    return column.distinct >= UNIQUE * rows and column.high - column.low <= CLOSE * rows


def _functions(column: ColumnFacts, facts: SourceFacts) -> tuple[str, ...]:
    if column.type in {"double", "float"}:
        return ("avg", "min", "max") if column.is_finite else ("min", "max")
    rows = max(facts.rows or 0, facts.sampled, 1)
    is_whole = facts.sampled >= rows
    precision, scale = _digits(column.type)
    unknown = _LARGEST.get(column.type, 10 ** (precision - scale))  # of a type of which no value was seen
    largest = max((abs(v) for v in (column.least, column.most) if v is not None), default=unknown)
    if column.type in _INTEGERS:
        return ("sum", "max") if largest * rows < (_OVERFLOW if is_whole else _OF_A_SAMPLE) else ("min", "max")
    digits = len(str(int(largest))) + len(str(rows)) + 1
    return ("sum", "max") if digits + scale <= min(precision + 10, 38) else ("min", "max")


def _digits(kind: str) -> tuple[int, int]:
    """Return the digits of a decimal, and those after its point; 0 and 0 of other types."""
    found = [int(n) for n in re.findall(r"\d+", kind)] if kind.startswith("decimal") else []
    return (found[0], found[1]) if len(found) == 2 else (0, 0)


def policy(choice: TimeChoice, width: str, lateness: Lateness | None) -> tuple[tuple[str, str], ...]:
    """Return the properties of a policy: a window of thirty buckets, or as long as rows come late, without the newest bucket."""
    if choice.is_plain:
        ticks = int(width)
        return (("start_offset", str(30 * ticks)), ("end_offset", str(ticks)))
    seconds = dict(_WIDTHS).get(width) or _seconds_of(width)
    if not seconds:
        return ()
    unit = _DAY if choice.type is TimeType.DATE else 1
    end = math.ceil(max(seconds, unit) / unit) * unit
    start = 30 * seconds + end
    advised = advice(lateness, seconds, None) if lateness is not None else None
    if advised is not None and lateness is not None:
        start = max(start, (lateness.within(0.999) or 0) + 2 * seconds + end)
    start = math.ceil(start / max(seconds, unit)) * max(seconds, unit)
    whole = next((size for size in (_DAY, _HOUR) if start > 2 * size), 1)  # a long window needs no minutes
    start = math.ceil(start / whole) * whole if unit == 1 else start
    return (
        ("start_offset", _length_text(start)),
        ("end_offset", _length_text(end)),
        ("schedule", _schedule(seconds)),
    )


def _length_text(seconds: float) -> str:
    for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds % unit == 0:
            n = round(seconds / unit)
            return f"{n} {name}" + ("s" if n != 1 else "")
    return f"{math.ceil(seconds)} second" + ("s" if math.ceil(seconds) != 1 else "")


def _schedule(seconds: float) -> str:
    if seconds < 15 * _MINUTE:
        return "*/5 * * * *"
    if seconds < _HOUR:
        return "*/15 * * * *"
    return "5 * * * *" if seconds < _DAY else "15 0 * * *"


def _seconds_of(width: str) -> float:
    """Return the length of a width with one fixed unit; 0 for months and for what is not understood."""
    found = re.fullmatch(r"\s*(\d+)\s*(second|minute|hour|day|week)s?\s*", width, re.IGNORECASE)
    units = {"second": _SECOND, "minute": _MINUTE, "hour": _HOUR, "day": _DAY, "week": 7 * _DAY}
    return int(found[1]) * units[found[2].lower()] if found else 0


def name_of(source: str, width: str) -> str:
    """Return a name for an aggregate over a source.

    Examples:
        >>> name_of("lake/trades", "1 hour"), name_of("s3://b/Flüge 2013", "7 days"), name_of("7up", "10")
        ('trades_1h', 'fl_ge_2013_7d', 't_7up_10')
    """
    base = re.sub(r"\W+", "_", re.split(r"[/.\\]", source.rstrip("/\\"))[-1].lower(), flags=re.ASCII).strip("_")
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*).*", width, re.IGNORECASE)
    short = {"month": "mo", "minute": "min"}
    unit = "" if found is None else short.get(found[2].lower().rstrip("s"), found[2][:1].lower())
    base = base if base[:1].isalpha() else f"t_{base}".rstrip("_")
    return f"{base[:100]}_{found[1] if found else ''}{unit}".rstrip("_")
