"""Problems that may stop the next refresh, each with a remedy; needs no JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.policy.policies import length_of, policies_of
from materializer.core.policy.retention import SOURCE
from materializer.core.policy.table_properties import log_entries_of, retention_hours_of
from materializer.core.refresh.price import WRONG
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import SECOND, render
from materializer.core.time.spans import NEG_INF
from materializer.core.time.windows import spans_text
from materializer.errors import NOTHING, JournalLostError, MaterializerError, TableNotFoundError
from materializer.journal.events import Frozen, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState, States
from materializer.lake import places
from materializer.lake.extent import files
from materializer.lake.rows import refuse_unfit_files
from materializer.lake.table import DeltaFolder
from materializer.machine import cache_dir
from materializer.services import processes
from materializer.services.aggregate import Aggregate, refuse_links
from materializer.services.definitions import lineage
from materializer.services.definitions.sources import missing_feed
from materializer.services.delivery import registration
from materializer.services.maintenance.maintain import Maintainer
from materializer.services.observe import frozen_bound, source_breaks
from materializer.services.observe.dirty import stuck_spans
from materializer.services.observe.observe import missing_source
from materializer.services.planning.prices import prices_of
from materializer.services.repair.diagnose import TableCondition, diagnose
from materializer.services.repair.lost import lost_in
from materializer.services.report import tables
from materializer.services.report.deep import files_elsewhere, look_deep
from materializer.services.report.status import advice_of
from materializer.services.report.tables import DoctorFinding


class Doctor(Struct):
    """Examines one lake; writes nothing and starts no JVM.

    Args:
        root: The lake's root.
        journal: Its journal.
        config: Settings.
        maintainer: Plans maintenance.
    """

    root: str
    journal: Journal
    config: Config
    maintainer: Maintainer

    def examine(self, name: str | None = None, *, is_deep: bool = False) -> list[DoctorFinding]:
        """Return findings about the environment and one aggregate, or all.

        Args:
            name: The aggregate; None for all.
            is_deep: Whether all files are read, and compared with what the logs say of them.
        """
        findings = list(self._environment())
        try:
            view = self.journal.view()
        except MaterializerError as exc:
            return [*findings, DoctorFinding("error", "journal", exc.code, exc.message, exc.hint)]
        chosen = None if name is None or view.broken_named(name) else view.named(name)
        every = sorted(view.states.values(), key=lambda s: s.name.lower())
        states = every if name is None else [chosen] if chosen else []
        lost = lost_in(self.root, view) if name is None else []
        version = f"version {view.version}, {len(view.states)} aggregates" if view.version >= 0 else "not there yet"
        if not lost or view.version >= 0:
            findings.append(DoctorFinding("ok", "journal", "doctor.journal", version))
        findings += self._store()
        if name is None:
            for plan in self.maintainer.journal_plans():
                findings += tables.untidy("journal", plan, "run 'materializer maintain --all'")
        for broken in view.broken.values():
            if name is None or broken.name.lower() == name.lower():
                error = broken.error()
                findings.append(DoctorFinding("error", broken.name or broken.id, error.code, error.message, error.hint))
        if name is None:
            findings += _lost(lost)
            findings += _prices(view.states)
            findings += _suites(self.config, self.journal)
        for state in states:
            findings += self._aggregate(state, view.states)
            if (build := view.build_of(state)) is not None:
                findings += self._build(build, view.states)
        findings += [*self._feeds(states), *files_elsewhere(states)]
        return [*findings, *(look_deep(states, self.root) if is_deep else ())]

    def _environment(self) -> Iterator[DoctorFinding]:
        from materializer.spark.runtime import class_data, jars
        from materializer.spark.runtime.connect import place_of
        from materializer.spark.runtime.session import check_java, refuse_unsafe_options

        try:
            refuse_unsafe_options(self.config.spark.options)
        except MaterializerError as exc:
            yield DoctorFinding("error", "environment", exc.code, exc.message, exc.hint)
        if remote := self.config.spark.remote:
            message = f"Spark is a Connect server, {place_of(remote)}: neither Java nor jars are needed here"
            yield DoctorFinding("ok", "environment", "doctor.remote", message)
            return
        try:
            yield DoctorFinding("ok", "environment", "doctor.java", f"Java {check_java()}")
        except MaterializerError as exc:
            yield DoctorFinding("error", "environment", exc.code, exc.message, exc.hint)
        try:
            cached = jars.find(self.config.spark.jars, cache_dir())
        except MaterializerError as exc:
            yield DoctorFinding("error", "environment", exc.code, exc.message, exc.hint)
            return
        if cached:
            yield DoctorFinding(
                "ok", "environment", "doctor.jars", "the Delta jars are there: " + ", ".join(p.name for p in cached)
            )
            if self.config.spark.profile != "long" and not class_data.place(cache_dir(), cached).is_file():
                message = "there is no class-data archive for this Java, Spark and jars: commands start slower than they could"
                yield DoctorFinding("note", "environment", "doctor.archive", message, "run 'materializer setup' once")
        else:
            yield DoctorFinding(
                "note",
                "environment",
                "doctor.jars",
                "the Delta jars are not cached yet; the first start fetches two files",
                jars.HINT,
            )

    def _store(self) -> Iterator[DoctorFinding]:
        """Yield what the object store of the lake answered when it was probed."""
        if places.is_local(self.root):
            return
        probe = self.journal.probe()
        if probe is None:
            yield DoctorFinding("note", "journal", "doctor.store", "its store is probed before the first write")
        elif probe.is_safe:
            yield DoctorFinding(
                "ok", "journal", "doctor.store", "of several writers of one file, its store lets one win"
            )
        else:
            message = (
                "its store lets several writers make the same file, and one process promised to be the only writer"
            )
            hint = "never let two processes write to this lake, or move it to a store with conditional writes"
            yield DoctorFinding("warning", "journal", "doctor.store", message, hint)

    def _aggregate(self, state: AggregateState, states: States) -> Iterator[DoctorFinding]:
        yield from self._work(state)
        for look in (self._source, self._tables, self._maintenance):
            try:
                yield from look(state, states)
            except MaterializerError as exc:
                yield DoctorFinding("error", state.name, exc.code, exc.message, exc.hint)

    def _build(self, build: AggregateState, states: States) -> Iterator[DoctorFinding]:
        """Yield problems of a build, and changes of its source that become unreadable soon."""
        if build.is_closed:
            return  # a switch to it is open; ending the switch needs its tables as they are
        try:
            diagnosis = diagnose(build, self.root, states)
            folder = DeltaFolder.at(build.source.path)
            head, properties = folder.head(), folder.properties()
        except MaterializerError as exc:
            yield DoctorFinding("error", build.name, exc.code, f"next version: {exc.message}", exc.hint)
            return
        for code, words in diagnosis.wrong:
            yield DoctorFinding("error", build.name, code, f"next version: {words}", build.mend)
        for each in tables.withheld_by_gates(build, self.root):
            yield replace(each, message=f"next version: {each.message}")
        if head.table_id == build.source.table_id and head.version >= build.cursor:
            for each in self._endangered(build, states, properties, head.version):
                hint = each.hint and f"run 'materializer build {build.name}', or give it up with 'materializer abandon'"
                yield replace(each, message=f"next version: {each.message}", hint=hint)

    def _endangered(
        self, state: AggregateState, states: States, properties: Mapping[str, str], newest: int
    ) -> Iterator[DoctorFinding]:
        parent = lineage.parent_of(state.source.path, self.root, states)
        parents_hours = None if parent is None else retention_hours_of(AggregateSpec.from_json(parent.spec))
        return tables.endangered(state, properties, newest, parents_hours)

    def _work(self, state: AggregateState) -> Iterator[DoctorFinding]:
        if state.lease is not None:
            dead = processes.is_dead(state.lease, time.time())
            who = f"process {state.lease.pid} on {state.lease.host}"
            if dead:
                yield DoctorFinding(
                    "note",
                    state.name,
                    "doctor.lease",
                    f"{who} died while it held the lease",
                    "the next command takes it over",
                )
            else:
                yield DoctorFinding("ok", state.name, "doctor.lease", f"{who} is working on it")
        if state.plan is not None:
            message = f"refresh {state.plan.n} has not ended"
            yield DoctorFinding(
                "note",
                state.name,
                "doctor.unfinished",
                message,
                f"run 'materializer refresh {state.name}': it ends it first",
            )
        most = log_entries_of(AggregateSpec.from_json(state.spec), self.config.log_max_entries)
        if len(state.log.entries) > most // 2:
            message = f"the invalidation log has {len(state.log.entries)} entries of {most}"
            yield DoctorFinding(
                "warning", state.name, "doctor.log", message, "refresh a wider window before neighbours are joined"
            )
        if problem := registration.why_not(state):
            hint = f"apply the definition of '{state.name}' again, which starts Spark"
            yield DoctorFinding("warning", state.name, "doctor.registration", problem, hint)
        elif state.table:
            yield DoctorFinding("ok", state.name, "doctor.registration", f"the output is {state.table} in the catalog")
        yield from tables.withheld_by_gates(state, self.root)
        yield from self._late(state)
        yield from tables.calendar_ends(state)
        yield from self._frozen(state)
        if state.null_times:
            message = f"{state.null_times:,} source rows have no time and are left out"
            yield DoctorFinding(
                "note", state.name, "doctor.null-times", message, "mend them in the source; they are picked up then"
            )

    def _frozen(self, state: AggregateState) -> Iterator[DoctorFinding]:
        definition = Aggregate.of(state, self.root).definition
        grid, engine = definition.grid, definition.engine
        if state.uncomputable:
            uncomputable = stuck_spans(state)
            why = "; ".join(dict.fromkeys(frozen_bound.why_stuck(e) for e in state.uncomputable))
            message = f"{spans_text(grid, uncomputable)} is dirty below the frozen bound and stays so: {why}"
            hint = f"'materializer thaw {state.name}' says what computing it again from the source would mean"
            yield DoctorFinding("warning", state.name, "doctor.frozen", message, hint)
        wanted = min(frozen_bound.wanted(state, grid, SOURCE), state.threshold)
        asked, wanted = wanted, frozen_bound.cut_edge(definition, wanted)
        if asked > wanted == NEG_INF:
            message = "source.retention can freeze nothing: no edge of slices lies between two windows (filled: days) of its trading sessions"
            hint = "set 'slice' to a length that divides them, such as '1 hour'"
            yield DoctorFinding("warning", state.name, "doctor.not-frozen", message, hint)
        if wanted <= state.frozen:
            return
        message = f"source.retention asks to freeze below {render(wanted, grid.shown)}, and "
        if not any(isinstance(e, Frozen) for e in frozen_bound.moved(state, grid)):
            hint = f"run 'materializer refresh {state.name}' before the rows go"
            yield DoctorFinding("warning", state.name, "doctor.not-frozen", f"{message}buckets there are dirty", hint)
        elif engine is not None:
            hint = f"'materializer refresh {state.name} --as-of T' closes what no later row of its key has closed"
            message += "results that begin there are open, or reach what is dirty"
            yield DoctorFinding("warning", state.name, "doctor.not-frozen", message, hint)

    def _late(self, state: AggregateState) -> Iterator[DoctorFinding]:
        spec = AggregateSpec.from_json(state.spec)
        advice = advice_of(state, Aggregate.of(state, self.root).definition.grid)
        if advice is None:
            return
        reach = [p.start_offset for p in policies_of(spec)]
        late = state.lateness.within(0.999) or 0
        reaches = [0 if w is None else length_of(w) / SECOND for w in reach]
        retention = (
            f", a retention of the source's log and feed >= {advice.feed_retention}" if advice.feed_retention else ""
        )
        rest = f"refresh.end_offset {advice.end_offset}{retention}"
        if reach and None not in reach and late > max(reaches):
            message = "0.1 % of the rows come later than any policy looks back: their buckets stay dirty"
            hint = f"set refresh.start_offset to {advice.start_offset} or more, or refresh.catch_dirt = true; this suggests {rest}, too"
            yield DoctorFinding("warning", state.name, "doctor.late-rows", message, hint)
        elif late:
            message = f"99.9 % of the rows come within {late / 3600:,.1f} h"
            hint = f"this suggests refresh.start_offset {advice.start_offset}, {rest}"
            yield DoctorFinding("ok", state.name, "doctor.lateness", message, hint)

    def _source(self, state: AggregateState, states: States) -> Iterator[DoctorFinding]:
        folder = DeltaFolder.at(state.source.path)
        try:
            head = folder.head()
        except TableNotFoundError as exc:
            exc.hint = missing_source(state, self.root)
            raise
        parent = lineage.parent_of(state.source.path, self.root, states)
        if parent is not None:
            # a lake of an older release may have one
            for problem in lineage.misfits_of_child(AggregateSpec.from_json(state.spec), [lineage.Form.of(parent, "")]):
                yield DoctorFinding("error", state.name, problem.code, problem.message, problem.hint)
        if parent is not None and (head.table_id != state.source.table_id or head.version < state.cursor):
            return  # reported with the tables; a repair corrects it
        misfits = [each for each in source_breaks.misfits(state) if not each.is_wider]
        for misfit in misfits:
            if head.version >= state.cursor:
                hint = f"apply a definition of '{state.name}' that fits the source"
                yield DoctorFinding("error", state.name, "source.schema-changed", misfit.text(state.name), hint)
        if broken := source_breaks.to_come(state):
            hint = "the next refresh computes everything anew; 'source.on_replace' = 'refuse' lets it stop instead"
            yield DoctorFinding("warning", state.name, broken.code, broken.reason, hint)
            return
        if head.table_id != state.source.table_id:
            hint = "apply the definition again to build from the new table, or drop the aggregate"
            yield DoctorFinding("error", state.name, "source.replaced", source_breaks.problem(state, head), hint)
            return
        if head.version < state.cursor:
            hint = "apply the definition again if an older copy was put in its place"
            yield DoctorFinding(
                "error",
                state.name,
                "source.rolled-back",
                f"the source is at {head.version}, captured up to {state.cursor}",
                hint,
            )
            return
        refuse_unfit_files(state.source.path, head.version)
        properties = folder.properties()
        if any(misfit.column == state.spec["time_column"] for misfit in misfits):
            return
        extent = files(
            state.source.path,
            head.version,
            state.spec["time_column"],
            Aggregate.of(state, self.root).definition.time_type,
        )
        if extent.unknown.files:
            hint = f"put '{state.spec['time_column']}' among the first 32 columns, or in delta.dataSkippingStatsColumns, and rewrite the files"
            message = (
                f"{extent.unknown.files} source files have no statistics of the time column: every refresh reads them"
            )
            yield DoctorFinding("warning", state.name, "doctor.no-statistics", message, hint)
        yield from self._endangered(state, states, properties, head.version)

    def _feeds(self, states: Sequence[AggregateState]) -> Iterator[DoctorFinding]:
        """Yield a warning for each source without a change feed."""
        readers: dict[SourceIdentity, list[str]] = {}
        for state in states:
            readers.setdefault(state.source, []).append(state.name)
        for source, (first, *others) in readers.items():
            try:
                feed = missing_feed(source, self.root)
            except MaterializerError:  # that the source cannot be read is another finding
                continue
            if feed is not None:
                also = f", which {', '.join(others)} read{'s'[: len(others) == 1]}, too," if others else ""
                message = f"its source {source.path}{also} has no change feed: changes are known by file statistics"
                hint = f"{feed.statement}; {feed.saves}"
                yield DoctorFinding("warning", first, "doctor.no-feed", message, hint)

    def _tables(self, state: AggregateState, states: States) -> Iterator[DoctorFinding]:
        try:
            refuse_links(self.root, state.name)
        except MaterializerError as exc:
            yield DoctorFinding("error", state.name, exc.code, exc.message, exc.hint)
        diagnosis = diagnose(state, self.root, states)
        for code, words in diagnosis.wrong:
            yield DoctorFinding("error", state.name, code, words, f"run 'materializer repair {state.name}'")
        for table in (diagnosis.partials, diagnosis.output):
            if table.verdict is TableCondition.SOUND:
                words = f"{table.which} at version {table.version}, refresh {table.n}"
                yield DoctorFinding("ok", state.name, "doctor.table", words)
                path = Aggregate.of(state, self.root).paths[table.which]
                yield from tables.written_by_others(state, table.which, path)
                yield from tables.unfit_properties(state, table.which, DeltaFolder.at(path).properties())

    def _maintenance(self, state: AggregateState, _: States) -> Iterator[DoctorFinding]:
        yield from tables.needs_compaction(state, self.maintainer.plans)


def _lost(names: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield aggregates whose tables are there, but which the journal does not know."""
    for name in names:
        error = JournalLostError("the journal does not know it, but tables of it are there", wrote=NOTHING)
        yield DoctorFinding("error", name, error.code, error.message, error.hint)


def _suites(config: Config, journal: Journal) -> Iterator[DoctorFinding]:
    """Yield suites that belong to no aggregate, with which nothing is checked."""
    from materializer.services.definitions.suites import unused

    for problem in unused(config.expectations, journal):
        yield DoctorFinding("warning", "suites", problem.code, problem.message, problem.hint)


def _prices(states: States) -> Iterator[DoctorFinding]:
    """Yield how long refreshes take here, compared with the rates that prices begin with."""
    factors = prices_of(states).factors
    for (executor, strategy), factor in sorted(factors.items()):
        what = f"a {strategy} by {executor}" if strategy else f"a refresh by {executor}"
        message = f"{what} takes {factor.value:.2f} times what the rates say, by the last {factor.refreshes}"
        if factor.value < WRONG:
            yield DoctorFinding("ok", "prices", "doctor.prices", message)
            continue
        follows = "predictions and choices count with that; a first refresh of a kind that is not known yet is predicted too short"
        hint = "look whether the machine is busy or its disk or store is slow; with new refreshes the factor falls"
        yield DoctorFinding("note", "prices", "doctor.prices", f"{message}: {follows}", hint)
