"""The façade: one lake, opened with one's own Spark session or none. The only module that chooses adapters.

Importing it loads no engine; Spark is imported inside the function that builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from materializer import config as configuration
from materializer.config import Config
from materializer.core.aggregates.python import PythonAggregate, by_name
from materializer.core.compiled.definition import quoted
from materializer.core.quality.library import ExpectationLibrary
from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import CONTINUOUS, AggregateSpec
from materializer.core.time.grid import Grid
from materializer.core.time.instants import parse, parse_window
from materializer.core.time.spans import EVERYTHING, POS_INF, Span
from materializer.errors import (
    ConfigError,
    DefinitionError,
    ExpireBoundError,
    JournalError,
    MaterializerError,
    Problem,
    UsageError,
)
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState, Ended
from materializer.lake.output_diff import feed_rows
from materializer.lake.rows import to_pandas
from materializer.services.aggregate import Bound
from materializer.services.commit.lake import Lake, OutputHandler
from materializer.services.definitions import lineage as cascade
from materializer.services.definitions.apply import Change, Definitions, Prepared
from materializer.services.definitions.texts import Texts
from materializer.services.delivery import output_feed
from materializer.services.delivery.handlers import by_name as by_handler_name
from materializer.services.maintenance.expire import Expirer, Expiry, Thaw
from materializer.services.maintenance.maintain import Maintainer, MaintainReport, OnPlan
from materializer.services.planning.runs import Request
from materializer.services.protocol.decision import RunNote
from materializer.services.quality.check import Checker, CheckReport
from materializer.services.quality.verify import Verifier, VerifyReport
from materializer.services.refresh.fresh import FreshRead, FreshReader, FreshView
from materializer.services.refresh.invalidate import Invalidator
from materializer.services.refresh.preview import Preview, Previewer
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.refresh.service import Refresher
from materializer.services.repair.apply import Repairer, RepairReport
from materializer.services.repair.backup import BackupReport, Backups, RestoreReport
from materializer.services.report.doctor import Doctor
from materializer.services.report.source_lateness import SourceLateness
from materializer.services.report.status import Looker, Status
from materializer.services.report.tables import Finding
from materializer.services.schedule.policies import Policies, PolicyReport, PolicyState, options
from materializer.services.versions.build import Builder, BuildReport
from materializer.services.versions.versions import SwitchReport, Versions
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from materializer.spark.run.spark import Engine
    from materializer.spark.runtime.jvm import Death

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")

Instant = str | int | None
"""An end of a window: ISO text, a raw integer for integer time columns, or None for an open end."""


@watched
class Materializer:
    """Continuous aggregates of one lake.

    Instants go in as ISO text (UTC where it says nothing else) or, for integer time columns, as whole numbers; they come
    out as :class:`~materializer.Span`, in microseconds since 1970-01-01T00:00:00Z or in the column's own numbers. Windows
    are half-open, open where an end is None. Durations in reports are seconds of wall time.

    What every method may raise besides what it says itself: UnknownAggregateError for a name that the lake does not have,
    RefreshWindowError for a window that cannot be read or is reversed, JournalError where the journal cannot be read, and,
    of those that write, LeaseHeldError while another live process works on the aggregate.

    Args:
        lake: Root folder; None takes it from the configuration.
        spark: A session to compute with. It is left as it is found; without one an embedded Spark is started when
            something has to be computed, and not before.
        config: Settings; None reads ``materializer.toml`` and the environment.
        python_aggregates: Aggregates written in Python, besides those that the configuration names.
        output_handlers: Functions that definitions name as ``output_handler``, by name, likewise.
        on_checkpoint: Told the name of each step of what writes before it is done; for tests.

    Raises:
        ForeignSettingError: If *spark* skips files that it cannot read.
        UsageError: If an aggregate in Python cannot be imported, or has an unfit name.

    Examples:
        >>> Materializer("no-lake-yet").status()
        []
    """

    def __init__(
        self,
        lake: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        config: Config | None = None,
        python_aggregates: Iterable[PythonAggregate] = (),
        output_handlers: Mapping[str, OutputHandler] = MappingProxyType({}),
        on_checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.config = configuration.read() if config is None else config
        self.root = _folder(str(self.config.lake if lake is None else lake))
        if spark is not None:
            from materializer.spark.runtime.session import refuse_unsafe_settings

            refuse_unsafe_settings(spark)
        self._spark = spark
        self._built: Engine | None = None
        self._died: Death | None = None
        self._starting = RLock()
        self._python = by_name([*self.config.python_aggregates, *python_aggregates])
        self._texts = Texts(frozenset(self._python))
        self.journal = Journal(self.root, snapshot_every=self.config.snapshot_every, on_checkpoint=on_checkpoint)
        handlers = by_handler_name(self.config.output_handlers, output_handlers)
        self._lake = Lake(self.root, self.journal, self.config, self.engine, _library, on_checkpoint, handlers)
        self._refresher = Refresher(self._lake)
        self._definitions = Definitions(self.root, self.journal, self.config, self.engine, _library, on_checkpoint)
        self._looker = Looker(self.root, self.journal)
        self._versions = Versions(self._lake, self._definitions)
        self._policies = Policies(self._lake, self._definitions, self._refresher)

    def engine(self) -> Engine:
        """Return Spark, started on the first call, and once more after its process has died.

        Raises:
            SparkDiedError: If it has died again, or runs in a session that was given.
        """
        with self._starting:
            if self._built is not None and (death := self._built.death()):
                if self._spark is not None or self._died is not None:
                    raise death.error()
                self._built, self._died = None, death
            elif self._built is None and self._died is not None:
                raise self._died.error()  # what was to take its place did not start
            if self._built is None:
                from materializer.spark.runtime.session import start

                given = self._spark
                spark = given if given is not None else start(self.config, loads=["materializer.spark.run.spark"])
                from materializer.spark.run.spark import Engine

                self._built = Engine(spark, self._python)
            return self._built

    @property
    def has_started_spark(self) -> bool:
        """Whether anything needed Spark so far."""
        return self._built is not None

    # -- definitions -----------------------------------------------------------------------------------------------------

    def read_definitions(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec]
    ) -> tuple[list[AggregateSpec], list[Problem]]:
        """Return the definitions in SQL text, files, folders of ``*.sql`` files or specs, and warnings about them.

        Args:
            what: One of these, or several. A text of one line that does not begin with ``CREATE`` is a path.

        Raises:
            DefinitionError: With every problem of every text.
            UsageError: If a file is not there or cannot be read.
        """
        return self._texts.read(what)

    def apply(
        self,
        what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec],
        *,
        dry_run: bool = False,
        publish_anyway: str = "",
    ) -> list[Change]:
        """Make definitions known to the lake: checked whole first, then written one by one.

        A definition whose data changed becomes the next version of its aggregate, which :meth:`build` fills and
        publishes; what is published is refreshed and read meanwhile.

        Args:
            what: SQL text, a file, a folder, specs, or several of these.
            dry_run: Only say what would change.
            publish_anyway: Why a next version that is made from stored partials, and does not meet its expectations, is
                made all the same; recorded.

        Raises:
            DefinitionError: With every problem of every definition; nothing was written.
            FrozenHistoryError: If data changed and history is frozen.
            TableNotFoundError: If a source is not there.
        """
        specs, _ = self.read_definitions(what)
        prepared = self._prepared(specs)
        if dry_run:
            return [p.change for p in prepared]
        if self._versions.end_open_switches(prepared):
            prepared = self._prepared(specs)
        self._versions.refuse_frozen(prepared)
        changes: list[Change] = []
        try:
            for each in prepared:
                changes.append(self._versions.apply(each, publish_anyway))  # noqa: PERF401 (an error tells how far it came)
        except MaterializerError as exc:
            if changes:
                exc.follows(f"{', '.join(c.name for c in changes)} {'are' if changes[1:] else 'is'} applied")
            raise
        finally:
            self.journal.tidy()
        return changes

    def _prepared(self, specs: Sequence[AggregateSpec]) -> list[Prepared]:
        try:
            return self._definitions.prepare(specs)
        except DefinitionError as exc:
            raise DefinitionError(self._texts.placed(p, specs) for p in exc.problems) from exc

    def define(self, name: str, source: str, **parts: Any) -> Change:
        """Define an aggregate from Python, and apply the definition.

        Args:
            name: Name of the aggregate.
            source: A path, or a name.
            parts: Those of :func:`materializer.define`, or, with an ``engine``, of
                :func:`materializer.core.language.engine_define.define_engine`.

        Raises:
            DefinitionError: With every problem; nothing was written.
            FrozenHistoryError: As :meth:`apply`.
        """
        from materializer.core.language.define import define
        from materializer.core.language.engine_define import define_engine

        known = frozenset(self._python)
        if parts.get("engine", CONTINUOUS) != CONTINUOUS:
            return self.apply(define_engine(name, source, **parts, known_python=known))[0]
        return self.apply(
            define(name, source, **{k: v for k, v in parts.items() if k != "engine"}, known_python=known)
        )[0]

    def drop(self, name: str, *, cascade: bool = False) -> list[str]:
        """Remove an aggregate with all its tables; its source is never touched.

        Args:
            name: The aggregate.
            cascade: Remove the aggregates that read it, too, those that nobody reads first.

        Returns:
            The names of what was removed, in this order.

        Raises:
            HasReadersError: If others read it, without *cascade*; nothing was written.
        """
        gone = self._versions.drop(name, cascade=cascade)
        self.journal.tidy()
        return gone

    # -- versions --------------------------------------------------------------------------------------------------------

    def build(
        self,
        name: str,
        *,
        buckets_per_run: int | None = None,
        order: Literal["newest", "oldest"] = "newest",
        max_runs: int | None = None,
        switch: bool = True,
        as_of: Instant = None,
        publish_anyway: str = "",
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> BuildReport:
        """Build the next version of an aggregate in runs, and publish it once it covers what is published.

        Args:
            name: The aggregate.
            buckets_per_run: Buckets one run takes; None sizes runs by source rows.
            order: Which end is done first.
            max_runs: Stop after so many runs; the next call goes on.
            switch: Whether it is published at the end.
            as_of: Clock instant that closes windows of an engine.
            publish_anyway: Why what fails its expectations is built all the same; recorded.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UsageError: If *buckets_per_run* or *max_runs* is less than 1.
            NothingBuiltError: If there is no next version.
            QualityGateError: If what was computed does not meet the expectations; it is not kept.
            DataError: If rows make a measure fail.
        """
        build = self._versions.build_of(self._undisturbed(name))
        request = replace(
            self._request(build.id, None, None, force=False, strict=False, as_of=as_of),
            run_buckets=_positive(buckets_per_run),
            is_newest_first=order == "newest",
            publish_anyway=publish_anyway,
        )
        builder = Builder(self._versions, self._refresher)
        return builder.build(name, request, max_runs=max_runs, switches=switch, on_plan=on_plan, on_run=on_run)

    def _undisturbed(self, name: str) -> AggregateState:
        """Return an aggregate once a switch that a dead process began has ended."""
        if self.journal.view().named(name).switch:
            with self._lake.lease(name):
                pass
        return self.journal.view().named(name)

    def next_grid(self, name: str) -> Grid:
        """Return how the next version of an aggregate divides time.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        return self.grid(self._versions.build_of(self.journal.view().named(name)).id)

    def switch(self, name: str) -> SwitchReport:
        """Publish the next version of an aggregate in one commit, if it covers what is published.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
            NotCoveredError: If it lacks a span or a source version that readers have; nothing was switched.
        """
        return self._versions.switch(name)

    def rollback(self, name: str, *, back: int = 1) -> None:
        """Make a previous version the next one, from its kept partials; :meth:`build` brings it up to date.

        Args:
            name: The aggregate.
            back: Which of those that are kept; 1 is the newest.

        Raises:
            NothingBuiltError: If so many are not kept.
            FrozenHistoryError: If history was frozen since.
        """
        if back < 1:
            raise UsageError(
                f"kept versions count from 1, got {back}", hint="'materializer status' lists them, newest first"
            )
        self._versions.rollback(name, back)

    def abandon(self, name: str) -> None:
        """Give the next version up; what is published stays.

        Args:
            name: The aggregate.

        Raises:
            NothingBuiltError: If there is no next version.
        """
        self._versions.abandon(name)

    # -- refreshing ------------------------------------------------------------------------------------------------------

    def plan(
        self, name: str, start: Instant = None, end: Instant = None, *, force: bool = False, strict: bool = False
    ) -> Preview:
        """Return what a refresh of the window would do; writes nothing.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            force: Compute clean buckets again too.
            strict: Refuse what is not incremental.

        Raises:
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            NotIncrementalError: If *strict* refuses it.
        """
        request = self._request(name, start, end, force=force, strict=strict)
        return Previewer(self._lake).preview(name, request)

    def refresh(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        force: bool = False,
        strict: bool = False,
        as_of: Instant = None,
        max_runs: int | None = None,
        publish_anyway: str = "",
        accept_fewer_rows: bool = False,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Make every whole bucket of [start, end) true at one source version per run.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            force: Compute clean buckets again too.
            strict: Refuse what is not incremental.
            as_of: Clock instant that closes windows of an engine; it never goes back.
            max_runs: Stop after so many runs; the rest stays dirty.
            publish_anyway: Why what fails its expectations is published all the same; recorded.
            accept_fewer_rows: Compute history from what the source has, though rows of it went that nobody saw go.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UsageError: If *max_runs* is less than 1.
            RefreshWindowTooSmallError: If the window holds no whole bucket.
            FrozenWindowError: If it lies wholly in frozen history; RetiredWindowError, before what the output keeps.
            NotIncrementalError: If *strict* refuses the plan.
            FewerRowsError: If history would be computed from fewer rows than it was made from, and nobody saw them go.
            QualityGateError: If what was computed does not meet the expectations; it is not published and stays dirty.
            DataError: If rows make a measure fail; their buckets are named.
            OutputHandlerError: If the output handler failed; what was refreshed is published.
        """
        request = self._request(name, start, end, force=force, strict=strict, as_of=as_of)
        request = replace(request, publish_anyway=publish_anyway, accepts_fewer_rows=accept_fewer_rows)
        return self._refresher.refresh(name, request, max_runs=max_runs, on_plan=on_plan, on_run=on_run)

    def backfill(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        buckets_per_run: int | None = None,
        order: Literal["newest", "oldest"] = "newest",
        max_runs: int | None = None,
        force: bool = False,
        publish_anyway: str = "",
        accept_fewer_rows: bool = False,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Refresh a window in runs; resumable, because what is not done stays dirty.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for the end of the newest bucket.
            buckets_per_run: Buckets one run takes; None sizes runs by source rows.
            order: Which end is done first.
            max_runs: Stop after so many runs.
            force: Compute clean buckets again too.
            publish_anyway: Why what fails its expectations is published all the same; recorded.
            accept_fewer_rows: Compute history from what the source has, though rows of it went that nobody saw go.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UsageError: If *buckets_per_run* or *max_runs* is less than 1.
            QualityGateError: As :meth:`refresh`, and whatever else that raises; runs that were done stay.
        """
        request = replace(
            self._request(name, start, end, force=force, strict=False),
            run_buckets=_positive(buckets_per_run),
            is_newest_first=order == "newest",
            publish_anyway=publish_anyway,
            accepts_fewer_rows=accept_fewer_rows,
        )
        return self._refresher.refresh(name, request, max_runs=max_runs, on_plan=on_plan, on_run=on_run)

    def invalidate(self, name: str, start: Instant = None, end: Instant = None, *, reason: str = "") -> Span:
        """Declare a window dirty, for changes that no source version shows.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            reason: Why, for the history.

        Returns:
            What was declared: the window rounded outward to whole buckets.

        Raises:
            FrozenWindowError: If the window lies wholly in frozen history; RetiredWindowError, before what the output keeps.
        """
        state = self.journal.view().named(name)
        grid = self.grid(name)
        window = _window(start, end, grid)
        return Invalidator(self._lake).invalidate(state.name, grid.cover(window), reason)

    def expire(self, name: str, before: str | int, *, as_stored: bool = False, dry_run: bool = False) -> Expiry:
        """Freeze the history of an aggregate before its raw rows go; writes to no source.

        Args:
            name: The aggregate.
            before: Up to where, rounded down to an edge: ISO text, or an integer for integer time.
            as_stored: Freeze dirty buckets that need their raw rows too, as they are stored; they stay in the log, stuck.
            dry_run: Only say what would be done.

        Returns:
            The bound, the statement that deletes the rows below it, and who else reads them.

        Raises:
            ExpireBoundError: If *before* is no time, or nothing was materialised up to there.
            ExpireDirtyError: If buckets below it are dirty and need their raw rows, without *as_stored*.
            ExpireEngineError: If an engine computes the aggregate.
            HistoryBuildingError: While a next version is built.
        """
        grid = self.grid(name)
        try:
            at = parse(before, grid.time_type, grid.resolution)
        except ValueError as exc:
            raise ExpireBoundError(str(exc), hint="give a time like 2024-03-01, or an integer") from None
        return Expirer(self._lake).expire(name, at, as_stored=as_stored, dry_run=dry_run)

    def thaw(self, name: str, *, dry_run: bool = False) -> Thaw:
        """Give frozen history up: the next refresh computes it from what the source still has.

        Args:
            name: The aggregate.
            dry_run: Only say what would be done.

        Raises:
            HistoryBuildingError: While a next version is built.
        """
        return Expirer(self._lake).thaw(name, dry_run=dry_run)

    # -- policies --------------------------------------------------------------------------------------------------------

    def policies(self, name: str | None = None, now: Instant = None) -> list[PolicyState]:
        """Return the refresh policies of one aggregate or of all, as they stand at a time.

        Args:
            name: The aggregate; None for all.
            now: ISO text, or an integer for integer time; None takes the clock.
        """
        return self._policies.states(name, now)

    def add_policy(
        self,
        name: str,
        policy: str = "default",
        *,
        start_offset: Instant = None,
        end_offset: Instant = None,
        schedule: str | None = None,
        max_runs: int | None = None,
        order: Literal["newest", "oldest"] | None = None,
        catch_dirt: bool | None = None,
        max_staleness: Instant = None,
    ) -> Change:
        """Add a refresh policy to an applied definition; nothing is computed again.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            start_offset: Where its window starts, back from now, such as ``"7 days"``; None or ``"none"`` is open.
            end_offset: Where its window ends, likewise.
            schedule: Five cron fields, in UTC.
            max_runs: Runs that it does at most each time; 0 for no limit.
            order: Which end of its window is done first.
            catch_dirt: Whether dirt that lies in no policy's window is taken along.
            max_staleness: What the definition promises from now on; ``"none"`` takes the promise back.

        Raises:
            PolicyExistsError: If the aggregate has a policy of that name.
            DefinitionError: If an offset, a schedule or the promise cannot be read or does not fit the others.
            UsageError: If nothing is given.
        """
        given = options(
            start_offset=start_offset,
            end_offset=end_offset,
            schedule=schedule,
            max_runs=max_runs,
            order=order,
            catch_dirt=catch_dirt,
        )
        promise = None if max_staleness is None else str(max_staleness)
        return self._policies.add(name, policy, given, max_staleness=promise)

    def remove_policy(self, name: str, policy: str = "default") -> Change:
        """Remove a refresh policy from an applied definition; what it refreshed stays.

        Args:
            name: The aggregate.
            policy: Name of the policy.

        Raises:
            UnknownPolicyError: If the aggregate has none of that name.
        """
        return self._policies.remove(name, policy)

    def run_policy(
        self,
        name: str,
        policy: str = "default",
        now: Instant = None,
        *,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> PolicyReport:
        """Refresh the window that a policy has at *now*; the same *now* gives the same window again.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            now: ISO text; an integer for integer time, where it has to be given unless a resolution is declared.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UnknownPolicyError: If the aggregate has no policy of that name.
            PolicyNowError: If *now* cannot be read, or no clock can tell it.
            QualityGateError: As :meth:`refresh`, and whatever else that raises.
        """
        return self._policies.run(name, policy, now, on_plan=on_plan, on_run=on_run)

    def due(self, name: str | None = None, now: Instant = None) -> list[tuple[str, str]]:
        """Return (aggregate, policy) of every policy whose schedule came due since it ran; parents first.

        Args:
            name: The aggregate; None for all.
            now: As in :meth:`policies`.
        """
        return self._policies.due(name, now)

    def run_due(self, name: str | None = None, now: Instant = None) -> list[PolicyReport]:
        """Run every policy that is due; one that fails is due still, and does not stop the others.

        Args:
            name: The aggregate; None for all, parents first.
            now: As in :meth:`policies`.

        Raises:
            QualityGateError: As :meth:`run_policy`, and whatever else that raises; when all were run, the first of them.
        """
        return _each("policies", self.due(name, now), lambda which: self.run_policy(*which, now))

    # -- looking ---------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all aggregates, those that others read before these, then those that cannot be used."""
        view = self.journal.view()
        return [*cascade.parents_first(self.root, view.states), *sorted(b.name or b.id for b in view.broken.values())]

    def grid(self, name: str) -> Grid:
        """Return how an aggregate divides time.

        Args:
            name: The aggregate.
        """
        return Bound.of(self.journal.view().named(name), self.root).definition.grid

    def status(self, name: str | None = None, now: Instant = None) -> list[Status]:
        """Return the status of one aggregate or of all, without a JVM.

        Args:
            name: The aggregate; None for all that can be used, by name.
            now: For policies and promises, as in :meth:`policies`.
        """
        return self._looker.status(name, now)

    def lateness(self, name: str | None = None) -> tuple[SourceLateness, ...]:
        """Return how late the rows of each source came since it is read, by time column, without a JVM.

        Args:
            name: An aggregate; only its source then.
        """
        return self._looker.lateness(name)

    def status_frame(self) -> pd.DataFrame:
        """Return the status of all aggregates as a pandas frame.

        Shape:
            name, state, grid: text
            cursor, newest: integer, source versions
            threshold: text, the instant below which everything was materialised once
            dirty_spans, rows, null_times: integer
            last_refresh: ISO text
            Grain (name), by name.
        """
        import pandas as pd

        from materializer.services.report.status import text

        rows = [
            {
                "name": s.name,
                "state": s.state,
                "grid": s.grid,
                "cursor": s.cursor,
                "newest": s.newest,
                "threshold": text(s.time_type, s.threshold),
                "dirty_spans": len(s.dirty),
                "rows": s.rows,
                "null_times": s.null_times,
                "last_refresh": s.last.at if s.last else None,
            }
            for s in self.status()
        ]
        return pd.DataFrame(rows)

    def history(self, name: str, limit: int | None = 20) -> list[Ended]:
        """Return the last refreshes, newest first.

        Args:
            name: The aggregate.
            limit: How many at most; None for all.
        """
        return self._looker.history(name, limit)

    def newest_bucket_end(self, name: str) -> int | None:
        """Return the end of the bucket of the source's newest row, an instant of its time; None without rows.

        Args:
            name: The aggregate.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
        """
        return self._looker.newest_bucket_end(name)

    @overload
    def read(self, name: str, as_: Literal["spark"] = "spark", *, fresh: bool = False) -> DataFrame: ...

    @overload
    def read(self, name: str, as_: Literal["pandas"], *, fresh: bool = False) -> pd.DataFrame: ...

    def read(
        self, name: str, as_: Literal["spark", "pandas"] = "spark", *, fresh: bool = False
    ) -> DataFrame | pd.DataFrame:
        """Return the rows of an aggregate as a Spark or a pandas frame.

        Args:
            name: The aggregate.
            as_: ``spark`` or ``pandas``. Published rows reach pandas without a JVM.
            fresh: As of the newest source version: dirty buckets are computed on the fly, clean ones are read. An aggregate over
                another is computed from the other's rows as of now.

        Raises:
            TableNotFoundError: If the output is gone.
            TablesAheadError: With *fresh*, if the tables carry what the journal does not know.

        Shape:
            The columns of the definition's SELECT, in its order; of an engine those that it writes.
            Grain (bucket, keys); of an engine (keys, window). No order promised.
        """
        state = self.journal.view().named(name)
        bound = Bound.of(state, self.root)
        if fresh:
            frame = self.fresh(name).frame
            return frame if as_ == "spark" else frame.toPandas()
        if as_ == "pandas":
            return to_pandas(bound.paths["output"])
        return self.engine().read_output(bound.paths["output"])

    @overload
    def changes(
        self,
        name: str,
        as_: Literal["spark"] = "spark",
        *,
        after_refresh: int | None = None,
        reason: str | None = None,
    ) -> DataFrame: ...

    @overload
    def changes(
        self, name: str, as_: Literal["pandas"], *, after_refresh: int | None = None, reason: str | None = None
    ) -> pd.DataFrame: ...

    def changes(
        self,
        name: str,
        as_: Literal["spark", "pandas"] = "spark",
        *,
        after_refresh: int | None = None,
        reason: str | None = None,
    ) -> DataFrame | pd.DataFrame:
        """Return what refreshes changed in the output of an aggregate, from its change feed.

        Args:
            name: The aggregate; its definition says ``'output.change_feed' = 'true'``.
            as_: ``spark`` or ``pandas``, which wants no JVM.
            after_refresh: Number of the last refresh that is known already; None for everything.
            reason: Only changes with this reason: ``new``, ``late``, ``correction``, ``delete`` or ``definition``.

        Raises:
            UsageError: If there is no feed.

        Shape:
            The columns of the output.
            _change: string, ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``
            _reason: string
            _refresh: long, number of the refresh
            _source_version: long
            _published_at: timestamp
            Grain (bucket, keys, _change, _refresh). No order promised.
        """
        path = output_feed.path_of(Bound.of(self.journal.view().named(name), self.root))
        if as_ == "pandas":
            columns, rows, _ = feed_rows(path, after=after_refresh, reason=reason)
            import pandas as pd

            return pd.DataFrame(rows, columns=columns)
        frame = self.engine().read_output(path)
        frame = frame if after_refresh is None else frame.where(frame["_refresh"] > after_refresh)
        return frame if reason is None else frame.where(frame["_reason"] == reason)

    def show_changes(
        self, name: str, *, limit: int = 20, after_refresh: int | None = None, reason: str | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]], int]:
        """Return column names, the first changes after a refresh, and how many there are, without a JVM.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            after_refresh: As in :meth:`changes`.
            reason: As in :meth:`changes`.

        Raises:
            UsageError: If there is no feed.
        """
        path = output_feed.path_of(Bound.of(self.journal.view().named(name), self.root))
        return feed_rows(path, after=after_refresh, reason=reason, limit=limit)

    def fresh(self, name: str, start: Instant = None, end: Instant = None) -> FreshRead:
        """Return rows as of the newest source version, and what computing the dirty ones costs.

        The source of an aggregate over another is read fresh too, down to the raw rows.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start; rounded to whole buckets.
            end: First instant after the window, or None for an open end.

        Raises:
            TablesAheadError: If the tables carry what the journal does not know.
        """
        window = _window(start, end, self.grid(name))
        return FreshReader(self._lake).read(name, None if window == EVERYTHING else window)

    def create_fresh_view(self, name: str, view: str | None = None) -> FreshView:
        """Create a view for SQL over the rows as of now, in every session of this Spark application.

        It is a snapshot of the source version that is the newest now; create it again to move it on.

        Args:
            name: The aggregate.
            view: What to call the view, like an aggregate; the aggregate's name when None. It lies in ``global_temp``.

        Returns:
            Its name, also as its text, with the version that it is pinned to and what each query of it computes.

        Raises:
            TablesAheadError: As :meth:`fresh`.
            UsageError: If that cannot name a view; no view was made.
        """
        from materializer.core.language.assemble import name_problem

        known = self.journal.view().named(name).name
        view = known if view is None else view
        if problem := name_problem(view, "view"):
            raise UsageError(problem[1], hint=problem[2])
        read = self.fresh(name)
        read.frame.createOrReplaceGlobalTempView(view)
        said = f"global_temp.{quoted(view)}"
        return FreshView(said, read.source_version, read.computed, read.strategy, read.estimate, read.seconds)

    def show(
        self, name: str, *, limit: int = 20, start: Instant = None, end: Instant = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return column names and some published rows, newest bucket first, without a JVM.

        Args:
            name: The aggregate.
            limit: How many rows at most.
            start: First instant of buckets that are shown, or None for an open start.
            end: First instant after them, or None for an open end.
        """
        grid = self.grid(name)
        window = _window(start, end, grid)
        first, last = (None if given is None else at for given, at in ((start, window.start), (end, window.end)))
        return self._looker.show(name, limit=limit, start=first, end=last)

    def verify(self, name: str, start: Instant = None, end: Instant = None) -> VerifyReport:
        """Compare the clean buckets of a window with plain Spark at the version they reflect.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.

        Returns:
            What was compared and what differs; a difference is no error here.

        Raises:
            RetryableError: If another version of the definition was published meanwhile.
        """
        grid = self.grid(name)
        window = _window(start, end, grid)
        verifier = Verifier(self.root, self.journal, self.engine)
        return verifier.verify(name, None if window == EVERYTHING else window)

    def check(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        suite: str | Path | None = None,
        docs: str | Path | None = None,
    ) -> CheckReport:
        """Answer the suite of an aggregate about its published rows; the journal remembers what was found.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            suite: File of another suite than the one it was applied with.
            docs: Folder for Data Docs (HTML); they need Great Expectations.

        Returns:
            The verdict; expectations that are not met are no error here.

        Raises:
            UsageError: If *suite* cannot be read, or *docs* is asked for and there is no suite.
            DefinitionError: With everything that is wrong with *suite*.
            QualityLibraryMissingError: If Great Expectations is needed and not installed.
        """
        window = _window(start, end, self.grid(name))
        checker = Checker(self.root, self.journal, self.engine, _library, self._lake.on_checkpoint)
        return checker.check(
            name,
            None if window == EVERYTHING else window,
            suite=None if suite is None else Path(suite),
            docs=None if docs is None else Path(docs),
        )

    def doctor(self, name: str | None = None) -> list[Finding]:
        """Return what stands in the way of the next refresh, and how to mend it.

        Args:
            name: The aggregate; None for all, the environment and the journal.
        """
        return Doctor(self.root, self.journal, self.config, self.maintainer).examine(name)

    def maintain(
        self, name: str | None = None, *, dry_run: bool = False, on_plan: OnPlan = lambda _: None
    ) -> list[MaintainReport]:
        """Lay tables out in time again, remove files that nobody needs, and keep logs and journal short; changes no row.

        Args:
            name: The aggregate; None for all, parents first. The journal comes last each time.
            dry_run: Only say what would be done.
            on_plan: Told what is about to be done, before it is.

        Raises:
            LeaseHeldError: If another live process works on an aggregate; what was done stays, and the others are done.
        """
        if name is not None:
            self.journal.view().named(name)

        def one(each: str | None) -> MaintainReport:
            if each is None:
                return self.maintainer.journal(is_dry_run=dry_run, on_plan=on_plan)
            return self.maintainer.aggregate(each, is_dry_run=dry_run, on_plan=on_plan)

        return _each("tables", [*(self.names() if name is None else [name]), None], one)

    @property
    def maintainer(self) -> Maintainer:
        """Maintains one aggregate, or the journal, at a time."""
        return Maintainer(self._lake)

    # -- mending ---------------------------------------------------------------------------------------------------------

    def repair(self, name: str, *, dry_run: bool = False) -> RepairReport:
        """Make the tables of an aggregate and the journal agree again; what cannot be told any more is dirty then.

        Args:
            name: The aggregate.
            dry_run: Only say what is wrong and what would be done; starts no JVM.

        Raises:
            LeaseHeldError: If a live process works on it; nothing was written.
            JournalError: If the journal, or the aggregate's definition in it, cannot be read.
        """
        repairer = Repairer(self._lake)
        return repairer.plan(name) if dry_run else repairer.repair(name)

    def unusable(self) -> list[JournalError]:
        """Return an error for each aggregate of which an event of the journal cannot be read."""
        return [broken.error() for broken in self.journal.view().broken.values()]

    def lost(self) -> list[str]:
        """Return names of aggregates whose tables are in the lake, but which the journal does not know."""
        return Repairer(self._lake).lost()

    def take_over(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec], *, dry_run: bool = False
    ) -> list[RepairReport]:
        """Make definitions known whose journal was lost, with the tables that are there; everything of them is dirty.

        A journal that cannot be read is renamed, and a new one is begun.

        Args:
            what: As in :meth:`apply`.
            dry_run: Only say what would be done; starts no JVM.

        Raises:
            DefinitionError: With every problem of every definition.
        """
        from materializer.services.repair.adopt import TakeOver

        specs, _ = self.read_definitions(what)
        work = TakeOver(self._lake, self._definitions)
        return work.plan(specs) if dry_run else work.take_over(specs)

    def backup(self, folder: str | Path) -> BackupReport:
        """Copy the journal, as it is at one moment; refreshes may go on meanwhile. Tables are not copied.

        Args:
            folder: A new or an empty folder.

        Raises:
            UsageError: If the folder is not empty.
            JournalError: If the copy cannot be read back.
        """
        return Backups(self._lake).backup(Path(folder))

    def restore(self, folder: str | Path, *, dry_run: bool = False) -> RestoreReport:
        """Put the journal of a backup in place; the one that is there is kept beside it.

        Args:
            folder: What :meth:`backup` wrote.
            dry_run: Only say what differs.

        Raises:
            JournalError: If the backup is none, or damaged.
            LeaseHeldError: If a live process works on an aggregate; nothing was written.
        """
        backups = Backups(self._lake)
        return backups.plan(Path(folder)) if dry_run else backups.restore(Path(folder))

    def writing(self, name: str) -> AbstractContextManager[Any]:
        """Hold the lease of an aggregate, recovered; for commands that write.

        Args:
            name: The aggregate.
        """
        return _leased(self._lake, name)

    def _request(
        self, name: str, start: Instant, end: Instant, *, force: bool, strict: bool, as_of: Instant = None
    ) -> Request:
        grid = self.grid(name)
        window = _window(start, end, grid)
        return Request(
            None if start is None else window.start,
            None if window.end == POS_INF else window.end,
            is_forced=force,
            is_strict=strict,
            run_rows=self.config.run_rows,
            as_of=None if as_of is None else _window(as_of, None, grid).start,
        )


@contextmanager
def _leased(lake: Lake, name: str) -> Iterator[AggregateState]:
    with lake.lease(name) as lease:
        yield lease.state


def _each(what: str, items: Sequence[_Item], work: Callable[[_Item], _Done]) -> list[_Done]:
    """Return what was done with each of some items; one that fails does not stop the others, and the first is raised."""
    done: list[_Done] = []
    failures: list[MaterializerError] = []
    for item in items:
        try:
            done.append(work(item))
        except MaterializerError as exc:
            failures.append(exc)
    if failures:
        first, *more = failures
        if done or more:
            failed = f", {len(more)} failed" if more else ""
            first.wrote += f"; of the others of the {what} {len(done)} were done{failed}"
        raise first
    return done


def _folder(lake: str) -> Path:
    if "://" in lake:
        hint = "name a folder of this machine, perhaps a mounted one"
        raise ConfigError(f"the lake must be a folder, found '{lake}'", hint=hint)
    return Path(lake).resolve()


def _positive(buckets: int | None) -> int | None:
    if buckets is not None and buckets < 1:
        raise UsageError(f"a run takes at least 1 bucket, got {buckets}", hint="leave it out to size runs by rows")
    return buckets


def _window(start: Instant, end: Instant, grid: Grid) -> Span:
    return parse_window(start, end, grid.time_type, grid.resolution)


def _library() -> ExpectationLibrary:
    """Return Great Expectations behind its port; the library itself is imported when it is asked."""
    from materializer.adapters.great_expectations import auditor

    return auditor
