"""Buckets, instants and spans as Spark SQL text.

The SQL means the same as :mod:`materializer.core.time.grid` in a session with time zone UTC and ANSI on. Time zones
come from the grid, never from the JVM: where a wall clock jumps, the SQL chooses between constants.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.grid import CalendarGrid, FixedGrid, Grid, limits_of
from materializer.core.time.instants import DAY, SECOND, TICKS_PER_SECOND, clock_text, date_text
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.core.time.wallclock import FixedLattice, MonthLattice, OffsetRule

MOST_CASES: Final = 64
"""Maximum number of cases to nest; more are looked up in arrays of constants, because Spark would plan them for seconds."""

_BIGINT: Final = Span(-(2**63), 2**63)
_SUFFIX: Final = {TimeType.SMALLINT: "S", TimeType.INT: "", TimeType.BIGINT: "L"}


CLOCK_MICROS: Final = "mz_clock_micros"
"""The microsecond for which a clock is looked up."""
CLOCK_EDGE: Final = "mz_clock_edge"
"""The edge of its bucket in microseconds, where the clock jumps; else null."""
CLOCK_SHIFT: Final = "mz_clock_shift"
"""The shift of its bucket; null for a null time."""


class Clock(Struct, frozen=True):
    """How the edge of a bucket is found by a table of the changes of a clock, where cases in a text would be too many.

    Args:
        micros: Text of the microsecond that is looked up.
        changes: What holds from a microsecond on, in their order: that microsecond (the first holds before it, too), an edge or
            None, and a shift. The changes become rows that are joined, with the columns :data:`CLOCK_EDGE` and :data:`CLOCK_SHIFT`.
        edge: Text of the edge over these columns and :data:`CLOCK_MICROS`.
    """

    micros: str
    changes: tuple[tuple[int, int | None, int], ...]
    edge: str


def clock_of_start(grid: Grid, time_sql: str, inside: SpanSet) -> Clock | None:
    """Return how :func:`bucket_start_sql` is looked up, with the same arguments; None where the text has few cases."""
    if not isinstance(grid, CalendarGrid):
        return None
    return _clock(_micros(f"({time_sql})", grid), _starts(grid, inside), partial(_start, grid), grid)


def clock_of_end(grid: Grid, start_sql: str, inside: SpanSet) -> Clock | None:
    """Return how :func:`bucket_end_sql` is looked up, with the same arguments; None where the text has few cases."""
    if not isinstance(grid, CalendarGrid):
        return None
    return _clock(_micros(f"({start_sql})", grid), _ends(grid, inside), partial(_end, grid), grid)


def bucket_start_sql(grid: Grid, time_sql: str, inside: SpanSet) -> str:
    """Return the start of the bucket of a time, in the time's own type; null for null.

    Args:
        grid: The grid of the buckets.
        time_sql: Expression of the grid's time type.
        inside: Spans in which the times lie; outside of them the result is undefined. In a time zone the SQL grows with the
            spans, by a few cases a year; infinite ends stand for the years 1 to 9999.
    """
    time = f"({time_sql})"
    match grid:
        case FixedGrid(time_type=TimeType.DATE):
            width = grid.width // DAY
            return f"date_sub({time}, pmod(unix_date({time}) - {grid.phase // DAY}, {width}))"
        case FixedGrid():
            units = _units(time, grid.time_type)
            return _typed(f"{units} - {_above(units, f'{grid.phase}L', grid.width)}", grid.time_type)
        case CalendarGrid():
            return _from_micros(_chosen(_micros(time, grid), _starts(grid, inside), partial(_start, grid)), grid)
        case _:
            msg = f"no SQL for {grid!r}"
            raise TypeError(msg)


def bucket_end_sql(grid: Grid, start_sql: str, inside: SpanSet) -> str:
    """Return the end of the bucket that starts at an edge, in the edge's own type; null for null.

    If an integer type cannot hold an end, the result is the largest value of the type.

    Args:
        grid: The grid of the buckets.
        start_sql: Expression of the grid's time type whose values are edges.
        inside: As for :func:`bucket_start_sql`; it also covers buckets that extend beyond the spans.
    """
    start = f"({start_sql})"
    match grid:
        case FixedGrid(time_type=TimeType.DATE):
            return f"date_add({start}, {grid.width // DAY})"
        case FixedGrid(time_type=time_type) if time_type.is_integer:
            most = limits_of(time_type).end - 1
            end = f"{_units(start, time_type)} + {grid.width}L"
            last = instant_sql(time_type, most)
            return f"CASE WHEN {start} > {most - grid.width}L THEN {last} ELSE {_typed(end, time_type)} END"
        case FixedGrid():
            return _typed(f"{_units(start, grid.time_type)} + {grid.width}L", grid.time_type)
        case CalendarGrid():
            return _from_micros(_chosen(_micros(start, grid), _ends(grid, inside), partial(_end, grid)), grid)
        case _:
            msg = f"no SQL for {grid!r}"
            raise TypeError(msg)


def ends_sql(
    spec: AggregateSpec, grid: Grid, start_sql: str, inside: SpanSet, clock: Clock | None = None
) -> dict[str, str]:
    """Return the end and the last instant of a bucket, as :func:`bucket_end_sql` does, by the output columns that a definition has for them.

    Args:
        spec: The definition.
        grid: As for :func:`bucket_end_sql`, as the next two are.
        start_sql: The start of the bucket.
        inside: Spans around it.
        clock: What the end is looked up in; None for a text with cases.
    """
    if not spec.bucket_end and not spec.bucket_time:
        return {}
    end = bucket_end_sql(grid, start_sql, inside) if clock is None else clock.edge
    found = {spec.bucket_end: end} if spec.bucket_end else {}
    if spec.bucket_time:
        found[spec.bucket_time] = _typed(f"{_units(f'({end})', grid.time_type)} - 1L", grid.time_type)
    return found


def instant_sql(of: Grid | TimeType, instant: int) -> str:
    """Return a literal of the column type, which Delta can use to skip files.

    Raises:
        ValueError: If the type has no such value.
    """
    time_type = of.time_type if isinstance(of, Grid) else of
    is_odd = time_type is TimeType.DATE and instant % DAY
    if instant not in (limits_of(time_type) & _BIGINT or _BIGINT) or is_odd:
        msg = f"{instant} is no instant of a {time_type} column"
        raise ValueError(msg)
    if time_type.is_integer:
        return f"{instant}{_SUFFIX[time_type]}"
    day = date_text(instant // DAY)
    if time_type is TimeType.DATE:
        return f"DATE '{day}'"
    if time_type is TimeType.TIMESTAMP:
        return f"TIMESTAMP_LTZ '{day} {clock_text(instant % DAY)}Z'"
    return f"TIMESTAMP_NTZ '{day} {clock_text(instant % DAY)}'"


def instant_of_sql(value_sql: str, time_type: TimeType) -> str:
    """Return the instant of a value of the time type, as BIGINT; null for null."""
    return _units(f"({value_sql})", time_type)


def value_of_sql(instant_sql: str, time_type: TimeType) -> str:
    """Return the value of the time type at an instant given as BIGINT; null for null."""
    return _typed(instant_sql, time_type)


def slice_sql(instant_sql: str, time_type: TimeType) -> str:
    """Return the value at the start of a slice; where a short integer type lacks it, the smallest or largest value of the type.

    Spark may compute it for the edge where an event without an end would end, which is no result and later than every value.
    """
    if time_type not in (TimeType.SMALLINT, TimeType.INT):
        return _typed(instant_sql, time_type)
    limits = limits_of(time_type)
    return _typed(f"least(greatest({instant_sql}, {limits.start}L), {limits.end - 1}L)", time_type)


def spans_sql(column_sql: str, spans: SpanSet, time_type: TimeType) -> str:
    """Return a predicate that holds for the values in *spans* and is null or false for null.

    The predicate compares the column with literals, so that Delta can use it to skip files.

    Args:
        column_sql: The column, quoted.
        spans: The spans; an end that is infinite, or that the type cannot hold, is not compared.
        time_type: Type of the column.
    """
    limits = limits_of(time_type) & _BIGINT or _BIGINT
    unit = DAY if time_type is TimeType.DATE else 1
    whole = (Span(-(-s.start // unit) * unit, -(-s.end // unit) * unit) for s in spans if _has_unit(s, unit))
    tests = [t for s in SpanSet.union(whole) if (t := _span_test(column_sql, s, limits, time_type))]
    return " OR ".join(f"({t})" if len(tests) > 1 else t for t in tests) or "false"


def slices_sql(column: SliceColumn, spans: SpanSet) -> str:
    """Return a predicate that holds for the rows of the buckets in *spans*; it compares as :func:`spans_sql` does."""
    return spans_sql(quoted(column.name), column.values_in(spans), column.type)


def _has_unit(span: Span, unit: int) -> bool:
    return -(-span.start // unit) < -(-span.end // unit)


def _span_test(column: str, span: Span, limits: Span, time_type: TimeType) -> str:
    within = span & limits
    if within is None:
        return ""
    tests = [f"{column} >= {instant_sql(time_type, within.start)}"] if within.start > limits.start else []
    if within.end < limits.end:
        tests.append(f"{column} < {instant_sql(time_type, within.end)}")
    return " AND ".join(tests) or f"{column} IS NOT NULL"


# -- values <-> numbers --------------------------------------------------------------------------------------------------


def _units(value: str, time_type: TimeType) -> str:
    """The instant of a value as BIGINT."""
    match time_type:
        case TimeType.DATE:
            return f"(unix_date({value}) * {DAY}L)"
        case TimeType.TIMESTAMP:
            return f"unix_micros({value})"
        case TimeType.TIMESTAMP_NTZ:
            return f"unix_micros(CAST({value} AS TIMESTAMP_LTZ))"
        case TimeType.BIGINT:
            return value
        case _:
            return f"CAST({value} AS BIGINT)"


def _typed(units: str, time_type: TimeType) -> str:
    """The value of an instant."""
    match time_type:
        case TimeType.DATE:
            return f"date_from_unix_date(CAST(({units}) div {DAY}L AS INT))"
        case TimeType.TIMESTAMP:
            return f"timestamp_micros({units})"
        case TimeType.TIMESTAMP_NTZ:
            return f"CAST(timestamp_micros({units}) AS TIMESTAMP_NTZ)"
        case TimeType.BIGINT:
            return f"({units})"
        case _:
            return f"CAST({units} AS {time_type.upper()})"


def _above(units: str, phase: str, width: int) -> str:
    """SQL of how far a number lies above the last edge; the inner pmod keeps the difference within 64 bits."""
    if phase in ("0L", "(0L)"):
        return f"pmod({units}, {width}L)"
    return f"pmod(pmod({units}, {width}L) - {phase}, {width}L)"


def _micros(value: str, grid: Grid) -> str:
    """SQL of the microsecond that contains a value."""
    units = _units(value, grid.time_type)
    if not grid.time_type.is_integer or grid.resolution is Resolution.US:
        return units
    if grid.resolution is Resolution.NS:
        return f"(({units} - pmod({units}, 1000L)) div 1000L)"
    return f"({units} * {SECOND // TICKS_PER_SECOND[grid.resolution]}L)"


def _from_micros(micros: str, grid: Grid) -> str:
    """SQL of the value of an edge that is given in microseconds."""
    if not grid.time_type.is_integer or grid.resolution is Resolution.US:
        return _typed(micros, grid.time_type)
    if grid.resolution is Resolution.NS:
        return _typed(f"({micros}) * 1000L", grid.time_type)
    return _typed(f"({micros}) div {SECOND // TICKS_PER_SECOND[grid.resolution]}L", grid.time_type)


# -- wall clocks ---------------------------------------------------------------------------------------------------------


def _pieces(grid: CalendarGrid, inside: SpanSet) -> Iterable[OffsetRule]:
    for span in inside:
        micros = grid.micros_span(span)
        if micros:
            yield from grid.wall.pieces(Span(micros.start - grid.delay, micros.end - grid.delay))


class _Case(Struct, frozen=True):
    """The rule from *start* on: a constant, or the lattice shifted by *shift*; all numbers are microseconds."""

    start: int
    value: int | None
    shift: int

    def goes_on(self, before: _Case) -> bool:
        """Return whether the case before it says the same."""
        return (self.value, self.shift) == (before.value, before.shift)

    @classmethod
    def of(cls, grid: CalendarGrid, piece: OffsetRule, value: int | None) -> _Case:
        start = piece.start + grid.delay
        if value is not None:
            return cls(start, value + grid.delay, 0)
        match grid.wall.lattice:
            case FixedLattice(width=width, phase=phase):
                # modulo the width, equal offsets give equal cases: a grid of hours needs no case for a jump of one hour
                return cls(start, None, (phase - piece.offset + grid.delay) % width)
            case MonthLattice(shift=shift):
                return cls(start, None, piece.offset - grid.delay - shift)


def _starts(grid: CalendarGrid, inside: SpanSet) -> list[_Case]:
    return [_Case.of(grid, p, p.bucket.start if p.bucket else None) for p in _pieces(grid, inside)]


def _ends(grid: CalendarGrid, inside: SpanSet) -> list[_Case]:
    return [_Case.of(grid, p, p.bucket.end if p.bucket else None) for p in _pieces(grid, grid.cover_set(inside))]


def _clock(micros: str, cases: list[_Case], formula: Callable[[str, str], str], grid: CalendarGrid) -> Clock | None:
    cases = [c for c, before in zip(cases, [None, *cases], strict=False) if before is None or not c.goes_on(before)]
    if len(cases) <= MOST_CASES:
        return None
    edge = _from_micros(f"coalesce({CLOCK_EDGE}, {formula(CLOCK_MICROS, CLOCK_SHIFT)})", grid)
    return Clock(micros, tuple((c.start, c.value, c.shift) for c in cases), edge)


def _start(grid: CalendarGrid, micros: str, shift: str) -> str:
    match grid.wall.lattice:
        case FixedLattice(width=width):
            return f"{micros} - {_above(micros, shift, width)}"
        case MonthLattice(months=months, phase=phase):
            day = f"CAST(timestamp_micros({micros} + {shift}) AS DATE)"
            first = f"trunc({day}, 'MONTH')"
            if months > 1:
                first = f"add_months({first}, -pmod(year({day}) * 12 + month({day}) - {1 + phase}, {months}))"
            return f"unix_date({first}) * {DAY}L - {shift}"


def _end(grid: CalendarGrid, micros: str, shift: str) -> str:
    match grid.wall.lattice:
        case FixedLattice(width=width):
            return f"{micros} + {width}L"
        case MonthLattice(months=months):
            day = f"CAST(timestamp_micros({micros} + {shift}) AS DATE)"
            return f"unix_date(add_months({day}, {months})) * {DAY}L - {shift}"


def _chosen(micros: str, cases: Iterable[_Case], formula: Callable[[str, str], str]) -> str:
    """SQL of the last case that begins at or before *micros*; the first case has no lower limit."""
    texts = [(c, f"{c.value}L" if c.value is not None else formula(micros, f"({c.shift}L)")) for c in cases]
    distinct = [(c, text) for i, (c, text) in enumerate(texts) if i == 0 or text != texts[i - 1][1]]
    if not distinct:
        return "CAST(NULL AS BIGINT)"
    if len(distinct) > MOST_CASES:
        return _looked_up(micros, [c for c, _ in distinct], formula)
    return _nested(micros, [(c.start, text) for c, text in distinct])


def _nested(micros: str, cases: Sequence[tuple[int, str]]) -> str:
    """SQL of a binary search by nested CASE, the form that runs fastest."""
    if len(cases) == 1:
        return cases[0][1]
    middle = len(cases) // 2
    low, high = _nested(micros, cases[:middle]), _nested(micros, cases[middle:])
    return f"CASE WHEN {micros} < {cases[middle][0]}L THEN {low} ELSE {high} END"


def _looked_up(micros: str, cases: Sequence[_Case], formula: Callable[[str, str], str]) -> str:
    """SQL of the same choice by arrays of constants, which Spark plans quickly for any number of cases.

    Time is cut into steps of equal length. An array gives the case at the start of each step, and the few cases that begin
    inside the step are compared. The one-element arrays give a value a name, so that it is computed once.
    """
    starts = [c.start for c in cases]
    low, count = starts[1], 2 * len(cases)
    step = -(-(starts[-1] - low + 1) // count)
    first = [bisect_right(starts, low + k * step) - 1 for k in range(count)]
    most = max(bisect_left(starts, low + (k + 1) * step) - 1 - n for k, n in enumerate(first))
    padded = _array(starts + [2**63 - 1] * most)
    # index 0 is the case before the first step, for all earlier values
    at = f"CASE WHEN u < {low}L THEN 0 ELSE CAST(get({_array(first)}, CAST(least((u - {low}L) div {step}L, {count - 1}L) AS INT)) AS INT) END"
    later = "".join(f" + CASE WHEN u >= get({padded}, k + {j}) THEN 1 ELSE 0 END" for j in range(1, most + 1))
    shift = f"get({_array([c.shift for c in cases])}, n)"
    result = f"coalesce(get({_array([c.value for c in cases])}, n), {formula('u', shift)})"
    for name, value in (("n", f"k{later}"), ("k", at), ("u", micros)):
        result = f"transform(array({value}), {name} -> {result})[0]"
    return result


def _array(values: Iterable[int | None]) -> str:
    return "array(" + ", ".join("NULL" if v is None else f"{v}L" for v in values) + ")"
