"""Limits of Spark that hold inside a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def result_limit(spark: SparkSession, limit: str) -> Iterator[None]:
    """Let Spark's results be no larger than *limit* inside the block."""
    conf: Any = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", limit)
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")
