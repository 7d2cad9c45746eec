"""Settings of Spark around a query, restored after it: how it is planned, and under which group its jobs are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from materializer.core.aggregates.registry import find
from materializer.core.compiled.definition import Definition
from materializer.spark.runtime.connect import is_connect
from materializer.spark.runtime.jvm import death_behind

_GROUP_KEYS: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_SIMPLE: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
_INTERPRETED: Final = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_PLAIN: Final = {*_NUMBERS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", ""}
"""Types of arguments, without their sizes; the empty text stands for the star of ``count(*)``."""


def is_plain(definition: Definition) -> bool:
    """Return whether only aggregates of ours over plain values are computed, so that few rows need no compilation.

    Compiled and interpreted projections should give the same result, but they do not for strings with a collation: Spark 4.1
    does not copy such a string into an interpreted buffer (``InternalRow.getWriter`` knows plain strings only), so a later
    row overwrites it.
    """
    spec = definition.spec
    calls = [c for f in [*(m.formula for m in spec.measures), spec.having] if f is not None for c in f.calls]
    types = {of.partition("(")[0] for call in calls for of in call.types}
    known = all(find(call.function) is not None and len(call.types) == len(call.args) for call in calls)
    return definition.engine is None and known and types <= _PLAIN


def jobs_in(spark: SparkSession, group: str) -> int | None:
    """Return how many Spark jobs ran under a group; None if Spark does not count them (Connect), 0 if it is dead."""
    if is_connect(spark):
        return None
    try:
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    except (PySparkException, AttributeError):
        return 0
    except Exception as exc:
        if death_behind(exc) is None:  # the count comes after the work, which stays done
            raise
        return 0


@contextmanager
def planned_simply(spark: SparkSession, *, compiles: bool) -> Iterator[None]:
    """Run the block's query without stage compilation and re-planning, which take longer than running it over few rows.

    Args:
        spark: The session of the query.
        compiles: Whether Spark still compiles projections, each on its own.
    """
    values = _SIMPLE if compiles else {**_SIMPLE, **_INTERPRETED}
    before = {name: spark.conf.get(name) for name in values}

    def put_back() -> None:
        for name, value in before.items():
            spark.conf.set(name, str(value))

    for name, value in values.items():
        spark.conf.set(name, value)
    with _afterwards(put_back):
        yield


@contextmanager
def counted(spark: SparkSession, group: str) -> Iterator[None]:
    """Count the jobs of the block under a group, then restore the thread's own group."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in _GROUP_KEYS}

    def put_back() -> None:
        for key, value in before.items():
            # the annotation says `str`, but None removes a property in Spark
            context.setLocalProperty(key, value)  # type: ignore[arg-type]

    context.setJobGroup(group, "materializer")
    with _afterwards(put_back):
        yield


@contextmanager
def _afterwards(put_back: Callable[[], None]) -> Iterator[None]:
    """Restore JVM settings after a block; an error of the block takes precedence over an error of the restore (dead JVM)."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            put_back()
        raise
    put_back()
