"""By code: a definition that is refused, the text in it that the hint is about, and what the hint makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.core.language.definitions import by, view

FOLLOWED: Final[dict[str, tuple[str, str, str]]] = {
    # the statement
    "not-a-definition": (view(), "CREATE MATERIALIZED VIEW", "CREATE VIEW"),
    "cte": (view(), "AS SELECT", "AS WITH t AS (SELECT 1) SELECT"),
    "bad-name": (view(), "bars", "a.b"),
    "syntax": (view("sum(price) AS f"), "sum(price)", "sum(price"),
    "unsupported-clause": (view(options="COMMENT 'bars'"), "COMMENT 'bars'", "PARTITIONED BY (sym)"),
    "order-by": (view(rest=" "), "sym\n", "sym ORDER BY bucket\n"),
    "limit": (view(rest=" "), "sym\n", "sym LIMIT 5\n"),
    "set-operation": (view(rest=" "), "sym\n", "sym UNION ALL SELECT 1\n"),
    "select-distinct": (view(), "SELECT window", "SELECT DISTINCT window"),
    "duplicate-name": (view() + ";\n" + view(name="others"), "others", "BARS"),
    "bad-column-name": (view(), "total", "_total"),
    "missing-alias": (view(), " AS total", ""),
    "duplicate-column": (view("sum(price) AS total, max(price) AS top"), "top", "TOTAL"),
    # properties
    "unknown-property": (view(options="TBLPROPERTIES ('refresh.start_offset' = '7 days')"), "start_offset", "start_ofset"),
    "property": (view(options="TBLPROPERTIES ('refresh.schedule' = '*/5 * * * *')"), "*/5 * * * *", "5 minutes"),
    "engine-only": (view(), "VIEW bars", "VIEW bars TBLPROPERTIES ('fill' = 'null')"),
    "lateness": (
        view(options="TBLPROPERTIES ('engine' = 'time_series', 'step' = '1 minute', 'lateness' = 'strict')"),
        "'strict'",
        "'later'",
    ),
    "engine": (view(options="TBLPROPERTIES ('engine' = 'continuous_aggregate')"), "continuous_aggregate", "continuous"),
    "having": (
        view(options="TBLPROPERTIES ('engine' = 'time_series', 'step' = '1 minute')", rest=" "),
        "sym\n",
        "sym HAVING sum(price) > 0\n",
    ),
    "retention": (view(options="TBLPROPERTIES ('source.retention' = '30 days')"), "30 days", "30"),
    # the source
    "join": (view(), "FROM trades", "FROM trades JOIN quotes ON a = b"),
    "sub-query": (view(where="price > 0"), "FROM trades\nWHERE price > 0", "FROM (SELECT * FROM trades WHERE price > 0)"),
    "source": (view(), "FROM trades", "FROM range(10)"),
    "time-travel": (view(), "FROM trades", "FROM trades VERSION AS OF 3"),
    "non-deterministic": (view(where="hash(sym) % 10 = 0"), "FROM trades\nWHERE hash(sym) % 10 = 0", "FROM trades TABLESAMPLE (10 PERCENT)"),
    "lateral": (view(), "FROM trades", "FROM trades LATERAL VIEW explode(tags) AS k, v"),
    # dividing time
    "no-bucket": (view(), "GROUP BY window(ts, '1 minute'), sym", ""),
    "bucket-not-selected": (view(), "window.start AS bucket, ", ""),
    "window-struct": (view(), "window.start AS bucket", "window"),
    "duplicate-bucket": (view(), "window.start AS bucket,", "window.start AS bucket, window.start AS b,"),
    "two-buckets": (view(), "'1 minute'),", "'1 minute'), window(ts, '1 hour'),"),
    "bucket-differs": (
        view(bucket="time_bucket('1 day', ts) AS bucket, sym", group="time_bucket('1 day', ts), sym"),
        "GROUP BY time_bucket('1 day'",
        "GROUP BY time_bucket('2 days'",
    ),
    "bucket-arguments": (view(), "window(ts, '1 minute')", "window(ts)"),
    "width": (view(), "'1 minute'", "'0 minutes'"),
    "time-column": (view(), "window(ts,", "window(upper(ts),"),
    "timezone": (by("time_bucket('1 day', ts, timezone => 'Europe/Paris')"), "'Europe/Paris'", "7"),
    "origin": (by("time_bucket('1 day', ts, origin => '2024-01-01 00:00:00')"), "2024-01-01 00:00:00", "infinity"),
    "ambiguous-group": (
        view(bucket="date_trunc('day', ts) AS day, sym", group="day, sym"),
        view(bucket="date_trunc('day', ts) AS day, sym", group="day, sym"),
        view(bucket="date_trunc('day', ts) AS ts, sym", group="ts, sym"),
    ),
    "ordinal": (view(group="window(ts, '1 minute'), 2"), ", 2", ", 9"),
    "grouping-sets": (view(), "'1 minute'), sym", "'1 minute'), ROLLUP(sym)"),
    "key-not-selected": (view(bucket="window.start AS bucket, sym, side", group="window(ts, '1 minute'), sym, side"), "sym, side,", "sym,"),
    # measures
    "star": (view("sum(price) AS total"), "sum(price) AS total", "*"),
    "not-grouped": (view("max(price) AS top"), "max(price) AS top", "price AS top"),
    "unknown-function": (view(), "sum(price)", "smu(price)"),
    "reflection": (view("max(upper(sym)) AS f"), "upper(sym)", "reflect('java.util.UUID', 'randomUUID')"),
    "nested-aggregate": (view("sum(price) AS f, max(price) AS g"), "sum(price) AS f, max(price) AS g", "sum(max(price)) AS f"),
    "window-function": (view(rest="HAVING max(price) > 1"), "HAVING max(price) > 1", "QUALIFY 1 = 1"),
    "generator": (view("count(price) AS f"), "count(price)", "count(explode(tags))"),
    "unsupported-aggregate": (view("mode(price) AS f"), "mode(price)", "histogram_numeric(price, 5)"),
    "bucket-in-measure": (view(), "sum(price) AS total", "max(window.start) AS total"),
    "wrong-arguments": (view("corr(price, volume) AS f"), "price, volume", "price"),
    "named-argument": (view(), "sum(price)", "sum(value => price)"),
    "nulls-option": (view(), "sum(price)", "sum(price) IGNORE NULLS"),
    "lost-backslash": (
        view("count_if(sym RLIKE '[0-9]') AS f"),
        "'[0-9]'",
        r"'\d'",
    ),
    "division-by-aggregate": (
        view("try_divide(sum(price * volume), sum(volume)) AS vwap"),
        "try_divide(sum(price * volume), sum(volume))",
        "sum(price * volume) / sum(volume)",
    ),
    # filters and keys
    "aggregate-in-where": (view(rest="HAVING sum(price) > 0"), "GROUP BY window(ts, '1 minute'), sym\nHAVING sum(price) > 0", "WHERE sum(price) > 0 GROUP BY window(ts, '1 minute'), sym"),
    "misplaced-bucket": (view(), "FROM trades\n", "FROM trades WHERE window.start > ts\n"),
    "aggregate-in-key": (
        view("sum(price) AS k"),
        view("sum(price) AS k"),
        view(bucket="window.start AS bucket, sym, sum(price) AS k", group="window(ts, '1 minute'), sym, k"),
    ),
}  # fmt: skip
"""Code without its family: the definition that is right, the text in it, and what makes it wrong."""

_SEQUENCE: Final = "TBLPROPERTIES ('sequence' = 'volume')"
RESOLVED: Final[dict[str, tuple[str, str, str]]] = {
    "missing-time-column": (view(), "window(ts,", "window(at,"),
    "time-type": (view(), "window(ts,", "window(sym,"),
    "resolution": (view(), "VIEW bars", "VIEW bars TBLPROPERTIES ('time.resolution' = 's')"),
    "missing-sequence": (view(options=_SEQUENCE), "volume", "seq"),
    "sequence-type": (view(options=_SEQUENCE), "volume", "tags"),
    "key-type": (view(bucket="window.start AS bucket, map_keys(tags) AS k", group="window(ts, '1 minute'), 2"), "map_keys(tags)", "tags"),
    "unknown-column": (view(), "sum(price)", "sum(pric)"),
    "timezone-type": (by("time_bucket('1 day', day)"), "day)", "day, 'Europe/Berlin')"),
    "timezone-unknown": (by("time_bucket('1 day', ts, 'Europe/Berlin')"), "Europe/Berlin", "Europe/Atlantis"),
    "width-type": (by("time_bucket('5 minutes', ts)"), "'5 minutes'", "5"),
    "width-mixed": (by("time_bucket('1 month', ts)"), "1 month", "1 month 1 day"),
    "offset-type": (by("time_bucket('7 days', day, offset => '1 day')"), "'1 day'", "'1 hour'"),
    "offset-mixed": (by("time_bucket('7 days', day, offset => '1 day')"), "'1 day'", "'1 month'"),
    "origin-invalid": (by("time_bucket('7 days', day, origin => '2024-01-01')"), "2024-01-01", "2024-01-01 00:00:01"),
}  # fmt: skip
"""The same of what the columns of :data:`COLUMNS` tell."""
COLUMNS: Final = [
    ("ts", "timestamp"),
    ("sym", "string"),
    ("price", "double"),
    ("volume", "bigint"),
    ("tags", "map<string,string>"),
    ("day", "date"),
]

HOURS: Final = """
CREATE MATERIALIZED VIEW hours AS SELECT time_bucket('1 hour', ts) AS at, ts AS k, sum(v) AS v, median(v) AS middle,
       concat(ts, count(*)) AS named, avg(v) AS mean
