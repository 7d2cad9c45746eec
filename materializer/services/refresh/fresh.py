"""The fresh read: clean buckets are read, dirty ones are computed on the fly, as of the newest source version.

All dirty buckets are computed, not only those above the threshold: the spans of the log and of an open refresh, and what changed
in the source since the last capture. They are computed as a refresh would compute them: by a merge where that is possible,
otherwise from raw rows; for an engine, the results that the changes touch. An aggregate over another is computed from
a fresh read of its parent, see :mod:`materializer.services.observe.upstream`. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.printed import Printed, PrintedTable, rows_table
from materializer.core.refresh.invalidation import Cause
from materializer.core.refresh.plan import Estimate, Plan, ReadCost
from materializer.core.spec.spec import TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.instants import Shown
from materializer.core.time.spans import EVERYTHING, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import NOTHING, ChangeFeedGapError, TablesAheadError, UsageError
from materializer.journal.events import Invalidated
from materializer.journal.state import AggregateState, States
from materializer.services.aggregate import Aggregate
from materializer.services.commit.commit_info import times_of
from materializer.services.commit.lake import Lake
from materializer.services.definitions import lineage, rolled_up, widened
from materializer.services.observe import raw_form, stored_extent
from materializer.services.observe.observe import Observation, applied
from materializer.services.observe.upstream import Upstream, above, judges_arrival, wanted_of
from materializer.services.planning import executors
from materializer.services.planning.planner import RunPlanner
from materializer.services.planning.runs import Request
from materializer.services.protocol.process import ATTEMPTS, OwnTableHead, Which
from materializer.services.protocol.refresh_steps import check_history
from materializer.services.refresh.fresh_rows import FreshRows, RowsHere
from materializer.structs import LateStruct

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from materializer.core.engines.work import Work
    from materializer.spark.run.fresh import OnTheFly

_PRINTED: Final = 20
"""Rows that are printed of those that were fetched."""


class FetchedRows(Printed, LateStruct, frozen=True):
    """Rows of a fresh read, and the cost of fetching them.

    Args:
        table: The rows, with the columns of the output.
        cost: The cost of fetching them.
        times: The columns with times of the bucket or window, and how people are shown these.
    """

    table: pa.Table
    cost: ReadCost
    times: Mapping[str, Shown] = field(default_factory=dict)

    def _tables(self) -> list[PrintedTable]:
        rows, cost, first = self.table.num_rows, self.cost, self.table.slice(0, _PRINTED)
        of_all = (
            f"the first {_PRINTED} of {rows:,} rows" if rows > _PRINTED else f"{rows:,} row{'' if rows == 1 else 's'}"
        )
        caption = (
            f"{of_all}; read {cost.rows_read:,} of the source in {cost.seconds:.2f} s, with {cost.jobs:,} Spark jobs"
        )
        listed = zip(*(column.to_pylist() for column in first.columns), strict=True)
        return [rows_table(caption, first.column_names, listed, self.times)]


class FreshRead(Printed, Struct, frozen=True):
    """Rows as of a source version, computed when they are fetched.

    The versions of all tables are fixed, so each evaluation gives the same rows.

    Args:
        source_version: The version.
        computed: Spans that are computed on the fly.
        strategy: ``merge``, ``recompute`` or both; ``nothing`` when all rows come from the output.
        estimate: Upper limit of what the computation reads.
        seconds: Duration of planning, with the start of Spark if it did not run yet.
        rows: Computes the rows.
        time_type: Type of its time column, for showing instants.
        times: The columns of the rows with times of the bucket or window, and how people are shown these.
    """

    _UNPRINTED: ClassVar = frozenset({"rows", "times"})

    source_version: int
    computed: SpanSet
    strategy: str
    estimate: Estimate
    seconds: float
    rows: FreshRows
    time_type: Shown = TimeType.TIMESTAMP
    times: Mapping[str, Shown] = field(default_factory=dict)

    @property
    def frame(self) -> DataFrame:
        """The rows as a frame with the columns of the output; each evaluation computes the dirty buckets again.

        The cost of an evaluation is not measured; :meth:`fetch` measures its own.
        """
        return self.rows.by_spark.frame

    @property
    def left_to_spark(self) -> str:
        """Why Spark computes the rows that are fetched; "" if this process does."""
        return self.rows.left_to_spark

    def fetch(self, limit: int | None = None) -> FetchedRows:
        """Compute and return the rows, with the cost.

        All dirty buckets are computed, however few rows are returned.

        Args:
            limit: How many rows at most, from the newest buckets; None for all, in no order.

        Raises:
            DataError: If rows make a measure fail.
            SourceDamagedError: If a file that is needed is gone.
        """
        return FetchedRows(*self.rows.fetch(limit), self.times)


class FreshView(Printed, Struct, frozen=True):
    """A view over the rows of a fresh read; its text form is its name.

    The versions of all tables are fixed. Each query computes the dirty buckets again.

    Args:
        name: Its name in SQL.
        source_version: The source version that it shows, the newest one when it was created.
        computed: Spans that a query computes on the fly.
        strategy: ``merge``, ``recompute`` or both; ``nothing`` when all rows come from the output.
        estimate: Upper limit of what the computation reads.
        seconds: Duration of its creation, with the start of Spark if it did not run yet.
        time_type: Type of its time column, for showing instants.
    """

    name: str
    source_version: int
    computed: SpanSet
    strategy: str
    estimate: Estimate
    seconds: float
    time_type: Shown = TimeType.TIMESTAMP

    def __str__(self) -> str:
        return self.name


class FreshReader(Struct):
    """Reads aggregates of one lake as of now; writes nothing."""

    lake: Lake

    def read(self, name: str, window: Span | None = None) -> FreshRead:
        """Return the rows of an aggregate as of the newest version of its source.

        Args:
            name: The aggregate.
            window: Limits the read to the whole buckets inside it; None for everything.

        Raises:
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            TablesAheadError: If a table was restored from an old copy.
        """
        began = time.perf_counter()
        with self.lake.reading(self.lake.journal.view().named(name)):
            try:
                read = self._read(name, window, may_merge=True)
            except ChangeFeedGapError:
                read = self._read(name, window, may_merge=False)
        return replace(read, seconds=round(time.perf_counter() - began, 3))

    def create_view(self, name: str, view: str | None = None) -> FreshView:
        """Create a view for SQL over the rows as of now, in every session of this Spark application.

        Args:
            name: The aggregate.
            view: Name of the view; the aggregate's name when None.

        Raises:
            UsageError: If the name is unfit for a view; no view was created.
            TablesAheadError: As :meth:`read`.
        """
        from materializer.core.language.assemble import name_problem  # noqa: PLC0415 (only for views)

        known = self.lake.journal.view().named(name).name
        view = known if view is None else view
        if problem := name_problem(view, "view"):
            raise UsageError(problem[1], hint=problem[2])
        read = self.read(name)
        read.frame.createOrReplaceGlobalTempView(view)
        full_name = f"global_temp.{quoted(view)}"
        found = read.source_version, read.computed, read.strategy, read.estimate, read.seconds
        return FreshView(full_name, *found, read.time_type)

    def _read(self, name: str, window: Span | None, *, may_merge: bool) -> FreshRead:
        return self._read_with_upstream(name, window, may_merge=may_merge)[0]

    def _read_with_upstream(self, name: str, window: Span | None, *, may_merge: bool) -> tuple[FreshRead, Upstream]:
        """Return the read, and what the aggregates over this one need of it."""
        lake, asked = self.lake, window
        observation, state, heads, parent = self._observed(name, window, may_merge=may_merge)
        if observation.aggregate.definition.spec.rolls_up is not None:
            states = self._over_wider_columns(state, lake.journal.view().states)
            behind = raw_form.behind(observation.aggregate, state, lake.root, states, lake.observation, newest=True)
            state = behind.state
            observation = observation.of(behind.aggregate)
        aggregate = observation.aggregate
        is_engine = aggregate.definition.engine is not None
        if is_engine and may_merge and _is_doubtful(state):
            return self._read_with_upstream(name, window, may_merge=False)
        if parent is not None:
            state = above(observation, state, parent, lake.engine())
            aggregate = observation.aggregate
        state = observation.without_old(state)
        window = EVERYTHING if window is None else whole_buckets(window, aggregate.definition.grid)
        inside = SpanSet.of(window) & (
            SpanSet.of(Span(state.retired, POS_INF)) if is_engine else SpanSet.of(EVERYTHING)
        )
        # an engine's results reach beyond their slices, so a change outside the window may change them
        planner = RunPlanner(observation, Request(may_merge=may_merge), lake.config, lake.engine)
        plan, work = planner.whole_plan(state, heads, EVERYTHING if is_engine else window)
        clean = inside - plan.replaced
        hull = observation.hull(state.cursor)

        def by_spark() -> OnTheFly:
            return lake.engine().fresh(
                aggregate.definition,
                aggregate.source,
                aggregate.paths,
                plan,
                clean=None if clean == SpanSet.of(EVERYTHING) else aggregate.predicate("output", clean),
                hull=hull,
                work=work,
                inside=aggregate.predicate("output", inside) if plan.replaced - inside else None,
            )

        def instead() -> OnTheFly:
            try:
                return by_spark()
            except ChangeFeedGapError:  # found by `read` where Spark was asked at once
                return self._read(name, asked, may_merge=False).rows.by_spark

        local, left = lake.chosen_local, self._why_spark(aggregate, plan, work, parent)
        if local is None or left:
            rows = FreshRows(by_spark, None, left)
            rows.by_spark  # noqa: B018 - so that an error of Spark shows early
        else:
            rows = FreshRows(instead, RowsHere(local, aggregate, plan, inside, hull), "")
        estimate = plan.estimate + parent.estimate if parent is not None and plan.spans else plan.estimate
        computed = plan.spans & inside
        gone = stored_extent.outlived(aggregate, lambda: heads[Which.OUTPUT].version, state.retired)
        column = aggregate.slice_column("output")
        upstream = Upstream(heads[Which.OUTPUT].version, computed | gone, column, lambda: rows.by_spark, estimate)
        shown = observation.aggregate.definition.grid.shown
        times = dict.fromkeys(times_of(aggregate), shown)
        return FreshRead(state.cursor, computed, plan.strategy, estimate, 0.0, rows, shown, times), upstream

    def _why_spark(self, aggregate: Aggregate, plan: Plan, work: Work | None, parent: Upstream | None) -> str:
        """Return why Spark computes a fresh read, "" if this process can."""
        local = self.lake.chosen_local
        if local is None:
            return "the settings say so"
        if parent is not None:
            return "it is computed from a fresh read of what it reads"
        if aggregate.definition.engine is not None and not plan.steps:
            return ""  # all rows come from the output
        if work is not None or aggregate.definition.engine is not None:
            return "results of an engine"
        return executors.why_not_here(aggregate, plan, local)

    def _observed(
        self, name: str, window: Span | None, *, may_merge: bool
    ) -> tuple[Observation, AggregateState, dict[Which, OwnTableHead], Upstream | None]:
        """Return an aggregate with all changes of its source captured, and its parent if the parent's output is not up to date."""
        for _ in range(ATTEMPTS):
            parent = self._upstream(name, window, may_merge=may_merge)
            observation, state, heads = _consistent(self.lake, name)
            if wider := widened.found(state, self.lake.engine, self.lake.config.run_rows):
                state = reduce(applied, wider.events, state)
                observation = observation.of(self.lake.aggregate(state))
            state = observation.looked(_given_back(observation, state))
            if parent is None or state.cursor == parent.version:
                return observation, state, heads, parent
        # the parent is published again and again, so its output is recent enough
        return observation, state, heads, None

    def _over_wider_columns(self, state: AggregateState, states: States) -> States:
        """Return the aggregates, those below a roll-up as they are over columns that became wider."""
        found = dict(states)
        for below in rolled_up.parents_of(state, self.lake.root, states):
            if wider := widened.found(below, self.lake.engine, self.lake.config.run_rows):
                found[below.id] = reduce(applied, wider.events, below)
        return found

    def _upstream(self, name: str, window: Span | None, *, may_merge: bool) -> Upstream | None:
        """Return the fresh read of the parent of an aggregate, None if the parent's output is up to date."""
        lake, view = self.lake, self.lake.journal.view()
        state = view.named(name)
        parent = lineage.parent_of(state.source.path, lake.root, view.states)
        definition = lake.aggregate(state).definition
        if parent is None or judges_arrival(definition) or definition.spec.rolls_up is not None:
            return None  # of a roll-up raw rows are read, however many aggregates lie between
        of_parent = lake.aggregate(parent).definition
        if window is not None:
            window = wanted_of(
                definition, whole_buckets(window, definition.grid), of_parent.spec.bucket_start or "", of_parent.grid
            )
        _, upstream = self._read_with_upstream(parent.name, window, may_merge=may_merge)
        return upstream if upstream.spans else None


