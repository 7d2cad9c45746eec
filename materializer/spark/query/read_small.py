"""Rows of small tables that the driver reads itself, because planning a Spark scan would take longer than the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from materializer.budget import Budget
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.spec.spec import TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake import places
from materializer.lake.keys import Within
from materializer.lake.local_read import files_inside, read_small_rows
from materializer.spark.query import compute as c

_PLAIN: Final = re.compile(
    r"tinyint|smallint|int|bigint|float|double|boolean|string|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)"
)
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
"""Characters that Spark takes for a pattern of paths."""
_HIDDEN: Final = re.compile(r"(^|/)[._][^/]*$|\._COPYING_$")
"""Names of files that Spark leaves out where it reads Parquet, though they may be files of a table."""
LISTED: Final = 32
"""Maximum number of files that Spark looks at without a job (``spark.sql.sources.parallelPartitionDiscovery.threshold``)."""


def raw_rows(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    spans: SpanSet,
    within: Within | None = None,
) -> DataFrame:
    """Return at least the rows of a source that lie in *spans*, with at least the columns that the definition reads.

    Rows with other values than those of *within* are not wanted.
    """
    found = picked_raw(spark, budget, definition, source, version, spans, within)
    return opened_raw(spark, definition, source, version, spans, within) if found is None else found


def picked_raw(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    spans: SpanSet,
    within: Within | None = None,
) -> DataFrame | None:
    """Return the rows of a source that lie in *spans*, which the driver picks; None if Spark has to read them."""
    if not is_readable(definition, source):
        return None
    types, at = dict(definition.spec.read_types), definition.spec.time_column
    found = _picked(budget, source.path, version, list(types), spans, at, definition.time_type, budget.raw, within)
    return None if found is None else c.frame_of(spark, found, types)


def opened_raw(
    spark: SparkSession,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    spans: SpanSet,
    within: Within | None = None,
) -> DataFrame:
    """Return the rows of :func:`raw_rows` as Spark reads them: of the files around one span, or of the table."""
    if is_readable(definition, source):
        spec = definition.spec
        rows = _rows_of_files(
            spark, source.path, version, dict(spec.read_types), spans, spec.time_column, definition.time_type, within
        )
        if rows is not None:
            return rows
    return c.read_version(spark, source, version)


def _rows_of_files(
    spark: SparkSession,
    path: str,
    version: int,
    types: Mapping[str, str],
    spans: SpanSet,
    at: str,
    time_type: TimeType,
    within: Within | None = None,
) -> DataFrame | None:
    """Return the rows of the files around a span, chosen here as Delta chooses them; None if Delta has to read them.

    Delta would choose them by a query of its own, with its own plan, classes and job. A store would be asked for each file, and more
    than :data:`LISTED` files would be looked at in a job.
    """
    if len(spans) != 1 or not places.is_local(path) or any("collate" in kind for kind in types.values()):
        return None
    names = files_inside(path, version, list(types), spans, time=at, time_type=time_type, within=within)
    if not names or len(names) > LISTED or _PATTERN.search("".join([path, *names])) or any(map(_HIDDEN.search, names)):
        return None
    if any(places.missing_of(path, names)):  # Delta's reader says what is gone
        return None
    schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
    return spark.read.schema(schema).parquet(*(f"{path}/{name}" for name in names))


def is_readable(definition: Definition, source: SourceIdentity) -> bool:
    """Return whether the driver can read the columns of a source that a definition reads."""
    spec, types = definition.spec, dict(definition.spec.read_types)
    named = {spec.time_column, *([spec.sequence] if spec.sequence else ())}
    is_stored = not isinstance(source, c.ComputedSource) and not source.name
    return is_stored and named <= types.keys() and all(map(_PLAIN.fullmatch, types.values()))


def kept_rows(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, version: int, spans: SpanSet, *, few: bool
) -> DataFrame:
    """Return at least the stored rows of *spans*; the driver reads them itself if they are *few* in files that are small."""
    types = dict(definition.partial_columns)
    found = picked_slices(spark, budget, path, version, types, spans, definition.time_type) if few else None
    return opened_slices(spark, path, version, types, spans, definition.time_type) if found is None else found


def picked_slices(
    spark: SparkSession,
    budget: Budget,
    path: str,
    version: int,
    types: Mapping[str, str],
    spans: SpanSet,
    time_type: TimeType,
) -> DataFrame | None:
    """Return the rows of *spans* of a table of partials, which the driver picks; None if Spark has to read them."""
    found = _picked(budget, path, version, list(types), spans, SLICE, time_type, budget.raw) if spans else None
    return None if found is None else c.frame_of(spark, found, types)


def opened_slices(
    spark: SparkSession, path: str, version: int, types: Mapping[str, str], spans: SpanSet, time_type: TimeType
) -> DataFrame:
    """Return at least the rows of *spans* of a table of partials as Spark reads them: of the files around one span, or all."""
    rows = _rows_of_files(spark, path, version, types, spans, SLICE, time_type)
    return spark.read.format("delta").option("versionAsOf", version).load(path) if rows is None else rows


def _picked(
    budget: Budget,
    path: str,
    version: int,
    columns: list[str],
    spans: SpanSet,
    at: str,
    time_type: TimeType,
    most: int,
    within: Within | None = None,
) -> pa.Table | None:
    """Return the rows of *spans* if they are at most *most*; None if Spark has to read them."""
    found = read_small_rows(
        path,
        version,
        columns,
        spans,
        time=at,
        time_type=time_type,
        max_rows=budget.opened,
        max_bytes=budget.bytes,
        is_exact=True,
        within=within,
    )
    return None if found is None or found.num_rows > most else found
