"""Statements and values of public test suites, with a bucket beside their groups: rows are those of plain Spark, or those that the suite prints.

Each list names the file that its values and questions are from; the wording is ours. In every statement ``day`` is the bucket.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.errors import DefinitionError
from tests.statements.trial import differs
from tests.system.builders import Site

DAY: Final = datetime(2024, 3, 1, tzinfo=UTC)
TS: Final = ("ts", pa.timestamp("us", "UTC"))
INT, TEXT, DOUBLE, TRUTH = pa.int32(), pa.string(), pa.float64(), pa.bool_()
NAN, INF = float("nan"), float("inf")
TABLES: Final[dict[str, tuple[list[tuple[str, pa.DataType]], list[tuple[Any, ...]]]]] = {
    "pairs": ([("a", INT), ("b", INT)], [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (None, 1), (3, None), (None, None)]),
    "named": ([("k", INT), ("a", INT), ("v", INT)], [(1, 1, 3), (1, 2, 1)]),
    "truths": (
        [("k", INT), ("v", TRUTH)],
        [(1, True), (1, False), (2, True), (3, False), (3, None), (4, None), (4, None), (5, None), (5, True), (5, False)],
    ),
    "weird": ([("x", DOUBLE)], [(0.0,), (-0.0,), (NAN,), (NAN,), (INF,), (INF,), (-INF,), (-INF,)]),
    "staff": (
        [("id", INT), ("name", TEXT), ("hired", pa.date32()), ("salary", DOUBLE), ("dept", INT)],
        [
            (100, "emp 1", date(2005, 1, 1), 100.0, 10), (100, "emp 1", date(2005, 1, 1), 100.0, 10), (200, "emp 2", date(2003, 1, 1), 200.0, 10),
            (300, "emp 3", date(2002, 1, 1), 300.0, 20), (400, "emp 4", date(2005, 1, 1), 400.0, 30), (500, "emp 5", date(2001, 1, 1), 400.0, None),
            (600, "emp 6 - no dept", date(2001, 1, 1), 400.0, 100), (700, "emp 7", date(2010, 1, 1), 400.0, 100),
            (800, "emp 8", date(2016, 1, 1), 150.0, 70),
        ],
    ),
    "places": (
        [("country", TEXT), ("city", TEXT), ("id", INT), ("power", pa.decimal128(3, 1))],
        [
            ("USA", "San Francisco", 1, Decimal("11.0")), ("USA", "San Francisco", 2, Decimal("12.0")), ("USA", "Berkeley", 3, Decimal("13.0")),
            ("China", "Hangzhou", 4, Decimal("14.0")), ("China", "Shanghai", 5, Decimal("15.0")), ("Korea", "Seoul", 6, Decimal("16.0")),
        ],
    ),
    "hav": ([("k", TEXT), ("v", INT)], [("one", 1), ("two", 2), ("three", 3), ("one", 5)]),
}  # fmt: skip
"""The rows of the files below; each gets a time in one of two hours of a day."""
EQUAL: Final = {
    # apache/spark, sql/core/src/test/resources/sql-tests/inputs/group-by.sql
    "group-by": [
        "a, count(b) AS n FROM pairs GROUP BY day, a",
        "b, count(a) AS n, count(b) AS m FROM pairs GROUP BY day, b",
        "'foo' AS f, count(a) AS n FROM pairs GROUP BY day, 2",
        "'foo' AS f, approx_count_distinct(a) AS n FROM pairs WHERE a = 0 GROUP BY day, 2",
        "a + b AS c, count(b) AS n FROM pairs GROUP BY day, a + b",
        "min(a) AS i, max(a) AS x, avg(a) AS g, variance(a) AS v, stddev(a) AS d, sum(a) AS t, count(a) AS n FROM pairs GROUP BY day",
        "a IS NULL AS k, count(*) AS c FROM pairs GROUP BY day, a IS NULL",
        "a, count(1) AS n FROM pairs WHERE false GROUP BY day, a",
        "k, every(v) AS e, some(v) AS s, any(v) AS y, bool_and(v) AS a, bool_or(v) AS o FROM truths GROUP BY day, k",
        "every(v) AS e, some(v) AS s, any(v) AS y FROM truths WHERE k = 4 GROUP BY day",
        "k, every(v) AS e FROM truths GROUP BY day, k HAVING every(v) = false",
        "k, every(v) AS e FROM truths GROUP BY day, k HAVING every(v) IS NULL",
        "k, max(v) AS x FROM truths GROUP BY day, k HAVING max(v) = true",
        "count(*) AS n FROM truths GROUP BY day HAVING count(*) > 1L",
        "a, sort_array(collect_list(b)) AS l, sort_array(array_agg(b)) AS r FROM pairs GROUP BY day, a",
        "x, count(*) AS n FROM weird GROUP BY day, x",
        "avg(DISTINCT CAST(a AS DECIMAL(9, 0))) AS g, sum(DISTINCT CAST(a AS DECIMAL(9, 0))) AS s FROM pairs GROUP BY day",
        'every("true") AS e FROM truths GROUP BY day',
    ],
    # …/group-by-filter.sql
    "group-by-filter": [
        "count(a) FILTER (WHERE a = 1) AS n, count(b) FILTER (WHERE a > 1) AS m FROM pairs GROUP BY day",
        "count(id) FILTER (WHERE hired = date '2001-01-01') AS n FROM staff GROUP BY day",
        'count(id) FILTER (WHERE hired = to_timestamp("2001-01-01 00:00:00")) AS n FROM staff GROUP BY day',
        "count(DISTINCT id) AS n, count(DISTINCT id) FILTER (WHERE date_format(hired, 'yyyy-MM-dd') = '2001-01-01') AS m FROM staff GROUP BY day",
        "a, count(b) FILTER (WHERE a >= 2) AS n FROM pairs GROUP BY day, a",
        'dept, sum(salary) FILTER (WHERE hired > date "2003-01-01") AS s FROM staff GROUP BY day, dept',
        "dept, sum(DISTINCT salary) AS s, sum(DISTINCT salary) FILTER (WHERE hired > date '2001-01-01') AS t FROM staff GROUP BY day, dept",
        "'foo' AS f, sum(salary) FILTER (WHERE hired >= to_date('2003-01-01')) AS s FROM staff GROUP BY day, 2",
        "dept, count(DISTINCT name) AS n, count(DISTINCT hired) AS h, sum(salary) FILTER (WHERE id + dept > 500) AS t FROM staff GROUP BY day, dept",
        "dept, count(DISTINCT name) FILTER (WHERE id > 200) AS n, count(DISTINCT name) FILTER (WHERE hired > date '2003-01-01') AS m FROM staff GROUP BY day, dept",
        "a + b AS c, count(b) FILTER (WHERE b >= 2) AS n FROM pairs GROUP BY day, a + b",
    ],
    # …/group-by-ordinal.sql
    "group-by-ordinal": [
        "a, sum(b) AS s FROM pairs GROUP BY 1, 2",
        "1 AS x, 2 AS y, sum(b) AS s FROM pairs GROUP BY 1, 2, 3",
        "a, 1 AS x, sum(b) AS s FROM pairs GROUP BY 1, a, 3",
        "a, b + 2 AS c, count(2) AS n FROM pairs GROUP BY 1, a, 3",
        "a AS aa, b + 2 AS bb, count(2) AS n FROM pairs GROUP BY 1, 2, 3",
        "count(a) AS n, a FROM pairs GROUP BY 1, 3 HAVING a > 0",
    ],
    # …/group-by-all.sql
    "group-by-all": [
        "country, count(*) AS n FROM places GROUP BY aLl",
        "count(*) AS n, country, city, sum(power) AS p FROM places GROUP BY ALL",
        "upper(country) AS u, count(*) AS n FROM places GROUP BY ALL",
        "country, sum(power) + 10 AS p FROM places GROUP BY ALL",
        "country, count(id) AS cnt FROM places GROUP BY ALL HAVING cnt > 1",
        "count(id + power / 2) * 3 AS n FROM places GROUP BY ALL",
    ],
    # …/having.sql
    "having": [
        "k, sum(v) AS s FROM hav GROUP BY day, k HAVING sum(v) > 2",
        "v, count(k) AS n FROM hav GROUP BY day, v HAVING v = 2",
        "b AS g, sum(a) AS s FROM pairs GROUP BY day, b HAVING b > 1",
        "h.k, min(v) AS m FROM hav AS h GROUP BY day, h.k HAVING h.k = 'one'",
    ],
    # …/column-resolution-aggregate.sql
    "column-resolution": [
        "k AS lca, count(*) AS n, n + 1 AS more FROM named GROUP BY day, lca",
        "max(v) AS m, k FROM named GROUP BY day, k",
    ],
}  # fmt: skip
REFUSED: Final = {
    "group-by": [
        "a, count(b) AS n FROM pairs GROUP BY day, b",
        "a + 2 AS c, count(b) AS n FROM pairs GROUP BY day, a + 1",
        "k AS a, count(v) AS n FROM named GROUP BY day, a",
        "count(*) AS n FROM truths WHERE count(*) > 1L GROUP BY day",
        "count(*) AS n FROM truths WHERE k = 1 OR count(*) + 1L > 1L OR max(k) > 1 GROUP BY day",
        "bool_and(1.0) AS e FROM truths GROUP BY day",
        "corr(DISTINCT a, b) AS x, count(*) AS n FROM pairs GROUP BY day",  # Spark takes it
    ],
    "group-by-filter": ["a AS k, count(b) FILTER (WHERE b > 0) AS n FROM pairs GROUP BY day"],
    "group-by-ordinal": [
        "a, b FROM pairs GROUP BY 1, -1",
        "a, b FROM pairs GROUP BY 1, 0",
        "a, b FROM pairs GROUP BY 1, 4",
        "a, b, sum(b) + 2 AS s FROM pairs GROUP BY 1, 4",
        "a, rand(0) AS r, sum(b) AS s FROM pairs GROUP BY 1, a, 3",
    ],
    "group-by-all": ["id + count(*) AS n FROM places GROUP BY ALL", "(id + id) / 2 + count(*) * 2 AS n FROM places GROUP BY ALL"],
    "having": ["v, count(k) AS n FROM hav GROUP BY day, v HAVING v = array(1)"],
    "column-resolution": [
        "max(a) AS b, b FROM pairs GROUP BY day, a",
        "a AS k, count(*) AS n FROM named GROUP BY day, k",
        "k AS lca, lca + 1 AS col, count(*) AS n FROM named GROUP BY day, k, col",
    ],
}  # fmt: skip
"""What Spark refuses, in the same files; and one that only we refuse."""


def cases(of: dict[str, list[str]]) -> list[Any]:
    """Return (name, statement) of each case."""
    return [
        pytest.param(
            f"{file.replace('-', '_')}_{at}", f"SELECT date_trunc('day', ts) AS day, {rest}", id=f"{file}-{at}"
        )
        for file, rests in of.items()
        for at, rest in enumerate(rests)
    ]


@pytest.fixture(scope="module", params=["spark", "auto"])
def site(request, tmp_path_factory, spark) -> Site:
    """A lake with the rows of the suites, which Spark or the process computes."""
    site = Site(tmp_path_factory.mktemp("suites"), spark, executor=request.param)
    for name, (columns, rows) in TABLES.items():
        schema = pa.schema([TS, *columns])
        timed = [(DAY + timedelta(hours=at % 2), *row) for at, row in enumerate(rows)]
        filled = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in timed], schema=schema)
        site.table(name, schema).write(filled)
    return site


def plain(site: Site, text: str) -> pa.Table:
    """Return what plain Spark says of a text."""
    session = site.spark.newSession()
    for name, table in site.tables.items():
        session.createDataFrame(table.opened().to_pyarrow_table()).createOrReplaceTempView(name)
    return session.sql(text).toArrow()


@pytest.mark.one_of(5)
@pytest.mark.parametrize(("name", "text"), cases(EQUAL))
def test_groups_are_those_of_plain_spark(site: Site, name: str, text: str) -> None:
    """
    Columns, types and rows are those of the same text in plain Spark.
    """
    site.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    site.lake.refresh(name)

    assert "" == differs(DeltaTable(str(site.lake.root / name / "output")).to_pyarrow_table(), plain(site, text))


@pytest.mark.one_of(5)
@pytest.mark.parametrize(("name", "text"), cases(REFUSED))
def test_what_spark_refuses_is_refused(site: Site, name: str, text: str) -> None:
    """
    With a code, and nothing is there.
    """
    with pytest.raises(DefinitionError):
        site.lake.apply(f"CREATE MATERIALIZED VIEW r_{name} AS {text}")

    assert not (site.lake.root / f"r_{name}").exists()


# -- duckdb/duckdb, test/sql/function/timestamp/test_time_bucket_timestamp.test

BUCKETS: Final = {
    "seconds": "time_bucket('56 seconds', ts)",
    "years": "time_bucket('36 months', ts)",
    "shifted": "time_bucket('3 months', ts, offset => '6 days 11 hours')",
    "origin": "time_bucket('11 days', ts, origin => '1990-01-06 08:08:10')",
    "months": "time_bucket('7 months', ts, origin => '1990-01-06 08:08:10')",
}
"""Each is asked of the same instants."""
FROM_1990: Final = [
    ("1990-01-21 02:02:10.003003", "02:02:08", "1988-01-01", "01-07 11", "1990-01-17", "1990-01-01"),
    ("1994-12-26 02:02:13.003003", "02:01:20", "1994-01-01", "10-07 11", "1994-12-15", "1994-09-01"),
    ("2000-01-01 00:00:00", "23:59:44", "2000-01-01", "10-07 11", "1999-12-26", "1999-12-01"),
    ("2016-02-21 02:02:22.003003", "02:02:08", "2015-01-01", "01-07 11", "2016-02-16", "2015-09-01"),
    ("2024-02-25 02:02:26.003003", "02:02:08", "2024-01-01", "01-07 11", "2024-02-20", "2023-11-01"),
]
FORMS: Final = ("%H:%M:%S", "%Y-%m-%d", "%m-%d %H", "%Y-%m-%d", "%Y-%m-%d")


def test_buckets_of_duckdb(site: Site) -> None:
    """
    `time_bucket` as a definition gives its buckets, in both executors; `tests/cases/data/time_bucket_of_duckdb.json` has more, for the grid.
    """
    schema = pa.schema([("ts", pa.timestamp("us")), ("id", INT)])
    rows = [{"ts": datetime.fromisoformat(row[0]), "id": at} for at, row in enumerate(FROM_1990)]
    site.table("instants", schema).write(pa.Table.from_pylist(rows, schema=schema))
    for at, ((name, bucket), form) in enumerate(zip(BUCKETS.items(), FORMS, strict=True), 1):
        site.lake.apply(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT {bucket} AS b, id, count(*) AS n FROM instants GROUP BY 1, id"
        )
        site.lake.refresh(name)
        got = {row["id"]: row["b"].strftime(form) for row in site.records(name)}
        assert {n: row[at] for n, row in enumerate(FROM_1990)} == got, name


# -- apache/flink, flink-table/flink-table-planner/src/test/scala/org/apache/flink/table/planner/runtime/stream/sql/WindowAggregateITCase.scala,
# -- over windowDataWithTimestamp of its TestData.scala

FLINK: Final = pa.schema(
    [TS, ("name", TEXT), ("d", DOUBLE), ("f", pa.float32()), ("dec", pa.decimal128(10, 2)), ("s", TEXT)]
)
START: Final = datetime(2020, 10, 10, tzinfo=UTC)
IN_TIME: Final = [
    (1, "a", 1.0, 1.0, "1.11", "Hi"), (2, "a", 2.0, 2.0, "2.22", "Comment#1"), (3, "a", 2.0, 2.0, "2.22", "Comment#1"), (4, "a", 5.0, 5.0, "5.55", None),
    (7, "b", 3.0, 3.0, None, "Hello"), (6, "b", 6.0, 6.0, "6.66", "Hi"), (8, "a", None, 3.0, "3.33", "Comment#2"), (16, "b", 4.0, 4.0, "4.44", "Hi"),
    (32, None, 7.0, 7.0, "7.77", None), (34, "b", 3.0, 3.0, "3.33", "Comment#3"),
]  # fmt: skip
LATE: Final = [(4, "a", 5.0, None, "5.55", "Hi")]
MEASURES: Final = "count(*) AS n, sum(dec) AS total, max(d) AS high, min(f) AS low, count(DISTINCT s) AS texts"
TUMBLING: Final = {
    ("a", 0): (4, "11.10", 5.0, 1.0, 2), ("a", 5): (1, "3.33", None, 3.0, 1), ("b", 5): (2, "6.66", 6.0, 3.0, 2), ("b", 15): (1, "4.44", 4.0, 4.0, 1),
    ("b", 30): (1, "3.33", 3.0, 3.0, 1), (None, 30): (1, "7.77", 7.0, 7.0, 0),
}  # fmt: skip
ALONE: Final = {
    0: (4, "11.10", 5.0, 1.0, 2),
    5: (3, "9.99", 6.0, 3.0, 3),
    15: (1, "4.44", 4.0, 4.0, 1),
    30: (2, "11.10", 7.0, 3.0, 1),
}
WHOLE: Final = {"a": (6, "19.98", 5.0, 1.0, 3), "b": (4, "14.43", 6.0, 3.0, 3), None: (1, "7.77", 7.0, 7.0, 0)}
HOPPING: Final = {
    ("a", 0): WHOLE["a"], ("a", 5): TUMBLING["a", 5], ("b", 0): TUMBLING["b", 5], ("b", 5): TUMBLING["b", 5], ("b", 10): TUMBLING["b", 15],
    ("b", 15): TUMBLING["b", 15], ("b", 25): TUMBLING["b", 30], ("b", 30): TUMBLING["b", 30], (None, 25): TUMBLING[None, 30], (None, 30): TUMBLING[None, 30],
}  # fmt: skip
"""By name and start; that of a from -5 to 5 is left out: there the late row came too late, and here it counts."""


def written(site: Site, name: str, rows: list[tuple[Any, ...]]) -> None:
    """Append rows to a table, which is made if it is not there."""
    table = site.tables.get(name) or site.table(name, FLINK)
    timed = [
        (START + timedelta(seconds=at), who, d, f, None if dec is None else Decimal(dec), s)
        for at, who, d, f, dec, s in rows
    ]
    table.write(pa.Table.from_pylist([dict(zip(FLINK.names, row, strict=True)) for row in timed], schema=FLINK))


def found(site: Site, name: str, *by: str) -> dict[Any, tuple[Any, ...]]:
    """Return the measures of an aggregate by its groups; a time in seconds from the start."""
    groups = {}
    for row in site.records(name):
        values = [row[n] if n == "name" else int((row[n].replace(tzinfo=UTC) - START).total_seconds()) for n in by]
        total = None if row["total"] is None else str(row["total"])
        groups[values[0] if len(by) == 1 else tuple(values)] = (row["n"], total, row["high"], row["low"], row["texts"])
    return groups


def test_tumbling_windows_of_flink(site: Site) -> None:
    """
    Tumbling windows with and without keys, and days that begin at 8 and at 16 o'clock, where the late row is not too late.
    """
    written(site, "tumbling", IN_TIME)
    buckets = {
        "five": "window(ts, '5 seconds')",
        "eight": "window(ts, '1 day', '1 day', '8 hours')",
        "sixteen": "window(ts, '1 day', '1 day', '-8 hours')",
    }
    for name, bucket in buckets.items():
        site.lake.apply(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT window.start AS b, name, {MEASURES} FROM tumbling GROUP BY {bucket}, name"
        )
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW alone AS SELECT window.start AS b, {MEASURES} FROM tumbling GROUP BY {buckets['five']}"
    )
    for name in ("five", "alone"):
        site.lake.refresh(name)
    written(site, "tumbling", LATE)
    for name in ("eight", "sixteen"):
        site.lake.refresh(name)

    assert TUMBLING == found(site, "five", "name", "b")
    assert ALONE == found(site, "alone", "b")
    assert WHOLE == found(site, "eight", "name")
    assert WHOLE == found(site, "sixteen", "name")
    assert {8} == {row["b"].hour for row in site.records("eight")}
    assert {16} == {row["b"].hour for row in site.records("sixteen")}


def test_hopping_windows_of_flink(site: Site) -> None:
    """
    Windows of ten seconds every five, with the late row; what lies there without it is another result.
    """
    written(site, "hopping", IN_TIME)
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW hops TBLPROPERTIES ('engine' = 'time_series') AS SELECT window.end AS time, name, {MEASURES} FROM hopping "
        "GROUP BY window(ts, '10 seconds', '5 seconds'), name"
    )
    clock = (START + timedelta(minutes=1)).isoformat()
    site.lake.refresh("hops", as_of=clock)
    rows = found(site, "hops", "name", "window_start")
    assert (4, "11.10", 5.0, 1.0, 2) == rows["a", -5]
    written(site, "hopping", LATE)
    site.lake.refresh("hops", as_of=clock)

    rows = found(site, "hops", "name", "window_start")
    assert (5, "16.65", 5.0, 1.0, 2) == rows.pop(("a", -5))
    assert HOPPING == rows
