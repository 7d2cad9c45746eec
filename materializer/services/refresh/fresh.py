"""The always-fresh read: clean buckets as published, dirty ones computed on the fly, as of the newest source version.

Dirty *old* buckets count as much as the tail above the threshold: dirty(v) is the log, the spans of an unfinished
refresh, and what changed in the source since the log was last told. They are computed as a refresh would compute them,
from kept partials and inserted rows where it may merge, and from raw rows elsewhere; of an engine what the changes touch.
An aggregate over another is computed from the parent's rows as of now, see :mod:`materializer.services.observe.upstream`. Nothing is
written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from materializer.core.compiled.definition import quoted
from materializer.core.refresh.invalidation import Cause
from materializer.core.refresh.plan import Estimate, ReadCost
from materializer.core.time.spans import EVERYTHING, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import ChangeFeedGapError, TablesAheadError, UsageError
from materializer.journal.events import Invalidated
from materializer.journal.state import AggregateState
from materializer.services.commit.lake import Lake
from materializer.services.definitions import lineage
from materializer.services.observe import stored_extent
from materializer.services.observe.observe import Observation, applied
from materializer.services.observe.upstream import Upstream, above, judges_arrival, wanted_of
from materializer.services.planning.planner import RunPlanner
from materializer.services.planning.runs import Request
from materializer.services.protocol.process import ATTEMPTS, OwnTableHead, Which

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from materializer.spark.run.fresh import OnTheFly


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """Rows of an always-fresh read, and what it took to have them.

    Args:
        table: The rows, columns as published.
        cost: What fetching them took.
    """

    table: pa.Table
    cost: ReadCost


@dataclass(frozen=True, slots=True)
class FreshRead:
    """Rows as of a source version: nothing is computed before they are asked for.

    Everything is pinned: what is asked for later is the same.

    Args:
        source_version: The version.
        computed: Spans that are computed on the fly.
        strategy: How: ``merge``, ``recompute`` or both; ``nothing`` when all is read as published.
        estimate: What that reads at most.
        seconds: What it took to find that out, with the start of Spark where it did not run yet.
        rows: What computes the rows.
    """

    source_version: int
    computed: SpanSet
    strategy: str
    estimate: Estimate
    seconds: float
    rows: OnTheFly = field(repr=False)

    @property
    def frame(self) -> DataFrame:
        """The rows as a frame, columns as published; each evaluation computes what is dirty again.

        What evaluating it takes is seen by whoever does it, and not by us: :meth:`fetch` tells.
        """
        return self.rows.frame

    def fetch(self, limit: int | None = None) -> FetchedRows:
        """Return the rows, computed now, and what that took.

        What is dirty is computed whole, however few rows are returned.

        Args:
            limit: How many at most, those of the newest buckets; None for all, in no order.

        Raises:
            DataError: If rows make a measure fail.
            SourceDamagedError: If a file that is needed is gone.
        """
        return FetchedRows(*self.rows.fetch(limit))


@dataclass(frozen=True, slots=True)
class FreshView:
    """A view over the rows of an always-fresh read; as text it is its name.

    It is pinned as the read is. No row is computed before it is asked, and each query computes what is dirty again.

    Args:
        name: What SQL calls it.
        source_version: The version of the source that it shows, the newest one when it was created.
        computed: Spans that a query computes on the fly.
        strategy: How: ``merge``, ``recompute`` or both; ``nothing`` when all is read as published.
        estimate: What that reads at most.
        seconds: What creating it took, with the start of Spark where it did not run yet.
    """

    name: str
    source_version: int
    computed: SpanSet
    strategy: str
    estimate: Estimate
    seconds: float

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class FreshReader:
    """Reads aggregates of one lake as of now; writes nothing."""

    lake: Lake

    def read(self, name: str, window: Span | None = None) -> FreshRead:
        """Return the rows of an aggregate as of the newest version of its source.

        Args:
            name: The aggregate.
            window: Where to read, whole buckets inside it; None for everything.

        Raises:
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            TablesAheadError: If a table was restored from an old copy.
        """
        began = time.perf_counter()
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
            UsageError: If that cannot name a view; no view was made.
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
        return FreshView(full_name, read.source_version, read.computed, read.strategy, read.estimate, read.seconds)

    def _read(self, name: str, window: Span | None, *, may_merge: bool) -> FreshRead:
        return self._told(name, window, may_merge=may_merge)[0]

    def _told(self, name: str, window: Span | None, *, may_merge: bool) -> tuple[FreshRead, Upstream]:
        """Return the read, and the same as the aggregates that read its output see it."""
        r = self.lake
        survey, state, heads, parent = self._looked(name, window, may_merge=may_merge)
        aggregate = survey.aggregate
        is_engine = aggregate.definition.engine is not None
        if is_engine and may_merge and _is_doubtful(state):
            return self._told(name, window, may_merge=False)
        if parent is not None:
            state = above(survey, state, parent, r.engine())
            aggregate = survey.aggregate
        state = survey.without_old(state)
        window = EVERYTHING if window is None else whole_buckets(window, aggregate.definition.grid)
        inside = SpanSet.of(window) & (
            SpanSet.of(Span(state.retired, POS_INF)) if is_engine else SpanSet.of(EVERYTHING)
        )
        # results of an engine reach beyond their slices: what changed outside the window may change them
        planner = RunPlanner(survey, Request(may_merge=may_merge), r.config, r.engine)
        plan, work = planner.whole_plan(state, heads, EVERYTHING if is_engine else window)
        clean = inside - plan.replaced
        rows = r.engine().fresh(
            aggregate.definition,
            aggregate.source,
            aggregate.paths,
            plan,
            clean=None if clean == SpanSet.of(EVERYTHING) else aggregate.predicate("output", clean),
            hull=survey.hull(state.cursor),
            work=work,
            inside=aggregate.predicate("output", inside) if plan.replaced - inside else None,
        )
        estimate = plan.estimate + parent.estimate if parent is not None and plan.spans else plan.estimate
        computed = plan.spans & inside
        gone = stored_extent.outlived(aggregate, lambda: heads[Which.OUTPUT].version, state.retired)
        column = aggregate.slice_column("output")
        upstream = Upstream(heads[Which.OUTPUT].version, computed | gone, column, rows, estimate)
        return FreshRead(state.cursor, computed, plan.strategy, estimate, 0.0, rows), upstream

    def _looked(
        self, name: str, window: Span | None, *, may_merge: bool
    ) -> tuple[Observation, AggregateState, dict[Which, OwnTableHead], Upstream | None]:
        """Return an aggregate as it is, everything captured that its source stores, and its parent where that has more to say."""
        r = self.lake
        for _ in range(ATTEMPTS):
            parent = self._upstream(name, window, may_merge=may_merge)
            survey, state, heads = _consistent(r, name)
            state = survey.looked(_given_back(survey, state))
            if parent is None or state.cursor == parent.version:
                return survey, state, heads, parent
        # another version of the parent is being published all the time: what it stores is what there is to say
        return survey, state, heads, None

    def _upstream(self, name: str, window: Span | None, *, may_merge: bool) -> Upstream | None:
        """Return the parent of an aggregate, read fresh, where that is not what it stores."""
        r, view = self.lake, self.lake.journal.view()
        state = view.named(name)
        parent = lineage.parent_of(state.source.path, r.root, view.states)
        definition = r.aggregate(state).definition
        if parent is None or judges_arrival(definition):
            return None
        of = r.aggregate(parent).definition
        if window is not None:
            window = wanted_of(definition, whole_buckets(window, definition.grid), of.spec.bucket_start or "", of.grid)
        _, upstream = self._told(parent.name, window, may_merge=may_merge)
        return upstream if upstream.spans else None


def _is_doubtful(state: AggregateState) -> bool:
    """Whether partials and output of an engine may differ where no change of the source tells of it."""
    return state.plan is not None or any(e.cause in (Cause.DIFFERED, Cause.REPAIRED) for e in state.log.entries)


def _consistent(r: Lake, name: str) -> tuple[Observation, AggregateState, dict[Which, OwnTableHead]]:
    """Return state and tables that belong together: nothing was published between the looks at them."""
    for _ in range(ATTEMPTS):
        survey = r.observation(r.journal.view().named(name))
        heads = {which: survey.head(which) for which in Which}
        state = r.journal.view().named(name)
        if state.data_version != survey.aggregate.data_version:
            continue
        if state.switch and state.plan is not None:  # readers are about to get another version; this one is whole
            heads[Which.OUTPUT] = replace(heads[Which.OUTPUT], version=state.plan.output.version)
            return survey, state, heads
        latest = state.plan.n if state.plan else state.written_n
        if all(state.written_n <= head.n <= latest for head in heads.values()):
            return survey, state, heads
    raise TablesAheadError(
        f"the tables of '{state.name}' do not fit the journal: refresh {state.written_n} was the last",
        hint=f"run 'materializer repair {state.name}'",
        found={str(which): head.n for which, head in heads.items()},
        expected=state.written_n,
    )


def _given_back(survey: Observation, state: AggregateState) -> AggregateState:
    """Return *state* as if its unfinished refresh had left no trace that can be relied on."""
    if state.plan is None:
        return state
    forgotten = tuple(replace(e, after=None, keys=None, is_insert_only=False) for e in state.plan.taken)
    return applied(survey.given_back(state), Invalidated(forgotten, "unfinished"))
