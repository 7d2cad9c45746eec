"""What computing a plan gives, whichever executor computed it: rows that were fetched, or that are still in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from materializer.core.engines.work import KeySlices
from materializer.core.time.spans import SpanSet

Rows: TypeAlias = Any
"""An Arrow table, or a frame of Spark."""


class Fewer(Struct, frozen=True):
    """Buckets, or slices of an engine's results, for which a recompute counted too few raw rows.

    Args:
        buckets: Number of buckets with fewer rows.
        rows: Number of missing rows in all, beyond the deleted rows that capture has seen.
        first: Start of the first such bucket.
        last: Start of the last such bucket; for an engine, the slice up to which most rows are missing.
        was: Stored row count of the first bucket; for an engine, the stored count of all results up to *last*.
        now: The recomputed count in place of *was*.
    """

    buckets: int
    rows: int
    first: int
    last: int
    was: int
    now: int


class Computed(Struct):
    """The computed rows of a plan, either fetched (driver's lane) or still in Spark.

    Args:
        partials: New partials.
        output: Finalised rows of the output.
        rows: Number of rows of *partials*.
        output_rows: Number of rows of *output*, if known.
        buckets: Number of distinct buckets among them.
        rows_read: Number of source rows that were aggregated.
        group: Job group of the Spark jobs, to count them; "" if Spark computed nothing.
        spans: The spans to replace, if a gate withheld some of the plan's buckets; None for all of the plan.
        metrics: Values of SQL aggregates over *output* that were evaluated on the way, by SQL.
        is_fetched: Whether the rows are in the driver; else they are in Spark.
        only: The stored results of an engine that the rows replace, where other keys of the same slices stay; None for whole slices.
    """

    partials: Rows
    output: Rows
    rows: int
    output_rows: int
    buckets: int
    rows_read: int
    group: str
    cached: list[Any] = field(default_factory=list)
    spans: SpanSet | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    is_fetched: bool = True
    only: KeySlices | None = None

    @property
    def is_local(self) -> bool:
        """Whether Spark computed nothing of it."""
        return not self.group
