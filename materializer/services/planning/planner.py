"""From what is dirty to the plan of one run: what is taken, how it is computed, and who commits it."""

# ruff: noqa: PLC0415 - whether there is work is answered without what makes a plan

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.quality.gates import has_gate
from materializer.core.refresh.invalidation import MAX_KEYS, Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import MAX_SPANS, ExecutorKind, Lane, Plan, Recompute, TableBase
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import NotIncrementalError
from materializer.journal.events import Captured, Event, Invalidated, Planned
from materializer.journal.state import AggregateState
from materializer.lake.keys import why_not_recorded
from materializer.services.activity import Phase, tell_phase
from materializer.services.definitions.lineage import maker_of
from materializer.services.observe import frozen_bound, stored_extent
from materializer.services.observe.observe import Observation, applied, estimate_of
from materializer.services.planning import runs
from materializer.services.planning.runs import Request
from materializer.services.protocol.decision import Decision, RunNote
from materializer.services.protocol.process import OwnTableHead, Which
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.config import Config
    from materializer.core.compiled.definition import Definition
    from materializer.core.engines.work import Work
    from materializer.core.refresh.price import Prices
    from materializer.core.refresh.strategies import Facts
    from materializer.lake.extent import Extent
    from materializer.local.executor import LocalExecutor
    from materializer.services.planning.engine_planner import EnginePlanner
    from materializer.services.planning.engine_run import EngineRun
    from materializer.services.planning.executors import Needs
    from materializer.spark.run.spark import Spark

WHOLE: Final = 1 << 62
"""An engine's window is one run unless it is cut by hand: results reach beyond what a run would hold."""
CUTS: Final = 3
"""How often a run is made smaller for this process, before it is left to Spark."""


class _Due(Struct, frozen=True):
    """What a refresh has to do in its window; nothing of either where only a clock has moved.

    Args:
        dirty: The log inside the window.
        outlived: Where the output of an engine has rows that it no longer retains.
    """

    dirty: tuple[Entry, ...]
    outlived: SpanSet


