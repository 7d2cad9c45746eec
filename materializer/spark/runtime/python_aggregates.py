"""Aggregates written in Python: registered in a session as grouped pandas functions, and refused where none is."""

from __future__ import annotations

import warnings
from collections.abc import Container

from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from materializer.core.aggregates.python import PythonAggregate
from materializer.core.aggregates.registry import find
from materializer.core.compiled.definition import Definition
from materializer.errors import UsageError


def register(spark: SparkSession, aggregate: PythonAggregate) -> None:
    """Make *aggregate* callable in SQL expressions of *spark*'s session; no other session sees it."""
    with warnings.catch_warnings():
        # the kind of function is given by name, because a user's function has no type hints that Spark could read
        warnings.simplefilter("ignore", UserWarning)
        function = pandas_udf(aggregate.function, aggregate.returns, PandasUDFType.GROUPED_AGG)
    spark.udf.register(aggregate.name, function)


def refuse_unknown(definition: Definition, known: Container[str]) -> None:
    """Refuse a definition that uses an aggregate in Python which this process does not know.

    Raises:
        UsageError: Naming them.
    """
    used = {call.function for m in definition.spec.measures for call in m.formula.calls if find(call.function) is None}
    if missing := sorted(name for name in used if name not in known):
        raise UsageError(
            f"'{definition.spec.name}' uses the Python aggregate {', '.join(missing)}, which this process does not know",
            hint="name it in python_aggregates of materializer.toml, or pass it to Materializer(python_aggregates=…)",
        )
