"""Building the next version of an aggregate in runs, beside what is published, and publishing it once it covers that."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF
from materializer.errors import NotCoveredError
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.definitions.coverage import Lack, lack_of, required_start
from materializer.services.planning.options import RefreshOptions
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.refresh.service import Refresher
from materializer.services.versions.versions import SwitchReport, Versions

PASSES = 3
"""How often a build looks again because what is published was refreshed in the meantime."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did.

    Args:
        name: The aggregate.
        time_type: Type of the next version's time column.
        refreshes: What each pass over the source did.
        lack: What it lacks to be published.
        why_not: Why it was not published, "" when it was.
        switched: The switch; None when there was none.
        seconds: Wall time of everything.
    """

    name: str
    time_type: TimeType
    refreshes: tuple[RefreshReport, ...]
    lack: Lack = field(default_factory=Lack)
    why_not: str = ""
    switched: SwitchReport | None = None
    seconds: float = 0.0

    @property
    def runs(self) -> tuple[RunDone, ...]:
        """Its runs, in order."""
        return tuple(run for refresh in self.refreshes for run in refresh.runs)


@dataclass(slots=True)
class Builder:
    """Builds next versions of the aggregates of one lake."""

    versions: Versions
    refresher: Refresher

    def build(
        self,
        name: str,
        options: RefreshOptions,
        *,
        switches: bool = True,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> BuildReport:
        """Refresh the next version where the published one is materialised; publish it when it covers that.

        Args:
            name: The aggregate.
            options: How to build; their window is not used. After *max_runs* runs the build stops, and the next call goes on.
            switches: Whether it is published at the end.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            NothingBuiltError: If there is no next version.
            QualityGateError: If it was made from stored partials and does not meet its expectations.
            LeaseHeldError: If another process works on it; nothing was written.
            MaterializerError: Whatever planning, computing or writing found.
        """
        began = time.perf_counter()
        v = self.versions
        v.refuse_unfit(name, options.publish_anyway)
        state, build = self._both(name)
        aggregate = Aggregate.of(build, v.lake.root)
        done: list[RefreshReport] = []
        left = options.max_runs
        lack = Lack()
        for _ in range(PASSES):
            start = required_start(
                state, aggregate.definition.time_type, aggregate.definition.spec.resolution, aggregate.definition.grid
            )
            part = replace(options, start=None if start == NEG_INF else start, end=None, max_runs=left)
            report = self.refresher.refresh(build.id, part, on_plan=on_plan, on_run=on_run)
            done.append(report)
            state, build = self._both(name)
            lack = lack_of(state, build, aggregate.definition.grid)
            left = None if left is None else left - len(report.runs)
            if not lack or left == 0 or not report.runs:
                break
        found = BuildReport(
            name, aggregate.definition.time_type, tuple(done), lack, seconds=time.perf_counter() - began
        )
        if not switches:
            return replace(found, why_not="asked")
        try:
            switched = v.switch(name)
        except NotCoveredError as exc:
            return replace(found, why_not=exc.message, seconds=time.perf_counter() - began)
        return replace(found, switched=switched, seconds=time.perf_counter() - began)

    def _both(self, name: str) -> tuple[AggregateState, AggregateState]:
        """Return the aggregate and its build; raises NothingBuiltError when there is none."""
        state = self.versions.lake.journal.view().named(name)
        return state, self.versions.build_of(state)
