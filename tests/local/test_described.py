"""The types that this process finds for a definition are those that Spark finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as st

from materializer.core.compiled.definition import Definition
from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError
from materializer.local.described import accepted, described
from materializer.local.kinds import NotLocal
from materializer.services.definitions.tables import schemas_of
from materializer.spark.describe.analyse import Analysed, analyse
from materializer.spark.runtime.session import work_session
from tests.local.drawing import COLUMNS, Drawing
from tests.statements.trial import DDL, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SOURCE = (("at", "timestamp"), *COLUMNS.items())
DRAWN = 60
STATEMENTS = 800
EACH = 600
PARTS = 2
CALLS = (
    *(
        "sum({a})",
        "avg({a})",
        "min({a})",
        "max({a})",
        "count({a})",
        "count(*)",
        "count_if({a})",
        "bool_and({a})",
        "bit_or({a})",
        "median({a})",
    ),
    *(
        "collect_set({a})",
        "count(DISTINCT {a})",
        "min_by({a}, {b})",
        "first({a})",
        "variance({a})",
        "mode({a})",
        "sum({a}) / count({b})",
    ),
    *("round(avg({a}), 2)", "max({a}) + min({b})", "sum({a}) FILTER (WHERE {b})", "max({a}) - 1"),
)
SHAPES = (
    *(
        "{a} + {b}",
        "{a} - 1",
        "upper({a})",
        "concat({a}, {b})",
        "abs({a})",
        "cast({a} AS int)",
        "cast({a} AS string)",
        "date_trunc('MONTH', {a})",
    ),
    *(
        "substr({a}, 1, 2)",
        "{a} % 3",
        "coalesce({a}, {b})",
        "CASE WHEN {a} THEN {b} END",
        "if({a} > 1, {b}, NULL)",
        "round({a}, 1)",
        "NOT {a}",
    ),
    *("{a} = {b}", "length({a})", "year({a})", "greatest({a}, {b})", "{a} IN (1, 2)", "{a} LIKE 'a%'", "-{a}"),
)
TRUTHS = (
    "{a} > {b}",
    "{a} = 'a'",
    "{a}",
    "{a} IS NOT NULL",
    "{a} BETWEEN 1 AND 5",
    "{a} < 3 AND {b} = {b}",
    "{a} LIKE '%x'",
    "NOT {a}",
    "{a} > 1 AND NOT {b}",
    "NOT {a} = {b}",
    "NOT ({a} OR {b})",
)


def expect_same(ours: Definition, analysed: Analysed, text: str) -> None:
    """Expect the types and the definition that Spark's analysis gave."""
    theirs = schemas_of(analysed)
    assert [list(column) for column in ours.partial_columns] == theirs["partials"], text
    assert [list(column) for column in ours.output_columns] == theirs["output"], text
    assert ours.spec == analysed.spec, text


def test_types_are_those_of_spark(spark: SparkSession) -> None:
    """
    Of drawn definitions of the proven set, each column of both tables has the type that Spark's analysis gives it; at least half of them
    are described here.
    """
    session = work_session(spark)
    shape = st.StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in SOURCE))
    found = certain = of_windows = 0
    for seed in range(DRAWN):
        draw = Drawing(random.Random(f"described {seed}"), is_hard=seed % 2 == 0)
        key = draw.key()
        measures = ", ".join(f"{draw.measure(is_mergeable=seed % 3 == 0)} AS m{i}" for i in range(3))
        where = draw.truth(2)
        start, bucket = ("time_bucket('1 hour', at)",) * 2 if seed % 4 else ("window.start", "window(at, '1 hour')")
        sql = f"""CREATE MATERIALIZED VIEW v AS SELECT {start} AS hour, {key} AS key, {measures}
            FROM s WHERE {where} GROUP BY {bucket}, {key}"""
        spec = resolve(parse_definitions(sql)[0], SOURCE)
        try:
            ours = described(spec)
        except NotLocal:
            continue
        except DefinitionError:
            with pytest.raises(DefinitionError):
                analyse(session, spec, shape)
            continue
        found += 1
        expect_same(ours, analyse(session, spec, shape), sql)
        is_certain = accepted(spec, [name for name, _ in SOURCE]) == ours
        certain, of_windows = certain + is_certain, of_windows + (is_certain and not seed % 4)
    assert found >= DRAWN / 2
    assert certain >= DRAWN / 4
    assert of_windows >= DRAWN / 20


