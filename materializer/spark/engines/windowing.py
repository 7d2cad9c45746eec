"""The Spark operations that the planning and the refresh of an engine use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.types import StructType

from materializer.budget import Budget
from materializer.core.compiled.definition import Definition
from materializer.core.compiled.shown import shown_values
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import Before, engine_of
from materializer.core.engines.queries.census import Census
from materializer.core.engines.ranges import StoredResult
from materializer.core.engines.work import ChangedKeys, Key, KeySlices, Work, reaches_below
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import ChangeFeedGapError
from materializer.journal.events import SourceIdentity
from materializer.lake.engine_rows import Near, StoredResults
from materializer.spark.engines import arrival, key_results, questions, run
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.runtime.failures import feed_gaps, spoken
from materializer.spark.runtime.jvm import watched


@watched
class Windowing:
    """The windowing engines of one session.

    Args:
        spark: A session with UTC and ANSI on.
        budget: What the driver holds.
    """

    def __init__(self, spark: SparkSession, budget: Budget) -> None:
        self._spark = spark
        self._budget = budget

    # -- a refresh -------------------------------------------------------------------------------------------------------

    def results_of(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        work: Work,
        *,
        is_small: bool,
    ) -> tuple[DataFrame, list[Observation]]:
        """Return all result rows of the slices that a plan replaces, and the observations that count its raw rows.

        Slices that the plan discards are not computed; their rows are only removed from the output.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows.
            partials_path: The table of stored result rows.
            plan: The slices to replace.
            work: The work to compute.
            is_small: Whether everything runs in one task: without a shuffle this is one job instead of ten.
        """
        spark = self._spark
        version, replaced = plan.partials.version, plan.replaced - plan.discarded
        if work.only is not None and work.parts:
            return self._results_of_keys(definition, source, partials_path, plan, work, work.only)
        stored = read_small.kept_rows(spark, self._budget, definition, partials_path, version, replaced, few=is_small)
        stored = c.kept_partials(definition, stored, replaced)
        if work.parts == ():
            return stored, []
        parts = None if work.parts is None else run.part_frame(spark, definition, work.parts)
        before = self._before(definition, partials_path, version, work, parts)
        small = self._budget if is_small else None
        raw = arrival.counted_rows(spark, definition, source, plan.source_version, work, parts, small=small)
        if work.parts is None:
            raw = self._going_on(definition, raw, partials_path, version, work.since)
        raw, seen = c.counted(raw, "recompute")
        raw = self._looking_back(definition, raw, partials_path, version, work, parts)
        if is_small:
            raw, stored = raw.coalesce(1), stored.coalesce(1)
        if work.parts is None or parts is None:
            shown = shown_values(definition, engine_of(definition))
            return run.revised(run.everything(definition, raw, work.at, replaced, before), stored, shown), [seen]
        found = run.changed_results(definition, raw, work.parts, parts, work.at, stored, before)
        return c.kept_partials(definition, found, replaced), [seen]

    def _results_of_keys(
        self,
        definition: Definition,
        source: SourceIdentity,
        path: str,
        plan: Plan,
        work: Work,
        only: KeySlices,
    ) -> tuple[DataFrame, list[Observation]]:
        """Return the same where only the results of some keys are replaced."""
        spark, version, found = self._spark, plan.partials.version, work.parts or ()
        stored = key_results.stored_rows(spark, self._budget, definition, path, version, only)
        parts = run.part_frame(spark, definition, found)
        before = self._before(definition, path, version, work, parts)
        raw, is_few = arrival.rows_of_keys(spark, self._budget, definition, source, plan.source_version, work, parts)
        raw, seen = c.counted(raw, "recompute")
        raw = self._looking_back(definition, raw, path, version, work, parts)
        if is_few:
            raw, stored = raw.coalesce(1), stored.coalesce(1)
        rows = run.changed_results(definition, raw, found, parts, work.at, stored, before)
        return c.kept_partials(definition, rows, only.keyed | only.whole), [seen]

    def census(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        partials_version: int,
        version: int,
        work: Work,
        limit: int,
    ) -> Census:
        """Return how many windows some work would make, and which row makes the most of them.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows.
            partials_path: The table of stored result rows.
            partials_version: The version of that table.
            version: The version of the source.
            work: The work to count.
            limit: Maximum number of windows that one row may make.
        """
        with spoken("counting windows", table=source.path, version=version):
            parts = run.part_frame(self._spark, definition, work.parts) if work.parts else None
            raw = arrival.counted_rows(self._spark, definition, source, version, work, parts)
            before = self._before(definition, partials_path, partials_version, work, parts)
            return run.census(definition, raw, work.at, limit, before)

    def everything(
        self,
        definition: Definition,
        source: SourceIdentity,
        version: int,
        at: ClosingClock,
        spans: SpanSet,
        *,
        partials_path: str = "",
        since: int = NEG_INF,
    ) -> DataFrame:
        """Return the shown result rows of an engine over all raw rows: the reference for its output.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows.
            version: The version of the source.
            at: The bounds that close windows.
            spans: The slices, none below *since*.
            partials_path: The table of stored result rows, for windows and state that continue from below *since*.
            since: The frozen boundary: only raw rows from it on are read.
        """
        raw = arrival.counted_rows(self._spark, definition, source, version, Work(at, since=since))
        raw = self._going_on(definition, raw, partials_path, None, since)
        raw = self._looking_back(definition, raw, partials_path, None, Work(at, since=since), None)
        before = self._before(definition, partials_path, None, Work(at, since=since), None)
        return c.finalise(definition, run.everything(definition, raw, at, spans, before), spans)

    def _going_on(
        self, definition: Definition, raw: DataFrame, path: str, version: int | None, since: int
    ) -> DataFrame:
        """Return raw rows from the frozen boundary on, with the state that the stored results below it pass on."""
        if since == NEG_INF:
            return raw
        return run.going_on(definition, raw, self._below(path, version, since), since)

    def _before(
        self, definition: Definition, path: str, version: int | None, work: Work, parts: DataFrame | None
    ) -> Before | None:
        """Return each key's or part's last window below the frozen boundary, to fill windows after it; None for no filling."""
        since = work.since
        if not engine_of(definition).params.fills_on or not reaches_below(work):
            return None
        parts = parts if parts is None else parts.where(f"_mz_raw_start <= {since}L")
        return Before(run.windows_before(definition, self._below(path, version, since), parts), since)

    def _looking_back(
        self,
        definition: Definition,
        raw: DataFrame,
        path: str,
        version: int | None,
        work: Work,
        parts: DataFrame | None,
    ) -> DataFrame:
        """Return raw rows and, before them, the stored rows below the frozen boundary on which functions look back."""
        since = work.since
        if not run.looks_back(definition) or not reaches_below(work):
            return raw
        parts = parts if parts is None else parts.where(f"_mz_raw_start <= {since}L")
        return run.looking_back(definition, raw, self._below(path, version, since), parts)

    def _below(self, path: str, version: int | None, since: int) -> DataFrame:
        reader = self._spark.read.format("delta")
        stored = (reader if version is None else reader.option("versionAsOf", version)).load(path)
        return stored.where(f"w_start < {since}L")

    def again(
        self,
        definition: Definition,
        source: SourceIdentity,
        version: int,
        work: Work,
        spans: SpanSet,
        *,
        partials_path: str,
    ) -> DataFrame:
        """Return the shown result rows of some slices, computed again for a canary.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows.
            version: The version of the source.
            work: All work that has results in *spans*; of the stored rows it uses only the state that they carry on.
            spans: The slices.
            partials_path: The table of stored result rows, for windows and state that continue from below the frozen boundary.
        """
        if not work.parts:
            found = self.everything(
                definition, source, version, work.at, spans, partials_path=partials_path, since=work.since
            )
            return found if work.parts is None else found.limit(0)
        parts = run.part_frame(self._spark, definition, work.parts)
        raw = arrival.counted_rows(self._spark, definition, source, version, work, parts)
        raw = self._looking_back(definition, raw, partials_path, None, work, parts)
        before = self._before(definition, partials_path, None, work, parts)
        results = run.results_of_parts(definition, raw, work.parts, parts, work.at, before)
        return c.finalise(definition, c.kept_partials(definition, results, spans), spans)

    def late_rows(
        self, definition: Definition, source: SourceIdentity, after: int, upto: int, at: ClosingClock
    ) -> tuple[StructType, pa.Table | DataFrame, bool]:
        """Return the rows that arrived in (after, upto] and were not accepted, with the reason, and whether they were fetched.

        Few rows are fetched, and the driver appends them; more stay in Spark.

        Raises:
            ChangeFeedGapError: If the change feed does not reach back to the table's first version.
        """
        with feed_gaps(source.path, after, upto):
            late = arrival.late_rows(self._spark, definition, source, after, upto, at)
            fetched = c.few(late, self._budget.passed)
        return late.schema, late if fetched is None else fetched, fetched is not None

    # -- questions -------------------------------------------------------------------------------------------------------

    def changed_keys(
        self,
        definition: Definition,
        source: SourceIdentity,
        after: int,
        upto: int,
        spans: SpanSet,
        *,
        last: int = NEG_INF,
    ) -> ChangedKeys | None:
        """Return which keys the change feed of (after, upto] touches; see :mod:`.questions`.

        Raises:
            ChangeFeedGapError: If Spark refuses the range, or a file of it does not exist.
        """
        if upto <= after:
            return ChangedKeys({}, None, is_insert_only=True, rows=0)
        with feed_gaps(source.path, after, upto):
            return questions.changed_keys(self._spark, self._budget, definition, source, after, upto, spans, last=last)

    def rows_as_changes(
        self, definition: Definition, source: SourceIdentity, version: int, spans: SpanSet
    ) -> ChangedKeys | None:
        """Return the rows of some spans as if they had just been inserted; see :mod:`.questions`."""
        with spoken("reading the source", table=source.path, version=version):
            return questions.rows_as_changes(self._spark, self._budget, definition, source, version, spans)

    def keys_over(self, definition: Definition, path: str, version: int, spans: SpanSet) -> list[Key] | None:
        """Return the keys that have stored results in some spans; see :mod:`.questions`."""
        with spoken("reading kept results", table=path, version=version):
            return questions.keys_over(self._spark, self._budget, definition, path, version, spans)

    def kept_rows(
        self,
        definition: Definition,
        path: str,
        version: int,
        keys: Sequence[Key] | None,
        *,
        since: SpanSet | None,
        carried: Sequence[str],
        near: Near | None = None,
    ) -> StoredResults | None:
        """Return stored result rows; see :mod:`.questions`."""
        with spoken("reading kept results", table=path, version=version):
            return questions.kept_rows(
                self._spark, self._budget, definition, path, version, keys, since=since, carried=carried, near=near
            )

    def kept_across(self, path: str, version: int, bound: int) -> list[StoredResult]:
        """Return the stored results across an instant, joined into one; see :mod:`.questions`."""
        with spoken("reading kept results", table=path, version=version):
            return questions.kept_across(self._spark, path, version, bound)

    def unsettled(self, definition: Definition, path: str, version: int, inside: Span, dirty: int) -> int | None:
        """Return the start of the first stored result that may still change, or still appear; see :mod:`.questions`."""
        with spoken("reading kept results", table=path, version=version):
            return questions.unsettled(self._spark, definition, path, version, inside, dirty)

    def first_time(self, definition: Definition, source: SourceIdentity, version: int) -> int | None:
        """Return the event time of the first accepted row: by arrival if the change feed reaches back, else the smallest."""
        try:
            with feed_gaps(source.path, -1, version):
                found = questions.first_time(self._spark, definition, source, version, from_feed=True)
            if found is not None or not isinstance(source, c.ComputedSource):
                return found
            return questions.first_time(self._spark, definition, source, version, from_feed=False)
        except ChangeFeedGapError:
            with spoken("looking for the first row", table=source.path, version=version):
                return questions.first_time(self._spark, definition, source, version, from_feed=False)

    def newest_time(self, definition: Definition, source: SourceIdentity, version: int) -> int | None:
        """Return the largest event time of the rows that pass the filter; None without rows.

        Where the order of arrival counts, event time advances commit by commit, and by at least the minimum gap.
        """
        if engine_of(definition).params.arrival == "watermark" and definition.spec.lateness != "recompute":
            with feed_gaps(source.path, -1, version):
                return arrival.newest_submitted(self._spark, definition, source, version)
        with spoken("looking for the newest row", table=source.path, version=version):
            return questions.newest_time(self._spark, definition, source, version)
