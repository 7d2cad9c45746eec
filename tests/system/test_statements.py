"""A statement means what plain Spark says it means, in both executors; `verify` asks Spark, and not our reading of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from materializer.core.language import statement
from materializer.core.spec.spec import Key
from materializer.core.sql import formulas
from materializer.errors import DefinitionError, SparkError
from tests.local.comparing import same
from tests.system import verifying
from tests.system.builders import DAY, Site

ROWS = [
    (10, "A", 1, "C:\\"),
    (20, "a", 2, "C:\\"),
    (90, "A", 3, "it's"),
    (100, None, 4, "${env:HOME}"),
    (1500, "B", 5, "its"),
    (1510, "A", None, "a -- b"),
]
STATEMENTS = {
    "literals": r"""date_trunc('hour', ts) AS at, count_if(note = 'C:\\' AND sym = 'A') AS upper, count_if(note = 'C:\\' AND sym = 'a') AS lower,
        count_if(note = r'C:\' AND sym = 'a') AS raw, count_if(note = 'it''s') AS quoted, count_if(note = "it's") AS double,
        count_if(note = 'it' 's') AS beside, count_if(note = 'a -- b' /* 'c */) AS comment FROM trades GROUP BY 1""",
    "doubled": """date_trunc('hour', ts) AS at, count_if(note = 'it''s') AS quoted, count_if(note = 'it' 's') AS beside FROM trades GROUP BY 1""",
    "variable": """date_trunc('day', ts) AS at, '${env:HOME}' || sym AS k, count_if(note = '${env:HOME}') AS n FROM trades GROUP BY 1, 2""",
    "swapped": """date_trunc('day', ts) AS at, sym AS note, note AS sym, count(*) AS n FROM trades GROUP BY 1, note, sym HAVING sym IS NOT NULL""",
    "qualified": """window.start AS b, window.end AS e, t.sym, sum(t.price) AS total, avg(price) AS mean FROM trades AS t
        WHERE t.note <> 'x' GROUP BY window(t.ts, '30 minutes', '30 minutes', '10 minutes'), t.sym HAVING count(*) > 0""",
    "bucket": """time_bucket('6 hours', ts, 'Asia/Tokyo') AS at, upper(sym) AS s, first(price) AS f, var(price) AS v, count(DISTINCT note) AS d,
        last(note) IGNORE NULLS AS l, wavg(price, price) AS w, med(price) AS m, approx_percentile(price, 0.5) AS q,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY price DESC) AS c
        FROM trades GROUP BY time_bucket('6 hours', ts, 'Asia/Tokyo'), upper(sym) HAVING count(*) > 0""",
    "months": """time_bucket('1 month', ts) AS at, max(price) AS p, corr(price, price * 2) AS r FROM trades GROUP BY 1""",
}


NAMES = {
    "CAST(price AS DOUBLE)": "sum avg mean min max var_pop var varp std stddev stdp med sem skew skewness kurtosis try_sum try_avg sum2 sum3 sum4 prod",
    "CAST(price AS DOUBLE), price * 2": "covar covarp corr beta regr_intercept regr_r2 regr_count regr_sxx regr_sxy regr_syy regr_avgx regr_avgy wsum wavg",
    "CAST(price AS DECIMAL(10,2))": "sum avg try_sum try_avg",
    "sym, price": "min_by max_by",
    "price, note": "atimax atimin count",
    "sym": "first last any_value first_value mode collect_set collect_list array_agg nunique firstnot ifirstnot",
    "price": "bit_or bit_xor imax approx_count_distinct try_sum try_avg",
    "price > 2": "count_if bool_and every some",
}
MEASURES = [
    *(f"{name}({arguments})" for arguments, names in NAMES.items() for name in names.split()),
    "count_min_sketch(price, 0.1D, 0.9D, 1)", "sum(bit_count(price))", "count(DISTINCT sym)", "sum(DISTINCT price)", "last(note) IGNORE NULLS", "searchk(price, 2)", "quantile(price, 0.3)",
    "approx_percentile(price, array(0.1, 0.9))", "percentile(price, 0.5)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY price DESC)",
    "max(price) FILTER (WHERE sym = 'A' /* ) */ OR note = 'its')", "try_divide(sum(price), count(*)) + 1",
]  # fmt: skip


@pytest.fixture(scope="module", params=["spark", "auto"])
def site(request, tmp_path_factory, spark) -> Site:
    """A lake with the rows, which Spark or the process computes."""
    site = Site(tmp_path_factory.mktemp("statements"), spark, executor=request.param)
    site.table().write([{"ts": DAY + timedelta(minutes=at), "sym": s, "price": p, "note": n} for at, s, p, n in ROWS])
    return site


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_what_plain_spark_says(site: Site, name: str) -> None:
    """
    The output has the rows of the statement in plain Spark, and `verify` agrees.
    """
    text = f"SELECT {STATEMENTS[name]}"
    site.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    site.lake.refresh(name)

    if name not in {"bucket", "months"}:  # which plain Spark cannot divide
        assert site.rows(text.replace("FROM trades", f"FROM {site.tables['trades'].sql}")) == site.published(name)
    report = site.lake.verify(name)
    assert report.rows > 0
    assert report.is_equal, report.examples
    if name != "months" and verifying.is_turn(name, 0, 3):
        assert site.lake.verify(name, "2024-03-01T00:00:00Z", "2024-03-02T00:00:00Z").is_equal


def test_regressions_are_what_plain_spark_says(site: Site) -> None:
    """
    Each function of a regression has Spark's rows and types: of pairs where one is null, of constants, and of none.
    """
    pairs = {
        "r": "price, length(note)",
        "c": "price, length(sym)",
        "d": "length(sym), price",
        "n": "price, nullif(price, price)",
    }
    names = ["slope", "intercept", "r2", "count", "sxx", "sxy", "syy", "avgx", "avgy"]
    shown = ", ".join(f"regr_{name}({pair}) AS {key}_{name}" for key, pair in pairs.items() for name in names)
    text = f"SELECT date_trunc('hour', ts) AS at, {shown} FROM trades GROUP BY 1"
    site.lake.apply(f"CREATE MATERIALIZED VIEW regressions AS {text}")
    site.lake.refresh("regressions")

    plain, ours = (
        site.rows(text.replace("FROM trades", f"FROM {site.tables['trades'].sql}")),
        site.published("regressions"),
    )
    assert [list(map(type, row)) for row in plain] == [list(map(type, row)) for row in ours]
    assert all(same(list(a), list(b)) for a, b in zip(plain, ours, strict=True))
    assert site.lake.verify("regressions").is_equal


def test_aggregates_under_their_names_in_spark(site: Site) -> None:
    """
    After late rows, too, each is Spark's number and type; `skew` is `skewness`, and `kurtosis` is Spark's and 3 more.
    """
    site.table("tried").trade(("00:10", "a", 1), ("00:20", "a", 2), ("00:30", "a", 2**63 - 1), ("01:30", "b", 4))
    text = """SELECT date_trunc('hour', ts) AS at, skewness(price) AS s, try_sum(price) AS t, try_sum(length(sym)) AS l, try_avg(price) AS a,
        try_sum(CAST(price AS DECIMAL(38,0)) * 5000000000000000000) AS d, count_min_sketch(price, 0.1D, 0.9D, 1) AS c, sum(bit_count(price)) AS b,
        try_avg(CAST(price AS DECIMAL(38,2))) AS m, theta_sketch_agg(price, 5) AS t5, skew(price) AS ours, kurtosis(price) AS k FROM tried GROUP BY 1"""
    site.lake.apply(f"CREATE MATERIALIZED VIEW tried_1h AS {text}")
    plain = text.replace("FROM tried", f"FROM {site.tables['tried'].sql}").replace("skew(", "skewness(")
    for late in ((), (("00:40", "c", 7), ("01:10", "b", 5), ("01:20", "b", 9))):
        if late:
            site.tables["tried"].trade(*late)
        site.lake.refresh("tried_1h")
        said, ours = (
            site.rows(plain.replace("kurtosis(price)", "if(count(price) > 1, kurtosis(price) + 3, NULL)")),
            site.published("tried_1h"),
        )
        assert [list(map(type, row)) for row in said] == [list(map(type, row)) for row in ours]
        assert all(same(list(a), list(b)) for a, b in zip(said, ours, strict=True)), (said, ours)
    assert ours[0][2] is None
    assert site.lake.verify("tried_1h").is_equal


SESSIONS = {
    "a position": "session_window(ts, '30 minutes') AS w, sym, count(*) AS n FROM trades GROUP BY 1, 2",
    "an alias": "session_window(ts, '30 minutes') AS w, sym, count(*) AS n FROM trades GROUP BY w, sym",
    "the start": "session_window(ts, '30 minutes').start AS w, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '30 minutes'), sym",
    "the name": "session_window.start AS w, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '30 minutes'), sym",
    "the whole": "session_window AS w, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '30 minutes'), sym",
    "both ends": "session_window(ts, '30 minutes').start AS w, session_window(ts, '30 minutes').end AS window_end, sym, count(*) AS n "
    "FROM trades GROUP BY session_window(ts, '30 minutes'), 3",
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_as_spark_writes_them(site: Site, name: str) -> None:
    """
    A session window may be selected whole or by its start, and grouped by its position or alias; its rows are those of its own text.
    """
    view = f"sessions_{name.replace(' ', '_')}"
    properties = "TBLPROPERTIES ('update_time' = '0 seconds') "
    site.lake.apply(f"CREATE MATERIALIZED VIEW {view} {properties}AS SELECT {SESSIONS[name]}")
    site.lake.refresh(view)
    plain = site.rows(
        "SELECT w.start, w.end, sym, n FROM (SELECT session_window(ts, '30 minutes') AS w, sym, count(*) AS n "
        f"FROM {site.tables['trades'].sql} GROUP BY 1, 2)"
    )

    own = site.rows(f"SELECT {SESSIONS[name]}".replace("FROM trades", f"FROM {site.tables['trades'].sql}"))
    starts = sorted(((row[0].start if isinstance(row[0], tuple) else row[0], *row[-2:]) for row in own), key=str)
    assert starts == sorted(((start, *rest) for start, _, *rest in plain), key=str)
    found = [(r["w"], r["window_end"], r["sym"], r["n"]) for r in site.records(view)]
    plain = sorted(plain, key=lambda row: (row[0], str(row[2])))
    assert plain == sorted(found, key=lambda row: (row[0], str(row[2])))
    assert site.lake.verify(view).is_equal


@pytest.mark.parametrize("width", ["1 month", "3 months", "5 months", "1 year"])
def test_months_are_no_window(site: Site, width: str) -> None:
    """
    Spark refuses months in `window`, and so do we; the hint leads to a bucket that is accepted.
    """
    text = "CREATE MATERIALIZED VIEW wide AS SELECT {} AS at, count(*) AS n FROM trades GROUP BY {}"
    window = f"window(ts, '{width}')"
    with pytest.raises(DefinitionError) as caught:
        site.lake.apply(text.format("window.start", window))
    [problem] = caught.value.problems

    assert "definition.width" == problem.code
    bucket = problem.hint.removeprefix("write ")
    site.lake.apply(text.format(bucket, bucket).replace("wide", f"wide_{width.replace(' ', '_')}"))


def test_every_aggregate_is_verified_as_typed(site: Site) -> None:
    """
    What Spark has runs as it stands, and what it lacks or leaves open by its definition; nothing is refused, and nothing differs.
    """
    shown = ", ".join(f"{text} AS m{at}" for at, text in enumerate(MEASURES))
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW many AS SELECT window.start AS b, upper(t.sym) AS s, {shown}, count(*) AS n, n + 1 AS more FROM trades t "
        "WHERE t.note <> '' GROUP BY window(ts, '6 hours'), upper(t.sym) HAVING n > 0"
    )
    site.lake.refresh("many")

    report = site.lake.verify("many")
    assert report.rows > 2
    assert report.is_equal, report.examples


NUMBERS = ["sum", "try_sum", "avg", "stddev", "skewness", "median", "corr"]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", NUMBERS)
def test_texts_are_cast_to_numbers_by_whoever_wants_it(site: Site, name: str) -> None:
    """
    Spark casts a column of texts unasked and fails on the first that is none; the hint's form is computed, equal to Spark's.
    """
    if "texts" not in site.tables:
        site.table("texts").write(
            [
                {"ts": DAY, "sym": s, "price": p, "note": n}
                for s, p, n in (("A", 1, "7"), ("A", 2, "8.5"), ("B", 3, "none"))
            ]
        )
    second = ", price" if name == "corr" else ""
    text = f"SELECT date_trunc('day', ts) AS at, sym, {name}({{}}{second}) AS x FROM {{}} GROUP BY 1, 2"
    with pytest.raises(DefinitionError, match=r"write CAST\(note AS DOUBLE\) in its place") as caught:
        site.lake.apply(f"CREATE MATERIALIZED VIEW of_texts_{name} AS {text.format('note', 'texts')}")
    assert ["definition.wrong-type"] == [problem.code for problem in caught.value.problems]

    cast = "try_cast(note AS DOUBLE)"
    site.lake.apply(f"CREATE MATERIALIZED VIEW of_texts_{name} AS {text.format(cast, 'texts')}")
    site.lake.refresh(f"of_texts_{name}")
    plain = site.rows(text.format(cast, site.tables["texts"].sql))
    assert all(same(list(a), list(b)) for a, b in zip(plain, site.published(f"of_texts_{name}"), strict=True))


REFUSED = {
    "shadowed": "date_trunc('hour', ts) AS b, price + 1 AS price, count(*) AS n FROM trades GROUP BY 1, price + 1 HAVING price + 1 > 3",
    "flipped": "date_trunc('hour', ts) AS b, price > 1 AS price, count(*) AS n FROM trades GROUP BY 1, price > 1 HAVING (1 < price) IS NULL",
    "measured": "date_trunc('hour', ts) AS b, price + 1 AS k, count(*) AS price FROM trades GROUP BY 1, k HAVING 1 + price > 3",
    "buckets": "window.start AS b, count(*) AS n FROM trades GROUP BY WINDOW(ts, '1 hour'), window(TS, '1 hour')",
    "continued": "date_trunc('hour', ts) AS b, 'a' AS k, count(*) -- C:\\\nAS n FROM trades GROUP BY 1, 2",
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", REFUSED)
def test_a_statement_that_spark_refuses_or_takes_for_another_is_refused(site: Site, name: str) -> None:
    """
    Nothing is written: HAVING had the alias for the column of a grouped expression, and `verify` of the others failed for good.
    """
    with pytest.raises(DefinitionError):
        site.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS SELECT {REFUSED[name]}")

    assert not (site.lake.root / name).exists()


def test_no_variable_of_the_environment_gets_out(site: Site) -> None:
    """
    A name of a variable in a literal is its text, in the rows and in the comment that the tables have.
    """
    site.lake.apply(
        "CREATE MATERIALIZED VIEW secret COMMENT '${env:HOME}' AS "
        "SELECT date_trunc('day', ts) AS at, '${env:HOME}' AS k, count(*) AS n FROM trades GROUP BY 1, 2"
    )
    site.lake.refresh("secret")

    assert {"${env:HOME}"} == {k for _, k, _ in site.published("secret")}
    assert "${env:HOME}" == site.lake.journal.view().named("secret").spec["comment"]


def _without_filter(*args: Any) -> Any:
    found = statement.read_statement(*args)
    return replace(found, where=None)


def _in_lower_case(*args: Any) -> Any:
    found = formulas.build_formula(*args)
    return replace(found, calls=tuple(replace(c, where=c.where and c.where.lower()) for c in found.calls))


MISTAKES = {
    "a key that is another column": (
        "materializer.core.language.assemble.Key",
        lambda name, _: Key(name, "CAST(price AS STRING)"),
    ),
    "a filter that is forgotten": ("materializer.core.language.parse.read_statement", _without_filter),
    "a literal in lower case": ("materializer.core.language.assemble.build_formula", _in_lower_case),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_verify_finds_a_mistake_in_our_reading(site: Site, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    """
    `verify` runs the statement as it was typed: what we make of it is compared with that.
    """
    name = mistake.replace(" ", "_")
    monkeypatch.setattr(*MISTAKES[mistake])
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW {name} AS SELECT time_bucket('1 hour', ts) AS at, sym, count(*) FILTER (WHERE sym = 'A') AS n, "
        "sum(price) AS total FROM trades WHERE price <> 3 GROUP BY 1, sym"
    )
    site.lake.refresh(name)

    report = site.lake.verify(name)
    assert report.differing > 0


@pytest.mark.parametrize("group", ["1, note", "1, note, sym"])
def test_verify_finds_a_name_that_an_earlier_release_took_for_an_alias(
    site: Site, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """
    Spark groups by the column, or refuses the statement; applying it again says which name that is.
    """
    name = f"by_{len(group)}"
    text = f"CREATE MATERIALIZED VIEW {name} AS SELECT date_trunc('day', ts) AS at, sym AS note, count(*) AS n FROM trades GROUP BY {group}"
    with monkeypatch.context() as earlier:
        earlier.setattr("materializer.core.language.parse.read_again", lambda spec, _: spec)
        earlier.setattr("materializer.spark.describe.analyse.refusal_of_text", lambda *_: None)
        site.lake.apply(text)
        site.lake.refresh(name)

    if group == "1, note":
        with pytest.raises(SparkError, match="plain Spark refuses the statement of 'by_7': MISSING_AGGREGATION"):
            site.lake.verify(name)
    else:
        assert site.lake.verify(name).differing > 0
    with pytest.raises(DefinitionError, match=r"definition\.ambiguous-group: .*GROUP BY note means the column"):
        site.lake.apply(text)
