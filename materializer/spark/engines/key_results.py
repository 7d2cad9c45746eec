"""The rows of a run that replaces only the results of some keys: raw rows of these keys, and their stored results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.bucket_sql import instant_of_sql, spans_sql
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.engines.work import Key, KeySlices
from materializer.core.refresh.plan import OPENED
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.engine_rows import MOST_OPENED
from materializer.lake.key_rows import is_replaced, values_of
from materializer.lake.local_read import read_rows_of_keys, read_small_rows
from materializer.spark.query import compute as c
from materializer.spark.query import read_small

_AT = "materializer slice"
_FROM, _UPTO = "materializer from", "materializer upto"


def source_rows(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    spans: SpanSet,
    keys: Sequence[Key],
) -> tuple[DataFrame, bool]:
    """Return at least the source rows of some keys in *spans*, and whether the driver read them; it skips all other rows.

    Args:
        spark: A session.
        budget: What the driver holds.
        definition: The definition.
        source: The source.
        version: The version of the source.
        spans: Spans around the rows.
        keys: The keys.
    """
    names, spec = [name for name in definition.key_sources if name], definition.spec
    if len(names) == len(spec.keys) and read_small.is_readable(definition, source):
        types = dict(spec.read_types)
        found = read_rows_of_keys(
            source.path,
            version,
            list(types),
            spans,
            keys,
            names,
            time=spec.time_column,
            time_type=definition.time_type,
            max_rows=budget.raw,
            max_bytes=budget.bytes,
            max_opened=OPENED * budget.opened,
        )
        if found is not None:
            return c.frame_of(spark, found, types), True
    frame = c.read_version(spark, source, version)
    return c.with_values(definition, frame, values_of(definition.key_sources, keys)), False


def stored_rows(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, version: int, only: KeySlices
) -> DataFrame:
    """Return the stored results that a run replaces; the driver reads them if they are few."""
    types = dict(definition.partial_columns)
    found = _read(budget, definition, path, version, only)
    if found is not None:
        return c.frame_of(spark, found, types).select(*map(quoted, types))
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    frame = frame.withColumn(_AT, sf.expr(instant_of_sql(SLICE, definition.time_type)))
    whole = frame.where(spans_sql(SLICE, only.whole, definition.time_type))
    names = [key_column(k.name) for k in definition.spec.keys]
    rows = [(*key, _clamped(s.start), _clamped(s.end)) for key, own in only.of_keys for s in own]
    fields = [f"`r_{i}` {types[name]}" for i, name in enumerate(names)]
    groups = spark.createDataFrame(rows, ", ".join([*fields, f"`{_FROM}` bigint", f"`{_UPTO}` bigint"]))
    tests = [f"{quoted(name)} <=> r_{i}" for i, name in enumerate(names)]
    tests += [f"`{_AT}` >= `{_FROM}`", f"`{_AT}` < `{_UPTO}`"]
    keyed = frame.join(sf.broadcast(groups), sf.expr(" AND ".join(tests)), "left_semi")
    return (keyed.unionByName(whole) if only.whole else keyed).select(*map(quoted, types))


def _read(budget: Budget, definition: Definition, path: str, version: int, only: KeySlices) -> pa.Table | None:
    types, kind = list(dict(definition.partial_columns)), definition.time_type
    names = [key_column(k.name) for k in definition.spec.keys]
    found = read_rows_of_keys(
        path,
        version,
        types,
        only.keyed,
        only.keys,
        names,
        time=SLICE,
        time_type=kind,
        max_rows=budget.passed,
        max_bytes=budget.bytes,
        max_opened=MOST_OPENED,
    )
    if found is not None and only.whole:
        whole = read_small_rows(
            path,
            version,
            types,
            only.whole,
            time=SLICE,
            time_type=kind,
            max_rows=budget.passed,
            max_bytes=budget.bytes,
            is_exact=True,
        )
        found = None if whole is None else pa.concat_tables([found, whole])
    return None if found is None else found.filter(pa.array(is_replaced(found, names, SLICE, kind, only)))


def _clamped(instant: int) -> int:
    return max(-(2**62), min(2**62, instant))
