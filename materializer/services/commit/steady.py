"""Rows of an output with a change feed that stay as they are: readers see no difference in them.

Replaying the feed gives the output exactly. So a row that would differ from the published one only by the last digits of doubles, as
another order of the same rows makes them, is written as it was published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from materializer.config import Config
from materializer.core.compiled.shown import inexact
from materializer.core.engines.work import KeySlices
from materializer.core.refresh.output_feed import is_on
from materializer.core.time.spans import SpanSet
from materializer.lake import output_diff as in_driver
from materializer.local.kinds import NotLocal
from materializer.local.reading import LocalReader
from materializer.services.commit.commit_info import place_of

if TYPE_CHECKING:
    from materializer.services.aggregate import Aggregate
    from materializer.spark.run.spark import Spark


def steady(
    aggregate: Aggregate,
    version: int,
    rows: Any,
    spans: SpanSet,
    only: KeySlices | None,
    config: Config,
    spark: Callable[[], Spark],
    *,
    is_fetched: bool,
) -> Any:
    """Return the output rows of a refresh, those in which readers see no difference as they are published.

    Args:
        aggregate: The aggregate.
        version: The version of the output that the rows go into.
        rows: The rows.
        spans: The spans that they replace.
        only: The results that they replace, where other keys of the same slices stay.
        config: What the driver holds.
        spark: Starts Spark, which reads what the driver does not hold.
        is_fetched: Whether the rows are in the driver; else they are in Spark.
    """
    definition = aggregate.definition
    loose, place = inexact(definition), place_of(aggregate)
    if not loose or not is_on(definition.spec) or (is_fetched and not rows.num_rows):
        return rows
    path = aggregate.paths["output"]
    if is_fetched:
        try:
            return in_driver.steady(rows, _published(aggregate, path, version, spans, only, config), place, loose)
        except NotLocal:
            pass
    frame = spark().read_output(path, version).where(aggregate.predicate("output", spans))
    if is_fetched:
        return in_driver.steady(rows, frame.toArrow(), place, loose)
    from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

    return in_spark.steady(rows, frame.select(*rows.columns), place, loose)


def _published(
    aggregate: Aggregate, path: str, version: int, spans: SpanSet, only: KeySlices | None, config: Config
) -> Any:
    """Return published rows in the place of those of a refresh.

    Raises:
        NotLocal: If Spark has to read them.
    """
    reader, column = LocalReader(config.budget.rows, config.budget.bytes), aggregate.slice_column("output")
    names, near = [name for name, _ in aggregate.definition.output_columns], column.values_in(spans)
    if only is None or only.whole:
        return reader.read(path, version, names, near, column.name, column.type)
    keys = aggregate.order("output")[1:]
    return reader.read_keys(path, version, names, near, only.keys, keys, column.name, column.type)
