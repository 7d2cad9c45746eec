"""Published rows of an engine beside its query over all raw rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType

from materializer.core.definition import SLICE, Definition, quoted
from materializer.core.engines.compile import label_name
from materializer.spark.compare import FLOAT_TOLERANCE, Compared, counted

NOT_COMPARED = (SLICE, "revision")
"""Columns that tell how a row was kept, not what it says."""


def compare_results(definition: Definition, expected: DataFrame, published: DataFrame, *, examples: int) -> Compared:
    """Compare *published* rows with the *expected* ones.

    Rows are matched by keys and window; rows that share these (several source rows of one time) in order of their values.
    Doubles are equal within 1e-9 of the larger one, everything else exactly.

    Args:
        definition: What is compared.
        expected: Shown result rows of the engine's query over all raw rows.
        published: Rows of the output.
        examples: How many differing rows to return.
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
    shown = []
    for row in found:
        kind = "missing" if row["o"] is None else "extra" if row["r"] is None else "differs"
        side = "r" if kind == "missing" else "o"
        columns = {values[i]: (str(row[f"o_v{i}"]), str(row[f"r_v{i}"])) for i in row["wrong"] if i >= 0}
        where = {name: str(row[f"{side}_p{i}"]) for i, name in enumerate(place)}
        shown.append({"kind": kind, "row": where, "columns": columns})
    return Compared(rows, differing, shown)


def _numbered(frame: DataFrame, place: list[str], values: list[str], side: str) -> DataFrame:
    among = Window.partitionBy(*[sf.col(quoted(n)) for n in place]).orderBy(*[sf.col(quoted(n)) for n in values])
    number = sf.row_number().over(among) if values else sf.lit(1)
    return frame.select(
        *[sf.col(quoted(n)).alias(f"{side}_p{i}") for i, n in enumerate(place)],
        number.alias(f"{side}_p{len(place)}"),
        *[sf.col(quoted(n)).alias(f"{side}_v{i}") for i, n in enumerate(values)],
        sf.lit(1).alias(side),
    )


def _differs(frame: DataFrame, name: str, i: int) -> Column:
    ours, theirs = sf.col(f"o_v{i}"), sf.col(f"r_v{i}")
    same = ours.eqNullSafe(theirs)
    if isinstance(frame.schema[name].dataType, (DoubleType, FloatType)):
        most = sf.greatest(sf.lit(1.0), sf.abs(ours), sf.abs(theirs))
        same = same | sf.coalesce(sf.abs(ours - theirs) <= FLOAT_TOLERANCE * most, sf.expr("false"))
    return sf.when(~same, sf.lit(i))
