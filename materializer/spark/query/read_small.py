"""Rows of small tables that the driver reads itself, because planning a Spark scan would take longer than the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from materializer.config import Budget
from materializer.core.compiled.definition import SLICE, Definition, quoted
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake import places
from materializer.lake.keys import Within
from materializer.lake.local_read import files_inside, read_small_rows, rows_of_spans
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
FEW: Final = 64
"""Maximum number of spans for which the driver picks rows itself; with more spans Spark filters."""


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
    if not is_readable(definition, source):
        return c.read_version(spark, source, version)
    types, at = dict(definition.spec.read_types), definition.spec.time_column
    found = _picked(budget, source.path, version, list(types), spans, at, definition.time_type, budget.raw, within)
    if found is not None:
        return c.frame_of(spark, found, types)
    rows = _rows_of_files(spark, definition, source.path, version, spans, within) if len(spans) == 1 else None
    return c.read_version(spark, source, version) if rows is None else rows


def _rows_of_files(
    spark: SparkSession, definition: Definition, path: str, version: int, spans: SpanSet, within: Within | None
) -> DataFrame | None:
    """Return the rows of the files around a span, chosen here as Delta chooses them; None if Delta has to read them.

    Delta would choose them by a query of its own, with its own plan, classes and job. A store would be asked for each file, and more
    than :data:`LISTED` files would be looked at in a job.
    """
    spec, types = definition.spec, dict(definition.spec.read_types)
    if not places.is_local(path):
        return None
    names = files_inside(
        path, version, list(types), spans, time=spec.time_column, time_type=definition.time_type, within=within
    )
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
    return rows_inside(spark, budget, path, version, types, spans, time_type=definition.time_type, few=few)


def rows_inside(
    spark: SparkSession,
    budget: Budget,
    path: str,
    version: int,
    types: Mapping[str, str],
    spans: SpanSet,
    *,
    time_type: TimeType,
    few: bool,
) -> DataFrame:
    """Return at least the rows of *spans* of a table of partials, with at least the columns of *types*; see :func:`kept_rows`."""
    found = None
    if few and spans:
        found = _picked(budget, path, version, list(types), spans, SLICE, time_type, budget.passed)
    if found is None:
        return spark.read.format("delta").option("versionAsOf", version).load(path)
    return c.frame_of(spark, found, types)


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
    """Return at least the rows of *spans*, but at most *most* rows; None if Spark has to read them."""
    is_picked = len(spans) <= FEW
    max_rows = budget.opened if is_picked else budget.raw
    found = read_small_rows(
        path,
        version,
        columns,
        spans,
        time=at,
        time_type=time_type,
        max_rows=max_rows,
        max_bytes=budget.bytes,
        within=within,
    )
    if found is not None and is_picked:
        found = rows_of_spans(found, spans, at, time_type)
    return None if found is None or found.num_rows > most else found
