"""Spark's analysis of an engine's definition: the types of its query over an empty frame."""

from __future__ import annotations

from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.compile import compile_engine, result_layout
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.grid import build, slices
from materializer.core.time.spans import SpanSet
from materializer.errors import DefinitionError, Problem
from materializer.spark.describe.refusals import quoted_in
from materializer.spark.engines.run import prepared, results, schema_of
from materializer.spark.query import compute as c


def stored_schemas(
    spark: SparkSession, spec: AggregateSpec, source: st.StructType
) -> tuple[st.StructType, st.StructType]:
    """Return the columns of the partials table and of the output of an engine's definition.

    Args:
        spark: A session with UTC and ANSI on.
        spec: The definition, resolved, with the types of its arguments.
        source: The schema of the source.

    Raises:
        DefinitionError: If Spark refuses an expression.
    """
    definition = unstored(spec)
    raw = spark.createDataFrame([], source)
    try:
        frame = results(definition, prepared(definition, raw), ClosingClock(origin=0, as_of=0, global_max=0))
    except AnalysisException as exc:
        message = str(exc).split("\n", 1)[0].split(" SQLSTATE:", 1)[0]
        message = f"{spec.name}: {message}"
        raise DefinitionError([Problem("definition.invalid-expression", message, about=quoted_in(exc))]) from exc
    stored = st.StructType(schema_of(frame))
    columns = tuple((f.name, f.dataType.simpleString()) for f in stored)
    output = c.finalise(with_layout(definition, columns), spark.createDataFrame([], stored), SpanSet())
    return stored, output.schema


def unstored(spec: AggregateSpec) -> Definition:
    """Return the compiled form of a definition whose tables do not exist yet."""
    if spec.time_type is None:
        msg = f"'{spec.name}' is not resolved against its source"
        raise ValueError(msg)
    engine = compile_engine(spec)
    grid = slices(build(spec.grid, spec.time_type, spec.resolution))
    return Definition(spec, result_layout(spec, [(SLICE, "")], engine.layout), grid, (), (), engine)


def with_layout(definition: Definition, columns: tuple[tuple[str, str], ...]) -> Definition:
    """Return a compiled form with its stored columns."""
    if definition.engine is None:
        return definition
    return replace(
        definition,
        layout=result_layout(definition.spec, columns, definition.engine.layout),
        partial_columns=columns,
    )
