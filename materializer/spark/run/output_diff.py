"""The row-by-row change of one version of a table of ours, computed by Spark if it is too large for the driver's memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType

from materializer.core.refresh.output_feed import CHANGE, META, REASON, ChangeType, Reason
from materializer.core.spec.table_names import quoted
from materializer.lake.log import DataFile
from materializer.spark.query.compare import is_same
from materializer.spark.runtime.failures import spoken

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark

_SIGN: Final = "__sign"
_GONE: Final = "__gone"
_CAME: Final = "__came"
_FORMS: Final = "__form_{}"
_OLD: Final = "__old_{}"
_COPIES: Final = "__copies_{}"
_SAME: Final = "__same"


def rows_of(engine: Spark, path: str, version: int, files: Sequence[DataFile] | None) -> DataFrame:
    """Return the rows of some files of a table, at a version that includes the files; all rows if *files* is None."""
    with spoken("reading what was published", table=path, version=version):
        frame = engine.spark.read.format("delta").option("versionAsOf", version).load(path)
        if files is None:
            return frame
        # in whatever folder they lie: each name has an id of its own
        names = [unquote(f.path).rpartition("/")[2] for f in files]
        return frame.where(sf.col("_metadata.file_name").isin(*names))


def replayed(feed: DataFrame) -> DataFrame:
    """Return the rows that result from a feed; see :func:`materializer.lake.output_diff.replayed`."""
    came = sf.col(CHANGE).isin(ChangeType.INSERT.value, ChangeType.POSTIMAGE.value)
    rows = feed.withColumn(_SIGN, sf.when(came, 1).otherwise(-1)).drop(*[name for name, _ in META])
    return _repeated(_summed(rows), sf.col(_SIGN)).drop(_SIGN)


def changed(old: DataFrame, new: DataFrame, place: Sequence[str] | None) -> DataFrame:
    """Return the change from *old* to *new*; see :func:`materializer.lake.output_diff.changed`."""
    columns = new.columns
    both = old.select(*map(_named, columns)).withColumn(_SIGN, sf.lit(-1))
    both = _summed(both.unionByName(new.select(*map(_named, columns)).withColumn(_SIGN, sf.lit(1))))
    both = both.where(sf.col(_SIGN) != 0)
    is_pair = sf.expr("false")
    if place:
        here = Window.partitionBy(*[_form(both, name) for name in place])
        gone = sf.sum(sf.greatest(-sf.col(_SIGN), sf.lit(0))).over(here)
        came = sf.sum(sf.greatest(sf.col(_SIGN), sf.lit(0))).over(here)
        both = both.withColumn(_GONE, gone).withColumn(_CAME, came)
        is_pair = (sf.col(_GONE) == 1) & (sf.col(_CAME) == 1)
    is_new = sf.col(_SIGN) > 0
    change = (
        sf.when(is_pair & is_new, ChangeType.POSTIMAGE.value)
        .when(is_pair, ChangeType.PREIMAGE.value)
        .when(is_new, ChangeType.INSERT.value)
        .otherwise(ChangeType.DELETE.value)
    )
    rows = _repeated(both.withColumn(CHANGE, change), sf.abs(sf.col(_SIGN)))
    return rows.select(*map(_named, columns), CHANGE)


def steady(new: DataFrame, old: DataFrame, place: Sequence[str], inexact: Collection[str]) -> DataFrame:
    """Return *new* rows, some of them as they were; see :func:`materializer.lake.output_diff.steady`."""
    columns, here = new.columns, Window.partitionBy(*map(_named, place))
    ours = new.withColumn(_COPIES.format("n"), sf.count(sf.lit(1)).over(here))
    renamed = [_named(name).alias(_OLD.format(i)) for i, name in enumerate(columns)]
    theirs = old.withColumn(_COPIES.format("o"), sf.count(sf.lit(1)).over(here)).where(f"{_COPIES.format('o')} = 1")
    theirs = theirs.select(*renamed, sf.lit(1).alias(_GONE))
    on, same = sf.col(_COPIES.format("n")) == 1, sf.col(_GONE).isNotNull()
    for i, name in enumerate(columns):
        was = sf.col(_OLD.format(i))
        if name in place:
            on = on & _named(name).eqNullSafe(was)
        elif isinstance(new.schema[name].dataType, MapType):
            same = same & _form(new, name).eqNullSafe(sf.array_sort(sf.map_entries(was)))
        else:
            same = same & is_same(_named(name), was, inexact=name in inexact)
    joined = ours.join(theirs, on, "left").withColumn(_SAME, same)
    return joined.select(
        *[sf.when(sf.col(_SAME), sf.col(_OLD.format(i))).otherwise(_named(n)).alias(n) for i, n in enumerate(columns)]
    )


def reasoned(rows: DataFrame, new: str, late: str, beyond: Reason) -> DataFrame:
    """Return changed *rows* with the column ``_reason``; *new* and *late* are predicates, or "" if they hold nowhere."""
    is_new, is_late = (sf.expr(where) if where else sf.expr("false") for where in (new, late))
    change = sf.col(CHANGE)
    reason = (
        sf.when(change == ChangeType.DELETE.value, Reason.DELETE.value)
        .when(is_new & (change == ChangeType.INSERT.value), Reason.NEW.value)
        .when(is_new, Reason.CORRECTION.value)
        .when(is_late, Reason.LATE.value)
        .otherwise(beyond.value)
    )
    return rows.withColumn(REASON, reason)


def alike(rows: DataFrame, reason: Reason | None) -> DataFrame:
    """Return changed *rows* with one reason for all or, if it is None, with a reason by each row's kind of change."""
    if reason is not None:
        return rows.withColumn(REASON, sf.lit(reason.value))
    change = sf.col(CHANGE)
    by_change = sf.when(change == ChangeType.DELETE.value, Reason.DELETE.value).when(
        change == ChangeType.INSERT.value, Reason.NEW.value
    )
    return rows.withColumn(REASON, by_change.otherwise(Reason.CORRECTION.value))


