"""Bad definitions: each with its stable code, and its place where `§` stands."""

from __future__ import annotations

import pytest

from materializer.core.compiled.resolve import resolve
from materializer.core.language.define import define
from materializer.core.language.parse import parse_definitions, parse_report
from materializer.errors import DefinitionError
from tests.core.language.definitions import by, view

SCHEMA = [
    ("ts", "timestamp"),
    ("sym", "string"),
    ("price", "double"),
    ("volume", "bigint"),
    ("tags", "map<string,string>"),
]


BAD = [
    # the statement
    ("§SELECT 1", "definition.not-a-definition"),
    ("§CREATE TABLE x AS SELECT 1", "definition.not-a-definition"),
    ("§CREATE VIEW x AS SELECT 1", "definition.not-a-definition"),
    ("§WITH t AS (SELECT 1) SELECT * FROM t", "definition.cte"),
    ("CREATE MATERIALIZED VIEW bars AS §WITH t AS (SELECT 1) SELECT * FROM t", "definition.cte"),
    ("CREATE MATERIALIZED VIEW §AS SELECT 1", "definition.bad-name"),
    ("CREATE MATERIALIZED VIEW bars COMMENT §'text'", "definition.syntax"),
    (view(options="§PARTITIONED BY (sym)"), "definition.unsupported-clause"),
    (view(options="§(a INT)"), "definition.unsupported-clause"),
    (view(options="§COMMENT 7"), "definition.syntax"),
    (view(options="§TBLPROPERTIES"), "definition.syntax"),
    (view(options="TBLPROPERTIES (§'sequence')"), "definition.syntax"),
    (view(rest="§ORDER BY bucket"), "definition.order-by"),
    (view(rest="§LIMIT 5"), "definition.limit"),
    (view(rest="§UNION ALL SELECT 1"), "definition.set-operation"),
    (view(rest="§EXCEPT SELECT 1"), "definition.set-operation"),
    (view(rest="§WHERE price > 0"), "definition.syntax"),
    (view(rest="§QUALIFY 1 = 1"), "definition.window-function"),
    (view(rest="§WINDOW w AS (PARTITION BY sym)"), "definition.window-function"),
    (view(rest="§HAVING"), "definition.syntax"),
    ("CREATE MATERIALIZED VIEW bars AS SELECT §DISTINCT sym FROM t GROUP BY window(ts, '1 day')", "definition.select-distinct"),
    ("CREATE MATERIALIZED VIEW bars AS SELECT §/*+ COALESCE(1) */ sym FROM t GROUP BY ALL", "definition.unsupported-clause"),
    (view() + ";\n§" + view(name="BARS"), "definition.duplicate-name"),
    # names
    (view(name="§a.b"), "definition.bad-name"),
    (view(name="§'bars'"), "definition.bad-name"),
    (view(name="§`../bars`"), "definition.bad-name"),
    (view(name="§`a/b`"), "definition.bad-name"),
    (view(name="§`it's`"), "definition.bad-name"),
    (view(name="§_bars"), "definition.bad-name"),
    (view(name="§bars-1m"), "definition.bad-name"),
    (view(name="§``"), "definition.bad-name"),
    (view(name="§" + "b" * 129), "definition.bad-name"),
    (view("sum(price) AS §_total"), "definition.bad-column-name"),
    (view("sum(price) AS §`a b`"), "definition.bad-column-name"),
    (view("§sum(price)"), "definition.missing-alias"),
    (view("sum(price) AS total, max(price) AS §TOTAL"), "definition.duplicate-column"),
    (view("max(price) AS §bucket"), "definition.duplicate-column"),
    # properties
    (view(options="TBLPROPERTIES (§'refresh.start_ofset' = '7 days')"), "definition.unknown-property"),
    (view(options="TBLPROPERTIES (§'refresh.schedule' = '5 minutes')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'refresh.schedule' = '*/5 * * * 9')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'refresh.end_offset' = 'soon')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'refresh.max_runs' = '-1')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'refresh.order' = 'random')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'maintain.every' = 'often')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'maintain.retention' = '59 minutes')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'maintain.retention' = '1 month')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'maintain.evry' = '5')"), "definition.unknown-property"),
    (view(options="TBLPROPERTIES (§'time.resolution' = 'minutes')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'sequence' = ' ')"), "definition.property"),
    (view(options="TBLPROPERTIES ('sequence' = 'a', §'sequence' = 'b')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'fill' = 'locf')"), "definition.engine-only"),
    (view(options="TBLPROPERTIES (§'lateness' = 'strict')"), "definition.engine-only"),
    (view(options="TBLPROPERTIES (§'lateness' = 'later')"), "definition.lateness"),
    (view(options="TBLPROPERTIES (§'engine' = 'session')"), "definition.engine"),
    (view(options="TBLPROPERTIES (§'output.change_feed' = 'perhaps')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'source.retention' = 'long')"), "definition.property"),
    (view(options="TBLPROPERTIES (§'source.retention' = '30')"), "definition.retention"),
    (view(options="TBLPROPERTIES (§'output.retention' = '1 minute')"), "definition.retention"),
    # the source
    (view(source="trades §JOIN quotes ON a = b"), "definition.join"),
    (view(source="trades §LEFT JOIN quotes ON a = b"), "definition.join"),
    (view(source="trades§, quotes"), "definition.join"),
    (view(source="§(SELECT * FROM trades)"), "definition.sub-query"),
    (view(source="range§(10)"), "definition.source"),
    (view(source="§parquet.`/lake/trades`"), "definition.source"),
    (view(source="§'trades'"), "definition.source"),
    (view(source="trades §VERSION AS OF 3"), "definition.time-travel"),
    (view(source="trades §TIMESTAMP AS OF '2024-01-01'"), "definition.time-travel"),
    (view(source="trades §TABLESAMPLE (5 ROWS)"), "definition.non-deterministic"),
    (view(source="trades §LATERAL VIEW explode(tags) AS k, v"), "definition.lateral"),
    # dividing time
    ("§CREATE MATERIALIZED VIEW bars AS SELECT sum(price) AS total FROM trades", "definition.no-bucket"),
    (view(bucket="sym", group="§sym"), "definition.no-bucket"),
    (view(bucket="sym", group="§window(ts, '1 minute'), sym"), "definition.bucket-not-selected"),
    (view(bucket="§window, sym"), "definition.window-struct"),
    (view(bucket="window.start AS a, window.start AS §b, sym"), "definition.duplicate-bucket"),
    (view(group="window(ts, '1 minute'), §window(ts, '1 hour'), sym"), "definition.two-buckets"),
    (view(group="window(ts, '1 minute'), §date_trunc('day', ts), sym"), "definition.two-buckets"),
    (view(bucket="time_bucket('1 day', ts) AS §bucket, sym", group="time_bucket('2 days', ts), sym"), "definition.bucket-differs"),
    (view(group="§window(ts), sym"), "definition.bucket-arguments"),
    (view(group="window(ts, '1 minute', §'30 seconds'), sym"), "definition.engine-only"),
    (
        view(bucket="session_window.start AS b, sym", group="§session_window(ts, '1 minute'), sym", options="TBLPROPERTIES ('engine' = 'continuous_aggregate')"),
        "definition.engine",
    ),
    (view(group="window(ts, §'0 minutes'), sym"), "definition.width"),
    (view(group="window(ts, §'a while'), sym"), "definition.width"),
    (view(group="window(§upper(ts), '1 minute'), sym"), "definition.time-column"),
    (view(group="window(§a.b, '1 minute'), sym"), "definition.time-column"),
    (by("time_bucket(§0, ts)"), "definition.width"),
    (by("time_bucket(§-5, ts)"), "definition.width"),
    (by("time_bucket(§price, ts)"), "definition.width"),
    (by("time_bucket(§INTERVAL '1-2' YEAR TO MONTH, ts)"), "definition.width"),
    (by("§time_bucket('1 day')"), "definition.bucket-arguments"),
    (by("time_bucket('1 day', ts, zone => §'UTC')"), "definition.bucket-arguments"),
    (by("time_bucket('1 day', ts, 'UTC', timezone => §'UTC')"), "definition.bucket-arguments"),
    (by("time_bucket('1 day', ts, timezone => §7)"), "definition.timezone"),
    (by("time_bucket('1 day', ts, origin => §'infinity')"), "definition.origin"),
    (by("time_bucket('1 day', ts, origin => §'2024-01-01 00:00:00.0000001')"), "definition.origin"),
    (by("time_bucket('1 day', ts, offset => §'later')"), "definition.width"),
    (by("time_bucket(§NULL, ts)"), "definition.width"),
    (by("time_bucket('1 day', §NULL)"), "definition.time-column"),
    (by("time_bucket('1 day', ts, §NULL)"), "definition.timezone"),
    (by("time_bucket('1 day', ts, timezone => §null)"), "definition.timezone"),
    (by("time_bucket('1 day', ts, 'UTC', §NULL)"), "definition.origin"),
    (by("time_bucket('1 day', ts, origin => §NULL)"), "definition.origin"),
    (by("time_bucket('1 day', ts, 'UTC', '2024-01-01', §NULL)"), "definition.width"),
    (by("time_bucket('1 day', ts, offset => §NULL)"), "definition.width"),
    (by("date_trunc(§'fortnight', ts)"), "definition.width"),
    (by("date_trunc(§sym, ts)"), "definition.width"),
    (view(bucket="date_trunc('day', ts) AS ts, sym", group="§ts, sym"), "definition.ambiguous-group"),
    (view(group="1, §9"), "definition.ordinal"),
    (view(group="window(ts, '1 minute'), §ROLLUP(sym)"), "definition.grouping-sets"),
    (view(group="window(ts, '1 minute'), §CUBE(sym)"), "definition.grouping-sets"),
    (view(group="window(ts, '1 minute'), sym §GROUPING SETS ((sym), ())"), "definition.grouping-sets"),
    (view(group="window(ts, '1 minute'), sym §WITH ROLLUP"), "definition.grouping-sets"),
    (view(group="window(ts, '1 minute'), sym, §side"), "definition.key-not-selected"),
    (view(group="window(ts, '1 minute'), sym,§"), "definition.syntax"),
    # measures
    (view("§*"), "definition.star"),
    (view("§trades.*"), "definition.star"),
    (view("count(DISTINCT §*) AS n"), "definition.star"),
    (view("sum(§*) AS n"), "definition.star"),
    (view("§price AS price"), "definition.not-grouped"),
    (view("sum(volume) + §price AS x"), "definition.not-grouped"),
    (view("§smu(price) AS total"), "definition.unknown-function"),
    (view("sum(§coalesc(price, 0)) AS total"), "definition.unknown-function"),
    (view("sum(lake.§f(price)) AS total"), "definition.unknown-function"),
    (view("sum(price * §rand()) AS total"), "definition.non-deterministic"),
    (view("max(§current_timestamp()) AS now"), "definition.non-deterministic"),
    (view("max(§current_date) AS today"), "definition.non-deterministic"),
    (view("max(§unix_timestamp()) AS now"), "definition.non-deterministic"),
    (view("max(§input_file_name()) AS f"), "definition.non-deterministic"),
    (view("max(§_metadata.file_name) AS f"), "definition.non-deterministic"),
    (view("max(TIMESTAMP §'now') AS f"), "definition.non-deterministic"),
    (view("sum(§uuid()) AS f"), "definition.non-deterministic"),
    (view("max(§java_method('java.lang.System', 'exit', 0)) AS f"), "definition.reflection"),
    (view("max(§reflect('java.util.UUID', 'randomUUID')) AS f"), "definition.reflection"),
    (view("sum(§max(price)) AS f"), "definition.nested-aggregate"),
    (view("sum(price) FILTER (WHERE price > §avg(price)) AS f"), "definition.nested-aggregate"),
    (view("§row_number() AS f"), "definition.window-function"),
    (view("sum(price) §OVER (PARTITION BY sym) AS f"), "definition.window-function"),
    (view("sum((§SELECT 1)) AS f"), "definition.sub-query"),
    (view("count(§explode(tags)) AS f"), "definition.generator"),
    (view("§histogram_numeric(price, 5) AS f"), "definition.unsupported-aggregate"),
    (view("max(§window.start) AS f"), "definition.bucket-in-measure"),
    (view("count(DISTINCT §time_bucket('1 hour', ts)) AS f"), "definition.bucket-in-measure"),
    (view("§corr(price) AS f"), "definition.wrong-arguments"),
    (view("§sum(price, 1) AS f"), "definition.wrong-arguments"),
    (view("sum(§value => price) AS f"), "definition.named-argument"),
    (view("sum(price) §IGNORE NULLS AS f"), "definition.nulls-option"),
    (view("sum(price §?: 0) AS f"), "definition.syntax"),
    (view("sum(price §@ 2) AS f"), "definition.syntax"),
    (view("sum§(price AS f"), "definition.syntax"),
    (view("sum(price) AS f,§"), "definition.syntax"),
    (view("sum(price) §FILTER (price > 0) AS f"), "definition.syntax"),
    (view(rest="HAVING sym > §'abc"), "definition.syntax"),
    (view("sum(price) AS f §/* no end"), "definition.syntax"),
    # filters and keys
    (view(where="§sum(price) > 0"), "definition.aggregate-in-where"),
    (view(where="§window.start > ts"), "definition.misplaced-bucket"),
    (view(where="price > (§SELECT 1)"), "definition.sub-query"),
    (view(where="EXISTS (§SELECT 1)"), "definition.sub-query"),
    (view(where="price > §rand()"), "definition.non-deterministic"),
    (view(where="price > §:least"), "definition.syntax"),
    (view(rest="HAVING §price > 0"), "definition.not-grouped"),
    (view(rest="HAVING §totl > 0"), "definition.not-grouped"),
    (view(rest="HAVING §rank() > 0"), "definition.window-function"),
    (view(bucket="window.start AS bucket, sym, §sum(price) AS k", group="window(ts, '1 minute'), sym, k"), "definition.aggregate-in-key"),
    ("CREATE MATERIALIZED VIEW bars AS SELECT §DISTINCT window(ts, '1 day').start AS b FROM t HAVING count(*) > 1", "definition.select-distinct"),
    ("CREATE MATERIALIZED VIEW bars AS SELECT DISTINCT window(ts, '1 day').start AS b, §max(x) AS x FROM t", "definition.select-distinct"),
    ("CREATE MATERIALIZED VIEW bars TBLPROPERTIES ('engine' = 'reactive_state') AS SELECT §DISTINCT cumsum(x) AS b FROM t", "definition.select-distinct"),
    ("CREATE MATERIALIZED VIEW bars AS SELECT window(ts, '1 day').start AS b FROM t GROUP BY §DISTINCT", "definition.syntax"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("marked", "code"), BAD, ids=[f"{n}-{code.removeprefix('definition.')}" for n, (_, code) in enumerate(BAD)]
)
def test_a_bad_definition_is_refused_with_its_code_and_place(marked: str, code: str) -> None:
    """
    Each bad definition gives exactly its code, at the character where `§` stands, and a hint.
    """
    before, _, after = marked.partition("§")
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(before + after, file="bad.sql")
    found = {(p.code, p.file, p.line, p.column) for p in caught.value.problems}
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert found == {(code, "bad.sql", line, column)}
    assert all(problem.hint for problem in caught.value.problems)


def test_all_problems_of_all_statements_come_at_once() -> None:
    """
    One text with several bad statements gives every problem, in the order of the text.
    """
    text = (
        view("smu(price) AS a, sum(rand()) AS b", name="a.b", where="max(price) > 0")
        + ";\n"
        + view("price AS p", options="TBLPROPERTIES ('sequenc' = 'x')", rest="LIMIT 3")
    )
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(text)
    assert [p.code for p in caught.value.problems] == [
        "definition.bad-name",
        "definition.unknown-function",
        "definition.non-deterministic",
        "definition.aggregate-in-where",
        "definition.unknown-property",
        "definition.not-grouped",
        "definition.limit",
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (view(options="TBLPROPERTIES ('refresh.start_ofset' = '7 days')"), "refresh.start_offset"),
        (view("sum(coalesc(price, 0)) AS total"), "coalesce"),
        (view("count_iff(price > 0) AS total"), "count_if"),
        (view(rest="HAVING totl > 0"), "total"),
        (by("time_bucket('1 day', ts, timezon => 'UTC')"), "timezone"),
        (by("date_trunc('mnth', ts)"), "month"),
    ],
)
def test_a_hint_names_the_nearest_known_name(text: str, hint: str) -> None:
    """
    A misspelt name is answered with the one that was probably meant.
    """
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(text)
    assert caught.value.problems[0].hint == f"did you mean `{hint}`?"


