"""Statements as people type them who come from other systems: the hint, done as it says, gives a definition, or says what to run."""

from __future__ import annotations

from typing import Final

import pytest

from materializer.adapters.cli.examples import EXAMPLES
from materializer.core.language.parse import parse_report
from materializer.errors import DefinitionError, Problem

HEAD: Final = "CREATE MATERIALIZED VIEW days"


def statement(
    bucket: str = "date_trunc('day', ts)", measure: str = "sum(v)", source: str = "events", rest: str = ""
) -> str:
    """Return a definition by one bucket with one measure."""
    return f"{HEAD} AS SELECT {bucket} AS day, {measure} AS m FROM {source}{rest} GROUP BY {bucket}"


RIGHT: Final = statement()
MILLISECONDS: Final = statement("date_trunc('day', ms)").replace(
    " AS ", " TBLPROPERTIES ('time.resolution' = 'ms') AS ", 1
)
MEANT: Final[dict[str, tuple[str, str, str, str]]] = {
    "PostgreSQL: a cast to a day": (statement("ts::date"), "no-bucket", "write date_trunc('day', ts)", RIGHT),
    "PostgreSQL: a zone": (
        statement("date_trunc('day', ts AT TIME ZONE 'Europe/Paris')"),
        "time-column",
        "date_trunc('day', ts, 'Europe/Paris')",
        statement("date_trunc('day', ts, 'Europe/Paris')"),
    ),
    "PostgreSQL: date_bin": (
        statement("date_bin('15 minutes', ts, TIMESTAMP '2001-01-01')"),
        "no-bucket",
        "write time_bucket('15 minutes', ts, origin => '2001-01-01')",
        statement("time_bucket('15 minutes', ts, origin => '2001-01-01')"),
    ),
    "PostgreSQL: names in quotes": (statement(source='"events"'), "source", "write events without quotes", RIGHT),
    "PostgreSQL: a time in quotes": (statement("date_trunc('day', \"ts\")"), "time-column", "write ts", RIGHT),
    "PostgreSQL: the last days": (
        statement(rest=" WHERE ts > now() - INTERVAL '7 days'"),
        "non-deterministic",
        "take it away: 'refresh.start_offset'",
        RIGHT.replace(" AS ", " TBLPROPERTIES ('refresh.start_offset' = '7 days', 'refresh.schedule' = '0 * * * *') AS ", 1),
    ),
    "PostgreSQL: WITH DATA": (RIGHT + " WITH DATA", "unsupported-clause", "take it away", RIGHT),
    "TimescaleDB: an option": (
        RIGHT.replace(" AS ", " WITH (timescaledb.continuous) AS ", 1),
        "unsupported-clause",
        "take WITH (…) away",
        RIGHT,
    ),
    "TimescaleDB: WITH NO DATA": (RIGHT + " WITH NO DATA", "unsupported-clause", "take it away", RIGHT),
    "TimescaleDB: gaps": (
        statement("time_bucket_gapfill('1 day', ts)"),
        "no-bucket",
        "write time_bucket('1 day', ts)",
        statement("time_bucket('1 day', ts)"),
    ),
    "Snowflake: a dynamic table": (
        RIGHT.replace(HEAD, "CREATE OR REPLACE DYNAMIC TABLE days"),
        "not-a-definition",
        "write CREATE MATERIALIZED VIEW in place of `CREATE OR REPLACE DYNAMIC TABLE`",
        RIGHT,
    ),
    "Snowflake: time_slice": (
        statement("time_slice(ts, 15, 'MINUTE')"),
        "no-bucket",
        "write time_bucket('15 minute', ts)",
        statement("time_bucket('15 minute', ts)"),
    ),
    "BigQuery: timestamp_bucket": (
        statement("timestamp_bucket(ts, INTERVAL 1 HOUR)"), "no-bucket", "write time_bucket('1 hour', ts)", statement("time_bucket('1 hour', ts)"),
    ),
    "PostgreSQL: the zone of an hour": (
        statement("date_trunc('hour', ts AT TIME ZONE 'Europe/Oslo')"), "time-column", "date_trunc('hour', ts, 'Europe/Oslo')",
        statement("date_trunc('hour', ts, 'Europe/Oslo')"),
    ),
    "TimescaleDB: the zone of a bucket": (
        statement("time_bucket('1 hour', ts AT TIME ZONE 'Europe/Oslo')"), "time-column", "time_bucket('1 hour', ts, 'Europe/Oslo')",
        statement("time_bucket('1 hour', ts, 'Europe/Oslo')"),
    ),
    "Snowflake: hll": (statement(measure="hll(v)"), "unknown-function", "write approx_count_distinct(…)", statement(measure="approx_count_distinct(v)")),
    "BigQuery: count_distinct": (statement(measure="count_distinct(v)"), "unknown-function", "write count(DISTINCT …)", statement(measure="count(DISTINCT v)")),
    "Snowflake: iff": (statement(measure="sum(iff(v > 1, 1, 0))"), "unknown-function", "`if`", statement(measure="sum(if(v > 1, 1, 0))")),
    "Snowflake: a path": (statement(measure="sum(pay:amount)"), "syntax", "write `pay.amount`", statement(measure="sum(pay.amount)")),
    "BigQuery: the unit last": (statement("date_trunc(ts, DAY)"), "width", "write date_trunc('day', ts)", RIGHT),
    "BigQuery: timestamp_trunc": (statement("timestamp_trunc(ts, DAY)"), "no-bucket", "write date_trunc('day', ts)", RIGHT),
    "BigQuery: options": (
        RIGHT.replace(" AS ", " OPTIONS (enable_refresh = true) AS ", 1),
        "unsupported-clause",
        "write TBLPROPERTIES",
        RIGHT.replace(" AS ", " TBLPROPERTIES ('refresh.schedule' = '0 * * * *') AS ", 1),
    ),
    "BigQuery: partitions": (RIGHT.replace(" AS ", " PARTITION BY day AS ", 1), "unsupported-clause", "take it away", RIGHT),
    "BigQuery: safe_divide": (
        statement(measure="safe_divide(sum(v), count(*))"),
        "unknown-function",
        "`try_divide`",
        statement(measure="try_divide(sum(v), count(*))"),
    ),
    "BigQuery: milliseconds": (statement("date_trunc('day', timestamp_millis(ms))"), "time-column", "divide ms, with the property 'time.resolution' = 'ms'", MILLISECONDS),
    "Spark: seconds of milliseconds": (statement("date_trunc('day', from_unixtime(ms / 1000))"), "time-column", "divide ms, with the property 'time.resolution' = 'ms'", MILLISECONDS),
    "Spark: a cast": (statement("date_trunc('day', CAST(ts AS TIMESTAMP))"), "time-column", "write ts if it is a time", RIGHT),
    "Spark: a day of milliseconds": (statement("to_date(timestamp_millis(ms))"), "no-bucket", "divide ms, with the property 'time.resolution' = 'ms'", MILLISECONDS),
    "Spark: the hour of the day": (
        statement("hour(ts)"),
        "no-bucket",
        "add date_trunc('day', ts), or another bucket; `hour(ts)` may be a key",
        f"{HEAD} AS SELECT date_trunc('day', ts) AS day, hour(ts) AS h, sum(v) AS m FROM events GROUP BY 1, 2",
    ),
    "Spark: a format": (RIGHT.replace(" AS ", " USING DELTA AS ", 1), "unsupported-clause", "take it away", RIGHT),
    "Databricks: a schedule": (
        RIGHT.replace(" AS ", " SCHEDULE EVERY 1 HOUR AS ", 1),
        "unsupported-clause",
        "write TBLPROPERTIES ('refresh.schedule' = '0 * * * *')",
        RIGHT.replace(" AS ", " TBLPROPERTIES ('refresh.schedule' = '0 * * * *') AS ", 1),
    ),
    "Databricks: a live table": (RIGHT.replace(HEAD, "CREATE OR REFRESH LIVE TABLE days"), "not-a-definition", "in place of `CREATE OR REFRESH LIVE TABLE`", RIGHT),
    "DuckDB: arg_max": (statement(measure="arg_max(v, ts)"), "unknown-function", "`max_by`", statement(measure="max_by(v, ts)")),
    "DuckDB: a file": (statement(source="read_parquet('lake/events')"), "source", "write delta.`lake/events`", statement(source="delta.`lake/events`")),
    "DuckDB: epoch_ms": (statement("date_trunc('day', epoch_ms(ms))"), "time-column", "divide ms, with the property 'time.resolution' = 'ms'", MILLISECONDS),
    "dbt: a reference": (statement(source="{{ ref('events') }}"), "source", "write events", RIGHT),
    "dbt: a query": (RIGHT.removeprefix(f"{HEAD} AS "), "not-a-definition", "write CREATE MATERIALIZED VIEW name AS before it", RIGHT),
    "Flink: tumble": (statement("tumble(ts, INTERVAL '1' DAY)"), "no-bucket", "write window(ts, '1 day')", statement("window(ts, '1 day')").replace("SELECT window(ts, '1 day')", "SELECT window.start")),
    "ClickHouse: toStartOfDay": (statement("toStartOfDay(ts)"), "no-bucket", "write date_trunc('day', ts)", RIGHT),
}  # fmt: skip
"""By what it is: the statement, its code, the hint, and what the hint makes of it."""
COMMANDS: Final = {
    "REFRESH MATERIALIZED VIEW days": "materializer refresh NAME",
    "CALL refresh_continuous_aggregate('days', NULL, NULL)": "materializer refresh NAME",
    "DROP MATERIALIZED VIEW days": "materializer drop NAME",
    "ALTER MATERIALIZED VIEW days SET (timescaledb.materialized_only = false)": "materializer apply FILE",
}
"""Statements that are commands here."""


