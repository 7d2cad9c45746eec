"""What planning a refresh of an engine asks of source and stored results: this process answers what is little, Spark the rest."""

# ruff: noqa: PLC0415 - whether there is work is answered without reading rows

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.budget import Budget
from materializer.core.compiled.definition import Definition
from materializer.core.engines.ranges import StoredResult
from materializer.core.engines.work import ChangedKeys, Key, Work
from materializer.core.refresh.plan import Estimate, ExecutorKind
from materializer.core.time.spans import NEG_INF, SpanSet
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from materializer.core.engines.queries.census import Census
    from materializer.lake.engine_rows import Near, StoredResults
    from materializer.spark.engines.windowing import Windowing
    from materializer.spark.run.spark import Spark


class EngineRows(Struct, frozen=True):
    """Reads what an engine's planner asks for.

    Args:
        aggregate: The aggregate.
        spark: Starts Spark on first use.
        budget: What the driver holds.
        local: Evaluates expressions over few rows in this process; None if Spark does.
    """

    aggregate: Aggregate
    spark: Callable[[], Spark]
    budget: Budget
    local: LocalExecutor | None

    def changed_keys(self, after: int, upto: int, spans: SpanSet, *, last: int = NEG_INF) -> ChangedKeys | None:
        """Return which keys the change feed of (after, upto] touches; None when there are too many.

        Args:
            after: The version that is known already.
            upto: The last version.
            spans: Only changed rows in these spans count.
            last: Only events that last at least until this instant count.

        Raises:
            ChangeFeedGapError: If the feed does not reach back.
        """
        if upto <= after:
            return ChangedKeys({}, None, is_insert_only=True, rows=0)
        from materializer.lake import engine_rows

        source = self.aggregate.source
        if not source.name:
            found = engine_rows.changed_keys(self.budget, self._definition, source.path, after, upto, spans, last=last)
            if found is not None:
                return found
        return self._windows.changed_keys(self._definition, source, after, upto, spans, last=last)

    def rows_as_changes(self, version: int, spans: SpanSet) -> ChangedKeys | None:
        """Return the source's rows of some spans as if they had just been inserted; None when there are too many."""
        if (local := self._local) is not None:
            with suppress(NotLocal):
                return local.rows_as_changes(
                    self._definition, self.aggregate.source, version, spans, self.budget.changed
                )
        return self._windows.rows_as_changes(self._definition, self.aggregate.source, version, spans)

    def newest_time(self, version: int) -> int | None:
        """Return the largest time of the source's rows that count, or the one that set the newest watermark; None without rows."""
        if (local := self._local) is not None:
            with suppress(NotLocal):
                return local.newest_time(self._definition, self.aggregate.source, version)
        return self._windows.newest_time(self._definition, self.aggregate.source, version)

    def first_time(self, version: int) -> int | None:
        """Return the time of the row that the source accepted first; None without rows."""
        return self._windows.first_time(self._definition, self.aggregate.source, version)

    def keys_over(self, version: int, spans: SpanSet) -> list[Key] | None:
        """Return the keys that have stored results in some spans; None when there are too many."""
        from materializer.lake import engine_rows

        found = engine_rows.keys_over(self.budget, self._definition, self._partials, version, spans)
        return self._windows.keys_over(self._definition, self._partials, version, spans) if found is None else found

    def stored_rows(
        self,
        version: int,
        keys: Sequence[Key] | None,
        since: SpanSet | None,
        carried: Sequence[str],
        near: Near | None = None,
    ) -> StoredResults | None:
        """Return stored results by key; None when there are more than the driver holds.

        Args:
            version: The version of the partials table.
            keys: The keys; None for all.
            since: Only rows in these slices, and rows that are not final; None for all rows.
            carried: Additional columns to return.
            near: Where the results of each key are looked at; None for everywhere.
        """
        from materializer.lake import engine_rows

        found = engine_rows.stored_rows(
            self.budget, self._definition, self._partials, version, keys, since=since, carried=carried, near=near
        )
        if found is not None:
            return found
        return self._windows.kept_rows(
            self._definition, self._partials, version, keys, since=since, carried=carried, near=near
        )

    def stored_across(self, version: int, bound: int) -> list[StoredResult]:
        """Return the stored results across an instant, joined into one."""
        from materializer.lake import engine_rows

        found = engine_rows.stored_across(self.budget, self._definition, self._partials, version, bound)
        return self._windows.kept_across(self._partials, version, bound) if found is None else found

    def census(self, partials_version: int, version: int, work: Work, limit: int) -> Census:
        """Return how many windows some work would make, and which row makes the most of them.

        Args:
            partials_version: The version of the stored results.
            version: The version of the source.
            work: The work.
            limit: Maximum number of windows that one row may make.
        """
        asked = self._definition, self.aggregate.source, self._partials, partials_version, version, work, limit
        if (local := self._local) is not None:
            with suppress(NotLocal):
                return local.census(*asked)
        return self._windows.census(*asked)

    @property
    def may_merge(self) -> bool:
        """Whether this process can let added rows into stored results."""
        engine = self._definition.engine
        merges = engine is not None and engine.params.merges and engine.layout.stored_as is not None
        return merges and self._local is not None

    def executor_of(self, cost: Estimate) -> ExecutorKind:
        """Return what computes everything, as far as its cost tells."""
        local = self._local
        if local is None or cost.rows > local.rows or cost.bytes > local.size or local.why_not(self._definition):
            return ExecutorKind.SPARK
        return ExecutorKind.LOCAL

    @property
    def _definition(self) -> Definition:
        return self.aggregate.definition

    @property
    def _partials(self) -> str:
        return self.aggregate.paths["partials"]

    @property
    def _local(self) -> LocalExecutor | None:
        """What evaluates expressions here; None where the definition has none that it knows, or a catalog guards the source."""
        is_unknown = self.local is None or self.aggregate.source.name or self.local.why_not(self._definition)
        return None if is_unknown else self.local

    @property
    def _windows(self) -> Windowing:
        return self.spark().windows