@pytest.mark.parametrize(
    ("text", "lost"),
    [(r"'^A-\d+$'", r"\d"), (r"'a\\\w'", r"\w"), (r"'a\\d'", ""), (r"r'\d'", ""), (r"'a\n\t'", ""), ("'[0-9]'", "")],
)
def test_a_backslash_that_a_text_does_not_keep_is_a_warning(text: str, lost: str) -> None:
    """
    Spark reads the letter behind it alone; two of them, a raw text and the escapes of texts are meant.
    """
    report = parse_report(view(f"count_if(sym RLIKE {text}) AS n"), "bars.sql")

    assert len(report.specs) == 1
    assert [f"the backslash of `{lost}`"] * bool(lost) == [w.message.partition(" in ")[0] for w in report.warnings]


def test_a_division_by_an_aggregate_is_a_warning_with_the_safe_form() -> None:
    """
    A division that can fail its bucket is allowed, and flagged with try_divide.
    """
    report = parse_report(view("sum(price * volume) / sum(volume) AS vwap"), "bars.sql")
    (warning,) = report.warnings
    assert (warning.code, warning.line) == ("definition.division-by-aggregate", 3)
    assert "try_divide(sum(price * volume), sum(volume))" in warning.hint
    assert len(report.specs) == 1


@pytest.mark.parametrize(
    "measure",
    ["sum(price / volume)", "sum(price) / 2", "sum(price) / count(*)", "sum(price) / nullif(sum(volume), 0)", "try_divide(sum(price), sum(volume))"],
)  # fmt: skip
def test_a_division_that_cannot_fail_gives_no_warning(measure: str) -> None:
    """
    Division inside an aggregate, by a constant, by the rows of the group or by nullif is not flagged.
    """
    assert parse_report(view(f"{measure} AS x")).warnings == ()