def published(rows: DataFrame, n: int, source_version: int | None, at_ms: int) -> DataFrame:
    """Return *rows* with the refresh number, the source version and the time of their publication."""
    return (
        rows.withColumn("_refresh", sf.lit(n).cast("bigint"))
        .withColumn("_source_version", sf.lit(source_version).cast("bigint"))
        .withColumn("_published_at", sf.timestamp_micros(sf.lit(at_ms * 1000)))
    )


def fitted(rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return *rows* with exactly these columns; a column that the rows do not have is null."""
    has = set(rows.columns)
    return rows.select(*[(_named(n) if n in has else sf.lit(None)).cast(kind).alias(n) for n, kind in types.items()])


def _named(name: str) -> Column:
    return sf.col(quoted(name))


def _form(frame: DataFrame, name: str) -> Column:
    """Return the form of a column for grouping, because Spark cannot group by a map."""
    column = _named(name)
    return sf.array_sort(sf.map_entries(column)) if isinstance(frame.schema[name].dataType, MapType) else column


def _summed(rows: DataFrame) -> DataFrame:
    """Return each row once, with the sum of its signs."""
    columns = [name for name in rows.columns if name != _SIGN]
    forms = [_form(rows, name).alias(_FORMS.format(i)) for i, name in enumerate(columns)]
    values: list[Any] = [sf.first(_named(name)).alias(name) for name in columns]
    return rows.groupBy(*forms).agg(*values, sf.sum(_SIGN).alias(_SIGN)).select(*map(_named, columns), _SIGN)


def _repeated(rows: DataFrame, times: Column) -> DataFrame:
    """Return each row repeated *times* times."""
    rows = rows.where(times > 0)
    return rows.withColumn("__at", sf.explode(sf.sequence(sf.lit(1), times.cast("int")))).drop("__at")
