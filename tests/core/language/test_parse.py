from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.compiled.fingerprint import data_fingerprint, metadata_fingerprint
from materializer.core.compiled.resolve import resolve
from materializer.core.language.define import define
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import (
    AggregateSpec,
    Call,
    Formula,
    GridSpec,
    Key,
    Measure,
    Resolution,
    TimeType,
    Width,
)
from materializer.core.sql.functions import SCALARS
from materializer.core.sql.tokens import fragment_of
from materializer.errors import DefinitionError
from tests.literals import LITERALS

BARS = """\
-- One-minute bars.
CREATE MATERIALIZED VIEW bars_1m
COMMENT 'One-minute bars per symbol'
TBLPROPERTIES (
  'refresh.start_offset' = '7 days', 'refresh.end_offset' = '1 minute', 'refresh.schedule' = '*/5 * * * *'
)
AS SELECT window.start AS bucket, sym,
          first(price) AS open, max(price) AS high, min(price) AS low, last(price) AS close,
          sum(volume) AS volume, try_divide(sum(price * volume), sum(volume)) AS vwap
   FROM trades WHERE price > 0
   GROUP BY window(ts, '1 minute'), sym
"""


def one(text: str) -> AggregateSpec:
    (spec,) = parse_definitions(text)
    return spec


def view(measure: str, *, where: str = "", having: str = "", source: str = "trades") -> AggregateSpec:
    """Return a daily view per symbol with one measure."""
    return one(
        f"CREATE MATERIALIZED VIEW v AS SELECT time_bucket('1 day', ts) AS day, sym, {measure} AS m FROM {source} "
        f"{f'WHERE {where}' if where else ''} GROUP BY day, sym {f'HAVING {having}' if having else ''}"
    )


def grid(bucket: str) -> GridSpec:
    """Return the grid of a bucket expression."""
    return one(f"CREATE MATERIALIZED VIEW v AS SELECT {bucket} AS b, count(*) AS n FROM t GROUP BY 1").grid


def formula(measure: str) -> Formula:
    return view(measure).measures[0].formula


def test_the_definition_of_the_guide_is_read_whole() -> None:
    """
    The example that opens the documentation gives every field of the spec.
    """
    spec = one(BARS)
    assert (spec.name, spec.source, spec.time_column, spec.comment) == (
        "bars_1m",
        "trades",
        "ts",
        "One-minute bars per symbol",
    )
    assert spec.grid == GridSpec(Width(micros=60_000_000), origin=0)
    assert (spec.bucket_start, spec.bucket_end) == ("bucket", None)
    assert spec.keys == (Key("sym", "sym"),)
    assert spec.columns == ("bucket", "sym", "open", "high", "low", "close", "volume", "vwap")
    assert spec.measures[0] == Measure("open", Formula((0,), (Call("first", ("price",), text="first(price)"),)))
    assert spec.measures[-1].formula.pieces == ("try_divide(", 0, ", ", 1, ")")
    assert [c.args for c in spec.measures[-1].formula.calls] == [("price * volume",), ("volume",)]
    assert spec.where == "price > 0"
    assert spec.reads == ("price", "sym", "ts", "volume")
    assert spec.property_map == {
        "refresh.start_offset": "7 days",
        "refresh.end_offset": "1 minute",
        "refresh.schedule": "*/5 * * * *",
    }
    assert spec.sql.startswith("CREATE MATERIALIZED VIEW")