def bars(**changes: object) -> dict[str, object]:
    return {"name": "bars", "source": "trades", "time": "ts", "width": "1 day", "measures": {"n": "count(*)"}} | changes


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "../x"}, "definition.bad-name"),
        ({"name": ""}, "definition.bad-name"),
        ({"width": "0 days"}, "definition.width"),
        ({"width": -1}, "definition.width"),
        ({"width": "1 day', ts) --"}, "definition.width"),
        ({"time": "a + b"}, "definition.time-column"),
        ({"where": "price > 0 GROUP BY x"}, "definition.syntax"),
        ({"where": "price > 0) OR (1 = 1"}, "definition.syntax"),
        ({"where": "price > 0; DROP TABLE x"}, "definition.syntax"),
        ({"where": "price > 'a"}, "definition.syntax"),
        ({"having": "count(*) > rand()"}, "definition.non-deterministic"),
        ({"measures": {"n": "count(*), sum(x)"}}, "definition.syntax"),
        ({"measures": {"n": "count(*) AS m"}}, "definition.syntax"),
        ({"measures": {"n": ""}}, "definition.syntax"),
        ({"measures": {"bucket": "count(*)"}}, "definition.duplicate-column"),
        ({"keys": {"k": "sum(x)"}}, "definition.aggregate-in-key"),
        ({"source": "a JOIN b"}, "definition.join"),
        ({"source": ""}, "definition.source"),
        ({"origin": "someday"}, "definition.origin"),
        ({"resolution": "h"}, "definition.property"),
        ({"properties": {"fill": "locf"}}, "definition.engine-only"),
    ],
)
def test_the_python_form_goes_through_the_same_checks(changes: dict[str, object], code: str) -> None:
    """
    A bad argument of `define` has the code of the SQL form, names the argument and has no line.
    """
    with pytest.raises(DefinitionError) as caught:
        define(**bars(**changes))
    assert {p.code for p in caught.value.problems} == {code}
    assert all(p.line == 0 and p.column == 0 for p in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "schema", "code"),
    [
        (view("sum(pric) AS x"), SCHEMA, "definition.unknown-column"),
        (view(where="prise > 0"), SCHEMA, "definition.unknown-column"),
        (view(), SCHEMA[1:], "definition.missing-time-column"),
        (view(), [("ts", "string"), *SCHEMA[1:]], "definition.time-type"),
        (view(), [("ts", "timestamp_ntz(9)"), *SCHEMA[1:]], "definition.time-type"),
        (view(), [("ts", "time(6)"), *SCHEMA[1:]], "definition.time-type"),
        (view(), [("ts", "double"), *SCHEMA[1:]], "definition.time-type"),
        (view(options="TBLPROPERTIES ('time.resolution' = 's')"), SCHEMA, "definition.resolution"),
        (view(options="TBLPROPERTIES ('sequence' = 'seq')"), SCHEMA, "definition.missing-sequence"),
        (view(options="TBLPROPERTIES ('sequence' = 'tags')"), SCHEMA, "definition.sequence-type"),
        (view(bucket="window.start AS bucket, tags", group="window(ts, '1 day'), tags"), SCHEMA, "definition.key-type"),
    ],
)
def test_a_definition_that_does_not_fit_its_source_is_refused(
    text: str, schema: list[tuple[str, str]], code: str
) -> None:
    """
    Resolving against the source's columns finds what the text alone could not tell.
    """
    (spec,) = parse_definitions(text)
    with pytest.raises(DefinitionError) as caught:
        resolve(spec, schema)
    assert {p.code for p in caught.value.problems} == {code}
    assert all(p.hint for p in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "time_type"),
    [
        (by("time_bucket(5, ts)"), "timestamp"),
        (by("time_bucket('1 hour', ts)"), "date"),
        (by("time_bucket('1 hour', ts)"), "bigint"),
        (by("time_bucket('1 month 1 day', ts)"), "timestamp"),
        (by("time_bucket('1 day', ts, timezone => 'Mars/Olympus')"), "timestamp"),
    ],
)
def test_a_grid_that_does_not_fit_the_type_of_time_is_refused(text: str, time_type: str) -> None:
    """
    Widths, zones and offsets are checked against the type of the time column.
    """
    (spec,) = parse_definitions(text)
    with pytest.raises(DefinitionError):
        resolve(spec, [("ts", time_type), *SCHEMA[1:]])


