"""The pages of a report: the lake, and each aggregate; read without a JVM, and without a write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.time.instants import MILLISECOND
from materializer.errors import NotLocalError
from materializer.journal.state import AggregateState, Ended
from materializer.lake.table import one_look
from materializer.services.commit.lake import Lake
from materializer.services.observe.clock import wall_clock
from materializer.services.planning.options import RefreshOptions
from materializer.services.refresh.preview import Previewer
from materializer.services.report.history import folded
from materializer.services.report.page.aggregate import aggregate_page
from materializer.services.report.page.lake import lake_page
from materializer.services.report.status import Looker, Status


class Pages(Struct, frozen=True):
    """Makes the pages of one lake.

    Args:
        of: The lake; its Spark is never asked.
    """

    of: Lake

    @property
    def version(self) -> int:
        """The version of the journal; the pages are new when it is."""
        return self.of.journal.view().version

    def first(self) -> dict[str, Any]:
        """Return the page of the lake; see :func:`~materializer.services.report.page.lake.lake_page`."""
        return self._first(Looker(self.of.root, self.of.journal).status())

    def aggregate(self, name: str) -> dict[str, Any]:
        """Return the page of an aggregate; see :func:`~materializer.services.report.page.aggregate.aggregate_page`.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
        """
        state = self.of.journal.view().named(name)
        [status] = Looker(self.of.root, self.of.journal).status(state.name)
        with one_look():
            return self._aggregate(state, status, self.of.journal.history(state.id))

    def every(self) -> tuple[dict[str, Any], Iterator[tuple[str, dict[str, Any]]]]:
        """Return the page of the lake, and those of all usable aggregates by name; the history is read once."""
        statuses = Looker(self.of.root, self.of.journal).status()
        return self._first(statuses), self._every(statuses)

    def _every(self, statuses: list[Status]) -> Iterator[tuple[str, dict[str, Any]]]:
        view = self.of.journal.view()
        histories = self.of.journal.histories(view.states)
        with one_look():
            for status in statuses:
                state = view.named(status.name)
                yield status.name, self._aggregate(state, status, histories.get(state.id, []))

    def _first(self, statuses: list[Status]) -> dict[str, Any]:
        return lake_page(self.of.root, self.of.journal.view(), statuses, wall_clock() / MILLISECOND)

    def _aggregate(self, state: AggregateState, status: Status, history: list[dict[str, Any]]) -> dict[str, Any]:
        lake = replace(self.of, engine=_no_spark)
        ended: list[Ended] = [*folded(history, {e.n for e in state.ended}), *state.ended]
        is_done = status.state in {"fresh", "source-unreadable", "output-unreadable"}
        preview = None if is_done else partial(Previewer(lake).preview, state.name, RefreshOptions())
        return aggregate_page(state, lake.aggregate(state), status, ended, preview)


def _no_spark() -> NoReturn:
    raise NotLocalError("planning it needs Spark, which a report does not start", hint="'materializer plan' starts it")
