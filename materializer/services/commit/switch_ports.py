"""The ports of a switch over the real journal, the output, and the tables of the build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import render
from materializer.core.time.windows import spans_text
from materializer.errors import FrozenHistoryError, NotCoveredError
from materializer.journal.events import Event
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import fence
from materializer.lake.write.copying import copy_rows
from materializer.services.aggregate import Aggregate
from materializer.services.commit.counters import Counters
from materializer.services.definitions.coverage import lack_of
from materializer.services.protocol.process import OwnTableHead, Which

KEEP = "versions.keep"
"""Property: how many previous versions stay in the lake."""


class SwitchTables:
    """The part of the ports that publishes a build; see :class:`materializer.services.protocol.switch_steps.SwitchPorts`."""

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
        aggregate = self._build(build)
        heads = {}
        for which in Which:
            table = DeltaFolder.at(aggregate.paths[which.value])
            head, (n, by) = table.head(), table.numbered(aggregate.app_ids[which.value])
            heads[which] = OwnTableHead(head.table_id, head.version, n or 0, by)
        return heads

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        refuse_uncovered(state, build, self._build(build))

    def copy_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        aggregate = self._build(build)
        source = aggregate.paths["output"]
        done = copy_rows(
            source,
            DeltaFolder.at(source).head().version,
            self.aggregate.paths["output"],
            aggregate.definition.output_columns,
            aggregate.slice_column("output").name,
            aggregate.definition.time_type,
            self.aggregate.app_ids["output"],
            plan.n,
            self._note(plan, "switch"),
        )
        self.counters.commits += 1
        self.counters.files_rewritten += done.files_removed

    def fence_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        aggregate = self._build(build)
        fence(aggregate.paths["partials"], aggregate.app_ids["partials"], plan.n, self._note(plan, "fence"))
        self.counters.commits += 1

    def kept_versions(self, build: AggregateState) -> int:
        """See :class:`SwitchPorts`."""
        return int(AggregateSpec.from_json(build.spec).property_map.get(KEEP, "1"))

    def _build(self, build: AggregateState) -> Aggregate:
        return Aggregate.of(build, places.parent(places.parent(self.aggregate.paths["output"])))

    def _note(self, plan: Plan, kind: str) -> dict[str, Any]:
        raise NotImplementedError


def refuse_uncovered(state: AggregateState, build: AggregateState, aggregate: Aggregate) -> None:
    """Refuse to publish a build that lacks something that the published version has.

    Raises:
        NotCoveredError: If the build lacks spans or source versions, or has an open refresh.
        FrozenHistoryError: If a repair or a restored journal moved the frozen boundary after the build began: the build may have
            taken the deletion of raw rows below it for a correction.
    """
    grid = aggregate.definition.grid
    if build.frozen < state.frozen:
        raise FrozenHistoryError(
            f"'{state.name}' is frozen below {render(state.frozen, grid.shown)}: its next version was begun before, and "
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
    withheld = " (its gate held buckets back)" if any(e.verdict.get("held") for e in build.ended[-1:]) else ""
    raise NotCoveredError(
        f"the next version of '{state.name}' does not cover what is published: {'; '.join(why)}{withheld}",
        hint=f"run 'materializer build {state.name}'",
        wrote="nothing was switched",
        missing=spans_text(grid, lack.spans),
    )
