"""Running state as a query: window functions over the ordered rows of a key, and one pass in Arrow for ``ema``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import PART, TIME, EngineQuery
from materializer.core.engines.reactive_state import ARGUMENT, AT, ORDINAL, ReactiveState, call_column
from materializer.core.spec.table_names import quoted
from materializer.spark.query.types import is_storable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.window import WindowSpec

CARRY: Final = "_carry_"
KEPT: Final = "_kept_"
"""Prefix of the columns of stored rows, which come before the raw rows so that functions can look back on them."""
STATE: Final = "x_s"
"""Prefix of the state columns; they are numbered from 0 in the order of the calls."""
_PLACE: Final = "_place"
_ACTIVE: Final = "_active"
_ARGUMENT: Final = "_argument_"
_CALL: Final = call_column(0)[:-1]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a query, prepared for state functions.

    Args:
        frame: Raw rows with their position in their part, whether state has to count them, and the arguments of the calls.
        ordered: A window over the rows of a key and part.
        has_carry: Whether the frame has columns with the state before the part.
        is_raw: True for a raw row, false for a stored row that functions only look back on; None if all rows are raw.
    """

    frame: DataFrame
    ordered: WindowSpec
    has_carry: bool
    is_raw: Column | None

    def carried(self, state: str) -> Column | None:
        """Return the state before the part; None if no state is carried."""
        return sf.col(CARRY + state) if self.has_carry else None


@dataclass(frozen=True, slots=True)
class Ema:
    """An exponential moving average, which the pass in Arrow computes.

    Args:
        argument: Column of the values.
        n: Number of values that make the first average.
        value: State column: the average; before there are *n* values, their sum.
        seen: State column: the number of values so far.
        output: Column of the result.
    """

    argument: str
    n: int
    value: str
    seen: str
    output: str


def rows(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:  # noqa: ARG001
    """Return one row for each raw row.

    Args:
        raw: Raw rows; see :mod:`materializer.core.engines.engine_query`. For cumulative functions, ``_carry_<column>`` holds the
            stored row before the part (or before the range: rows up to ``_carry_x_at`` are only context). Where the rows that
            functions look back on may be gone, stored rows replace them; these have ``_kept_<column>`` and no source columns.
        e: The definition, with :class:`~materializer.core.engines.reactive_state.ReactiveState`.
        at: Not used: no result of this engine is ever open.

    Shape:
        Keys, ``_part``, ``w_start`` = ``w_end`` = ``label`` = ``first_t`` = ``last_t`` = the row's time, ``v_<measure>``,
        ``n`` = 1, ``is_final`` = true, ``is_shown``, ``x_ordinal`` (position among rows of equal time, from 1); with cumulative
        functions ``x_at`` and the states ``x_s<i>``; ``x_arg<i>``: each argument on which functions look back, if a table can
        hold its type. Grain (keys, ``_part``, ``w_start``, ``x_ordinal``).
    """
    p: ReactiveState = e.params
    given = _prepared(raw, e)
    columns, emas, states = _computed(given, p)
    found = given.frame.select("*", *[column.alias(name) for name, column in columns.items()])
    if given.is_raw is not None:
        found = found.where(given.is_raw)
    stored = _looked_back_on(given, p)
    if emas:
        found = _with_emas(found.select(*_needed(found, e, emas, given, stored)), e, emas, given)
    found = found.select("*", *[sf.expr(text).alias(f"v_{name}") for name, text in p.metrics])
    extra = [AT, *states] if states else []
    return _named(found, p).select(
        *map(quoted, e.keys),
        PART,
        *[sf.col(TIME).alias(name) for name in ("w_start", "w_end", "label")],
        *[sf.col(quoted(f"v_{name}")) for name in e.measures],
        sf.lit(1).cast("bigint").alias("n"),
        *[sf.col(TIME).alias(name) for name in ("first_t", "last_t")],
        sf.lit(True).alias("is_final"),
        sf.coalesce(sf.expr(p.filter or "true"), sf.lit(False)).alias("is_shown"),
        *[ORDINAL, *extra],
        *[sf.col(column).alias(name) for name, column in stored.items()],
    )


def _prepared(raw: DataFrame, e: EngineQuery) -> _Rows:
    p: ReactiveState = e.params
    has_kept = KEPT + ORDINAL in raw.columns
    order = [sf.col(quoted(name)) for name in e.order]
    order[1:1] = [sf.col(KEPT + ORDINAL)] if has_kept else []  # stored rows come before all others
    ordered = Window.partitionBy(*map(quoted, e.groups)).orderBy(*order)
    equal = Window.partitionBy(*map(quoted, [*e.groups, TIME])).orderBy(*order)
    has_carry = p.is_cumulative and CARRY + AT in raw.columns
    since = sf.coalesce(sf.col(TIME) > sf.col(CARRY + AT), sf.lit(True)) if has_carry else sf.lit(True)
    is_raw = sf.col(KEPT + ORDINAL).isNull() if has_kept else None
    frame = raw.select(
        "*",
        *[_argument(text, p, is_raw).alias(f"{_ARGUMENT}{i}") for i, (_, text, _) in enumerate(p.calls)],
        (since if is_raw is None else since & is_raw).alias(_ACTIVE),
        sf.row_number().over(ordered).alias(_PLACE),
        sf.row_number().over(equal).cast("bigint").alias(ORDINAL),
        sf.col(TIME).alias(AT),
    )
    return _Rows(frame, ordered, has_carry, is_raw)


def _argument(text: str, p: ReactiveState, is_raw: Column | None) -> Column:
    """Return the argument of a call; for a stored row the stored argument, because the row's own columns are gone."""
    value = sf.expr(text)
    if is_raw is None:
        return value
    stored = p.arguments.get(text)
    return sf.when(is_raw, value).otherwise(sf.lit(None) if stored is None else sf.col(KEPT + stored))


def _looked_back_on(given: _Rows, p: ReactiveState) -> dict[str, str]:
    """Return the column that holds each stored argument, without the arguments whose type a table cannot hold."""
    columns = {name: _ARGUMENT + name.removeprefix(ARGUMENT) for name in p.arguments.values()}
    types = given.frame.schema if columns else None
    return {name: c for name, c in columns.items() if types is not None and is_storable(types[c].dataType)}


def _computed(given: _Rows, p: ReactiveState) -> tuple[dict[str, Column], list[Ema], list[str]]:
    """Return the columns that Spark computes, the averages that Arrow computes, and the names of the state columns."""
    columns: dict[str, Column] = {}
    emas: list[Ema] = []
    states: list[str] = []
    for i, (function, _, n) in enumerate(p.calls):
        argument, output = f"{_ARGUMENT}{i}", call_column(i)
        mine = [f"{STATE}{len(states) + j}" for j in range(_STATES.get(function, 0))]
        if function == "ema":
            emas.append(Ema(argument, n, mine[0], mine[1], output))
        elif function in _CUMULATIVE:
            columns |= _CUMULATIVE[function](given, argument, mine, output)
        elif function in _MOVING:
            columns[output] = _moved(given, _MOVING[function](sf.col(argument)), n)
        else:
            columns[output] = _SHIFTED[function](sf.col(argument), sf.lag(argument, n).over(given.ordered))
        states += mine
    return columns, emas, states


# -- the last n rows -----------------------------------------------------------------------------------------------------

_MOVING: Final[dict[str, Callable[[Column], Column]]] = {
    "mavg": sf.avg,
    "msum": sf.sum,
    "mmax": sf.max,
    "mmin": sf.min,
    "mstd": sf.stddev_samp,
    "mcount": sf.count,
}

_SHIFTED: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "prev": lambda _, before: before,
    "move": lambda _, before: before,
    "deltas": lambda x, before: x - before,
    "ratios": sf.try_divide,
}


