"""The rows of an always-fresh read: computed in this process where that is possible, else by Spark."""

# ruff: noqa: PLC0415 - Arrow is imported when rows are fetched

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.core.refresh.plan import Plan, ReadCost
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors.base import masked
from materializer.local.kinds import NotLocal, bugs_left_to_spark

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.local.executor import LocalExecutor
    from materializer.services.aggregate import Aggregate
    from materializer.spark.run.fresh import OnTheFly


class RowsHere(Struct, frozen=True):
    """Rows that this process computes and reads.

    Args:
        local: What computes them.
        aggregate: The aggregate.
        plan: The dirty buckets, and how they are computed.
        inside: The buckets that are wanted.
        hull: The span in which the source has rows, if known.
    """

    local: LocalExecutor
    aggregate: Aggregate
    plan: Plan
    inside: SpanSet
    hull: Span | None

    def fetch(self, limit: int | None) -> tuple[pa.Table, ReadCost]:
        """Return the rows, and the cost of fetching them.

        Args:
            limit: Maximum number of rows, taken from the largest by the first column; None for all.

        Raises:
            NotLocal: If Spark has to compute them.
        """
        import pyarrow as pa

        from materializer.lake.span_rows import rows_of_spans

        began = time.perf_counter()
        aggregate, plan, clean = self.aggregate, self.plan, self.inside - self.plan.replaced
        definition, column = aggregate.definition, aggregate.slice_column("output")
        names = [name for name, _ in definition.output_columns]
        near = None if clean == SpanSet.of(EVERYTHING) else column.values_in(clean)
        path, version = aggregate.paths["output"], plan.output.version
        rows, rows_read = self.local.read(path, version, names, near, column.name, column.type), 0
        if plan.spans:
            partials = aggregate.paths["partials"]
            computed = self.local.compute(definition, aggregate.source, partials, plan, hull=self.hull)
            rows_read = computed.rows_read
            rows = pa.concat_tables([rows, computed.output.select(names).cast(rows.schema)])
        if plan.replaced - self.inside:
            rows = rows_of_spans(rows, column.values_in(self.inside), column.name, column.type)
        if limit is not None:
            if pa.types.is_floating(rows.schema.field(0).type):
                raise NotLocal("an order of doubles")
            keys = [(key.name, "ascending") for key in definition.spec.keys if key.name != names[0]]
            rows = rows.sort_by([(names[0], "descending"), *keys]).slice(0, limit)
        return rows, ReadCost(rows_read, 0, round(time.perf_counter() - began, 3))


class FreshRows:
    """Rows as of one source version, computed when they are fetched.

    Args:
        spark: Returns the rows by Spark; called once.
        here: The rows in this process; None if Spark computes them.
        left: Why Spark computes them, "" if this process does.
    """

    def __init__(self, spark: Callable[[], OnTheFly], here: RowsHere | None, left: str) -> None:
        self._spark = spark
        self._found: OnTheFly | None = None
        self._here = here
        self.left_to_spark = left

    @property
    def by_spark(self) -> OnTheFly:
        """The rows by Spark."""
        if self._found is None:
            self._found = self._spark()
        return self._found

    def fetch(self, limit: int | None) -> tuple[pa.Table, ReadCost]:
        """Return the rows and the cost of fetching them.

        Args:
            limit: Maximum number of rows, taken from the largest by the first column; None for all.
        """
        if self._here is not None:
            try:
                with bugs_left_to_spark():
                    return self._here.fetch(limit)
            except NotLocal as exc:
                self._here, self.left_to_spark = None, masked(str(exc))
        return self.by_spark.fetch(limit)