def test_resolving_hints_at_the_nearest_column() -> None:
    """
    A misspelt column is answered with the one that was probably meant.
    """
    (spec,) = parse_definitions(view("sum(pric) AS x"))
    with pytest.raises(DefinitionError) as caught:
        resolve(spec, SCHEMA)
    assert caught.value.problems[0].hint == "did you mean `price`?"


@pytest.mark.parametrize(
    "name", ["comment", "COMMENT", "name", "source", "measures", "where", "resolution", "properties", "known_python"]
)
def test_a_clause_of_an_engine_is_no_property(name: str) -> None:
    """
    What the Python form has as an argument has its own place in a statement, and the hint names it.
    """
    text = (
        f"CREATE MATERIALIZED VIEW visits TBLPROPERTIES ('engine' = 'session_window', '{name}' = 'x') AS "
        "SELECT session_window.start AS begun, k, count(*) AS n FROM t GROUP BY session_window(ts, '2 minutes'), k"
    )
    with pytest.raises(DefinitionError) as refused:
        parse_definitions(text)

    (problem,) = refused.value.problems
    assert ("definition.unknown-property", f"there is no property '{name.lower()}'") == (problem.code, problem.message)
    assert problem.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ('"Klima Tag"', "a name has letters, digits and underscores: write Klima_Tag"),
        ("`Klima Tag`", "write Klima_Tag"),
        ('"bars"', "write it without quotes"),
        ("`7 days`", "choose another name"),
    ],
)
def test_a_name_that_would_do_is_named(name: str, hint: str) -> None:
    """
    Of one with a space in quotes; what the hint says is a name.
    """
    with pytest.raises(DefinitionError) as refused:
        parse_definitions(view(name=name))
    assert [hint] == [problem.hint for problem in refused.value.problems]

    if "write " in hint:
        parse_definitions(view(name="bars" if "quotes" in hint else hint.rsplit(maxsplit=1)[-1]))
