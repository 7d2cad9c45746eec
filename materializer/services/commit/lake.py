"""The one context of a lake: its folder, journal, settings and Spark, and the lease under which its aggregates are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from materializer.config import Config
from materializer.core.quality.library import Library
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.commit.lease import WriteLease, held
from materializer.services.commit.ports import DeltaPorts
from materializer.services.observe.observe import Observation
from materializer.services.planning.planner import RunPlanner
from materializer.services.planning.runs import Request

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


OutputHandler: TypeAlias = Callable[[Any, int], object]
"""Called with rows that are new or have new content, and the version of the output that holds them.

The rows are a Spark frame with the columns of the output, or, under ``msg_as_table = false``, a tuple of lists, one for each
column. They come at least once; an exception makes the next refresh give them again.
"""


@dataclass(frozen=True, slots=True)
class Lake:
    """One lake, as every use case sees it.

    Args:
        root: Its root folder.
        journal: Its journal.
        config: Settings.
        engine: Starts Spark on first use.
        library: Loads the library of expectations on first use.
        on_checkpoint: Called with the name of each step before it is done; tests stop, kill and interleave there.
        handlers: Output handlers by name.
    """

    root: Path
    journal: Journal
    config: Config
    engine: Callable[[], Spark]
    library: Library
    on_checkpoint: Callable[[str], None] = lambda _: None
    handlers: Mapping[str, OutputHandler] = field(default_factory=dict)

    def aggregate(self, state: AggregateState) -> Aggregate:
        """Return the aggregate of *state*, compiled."""
        return Aggregate.of(state, self.root)

    def survey(self, state: AggregateState, as_of: int | None = None) -> Observation:
        """Return what the source and the tables of an aggregate hold; *as_of* is the clock, the wall clock where it is None."""
        return Observation(self.journal, self.aggregate(state), self.config, self.engine, as_of)

    def planner(self, state: AggregateState, request: Request) -> RunPlanner:
        """Return the planner of a run, for a caller that shows the plan or reads by it and writes nothing."""
        return RunPlanner(self.survey(state, request.options.as_of), request, self.config, self.engine)

    def ports(self, state: AggregateState, request: Request) -> DeltaPorts:
        """Return the ports of the protocol over the real tables of an aggregate."""
        return DeltaPorts(
            self.journal, self.aggregate(state), self.config, self.engine, request, self.library, self.on_checkpoint
        )

    @contextmanager
    def lease(self, name: str) -> Iterator[WriteLease]:
        """Hold the lease of an aggregate while the block writes; first end the refresh that a dead process left open.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
            LeaseHeldError: If another live process works on it; nothing was written.
        """
        with held(self, self.journal.view().named(name)) as lease:
            lease.recover()
            yield lease