def test_a_statement_that_is_accepted_here_is_accepted_by_spark(spark: SparkSession) -> None:
    """
    Of drawn statements as people type them, with doubtful spellings in nearly all, each one that this process accepts has the types that
    Spark's analysis gives it.
    """
    session, shape = work_session(spark), st.StructType.fromDDL(DDL)
    columns = [(field.name, field.dataType.simpleString()) for field in shape]
    found = 0
    for seed in range(STATEMENTS):
        text = f"CREATE MATERIALIZED VIEW v AS {text_of(seed)}"
        try:
            spec = resolve(parse_definitions(text)[0], columns)
        except DefinitionError:
            continue
        ours = None if spec.is_engine else accepted(spec, [name for name, _ in columns])
        if ours is None:
            continue
        found += 1
        expect_same(ours, analyse(session, spec, shape), text)
    assert found


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_written_in_a_plain_statement(spark: SparkSession, part: int) -> None:
    """
    Of calls over columns of any types, with and without quotes, nearly all of which are wrong, this process accepts none that Spark refuses, and gives those that
    it accepts the types that Spark gives them.
    """
    session, names = work_session(spark), [name for name, _ in SOURCE]
    shape, choose = (
        st.StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in SOURCE)),
        random.Random(f"plain {part}"),
    )
    found = 0
    for _ in range(EACH):
        text = _plain_statement(choose, [*names, *(f"`{name}`" for name in names)])
        try:
            spec = resolve(parse_definitions(text)[0], SOURCE)
        except DefinitionError:
            continue
        ours = accepted(spec, names)
        if ours is not None:
            found += 1
            expect_same(ours, analyse(session, spec, shape), text)
    assert found >= EACH / 40


def _plain_statement(choose: random.Random, names: list[str]) -> str:
    """Return a statement in which each part is of some shape and over some columns."""

    def value(depth: int = 2) -> str:
        a, b = choose.choice(names), choose.choice(names)
        if depth and choose.random() < 0.5:
            return choose.choice(SHAPES).format(a=value(depth - 1), b=b)
        return a

    calls = [
        f"{choose.choice(CALLS).format(a=value(), b=choose.choice(names))} AS {choose.choice((f'm{i}', choose.choice(names)))}"
        for i in range(choose.randint(1, 2))
    ]
    key = value() if choose.random() < 0.5 else ""
    where = f"WHERE {choose.choice(TRUTHS).format(a=value(), b=choose.choice(names))}" if choose.random() < 0.5 else ""
    bucket = choose.choice(("time_bucket('1 hour', at)", "date_trunc('DAY', at)"))
    groups = ", ".join(filter(None, [choose.choice((bucket, "hour", "1")), choose.choice((key, "key")) if key else ""]))
    keys = f", {key} AS key" if key else ""
    having = f"HAVING {_condition(choose, names, value)}" if choose.random() < 0.3 else ""
    return f"CREATE MATERIALIZED VIEW v AS SELECT {bucket} AS hour{keys}, {', '.join(calls)} FROM s {where} GROUP BY {groups} {having}"


def _condition(choose: random.Random, names: list[str], value: Callable[[], str]) -> str:
    """Return what HAVING may be: of calls that compare with numbers, mostly."""

    def one() -> str:
        call = choose.choice(CALLS).format(a=value(), b=choose.choice(names))
        return choose.choice(
            (f"{call} > 1", f"{call} <= 2.5", f"{call} <> 0", call, f"{choose.choice(names)} = 1", "m0 > 1")
        )

    return choose.choice((one(), f"{one()} AND {one()}", f"({one()}) OR {one()}", f"NOT {one()}"))