def test_several_definitions_stand_in_one_text() -> None:
    """
    Statements are separated by semicolons, which may also stand in texts and comments; an empty one is nothing.
    """
    text = f"{BARS};\n/* ; */;\n{BARS.replace('bars_1m', 'other').replace('price > 0', chr(39) + ';' + chr(39) + ' = sym')};"
    assert [spec.name for spec in parse_definitions(text)] == ["bars_1m", "other"]
    assert parse_definitions("-- nothing here\n") == []


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("window(ts, '5 minutes').start", GridSpec(Width(micros=300_000_000), origin=0)),
        ("window(ts, '5 minutes', '5 minutes').start", GridSpec(Width(micros=300_000_000), origin=0)),
        (
            "window(ts, '1 hour', '1 hour', '15 minutes').start",
            GridSpec(Width(micros=3_600_000_000), origin=0, offset=Width(micros=900_000_000)),
        ),
        ("time_bucket('1 day', ts)", GridSpec(Width(days=1))),
        ("time_bucket(INTERVAL '1' DAY, ts)", GridSpec(Width(days=1))),
        ("time_bucket(INTERVAL 1 HOUR 30 MINUTES, ts)", GridSpec(Width(micros=5_400_000_000))),
        ("time_bucket(INTERVAL '3 months', ts)", GridSpec(Width(months=3))),
        ("time_bucket(10, ts)", GridSpec(Width(ticks=10))),
        ("time_bucket(10, ts, offset => -3)", GridSpec(Width(ticks=10), offset=Width(ticks=-3))),
        ("time_bucket('1 day', ts, 'Europe/Paris')", GridSpec(Width(days=1), "Europe/Paris")),
        ("time_bucket('1 day', ts, timezone => 'Europe/Paris')", GridSpec(Width(days=1), "Europe/Paris")),
        ("time_bucket('1 day', ts, origin => '1970-01-02')", GridSpec(Width(days=1), None, 86_400_000_000)),
        ("time_bucket('1 day', ts, origin => TIMESTAMP '1970-01-01 02:00:00+02:00')", GridSpec(Width(days=1), None, 0)),
        ("time_bucket('1 day', ts, origin => DATE '1969-12-31')", GridSpec(Width(days=1), None, -86_400_000_000)),
        ("time_bucket('1 week', ts, offset => '1 day')", GridSpec(Width(days=7), offset=Width(days=1))),
        (
            "time_bucket('1 week', ts, 'Asia/Tokyo', '1970-01-02', '1 day')",
            GridSpec(Width(days=7), "Asia/Tokyo", 86_400_000_000, Width(days=1)),
        ),
        ("date_trunc('hour', ts)", GridSpec(Width(micros=3_600_000_000))),
        ("date_trunc('WEEK', ts)", GridSpec(Width(days=7))),
        ("date_trunc('quarter', ts)", GridSpec(Width(months=3))),
        ("date_trunc('year', ts, 'Asia/Tokyo')", GridSpec(Width(months=12), "Asia/Tokyo")),
    ],
)
def test_each_form_of_a_bucket_gives_its_grid(bucket: str, expected: GridSpec) -> None:
    """
    `window` starts at the epoch; `time_bucket` and `date_trunc` leave the origin to the default.
    """
    assert grid(bucket) == expected


@pytest.mark.parametrize(
    "group", ["time_bucket('1 day', ts), upper(sym)", "TIME_BUCKET( '1 day' , Ts ), 2", "day, u", "1, 2", "ALL"]
)
def test_group_by_repeats_names_or_counts_what_is_selected(group: str) -> None:
    """
    GROUP BY takes expressions, aliases, places and ALL, and all give the same definition.
    """
    text = "CREATE MATERIALIZED VIEW v AS SELECT time_bucket('1 day', ts) AS day, upper(sym) AS u, count(*) AS n FROM t GROUP BY "
    assert data_fingerprint(one(text + group)) == data_fingerprint(one(text + "day, u"))


