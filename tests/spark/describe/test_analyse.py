"""What Spark says about a definition: types of everything, and every problem of a bad one at once."""

from __future__ import annotations

import pandas as pd
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from pyspark.sql.functions import expr, pandas_udf
from pyspark.sql.types import StructType

from materializer.core.spec.spec import AggregateSpec, Call, Formula, Key
from materializer.errors import DefinitionError
from materializer.spark.describe.analyse import Analysed, analyse
from tests.spark.query.aggregates_world import DDL, call, spec_of


def schema() -> StructType:
    return StructType.fromDDL(f"{DDL}, tags map<string,string>, seq bigint")


def problems(spark: SparkSession, spec: AggregateSpec) -> list[tuple[str, str]]:
    """Return (code, message and hint) of everything wrong with *spec*."""
    with pytest.raises(DefinitionError) as caught:
        analyse(spark, spec, schema())
    return [(p.code, f"{p.message} | {p.hint}") for p in caught.value.problems]


@pytest.mark.follows_hint("definition.wrong-type")
def test_a_condition_and_a_value_of_the_right_type_are_taken(spark: SparkSession) -> None:
    """
    What the hint of a wrong type says: a comparison, and a cast.
    """
    wrong = [spec_of(call("sum", "x"), where="i + 1"), spec_of(call("bool_and", "i"))]
    assert ["definition.wrong-type"] * 2 == [code for spec in wrong for code, _ in problems(spark, spec)]

    for right in (spec_of(call("sum", "x"), where="i + 1 > 0"), spec_of(call("bool_and", "CAST(i AS BOOLEAN)"))):
        analyse(spark, right, schema())


def measure_types(analysed: Analysed) -> list[str]:
    return [f.dataType.simpleString() for f in analysed.output_schema if f.name.startswith("m")]


def test_calls_learn_the_types_of_their_arguments(spark: SparkSession) -> None:
    """
    Every argument gets its Spark type, a star none.
    """
    found = analyse(spark, spec_of(call("corr", "x", "i"), call("count", "*"), call("sum", "d * 2")), schema())

    assert [("double", "int"), ("",), ("decimal(12,2)",)] == [m.formula.calls[0].types for m in found.spec.measures]


def test_outputs_have_the_types_that_plain_spark_gives(spark: SparkSession) -> None:
    """
    The output holds bucket, keys and measures in the order of the SELECT, each nullable, with Spark's own types.
    """
    calls = (
        call("sum", "i"),
        call("avg", "d"),
        call("avg", "w"),
        call("sum", "w"),
        call("approx_percentile", "dt", "0.5"),
    )
    found = analyse(spark, spec_of(*calls, keys=(Key("day", "date(ts)"), Key("sym", "sym"))), schema())

    assert ["bucket", "day", "sym", "m0", "m1", "m2", "m3", "m4"] == found.output_schema.names
    assert (("day", "date"), ("sym", "string")) == found.key_types
    assert "timestamp" == found.output_schema["bucket"].dataType.simpleString()
    assert ["bigint", "decimal(14,6)", "decimal(38,14)", "decimal(38,10)", "date"] == measure_types(found)
    assert all(f.nullable for f in found.output_schema)
    assert [p.name for p in found.layout.partials] == found.partial_schema.names


def test_formulas_may_read_keys_and_filter_groups(spark: SparkSession) -> None:
    """
    A measure may hold arithmetic over aggregates and keys; HAVING is checked with it.
    """
    spec = spec_of(call("sum", "i"), call("max", "s"))
    share = Formula(("concat(sym, ' ', ", 0, " / ", 1, ")"), (call("sum", "i"), call("count", "*")))
    measures = (replace(spec.measures[0], formula=share), spec.measures[1])
    found = analyse(
        spark, replace(spec, measures=measures, having=Formula((0, " > 1"), (call("count", "*"),))), schema()
    )

    assert ["string", "string"] == measure_types(found)
    assert found.layout.having is not None