def problems(text: str) -> list[Problem]:
    """Return the problems of a text."""
    try:
        parse_report(text)
    except DefinitionError as exc:
        return list(exc.problems)
    return []


@pytest.mark.parametrize("name", MEANT)
def test_what_was_meant_is_said_and_accepted(name: str) -> None:
    """
    One problem with one hint; what the hint makes of the statement has no problem.
    """
    text, code, hint, right = MEANT[name]
    [problem] = problems(text)

    assert f"definition.{code}" == problem.code
    assert hint in problem.hint
    assert [] == problems(right)


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_is_named(text: str) -> None:
    """
    One that the command line has.
    """
    [problem] = problems(text)
    command = COMMANDS[text].split()[1]

    assert ("definition.not-a-definition", True) == (problem.code, f"'{COMMANDS[text]}'" in problem.hint)
    assert command in EXAMPLES


def test_problems_come_in_one_pass() -> None:
    """
    Expressions are read also where nothing divides time; nothing comes up only after the rest is mended.
    """
    text = f"{HEAD} AS SELECT to_date(ts) AS day, smu(v) AS t, max(v), avg(v) OVER (ORDER BY ts) AS q FROM events WHERE rand() < 1 GROUP BY 1 LIMIT 5"
    found = {problem.code.removeprefix("definition.") for problem in problems(text)}

    assert {"no-bucket", "unknown-function", "missing-alias", "window-function", "non-deterministic", "limit"} == found