def test_both_ends_of_a_window_are_output_columns() -> None:
    """
    `window.start` and `window.end` may be selected, without an alias under their own names.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v AS SELECT window.end, window.start, count(*) n FROM t GROUP BY window(ts, '1 day')"
    )
    assert (spec.bucket_start, spec.bucket_end, spec.columns) == ("start", "end", ("end", "start", "n"))


@pytest.mark.parametrize(
    ("measure", "call"),
    [
        ("count(*)", Call("count", ("*",))),
        ("COUNT( DISTINCT a, b )", Call("count", ("a", "b"), distinct=True)),
        ("sum(ALL price)", Call("sum", ("price",))),
        ("mean(price)", Call("avg", ("price",))),
        ("sum(price) FILTER (WHERE side = 'b')", Call("sum", ("price",), where="side = 'b'")),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY price DESC)", Call("percentile_cont", ("0.5",), order_by="price DESC")),
        ("listagg(DISTINCT sym, ',') WITHIN GROUP (ORDER BY sym)", Call("listagg", ("sym", "','"), distinct=True, order_by="sym")),
        ("last(price) IGNORE NULLS", Call("last", ("price", "true"))),
        ("approx_percentile(price, array(0.1, 0.9), 100)", Call("approx_percentile", ("price", "array(0.1, 0.9)", "100"))),
        ("sum(CASE WHEN a > 1 THEN b::double ELSE 0 END)", Call("sum", ("CASE WHEN a > 1 THEN b::double ELSE 0 END",))),
        ("max(aggregate(xs, 0, (acc, x) -> acc + x))", Call("max", ("aggregate(xs, 0, (acc, x) -> acc + x)",))),
        ("sum(a /* why */ + b)", Call("sum", ("a /* why */ + b",))),
    ],
)  # fmt: skip
def test_a_call_is_read_with_all_that_belongs_to_it(measure: str, call: Call) -> None:
    """
    DISTINCT, FILTER, WITHIN GROUP and IGNORE NULLS belong to the call, and texts are the user's own.
    """
    found = formula(measure)
    assert found.pieces == (0,)
    assert found.calls == (replace(call, text=measure),)


@pytest.mark.parametrize(
    "measure",
    [
        "sum(a) / nullif(sum(b), 0)",
        "CASE WHEN count(*) > 10 THEN avg(a) END",
        "coalesce(CAST(sum(a) AS decimal(20, 2)), 0)",
        "round(sum(a)::double, 2) || ' ' || max(b)",
        "sum(a) + sum(a)",
        "'constant'",
        "sum(a) -- comment\n + 1",
    ],
)
def test_a_formula_filled_with_its_calls_is_what_was_written(measure: str) -> None:
    """
    Pieces and calls together are the user's text, character by character.
    """
    found = formula(measure)
    assert found.fill([call.text for call in found.calls]) == measure


def test_equal_calls_are_held_once() -> None:
    """
    A call that stands twice in a measure is one call.
    """
    assert formula("sum(a) / (sum(a) + count(*))").pieces == (0, " / (", 0, " + ", 1, ")")


def test_having_may_name_measures_keys_and_the_bucket() -> None:
    """
    A measure's alias stands for its formula; keys and the bucket stand under their output names.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v AS SELECT window.start AS b, upper(t.sym) AS s, sum(x) AS total FROM lake.trades t "
        "GROUP BY window(t.ts, '1 day'), 2 HAVING total > 3 AND upper(sym) <> 'A' AND window.start IS NOT NULL AND max(t.y) > 1"
    )
    assert spec.having is not None
    assert spec.having.fill([c.text for c in spec.having.calls]) == (
        "(sum(x)) > 3 AND `s` <> 'A' AND `b` IS NOT NULL AND max(y) > 1"
    )
    assert (spec.source, spec.keys) == ("lake.trades", (Key("s", "upper(sym)"),))
    assert spec.reads == ("sym", "ts", "x", "y")


def test_a_measure_may_use_keys_and_earlier_measures() -> None:
    """
    A key in a measure is named by its output name, and an earlier measure's alias stands for its formula.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS d, sym AS s, sum(x) AS total, total * 2 AS twice, "
        "concat(sym, count(*)) AS label FROM t GROUP BY d, sym"
    )
    texts = {m.name: m.formula.fill([c.text for c in m.formula.calls]) for m in spec.measures}
    assert texts == {"total": "sum(x)", "twice": "(sum(x)) * 2", "label": "concat(`s`, count(*))"}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("trades", "trades"),
        ("cat.db.trades", "cat.db.trades"),
        ("`cat`.`db`.`trades`", "cat.db.trades"),
        ("`my-cat`.db.`tra``des`", "`my-cat`.db.`tra``des`"),
        ("delta.`/lake/my trades`", "/lake/my trades"),
        ("`/lake/trades`", "/lake/trades"),
        ("delta.`trades`", "./trades"),
        ("delta.`s3a://bucket/trades` AS t", "s3a://bucket/trades"),
        ("`trades` t", "trades"),
    ],
)
def test_a_source_is_a_name_or_a_path(written: str, stored: str) -> None:
    """
    A path is stored bare and always has a slash or a scheme, so that it cannot be taken for a name.
    """
    assert view("count(*)", source=written).source == stored


def test_what_is_read_is_every_column_of_the_source_once() -> None:
    """
    Columns of arguments, filters, orders, keys, fields and the sequence are read; units, types, lambdas and aliases are not.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('sequence' = 'seq') AS SELECT window.start AS b, addr.city.name AS city, "
        "sum(timestampdiff(HOUR, a, B) + size(transform(xs, x -> x + addr.n))) FILTER (WHERE cast(f AS int) > 0) AS m, "
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY o) AS p, max(extract(hour FROM e)) AS q, max(struct(g, h AS i)) AS r "
        "FROM t WHERE w AND b IS NOT NULL GROUP BY window(ts, '1 day'), addr.city.name HAVING m > 0 AND city <> '' AND min(`odd name`) > 0"
    )
    assert spec.reads == ("B", "a", "addr", "e", "f", "g", "h", "o", "odd name", "seq", "ts", "w", "xs")


