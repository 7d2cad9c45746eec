"""What plain Spark says of a statement as its user typed it, before anything is written."""

from __future__ import annotations

from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from materializer.core.language.as_typed import BUCKET, as_typed
from materializer.core.spec.spec import AggregateSpec


def refusal_of_text(spark: SparkSession, spec: AggregateSpec, source_schema: st.StructType) -> AnalysisException | None:
    """Return why Spark refuses the text of a definition; None if it takes it, or if there is no text that it can run.

    Each of its expressions may be right alone, and the statement wrong: `verify`, which runs the text, would fail for good.

    Args:
        spark: A session with UTC and ANSI on.
        spec: The definition with the types of its calls.
        source_schema: The schema of the source.
    """
    view = f"mz_{uuid4().hex}"
    typed = as_typed(spec, view)
    if typed is None:
        return None
    rows = spark.createDataFrame([], source_schema)
    if typed.needs_bucket:
        edge = sf.col(f"`{spec.time_column.replace('`', '``')}`")
        rows = rows.withColumn(BUCKET, sf.struct(edge.alias("start"), edge.alias("end")))
    rows.createOrReplaceTempView(view)
    try:
        _ = spark.sql(typed.text).schema  # a remote session analyses no sooner
    except AnalysisException as exc:
        return exc
    finally:
        spark.catalog.dropTempView(view)
    return None
