"""The local executor: computes a plan over few rows in this process, with DuckDB, and gives what Spark would give."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import field
from msgspec.structs import replace

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.work import ChangedKeys, Work
from materializer.core.refresh.plan import Plan, Recompute
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.local.finals import finalise
from materializer.local.kinds import BUG, NotLocal, bugs_left_to_spark
from materializer.local.reading import LocalReader

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.core.engines.clock import ClosingClock
    from materializer.core.engines.queries.census import Census
    from materializer.lake.computed import Computed, Fewer
    from materializer.local.forms import Forms

MOST_FORMS: Final = 1_000
"""Definitions whose forms are remembered."""


class LocalExecutor(LocalReader):
    """Computes what is small and has local forms.

    Args:
        rows: The most rows that are needed for one refresh; files with eight times as many are opened.
        size: The most bytes that the rows of one run have in memory, a quarter of what computing takes in all.
        starting: Returns the seconds that starting Spark instead would take.
    """

    starting: Callable[[], float] = lambda: 0.0

    _known: dict[int, tuple[Definition, Forms | str]] = field(default_factory=dict)

    def why_not(self, definition: Definition) -> str:
        """Return which part of a definition has no local form; "" if all have one."""
        found = self._forms(definition)
        return found if isinstance(found, str) else ""

    def compute(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        *,
        hull: Span | None,
        work: Work | None = None,
    ) -> Computed:
        """Return the partials and output rows of all buckets of *plan*, as Spark's ``compute`` does.

        Args:
            definition: The definition to compute.
            source: The source of the raw rows, pinned to the plan's source version.
            partials_path: Our partials table; stored rows are read at the version on which the plan was made.
            plan: The plan.
            hull: The span in which the source has rows, if known.
            work: The work of an engine.

        Raises:
            NotLocal: If Spark has to compute it: something has no local form, is larger than was estimated, or fails. Nothing
                was written.
        """
        from materializer.local.connection import opened
        from materializer.local.run import Computation

        forms = self._known_forms(definition)
        try:
            with bugs_left_to_spark(), opened(self.memory) as connection:
                run = Computation(self, connection, definition, forms, source, partials_path, plan, hull, work)
                return run.computed()
        except NotLocal as exc:
            if str(exc).startswith(BUG):
                self._known[id(definition)] = definition, str(exc)  # no second try in this process
            raise

    def recomputed(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        spans: SpanSet,
        *,
        hull: Span | None,
        work: Work | None = None,
    ) -> pa.Table:
        """Return the output rows of some buckets, all from raw rows; of an engine *work* is all that has results in them.

        Raises:
            NotLocal: If Spark has to compute them.
        """
        if work is None:
            again = replace(plan, steps=(Recompute(spans, "again"),))
            return self.compute(definition, source, "", again, hull=hull).output
        from materializer.local.connection import opened
        from materializer.local.run import Computation

        forms = self._known_forms(definition)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            return Computation(self, connection, definition, forms, source, partials_path, plan, hull, work).again(
                spans
            )

    def finalise_committed(self, definition: Definition, path: str, version: int, spans: SpanSet) -> pa.Table:
        """Return the output rows of partials that are already committed, as Spark's ``finalise_committed`` does.

        Args:
            definition: The definition.
            path: Our partials table.
            version: The version of that table.
            spans: The buckets.

        Raises:
            NotLocal: If Spark has to compute them.
        """
        from materializer.lake.computed import apart
        from materializer.local.connection import opened

        forms = self._forms(definition)
        if isinstance(forms, str):
            raise NotLocal(forms)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            rows = self.read(path, version, list(forms.partials), spans, SLICE, definition.time_type)
            connection.register("stored", rows)
            return apart(definition, finalise(connection, definition, forms, "SELECT * FROM stored", spans))[1]

    def fewer_rows(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: Mapping[int, SpanSet]
    ) -> Fewer | None:
        """Return where a computation counts fewer raw rows than the stored partials, as Spark's ``fewer_rows`` does.

        Raises:
            NotLocal: If Spark has to count them.
        """
        from materializer.local import row_counts

        with bugs_left_to_spark():
            return row_counts.fewer_rows(self.read, definition, path, plan, computed, gone)

    def fewer_counted(
        self, definition: Definition, path: str, plan: Plan, computed: Computed, gone: int
    ) -> Fewer | None:
        """Return where an engine's results count fewer rows than the stored ones, as Spark's ``fewer_counted`` does.

        Raises:
            NotLocal: If Spark has to count them.
        """
        from materializer.local import row_counts

        with bugs_left_to_spark():
            return row_counts.fewer_counted(self, definition, path, plan, computed, gone)

    def rows_as_changes(
        self, definition: Definition, source: SourceIdentity, version: int, spans: SpanSet, most: int
    ) -> ChangedKeys | None:
        """Return the rows of some spans as if they had just been inserted, for the planning of an engine.

        Args:
            definition: The definition.
            source: The source.
            version: The version of the source.
            spans: The spans.
            most: The most pairs of key and slice; None is returned for more.

        Raises:
            NotLocal: If Spark has to read them.
        """
        from materializer.local.connection import opened
        from materializer.local.engines import Results

        forms = self._known_forms(definition)
        columns, time = list(forms.columns), definition.spec.time_column
        with bugs_left_to_spark(), opened(self.memory) as connection:
            rows = self.read(source.path, version, columns, spans, time, definition.time_type)
            return Results(connection, definition, forms).changed(rows, most)

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
        """Return how many windows some work would make, as Spark's ``census`` does.

        Raises:
            NotLocal: If Spark has to count them.
        """
        from materializer.local.connection import opened
        from materializer.local.engines import Results
        from materializer.local.forms import of_times

        forms = of_times(definition, self._known_forms(definition))
        with bugs_left_to_spark(), opened(self.memory) as connection:
            results = Results(connection, definition, forms)
            return results.census(self, source.path, version, partials_path, partials_version, work, limit)

    def newest_time(self, definition: Definition, source: SourceIdentity, version: int) -> int | None:
        """Return the time of the source that closes windows, as Spark's ``newest_time`` does.

        Args:
            definition: The definition of an engine.
            source: The source.
            version: The version of the source.

        Raises:
            NotLocal: If Spark has to look.
        """
        from materializer.local.arrival import CountedRows, counting, has_watermark
        from materializer.local.connection import opened

        forms = self._known_forms(definition)
        time = definition.spec.time_column
        is_submitted = definition.spec.lateness != "recompute" and has_watermark(definition)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            if is_submitted:
                rows = self.read_arrivals(definition, source.path, -1, version, list(forms.columns), None)
            else:
                columns, everywhere = counting(definition, forms), SpanSet.of(EVERYTHING)
                rows = self.read(source.path, version, columns, everywhere, time, definition.time_type)
            connection.register("rows", rows)
            known = CountedRows(connection, definition, forms, "rows")
            return known.submitted() if is_submitted else known.newest()

    def late_rows(
        self, definition: Definition, source: SourceIdentity, after: int, upto: int, at: ClosingClock
    ) -> tuple[list[tuple[str, str]], pa.Table]:
        """Return the columns of the source, and the rows that arrived in (after, upto] and were not accepted.

        They have all columns of the source, ``_reason`` and ``_version``.

        Raises:
            NotLocal: If Spark has to look.
        """
        import pyarrow as pa

        from materializer.core.engines.engine_query import VERSION
        from materializer.core.engines.queries.arrival import LATE
        from materializer.lake.arrow import numbers
        from materializer.lake.table import DeltaFolder
        from materializer.lake.types import columns_of
        from materializer.local.arrival import COMMIT, PLACE, CountedRows, keys_of
        from materializer.local.connection import opened
        from materializer.local.forms import NUMBER

        forms = self._known_forms(definition)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            with DeltaFolder.at(source.path).reading(upto) as table:
                columns = columns_of(table.schema().to_json())
            every = [name for name, _ in columns]
            new = self.read_arrivals(definition, source.path, after, upto, every, None)
            rows = [new.select([*forms.columns, COMMIT])]
            if new.num_rows and after >= 0:
                keys = keys_of(definition, new)
                rows.append(self.read_arrivals(definition, source.path, -1, after, list(forms.columns), keys))
            known = pa.concat_tables(rows)
            connection.register("rows", known.append_column(PLACE, numbers(known.num_rows)))
            found = CountedRows(connection, definition, forms, "rows").refused(at, after)
        late = new.select(every).take(found[NUMBER])
        return columns, late.append_column("_reason", found[LATE]).append_column("_version", found[VERSION])

    def _known_forms(self, definition: Definition) -> Forms:
        found = self._forms(definition)
        if isinstance(found, str):
            raise NotLocal(found)
        return found

    def _forms(self, definition: Definition) -> Forms | str:
        known = self._known.get(id(definition))
        if known is not None and known[0] is definition:
            return known[1]
        from materializer.local.forms import Forms

        try:
            with bugs_left_to_spark():
                found: Forms | str = Forms.of(definition)
        except NotLocal as exc:
            found = str(exc)
        if len(self._known) >= MOST_FORMS:
            self._known.clear()
        self._known[id(definition)] = definition, found
        return found
