"""Rows that are computed at the time of a read; when they are fetched, their cost is returned too.

Spark counts the rows that pass a frame only once, in the frame's first evaluation, even if that evaluation reads only a part of
the rows. So a fetch always uses a frame that nothing else has used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession

from materializer.core.refresh.plan import ReadCost
from materializer.spark.query import compute as c
from materializer.spark.run import options
from materializer.spark.runtime.failures import spoken

Observed: TypeAlias = tuple[DataFrame, list[Observation]]
"""Rows, and the observations that count their source rows during the computation."""


class OnTheFly:
    """Rows of an always-fresh read.

    Args:
        spark: The session that computes the rows.
        build: Returns a new frame of the rows. It is called at once, so that an error of Spark shows early, and again for each
            further frame.
        table: The source, for error messages.
        version: The source version.
    """

    def __init__(self, spark: SparkSession, build: Callable[[], Observed], *, table: str, version: int) -> None:
        self._spark = spark
        self._build = build
        self._table = table
        self._version = version
        self._unused: list[Observed] = [build()]
        self._frame: DataFrame | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows as a frame, the same one at each access."""
        if self._frame is None:
            self._frame, _ = self.taken()
        return self._frame

    def fetch(self, limit: int | None) -> tuple[pa.Table, ReadCost]:
        """Return the rows and the cost of fetching them.

        Args:
            limit: Maximum number of rows, taken from the largest by the first column; None for all.
        """
        began, group = time.perf_counter(), f"materializer-{uuid4().hex}"
        frame, counts = self.taken()
        if limit is not None:
            frame = frame.orderBy(frame.columns[0], ascending=False).limit(limit)
        with (
            options.counted(self._spark, group),
            spoken("computing what is dirty", table=self._table, version=self._version),
        ):
            table = frame.toArrow()  # `collect` would lose the time zone of instants
            rows = sum(map(c.rows_seen, counts))
        return table, ReadCost(rows, options.jobs_in(self._spark, group), round(time.perf_counter() - began, 3))

    def taken(self) -> Observed:
        """Return a frame of the rows that nothing else has used, for a query that contains it."""
        return self._unused.pop() if self._unused else self._build()