def test_all_problems_are_found_at_once(spark: SparkSession) -> None:
    """
    Keys, filters and arguments are each checked, and a misspelt column comes with the nearest one.
    """
    spec = spec_of(
        call("sum", "pricee"),
        call("max", "no_such_function(x)"),
        call("count", "*", where="i + 1"),
        call("avg", "xx"),
        keys=(Key("tags", "tags"), Key("k", "symm")),
        where="s",
    )
    found = problems(spark, spec)

    assert sorted(
        ["definition.unknown-column"] * 3 + ["definition.unknown-function"] + ["definition.wrong-type"] * 3
    ) == [code for code, _ in sorted(found)]
    assert any("no column symm | did you mean sym?" in text for _, text in found)
    assert any("FILTER of measure 'm2' is of type int, expected boolean" in text for _, text in found)


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("Zustand.Batteri", "did you mean `Zustand.Batterie`?"),
        ("Zustand.Netz.signl", "did you mean `Zustand.Netz.Signal`?"),
        ("Zustand.xyzzy", "its fields are Batterie, Netz"),
    ],
)
def test_the_field_that_was_meant_is_named(spark: SparkSession, field: str, hint: str) -> None:
    """
    With the column and the structs in front of it, as it has to be written.
    """
    net = st.StructType([st.StructField("Signal", st.IntegerType()), st.StructField("Art", st.StringType())])
    state = st.StructType([st.StructField("Batterie", st.IntegerType()), st.StructField("Netz", net)])
    with pytest.raises(DefinitionError) as caught:
        analyse(spark, spec_of(call("min", field)), st.StructType([*schema().fields, st.StructField("Zustand", state)]))

    assert [("definition.unknown-column", hint)] == [(p.code, p.hint) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (call("sum", "arr"), "definition.wrong-type"),
        (call("max", "tags"), "definition.wrong-type"),
        (call("bool_and", "i"), "definition.wrong-type"),
        (call("max", "ts - timestamp'2024-01-01'"), "definition.wrong-type"),
        (call("min", "null"), "definition.wrong-type"),
        (call("first", "x", "maybe"), "definition.unknown-column"),
        (call("max", "x +"), "definition.syntax"),
        (call("no_such_aggregate", "x"), "definition.unknown-function"),
        (call("approx_percentile", "x", "y"), "definition.wrong-type"),
    ],
)
def test_what_spark_refuses_is_a_problem_of_the_definition(spark: SparkSession, bad: Call, code: str) -> None:
    """
    Types an aggregate cannot take, types a table cannot hold, bad syntax and unknown names have a code each.
    """
    assert code in [c for c, _ in problems(spark, spec_of(bad))]


def test_a_measure_beside_the_groups_is_refused(spark: SparkSession) -> None:
    """
    A column that is neither aggregated nor a key has no value in a group.
    """
    spec = spec_of(call("sum", "i"))
    loose = Formula((0, " + i"), (call("sum", "i"),))

    found = problems(spark, replace(spec, measures=(replace(spec.measures[0], formula=loose),)))
    assert ["definition.not-grouped"] == [code for code, _ in found]


def test_values_without_an_order_are_picked_by_the_sequence_column(spark: SparkSession) -> None:
    """
    With a sequence column even a map can be first or listed, because it does not have to decide anything.
    """
    reads = ("seq", "tags", "ts")
    types = (("seq", "bigint"), ("tags", "map<string,string>"), ("ts", "timestamp"))
    spec = spec_of(call("first", "tags"), keys=(), reads=reads, read_types=types, sequence="seq")
    listed = spec_of(call("collect_list", "tags"), keys=(), reads=reads, read_types=types, sequence="seq")
    layout = analyse(spark, spec, schema()).layout
    (partial, _), (_, final) = layout.partials, layout.finals[0]  # the other one counts rows
    rows = spark.range(3).selectExpr("timestamp'2024-01-01' AS ts", "3 - id AS seq", "map('a', string(id)) AS tags")

    pieces = rows.groupBy("seq").agg(expr(partial.build).alias(partial.name))
    (merged,) = pieces.agg(expr(partial.merge or "").alias(partial.name)).selectExpr(f"{final} AS v").collect()
    (plain,) = rows.agg(expr(layout.reference[0][1]).alias("v")).collect()
    (several,) = rows.agg(expr(analyse(spark, listed, schema()).layout.reference[0][1]).alias("v")).collect()

    assert {"a": "2"} == merged["v"] == plain["v"]
    assert [{"a": "2"}, {"a": "1"}, {"a": "0"}] == several["v"]


def test_python_aggregates_are_known_by_the_session(spark: SparkSession) -> None:
    """
    A Python aggregate stands beside Spark's own ones; its partial says that it is built apart from them.
    """

    def middle(values: pd.Series) -> float:
        return float(values.median())

    spark.udf.register("middle", pandas_udf(middle, "double"))
    found = analyse(spark, spec_of(call("middle", "x"), call("sum", "i")), schema())

    assert [True, False, False] == [p.is_foreign for p in found.layout.partials]  # the last one counts rows
    assert ["double", "bigint"] == measure_types(found)


def test_an_unresolved_definition_is_a_mistake_of_ours(spark: SparkSession) -> None:
    """
    Analysis needs the type of the time column, which resolving against the source gives.
    """
    with pytest.raises(ValueError, match="not resolved"):
        analyse(spark, replace(spec_of(call("sum", "i")), time_type=None), schema())


def test_a_text_that_does_not_parse_is_quoted(spark: SparkSession) -> None:
    """
    What Spark says of it begins in its second line.
    """
    [(code, message)] = problems(spark, spec_of(call("sum", "x"), where="i = = 1"))

    assert "definition.syntax" == code
    assert "WHERE: syntax error at or near '='" in message
