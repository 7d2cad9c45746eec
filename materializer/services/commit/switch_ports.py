"""What a switch touches, for real: two streams of the journal, the output, and the tables of the build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import render
from materializer.core.time.windows import spans_text
from materializer.errors import FrozenHistoryError, NotCoveredError
from materializer.journal.events import Event
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import fence
from materializer.lake.write.copying import copy_rows
from materializer.services.aggregate import Aggregate
from materializer.services.commit.counters import Counters
from materializer.services.definitions.coverage import lack_of
from materializer.services.protocol.process import OwnTableHead, Which

KEEP = "versions.keep"
"""Property: how many versions that were published before are kept."""


class SwitchTables:
    """The part of a workbench that publishes a build; see :class:`materializer.services.protocol.switch_steps.SwitchPorts`."""

    _journal: Journal
    aggregate: Aggregate
    counters: Counters

    def read_both(self) -> tuple[int, AggregateState, AggregateState | None]:
        """See :class:`SwitchPorts`."""
        view = self._journal.view()
        state = view.living(self.aggregate.aggregate_id, self.aggregate.name)
        return view.version, state, view.build_of(state)

    def append_both(self, version: int, events: Sequence[Event], build: str, build_events: Sequence[Event]) -> None:
        """See :class:`SwitchPorts`."""
        ours = [(self.aggregate.aggregate_id, e) for e in events]
        self._journal.append_each(version, [*ours, *((build, e) for e in build_events)])
        self.counters.commits += 1

    def build_heads(self, build: AggregateState) -> dict[Which, OwnTableHead]:
        """See :class:`SwitchPorts`."""
        bound = self._build(build)
        found = {}
        for which in Which:
            table = DeltaFolder.at(bound.paths[which.value])
            head, n = table.head(), table.transaction_version(bound.app_ids[which.value]) or 0
            found[which] = OwnTableHead(head.table_id, head.version, n)
        return found

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        refuse_uncovered(state, build, self._build(build))

    def copy_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        bound = self._build(build)
        source = bound.paths["output"]
        done = copy_rows(
            source,
            DeltaFolder.at(source).head().version,
            self.aggregate.paths["output"],
            bound.definition.output_columns,
            bound.slice_column("output").name,
            bound.definition.time_type,
            self.aggregate.app_ids["output"],
            plan.n,
            self._note(plan, "switch"),
        )
        self.counters.commits += 1
        self.counters.files_rewritten += done.files_removed

    def fence_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        bound = self._build(build)
        fence(bound.paths["partials"], bound.app_ids["partials"], plan.n, self._note(plan, "fence"))
        self.counters.commits += 1

    def kept_versions(self, build: AggregateState) -> int:
        """See :class:`SwitchPorts`."""
        return int(AggregateSpec.from_json(build.spec).property_map.get(KEEP, "1"))

    def _build(self, build: AggregateState) -> Aggregate:
        return Aggregate.of(build, Path(self.aggregate.paths["output"]).parent.parent)

    def _note(self, plan: Plan, kind: str) -> dict[str, Any]:
        raise NotImplementedError


def refuse_uncovered(state: AggregateState, build: AggregateState, aggregate: Aggregate) -> None:
    """Refuse to publish a build by which readers would lose something.

    Raises:
        NotCoveredError: With what is lacking, and why.
        FrozenHistoryError: If a repair or a restored journal froze more of what is published than the build knows of: it
            takes rows for corrected that were let go since.
    """
    grid = aggregate.definition.grid
    if build.frozen < state.frozen:
        raise FrozenHistoryError(
            f"'{state.name}' is frozen below {render(state.frozen, grid.time_type)}: its next version was begun before, and "
            "may have computed history from what the source still has",
            hint=f"give it up with 'materializer abandon {state.name}'",
            wrote="nothing was switched",
        )
    lack = lack_of(state, build, grid)
    if not lack and build.plan is None:
        return
    why = []
    if build.plan is not None:
        why.append(f"refresh {build.plan.n} of it has not ended")
    if lack.spans:
        why.append(f"{spans_text(grid, lack.spans)} is not built")
    if lack.behind:
        why.append(f"it is at source version {lack.behind[0]}, what is published at {lack.behind[1]}")
    held = " (its gate held buckets back)" if any(e.verdict.get("held") for e in build.ended[-1:]) else ""
    raise NotCoveredError(
        f"the next version of '{state.name}' does not cover what is published: {'; '.join(why)}{held}",
        hint=f"run 'materializer build {state.name}'",
        wrote="nothing was switched",
        missing=spans_text(grid, lack.spans),
    )
