"""Compare the published rows of an engine with its query over all raw rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType

from materializer.core.compiled.bucket_sql import instant_of_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.compile import label_name
from materializer.core.spec.table_names import quoted
from materializer.core.time.fetched import fetched_text
from materializer.spark.query.compare import DIFFERS, FLOAT_TOLERANCE, Comparison, counted, kind_of, other_types

NOT_COMPARED = (SLICE, "revision")
"""Columns that describe how a row is stored, not its content."""


def compare_results(
    definition: Definition, expected: DataFrame, published: DataFrame, *, examples: int, names_slices: bool = False
) -> Comparison:
    """Compare *published* rows with the *expected* ones.

    Rows match by keys and window. Rows that share these (several source rows of one time) match in the order of their values.
    Doubles may differ by 1e-9 of the larger one; all other values must be equal.

    Args:
        definition: The definition of the aggregate.
        expected: Shown result rows of the engine's query over raw rows.
        published: Rows of the output.
        examples: How many differing rows to return.
        names_slices: Whether to return the slices of all differing rows; these are few only if few rows are compared.
    """
    spec = definition.spec
    place = [*(k.name for k in spec.keys), label_name(spec), "window_start", "window_end"]
    values = [n for n in expected.columns if n not in {*place, *NOT_COMPARED}]
    ours, theirs = _numbered(published, place, values, "o"), _numbered(expected, place, values, "r")
    on = sf.expr("true")
    for i in range(len(place) + 1):
        on = on & sf.col(f"o_p{i}").eqNullSafe(sf.col(f"r_p{i}"))
    wrong = [_differs(expected, name, i) for i, name in enumerate(values)]
    both = ours.join(theirs, on, "full_outer").withColumn(
        "wrong",
        sf.when(sf.col("o").isNull() | sf.col("r").isNull(), sf.array(sf.lit(-1))).otherwise(
            sf.array_compact(sf.array(*wrong)) if wrong else sf.array().cast("array<int>")
        ),
    )
    rows, differing, found = counted(both, examples)
    slices: list[Any] = []
    if differing and names_slices:
        at = sf.expr(instant_of_sql("coalesce(o_s, r_s)", definition.time_type)).alias("at")
        slices = both.where(DIFFERS).select(at).distinct().collect()
    rows_found = [row.asDict() for row in found]
    return Comparison(
        rows,
        differing,
        [_example(row, place, values, dict(definition.output_columns)) for row in rows_found],
        [_evidence(row, place, values) for row in rows_found],
        frozenset(int(row["at"]) for row in slices),
        other_types(published, expected, [*place, *values]),
    )


def _example(row: dict[str, Any], place: list[str], values: list[str], types: dict[str, str]) -> dict[str, Any]:
    def text(column: str, name: str) -> str:
        return fetched_text(row[column], types[name])

    kind = kind_of(row)
    side = "r" if kind == "missing" else "o"
    columns = {values[i]: (text(f"o_v{i}", values[i]), text(f"r_v{i}", values[i])) for i in row["wrong"] if i >= 0}
    where = {name: text(f"{side}_p{i}", name) for i, name in enumerate(place)}
    return {"kind": kind, "row": where, "columns": columns}


def _evidence(row: dict[str, Any], place: list[str], values: list[str]) -> dict[str, Any]:
    columns = {name: f"p{i}" for i, name in enumerate(place)} | {name: f"v{i}" for i, name in enumerate(values)}
    expected, found = (
        None if row[side] is None else {name: row[f"{side}_{c}"] for name, c in columns.items()} for side in "ro"
    )
    return {"kind": kind_of(row), "expected": expected, "found": found}


def _numbered(frame: DataFrame, place: list[str], values: list[str], side: str) -> DataFrame:
    among = Window.partitionBy(*[sf.col(quoted(n)) for n in place]).orderBy(*[sf.col(quoted(n)) for n in values])
    number = sf.row_number().over(among) if values else sf.lit(1)
    return frame.select(
        *[sf.col(quoted(n)).alias(f"{side}_p{i}") for i, n in enumerate(place)],
        number.alias(f"{side}_p{len(place)}"),
        *[sf.col(quoted(n)).alias(f"{side}_v{i}") for i, n in enumerate(values)],
        sf.col(SLICE).alias(f"{side}_s"),
        sf.lit(1).alias(side),
    )


def _differs(frame: DataFrame, name: str, i: int) -> Column:
    ours, theirs = sf.col(f"o_v{i}"), sf.col(f"r_v{i}")
    same = ours.eqNullSafe(theirs)
    if isinstance(frame.schema[name].dataType, (DoubleType, FloatType)):
        most = sf.greatest(sf.lit(1.0), sf.abs(ours), sf.abs(theirs))
        same = same | sf.coalesce(sf.abs(ours - theirs) <= FLOAT_TOLERANCE * most, sf.expr("false"))
    return sf.when(~same, sf.lit(i))