@pytest.mark.parametrize(
    "name", sorted(SCALARS - {"case", "cast", "try_cast", "extract", "position", "overlay", "trim"})
)
def test_every_allowed_function_keeps_its_arguments(name: str) -> None:
    """
    No function of the allow-list loses a column while it is read.
    """
    arguments = "DAY, a, b" if name in ("timestampadd", "timestampdiff") else "a, b"
    spec = view(f"max({name}({arguments}))")
    assert {"a", "b"} <= set(spec.reads)
    assert spec.measures[0].formula.calls[0].args == (f"{name}({arguments})",)


def test_a_python_aggregate_is_called_by_its_name() -> None:
    """
    A name that the user registered aggregates like a built-in one.
    """
    text = "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS d, geomean(x) AS g FROM t GROUP BY 1"
    (spec,) = parse_definitions(text, known_python=frozenset({"geomean"}))
    assert spec.measures[0].formula.calls == (Call("geomean", ("x",), text="geomean(x)"),)


def test_the_python_form_gives_an_equal_definition() -> None:
    """
    SQL and Python describe the same aggregate: same fingerprints, and equal but for the stored text.
    """
    built = define(
        "bars_1m",
        "trades",
        time="ts",
        width="1 minute",
        align="window",
        keys=["sym"],
        measures={
            "open": "first( price )",
            "high": "max(price)",
            "low": "min(price)",
            "close": "last(price)",
            "volume": "sum(volume)",
            "vwap": "try_divide(sum(price * volume), sum(volume))",
        },
        where="price > 0",
        comment="One-minute bars per symbol",
        properties={
            "refresh.start_offset": "7 days",
            "refresh.end_offset": "1 minute",
            "refresh.schedule": "*/5 * * * *",
        },
    )
    spec = one(BARS)
    assert data_fingerprint(built) == data_fingerprint(spec)
    assert metadata_fingerprint(built) == metadata_fingerprint(spec)
    assert (built.columns, built.reads, built.grid, built.properties) == (
        spec.columns,
        spec.reads,
        spec.grid,
        spec.properties,
    )


def test_the_python_form_has_every_part_of_the_sql_form() -> None:
    """
    Zone, origin, offset, end, keys with expressions, HAVING, sequence and resolution have their arguments.
    """
    built = define(
        "v",
        "/lake/trades",
        time="at",
        width="1 day",
        timezone="Europe/Paris",
        origin="2024-01-01",
        bucket="d",
        keys={"u": "upper(sym)"},
        measures={"n": "count(*)"},
        having="n > 3 AND u <> 'X'",
        sequence="seq",
        resolution=Resolution.MS,
    )
    spec = one(
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('sequence' = 'seq', 'time.resolution' = 'ms') AS SELECT "
        "time_bucket('1 day', at, 'Europe/Paris', '2024-01-01') AS d, upper(sym) AS u, count(*) AS n FROM delta.`/lake/trades` "
        "GROUP BY ALL HAVING n > 3 AND u <> 'X'"
    )
    assert replace(built, sql="") == replace(spec, sql="")
    assert built.resolution == Resolution.MS


