"""Spark as the services use it: compute a plan, commit a large result, read changes, answer questions about a source.

:class:`Engine` has its own session (UTC, ANSI on) next to the user's. The session is created on first use, because starting
a JVM takes longer than all work that needs no JVM.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from materializer.core.aggregates.python import PythonAggregate
from materializer.core.aggregates.registry import find
from materializer.core.compiled.definition import SLICE, Definition, quoted
from materializer.core.engines.clock import Bounds
from materializer.core.engines.work import Work
from materializer.core.refresh.plan import MAX_SPANS, Lane, Merge, Plan, Recompute
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    DataError,
    ResultTooLargeError,
    SparkDiedError,
    SparkError,
    TableNotFoundError,
    UsageError,
)
from materializer.journal.events import SourceIdentity
from materializer.lake.local_read import read_small_changes
from materializer.spark.describe.analyse import Analysed, analyse
from materializer.spark.engines.compare import compare_results
from materializer.spark.engines.windowing import Windowing
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.query import write as spark_commit
from materializer.spark.query.bucket_sql import instant_of_sql, spans_sql
from materializer.spark.query.compare import Compared, compare
from materializer.spark.run import row_counts
from materializer.spark.run.capture import Changes, changes
from materializer.spark.run.fresh import Observed, OnTheFly
from materializer.spark.runtime import jvm
from materializer.spark.runtime.failures import feed_gaps, spoken
from materializer.spark.runtime.jvm import Death, death_behind, watched
from materializer.spark.runtime.python_aggregates import register
from materializer.spark.runtime.session import jvm_pid, refuse_unsafe_settings, work_session

SMALL_CHANGES: Final = 200_000
"""Maximum number of inserted rows that the driver reads itself for a merge; Spark reads more."""
ONE_PARTITION: Final = 50_000
"""Maximum number of rows for a query without compilation and re-planning, and for an engine in one task without a shuffle."""
MAX_STARTS: Final = 100_000
"""Maximum number of buckets to list one by one; if there are more, spans around them are used, however many these are."""
FEW_WINDOWS: Final = 10 * ONE_PARTITION
"""Maximum number of windows for an engine's query in one task: even few rows may make many windows."""
_GROUP_KEYS: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_SIMPLE: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
_INTERPRETED: Final = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_PLAIN: Final = {*_NUMBERS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", ""}
"""Types of arguments, without their sizes; the empty text stands for the star of ``count(*)``."""


@dataclass(slots=True)
class Computed:
    """The computed rows of a plan, either fetched (driver's lane) or still in Spark.

    Args:
        partials: New partials.
        output: Finalised rows of the output.
        rows: Number of rows of *partials*.
        output_rows: Number of rows of *output*, if known.
        buckets: Number of distinct buckets among them.
        rows_read: Number of source rows that were aggregated.
        group: Job group of the Spark jobs, to count them.
        spans: The spans to replace, if a gate withheld some of the plan's buckets; None for all of the plan.
        metrics: Values of SQL aggregates over *output* that were evaluated on the way, by SQL.
    """

    partials: pa.Table | DataFrame
    output: pa.Table | DataFrame
    rows: int
    output_rows: int
    buckets: int
    rows_read: int
    group: str
    cached: list[DataFrame] = field(default_factory=list)
    spans: SpanSet | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@watched
class Engine:
    """Spark for one lake.

    Args:
        spark: The user's session, which is not changed.
        python: Aggregates that are written in Python, by name.

    Raises:
        ForeignSettingError: If the session would skip missing or corrupt files silently.
    """

    def __init__(self, spark: SparkSession, python: Mapping[str, PythonAggregate] = MappingProxyType({})) -> None:
        refuse_unsafe_settings(spark)
        self.spark = work_session(spark)
        self._bridge = jvm.bridge_of(self.spark)
        # this logger repeats every refusal, with the whole plan
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        self.windows = Windowing(self.spark)
        self._group = ""
        self._python = frozenset(python)
        for aggregate in python.values():
            register(self.spark, aggregate)

    def jvm_pid(self) -> int:
        """Return the process id of the Spark driver on this host; 0 if the driver is elsewhere."""
        return jvm_pid(self.spark) or 0

    def death(self) -> Death | None:
        """Return how Spark's process ended; None while it is alive."""
        return jvm.death(self._bridge)

    # -- a refresh -------------------------------------------------------------------------------------------------------

    def compute(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        *,
        hull: Span | None,
        work: Work | None = None,
        metrics: Sequence[str] = (),
    ) -> Computed:
        """Return the partials and output rows of all buckets of *plan*.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows, pinned to the plan's source version.
            partials_path: Our partials table; stored rows are read at the version on which the plan was made.
            plan: The plan.
            hull: The span in which the source has rows, if known.
            work: The work of an engine.
            metrics: SQL aggregates over the output that Spark evaluates on the way where rows are fetched; see
                :func:`materializer.spark.query.compute.combined`.

        Raises:
            DataError: If the rows of a bucket make its aggregates fail.
            SourceDamagedError: If a file that the plan needs does not exist.
        """
        try:
            return self._computed(definition, source, partials_path, plan, hull, work, metrics)
        except (DataError, SparkError) as exc:
            if not metrics or isinstance(exc, SparkDiedError | ResultTooLargeError):
                raise
        # a metric may be what failed: the gate asks again with a job of its own, and reports that failure
        return self._computed(definition, source, partials_path, plan, hull, work, ())

    def _computed(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        hull: Span | None,
        work: Work | None,
        metrics: Sequence[str],
    ) -> Computed:
        self._check_python(definition)
        self._group = f"materializer-{uuid4().hex}"
        few = plan.estimate.likely_rows <= ONE_PARTITION and plan.estimate.rows <= read_small.MOST_OPENED
        is_small = few and plan.windows <= FEW_WINDOWS
        with self.counted(), self._planned_simply(compiles=not _is_plain(definition)) if is_small else nullcontext():
            with spoken("reading the source", table=source.path, version=plan.source_version):
                if work is None:
                    parts, observations = self._parts(definition, source, partials_path, plan, hull)
                else:
                    found, seen = self.windows.results_of(
                        definition, source, partials_path, plan, work, is_small=is_small
                    )
                    parts, observations = [found], seen
            frame = reduce(DataFrame.unionByName, parts)
            with spoken(f"computing refresh {plan.n}", table=source.path, version=plan.source_version):
                if plan.lane is Lane.DRIVER:
                    computed = self._fetched(definition, frame, plan, self._group, metrics)
                else:
                    computed = self._cached(definition, frame, plan, self._group)
                computed.rows_read = sum(map(c.rows_seen, observations))
        return computed

    def _check_python(self, definition: Definition) -> None:
        used = {
            call.function for m in definition.spec.measures for call in m.formula.calls if find(call.function) is None
        }
        if missing := sorted(used - self._python):
            raise UsageError(
                f"'{definition.spec.name}' uses the Python aggregate {', '.join(missing)}, which this process does not know",
                hint="name it in python_aggregates of materializer.toml, or pass it to Materializer(python_aggregates=…)",
            )

    def _parts(
        self, definition: Definition, source: SourceIdentity, partials_path: str, plan: Plan, hull: Span | None
    ) -> tuple[list[DataFrame], list[Observation]]:
        """Return frames whose union is all partials of the plan's buckets and of the clean buckets between them."""
        raw, gone = _raw_spans(plan), plan.discarded
        merges = [step for step in plan.steps if isinstance(step, Merge)]
        starts = self._starts(definition, raw)
        parts, observations = [], []
        if raw:
            rows, seen = self._raw(definition, source, plan, raw, starts, hull)
            observations.append(seen)
            parts.append(rows)
        if merges or plan.replaced != raw:
            spans = plan.replaced - gone if starts is not None else plan.replaced - raw - gone
            if plan.lane is Lane.DRIVER and spans:
                kept = read_small.kept_rows(self.spark, definition, partials_path, plan.partials.version, spans)
            else:
                kept = read_small.scanned(self.spark, partials_path, plan.partials.version)
            kept = c.kept_partials(definition, kept, spans)
            kept = kept if starts is None else c.except_buckets(definition, kept, starts)
            news = []
            for i, step in enumerate(merges):
                changed = self._inserts(definition, source, step, plan.source_version)
                rows, seen = c.observed(c.relevant_rows(definition, changed, step.spans), f"merge_{i}")
                observations.append(seen)
                inside = step.spans
                if hull is not None and not all(s.is_bounded for s in step.spans):
                    inside = step.spans & SpanSet.of(hull)  # not always: merged rows may be gone from the source
                news.append(c.build(definition, rows, inside))
            parts.append(c.merge(definition, [kept, *news]) if news else kept)
        return parts, observations

    def _raw(
        self,
        definition: Definition,
        source: SourceIdentity,
        plan: Plan,
        raw: SpanSet,
        starts: DataFrame | None,
        hull: Span | None,
    ) -> tuple[DataFrame, Observation]:
        around = raw if starts is None else raw.at_most(MAX_SPANS)
        if plan.lane is Lane.DRIVER:
            rows = read_small.raw_rows(self.spark, definition, source, plan.source_version, around)
        else:
            rows = c.read_version(self.spark, source, plan.source_version)
        rows, inside = self._inside(definition, rows, around, starts, hull)
        rows, seen = c.observed(rows, "recompute")
        return c.build(definition, rows, inside), seen

    def _inside(
        self, definition: Definition, rows: DataFrame, around: SpanSet, starts: DataFrame | None, hull: Span | None
    ) -> tuple[DataFrame, SpanSet]:
        """Return the source rows that count, and spans around their times."""
        inside = around & SpanSet.of(hull) if hull else around
        rows = c.relevant_rows(definition, rows, around)
        return (rows if starts is None else c.only_buckets(definition, rows, starts, inside)), inside

    def source_rows(
        self, definition: Definition, source: SourceIdentity, plan: Plan, *, hull: Span | None
    ) -> DataFrame:
        """Return the source rows that *plan* aggregates: all rows of recomputed spans, only inserted rows of merged spans.

        Shape:
            The columns of the source.
        """
        raw = _raw_spans(plan)
        starts = self._starts(definition, raw)
        around = raw if starts is None else raw.at_most(MAX_SPANS)
        every = c.read_version(
            self.spark, source, plan.source_version
        )  # a quality suite may also check columns that no measure reads
        rows, _ = self._inside(definition, every, around, starts, hull)
        parts = [rows] if raw else []
        merges = [step for step in plan.steps if isinstance(step, Merge)]
        for step in merges:
            inserted = c.read_inserts(self.spark, source, step.after, plan.source_version)
            parts.append(c.relevant_rows(definition, inserted, step.spans))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts or [rows.limit(0)])

    def _starts(self, definition: Definition, spans: SpanSet) -> DataFrame | None:
        """Return the bucket starts of *spans* if the spans, but not the starts, are too many for a predicate; else None."""
        grid, starts = definition.grid, []
        if len(spans) <= MAX_SPANS or sum(grid.count(s) if s.is_bounded else MAX_STARTS for s in spans) >= MAX_STARTS:
            return None
        for span in spans:
            at = span.start
            while at < span.end:
                starts.append((at,))
                at = grid.next(at)
        return self.spark.createDataFrame(starts, f"`{c.AT}` bigint")

    def _inserts(self, definition: Definition, source: SourceIdentity, step: Merge, upto: int) -> DataFrame:
        types = dict(definition.spec.read_types)
        few = read_small_changes(source.path, step.after, upto, list(types), max_rows=SMALL_CHANGES)
        if few is None:
            return c.read_inserts(self.spark, source, step.after, upto)
        inserted = few.filter(pc.equal(few["_change_type"], "insert"))
        return c.frame_of(self.spark, inserted.select(list(types)), types)

    def _fetched(
        self, definition: Definition, frame: DataFrame, plan: Plan, group: str, metrics: Sequence[str]
    ) -> Computed:
        frame, observation = c.combined(definition, frame, plan.replaced, metrics)
        partials, output = c.split(definition, c.to_arrow(frame))
        buckets = pc.count_distinct(partials[SLICE]).as_py() if partials.num_rows else 0
        found = {} if observation is None else c.metrics_of(observation, metrics)
        return Computed(partials, output, partials.num_rows, output.num_rows, buckets, 0, group, metrics=found)

    def _cached(self, definition: Definition, frame: DataFrame, plan: Plan, group: str) -> Computed:
        frame = frame.persist()
        try:
            counts = frame.agg(sf.count(sf.lit(1)).alias("rows"), sf.count_distinct(SLICE).alias("buckets")).collect()[
                0
            ]
            output = c.finalise(definition, frame, plan.replaced)
            output_rows = output.count() if definition.layout.having else counts["rows"]
        except BaseException:
            frame.unpersist()
            raise
        return Computed(frame, output, counts["rows"], output_rows, counts["buckets"], 0, group, [frame])

    def free(self, computed: Computed) -> None:
        """Release the memory of a computation."""
        try:
            for frame in computed.cached:
                frame.unpersist()
        except Exception as exc:
            if death_behind(exc) is None:  # a dead JVM has released its memory
                raise
        finally:
            computed.cached.clear()

    def finalise_committed(
        self, definition: Definition, path: str, version: int, spans: SpanSet, *, fetch: bool
    ) -> pa.Table | DataFrame:
        """Return the output rows of partials that are already committed; recovery publishes them."""
        with spoken("finalising committed partials", table=path, version=version):
            frame = self.spark.read.format("delta").option("versionAsOf", version).load(path)
            output = c.finalise(definition, c.kept_partials(definition, frame, spans), spans)
            return c.to_arrow(output) if fetch else output

    def fewer_rows(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: Mapping[int, SpanSet]
    ) -> row_counts.Fewer | None:
        """Return where a computation counts fewer raw rows than the stored partials; see :mod:`.row_counts`.

        Args:
            definition: The definition of the aggregate.
            path: Our partials table; stored rows are read at the version on which the plan was made.
            plan: The plan of the refresh.
            computed: The computation.
            gone: Buckets by the maximum number of deleted rows that capture has seen in each.
        """
        spans = SpanSet.union(s for found in gone.values() for s in found)
        with self.counted(), spoken("counting the rows of kept partials", table=path, version=plan.partials.version):
            return row_counts.fewer_rows(
                self.spark, definition, self._kept(definition, path, plan, spans), computed.partials, gone
            )

    def fewer_counted(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: int
    ) -> row_counts.Fewer | None:
        """Return where an engine's results count fewer rows than the stored ones; see :mod:`.row_counts`.

        The arguments are those of :meth:`fewer_rows`, except *gone*: the number of counts that may be missing.
        """
        spans = plan.replaced - plan.discarded
        with self.counted(), spoken("counting the rows of kept results", table=path, version=plan.partials.version):
            kept = c.kept_partials(definition, self._kept(definition, path, plan, spans), spans)
            return row_counts.fewer_counted(self.spark, definition, kept, computed.partials, gone)

    def _kept(self, definition: Definition, path: str, plan: Plan, spans: SpanSet) -> DataFrame:
        if plan.lane is Lane.DRIVER:
            return read_small.kept_rows(self.spark, definition, path, plan.partials.version, spans)
        return read_small.scanned(self.spark, path, plan.partials.version)

    def published_since(self, path: str, after: int | None, upto: int, where: str) -> DataFrame:
        """Return the rows that an output has at one version and not at an earlier one, each as often as it was added.

        Args:
            path: The output.
            after: The earlier version; None for an empty table.
            upto: The later version.
            where: Predicate of the rows to compare.
        """
        reader = self.spark.read.format("delta")
        with spoken("reading what was published", table=path, version=upto):
            now = reader.option("versionAsOf", upto).load(path).where(where)
            if after is None:
                return now
            before = self.spark.read.format("delta").option("versionAsOf", after).load(path)
            return now.exceptAll(before.where(where))

    def commit(
        self,
        frame: DataFrame,
        path: str,
        *,
        predicate: str,
        order: list[str],
        rows: int,
        app_id: str,
        n: int,
        note: Mapping[str, Any],
    ) -> None:
        """Commit a large result; see :func:`materializer.spark.query.write.replace_spans`."""
        with self.counted():
            spark_commit.replace_spans(
                frame, path, predicate=predicate, order=order, rows=rows, app_id=app_id, n=n, note=note
            )

    def lay_out(
        self, path: str, version: int, names: Sequence[str], where: str, folder: str, *, order: list[str], files: int
    ) -> None:
        """Write the rows of some files into another table, cut by time; see :func:`materializer.spark.query.write.lay_out`.

        Args:
            path: The table.
            version: The version of the table.
            names: The names of the files.
            where: Predicate that holds for all their rows; it only prunes.
            folder: The other table, which is empty.
            order: Columns to sort by, the bucket first.
            files: Number of files to write.
        """
        with spoken("reading", table=path, version=version):
            frame = self.spark.read.format("delta").option("versionAsOf", version).load(path).where(where)
            frame = frame.where(sf.col("_metadata.file_name").isin(*names))
        spark_commit.lay_out(frame, folder, order=order, files=files)

    # -- questions -------------------------------------------------------------------------------------------------------

    def analyse(self, spec: AggregateSpec, schema_json: str) -> Analysed:
        """Return the definition with all types, checked by Spark's analysis; see :mod:`materializer.spark.describe.analyse`."""
        return analyse(self.spark, spec, StructType.fromJson(json.loads(schema_json)))

    def table_named(self, name: str) -> SourceIdentity:
        """Return the table with a catalog name.

        Raises:
            TableNotFoundError: If the catalog has no such Delta table.
        """
        quoted_name = ".".join(quoted(part) for part in name.split("."))
        try:
            row = self.spark.sql(f"DESCRIBE DETAIL {quoted_name}").collect()[0]
        except PySparkException as exc:
            msg = f"the catalog has no Delta table '{name}': {exc.getCondition() or type(exc).__name__}"
            raise TableNotFoundError(msg, hint="name it as the session's catalog does, or give its path") from exc
        return SourceIdentity(row["location"].removeprefix("file:"), row["id"], name)

    def newest_time(
        self, definition: Definition, source: SourceIdentity, version: int, *, before: int = POS_INF
    ) -> int | None:
        """Return the largest event time of the source below an instant, as an instant, by a scan; None without rows."""
        column = quoted(definition.spec.time_column)
        with spoken("looking for the newest row", table=source.path, version=version):
            frame = c.read_version(self.spark, source, version)
            if before != POS_INF:
                frame = frame.where(spans_sql(column, SpanSet.of(Span(NEG_INF, before)), definition.time_type))
            newest = sf.expr(instant_of_sql(f"max({column})", definition.time_type))
            value = frame.agg(newest.alias("newest")).collect()[0]["newest"]
        return None if value is None else int(value)

    def changes(
        self, definition: Definition, source: SourceIdentity, after: int, upto: int, *, frozen: int = NEG_INF
    ) -> Changes:
        """Return which buckets the change feed of (after, upto] touches; see :func:`materializer.spark.run.capture.changes`."""
        return changes(self.spark, definition, source, after, upto, frozen=frozen)

    def read_output(self, path: str, version: int | None = None) -> DataFrame:
        """Return the published rows of a version, by default the newest."""
        reader = self.spark.read.format("delta")
        with spoken("reading the output", table=path):
            return (reader if version is None else reader.option("versionAsOf", version)).load(path)

    def fresh(
        self,
        definition: Definition,
        source: SourceIdentity,
        paths: Mapping[str, str],
        plan: Plan,
        *,
        clean: str | None,
        hull: Span | None,
        work: Work | None = None,
        inside: str | None = None,
    ) -> OnTheFly:
        """Return rows as of the plan's source version: clean buckets from the output, the plan's buckets computed on the fly.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows.
            paths: The tables ``partials`` and ``output``; both are read at the versions on which the plan was made.
            plan: The dirty buckets, and how a refresh would compute them.
            clean: Predicate over the output for the rows to take from it; None for all.
            hull: The span in which the source has rows, if known.
            work: The work of an engine.
            inside: Predicate over the result for the rows to return; None for all.

        Raises:
            ChangeFeedGapError: If Spark refuses the changes that the plan merges.
        """

        def build() -> Observed:
            above = source.counted if isinstance(source, c.ComputedSource) else list
            above()  # planning has asked for rows, too, and these counts are not part of the read
            published = self.read_output(paths["output"], plan.output.version)
            published = published.where(clean) if clean else published
            if not plan.spans:
                return published, []
            with feed_gaps(source.path, -1, plan.source_version):
                if work is None:
                    parts, counts = self._parts(definition, source, paths["partials"], plan, hull)
                else:
                    found, seen = self.windows.results_of(
                        definition, source, paths["partials"], plan, work, is_small=False
                    )
                    parts, counts = [found], seen
                dirty = c.finalise(definition, reduce(DataFrame.unionByName, parts), plan.replaced)
                frame = published.unionByName(dirty)
            return (frame.where(inside) if inside else frame), [*counts, *above()]

        return OnTheFly(self, build, table=source.path, version=plan.source_version)

    def over(self, source: SourceIdentity, rows: OnTheFly) -> SourceIdentity:
        """Return a source with the rows of another always-fresh read; the changes of its versions are the stored ones."""
        return c.ComputedSource(source.path, source.table_id, source.name, rows.taken)

    def times(
        self, definition: Definition, source: SourceIdentity, version: int, *, before: int
    ) -> tuple[int, int, int | None] | None:
        """Return the first and the newest event time of a source, and the newest below an instant; None without rows."""
        time, inside = quoted(definition.spec.time_column), SpanSet.of(Span(NEG_INF, before))
        with spoken("looking for the newest row", table=source.path, version=version):
            frame = c.read_version(self.spark, source, version).where(f"{time} IS NOT NULL")
            at = sf.expr(instant_of_sql(time, definition.time_type))
            below = sf.expr("true" if before == POS_INF else spans_sql(time, inside, definition.time_type))
            found = frame.agg(sf.min(at), sf.max(at), sf.max(sf.when(below, at))).collect()[0]
        first, newest, followed = (None if value is None else int(value) for value in found)
        return None if first is None or newest is None else (first, newest, followed)

    def verify(
        self,
        definition: Definition,
        source: SourceIdentity,
        path: str,
        version: int,
        spans: SpanSet,
        *,
        predicate: str,
        hull: Span | None,
        examples: int,
        memory: Mapping[str, Any] = MappingProxyType({}),
        most_rows: int = ONE_PARTITION + 1,
        partials: str = "",
        frozen: int = NEG_INF,
    ) -> Compared:
        """Compare published rows with the reference form; see :mod:`materializer.spark.query.compare`.

        *most_rows* is an upper bound of the raw rows; if it is small, Spark plans the query without stage compilation.
        """
        inside = spans & SpanSet.of(hull) if hull else spans
        # the reference is plain Spark as users have it, so compiled projections stay on
        simply = self._planned_simply(compiles=True) if most_rows <= ONE_PARTITION else nullcontext()
        with simply, spoken("comparing with plain Spark", table=source.path, version=version):
            published = self.spark.read.format("delta").load(path).where(predicate)
            if definition.engine is not None:
                at = Bounds.of(memory)
                expected = self.windows.everything(
                    definition, source, version, at, spans, partials_path=partials, since=frozen
                )
                return compare_results(definition, expected, published, examples=examples)
            raw = c.read_version(self.spark, source, version)
            return compare(definition, raw, published, spans, inside, examples=examples)

    def jobs_of(self, computed: Computed) -> int:
        """Return how many Spark jobs a computation and its commits took; 0 if Spark does not count them (Connect)."""
        return self.jobs_in(computed.group)

    def jobs_in(self, group: str) -> int:
        """Return how many Spark jobs ran under a group; 0 if Spark does not count them (Connect) or is dead."""
        try:
            return len(self.spark.sparkContext.statusTracker().getJobIdsForGroup(group))
        except (PySparkException, AttributeError):
            return 0
        except Exception as exc:
            if death_behind(exc) is None:  # the count comes after the work, which stays done
                raise
            return 0

    @contextmanager
    def _planned_simply(self, *, compiles: bool) -> Iterator[None]:
        """Run the block's query without stage compilation and re-planning, which take longer than running it over few rows.

        Args:
            compiles: Whether Spark still compiles projections, each on its own.
        """
        values = _SIMPLE if compiles else {**_SIMPLE, **_INTERPRETED}
        before = {name: self.spark.conf.get(name) for name in values}

        def put_back() -> None:
            for name, value in before.items():
                self.spark.conf.set(name, str(value))

        for name, value in values.items():
            self.spark.conf.set(name, value)
        with _afterwards(put_back):
            yield

    @contextmanager
    def counted(self, group: str = "") -> Iterator[None]:
        """Count the jobs of the block under a group (by default the refresh's), then restore the thread's own group."""
        try:
            context = self.spark.sparkContext
        except (PySparkException, AttributeError):
            yield
            return
        before = {key: context.getLocalProperty(key) for key in _GROUP_KEYS}

        def put_back() -> None:
            for key, value in before.items():
                # the annotation says `str`, but None removes a property in Spark
                context.setLocalProperty(key, value)  # type: ignore[arg-type]

        context.setJobGroup(group or self._group, "materializer")
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


def _is_plain(definition: Definition) -> bool:
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


def _raw_spans(plan: Plan) -> SpanSet:
    """Return the buckets that a plan computes from raw rows."""
    steps = (step for step in plan.steps if isinstance(step, Recompute) and not step.is_discard)
    return SpanSet.union(s for step in steps for s in step.spans)
