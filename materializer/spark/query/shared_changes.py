"""The change feed of a source that several aggregates of a command read by Spark: read once, and left in Spark until the last has ended."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from materializer.core.spec.table_names import quoted
from materializer.journal.events import SourceIdentity
from materializer.lake.reads import table_at
from materializer.spark.query import compute as c
from materializer.spark.runtime.jvm import death_behind

_OF_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def shared_changes(spark: SparkSession, source: SourceIdentity, after: int, upto: int) -> DataFrame:
    """Return the change feed of (after, upto] with at least the columns that definitions over the source read.

    A suite of source rows may ask for other columns, which :func:`materializer.spark.query.compute.read_changes` has.

    Shape:
        As there, without columns that no aggregate of the block reads.
    """
    table = table_at(source.path)
    if table is None or not table.is_shared:
        return c.read_changes(spark, source, after, upto)

    def read() -> DataFrame:
        frame, wanted = c.read_changes(spark, source, after, upto), {name.lower() for name in table.columns}
        columns = [name for name in frame.columns if name.lower() in wanted or name in _OF_FEED]
        shared = frame.select(*map(quoted, columns)).persist()
        table.at_end(lambda: _free(shared))
        return shared

    return table.fact((spark, source, after, upto), read)


def _free(frame: DataFrame) -> None:
    try:
        frame.unpersist()
    except Exception as exc:
        if death_behind(exc) is None:  # a dead JVM has released its memory
            raise