class RunPlanner:
    """Plans the next run of a request.

    Args:
        observation: What there is.
        request: What was asked.
        config: Settings.
        engine: Starts Spark on first use and returns the engine.
        local: Computes what is small in this process; None if Spark computes everything.
    """

    def __init__(
        self,
        observation: Observation,
        request: Request,
        config: Config,
        engine: Callable[[], Spark],
        local: LocalExecutor | None = None,
    ) -> None:
        made = observation.aggregate.definition.engine
        if made is not None and made.params.end:
            # results of events that last reach beyond any end, and no later refresh would know of those above it
            request = replace(request, options=replace(request.options, end=None))
        self.observation = observation
        self.request = request
        self.of_engine: EnginePlanner | None = None
        """Plans what an engine computes; None for a continuous aggregate."""
        if made is not None:
            from materializer.services.planning.engine_planner import EnginePlanner
            from materializer.services.planning.engine_rows import EngineRows
            from materializer.services.planning.window_limit import WindowLimit

            by_spark = request.executor(config) == "spark"
            rows = EngineRows(observation.aggregate, engine, config.budget, None if by_spark else local)
            limit = WindowLimit(observation, rows, config.limits.windows)
            self.of_engine = EnginePlanner(rows, request, limit, observation.partials, config.budget.listed)
        self.why_again = ""
        """Why it plans again, for a plan that says what it does."""
        self._doing = ""
        self._config = config
        self._local = None if request.executor(config) == "spark" else local

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """Return what to capture and to do next; see :class:`materializer.services.protocol.process.Ports`."""
        from materializer.services.planning.patience import announced

        self._doing = "it reads what changed in the source"
        with announced(self.observation.aggregate.name, lambda: f"{self._doing}{self.why_again}"):
            return self._decide(state, heads)

    def _decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        tell_phase(Phase.READING)
        captured = self.observation.uncaptured(state)
        tell_phase(Phase.PLANNING)
        self._doing = "it looks where the source and its tables have rows"
        events, state = self._observed(state, captured)
        window = runs.whole_window(self.request, state, self.observation.aggregate.definition.grid)
        if window is None:
            return Decision(tuple(events), note=RunNote(None, None, SpanSet(), state.cursor, captured, state))
        changed_in = state.log.spans
        if self.request.options.force:
            wanted = frozen_bound.computable(window, state, self.observation.aggregate.definition.grid)
            event = Invalidated((runs.forced(wanted),), "forced")
            events.append(event)
            state = applied(state, event)
        due = self._due(state, window, lambda: heads[Which.OUTPUT].version)
        if due is None:
            return Decision(tuple(events), note=RunNote(None, window, SpanSet(), state.cursor, captured, state))
        arguments = state, heads, window, events, captured, changed_in, due
        if self.of_engine is not None:
            return self._plan(*arguments, WHOLE)
        why_spark, rows, rows_of_driver = "", self.request.options.run_rows, self._rows_of_driver(state, heads)
        if self._local is not None:
            found = self._plan(*arguments, rows)
            for _ in range(CUTS):
                few = self._rows_here(found.plan, state, heads)
                if few is None:
                    break
                rows, found = few, self._plan(*arguments, few)
            if found.plan is None or found.plan.executor is ExecutorKind.LOCAL or rows == rows_of_driver:
                return found
            why_spark = found.plan.executor_reason
        return self._plan(*arguments, rows_of_driver, why_spark)

    def has_work(self, state: AggregateState) -> bool:
        """Return whether :meth:`decide` would say or plan anything; versions and file lists tell, and no row is read.

        A source with a new version counts as work: only a capture tells what that version changed.
        """
        observation = self.observation
        version = observation.source_version(state)
        if self.request.options.force or version != state.cursor or state.extent_end == NEG_INF:
            return True
        events, state = self._observed(state, observation.uncaptured_at(state, version))
        window = runs.whole_window(self.request, state, observation.aggregate.definition.grid)
        return bool(events) or self._due(state, window, lambda: observation.head(Which.OUTPUT).version) is not None

    def _observed(self, state: AggregateState, captured: Captured | None) -> tuple[list[Event], AggregateState]:
        """Return what a run records before it plans (the capture, bounds that move) and the state after it."""
        events: list[Event] = [captured] if captured else []
        state = applied(state, captured) if captured else state
        # an engine's stored results tell where it can be cut: they are read once the refresh is done
        for move in self.observation.moves(state, freezes=self.of_engine is None):
            events.append(move)
            state = applied(state, move)
        return events, state

    def _due(self, state: AggregateState, window: Span | None, output_version: Callable[[], int]) -> _Due | None:
        """Return what there is to do in *window*, or None when that is nothing."""
        if window is None:
            return None
        dirty = self._dirt(state, SpanSet.of(window) | state.log.retired).entries
        has_clock_moved = self.of_engine is not None and self.of_engine.has_clock_moved(state)
        outlived = stored_extent.outlived(self.observation.aggregate, output_version, state.retired)
        return _Due(dirty, outlived) if dirty or has_clock_moved or outlived else None

    def _plan(
        self,
        state: AggregateState,
        heads: dict[Which, OwnTableHead],
        window: Span,
        events: list[Event],
        captured: Captured | None,
        changed_in: SpanSet,
        due: _Due,
        rows: int,
        why_spark: str = "",
    ) -> Decision:
        """Return the plan of a run of about so many *rows* of the source, and what is recorded with it.

        Spark computes it if *why_spark* says why.
        """
        from materializer.core.refresh.strategies import decide, reason_of, together
        from materializer.services.planning import automatic_rollup, executors, key_results, prices

        dirty, outlived, events = due.dirty, due.outlived, [*events]
        known = prices.prices_of(self.observation.others()[1])
        raw, stored = self._files(state, heads)
        facts = self._priced(self._facts(state, raw, stored, self.observation.stale(dirty, heads)), stored, known)
        dirt = self._dirt(state, SpanSet.of(window))
        dirty_spans = SpanSet.union(e.span for e in dirty)
        run = runs.first_run(
            replace(self.request.options, run_rows=rows),
            window,
            dirt,
            self.observation.aggregate.definition.grid,
            present=facts.present(dirty_spans),
            rows_in=raw.rows_in,
        )
        taken = self._dirt(state, SpanSet.of(run.window)).entries
        if len(taken) < MAX_SPANS or not any(e.cause is Cause.REPAIRED for e in state.uncomputable):
            # else one commit would replace what lies between, and only the output knows what that is; they wait for the next
            taken = self._dirt(state, SpanSet.of(run.window) | state.log.retired).entries
        self._doing = "it looks for the cheapest way to compute what is dirty"
        memory: dict[str, Any] = {}
        work: Work | None = None
        made: EngineRun | None = None
        of_slices: EngineRun | None = None
        if self.of_engine is None:
            computable = SpanSet.of(run.window) & frozen_bound.raw_spans(state)
            steps = together(decide(taken, facts), facts, computable)
            if facts.only in ("", automatic_rollup.ROLL_UP):
                steps = automatic_rollup.chosen(steps, self.observation, state.cursor, facts)
        else:
            made = self.of_engine.run(
                state,
                run.window,
                taken,
                heads[Which.PARTIALS].version,
                facts.raw,
                lambda s: self._dirt(state, s).entries,
                changed_in,
            )
            of_slices, made = made, self._of_keys(made, state, heads, outlived)
            taken, steps, work, memory = made.taken, made.steps, made.work, {"engine": as_dict(made.work.at)}
            if conflicts := made.conflicts - SpanSet.union(e.span for e in state.uncomputable):
                entries = tuple(Entry(span, None, Cause.CONFLICT) for span in conflicts)
                events.append(Invalidated(entries, "rows above the frozen bound belong to results that begin below it"))
            replaced = SpanSet.union(s for step in steps if isinstance(step, Recompute) for s in step.spans)
            if outlived := outlived - replaced:
                steps = (*steps, Recompute(outlived, reason_of(Cause.RETIRED), is_discard=True))
        self._refuse_if_strict(steps)
        plan = Plan(
            uuid4().hex,
            _next_n(state, heads),
            state.cursor,
            run.window,
            taken,
            steps,
            Lane.DRIVER,
            TableBase(heads[Which.PARTIALS].table_id, heads[Which.PARTIALS].version),
            TableBase(heads[Which.OUTPUT].table_id, heads[Which.OUTPUT].version),
        )
        results = None if made is None else made.results
        plan = replace(plan, lane=self._lane(state, plan, raw, stored, results))
        if of_slices is not None and work is not None and work.only is not None and plan.lane is Lane.SPARK:
            of_slices = key_results.rejecting(of_slices, "the results of these keys may be more than the driver holds")
            work, plan = of_slices.work, replace(plan, steps=of_slices.steps)
            plan = replace(plan, lane=self._lane(state, plan, raw, stored))
        wanted, needs = self.request.executor(self._config), self._needs(plan, run.runs, state, raw, stored)
        executor, reason = ExecutorKind.SPARK, why_spark
        if not why_spark:
            executor, reason = executors.chosen(self.observation.aggregate, plan, work, wanted, self._local, needs)
        plan = replace(plan, executor=executor, executor_reason=reason)
        if self.of_engine is None:
            written = prices.written_by(plan, stored, prices.groups_per_row(state))
            starting = 0.0 if self._local is None else self._local.starting()
            plan = prices.predicted(plan, known, written, self._config.budget, None if wanted == "local" else starting)
            # this process commits what it computes, however much it is
            plan = replace(plan, lane=Lane.DRIVER) if plan.executor is ExecutorKind.LOCAL else plan
        options = {"forced": self.request.options.force, **self.request.options.plan_note, **memory}
        events.append(Planned(plan, run.window.end, options))
        note = RunNote(run, window, dirty_spans, state.cursor, captured, state)
        return Decision(tuple(events), plan, work, note)

    def _of_keys(
        self, run: EngineRun, state: AggregateState, heads: dict[Which, OwnTableHead], outlived: SpanSet
    ) -> EngineRun:
        """Return an engine's run that replaces only the results of changed keys, where that is allowed and cheaper."""
        from materializer.services.planning import key_results

        why_whole = "rows that the output no longer retains are removed" if outlived else ""
        if has_gate(self.observation.aggregate.definition.spec, _next_n(state, heads)):
            why_whole = "its gate checks whole slices"
        asked = self.request.options.strategy
        version = heads[Which.PARTIALS].version
        return key_results.of_keys(run, self.observation, state.cursor, version, asked, why_whole)

    def whole_plan(
        self, state: AggregateState, heads: dict[Which, OwnTableHead], window: Span
    ) -> tuple[Plan, Work | None]:
        """Return a plan for everything dirty in a window, in one run that is never written, and the work of an engine."""
        from materializer.core.refresh.strategies import decide

        newest = max(state.extent_end, state.threshold)
        below = SpanSet() if newest == NEG_INF else SpanSet.of(Span(NEG_INF, newest))
        taken = self._dirt(state, SpanSet.of(window) & below).entries
        raw, stored = self._files(state, heads)
        facts = self._facts(state, raw, stored, self.observation.stale(taken, heads))
        partials, output = (TableBase(heads[w].table_id, heads[w].version) for w in (Which.PARTIALS, Which.OUTPUT))
        work: Work | None = None
        if self.of_engine is None or not taken:
            # a subtraction that fails is planned again as a recompute, which rows that are read later cannot be
            steps = decide(taken, replace(facts, not_retractable="the rows are computed when they are read"))
        else:
            made = self.of_engine.run(
                state, window, taken, partials.version, facts.raw, lambda s: self._dirt(state, s).entries
            )
            taken, steps, work = made.taken, made.steps, made.work
        return Plan("", 0, state.cursor, window, taken, steps, Lane.SPARK, partials, output), work

    def _dirt(self, state: AggregateState, window: SpanSet) -> InvalidationLog:
        """Return what a run may take inside some spans; below the frozen bound only what merges, and that it may."""
        below, above = state.computable.split(state.frozen)
        merges = self.request.may_merge
        frozen = [e for e in below.cut(window).taken if merges or e.cause is Cause.RETIRED]
        return InvalidationLog((*frozen, *above.cut(window).taken))

    def _facts(self, state: AggregateState, raw: Extent, stored: Extent, stale: SpanSet) -> Facts:
        from materializer.core.refresh.strategies import Facts

        definition = self.observation.aggregate.definition
        has_keys = bool(definition.spec.keys) and self.of_engine is None
        return Facts(
            raw=lambda spans: estimate_of(raw, spans),
            changed=lambda after, _: self.observation.changed(state, after),
            stored=lambda spans: estimate_of(stored, spans),
            present=lambda spans: self.observation.present_in(raw, stored, stale, spans),
            feed_from=0 if self.request.may_merge else None,
            not_mergeable=definition.layout.not_mergeable,
            not_retractable=definition.layout.why_not_retract or _checks_rows(definition),
            is_first=state.threshold == NEG_INF,
            no_feed_reason="the change feed could not be read a moment ago",
            is_of_ours=bool(maker_of(self.observation.aggregate.source.path, self.observation.others()[0])),
            other_source=state.mark.reason,
            frozen=state.frozen,
            keyed=(lambda entries: self.observation.raw_of_keys(state.cursor, entries)) if has_keys else None,
            not_keyed=(why_not_recorded(definition) or _unknown_keys(definition)) if has_keys else "",
        )

    def _priced(self, facts: Facts, stored: Extent, known: Prices) -> Facts:
        """Return *facts* with the prices of a lake."""
        from materializer.core.refresh.price import RATES
        from materializer.services.planning import prices

        local = self._local
        most = (0, 0) if local is None else (local.rows, local.size)
        executor = ExecutorKind.SPARK if local is None else ExecutorKind.LOCAL
        rates = RATES[executor]

        def write(spans: SpanSet) -> float:
            return stored.estimate(spans).likely_rows * rates.written * known.factor(executor)

        def copy(spans: SpanSet) -> float:
            return write(spans) + known.reading(executor, "", estimate_of(stored, spans), len(spans))

        return replace(
            facts,
            price=prices.pricing(known, local_rows=most[0], local_bytes=most[1], budget=self._config.budget),
            only=self.request.options.strategy,
            tie=self._config.price_tie_ms / 1000,
            step=rates.step * known.factor(executor),
            copy=copy,
            write=write,
        )

    def _rows_here(self, plan: Plan | None, state: AggregateState, heads: dict[Which, OwnTableHead]) -> int | None:
        """Return the source rows of a run that this process holds, where a few of them take the place of *plan*, else None."""
        from materializer.services.planning import executors, run_size

        if plan is None or self._local is None or self.request.options.run_buckets:
            return None
        raw, stored = self._files(state, heads)
        needs = self._needs(plan, 1, state, raw, stored)
        if not executors.is_only_too_large(self.observation.aggregate, plan, self._local, needs):
            return None
        rows = raw.rows_in(SpanSet.union(e.span for e in plan.taken))
        return max(round(run_size.ROOM * rows / needs.shares(self._local)), 1)

    def _needs(self, plan: Plan, runs: int, state: AggregateState, raw: Extent, stored: Extent) -> Needs:
        """Return what computing a plan in this process needs; *runs* are those of the request, about."""
        from materializer.services.planning import run_size
        from materializer.services.planning.executors import Needs

        definition = self.observation.aggregate.definition
        groups = 0.0
        if self.of_engine is None:
            likely = plan.estimate.likely_rows + stored.estimate(plan.replaced).likely_rows
            groups = min(run_size.most_groups(plan, state, raw, stored), likely)
        return Needs(
            min(plan.estimate.likely_rows * runs, max(plan.estimate.likely_rows, raw.rows)),
            run_size.read_bytes(plan, definition, stored),
            groups * run_size.group_bytes(definition, stored),
        )

    def _rows_of_driver(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> int:
        """Return the source rows of a run: as configured, or fewer when that lets the driver commit the result."""
        from materializer.services.planning import run_size

        rows = self.request.options.run_rows
        most = self._config.driver_lane_rows
        return run_size.for_driver(rows, most, state, *self._files(state, heads)) if self.request.may_fetch else rows

    def _files(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> tuple[Extent, Extent]:
        """Return the files of the source and those of the partials."""
        return self.observation.raw(state.cursor), self.observation.partials(heads[Which.PARTIALS].version)

    def _lane(self, state: AggregateState, plan: Plan, raw: Extent, stored: Extent, results: int | None = None) -> Lane:
        """Let the driver commit what is small; *results* are those of an engine that replaces results of some keys, at most."""
        from materializer.services.planning import run_size

        groups = run_size.most_groups(plan, state, raw, stored, results)
        is_small = self._config.driver_holds(groups, groups * run_size.row_bytes(stored))
        return Lane.DRIVER if is_small and self.request.may_fetch else Lane.SPARK

    def _refuse_if_strict(self, steps: Sequence[Any]) -> None:
        if not self.request.options.strict:
            return
        for step in steps:
            if isinstance(step, Recompute) and step.is_rebuild:
                raise NotIncrementalError(
                    f"the plan for '{self.observation.aggregate.name}' is a rebuild: {step.reason}",
                    hint="run it without --strict, or backfill first",
                )


def _next_n(state: AggregateState, heads: Mapping[Which, OwnTableHead]) -> int:
    """Return the number of the next refresh."""
    return 1 + max(state.last_n, *(h.n for h in heads.values()))


def _checks_rows(definition: Definition) -> str:
    """Return why a changed row, which may have changed again, is not enough for the gate; "" if it is."""
    from materializer.services.definitions import suites

    is_checked = suites.SOURCE in suites.of(definition.spec)
    return "its gate checks all rows of the source that it reads" if is_checked else ""


def _unknown_keys(definition: Definition) -> str:
    """Return why changed keys that are expressions may be unknown; "" if none is an expression."""
    names = [k.name for k, source in zip(definition.spec.keys, definition.key_sources, strict=True) if source is None]
    if not names:
        return ""
    return f"more than {MAX_KEYS} keys changed, or no changed value of the expression {names[0]} was computed here"
