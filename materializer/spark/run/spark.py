"""Spark as the services use it: compute a plan, write the files of a large result, read changes, answer questions about a source.

:class:`Spark` has its own session (UTC, ANSI on) next to the user's. The session is created on first use, because starting
a JVM takes longer than all work that needs no JVM.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import reduce
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from materializer.budget import Budget
from materializer.core.aggregates.python import PythonAggregate
from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.work import Work
from materializer.core.refresh.plan import OPENED, Lane, Plan
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import DataError, ResultTooLargeError, SparkDiedError, SparkError
from materializer.journal.events import SourceIdentity
from materializer.lake.computed import Computed, Fewer
from materializer.spark.describe.analyse import Analysed, analyse
from materializer.spark.engines import key_results
from materializer.spark.engines.compare import compare_results
from materializer.spark.engines.windowing import Windowing
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.query import write as spark_write
from materializer.spark.query.compare import Comparison, compare
from materializer.spark.run import options, plan_rows, questions, results, row_counts
from materializer.spark.run.capture import Changes, changes
from materializer.spark.run.fresh import Observed, OnTheFly
from materializer.spark.run.registration import Catalogs
from materializer.spark.run.ties import Ties
from materializer.spark.runtime import jvm
from materializer.spark.runtime.connect import is_connect, is_lost
from materializer.spark.runtime.failures import feed_gaps, spoken
from materializer.spark.runtime.jvm import Death, death_behind, watched
from materializer.spark.runtime.python_aggregates import refuse_unknown, register
from materializer.spark.runtime.session import jvm_pid, refuse_unsafe_settings, work_session

ONE_PARTITION: Final = 50_000
"""Maximum number of rows for a query without compilation and re-planning, and for an engine in one task without a shuffle."""
FEW_WINDOWS: Final = 10 * ONE_PARTITION
"""Maximum number of windows for an engine's query in one task: even few rows may make many windows."""


