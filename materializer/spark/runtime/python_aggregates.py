"""Register aggregates written in Python in a session, as grouped pandas functions."""

from __future__ import annotations

import warnings

from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from materializer.core.aggregates.python import PythonAggregate


def register(spark: SparkSession, aggregate: PythonAggregate) -> None:
    """Make *aggregate* callable in SQL expressions of *spark*'s session; no other session sees it."""
    with warnings.catch_warnings():
        # the kind of function is given by name, because a user's function has no type hints that Spark could read
        warnings.simplefilter("ignore", UserWarning)
        function = pandas_udf(aggregate.function, aggregate.returns, PandasUDFType.GROUPED_AGG)
    spark.udf.register(aggregate.name, function)
