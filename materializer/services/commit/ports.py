"""The ports of the protocol over the real journal, source and tables of one aggregate.

Spark computes every result and is started only for that. A small result is fetched and written by the driver, a large one
is written by Spark; the driver alone commits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from materializer.config import Config
from materializer.core.compiled.definition import Definition
from materializer.core.engines.work import KeySlices, Work
from materializer.core.quality.gates import has_gate
from materializer.core.quality.library import Library
from materializer.core.refresh.plan import ExecutorKind, Lane, Plan, RunReport, Settle
from materializer.core.time.spans import SpanSet
from materializer.core.time.windows import spans_text
from materializer.errors import (
    DataError,
    JournalConflictError,
    LeaseLostError,
    MaterializerError,
    NotLocalError,
    TablesAheadError,
    WriteFencedError,
)
from materializer.errors.base import masked
from materializer.journal.events import Done, Event, Lease, LeaseRenewed, LeaseTaken
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.transact import transact
from materializer.lake.log import LogGapError
from materializer.lake.notes import find_notes
from materializer.lake.write.commit import fence
from materializer.lake.write.replace import replace_by_files, replace_spans
from materializer.lake.write.replace_keys import replace_keys
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal, TooLarge
from materializer.services import processes
from materializer.services.activity import Hear, Phase, heard, hearing, tell_phase
from materializer.services.aggregate import refuse_links
from materializer.services.commit.commit_info import changed_in, note_of
from materializer.services.commit.counters import Counters
from materializer.services.commit.steady import steady
from materializer.services.commit.switch_ports import SwitchTables
from materializer.services.observe.observe import Observation
from materializer.services.planning import row_loss
from materializer.services.planning.planner import RunPlanner
from materializer.services.planning.runs import Request
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import PLANS, Audit, CommitsGoneError, OwnTableHead, Which
from materializer.services.quality.gate import Gate, metrics
from materializer.spark.runtime.planned import planned

if TYPE_CHECKING:
    from materializer.lake.computed import Computed
    from materializer.services.aggregate import Aggregate
    from materializer.spark.run.spark import Spark

TOO_LARGE: Final = ", or give 'local_memory' more"
"""What helps where the memory of this process is too small."""


class DeltaPorts(SwitchTables):
    """The protocol's ports over real Delta tables.

    Args:
        journal: The lake's journal.
        aggregate: The aggregate.
        config: Settings.
        spark: Starts Spark on first use.
        request: The request.
        library: Loads the library of expectations on first use.
        on_checkpoint: Called with the name of each point between commits within a step of the protocol.
        local: Computes what is small in this process; None if Spark computes everything.
    """

    def __init__(
        self,
        journal: Journal,
        aggregate: Aggregate,
        config: Config,
        spark: Callable[[], Spark],
        request: Request,
        library: Library,
        on_checkpoint: Callable[[str], None] = lambda _: None,
        local: LocalExecutor | None = None,
    ) -> None:
        self.aggregate = aggregate
        self.counters = Counters()
        self.observation = Observation(journal, aggregate, config, spark, request.options.as_of)
        self.planner = RunPlanner(self.observation, request, config, spark, local)
        self._local = local
        self._plans = 0
        self._why_moved = ""
        self._jobs: int | None = 0  # of Spark, for the checks of what this process computed
        self._journal = journal
        self._config = config
        self._library = library
        self._spark = spark
        self._runs = 1
        self._checkpoint = on_checkpoint
        self._computed: Computed | None = None
        self._used: Spark | None = None  # the Spark that computed the result; one started after it died cannot read it
        self._lock = threading.Lock()

    # -- journal ---------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[int, AggregateState]:
        """See :class:`Ports`."""
        view = self._journal.view()
        return view.version, view.living(self.aggregate.aggregate_id, self.aggregate.name)

    def append(self, version: int, events: Sequence[Event]) -> None:
        """See :class:`Ports`."""
        if any(isinstance(event, LeaseTaken) for event in events):
            refuse_links(self._journal.root, self.aggregate.name)
        if events:
            self._journal.append(version, self.aggregate.aggregate_id, events)
            self.counters.commits += 1

    def is_dead(self, lease: Lease) -> bool:
        """See :class:`Ports`."""
        return processes.is_dead(lease, time.time())

    def renew(self, lease: Lease) -> bool:
        """Append that the process still works, and return whether it has the lease; try again after another commit came first."""

        def decide(seen: tuple[int, AggregateState]) -> list[Event]:
            is_ours = seen[1].lease is not None and seen[1].lease.owner == lease.owner
            return [LeaseRenewed(lease.owner, time.time() + self._config.lease_seconds)] if is_ours else []

        try:
            return bool(transact(self.read, decide, lambda seen, events: self.append(seen[0], events), attempts=20))
        except JournalConflictError:
            return True
        except LeaseLostError:
            return False

    # -- tables ----------------------------------------------------------------------------------------------------------

    def head(self, which: Which) -> OwnTableHead:
        """See :class:`Ports`."""
        return self.observation.head(which)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """See :class:`Ports`."""
        base = plan.partials if which is Which.PARTIALS else plan.output
        try:
            notes = find_notes(self.aggregate.paths[which.value], base.version)
        except LogGapError as exc:
            raise CommitsGoneError(str(exc)) from exc
        written = [note for note in notes if note.kind in ("data", "switch")]
        if stranger := next((n for n in written if n.plan_id != plan.id and n.n <= plan.n), None):
            # earlier plans ended and were fenced before this plan was made, so another journal gave out this number
            raise TablesAheadError(
                f"the {which} table of '{self.aggregate.name}' carries refresh {stranger.n} of a journal that is not this one",
                hint=self.aggregate.mend,
                wrote=f"refresh {plan.n} may be in the tables; the repair counts it as never written",
            )
        return any(note.plan_id == plan.id for note in written)

    def fence(self, which: Which, plan: Plan) -> None:
        """See :class:`Ports`."""
        if self.head(which).n >= plan.n:
            return
        note = self._note(plan, "fence")
        fence(self.aggregate.paths[which.value], self.aggregate.app_ids[which.value], plan.n, note)
        self.counters.commits += 1

    def write(self, plan: Plan, result: Computed, which: frozenset[Which]) -> None:
        """See :class:`Ports`."""
        hear = heard()
        with ThreadPoolExecutor(max_workers=2) as pool:
            futures = [pool.submit(self._write_table, plan, result, table, hear) for table in sorted(which)]
        failures = [error for f in futures if (error := f.exception())]
        # a failure of the program says more than one of a table, and a table that another process fenced says least
        for failure in sorted(
            failures, key=lambda e: isinstance(e, MaterializerError) + isinstance(e, WriteFencedError)
        ):
            raise failure

    def _write_table(self, plan: Plan, result: Computed, which: Which, hear: Hear | None) -> None:
        self._checkpoint(f"writing_{which}")
        table = result.partials if which is Which.PARTIALS else result.output
        spans = plan.replaced if result.spans is None else result.spans
        if which is Which.PARTIALS and self.planner.of_engine is not None:
            spans -= plan.discarded
        only = None if result.only is None else result.only.within(spans)
        with hearing(hear):  # a thread does not hear what its command hears
            self._commit(plan, table, which, spans, result.rows, is_fetched=result.is_fetched, only=only)
        self._checkpoint(f"wrote_{which}")

    def _commit(
        self,
        plan: Plan,
        rows: Any,
        which: Which,
        spans: SpanSet,
        count: int,
        *,
        is_fetched: bool,
        only: KeySlices | None = None,
    ) -> None:
        aggregate, note = self.aggregate, self._note(plan, "data")
        if which is Which.OUTPUT:
            note |= note_of(aggregate, plan)
            published, started = plan.output.version, (lambda: self._used or self._spark())
            rows = steady(aggregate, published, rows, spans, only, self._config, started, is_fetched=is_fetched)
        path, app_id = aggregate.paths[which.value], aggregate.app_ids[which.value]
        column, order = aggregate.slice_column(which.value), aggregate.order(which.value)
        note |= changed_in(aggregate, plan, which.value, spans)
        by_keys = aggregate.definition.engine is not None
        if only is not None:
            result = replace_keys(path, rows, column, order[1:], only, app_id, plan.n, note, order=order)
        elif is_fetched:
            result = replace_spans(path, rows, column, spans, app_id, plan.n, note, order=order, within_buckets=by_keys)
        else:
            spark, predicate = self._used or self._spark(), aggregate.predicate(which.value, spans)

            def lay_out(folder: str, names: Sequence[str]) -> None:
                spark.lay_out(rows, path, folder, names, predicate=predicate, order=order, rows=count, by_keys=by_keys)
                tell_phase(Phase.COMMITTING)

            result = replace_by_files(path, lay_out, column, spans, app_id, plan.n, note, rows=count)
        with self._lock:
            self.counters.commits += 1
            self.counters.files_rewritten += result.files_removed

    def publish(self, plan: Plan, withheld: SpanSet) -> None:
        """See :class:`Ports`."""
        spans = plan.spans - withheld if withheld else plan.replaced
        version = self.head(Which.PARTIALS).version
        stored = self.observation.partials(version).estimate(spans)
        # where a refresh of an engine replaces results of keys, the slices around them may be large
        is_whole = self.planner.of_engine is None or not plan.keyed
        in_driver = (plan.lane is Lane.DRIVER and is_whole) or self._config.driver_holds(stored.rows, stored.bytes)
        definition, path = self._published(), self.aggregate.paths["partials"]
        output: Any = None
        if self._local is not None and self.planner.request.executor(self._config) != "spark":
            with suppress(NotLocal):
                output, in_driver = self._local.finalise_committed(definition, path, version, spans), True
        if output is None:
            self._used = self._spark()
            output = self._used.finalise_committed(definition, path, version, spans, fetch=in_driver)
        self._commit(plan, output, Which.OUTPUT, spans, stored.rows, is_fetched=in_driver)

    def _published(self) -> Definition:
        """Return the definition limited to the buckets that are retained now; the journal does not have a new build yet."""
        state = self._journal.view().all.get(self.aggregate.aggregate_id)
        return self.aggregate.published_from(self.aggregate.kept_from if state is None else state.retired)

    def _note(self, plan: Plan, kind: str) -> dict[str, Any]:
        return {"plan": plan.id, "n": plan.n, "kind": kind, "source_version": plan.source_version}

    # -- planning --------------------------------------------------------------------------------------------------------

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """See :class:`Ports`."""
        self._plans += 1
        if self._plans > 1:
            self.planner.why_again = (
                f" (plan {self._plans} of at most {PLANS}: what the last one was made of changed meanwhile)"
            )
        decision = self.planner.decide(state, heads)
        run = None if decision.note is None else decision.note.run
        self._runs = 1 if run is None else run.runs
        if decision.plan is None or not all(isinstance(step, Settle) for step in decision.plan.steps):
            return decision
        seconds = time.perf_counter() - self.counters.started
        report = RunReport(decision.plan.source_version, "settle", commits=self.counters.commits + 1, seconds=seconds)
        return replace(decision, events=(*decision.events, Done(decision.plan.n, report)))

    # -- computing -------------------------------------------------------------------------------------------------------

    def compute(self, plan: Plan, work: Work | None) -> Computed:
        """See :class:`Ports`."""
        self._why_moved, self._jobs = "", 0  # not of an earlier run of the same request
        definition = self._published()
        if plan.executor is ExecutorKind.LOCAL and self._local is not None:
            try:
                return self._computed_here(definition, plan, work, self._local)
            except NotLocal as exc:
                self._why_moved = masked(str(exc))
                request = self.planner.request
                is_cut = isinstance(exc, TooLarge) and work is None and request.fewer_rows(plan) is not None
                if is_cut or request.executor(self._config) == "local":
                    raise NotLocalError(
                        f"'{self.aggregate.name}' could not be computed without Spark: {exc}",
                        hint="leave the choice to 'auto'" + TOO_LARGE * isinstance(exc, TooLarge),
                        is_cut=is_cut,
                    ) from exc
        # an engine has no price; its rows take Spark some microseconds
        seconds = self._runs * (plan.seconds or 5e-6 * plan.estimate.likely_rows)
        with planned(seconds):
            spark = self._used = self._spark()
        paths = self.aggregate.paths
        hull = self.observation.hull(plan.source_version)
        asked = metrics(definition, plan) if has_gate(definition.spec, plan.n) else ()
        try:
            self._computed = spark.compute(
                definition,
                self.aggregate.source,
                paths["partials"],
                plan,
                hull=hull,
                work=work,
                metrics=asked,
            )
        except DataError as exc:
            where = spans_text(definition.grid, plan.spans)
            raise DataError(f"{exc.message} (buckets {where})", hint=exc.hint, wrote=exc.wrote, **exc.values) from exc
        self._refuse_fewer(spark, plan, self._computed)
        return self._computed

    def _computed_here(self, definition: Definition, plan: Plan, work: Work | None, local: LocalExecutor) -> Computed:
        source, partials = self.aggregate.source, self.aggregate.paths["partials"]
        hull = self.observation.hull(plan.source_version)
        computed = local.compute(definition, source, partials, plan, hull=hull, work=work)
        self._refuse_fewer(local, plan, computed)
        self._computed = computed
        return computed

    def _refuse_fewer(self, counter: row_loss.RowCounter, plan: Plan, computed: Computed) -> None:
        if not self.planner.request.options.accept_fewer_rows:
            known = self._journal.last_view.all.get(self.aggregate.aggregate_id)
            is_build = known is not None and bool(known.builds)
            row_loss.check(self.aggregate, counter, plan, computed, is_build=is_build)

    def audit(self, plan: Plan, result: Computed) -> Audit | None:
        """See :class:`Ports`."""
        if not has_gate(self.aggregate.definition.spec, plan.n):
            return None
        _, state = self.read()
        planner = self.planner.of_engine
        again = None if planner is None else lambda plan, spans: planner.again(state, plan, spans)
        chosen = self._config.quality.canaries.executor
        is_here = result.is_local if chosen == "auto" else chosen == "local"
        gate = Gate(
            self.aggregate,
            state,
            self._spark,
            self.observation.hull,
            self._library,
            self.planner.request.options.publish_anyway,
            again,
            self._local if is_here and result.is_fetched else None,
        )
        audited = gate(plan, result)
        if result.is_local:
            self._why_moved, self._jobs = "; ".join(gate.left), gate.jobs(plan)
        return audited

    def report(self, plan: Plan, result: Computed | None) -> RunReport:
        """See :class:`Ports`."""
        seconds = round(time.perf_counter() - self.counters.started, 3)
        extra = {"fewer_rows": "accepted"} if self.planner.request.options.accept_fewer_rows else {}
        extra |= {"left_to_spark": self._why_moved} if self._why_moved else {}
        base = RunReport(plan.source_version, plan.strategy, plan.lane.value, seconds=seconds, extra=extra)
        if result is None:
            return replace(base, commits=self.counters.commits + 1)
        return replace(
            base,
            buckets=result.buckets,
            rows_read=result.rows_read,
            partials_written=result.rows,
            rows_written=result.output_rows,
            jobs=self._jobs if result.is_local else (self._used or self._spark()).jobs_of(result),
            commits=self.counters.commits + 1,
            files_rewritten=self.counters.files_rewritten,
            executor=ExecutorKind.LOCAL.value if result.is_local else "",
            predicted=round(plan.seconds, 3),
            unlearned=0.0 if self._why_moved else round(plan.unlearned, 4),
        )

    def close(self) -> None:
        """Free the memory of the last result."""
        if self._computed is not None and self._used is not None:
            self._used.free(self._computed)
            self._computed = None
