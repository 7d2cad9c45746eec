"""Versions of an aggregate's data: the published version, the next one beside it, and previous ones.

```
          apply                 build (in runs)            switch                    rollback
 current ───────▶ current ═══════════════════▶ current ─────────▶ current(new) ─────────▶ current(new)
                  next: empty                  next: covers it     previous(old)           next: the old one, caught up
```

For the journal and the protocol the next version is an aggregate of its own, so the published one is refreshed and read
meanwhile. Tables are created first, and the event is appended last. A process that dies between leaves folders that the journal
does not know; the next command that changes versions, or maintenance, removes them. All of this is done under the lease of
the aggregate, except for the runs of a build, which are done under the lease of the build.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.difference_lines import differences
from materializer.core.compiled.fingerprint import data_fingerprint
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.quality.gates import has_gate
from materializer.core.quality.verdict import Severity
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF
from materializer.errors import (
    LeaseHeldError,
    MaterializerError,
    NothingBuiltError,
    QualityGateError,
    RetryableError,
    UsageError,
)
from materializer.journal.events import Checked, Described, Dropped, Event
from materializer.journal.state import AggregateState, Version
from materializer.journal.version_fields import fields_of, version_of
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.rows import row_count
from materializer.services import processes
from materializer.services.activity import ActivityKind, activity, log
from materializer.services.commit.lake import Lake
from materializer.services.commit.lease import WriteLease, run
from materializer.services.commit.switch_ports import refuse_uncovered
from materializer.services.definitions.apply import Definitions
from materializer.services.definitions.changes import CheckedDefinition, DefinitionChange
from materializer.services.definitions.refusals import refuse_frozen
from materializer.services.definitions.waiting import guarded
from materializer.services.delivery import output_feed, registration
from materializer.services.maintenance.orphans import orphans
from materializer.services.planning.runs import Request
from materializer.services.quality.check import Checker
from materializer.services.quality.gate import summary
from materializer.services.versions import begin
from materializer.services.versions.begin import COPIED
from materializer.services.versions.previous import lacks_partials, previous, refuse_outlived, thawed

_BUILDS: Final = ("started", "replaced", "switched")
"""Values of ``DefinitionChange.next`` for which ``apply`` begins a build."""


class SwitchReport(Printed, Struct, frozen=True):
    """The result of publishing the next version.

    Args:
        name: The aggregate.
        refresh: Number of the switch.
        source_version: Source version that is published now.
        rows: Rows of the output.
        previous: Whether the version before can be published again.
        differences: Changes of the definition: ``-`` was, ``+`` is.
        seconds: Wall time.
    """

    name: str
    refresh: int
    source_version: int
    rows: int | None
    previous: bool
    differences: tuple[str, ...] = ()
    seconds: float = 0.0

    def _tables(self) -> list[PrintedTable]:
        pairs = [
            ("source version", self.source_version),
            ("rows", self.rows),
            ("definition", "\n".join(self.differences)),
            ("took", f"{self.seconds:.2f} s"),
        ]
        return [facts(f"{self.name}: published by switch {self.refresh}", pairs)]


class Versions(Struct):
    """Changes versions of the aggregates of one lake."""

    lake: Lake
    definitions: Definitions

    def _checkpoint(self, name: str) -> None:
        self.lake.on_checkpoint(name)

    # -- what apply does -------------------------------------------------------------------------------------------------

    def end_open_switches(self, prepared: Iterable[CheckedDefinition]) -> bool:
        """End the open switches of the aggregates to apply, which dead processes left, and return whether there were any.

        Afterwards the definitions have to be compared again, because other ones are published.

        Raises:
            LeaseHeldError: If the process that switches is alive.
        """
        left = [p.existing.id for p in prepared if p.existing is not None and p.existing.switch]
        for aggregate_id in left:
            with self.lake.lease(aggregate_id):
                pass
        return bool(left)

    def refuse_frozen(self, prepared: Iterable[CheckedDefinition]) -> None:
        """Refuse definitions that would build frozen history from the source again, before anything is written.

        Raises:
            FrozenHistoryError: Naming the first aggregate.
        """
        for each in prepared:
            if each.existing is not None and each.change.next in _BUILDS:
                self._refuse_frozen(each, each.existing)

    def _refuse_frozen(self, prepared: CheckedDefinition, state: AggregateState) -> None:
        if prepared.change.kind != "measures" or state.threshold == NEG_INF or lacks_partials(state):
            refuse_frozen(state, "built again, it")

    def apply(self, prepared: CheckedDefinition, publish_anyway: str = "") -> DefinitionChange:
        """Apply one checked definition; a definition that changes the data only begins a build.

        Args:
            prepared: The definition.
            publish_anyway: Reason to accept a build from stored partials that does not meet its expectations, or "".

        Raises:
            LeaseHeldError: If another process works on the aggregate, or on a build that would be replaced.
            QualityGateError: If a build from stored partials does not meet its expectations.
        """
        prepared = self.definitions.settled(prepared)
        change = prepared.change
        match change.next:
            case "":
                self.definitions.apply(prepared, lease=self.lake.lease)
            case "abandoned":
                with self.lake.lease(change.name) as lease:
                    self._give_up(lease)
                self.definitions.apply(prepared, lease=self.lake.lease)
            case "building":
                if prepared.build is not None and _says_more(prepared, prepared.build):
                    described = Described(prepared.spec.as_json(), prepared.source)
                    with self.lake.lease(change.name) as lease:
                        _append_to_build(lease, prepared.build.id, described)
                        _guard(lease, prepared)
            case _:
                with self.lake.lease(change.name) as lease:
                    self._start(lease, prepared, publish_anyway)
                    if change.next != "switched":
                        _guard(lease, prepared)
                if change.next == "switched":
                    self.switch(change.name)
        return change

    def _start(self, lease: WriteLease, prepared: CheckedDefinition, publish_anyway: str) -> None:
        state = lease.state
        if prepared.existing is None or prepared.existing.data_version != state.data_version:
            raise RetryableError(f"another version of '{state.name}' was published a moment ago")
        self._refuse_frozen(prepared, state)
        self._give_up(lease)
        if prepared.change.kind == "measures" and state.threshold != NEG_INF:
            version = version_of(state) | {"spec": prepared.spec.as_json(), "schemas": prepared.schemas}
            self._start_from(lease, version_of(state), version, publish_anyway)
            return
        begin.empty(self.lake, lease, state, prepared)

    def _start_from(self, lease: WriteLease, origin: Version, version: Version, publish_anyway: str = "") -> None:
        build = begin.from_partials(self.lake, lease, lease.state, origin, version)
        if version["spec"] != origin["spec"] and has_gate(AggregateSpec.from_json(version["spec"])):
            self._checkpoint("version_check")
            self._check(lease, build, publish_anyway)

    def refuse_unfit(self, name: str, publish_anyway: str = "") -> None:
        """Check a build from stored partials whose creator died before its quality check ran.

        Args:
            name: The aggregate.
            publish_anyway: Reason to accept the build although it does not meet its expectations, or "".

        Raises:
            QualityGateError: If it does not meet its expectations; it is given up.
        """
        view = self.lake.journal.view()
        state = view.named(name)
        build = view.build_of(state)
        if (
            build is None
            or build.is_closed
            or build.last_n != COPIED
            or build.ended  # its first refresh has the same number, and its gate has checked it
            or build.plan is not None
            or not has_gate(AggregateSpec.from_json(build.spec))
        ):
            return
        was_published = any(_is_same_data(v["spec"], build.spec) for v in state.previous)
        if not was_published and not (build.checks and _is_good(build.checks[-1])):
            with self.lake.lease(name) as lease:
                self._check(lease, build.id, publish_anyway)

    def _check(self, lease: WriteLease, build: str, publish_anyway: str) -> None:
        """Check the output of a build that was computed without a refresh; give the build up if it fails."""
        lake = self.lake
        checker = Checker(lake.root, lake.journal, lake.engine, lake.library, self._checkpoint, local=lake.chosen_local)
        report = checker.check(build)
        if not report.verdict.is_publishable and publish_anyway:
            verdict = summary(report.verdict) | {"published_anyway": {"reason": publish_anyway}}
            _append_to_build(lease, build, Checked(verdict))
        elif not report.verdict.is_publishable:
            self._give_up(lease)
            shown = "; ".join(f.words() for f in report.verdict.failed)
            msg = f"the changed definition of '{lease.name}' does not meet its expectations: {shown}"
            raise QualityGateError(msg, wrote="nothing was published or changed")

    # -- giving up, going back -------------------------------------------------------------------------------------------

    def abandon(self, name: str) -> None:
        """Give the next version up and remove its tables; the published version stays.

        Raises:
            NothingBuiltError: If there is no next version.
            LeaseHeldError: If another process works on the aggregate or its build.
        """
        self._expect_build(name)
        with self.lake.lease(name) as lease:
            self.build_of(lease.state)
            self._give_up(lease)

    def _give_up(self, lease: WriteLease) -> None:
        """Drop the build, if there is one, and remove orphans."""

        def decide(view: View) -> list[tuple[str, Event]]:
            build = view.build_of(view.named(lease.id))
            if build is None:
                return []
            self.refuse_busy(build)
            return [(build.id, Dropped())]

        if self.lake.journal.view().build_of(lease.state) is not None:
            self._checkpoint("version_drop")
            lease.transact(decide)
        self.sweep(lease.name)

    def refuse_busy(self, build: AggregateState) -> None:
        """Raise LeaseHeldError when a living process works on the build."""
        lease = build.lease
        if lease is not None and not processes.is_dead(lease, time.time()):
            msg = f"process {lease.pid} on {lease.host} is building the next version of '{build.name}'"
            hint = "wait until it has ended or stop it, then run the same command again"
            raise LeaseHeldError(msg, hint=hint, host=lease.host, pid=lease.pid)

    def sweep(self, name: str) -> None:
        """Remove the folders of versions that the journal does not know; the caller holds the aggregate's lease."""
        self._checkpoint("version_sweep")
        view = self.lake.journal.view()
        for _, folder in orphans(self.lake.root, view, view.named(name)):
            places.delete_folder(folder, ignore_errors=True)

    def rollback(self, name: str, back: int = 1) -> None:
        """Make a previous version the next one, from its partials; a build then brings it up to date.

        Args:
            name: The aggregate.
            back: Which previous version; 1 is the newest.

        Raises:
            UsageError: If *back* is less than 1.
            NothingBuiltError: If there are fewer previous versions.
            DefinitionError: If its buckets do not fit the aggregate that it reads, or those that read it.
            FrozenHistoryError: If history was frozen since, because that version would need its raw rows.
            LeaseHeldError: If another process works on the aggregate or its build.
        """
        if back < 1:
            hint = "'materializer status' lists them, newest first"
            raise UsageError(f"kept versions count from 1, got {back}", hint=hint)
        now = self.lake.journal.view().named(name)
        if not now.switch:  # an open switch will make the published version the previous one
            refuse_outlived(now, previous(now, back))
            self.definitions.refuse_misfit(replace(now, **fields_of(previous(now, back))))
        with self.lake.lease(name) as lease:
            state = lease.state
            before = previous(state, back)
            refuse_outlived(state, before)
            self.definitions.refuse_misfit(replace(state, **fields_of(before)))
            self._give_up(lease)
            self._start_from(lease, before, thawed(state, before))

    # -- switching -------------------------------------------------------------------------------------------------------

    def switch(self, name: str) -> SwitchReport:
        """Publish the next version in one commit, if it covers the published version.

        Raises:
            NothingBuiltError: If there is no next version.
            NotCoveredError: If it does not cover the published version.
            LeaseHeldError: If another process works on the aggregate or its build.
        """
        self._expect_build(name)
        state = self.lake.journal.view().named(name)
        with activity(self.lake.listeners, ActivityKind.SWITCH, state, self.lake.root) as telling:
            report = self._switch(name)
            log(telling.completed(self.lake.journal.last_view.all.get(state.id, state), "switched"))
        return report

    def _switch(self, name: str) -> SwitchReport:
        began = time.perf_counter()
        self.refuse_unfit(name)
        view = self.lake.journal.view()
        state = view.named(name)
        old = AggregateSpec.from_json(state.spec)
        build = view.build_of(state)
        if build is not None and not build.is_closed and (build.plan is not None or build.lease is not None):
            with self.lake.lease(build.id):
                pass  # taking the lease ends an open run of a dead process
        if build is not None and state.plan is None:
            refuse_uncovered(state, self.lake.journal.view().living(build.id, name), self.lake.aggregate(build))
        self._publish(state)
        try:
            return self._followed(name, old, began)
        except MaterializerError as exc:
            exc.follows(f"the next version of '{name}' is published")
            raise

    def _followed(self, name: str, old: AggregateSpec, began: float) -> SwitchReport:
        """Do what follows a switch, and report it."""
        with (
            suppress(LeaseHeldError),
            self.lake.lease(name),
        ):  # if a refresh has the lease now, maintenance removes them later
            self.sweep(name)
        log(self.lake.journal.tidy())
        published = self.lake.journal.view().named(name)
        registration.follow(self.lake, published, asks=not registration.is_settled(published))
        return self._switched(name, old, time.perf_counter() - began)

    def _publish(self, state: AggregateState) -> None:
        """Do the steps of a switch, or the rest of an open one; bring the change feed up to date before and after."""
        output_feed.follow(self.lake, self.lake.journal.view().named(state.name))
        run(self.lake, self.lake.journal.view().named(state.name), Request(), switches=True)
        output_feed.follow(self.lake, self.lake.journal.view().named(state.name))

    def _switched(self, name: str, old: AggregateSpec, seconds: float) -> SwitchReport:
        state = self.lake.journal.view().named(name)
        rows = row_count(self.lake.aggregate(state).paths["output"])
        lines = differences(old, AggregateSpec.from_json(state.spec))
        n = next((e.n for e in reversed(state.ended) if e.outcome == "switched"), 0)
        return SwitchReport(state.name, n, state.cursor, rows, bool(state.previous), lines, seconds)

    def _expect_build(self, name: str) -> None:
        """Raise NothingBuiltError before anything is written, if there is neither a build nor an open refresh or switch."""
        state = self.lake.journal.view().named(name)
        if state.plan is None and not state.switch:
            self.build_of(state)

    def build_of(self, state: AggregateState) -> AggregateState:
        """Return the build of an aggregate; raises NothingBuiltError without one."""
        build = self.lake.journal.view().build_of(state)
        if build is None:
            msg = f"no next version of '{state.name}' is being built"
            raise NothingBuiltError(msg, hint="apply a changed definition, or roll back to the previous one")
        return build

    def build_after_switch(self, name: str) -> AggregateState:
        """Return the build of an aggregate, after ending an open switch of a dead process."""
        if self.lake.journal.view().named(name).switch:
            with self.lake.lease(name):
                pass
        return self.build_of(self.lake.journal.view().named(name))


