"""The base of all topics of the façade: one lake with its use cases, and the reading of names and windows."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from materializer.core.time.instants import Instant, parse_window
from materializer.core.time.spans import EVERYTHING, Span
from materializer.lake import places
from materializer.services.aggregate import timed
from materializer.services.definitions import lineage
from materializer.services.planning.options import RefreshOptions, clock_of, window_of
from materializer.services.refresh.service import Refresher
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.time.grid import Grid
    from materializer.core.time.instants import Shown
    from materializer.services.commit.lake import Lake
    from materializer.services.definitions.apply import Definitions
    from materializer.services.definitions.starting import Starter
    from materializer.services.definitions.texts import Texts
    from materializer.services.report.status import Looker
    from materializer.services.schedule.policies import Policies
    from materializer.services.versions.versions import Versions
    from materializer.spark.run.executor import Executor


@watched
class OpenedLake:
    """One opened lake.

    Args:
        lake: The lake.
        executor: Starts its Spark.
    """

    def __init__(self, lake: Lake, executor: Executor) -> None:
        self.config = lake.config
        self.journal = lake.journal
        self._lake = lake
        self._executor = executor
        self._refresher = Refresher(lake)

    @cached_property
    def _texts(self) -> Texts:
        from materializer.services.definitions.texts import Texts

        return Texts(frozenset(self._executor.python), self._definitions.repeated.find)

    @cached_property
    def _definitions(self) -> Definitions:
        from materializer.services.definitions.apply import Definitions

        lake = self._lake
        return Definitions(
            lake.root, lake.journal, lake.config, lake.engine, lake.library, lake.on_checkpoint, lake.starting
        )

    @cached_property
    def _starter(self) -> Starter:
        from materializer.services.definitions.starting import Starter

        return Starter(self._lake.root, self.journal, self._lake.config, self._lake.engine)

    @cached_property
    def _looker(self) -> Looker:
        from materializer.services.report.status import Looker

        return Looker(self._lake.root, self.journal)

    @cached_property
    def _versions(self) -> Versions:
        from materializer.services.versions.versions import Versions

        return Versions(self._lake, self._definitions)

    @cached_property
    def _policies(self) -> Policies:
        from materializer.services.schedule.policies import Policies

        return Policies(self._lake, self._definitions, self._refresher)

    @property
    def root(self) -> Path | str:
        """The root of the lake: a path, or the URL of a store."""
        return Path(self._lake.root) if places.is_local(self._lake.root) else self._lake.root

    def _beside(self, root: str | Path) -> OpenedLake:
        """Return another lake, with the settings of this one."""
        from materializer.wiring import wired

        return OpenedLake(*wired(root, self.config, None, (), {}, lambda _: None))

    def names(self) -> list[str]:
        """Return the names of all aggregates, parents first; broken ones come last."""
        view = self.journal.view()
        broken = sorted(b.name or b.id for b in view.broken.values())
        return [*lineage.parents_first(self._lake.root, view.states), *broken]

    def chain(self, name: str) -> list[str]:
        """Return the names of an aggregate and of what it reads, and of what that reads, down to raw rows; these come first.

        Args:
            name: The aggregate.
        """
        view = self.journal.view()
        return [s.name for s in lineage.chain_of(view.named(name), self._lake.root, view.states)]

    def grid(self, name: str) -> Grid:
        """Return the grid of an aggregate.

        Args:
            name: The aggregate.
        """
        return timed(self.journal.view().named(name)).grid

    def times(self, name: str) -> dict[str, Shown]:
        """Return the columns of the output that hold times of the bucket or window of a row, and how people are shown these.

        Args:
            name: The aggregate.
        """
        from materializer.services.commit.commit_info import times_of

        aggregate = self._lake.aggregate(self.journal.view().named(name))
        return dict.fromkeys(times_of(aggregate), aggregate.definition.grid.shown)

    def has_slice(self, name: str) -> bool:
        """Return whether the first column of the output is the slice of an engine, which divides the work and is no result.

        Args:
            name: The aggregate.
        """
        return self._lake.aggregate(self.journal.view().named(name)).definition.spec.is_engine

    def _options(self, name: str, start: Instant = None, end: Instant = None, as_of: Instant = None) -> RefreshOptions:
        grid = self.grid(name)
        first, last = window_of(grid, start, end)
        return RefreshOptions(first, last, as_of=clock_of(grid, as_of), run_rows=self.config.run_rows)

    def _window(self, name: str, start: Instant, end: Instant) -> Span:
        grid = self.grid(name)
        return parse_window(start, end, grid.time_type, grid.resolution)

    def _part(self, name: str, start: Instant, end: Instant) -> Span | None:
        """Return a window, or None if it is everything."""
        window = self._window(name, start, end)
        return None if window == EVERYTHING else window
