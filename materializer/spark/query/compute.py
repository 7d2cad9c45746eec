"""The one query of a refresh: it turns raw rows or stored partials into new partials and finalised rows.

Internal column names: ``slice`` (start of the bucket), ``k_<key>`` and ``p_…`` (partials). Output columns have the
names of the definition. Every frame uses only the public DataFrame API, so that it also runs over Spark Connect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from msgspec import Struct, field
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from materializer.core.compiled import queries
from materializer.core.compiled.bucket_sql import bucket_start_sql, ends_sql, instant_of_sql, spans_sql
from materializer.core.compiled.definition import FROM, SLICE, Definition
from materializer.core.compiled.queries import FINAL, PASSES
from materializer.core.query.nodes import Named
from materializer.core.spec.table_names import in_sql, quoted
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.keys import Within
from materializer.lake.rows import refuse_unfit_changes, refuse_unfit_files
from materializer.spark.query.catalogs import refuse_moved
from materializer.spark.query.render import aggregated, named, rendered
from materializer.spark.runtime.connect import is_connect
from materializer.spark.runtime.failures import is_too_large
from materializer.spark.runtime.jvm import death_behind
from materializer.structs import ComparedInPart

METRICS: Final = "metrics"
"""Name of what a query observes on its way; see :func:`metrics_of`."""
MOST_VALUES: Final = 64
"""Most values of a key that a query names; of more, it names the smallest and the largest."""
SKIPPED_BY: Final = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint"})
"""Types of key columns that are compared with literals, so that Delta skips files."""


class ComputedSource(ComparedInPart, SourceIdentity, frozen=True):
    """A table whose rows are computed, because the stored rows are incomplete at its version.

    Args:
        build: Returns a new frame of all rows, and the observations that count the rows it is made from.
        counts: The observations of all frames that were built.
    """

    _UNCOMPARED: ClassVar = frozenset({"counts"})

    build: Callable[[], tuple[DataFrame, list[Observation]]] | None = None
    counts: list[Observation] = field(default_factory=list)

    def frame(self) -> DataFrame:
        """Return all rows."""
        if self.build is None:
            msg = f"nothing computes the rows of {self.path}"
            raise ValueError(msg)
        frame, counts = self.build()
        self.counts.extend(counts)
        return frame

    def counted(self) -> list[Observation]:
        """Return the observations of the frames that were built since the last call."""
        found = list(self.counts)
        self.counts.clear()
        return found


def read_version(spark: SparkSession, source: SourceIdentity, version: int) -> DataFrame:
    """Read a table at a pinned version: its stored rows or, for a :class:`ComputedSource`, its computed rows."""
    if isinstance(source, ComputedSource):
        return source.frame()
    refuse_unfit_files(source.path, version)
    return _opened(spark, spark.read.format("delta").option("versionAsOf", version), source)


def _opened(spark: SparkSession, reader: DataFrameReader, source: SourceIdentity) -> DataFrame:
    """Return the rows of a table: by its name, which its catalog may guard, where it has one."""
    if not source.name:
        return reader.load(source.path)
    refuse_moved(spark, source)
    return reader.table(in_sql(source.name))


def read_changes(spark: SparkSession, source: SourceIdentity, after: int, upto: int) -> DataFrame:
    """Read the change feed of (after, upto].

    Shape:
        The source's columns, ``_change_type``, ``_commit_version``, ``_commit_timestamp``; one row per changed row and
        image.
    """
    refuse_unfit_changes(source.path, after, upto)
    reader = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", after + 1)
        .option("endingVersion", upto)
    )
    return _opened(spark, reader, source)


def read_images(spark: SparkSession, source: SourceIdentity, after: int, upto: int, images: Sequence[str]) -> DataFrame:
    """Read some images of the rows changed in (after, upto] from the change feed.

    Shape:
        The source's columns; one row per changed row and image.
    """
    return of_images(read_changes(spark, source, after, upto), images)


def of_images(feed: DataFrame, images: Sequence[str]) -> DataFrame:
    """Return some images of the rows of a change feed, with the columns of the source."""
    frame = feed.where(sf.col("_change_type").isin(*images))
    return frame.drop("_change_type", "_commit_version", "_commit_timestamp")


def relevant_rows(definition: Definition, frame: DataFrame, spans: SpanSet) -> DataFrame:
    """Return the source rows that count: they have a time inside *spans* and pass WHERE."""
    spec, column = definition.spec, quoted(definition.spec.time_column)
    frame = frame.where(f"{column} IS NOT NULL")
    if spans != SpanSet.of(EVERYTHING):
        frame = frame.where(spans_sql(column, spans, definition.time_type))
    return frame.where(spec.where) if spec.where else frame


def bucket_of(definition: Definition, inside: SpanSet) -> str:
    """Return SQL of the start of the bucket of a source row with a time in *inside*, as an instant."""
    start = bucket_start_sql(definition.grid, quoted(definition.spec.time_column), inside)
    return instant_of_sql(start, definition.time_type)


def slice_of(definition: Definition) -> str:
    """Return SQL of the start of the bucket of a partial row, as an instant."""
    return instant_of_sql(SLICE, definition.time_type)


def only_groups(definition: Definition, rows: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the source rows of some groups.

    Args:
        definition: The definition.
        rows: Source rows, with the start of their part.
        groups: A :func:`materializer.lake.keys.table_of` the groups.
    """
    of_groups = Named("groups", queries.group_columns(definition.key_types))
    return rendered(queries.only_groups(definition, named("rows", rows), of_groups), {"rows": rows, "groups": groups})


