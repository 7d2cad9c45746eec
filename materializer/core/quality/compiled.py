"""Expectations as SQL aggregates.

An expectation is compiled where the SQL provably means what Great Expectations 1.24 computes on Spark: the predicates are
those that its metrics build, nulls are excluded where it excludes them, and the result is compared as it compares results.
Anything else (a row condition, bounds of another kind than the column, a type with special treatment in Great
Expectations) gives None and is left to the library.

Source:
    great_expectations 1.24.1, ``expectations/core`` and ``expectations/metrics``, their ``_spark`` functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from materializer.core.quality.checks import COPIES, ROWS_SQL, Answer, Check, Judge, Predicate, repeated, total
from materializer.core.quality.literals import (
    INTEGERS,
    READERS,
    TIMES,
    as_instant,
    bound_sql,
    instant_of,
    is_integer,
    is_nested,
    is_numeric,
    member_sql,
    number_of,
    share_of,
    text_sql,
)
from materializer.core.quality.suite import Expectation, Suite
from materializer.core.spec.table_names import quoted

Columns: TypeAlias = Mapping[str, str]
"""Column → Spark type, in the order of the table."""
_Parts: TypeAlias = tuple[tuple[str, ...], Judge, Predicate | None]

_MEANS: Final = ("int", "bigint", "float", "double")
"""Types, besides decimals, whose mean Great Expectations computes; it refuses all others."""


def compiled(e: Expectation, columns: Columns) -> Check | None:
    """Return the check of an expectation, or None when only Great Expectations can evaluate it.

    Args:
        e: The expectation, checked and with its parameters filled in; see :func:`plain`.
        columns: The table's columns.
    """
    build = _BUILDERS.get(e.type)
    if build is None or e.parameters or "row_condition" in e.kwargs or "batch_id" in e.kwargs:
        return None
    if not all(name in columns for arg in e.known.columns for name in _listed(e.kwargs[arg])):
        return None
    parts = build(e.kwargs, columns)
    return None if parts is None else Check(e.index, e.type, e.kwargs, e.severity, *parts)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def plain(e: Expectation, columns: Columns) -> Expectation:
    """Return an expectation whose bounds on a timestamp are instants in UTC, written without an offset.

    A date alone means its midnight, and an offset is converted. Great Expectations fails on both when it compares them with the
    smallest or largest value of a column.
    """
    column = e.kwargs.get("column")
    if not isinstance(column, str) or columns.get(column) not in TIMES:
        return e
    read = {arg: as_instant(e.kwargs.get(arg)) for arg in ("min_value", "max_value")}
    bounds = {arg: instant.isoformat() for arg, instant in read.items() if instant is not None}
    return e.with_kwargs({**e.kwargs, **bounds}) if bounds else e


# -- values of rows ------------------------------------------------------------------------------------------------------


def _about_rows(mostly: float, where: str, alike: tuple[str, ...], counted: str) -> _Parts:
    """Build an expectation about rows.

    Args:
        mostly: The least share of the considered rows that must meet it.
        where: SQL of the rows that do not meet it.
        alike: Columns by which *where* counts equal rows.
        counted: SQL aggregate that counts the considered rows.
    """
    failing = Predicate(where, alike)

    def judge(values: Sequence[Any]) -> Answer:
        rows, considered, unexpected = map(total, values)
        return Answer(considered == 0 or (considered - unexpected) / considered >= mostly, None, unexpected, rows)

    return (ROWS_SQL, counted, f"count_if({where})"), judge, failing


def _values(kwargs: Mapping[str, Any], where: str, alike: tuple[str, ...] = ()) -> _Parts:
    """Build an expectation about the values of a column that are not null."""
    column = quoted(kwargs["column"])
    return _about_rows(kwargs.get("mostly", 1.0), f"{column} IS NOT NULL AND {where}", alike, f"count({column})")


def _not_null(kwargs: Mapping[str, Any], _columns: Columns) -> _Parts:
    return _about_rows(kwargs.get("mostly", 1.0), f"{quoted(kwargs['column'])} IS NULL", (), ROWS_SQL)


def _null(kwargs: Mapping[str, Any], _columns: Columns) -> _Parts:
    return _about_rows(kwargs.get("mostly", 1.0), f"{quoted(kwargs['column'])} IS NOT NULL", (), ROWS_SQL)


def _unique(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    if is_nested(columns[kwargs["column"]]):
        return None
    return _values(kwargs, f"{COPIES} > 1", (kwargs["column"],))


def _compound_unique(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    names = kwargs["column_list"]
    if len(names) < 2 or any(is_nested(columns[n]) for n in names):
        return None
    nulls = [f"{quoted(n)} IS NULL" for n in names]
    match kwargs.get("ignore_row_if", "all_values_are_missing"):
        case "all_values_are_missing":
            counts = f"NOT ({' AND '.join(nulls)})"
        case "any_value_is_missing":
            counts = f"NOT ({' OR '.join(nulls)})"
        case "never":
            counts = "true"
        case _:
            return None
    predicate = repeated(names, counts)
    return _about_rows(kwargs.get("mostly", 1.0), predicate.sql, predicate.alike, f"count_if({counts})")


def _between(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    kind = columns[kwargs["column"]]
    bounds = {arg: bound_sql(kwargs[arg], kind) for arg in ("min_value", "max_value") if arg in kwargs}
    if not bounds or None in bounds.values():
        return None
    column = quoted(kwargs["column"])
    return _values(kwargs, f"NOT ({_bounded(column, bounds, kwargs)})")


def _bounded(value: str, bounds: Mapping[str, str | None], kwargs: Mapping[str, Any]) -> str:
    tests = []
    if "min_value" in bounds:
        tests.append(f"{value} {'>' if kwargs.get('strict_min') else '>='} {bounds['min_value']}")
    if "max_value" in bounds:
        tests.append(f"{value} {'<' if kwargs.get('strict_max') else '<='} {bounds['max_value']}")
    return " AND ".join(tests)


def _in_set(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    test = _membership(kwargs, columns)
    return None if test is None else _values(kwargs, f"NOT {test}")


def _not_in_set(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    test = _membership(kwargs, columns)
    return None if test is None else _values(kwargs, test)


def _membership(kwargs: Mapping[str, Any], columns: Columns) -> str | None:
    values, kind = kwargs["value_set"], columns[kwargs["column"]]
    if not isinstance(values, list) or not values:
        return None
    literals = [member_sql(v, kind) for v in values]
    if None in literals:
        return None
    return f"({quoted(kwargs['column'])} IN ({', '.join(str(v) for v in literals)}))"


def _regex(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    test = _matches(kwargs, columns)
    return None if test is None else _values(kwargs, f"NOT {test}")


def _not_regex(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    test = _matches(kwargs, columns)
    return None if test is None else _values(kwargs, test)


def _matches(kwargs: Mapping[str, Any], columns: Columns) -> str | None:
    pattern = kwargs.get("regex")
    if columns[kwargs["column"]] != "string" or not isinstance(pattern, str):
        return None
    return f"({quoted(kwargs['column'])} RLIKE {text_sql(_without_backslashes(pattern))})"


def _without_backslashes(pattern: str) -> str:
    r"""Return the same pattern with classes in place of ``\d``, ``\w`` and ``\.``: this process reads no text with a backslash."""
    inside = {r"\d": "0-9", r"\w": "a-zA-Z_0-9", r"\.": "."}
    parts = re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
    found, is_class = "", False
    for part, following in zip(parts, [*parts[1:], ""], strict=False):
        is_class = part == "[" or (is_class and part != "]")
        is_end = is_class and "-" in (found[-1:], following)  # of a range
        if len(part) > 1 and (part not in inside or is_end):
            return pattern
        found += part if len(part) == 1 else inside[part] if is_class else f"[{inside[part]}]"
    has_flags = re.search(r"\(\?(?!:)", pattern) is not None  # they may give a class another meaning
    return pattern if has_flags or "".join(parts) != pattern else found


def _lengths(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    bounds = {arg: kwargs[arg] for arg in ("min_value", "max_value") if arg in kwargs}
    if columns[kwargs["column"]] != "string" or not bounds or not all(map(is_integer, bounds.values())):
        return None
    sqls = {arg: f"{value}L" for arg, value in bounds.items()}
    length = f"length({quoted(kwargs['column'])})"
    return _values(kwargs, f"NOT ({_bounded(length, sqls, kwargs)})")


def _length(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    if columns[kwargs["column"]] != "string" or not is_integer(kwargs["value"]):
        return None
    return _values(kwargs, f"length({quoted(kwargs['column'])}) <> {kwargs['value']}L")


# -- columns and tables as a whole ---------------------------------------------------------------------------------------


def _compared(
    kwargs: Mapping[str, Any], aggregates: tuple[str, ...], value: Callable[..., Any], kind: str
) -> _Parts | None:
    """Build the comparison of one value with bounds of the same kind."""
    read = READERS[kind]
    given = {arg: kwargs[arg] for arg in ("min_value", "max_value") if arg in kwargs}
    bounds = {arg: read(text) for arg, text in given.items()}
    if None in bounds.values():
        return None
    low, high = bounds.get("min_value"), bounds.get("max_value")

    def judge(values: Sequence[Any]) -> Answer:
        found = value(*values)
        if found is None:
            return Answer(False)
        above = low is None or (found > low if kwargs.get("strict_min") else found >= low)
        below = high is None or (found < high if kwargs.get("strict_max") else found <= high)
        return Answer(above and below, found.isoformat() if isinstance(found, date) else found)

    return aggregates, judge, None


def _extreme(function: str) -> Callable[[Mapping[str, Any], Columns], _Parts | None]:
    def build(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
        column, kind = quoted(kwargs["column"]), columns[kwargs["column"]]
        if kind == "date":
            return _compared(kwargs, (f"{function}({column})",), _same, "date")
        if kind in TIMES:
            # as microseconds, because the driver would convert a timestamp to its own time zone
            micros = f"unix_micros(CAST({function}({column}) AS TIMESTAMP))"
            return _compared(kwargs, (micros,), instant_of, "timestamp")
        return _compared(kwargs, (f"{function}({column})",), number_of, "number") if is_numeric(kind) else None

    return build


def _mean(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    kind = columns[kwargs["column"]]
    if kind not in _MEANS and not kind.startswith("decimal"):
        return None
    return _compared(kwargs, (f"avg({quoted(kwargs['column'])})",), number_of, "number")


def _sum(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    column, kind = quoted(kwargs["column"]), columns[kwargs["column"]]
    if not is_numeric(kind):
        return None
    value = f"CAST({column} AS DOUBLE)" if kind in INTEGERS else column
    return _compared(kwargs, (f"sum({value})",), number_of, "number")


def _stdev(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    if not is_numeric(columns[kwargs["column"]]):
        return None
    return _compared(kwargs, (f"stddev_samp({quoted(kwargs['column'])})",), number_of, "number")


def _distinct(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    if is_nested(columns[kwargs["column"]]):
        return None
    return _compared(kwargs, (f"count(DISTINCT {quoted(kwargs['column'])})",), _same, "integer")


def _share_of_distinct(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    if is_nested(columns[kwargs["column"]]):
        return None
    column = quoted(kwargs["column"])
    return _compared(kwargs, (f"count(DISTINCT {column})", f"count({column})"), share_of, "number")


def _share_of_values(kwargs: Mapping[str, Any], _columns: Columns) -> _Parts | None:
    return _compared(kwargs, (f"count({quoted(kwargs['column'])})", ROWS_SQL), share_of, "number")


def _same(found: Any) -> Any:
    return found


def _rows_between(kwargs: Mapping[str, Any], _columns: Columns) -> _Parts | None:
    return _compared(kwargs, (ROWS_SQL,), _same, "integer")


def _rows_equal(kwargs: Mapping[str, Any], _columns: Columns) -> _Parts | None:
    value = kwargs["value"]
    return _compared({"min_value": value, "max_value": value}, (ROWS_SQL,), _same, "integer")


def _exists(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    return None if "column_index" in kwargs else ((), lambda _: Answer(kwargs["column"] in columns), None)


def _width(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    bounds = {"min_value": kwargs["value"], "max_value": kwargs["value"]} if "value" in kwargs else kwargs
    return _compared(bounds, (), lambda: len(columns), "integer")


def _ordered(kwargs: Mapping[str, Any], columns: Columns) -> _Parts | None:
    expected, found = kwargs.get("column_list"), list(columns)
    return ((), lambda _: Answer(found == expected, found), None) if isinstance(expected, list) else None


_Builder: TypeAlias = Callable[[Mapping[str, Any], Columns], _Parts | None]
_BUILDERS: Final[Mapping[str, _Builder]] = MappingProxyType(
    {
        "expect_column_values_to_not_be_null": _not_null,
        "expect_column_values_to_be_null": _null,
        "expect_column_values_to_be_unique": _unique,
        "expect_compound_columns_to_be_unique": _compound_unique,
        "expect_column_values_to_be_between": _between,
        "expect_column_values_to_be_in_set": _in_set,
        "expect_column_values_to_not_be_in_set": _not_in_set,
        "expect_column_values_to_match_regex": _regex,
        "expect_column_values_to_not_match_regex": _not_regex,
        "expect_column_value_lengths_to_be_between": _lengths,
        "expect_column_value_lengths_to_equal": _length,
        "expect_column_min_to_be_between": _extreme("min"),
        "expect_column_max_to_be_between": _extreme("max"),
        "expect_column_mean_to_be_between": _mean,
        "expect_column_sum_to_be_between": _sum,
        "expect_column_stdev_to_be_between": _stdev,
        "expect_column_unique_value_count_to_be_between": _distinct,
        "expect_column_proportion_of_unique_values_to_be_between": _share_of_distinct,
        "expect_column_proportion_of_non_null_values_to_be_between": _share_of_values,
        "expect_table_row_count_to_be_between": _rows_between,
        "expect_table_row_count_to_equal": _rows_equal,
        "expect_column_to_exist": _exists,
        "expect_table_column_count_to_equal": _width,
        "expect_table_column_count_to_be_between": _width,
        "expect_table_columns_to_match_ordered_list": _ordered,
    }
)
COMPILABLE: Final = frozenset(_BUILDERS)
"""Types that are compiled when their arguments allow it."""


class CompiledSuite(Struct, frozen=True):
    """A suite that is bound to its parameters and compiled for the columns of some rows.

    Args:
        suite: The suite, with the values of its parameters.
        checks: What is compiled.
        left: What only Great Expectations can evaluate.
    """

    suite: Suite
    checks: tuple[Check, ...]
    left: tuple[Expectation, ...]

    @classmethod
    def of(
        cls, suite: Suite | None, parameters: Mapping[str, Any], columns: Mapping[str, str], *, is_compiled: bool = True
    ) -> CompiledSuite:
        """Compile *suite*.

        Args:
            suite: None for no expectation at all.
            parameters: Values for its parameters.
            columns: Spark type of each column of the rows.
            is_compiled: Whether anything is compiled; else Great Expectations evaluates the whole suite.

        Raises:
            DefinitionError: If a parameter has no value.
        """
        aggregate = Suite("", ()) if suite is None else suite.bound(parameters)
        expectations = [plain(e, columns) for e in aggregate.expectations]
        found = [(e, compiled(e, columns) if is_compiled else None) for e in expectations]
        checks = tuple(check for _, check in found if check is not None)
        return cls(aggregate, checks, tuple(e for e, check in found if check is None))