def _moved(given: _Rows, aggregate: Column, n: int) -> Column:
    """Return an aggregate over the last *n* rows, null where there are fewer.

    A part includes the n - 1 rows before its results. If the part has fewer rows, the key has no more.
    """
    return sf.when(sf.col(_PLACE) >= sf.lit(n), aggregate.over(given.ordered.rowsBetween(1 - n, 0)))


# -- all rows ------------------------------------------------------------------------------------------------------------

_Cumulative = dict[str, Column]


def _so_far(given: _Rows) -> WindowSpec:
    return given.ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _counted(argument: str) -> Column:
    """Return the argument only for rows that the carried state does not include yet."""
    return sf.when(sf.col(_ACTIVE), sf.col(argument))


def _total(given: _Rows, argument: str, state: str) -> Column:
    """Return a running sum that adds in the order of rows, so that the result is the same wherever the sum resumes."""
    kind = given.frame.select(sf.sum(argument)).schema[0].dataType
    value, carried = _counted(argument).cast(kind), given.carried(state)
    if carried is not None:
        carried = carried.cast(kind)
        first = sf.coalesce(carried + value, carried, value)
        value = sf.when(sf.col(_PLACE) == sf.lit(1), first).otherwise(value)
    return sf.sum(value.cast(kind)).over(_so_far(given)).cast(kind)


def _number(given: _Rows, argument: str, state: str) -> Column:
    found, carried = sf.count(_counted(argument)).over(_so_far(given)), given.carried(state)
    return found if carried is None else found + sf.coalesce(carried, sf.lit(0).cast("bigint"))


def _sum(given: _Rows, argument: str, states: Sequence[str], output: str) -> _Cumulative:
    total = _total(given, argument, states[0])
    return {states[0]: total, output: total}


def _count(given: _Rows, argument: str, states: Sequence[str], output: str) -> _Cumulative:
    number = _number(given, argument, states[0])
    return {states[0]: number, output: number}