def _is_doubtful(state: AggregateState) -> bool:
    """Whether partials and output of an engine may differ in buckets that no change of the source made dirty."""
    return state.plan is not None or any(e.cause in (Cause.DIFFERED, Cause.REPAIRED) for e in state.log.entries)


def _consistent(lake: Lake, name: str) -> tuple[Observation, AggregateState, dict[Which, OwnTableHead]]:
    """Return state and tables of one moment: nothing was published between reading the one and the others."""
    for _ in range(ATTEMPTS):
        observation = lake.observation(lake.journal.view().named(name))
        heads = {which: observation.head(which) for which in Which}
        state = lake.journal.view().named(name)
        if state.data_version != observation.aggregate.data_version:
            continue
        if state.switch and state.plan is not None:  # the switch replaces the output; the version before it is complete
            heads[Which.OUTPUT] = replace(heads[Which.OUTPUT], version=state.plan.output.version)
            return observation, state, heads
        latest = state.plan.n if state.plan else state.written_n
        if all(state.written_n <= head.n <= latest for head in heads.values()):
            for which, head in heads.items():
                check_history(state, which, head)
            return observation, state, heads
    raise TablesAheadError(
        f"the tables of '{state.name}' do not fit the journal: refresh {state.written_n} was the last",
        hint=f"run 'materializer repair {state.name}'",
        found={str(which): head.n for which, head in heads.items()},
        expected=state.written_n,
        wrote=NOTHING,
    )


def _given_back(observation: Observation, state: AggregateState) -> AggregateState:
    """Return *state* as if its open refresh had been given up, and its buckets had to be computed from raw rows."""
    if state.plan is None:
        return state
    forgotten = tuple(replace(e, after=None, keys=None, is_insert_only=False) for e in state.plan.taken)
    return applied(observation.given_back(state), Invalidated(forgotten, "unfinished"))