@pytest.mark.parametrize(("origin", "expected"), [("'1970-01-02'", 86_400_000), ("86400000", 86_400_000)])
def test_the_origin_of_an_integer_time_counts_its_ticks(origin: str, expected: int) -> None:
    """
    A text is an instant and becomes ticks of the declared resolution; a number is ticks already.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('time.resolution' = 'ms') AS SELECT "
        f"time_bucket('1 day', ts, origin => {origin}) AS b, count(*) AS n FROM t GROUP BY 1"
    )
    assert spec.grid.origin == expected


def test_the_zone_of_the_properties_is_used_where_the_bucket_has_none() -> None:
    """
    'time.timezone' gives `window` a zone, and yields to a zone of the bucket.
    """
    text = "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('time.timezone' = 'Asia/Tokyo') AS SELECT {} AS b, count(*) AS n FROM t GROUP BY 1"
    assert one(text.format("date_trunc('day', ts)")).grid.timezone == "Asia/Tokyo"
    assert one(text.format("date_trunc('day', ts, 'Europe/Paris')")).grid.timezone == "Europe/Paris"


def test_resolving_takes_types_and_spelling_from_the_source() -> None:
    """
    Names get the source's case, types are kept beside them, and resolving twice changes nothing.
    """
    spec = one(
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('sequence' = 'SEQ') AS SELECT date_trunc('day', TS) AS d, sum(Price) AS s FROM t GROUP BY 1"
    )
    schema = [("ts", "timestamp_ntz"), ("price", "decimal(10,2)"), ("seq", "bigint"), ("other", "string")]
    resolved = resolve(spec, schema)
    assert (resolved.time_column, resolved.time_type, resolved.sequence) == ("ts", TimeType.TIMESTAMP_NTZ, "seq")
    assert resolved.read_types == (("price", "decimal(10,2)"), ("seq", "bigint"), ("ts", "timestamp_ntz"))
    assert resolve(resolved, schema) == resolved
    assert data_fingerprint(resolved) == data_fingerprint(spec)


names = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


@given(texts, st.lists(st.tuples(names, texts), max_size=3), st.none() | texts)
def test_the_json_form_reads_back_to_an_equal_definition(
    comment: str, properties: list[tuple[str, str]], where: str | None
) -> None:
    """
    What the journal stores is the definition that was applied.
    """
    spec = replace(one(BARS), comment=comment, properties=tuple(properties), where=where, time_type=TimeType.DATE)
    again = AggregateSpec.from_json(spec.as_json())
    assert again == spec
    assert again.sql == spec.sql


WORDS = [
    "a",
    "b",
    "sum",
    "(",
    ")",
    ",",
    ";",
    ".",
    "'",
    "`",
    '"',
    "*",
    "/",
    "-",
    "--",
    "/*",
    "*/",
    "::",
    ":",
    "?",
    "=>",
    "->",
    "=",
    "<",
    ">",
    "1",
    "1L",
    "'x'",
    "count(*)",
    "max(",
    "FILTER",
    "(WHERE",
    "DISTINCT",
    "AS",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "window",
    "window.start",
    "time_bucket(",
    "IN",
    "LIKE",
    "ANY",
    "INTERVAL",
    "CAST(",
    "OVER",
    "WITHIN",
    "GROUP",
    "(ORDER",
    "BY",
    "IGNORE",
    "NULLS",
    "NOT",
    "NULL",
]


@given(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.sampled_from(["measure", "where", "group", "whole"])
)
def test_any_text_gives_definitions_or_problems(text: str, place: str) -> None:
    """
    No text makes reading fail in any other way than with problems that have a place.
    """
    parts = {"measure": "sum(x) AS m", "where": "x > 0", "group": "window(ts, '1 day')"} | {place: text}
    whole = (
        f"CREATE MATERIALIZED VIEW v AS SELECT window.start AS b, {parts['measure']} FROM t WHERE {parts['where']} "
        f"GROUP BY {parts['group']}"
    )
    try:
        parse_definitions(text if place == "whole" else whole)
    except DefinitionError as error:
        places = [(problem.line, problem.column) for problem in error.problems]
        assert all(line >= 1 and column >= 1 for line, column in places)


@pytest.mark.parametrize("engine", ["", "'engine' = 'session_window', "])
def test_session_windows_take_every_parameter_without_being_named(engine: str) -> None:
    """
    ``session_window`` in GROUP BY names the engine, and with it what its properties may be.
    """
    (spec,) = parse_definitions(
        f"CREATE MATERIALIZED VIEW bursts TBLPROPERTIES ({engine}'slice' = '2 hours', 'lateness' = 'strict', 'sequence' = 'id') "
        "AS SELECT session_window.start AS begun, count(*) AS n FROM trades GROUP BY session_window(ts, '2 minutes')"
    )
    given = {"label": "begun", "session_gap": "2 minutes", "slice": "2 hours"}
    assert ("session_window", "strict", "id", given) == (spec.engine, spec.lateness, spec.sequence, dict(spec.params))


def test_a_misspelt_parameter_is_told_with_the_nearest_one() -> None:
    """
    Parameters that all engines have are among those that are looked at.
    """
    text = (
        "CREATE MATERIALIZED VIEW bursts TBLPROPERTIES ('slise' = '2 hours') "
        "AS SELECT session_window.start AS begun, count(*) AS n FROM trades GROUP BY session_window(ts, '2 minutes')"
    )
    with pytest.raises(DefinitionError, match=r"there is no parameter 'slise' \(hint: did you mean `slice`\?\)"):
        parse_definitions(text)


def test_names_may_hold_quotes_and_backslashes() -> None:
    """
    A backslash escapes nothing in a quoted name; a doubled back-quote is one, and no name reads as two.
    """
    one_column, two_columns = fragment_of("`a x`` + ``b x`", "m"), fragment_of("`a x` + `b x`", "m")
    assert " ".join(one_column.normal) != " ".join(two_columns.normal)
    with pytest.raises(DefinitionError, match="the string that begins here is never closed"):
        view("sum(`x\\`)", where="sym = 'open")


def test_a_comment_stands_between_any_two_words() -> None:
    """
    Also between those of one keyword, as in Spark.
    """
    [spec] = parse_definitions(
        "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS d, a IS /* x */ NOT DISTINCT /* FROM */ FROM b AS k, count(*) AS n "
        "FROM t WHERE a IS NOT -- it's\n NULL AND x > 2L GROUP /* 'c */ BY 1, k"
    )

    assert ("k",) == tuple(key.name for key in spec.keys)
    assert "a IS NOT -- it's\n NULL AND x > 2L" == spec.where


def test_a_comment_takes_no_line_of_the_statement() -> None:
    """
    For Spark a line comment whose last character is a backslash has the next line, too; such a statement is not read as another.
    """
    text = "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS d, count(*) AS n FROM t -- C:{}\nWHERE a > 1\nGROUP BY 1 /* \\ */"

    assert "a > 1" == parse_definitions(text.format(""))[0].where
    with pytest.raises(
        DefinitionError,
        match=r"1:\d+: definition\.syntax: a comment that ends with a backslash goes on in the next line",
    ):
        parse_definitions(text.format("\\"))


@given(st.tuples(LITERALS, LITERALS, LITERALS, LITERALS))
@example((("r'a'", "a"), ("r'GROUP BY'", "GROUP BY"), ("'C:\\\\'", "C:\\"), ('R"LIMIT"', "LIMIT")))
@example((("'it''s'", "it's"), ("'CUBE'", "CUBE"), ("'*'", "*"), ("r'WHERE'", "WHERE")))
def test_a_literal_is_one_thing_wherever_it_stands(drawn) -> None:
    """
    What a literal looks like inside (a keyword, a quote, a comment, a semicolon) ends no clause and no statement.
    """
    comment, key, filtered, where = drawn
    first, _ = parse_definitions(
        f"CREATE MATERIALIZED VIEW v /* it's */ COMMENT {comment[0]} TBLPROPERTIES ('sequence' = {comment[0]} 'x') AS "
        f"SELECT date_trunc('day', ts) AS d, sym || {key[0]} AS k, count(*) FILTER (WHERE note = {filtered[0]}) AS n -- don't\n"
        f"FROM t WHERE note <> {where[0]} GROUP BY 1, sym || {key[0]}; CREATE MATERIALIZED VIEW w AS SELECT window.start AS b, count(*) AS n FROM t GROUP BY window(ts, '1 day')"
    )

    assert (comment[1], comment[1] + "x") == (first.comment, first.sequence)
    assert (f"sym || {key[0]}", f"note <> {where[0]}") == (first.keys[0].sql, first.where)
    assert [f"note = {filtered[0]}"] == [call.where for m in first.measures for call in m.formula.calls]