def _mean(given: _Rows, argument: str, states: Sequence[str], output: str) -> _Cumulative:
    total, number = _total(given, argument, states[0]), _number(given, argument, states[1])
    return {states[0]: total, states[1]: number, output: sf.try_divide(total.cast("double"), number.cast("double"))}


def _extreme(aggregate: Callable[[Column], Column], better: Callable[..., Column]) -> Callable[..., _Cumulative]:
    def extreme(given: _Rows, argument: str, states: Sequence[str], output: str) -> _Cumulative:
        found, carried = aggregate(_counted(argument)).over(_so_far(given)), given.carried(states[0])
        found = found if carried is None else better(carried, found)
        return {states[0]: found, output: found}

    return extreme


_CUMULATIVE: Final[dict[str, Callable[..., _Cumulative]]] = {
    "cumsum": _sum,
    "cumcount": _count,
    "cumavg": _mean,
    "cummax": _extreme(sf.max, sf.greatest),
    "cummin": _extreme(sf.min, sf.least),
}
_STATES: Final = {"cumsum": 1, "cumcount": 1, "cumavg": 2, "cummax": 1, "cummin": 1, "ema": 2}
"""The number of state columns of each cumulative function."""


# -- ema -----------------------------------------------------------------------------------------------------------------


def _needed(
    found: DataFrame, e: EngineQuery, emas: Sequence[Ema], given: _Rows, arguments: Mapping[str, str]
) -> Iterator[Column]:
    """Yield only the columns that the rest of the query reads; the other columns need not pass through Arrow."""
    p: ReactiveState = e.params
    reads = {name.casefold() for name in p.reads}
    carried = {CARRY + s for ema in emas for s in (ema.value, ema.seen)} if given.has_carry else set()
    doubles = {name for ema in emas for name in (ema.argument, CARRY + ema.value)}
    stored = {*e.groups, TIME, AT, ORDINAL, _PLACE, _ACTIVE, *carried, *arguments.values()}
    for name in found.columns:
        if name in doubles:
            yield sf.col(name).cast("double").alias(name)
        elif name in stored or name.startswith((_CALL, STATE)) or name.casefold() in reads:
            yield sf.col(quoted(name))


def _with_emas(found: DataFrame, e: EngineQuery, emas: Sequence[Ema], given: _Rows) -> DataFrame:
    """Return *found* with the averages and their states, computed in one ordered pass over each part of a key."""
    columns = [(name, st.DoubleType()) for ema in emas for name in (ema.value, ema.output)]
    added = [st.StructField(name, kind) for name, kind in columns]
    added += [st.StructField(ema.seen, st.LongType()) for ema in emas]
    stored = [st.StructField(f.name, f.dataType) for f in found.schema]
    function = _pass([astuple(ema) for ema in emas], CARRY if given.has_carry else None)
    return found.groupBy(*map(quoted, e.groups)).applyInArrow(function, st.StructType([*stored, *added]))


def _pass(emas: Sequence[tuple[str, int, str, str, str]], carry: str | None) -> Callable[[pa.Table], pa.Table]:
    """Return the function that Spark's workers run over a part.

    The workers may not have this package, so the function refers to nothing in it.

    Args:
        emas: The fields of each :class:`Ema`.
        carry: Prefix of the columns that carry the state before the part, or None.
    """
    place, active = _PLACE, _ACTIVE

    def averaged(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        table = table.sort_by(place)
        doubles: dict[str, pa.Array] = {}
        counts: dict[str, pa.Array] = {}
        for argument, n, value, seen, output in emas:
            total, number = None, 0
            if carry is not None and table.num_rows:
                total, number = table[carry + value][0].as_py(), table[carry + seen][0].as_py() or 0
            totals, numbers, weight = [], [], 2.0 / (n + 1)
            for x, is_new in zip(table[argument].to_pylist(), table[active].to_pylist(), strict=True):
                if is_new and x is not None:
                    number += 1
                    total = x if total is None else weight * x + (1.0 - weight) * total if number > n else total + x
                    total = total / n if number == n else total
                totals.append(total)
                numbers.append(number)
            shown = [t if k >= n else None for t, k in zip(totals, numbers, strict=True)]
            doubles |= {value: pa.array(totals, pa.float64()), output: pa.array(shown, pa.float64())}
            counts |= {seen: pa.array(numbers, pa.int64())}
        for name, column in (doubles | counts).items():
            table = table.append_column(name, column)
        return table

    return averaged


# -- filter --------------------------------------------------------------------------------------------------------------


def _named(found: DataFrame, p: ReactiveState) -> DataFrame:
    """Return *found* with the metrics that the filter uses under their own names, unless a column of that name exists."""
    reads, columns = ({n.casefold() for n in names} for names in (p.reads, found.columns))
    names = [name for name, _ in p.metrics if name.casefold() in reads - columns]
    return found.select("*", *[sf.col(quoted(f"v_{name}")).alias(name) for name in names])