def _says_more(prepared: CheckedDefinition, build: AggregateState) -> bool:
    """Whether applying the definition of a build again changes that, or which expectations hold for what is published."""
    existing = prepared.existing
    guards = existing is not None and _guarded(existing, prepared).as_json() != existing.spec
    return prepared.spec.as_json() != build.spec or guards


def _guard(lease: WriteLease, prepared: CheckedDefinition) -> None:
    """Let the expectations of a next version hold for what is published, as far as they are about its columns."""
    state = lease.state
    spec = _guarded(state, prepared).as_json()
    if spec != state.spec:
        lease.append((state.id, Described(spec)))


def _guarded(state: AggregateState, prepared: CheckedDefinition) -> AggregateSpec:
    return guarded(state, prepared.spec, prepared.schemas, prepared.source.path)


def _append_to_build(lease: WriteLease, build: str, event: Event) -> None:
    """Append an event of a build under the lease of its aggregate, if there still is this build."""

    def decide(view: View) -> list[tuple[str, Event]]:
        view.living(build, lease.name)
        return [(build, event)]

    lease.transact(decide)


def _is_same_data(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two definitions give the same rows and have the same expectations."""
    specs = AggregateSpec.from_json(first), AggregateSpec.from_json(second)
    return len({(data_fingerprint(spec), spec.suites) for spec in specs}) == 1


def _is_good(check: Mapping[str, Any]) -> bool:
    """Whether a build may be published after this check."""
    return "published_anyway" in check or all(f["severity"] != Severity.CRITICAL for f in check["failed"])
