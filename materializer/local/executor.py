"""The local executor: computes a plan over few rows in this process, with DuckDB, and gives what Spark would give."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.aggregates.layout import SIGN
from materializer.core.compiled.bucket_sql import bucket_start_sql, clock_of_start
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.engines.work import ChangedKeys, Work, continues
from materializer.core.refresh.plan import CAME, INSERTED, WENT, Merge, Plan, Recompute, Retract, RollUp
from materializer.core.spec.table_names import quoted as spark_quoted
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.local.finals import FEW_SPANS, compiled_text, finalise
from materializer.local.kinds import BUG, NotLocal, bugs_left_to_spark, quoted
from materializer.local.reading import LocalReader

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.lake.computed import Computed, Fewer
    from materializer.lake.keys import Within
    from materializer.local.connection import Connection
    from materializer.local.engines import Results
    from materializer.local.forms import Forms

_AT: Final = "mz_slice"
_KEY: Final = "mz_k_"
_GROUPS: Final = "mz_groups"
_INSTANT: Final = "mz_instant"
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

        forms = self._known_forms(definition)
        try:
            with bugs_left_to_spark(), opened(self.memory) as connection:
                return _Run(self, connection, definition, forms, source, partials_path, plan, hull, work).computed()
        except NotLocal as exc:
            if str(exc).startswith(BUG):
                self._known[id(definition)] = definition, str(exc)  # no second try in this process
            raise

    def recomputed(
        self,
        definition: Definition,
        source: SourceIdentity,
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

        forms = self._known_forms(definition)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            return _Run(self, connection, definition, forms, source, "", plan, hull, work).again(spans)

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
        from materializer.local.connection import opened

        forms = self._forms(definition)
        if isinstance(forms, str):
            raise NotLocal(forms)
        with bugs_left_to_spark(), opened(self.memory) as connection:
            rows = self.read(path, version, list(forms.partials), spans, SLICE, definition.time_type)
            connection.register("stored", rows)
            _, output = finalise(connection, definition, forms, "SELECT * FROM stored", spans)
            return output

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


def _of_group(keys: Iterable[str]) -> str:
    """Return SQL of the condition that joins a row of ``found`` with the group of it that is computed."""
    from materializer.lake.keys import FROM, KEY

    tests = [f"found.{_INSTANT} = g.{quoted(FROM)}"]
    tests += [f"found.{key} IS NOT DISTINCT FROM g.{quoted(f'{KEY}{i}')}" for i, key in enumerate(keys)]
    return f"JOIN {_GROUPS} AS g ON {' AND '.join(tests)}"


class _Run(Struct):
    """One computation."""

    executor: LocalExecutor
    connection: Connection
    definition: Definition
    forms: Forms
    source: SourceIdentity
    partials_path: str
    plan: Plan
    hull: Span | None
    work: Work | None
    rows_read: int = 0
    counts_groups: bool = False
    """Whether all rows that are read are in the partials, which count them."""

    def computed(self) -> Computed:
        import pyarrow.compute as pc

        from materializer.lake.computed import Computed

        partials, output = finalise(self.connection, self.definition, self.forms, self._parts(), self.plan.replaced)
        if self.counts_groups:
            self.rows_read = pc.sum(partials[str(self.definition.layout.row_count)]).as_py() or 0
        buckets = pc.count_distinct(partials[SLICE]).as_py() if partials.num_rows else 0
        found = Computed(partials, output, partials.num_rows, output.num_rows, buckets, self.rows_read, "")
        return found if self.work is None else replace(found, only=self.work.only)

    def _parts(self) -> str:
        """Return SQL of all partials of the plan's buckets and of the clean buckets between them."""
        plan, gone = self.plan, self.plan.discarded
        if self.definition.engine is not None:
            return self._results(plan.replaced - gone)
        raw, keyed, merges = plan.recomputed, plan.keyed, plan.merges
        has_stored = bool(merges or plan.retracts or plan.replaced != plan.remade)
        self.counts_groups = bool(raw and self.definition.layout.row_count) and not (
            keyed or plan.rollups or has_stored
        )
        parts = []
        if raw:
            parts.append(self._built("raw", self._raw_rows(raw), self._in_hull(raw)))
        if keyed:
            parts.append(self._of_groups(keyed))
        parts += [self._rolled_up(f"roll_up_{i}", step) for i, step in enumerate(plan.rollups)]
        if has_stored:
            spans = plan.replaced - plan.remade - gone
            stored = self._stored(spans, without_groups=bool(keyed))
            came = [self._changed(f"merge_{i}", step, INSERTED) for i, step in enumerate(merges)]
            came += [self._changed(f"came_{i}", step, CAME) for i, step in enumerate(plan.retracts)]
            went = [self._changed(f"went_{i}", step, WENT) for i, step in enumerate(plan.retracts)]
            parts.append(self._merge(stored, came, went) if came else stored)
        return " UNION ALL BY NAME ".join(parts)

    def again(self, spans: SpanSet) -> pa.Table:
        """Return the output rows of some slices of an engine, whatever is stored."""
        results, work = self._engine()
        sql = results.again(self.executor, self.source.path, self.plan, work, spans)
        return finalise(self.connection, self.definition, self.forms, sql, self.plan.replaced)[1]

    def _results(self, replaced: SpanSet) -> str:
        """Return SQL of the results of an engine that the plan replaces."""
        results, work = self._engine()
        of_plan = self.executor, self.source.path, self.partials_path, self.plan
        sql, self.rows_read = results.of_plan(*of_plan, work, replaced)
        return sql

    def _engine(self) -> tuple[Results, Work]:
        from materializer.local.engines import Results

        engine = self.definition.engine
        if self.work is None or engine is None or continues(engine.params, self.work):
            raise NotLocal("results that go on from history that is frozen")
        return Results(self.connection, self.definition, self.forms), self.work

    # -- reading ---------------------------------------------------------------------------------------------------------

    def _raw_rows(self, spans: SpanSet, within: Within | None = None) -> pa.Table:
        spec, columns = self.definition.spec, list(self.forms.columns)
        return self._read(self.source.path, self.plan.source_version, columns, spans, spec.time_column, within)

    def _read(
        self, path: str, version: int, columns: Sequence[str], spans: SpanSet, at: str, within: Within | None = None
    ) -> pa.Table:
        return self.executor.read(path, version, columns, spans, at, self.definition.time_type, within)

    def _in_hull(self, spans: SpanSet) -> SpanSet:
        return spans & SpanSet.of(self.hull) if self.hull else spans

    def _stored(self, spans: SpanSet, *, without_groups: bool = False) -> str:
        """Return SQL of stored partials, if asked for without those of the groups that are computed."""
        rows = self._read(self.partials_path, self.plan.partials.version, list(self.forms.partials), spans, SLICE)
        others = ""
        if without_groups:
            rows = self._placed(rows, SLICE)
            others = f" ANTI {_of_group(quoted(key_column(k.name)) for k in self.definition.spec.keys)}"
        self.connection.register("stored", rows)
        return f"SELECT {self._partial_list('found.')} FROM stored AS found{others}"

    def _of_groups(self, spans: SpanSet) -> str:
        """Return SQL of the partials of the groups whose keys changed."""
        from materializer.lake.keys import table_of, wanted

        groups = self.plan.groups
        self.connection.register(_GROUPS, table_of(groups, self.definition.key_types))
        rows = self._raw_rows(spans, wanted(self.definition, [key for _, key in groups]))
        rows = self._placed(rows, self.definition.spec.time_column)
        return self._built("keyed", rows, self._in_hull(spans), of_groups=True)

    def _placed(self, rows: pa.Table, time: str) -> pa.Table:
        """Return rows with the start of the buckets of a group that a time of theirs is in; null outside of all."""
        import pyarrow as pa

        from materializer.lake.extent import instants_of
        from materializer.lake.predicates import SpanIndex

        instants = instants_of(rows[time], self.definition.time_type).fill_null(0).to_numpy()
        starts, is_inside = SpanIndex.of(span for span, _ in self.plan.keys_of_parts).containing(instants)
        return rows.append_column(_INSTANT, pa.array(starts, pa.int64(), mask=~is_inside))

    def _rolled_up(self, name: str, step: RollUp) -> str:
        """Return SQL of the partials that are merged from those of a finer aggregate."""
        from materializer.core.compiled.rolled_up import merged_from
        from materializer.local.forms import Forms

        over = merged_from(self.definition, step.keys)
        forms = Forms.of(over)
        rows = self._read(step.path, step.version, list(forms.columns), step.spans, SLICE)
        return self._built(name, rows, step.spans, over=(over, forms))

    def _changed(self, name: str, step: Merge | Retract, images: Sequence[str]) -> str:
        """Return SQL of the partials of some images of the rows that changed."""
        rows = self.executor.read_changes(
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
        of_groups: bool = False,
        over: tuple[Definition, Forms] | None = None,
    ) -> str:
        """Return SQL of the partials of the rows that count.

        Args:
            name: A name for the rows.
            rows: The rows, all of them in the buckets that are computed.
            inside: Spans around their times.
            of_groups: Whether only the rows of the groups count that are computed.
            over: What computes them, if not the definition itself.
        """
        definition, forms = over or (self.definition, self.forms)
        time = spark_quoted(definition.spec.time_column)
        self.connection.register(f"all_{name}", rows)
        near, every = inside.at_most(FEW_SPANS), "*"
        groups = "".join(f", {sql} AS {_KEY}{i}" for i, sql in enumerate(forms.keys.values()))
        counting = f"SELECT * FROM all_{name} WHERE {forms.where or 'true'}"
        if (clock := clock_of_start(definition.grid, time, near)) is None:
            start = compiled_text(bucket_start_sql(definition.grid, time, near), forms.columns)
        else:
            from materializer.local.clocks import CLOCK_COLUMNS, with_clock

            micros, every = compiled_text(clock.micros, forms.columns), f"* EXCLUDE ({', '.join(CLOCK_COLUMNS)})"
            counting = with_clock(self.connection, f"clock_{name}", counting, clock, micros)
            start = compiled_text(clock.edge, CLOCK_COLUMNS)
        grouped = f"SELECT {every}, {start} AS {_AT}{groups} FROM ({counting})"
        if of_groups:
            keys = (f"{_KEY}{i}" for i in range(len(forms.keys)))
            grouped = f"SELECT found.* FROM ({grouped}) AS found SEMI {_of_group(keys)}"
        if self.counts_groups:
            made = f"({grouped}) AS made"
        else:  # the rows that count are made once, because they are counted, too
            counted = self.connection.query(grouped)
            self.rows_read += counted.num_rows
            self.connection.register(name, counted)
            made = name
        builds = ", ".join(f"{sql} AS {quoted(column)}" for column, sql in forms.builds.items())
        by = [_AT, *(f"{_KEY}{i}" for i in range(len(forms.keys)))]
        names = [f"{ours} AS {quoted(column)}" for ours, column in zip(by, definition.group_columns, strict=True)]
        return f"SELECT {', '.join(names)}, {builds} FROM {made} GROUP BY {', '.join(by)}"

    def _merge(self, stored: str, came: Sequence[str], went: Sequence[str]) -> str:
        """Return SQL of stored partials with those of the rows that came, less those of the rows that went.

        Only the groups of these rows are merged, which are few of many; the others are passed on as they are stored.
        """
        from materializer.local.typed import failing

        signs = [(sql, 1) for sql in came] + [(sql, -1) for sql in went]
        changes = " UNION ALL BY NAME ".join(f"SELECT *, {sign} AS {SIGN} FROM ({sql})" for sql, sign in signs)
        columns = list(map(quoted, self.definition.group_columns))
        same = " AND ".join(f"stored.{column} IS NOT DISTINCT FROM changes.{column}" for column in columns)
        others, touched = (f"({stored}) AS stored {join} JOIN changes ON {same}" for join in ("ANTI", "SEMI"))
        forms = self.forms.retracts if went else self.forms.merges
        values = ", ".join(f"{sql} AS {quoted(column)}" for column, sql in forms.items())
        by = ", ".join(columns)
        rows = f"SELECT *, 1 AS {SIGN} FROM {touched} UNION ALL BY NAME SELECT * FROM changes"
        found = f"SELECT {by}, {values} FROM ({rows}) GROUP BY {by}"
        count = quoted(str(self.definition.layout.row_count))
        merged = f"SELECT * FROM ({found}) WHERE {failing(f'{count} < 0', f'{count} > 0')}" if went else found
        both = f"SELECT * FROM {others} UNION ALL BY NAME {merged}"
        return f"SELECT * FROM (WITH changes AS MATERIALIZED ({changes}) {both})"

    def _partial_list(self, of: str = "") -> str:
        return ", ".join(of + quoted(name) for name in self.forms.partials)
