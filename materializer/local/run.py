"""One computation of the local executor: the rows of a plan, and the queries over them, which DuckDB carries out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from materializer.core.compiled.bucket_sql import bucket_start_sql, clock_of_start
from materializer.core.compiled.definition import FROM, SLICE, Definition
from materializer.core.compiled.queries import built, group_columns, merged, only_groups, other_groups
from materializer.core.engines.work import Work
from materializer.core.query.nodes import Columns, Named, Query, Union
from materializer.core.refresh.plan import CAME, INSERTED, WENT, Merge, Plan, Retract, RollUp
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.computed import Computed, apart
from materializer.lake.extent import instants_of
from materializer.lake.keys import Within, table_of, wanted
from materializer.lake.predicates import SpanIndex
from materializer.local.clocks import CLOCK_COLUMNS, with_clock
from materializer.local.connection import Connection
from materializer.local.finals import FEW_SPANS, compiled_text, finalise
from materializer.local.forms import Forms
from materializer.local.kinds import kind_of
from materializer.local.reading import LocalReader
from materializer.local.render import rendered

if TYPE_CHECKING:
    from materializer.local.engines import Results


class Computation(Struct):
    """One computation; see :meth:`~materializer.local.executor.LocalExecutor.compute`.

    Args:
        reader: Reads rows.
        connection: What computes.
        definition: The definition.
        forms: What it needs of it.
        source: The source of the raw rows.
        partials_path: Our partials table.
        plan: The plan.
        hull: The span in which the source has rows, if known.
        work: The work of an engine.
        rows_read: Source rows that were aggregated so far.
        given: SQL of rows that a query names and that are no table.
        counts_groups: Whether all rows that are read are in the partials, which count them.
    """

    reader: LocalReader
    connection: Connection
    definition: Definition
    forms: Forms
    source: SourceIdentity
    partials_path: str
    plan: Plan
    hull: Span | None
    work: Work | None
    rows_read: int = 0
    given: dict[str, str] = field(default_factory=dict)
    counts_groups: bool = False

    def computed(self) -> Computed:
        """Return the partials and output rows of the plan."""
        definition, plan = self.definition, self.plan
        is_engine = definition.engine is not None
        parts = self._results(plan.replaced - plan.discarded) if is_engine else self._sql(self._parts())
        table = finalise(self.connection, definition, self.forms, parts, plan.replaced)
        if self.counts_groups:
            self.rows_read = pc.sum(table[str(definition.layout.row_count)]).as_py() or 0
        only = None if self.work is None else self.work.only
        return Computed.beside(definition, table, self.rows_read, only=only)

    def _parts(self) -> Query:
        """Return all partials of the plan's buckets and of the clean buckets between them."""
        plan = self.plan
        raw, keyed, merges = plan.recomputed, plan.keyed, plan.merges
        has_stored = bool(merges or plan.retracts or plan.replaced != plan.remade)
        self.counts_groups = bool(raw and self.definition.layout.row_count) and not (
            keyed or plan.rollups or has_stored
        )
        groups = self._groups() if keyed else None
        parts = []
        if raw:
            parts.append(self._built("raw", self._raw_rows(raw), self._in_hull(raw)))
        if groups is not None:
            parts.append(self._of_groups(keyed, groups))
        parts += [self._rolled_up(f"roll_up_{i}", step) for i, step in enumerate(plan.rollups)]
        if has_stored:
            stored = self._stored(plan.replaced - plan.remade - plan.discarded, groups)
            came = [self._changed(f"merge_{i}", step, INSERTED) for i, step in enumerate(merges)]
            came += [self._changed(f"came_{i}", step, CAME) for i, step in enumerate(plan.retracts)]
            went = [self._changed(f"went_{i}", step, WENT) for i, step in enumerate(plan.retracts)]
            parts.append(self._merged(stored, came, went) if came else stored)
        return parts[0] if len(parts) == 1 else Union(tuple(parts))

    def again(self, spans: SpanSet) -> pa.Table:
        """Return the output rows of some slices of an engine, whatever is stored."""
        results, work = self._engine()
        of_plan = self.reader, self.source.path, self.partials_path, self.plan
        sql = results.again(*of_plan, work, spans)
        table = finalise(self.connection, self.definition, self.forms, sql, self.plan.replaced)
        return apart(self.definition, table)[1]

    def _results(self, replaced: SpanSet) -> str:
        """Return SQL of the results of an engine that the plan replaces."""
        results, work = self._engine()
        of_plan = self.reader, self.source.path, self.partials_path, self.plan
        sql, self.rows_read = results.of_plan(*of_plan, work, replaced)
        return sql

    def _engine(self) -> tuple[Results, Work]:
        from materializer.local.engines import Results  # noqa: PLC0415 - most definitions have none

        engine = self.definition.engine
        assert self.work is not None
        assert engine is not None
        return Results(self.connection, self.definition, self.forms), self.work

    # -- reading ---------------------------------------------------------------------------------------------------------

    def _raw_rows(self, spans: SpanSet, within: Within | None = None) -> pa.Table:
        spec, columns = self.definition.spec, list(self.forms.columns)
        return self._read(self.source.path, self.plan.source_version, columns, spans, spec.time_column, within)

    def _read(
        self, path: str, version: int, columns: Sequence[str], spans: SpanSet, at: str, within: Within | None = None
    ) -> pa.Table:
        return self.reader.read(path, version, columns, spans, at, self.definition.time_type, within)

    def _in_hull(self, spans: SpanSet) -> SpanSet:
        return spans & SpanSet.of(self.hull) if self.hull else spans

    def _stored(self, spans: SpanSet, groups: Query | None) -> Query:
        """Return stored partials without those of the groups that are computed."""
        columns = self.definition.partial_columns
        rows = self._read(self.partials_path, self.plan.partials.version, list(self.forms.partials), spans, SLICE)
        if groups is None:
            return self._named("stored", columns, rows)
        found = self._named("stored", (*columns, (FROM, "bigint")), self._placed(rows, SLICE))
        return other_groups(self.definition, found, groups)

    def _groups(self) -> Query:
        """Return the groups whose keys changed."""
        types = self.definition.key_types
        return self._named("groups", group_columns(types), table_of(self.plan.groups, types))

    def _of_groups(self, spans: SpanSet, groups: Query) -> Query:
        """Return the partials of the groups whose keys changed."""
        rows = self._raw_rows(spans, wanted(self.definition, [key for _, key in self.plan.groups]))
        rows = self._placed(rows, self.definition.spec.time_column)
        return self._built("keyed", rows, self._in_hull(spans), groups=groups)

    def _placed(self, rows: pa.Table, time: str) -> pa.Table:
        """Return rows with the start of the buckets of a group that a time of theirs is in; null outside of all."""
        instants = instants_of(rows[time], self.definition.time_type).fill_null(0).to_numpy()
        starts, is_inside = SpanIndex.of(span for span, _ in self.plan.keys_of_parts).containing(instants)
        return rows.append_column(FROM, pa.array(starts, pa.int64(), mask=~is_inside))

    def _rolled_up(self, name: str, step: RollUp) -> Query:
        """Return the partials that are merged from those of a finer aggregate."""
        from materializer.core.compiled.rolled_up import merged_from  # noqa: PLC0415 - few definitions are rolled up

        over = merged_from(self.definition, step.keys)
        rows = self._read(step.path, step.version, list(Forms.of(over).columns), step.spans, SLICE)
        return self._built(name, rows, step.spans, over=over)

    def _changed(self, name: str, step: Merge | Retract, images: Sequence[str]) -> Query:
        """Return the partials of some images of the rows that changed."""
        rows = self.reader.read_changes(
            self.source.path,
            step.after,
            self.plan.source_version,
            list(self.forms.columns),
            step.spans,
            self.definition.spec.time_column,
            self.definition.time_type,
            images,
        )
        inside = step.spans
        if self.hull is not None and not all(s.is_bounded for s in step.spans):
            inside = step.spans & SpanSet.of(self.hull)  # not always: merged rows may be gone from the source
        return self._built(name, rows, inside)

    # -- computing -------------------------------------------------------------------------------------------------------

    def _built(
        self,
        name: str,
        rows: pa.Table,
        inside: SpanSet,
        *,
        groups: Query | None = None,
        over: Definition | None = None,
    ) -> Query:
        """Return the partials of the rows that count.

        Args:
            name: A name for the rows.
            rows: The rows, all of them in the buckets that are computed.
            inside: Spans around their times.
            groups: The groups whose rows count, which are placed; None for all.
            over: What computes them, if not the definition itself.
        """
        definition = over or self.definition
        spec, near, columns = definition.spec, inside.at_most(FEW_SPANS), definition.spec.read_types
        if groups is not None:
            columns = (*columns, (FROM, "bigint"))
        counting = self._named(f"all_{name}", columns, rows)
        if spec.where:
            counting = counting.where(spec.where)
        if groups is not None:
            counting = only_groups(definition, counting, groups)
        if not self.counts_groups:
            if spec.where or groups is not None:  # the rows that count are made once, because they are counted, too
                rows = self.connection.query(self._sql(counting))
                counting = self._named(name, spec.read_types, rows)
            self.rows_read += rows.num_rows
        time = quoted(spec.time_column)
        if (clock := clock_of_start(definition.grid, time, near)) is None:
            return built(definition, counting, bucket_start_sql(definition.grid, time, near))
        micros = compiled_text(clock.micros, {name: kind_of(kind) for name, kind in spec.read_types})
        self.given[f"timed_{name}"] = with_clock(self.connection, f"clock_{name}", self._sql(counting), clock, micros)
        more = ((column, kind.text) for column, kind in CLOCK_COLUMNS.items())
        return built(definition, Named(f"timed_{name}", (*spec.read_types, *more)), clock.edge)

    def _merged(self, stored: Query, came: Sequence[Query], went: Sequence[Query]) -> Query:
        """Return stored partials with those of the rows that came, less those of the rows that went.

        Only the groups of these rows are merged, which are few of many; the others are passed on as they are stored.
        """
        by = self.definition.group_columns
        changed = Union(tuple(part.only(*by) for part in (*came, *went)))
        pairs = [(name, name) for name in by]
        merges = merged(self.definition, [stored.matched(changed, pairs), *came], went)
        return Union((stored.unmatched(changed, pairs), merges))

    def _named(self, name: str, columns: Columns, rows: pa.Table) -> Query:
        self.connection.register(name, rows)
        return Named(name, columns)

    def _sql(self, query: Query) -> str:
        return self.connection.prepared(rendered(query, self.given))
