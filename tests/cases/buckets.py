"""Time-bucket cases: the grid alone, without a JVM."""

from __future__ import annotations

from typing import Any

from materializer.core.language.parse import parse_report
from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build
from materializer.errors import DefinitionError, OutOfRangeError
from tests.cases.reading import Case, Outcome, micros

_TYPES = {
    "date": TimeType.DATE,
    "timestamp": TimeType.TIMESTAMP_NTZ,
    "timestamptz": TimeType.TIMESTAMP,
    "smallint": TimeType.SMALLINT,
    "int": TimeType.INT,
    "bigint": TimeType.BIGINT,
}


def run(case: Case) -> Outcome:
    """Floor one instant; the fact of an error binds, not its words."""
    expected = "an error" if "expected_error" in case else _instant(case, "expected")
    found = _found(case)
    is_same = found == expected or (expected == "an error" and str(found).startswith("refused"))
    return Outcome(case["id"], is_same, expected, found)


def _found(case: Case) -> int | str | None:
    if "null_argument" in case:
        return _with_null(case)
    if case["type"] not in _TYPES:
        return f"refused: no time column is a {case['type']}"
    spec = GridSpec(_width(case["width"]), case["timezone"], _instant(case, "origin"), _offset(case["offset"]))
    try:
        return build(spec, _TYPES[case["type"]]).floor(_instant(case, "ts"))
    except (DefinitionError, OutOfRangeError) as exc:
        return f"refused: {exc.code}"


def _with_null(case: Case) -> str | None:
    """A definition with a null width or zone gives no bucket: it is refused. A null time is a row without a bucket."""
    if case["null_argument"] == "ts":
        return None
    width = "NULL" if case["null_argument"] == "width" else "'1 day'"
    zone = "NULL" if case["null_argument"] == "timezone" else f"'{case.get('timezone') or 'UTC'}'"
    bucket = f"time_bucket({width}, ts, {zone})"
    sql = f"CREATE MATERIALIZED VIEW a AS SELECT {bucket} AS bucket, count(*) AS n FROM t GROUP BY {bucket}"
    try:
        parse_report(sql)
    except DefinitionError:
        return None
    return "a bucket"


def _instant(case: Case, field: str) -> Any:
    """The value as the core counts it; the files also spell most of them out as microseconds."""
    value = case[field]
    if value is None or isinstance(value, int):
        return value
    return case.get(f"{field}_micros", micros(value))


def _width(value: int | dict[str, int]) -> Width:
    return Width(ticks=value) if isinstance(value, int) else Width(**value)


def _offset(value: int | dict[str, int] | None) -> Width | None:
    return None if value is None else _width(value)