FROM raw GROUP BY 1, 2;
"""


def days(
    measure: str = "rollup(v)",
    at: str = "time_bucket('1 day', at)",
    rest: str = "",
    options: str = "",
    source: str = "hours",
) -> str:
    """Return a definition over hours."""
    return (
        f"CREATE MATERIALIZED VIEW days {options} AS SELECT {at} AS at, {measure} AS m FROM {source} {rest} GROUP BY 1;"
    )


ROLLED_UP: Final[dict[str, tuple[str, str, str]]] = {
    "rollup-source": (days(), "FROM hours", "FROM raw"),
    "rollup-time": (days(), "'1 day', at", "'1 day', k"),
    "rollup-sequence": (days(), "VIEW days", "VIEW days TBLPROPERTIES ('sequence' = 'v')"),
    "rollup-canaries": (days(), "VIEW days", "VIEW days TBLPROPERTIES ('quality.canaries' = '2')"),
    "rollup-mixed": (days(), "rollup(v)", "rollup(v) + count(*)"),
    "rollup-measure": (days(), "rollup(v)", "rollup(volume)"),
    "rollup-filter": (days(rest="WHERE k > DATE'2024-01-01'"), "rollup(v)", "rollup(v) FILTER (WHERE k > DATE'2024-01-01')"),
    "rollup-column": (days(rest="WHERE k > DATE'2024-01-01'"), "WHERE k > DATE'2024-01-01'", "WHERE v > 3"),
    "rollup-key": (days(), "rollup(v)", "rollup(named)"),
    "no-partials": (days(), "rollup(v)", "rollup(middle)"),
    "not-nested": (days(), "'1 day'", "'90 minutes'"),
    "not-again": (days("rollup(mean)"), "rollup(mean)", "avg(mean)"),
    "cycle": (days(), "FROM hours", "FROM days"),
}  # fmt: skip
"""The same of an aggregate over :data:`HOURS`."""


def suite(**changes: object) -> str:
    """Return a suite of one expectation, with other parts."""
    kwargs = {"column": "x", "mostly": 0.9}
    entry = {"type": "expect_column_values_to_not_be_null", "kwargs": kwargs, "severity": "warning"} | changes
    return json.dumps({"name": "daily", "expectations": [entry]})


SUITES: Final[dict[str, tuple[str, str, str]]] = {
    "syntax": (suite(), '"daily",', '"daily"'),
    "shape": (suite(), '"name"', '"nom"'),
    "missing-argument": (suite(), '"column": "x", ', ""),
    "severity": (suite(), "warning", "fatal"),
    "unknown-expectation": (suite(), "not_be_null", "not_be_nul"),
    "not-on-spark": (
        suite(type="unexpected_rows_expectation", kwargs={"unexpected_rows_query": "SELECT * FROM {batch} WHERE x < 0"}),
        suite(type="unexpected_rows_expectation", kwargs={"unexpected_rows_query": "SELECT * FROM {batch} WHERE x < 0"}),
        suite(type="expect_column_values_to_be_increasing", kwargs={"column": "x"}),
    ),
    "unknown-argument": (suite(), "mostly", "mostely"),
    "value": (suite(), "0.9", "95"),
    "unknown-column": (suite(), '"column": "x"', '"column": "X"'),
    "parameter": (suite(), '"x"', '{"$PARAMETER": "c"}'),
}  # fmt: skip
"""The same of suites."""

SESSIONS: Final = """
CREATE MATERIALIZED VIEW sessions TBLPROPERTIES ('engine' = 'session_window', 'session_gap' = '1 minute') AS
SELECT sum(v) AS v FROM raw GROUP BY session_window(ts, '1 minute');
"""
_HOURLY: Final[dict[str, Any]] = {"time": "ts", "width": "1 hour", "measures": {"m": "sum(v)"}}
_TICKS: Final[dict[str, Any]] = {"time": "v", "width": "10", "measures": {"m": "count(*)"}}
_ROWS: Final[dict[str, Any]] = {"time": "ts", "engine": "reactive_state"}
_GAPS: Final[dict[str, Any]] = {
    "time": "ts",
    "engine": "session_window",
    "session_gap": "1 minute",
    "measures": {"m": "sum(v)"},
}


def _policies(base: Mapping[str, Any], **properties: str) -> dict[str, Any]:
    return {**base, "properties": {f"refresh.{name.replace('__', '.')}": value for name, value in properties.items()}}


_TWO: Final = {
    "start_offset": "7 days",
    "end_offset": "1 hour",
    "older__start_offset": "12 months",
    "older__end_offset": "7 days",
}
DEFINED: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "engine-parameter": (_GAPS, _GAPS | {"session_gap": "0 minutes"}),
    "no-measure": (_ROWS | {"measures": {"m": "cumsum(v)"}}, _ROWS | {"measures": {}}),
    "row-aggregate": (_ROWS | {"measures": {"m": "cumsum(v)"}}, _ROWS | {"measures": {"m": "sum(v)"}}),
    "nested-state": (
        _ROWS | {"measures": {"inner": "cumsum(v)", "m": "mavg(v, 3)"}},
        _ROWS | {"measures": {"m": "mavg(cumsum(v), 3)"}},
    ),
    "policy-exists": (
        _policies(_HOURLY, **_TWO),
        _policies(_HOURLY, **_TWO | {"older__start_offset": "7 days", "older__end_offset": "1 hour"}),
    ),
    "policy-overlap": (_policies(_HOURLY, **_TWO), _policies(_HOURLY, **_TWO | {"older__end_offset": "2 days"})),
    "policy-offset": (_policies(_HOURLY, start_offset="7 days"), _policies(_HOURLY, start_offset="700")),
    "policy-window": (
        _policies(_HOURLY, start_offset="7 days", end_offset="1 hour"),
        _policies(_HOURLY, start_offset="1 hour", end_offset="1 hour"),
    ),
    "policy-schedule": (
        _policies(_TICKS, start_offset="100"),
        _policies(_TICKS, start_offset="100", schedule="@daily"),
    ),
    "quality": (_GAPS, _GAPS | {"properties": {"quality.on_failure": "buckets"}}),
    "width-too-long": (_TICKS, _TICKS | {"width": str(2**63)}),
}
"""Code without its family: arguments of `define` that are right, and the same with the mistake."""
