"""Plans over many rows in two steps: all groups by hash, then the groups in which an instant has two values from structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from pyspark.sql import DataFrame, SparkSession

from materializer.budget import Budget
from materializer.core.compiled.by_hash import TIED, by_hash
from materializer.core.compiled.definition import Definition
from materializer.core.refresh.plan import Lane, Plan
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.computed import Computed
from materializer.spark.query import compute as c
from materializer.spark.query import fetch
from materializer.spark.query.by_hash import partials_by_hash, partials_of_groups
from materializer.spark.run import plan_rows, results
from materializer.spark.runtime.failures import spoken

MANY: Final = 0.05
"""Share of groups with ties from which on the second step takes longer than the first one saves."""


class Ties(Struct):
    """Computes plans in two steps.

    Args:
        spark: The session.
        budget: What the driver holds.
    """

    spark: SparkSession
    budget: Budget
    _often: set[str] = field(default_factory=set)

    def fetched(
        self,
        definition: Definition,
        source: SourceIdentity,
        plan: Plan,
        hull: Span | None,
        group: str,
        metrics: Sequence[str],
    ) -> Computed | None:
        """Return the partials and output rows of a plan; None if they have to be computed in one step.

        A definition with many ties is computed in one step from then on, as long as this object lives.

        The arguments are those of :meth:`materializer.spark.run.spark.Spark.compute`, with the group of its jobs.
        """
        form = None if plan.lane is not Lane.DRIVER or definition.spec.name in self._often else by_hash(definition)
        if form is None:
            return None
        with spoken("reading the source", table=source.path, version=plan.source_version):
            found = plan_rows.only_raw(self.spark, self.budget, definition, source, plan, hull)
        if found is None:
            return None
        rows, inside = found
        observed, seen = c.observed(rows, "recompute")
        with spoken(f"computing refresh {plan.n}", table=source.path, version=plan.source_version):
            frame = partials_by_hash(definition, form, observed, inside)
            frame, observation = fetch.combined(definition, frame, plan.replaced, metrics)
            table = c.to_arrow(frame)
            tied = pc.sum(table[TIED]).as_py() or 0
            if tied > min(MANY * table.num_rows, self.budget.listed):
                self._often.add(definition.spec.name)
                return None
            values = {} if observation is None or tied else c.metrics_of(observation, metrics)
            if tied:
                table = self._settled(definition, table, rows, inside, plan)
        computed = results.of_table(definition, table.drop_columns([TIED]), group, values)
        computed.rows_read = c.rows_seen(seen)
        return computed

    def _settled(
        self, definition: Definition, table: pa.Table, rows: DataFrame, inside: SpanSet, plan: Plan
    ) -> pa.Table:
        """Return a combined table in which the tied groups are computed from structs."""
        types = dict(definition.partial_columns)
        groups = table.filter(table[TIED]).select(definition.group_columns)
        few = c.frame_of(self.spark, groups, {name: types[name] for name in groups.column_names})
        frame, _ = fetch.combined(definition, partials_of_groups(definition, rows, inside, few), plan.replaced)
        again = c.to_arrow(frame)
        others = table.filter(pc.invert(table[TIED])).drop_columns([TIED])
        again = again.rename_columns(others.column_names)  # with questions on the way, outputs have their own names
        return pa.concat_tables([others, again.cast(others.schema)]).append_column(
            TIED, pa.array([False] * (others.num_rows + again.num_rows))
        )
