"""What the compiler refuses, because it is not known to be equal in Spark; and what it says of it."""

from __future__ import annotations

import re

import pytest

from materializer.local.connection import connected, opened
from materializer.local.expressions import compiled
from materializer.local.kinds import NotLocal, kind_of
from materializer.local.scope import Scope

COLUMNS = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "f": "float",
    "x": "string",
    "w": "decimal(38,10)",
    "ts": "timestamp",
    "u": "date",
    "b": "boolean",
}


def scope(*, are_rows: bool = False) -> Scope:
    return Scope({name: kind_of(kind) for name, kind in COLUMNS.items()}, are_rows=are_rows)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("soundex(x)", "soundex"),
        ("TRY_CAST(x AS INT)", "TRY_CAST"),
        ("try_add(i, i)", "try_add"),
        ("CAST(x AS INT)", "CAST"),
        ("CAST(d AS STRING)", "CAST"),
        ("x LIKE y", "x LIKE y"),
        (r"x LIKE 'a\_b'", "text"),
        ("x LIKE 'a!_b' ESCAPE '!'", "escape"),
        ("i + x", "int"),
        ("i = x", "together"),
        ("i + f", "together"),
        ("-w", "decimal"),
        ("w * w", "decimal"),
        ("round(d, 2)", "round"),
        ("substr(x, -1)", "substr"),
        ("substr(x, i)", "substr"),
        ("pmod(i, l)", "pmod"),
        ("date_trunc('week', u, 'x')", "'x'|x"),
        ("u + INTERVAL '1' DAY", "interval"),
        ("x ILIKE 'a'", "ilike"),
        ("nothing", "nothing"),
        ("i BETWEEN SYMMETRIC 1 AND 2", "symmetric|SYMMETRIC"),
        ("sum(i)", "aggregate"),
        ("current_date", "current"),
        ("1e3", "1e3"),
        ('"x"', "text"),
    ],
)
def test_a_part_without_a_local_form_is_named(sql: str, part: str) -> None:
    """
    An expression with something that is not in the set is refused as a whole, and the refusal names it.
    """
    with pytest.raises(NotLocal, match=part):
        compiled(sql, scope())


@pytest.mark.parametrize(
    "sql",
    [
        "percentile(i, 0.5, l)",
        "percentile(i, array(0.1, 0.9))",
        "mode(i)",
        "sum(DISTINCT i)",
        "avg(w)",
        "count(DISTINCT i, x)",
        "approx_count_distinct(i)",
        "min(named_struct('a', array(i)))",
        "skewness(d)",
        "sum(sum(i))",
        "max(i, l)",
    ],
)
def test_an_aggregate_without_a_local_form_is_refused(sql: str) -> None:
    """
    An aggregate that is not in the set is refused, and so is one of which the parser drops an argument.
    """
    with pytest.raises(NotLocal):
        compiled(sql, scope(are_rows=True))


def test_a_division_by_zero_is_left_to_spark() -> None:
    """
    Where Spark raises, the local text raises, too; a null is divided by zero without an error.
    """
    con = connected()
    one = compiled("i / l", scope()).sql

    assert [(None,)] == con.sql(f"SELECT {one} FROM (SELECT NULL::INTEGER AS i, 0::BIGINT AS l)").fetchall()
    with pytest.raises(Exception, match="Spark has to say"):
        con.sql(f"SELECT {one} FROM (SELECT 1::INTEGER AS i, 0::BIGINT AS l)").fetchall()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT error('Spark has to say')", "a value cannot be computed here (it overflows, is divided by zero, or text is no number)"),
        ("SELECT CAST(x AS INTEGER) FROM (VALUES ('seven')) t(x)", "a value cannot be computed here: Could not convert string 'seven' to INT32"),
        ("SELECT x + 1 FROM (VALUES (9223372036854775807::BIGINT)) t(x)", "a value cannot be computed here: Overflow in addition"),
        ("SELECT nothing", "DuckDB failed: Referenced column"),
        ("SELECT max(x) FROM (SELECT list(i) AS x FROM range(100_000_000) t(i))", "it needs more memory than it may take here"),
    ],
)  # fmt: skip
def test_what_fails_is_told_in_plain_words(query: str, said: str) -> None:
    """
    Without the names that the library has for its errors.
    """
    with pytest.raises(NotLocal) as caught, opened() as connection:
        connection.query(query)

    assert said in str(caught.value)
    assert not re.search(r"Exception|Error:|error:", str(caught.value))


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("regexp_count(x, 'a')", "regexp_count"),
        ("approx_count_distinct(x)", "approx_count_distinct"),
        ("greatest(x, x)", "greatest of string"),
        ("x RLIKE y", "rlike y"),
        ("x RLIKE 'a(?=b)'", "rlike 'a"),
    ],
)
def test_functions_have_the_names_of_spark(sql: str, name: str) -> None:
    """
    And not those that the parser has for them.
    """
    with pytest.raises(NotLocal, match=name):
        compiled(sql, scope(are_rows=True))


@pytest.mark.parametrize(
    ("values", "call"),
    [
        ("SELECT i::INTEGER AS i FROM range(6) t(i)", "approx_percentile(i, 0.5, 10)"),
        ("SELECT 9007199254740993::BIGINT AS l", "approx_percentile(l, 0.5)"),
        ("SELECT make_timestamptz(9007199254740993) AS ts", "approx_percentile(ts, 0.5)"),
        ("SELECT 'nan'::DOUBLE AS d", "approx_percentile(d, array(0.5))"),
    ],
)
def test_an_estimate_that_may_be_another_one_is_left_to_spark(values: str, call: str) -> None:
    """
    Of more values than half the accuracy Spark leaves out some; it goes through doubles, and has a way of its own with NaN.
    """
    con = connected()
    text = compiled(call, scope(are_rows=True)).sql

    with pytest.raises(Exception, match="Spark has to say"):
        con.sql(f"SELECT {text} FROM ({values})").fetchall()
    few = values.replace("range(6)", "range(5)").replace("993", "992").replace("'nan'", "1")
    assert con.sql(f"SELECT {text} FROM ({few})").fetchall() != [(None,)]


def test_nothing_else_is_read() -> None:
    """
    The database reads no file and no variable of the process, whatever a text asks for.
    """
    con = connected()
    rows = [1, 2]

    assert rows
    for text in ("SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM rows", "INSTALL httpfs"):
        with pytest.raises(Exception, match=r"disabled|not exist|cannot|Permission|Catalog"):
            con.sql(text).fetchall()
