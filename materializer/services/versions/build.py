"""Building the next version of an aggregate in runs, and publishing it when it covers the published version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.printed import Printed, PrintedTable, facts, spans_text, tables_of
from materializer.core.quality.verdict import critical_words
from materializer.core.refresh.plan import Plan
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF
from materializer.errors import NotCoveredError, QualityGateError
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.definitions.coverage import Lack, lack_of, required_start
from materializer.services.planning.options import RefreshOptions
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.refresh.service import Refresher
from materializer.services.versions.versions import SwitchReport, Versions

SHOWN = 3
"""Verdicts of runs that a message names."""
PASSES = 3
"""How often a build continues because the published version was refreshed meanwhile."""


class BuildReport(Printed, Struct, frozen=True):
    """What a build did.

    Args:
        name: The aggregate.
        time_type: Type of the next version's time column.
        refreshes: The report of each pass over the source.
        lack: What it still lacks to be published.
        why_not: Why it was not published, "" when it was.
        switched: The report of the switch; None without one.
        seconds: Wall time of everything.
    """

    name: str
    time_type: Shown
    refreshes: tuple[RefreshReport, ...]
    lack: Lack = field(default_factory=Lack)
    why_not: str = ""
    switched: SwitchReport | None = None
    seconds: float = 0.0

    def _tables(self) -> list[PrintedTable]:
        pairs = [
            ("not published", self.why_not),
            ("still to build", spans_text(self.lack.spans, self.time_type)),
            ("took", f"{self.seconds:.2f} s"),
        ]
        parts = [*self.refreshes, *([self.switched] if self.switched else [])]
        head = f"{self.name}: {'built and published' if self.switched else 'built'}"
        return [facts(head, pairs), *(table for part in parts for table in tables_of(part))]

    @property
    def runs(self) -> tuple[RunDone, ...]:
        """The runs of all passes, in order."""
        return tuple(run for refresh in self.refreshes for run in refresh.runs)


class Builder(Struct):
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
        """Refresh the next version wherever the published one is materialised; publish it when it covers all of that.

        Args:
            name: The aggregate.
            options: How to build; the window is not used. After *max_runs* runs the build stops, and the next call continues it.
            switches: Whether the build is published at the end.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            NothingBuiltError: If there is no next version.
            QualityGateError: If it does not meet its expectations, or its gate withholds all that is left to build.
            LeaseHeldError: If another process works on it; nothing was written.
            MaterializerError: If planning, computing or writing fails.
        """
        began = time.perf_counter()
        versions = self.versions
        versions.refuse_unfit(name, options.publish_anyway)
        state, build = self._both(name)
        aggregate = Aggregate.of(build, versions.lake.root)
        done: list[RefreshReport] = []
        left = options.max_runs
        lack = Lack()
        for _ in range(PASSES):
            start = required_start(
                state, aggregate.definition.time_type, aggregate.definition.spec.resolution, aggregate.definition.grid
            )
            part_options = replace(options, start=None if start == NEG_INF else start, end=None, max_runs=left)
            with _said_of_build(name):
                report = self.refresher.refresh(build.id, part_options, on_plan=on_plan, on_run=on_run)
            done.append(report)
            state, build = self._both(name)
            lack = lack_of(state, build, aggregate.definition.grid)
            left = None if left is None else left - len(report.runs)
            _refuse_withheld(name, report, lack)
            if not lack or left == 0 or not report.runs:
                break
        built = BuildReport(
            name, aggregate.definition.grid.shown, tuple(done), lack, seconds=time.perf_counter() - began
        )
        if not switches:
            return replace(built, why_not="asked")
        try:
            switched = versions.switch(name)
        except NotCoveredError as exc:
            return replace(built, why_not=exc.message, seconds=time.perf_counter() - began)
        return replace(built, switched=switched, seconds=time.perf_counter() - began)

    def _both(self, name: str) -> tuple[AggregateState, AggregateState]:
        """Return the aggregate and its build; raises NothingBuiltError when there is none."""
        state = self.versions.lake.journal.view().named(name)
        return state, self.versions.build_of(state)


@contextmanager
def _said_of_build(name: str) -> Iterator[None]:
    """Let the hint of a gate name what builds again: a refresh works on the published version."""
    try:
        yield
    except QualityGateError as exc:
        if exc.hint == QualityGateError.default_hint:
            exc.hint = (
                "look at the failing rows, correct the source or the suite, and build again; "
                f"'materializer build {name} --publish-anyway REASON' publishes it as it is"
            )
        raise


def _refuse_withheld(name: str, report: RefreshReport, lack: Lack) -> None:
    """End a build of which nothing is left but what the gate has withheld just now; another pass would only ask it again."""
    withheld = report.withheld
    if not withheld or lack.behind is not None or lack.spans - withheld:
        return
    words = list(dict.fromkeys(text for run in report.runs for text in critical_words(run.verdict)))
    more = f" and in {len(words) - SHOWN} more runs" if len(words) > SHOWN else ""
    raise QualityGateError(
        f"the next version of '{name}' does not meet its expectations at source version {report.source_version}: "
        f"{'; '.join(words[:SHOWN])}{more}; its gate withholds {spans_text(withheld, report.time_type, between=', ')}",
        hint=f"look at the failing rows ('materializer doctor {name}' says where), correct the source or the suite, and build again; "
        "--publish-anyway REASON publishes it as it is",
        wrote="the rest of the next version is built; nothing was published",
        source_version=report.source_version,
    )
