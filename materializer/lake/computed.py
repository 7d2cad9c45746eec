"""What computing a plan gives, whichever executor computed it: rows that were fetched, or that are still in Spark."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.work import KeySlices
from materializer.core.time.spans import SpanSet

if TYPE_CHECKING:
    import pyarrow as pa

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

    @classmethod
    def beside(
        cls, definition: Definition, table: pa.Table, rows_read: int = 0, group: str = "", **more: Any
    ) -> Computed:
        """Return what a fetched table of partials and output side by side has; see :func:`apart`."""
        import pyarrow.compute as pc

        partials, output = apart(definition, table)
        buckets = pc.count_distinct(partials[SLICE]).as_py() if partials.num_rows else 0
        return cls(partials, output, partials.num_rows, output.num_rows, buckets, rows_read, group, **more)

    @property
    def is_local(self) -> bool:
        """Whether Spark computed nothing of it."""
        return not self.group


def apart(definition: Definition, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return (partials, output) of a fetched table that has them side by side, as :func:`~.core.compiled.queries.beside` makes it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from materializer.core.compiled.queries import FINAL, PASSES, twice

    stored = twice(definition)
    through = table.filter(table[PASSES]) if definition.layout.having else table
    output = {}
    for i, name in enumerate(definition.spec.columns):
        column, field = stored.get(i, (FINAL + str(i), ""))
        output[name] = pc.struct_field(through[column], field) if field else through[column]
    return table.select([name for name, _ in definition.partial_columns]), pa.table(output)