@watched
class Spark:
    """Spark for one lake.

    Args:
        spark: The user's session, which is not changed.
        python: Aggregates that are written in Python, by name.
        budget: What the driver holds.

    Raises:
        ForeignSettingError: If the session would skip missing or corrupt files silently.
    """

    def __init__(self, spark: SparkSession, python: Mapping[str, PythonAggregate], budget: Budget) -> None:
        refuse_unsafe_settings(spark)
        self.spark = work_session(spark)
        self._bridge = jvm.bridge_of(self.spark)
        self._losses = jvm.RECORD.losses
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it repeats each refusal with its plan
        self.budget = budget
        self.windows = Windowing(self.spark, budget)
        self._ties = Ties(self.spark, budget)
        self.catalogs = Catalogs(self.spark)
        self._group = ""
        self._python = frozenset(python)
        for aggregate in python.values():
            register(self.spark, aggregate)

    def jvm_pid(self) -> int:
        """Return the process id of the Spark driver on this host; 0 if the driver is elsewhere."""
        return jvm_pid(self.spark) or 0

    def death(self) -> Death | None:
        """Return how Spark's process ended, or how its server lost the session; None while it is alive."""
        if is_connect(self.spark) and self._losses != jvm.RECORD.losses:
            if is_lost(self.spark):
                return jvm.RECORD.last
            self._losses = jvm.RECORD.losses  # another session of this process was lost
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
                :func:`materializer.spark.query.fetch.combined`.

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
        refuse_unknown(definition, self._python)
        self._group = f"materializer-{uuid4().hex}"
        most = self.budget.opened * (OPENED if work is not None and work.only is not None else 1)
        copied = plan_rows.copied_rows(definition, partials_path, plan) if work is None else 0
        few = plan.estimate.likely_rows + copied <= ONE_PARTITION and plan.estimate.rows <= most
        is_small = few and plan.windows <= FEW_WINDOWS
        simply = options.planned_simply(self.spark, compiles=not options.is_plain(definition))
        with self.counted(), simply if is_small else nullcontext():
            if work is None and not few:
                found = self._ties.fetched(definition, source, plan, hull, self._group, metrics)
                if found is not None:
                    return found
            with spoken("reading the source", table=source.path, version=plan.source_version):
                frame, observations = self._rows_of(
                    definition, source, partials_path, plan, hull, work, is_small=is_small
                )
            with spoken(f"computing refresh {plan.n}", table=source.path, version=plan.source_version):
                if plan.lane is Lane.DRIVER:
                    computed = results.fetched(definition, frame, plan, self._group, metrics)
                else:
                    computed = results.cached(definition, frame, plan, self._group)
                computed.rows_read = sum(map(c.rows_seen, observations))
        computed.only = None if work is None else work.only
        return computed

    def _rows_of(
        self,
        definition: Definition,
        source: SourceIdentity,
        path: str,
        plan: Plan,
        hull: Span | None,
        work: Work | None,
        *,
        is_small: bool = False,
    ) -> Observed:
        if work is not None:
            return self.windows.results_of(definition, source, path, plan, work, is_small=is_small)
        parts, seen = plan_rows.parts_of(self.spark, self.budget, definition, source, path, plan, hull)
        return reduce(DataFrame.unionByName, parts), seen

    def source_rows(
        self, definition: Definition, source: SourceIdentity, plan: Plan, *, hull: Span | None
    ) -> DataFrame:
        """Return the source rows that *plan* aggregates: all rows of recomputed spans, only inserted rows of merged spans.

        Shape:
            The columns of the source.
        """
        return plan_rows.source_rows(self.spark, self.budget, definition, source, plan, hull=hull)

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
            stored = read_small.kept_rows(self.spark, self.budget, definition, path, version, spans, few=fetch)
            output = c.finalise(definition, c.kept_partials(definition, stored, spans), spans)
            return c.to_arrow(output) if fetch else output

    def fewer_rows(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: Mapping[int, SpanSet]
    ) -> Fewer | None:
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
                self.spark,
                self.budget,
                definition,
                plan_rows.stored_rows(self.spark, self.budget, definition, path, plan, spans),
                computed,
                gone,
            )

    def fewer_counted(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: int
    ) -> Fewer | None:
        """Return where an engine's results count fewer rows than the stored ones; see :mod:`.row_counts`.

        The arguments are those of :meth:`fewer_rows`, except *gone*: the number of counts that may be missing.
        """
        spans = plan.replaced - plan.discarded
        with self.counted(), spoken("counting the rows of kept results", table=path, version=plan.partials.version):
            if computed.only is None:
                stored = plan_rows.stored_rows(self.spark, self.budget, definition, path, plan, spans)
                stored = c.kept_partials(definition, stored, spans)
            else:
                version, only = plan.partials.version, computed.only
                stored = key_results.stored_rows(self.spark, self.budget, definition, path, version, only)
            return row_counts.fewer_counted(self.spark, definition, stored, computed, gone)

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

    def lay_out(
        self,
        frame: DataFrame,
        path: str,
        folder: str,
        names: Sequence[str],
        *,
        predicate: str,
        order: Sequence[str],
        rows: int,
        by_keys: bool = False,
    ) -> None:
        """Write new rows into another table, and with them the rows of some files that *predicate* does not replace.

        Args:
            frame: The new rows.
            path: The table of the files.
            folder: The other table, which is empty.
            names: The names of the files.
            predicate: Spark SQL that each new row satisfies.
            order: Columns to sort by, the bucket first.
            rows: Approximate number of new rows.
            by_keys: Whether a large bucket is cut, too: into files of neighbouring keys.
        """
        others = spark_write.rows_of_files(self.spark, path, names, frame) if names else None
        files = max(1, round(rows / spark_write.ROWS_PER_FILE)) + len(names)
        with self.counted():
            rows_to_write = spark_write.replacing(frame, others, predicate, order[0])
            spark_write.lay_out(rows_to_write, folder, order=order, files=files, by_keys=by_keys)

    def append(self, frame: DataFrame, folder: str) -> None:
        """Write rows into another table, as they are."""
        with self.counted():
            spark_write.lay_out(frame, folder)

    def lay_out_again(
        self, path: str, names: Sequence[str], folder: str, *, order: Sequence[str], files: int, by_keys: bool = False
    ) -> None:
        """Write the rows of files *names* of the table at *path* into the empty table at *folder*, as *files* sorted files."""
        frame = spark_write.rows_of_files(self.spark, path, names, self.spark.read.format("delta").load(folder))
        spark_write.lay_out(frame, folder, order=order, files=files, by_keys=by_keys)

    # -- questions -------------------------------------------------------------------------------------------------------

    def analyse(self, spec: AggregateSpec, schema_json: str) -> Analysed:
        """Return the definition with all types, checked by Spark's analysis; see :mod:`materializer.spark.describe.analyse`."""
        return analyse(self.spark, spec, StructType.fromJson(json.loads(schema_json)))

    def newest_time(
        self, definition: Definition, source: SourceIdentity, version: int, *, before: int = POS_INF
    ) -> int | None:
        """Return the largest event time of the source below an instant, as an instant, by a scan; None without rows."""
        return questions.newest_time(self.spark, definition, source, version, before=before)

    def changes(
        self, definition: Definition, source: SourceIdentity, after: int, upto: int, *, frozen: int = NEG_INF
    ) -> Changes:
        """Return which buckets the change feed of (after, upto] touches; see :func:`materializer.spark.run.capture.changes`."""
        return changes(self.spark, self.budget, definition, source, after, upto, frozen=frozen)

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
                rows, counts = self._rows_of(definition, source, paths["partials"], plan, hull, work)
                dirty = c.finalise(definition, rows, plan.replaced)
                frame = published.unionByName(dirty)
            return (frame.where(inside) if inside else frame), [*counts, *above()]

        return OnTheFly(self.spark, build, table=source.path, version=plan.source_version)

    def over(self, source: SourceIdentity, rows: OnTheFly) -> SourceIdentity:
        """Return a source with the rows of another always-fresh read; the changes of its versions are the stored ones."""
        return c.ComputedSource(source.path, source.table_id, source.name, rows.taken)

    def times(
        self, definition: Definition, source: SourceIdentity, version: int, *, before: int
    ) -> tuple[int, int, int | None] | None:
        """Return the first and the newest event time of a source, and the newest below an instant; None without rows."""
        return questions.times(self.spark, definition, source, version, before=before)

    def verify(
        self,
        definition: Definition,
        source: SourceIdentity,
        path: str,
        published_version: int,
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
    ) -> Comparison:
        """Compare published rows with the statement as its user typed it; see :mod:`materializer.spark.query.compare`.

        The rows are those of *published_version* of the output at *path*, the source is read at *version*.
        *most_rows* is an upper bound of the raw rows; if it is small, Spark plans the query without stage compilation.
        """
        inside = spans & SpanSet.of(hull) if hull else spans
        # the reference is plain Spark as users have it, so compiled projections stay on
        simply = options.planned_simply(self.spark, compiles=True) if most_rows <= ONE_PARTITION else nullcontext()
        with simply, spoken("comparing with plain Spark", table=source.path, version=version):
            reader = self.spark.read.format("delta").option("versionAsOf", published_version)
            published = reader.load(path).where(predicate)
            if definition.engine is not None:
                at = ClosingClock.of(memory)
                expected = self.windows.everything(
                    definition, source, version, at, spans, partials_path=partials, since=frozen
                )
                return compare_results(definition, expected, published, examples=examples)
            raw = c.read_version(self.spark, source, version)
            return compare(definition, raw, published, spans, inside, examples=examples, is_typed=True)

    def jobs_of(self, computed: Computed) -> int | None:
        """Return how many Spark jobs a computation and its commits took; see :func:`materializer.spark.run.options.jobs_in`."""
        return self.jobs_in(computed.group)

    def jobs_in(self, group: str) -> int | None:
        """Return how many Spark jobs ran under a group; see :func:`materializer.spark.run.options.jobs_in`."""
        return options.jobs_in(self.spark, group)

    @contextmanager
    def counted(self, group: str = "") -> Iterator[None]:
        """Count the jobs of the block under a group (by default the refresh's), then restore the thread's own group."""
        with options.counted(self.spark, group or self._group):
            yield