def except_groups(definition: Definition, partials: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the partial rows, with the start of their part, that are of none of some groups."""
    of_groups = Named("groups", queries.group_columns(definition.key_types))
    stored = Named("partials", (*definition.partial_columns, (FROM, "bigint")))
    return rendered(queries.other_groups(definition, stored, of_groups), {"partials": partials, "groups": groups})


def with_values(definition: Definition, rows: DataFrame, within: Within) -> DataFrame:
    """Return at least the rows with some values; Delta skips files by the predicate."""
    types = dict(definition.spec.read_types)
    for name, values in within.items():
        if types.get(name) in SKIPPED_BY:
            column, known = sf.col(quoted(name)), sorted(v for v in values if v is not None)
            # each value that is named is a call into the JVM, and the rows are joined with their groups anyway
            is_wanted = column.isin(known) if len(known) <= MOST_VALUES else column.between(known[0], known[-1])
            rows = rows.where(is_wanted | column.isNull() if None in values else is_wanted)
    return rows


def build(definition: Definition, rows: DataFrame, spans: SpanSet, unobserved: DataFrame | None = None) -> DataFrame:
    """Return the partials of *rows*, which lie inside *spans*.

    Args:
        definition: The definition to compute.
        rows: The source rows that count.
        spans: Spans that contain the times of the rows.
        unobserved: The same rows without an observation; see :func:`~materializer.spark.query.render.rendered`.

    Shape:
        ``slice``, keys, partial columns. Grain (slice, keys).
    """
    start = bucket_start_sql(definition.grid, quoted(definition.spec.time_column), spans)
    query = queries.built(definition, Named("rows", definition.spec.read_types), start)
    return rendered(query, {"rows": rows}, None if unobserved is None else {"rows": unobserved})


def merge(definition: Definition, came: Sequence[DataFrame], went: Sequence[DataFrame] = ()) -> DataFrame:
    """Return the partials of the rows behind *came* less those behind *went*; see :func:`.queries.merged`."""
    frames = {str(i): frame for i, frame in enumerate((*came, *went))}
    parts = [Named(name, definition.partial_columns) for name in frames]
    return rendered(queries.merged(definition, parts[: len(came)], parts[len(came) :]), frames)


def kept_partials(definition: Definition, frame: DataFrame, spans: SpanSet) -> DataFrame:
    """Return the rows of the partials table inside *spans*."""
    return frame.where(spans_sql(SLICE, spans, definition.time_type)).select(
        *definition.group_columns, *[p.name for p in definition.layout.partials]
    )


def finalise(definition: Definition, partials: DataFrame, spans: SpanSet) -> DataFrame:
    """Return the output rows of some partials; see :func:`.queries.finalised`."""
    query = queries.finalised(definition, Named("partials", definition.partial_columns), ends_of(definition, spans))
    return rendered(query, {"partials": partials})


def ends_of(definition: Definition, spans: SpanSet) -> dict[str, str]:
    """Return the texts of the end and the last instant of the buckets in *spans*, by output name."""
    return ends_sql(definition.spec, definition.grid, SLICE, spans)


def frame_of(spark: SparkSession, rows: pa.Table, types: Mapping[str, str]) -> DataFrame:
    """Return fetched *rows* as a frame with Spark's types."""
    if not rows.num_rows:  # PySpark fails on columns without a chunk, and over Connect on no rows at all
        return spark.range(0).select(*[sf.lit(None).cast(types[n]).alias(n) for n in rows.column_names])
    # Spark stops at a batch without rows, and files of which no row is wanted leave such batches
    frame = spark.createDataFrame(rows.combine_chunks())
    return frame.select(*[sf.col(quoted(n)).cast(types[n]).alias(n) for n in rows.column_names])


def to_arrow(frame: DataFrame) -> pa.Table:
    """Fetch a frame as an Arrow table.

    Fields of structs are first declared nullable. Otherwise pyarrow cannot read a null struct whose fields are not nullable,
    such as the variance of no value.
    """
    wanted = StructType.fromJson(json.loads(frame.schema.json().replace('"nullable":false', '"nullable":true')))
    columns, is_cast = [], False
    for has, wants in zip(frame.schema, wanted, strict=True):
        column = sf.col(quoted(has.name))
        if has.dataType != wants.dataType:
            column, is_cast = column.cast(wants.dataType).alias(has.name), True
        columns.append(column)
    # over Connect another frame would have to be analysed once more
    return (frame.select(*columns) if is_cast else frame).toArrow()


def few(frame: DataFrame, most: int) -> pa.Table | None:
    """Fetch a frame of up to *most* rows; None if it has more, or more bytes than the driver takes from Spark."""
    try:
        found = to_arrow(frame.limit(most + 1))
    except Exception as exc:
        if not is_too_large(exc):
            raise
        return None
    return found if found.num_rows <= most else None


def reference(
    definition: Definition, rows: DataFrame, spans: SpanSet, extra: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """Return the reference form of a definition: the plain aggregate over raw rows, with the output's columns.

    All other forms are compared with this one, which does not use partials.

    Args:
        definition: The definition to compute.
        rows: The source rows that count.
        spans: Spans that contain the times of the rows.
        extra: Further (name, aggregate) columns, appended.
    """
    spec, grid, layout = definition.spec, definition.grid, definition.layout
    start = bucket_start_sql(grid, quoted(spec.time_column), spans)
    groups = {spec.bucket_start: start} if spec.bucket_start else {}
    groups |= ends_sql(spec, grid, f"({start})", spans)
    groups |= {key.name: key.sql for key in spec.keys}
    columns = {name.lower() for name in rows.columns}
    rows = rows.select("*", *[sf.expr(sql).alias(n) for n, sql in groups.items() if n.lower() not in columns])
    by = {n: sf.expr(sql) if n.lower() in columns else sf.col(quoted(n)) for n, sql in groups.items()}
    grouped = rows.groupBy(*[column.alias(f"g_{n}") for n, column in by.items()])
    measures = [(FINAL + name, sql) for name, sql in layout.reference]
    kept = [(PASSES, layout.having_reference)] if layout.having_reference else []
    foreign = {p.build for p in layout.partials if p.is_foreign}
    frame = aggregated(grouped, [f"g_{n}" for n in by], [*measures, *extra, *kept], foreign)
    if kept:
        frame = frame.where(PASSES)
    names = {n: f"g_{n}" for n in by} | {name: FINAL + name for name, _ in layout.reference}
    return frame.select(*[sf.col(quoted(names[n])).alias(n) for n in spec.columns], *[name for name, _ in extra])


def observed(frame: DataFrame, name: str) -> tuple[DataFrame, Observation]:
    """Return *frame* with a count of the rows that pass it, and the observation of the count; one query may reuse a name."""
    observation = Observation(f"{name}_{uuid4().hex}")
    return frame.observe(observation, sf.count(sf.lit(1)).alias("rows")), observation


class LaterCount(Struct, frozen=True):
    """A count of rows by a query of its own, with the interface of an observation.

    Args:
        frame: The rows.
    """

    frame: DataFrame

    @property
    def get(self) -> dict[str, Any]:
        """The count by its name."""
        return {"rows": self.frame.count()}


def counted(frame: DataFrame, name: str) -> tuple[DataFrame, Observation]:
    """Return *frame* and an observation of its count, for a query that may use the frame more than once; see :func:`build`."""
    if not is_connect(frame.sparkSession):
        return observed(frame, name)
    later: Any = LaterCount(frame)
    return frame, later


def rows_seen(observation: Observation) -> int:
    """Return the count of :func:`observed`, after its frame was computed."""
    return int(_values_of(observation).get("rows", 0))


def metrics_of(observation: Observation, aggregates: Sequence[str]) -> dict[str, Any]:
    """Return the values of the *aggregates* of a combined frame by SQL, after it was computed; none if it had no rows.

    See :func:`materializer.spark.query.fetch.combined`.
    """
    found = _values_of(observation).get(METRICS)
    return {} if found is None else dict(zip(aggregates, found, strict=True))


def _values_of(observation: Observation) -> Mapping[str, Any]:
    """Return the values of an observation by name, after its frame was computed.

    If Spark knows beforehand that there are no rows, it removes the observation from the query; then there is no value.
    """
    try:
        return observation.get
    except Exception as exc:
        if type(exc).__module__.startswith("py4j") and death_behind(exc) is None:
            return {}
        raise
