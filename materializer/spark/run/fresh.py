"""Rows that are computed when somebody asks for them; fetched, they come with what it took.

Spark counts what passes a frame once, in its first evaluation, whoever makes it and whatever part of the rows they want. So
rows that are fetched come from a frame that nobody else has had.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, Observation

from materializer.core.refresh.plan import ReadCost
from materializer.spark.query import compute as c
from materializer.spark.runtime.failures import spoken

if TYPE_CHECKING:
    from materializer.spark.run.spark import Engine

Observed: TypeAlias = tuple[DataFrame, list[Observation]]
"""Rows, and where the source rows that they are made from are counted once they were computed."""


class OnTheFly:
    """Rows of an always-fresh read.

    Args:
        engine: Computes them.
        build: Makes their frame; called at once, so that what Spark refuses is known, and again for each further one.
        table: The source, for what errors say.
        version: Its version.
    """

    def __init__(self, engine: Engine, build: Callable[[], Observed], *, table: str, version: int) -> None:
        self._engine = engine
        self._build = build
        self._table = table
        self._version = version
        self._unused: list[Observed] = [build()]
        self._frame: DataFrame | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows as a frame, always the same one."""
        if self._frame is None:
            self._frame, _ = self.taken()
        return self._frame

    def fetch(self, limit: int | None) -> tuple[pa.Table, ReadCost]:
        """Return the rows and what fetching them took.

        Args:
            limit: How many at most, the largest by their first column; None for all.
        """
        began, group = time.perf_counter(), f"materializer-{uuid4().hex}"
        frame, counts = self.taken()
        if limit is not None:
            frame = frame.orderBy(frame.columns[0], ascending=False).limit(limit)
        with self._engine.counted(group), spoken("computing what is dirty", table=self._table, version=self._version):
            table = frame.toArrow()  # collected instants would lose their zone
            rows = sum(map(c.rows_seen, counts))
        return table, ReadCost(rows, self._engine.jobs_in(group), round(time.perf_counter() - began, 3))

    def taken(self) -> Observed:
        """Return a frame of the rows that nobody else has had, for a query that has them as a part."""
        return self._unused.pop() if self._unused else self._build()
