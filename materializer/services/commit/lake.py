"""The one context of a lake: its folder, journal, settings and Spark, and the lease under which its aggregates are written."""

# ruff: noqa: PLC0415 - what a call does not need is not imported

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from materializer.core.refresh.lateness import KNOWN_AT
from materializer.errors import MaterializerError
from materializer.lake.reads import Reader, SharedReads
from materializer.services.activity import Listeners
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from materializer.config import Config
    from materializer.core.quality.library import Library
    from materializer.journal.journal import Journal
    from materializer.journal.state import AggregateState
    from materializer.local.executor import LocalExecutor
    from materializer.services.commit.lease import WriteLease
    from materializer.services.commit.ports import DeltaPorts
    from materializer.services.observe.observe import Observation
    from materializer.services.planning.planner import RunPlanner
    from materializer.services.planning.runs import Request
    from materializer.spark.run.spark import Spark


OutputHandler: TypeAlias = Callable[[Any, int], object]
"""A function that receives the new and changed rows, and the version of the output that has them.

The rows are a Spark frame with the columns of the output, or, under ``msg_as_table = false``, a tuple of lists, one for each
column. Each row is delivered at least once; after an exception the next refresh delivers it again.
"""


class Lake(Struct, frozen=True):
    """One lake: what every use case needs.

    Args:
        root: Its root.
        journal: Its journal.
        config: Settings.
        engine: Starts Spark on first use.
        library: Loads the library of expectations on first use.
        on_checkpoint: Called with the name of each step before the step; tests stop, kill and interleave processes there.
        handlers: Output handlers by name.
        local: Computes what is small in this process; None if Spark computes everything.
        reads: Lets the aggregates of one command read the same file once.
        listeners: Hear of activities.
        starting: Returns the seconds that starting Spark takes, 0 where it runs.
    """

    root: str
    journal: Journal
    config: Config
    engine: Callable[[], Spark]
    library: Library
    on_checkpoint: Callable[[str], None] = lambda _: None
    handlers: Mapping[str, OutputHandler] = field(default_factory=dict)
    local: LocalExecutor | None = None
    reads: SharedReads = field(default_factory=SharedReads)
    listeners: Listeners = field(default_factory=Listeners)
    starting: Callable[[], float] = lambda: 0.0

    @property
    def chosen_local(self) -> LocalExecutor | None:
        """What computes in this process; None if the settings say that Spark computes everything."""
        return None if self.config.executor == "spark" else self.local

    def aggregate(self, state: AggregateState) -> Aggregate:
        """Return the aggregate of *state*, compiled."""
        return Aggregate.of(state, self.root)

    def observation(self, state: AggregateState, as_of: int | None = None) -> Observation:
        """Return what the source and the tables of an aggregate have; *as_of* is the clock, None for the wall clock."""
        from materializer.services.observe.observe import Observation

        return Observation(self.journal, self.aggregate(state), self.config, self.engine, as_of)

    def planner(self, state: AggregateState, request: Request) -> RunPlanner:
        """Return the planner of a run, for a caller that shows the plan or reads rows by it, and writes nothing."""
        from materializer.services.planning.planner import RunPlanner

        return RunPlanner(self.observation(state, request.options.as_of), request, self.config, self.engine, self.local)

    def ports(self, state: AggregateState, request: Request) -> DeltaPorts:
        """Return the ports of the protocol over the real tables of an aggregate."""
        from materializer.services.commit.ports import DeltaPorts

        return DeltaPorts(
            self.journal,
            self.aggregate(state),
            self.config,
            self.engine,
            request,
            self.library,
            self.on_checkpoint,
            self.local,
        )

    @contextmanager
    def together(self, names: Collection[str]) -> Iterator[None]:
        """Read what some aggregates read of the same table once during the block.

        An aggregate that cannot be looked up is left out: what refreshes it says why.
        """
        states: list[AggregateState] = []
        if len(names) > 1:
            with suppress(MaterializerError):
                view = self.journal.view()
                for name in names:
                    with suppress(MaterializerError):
                        states.append(view.named(name))
        with self.reading(*states):
            yield

    @contextmanager
    def reading(self, *states: AggregateState) -> Iterator[None]:
        """Do the same for aggregates whose state is known."""
        readers = []
        for state in states:
            with suppress(MaterializerError):
                spec = self.aggregate(state).definition.spec
                others = (spec.sequence, spec.property_map.get(KNOWN_AT))
                columns = [*spec.reads, spec.time_column, *filter(None, others)]
                readers.append(Reader(state.id, state.source.path, columns))
        with self.reads.together(readers):
            yield

    @contextmanager
    def lease(self, name: str) -> Iterator[WriteLease]:
        """Hold the lease of an aggregate during the block; first end the refresh that a dead process left open.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
            LeaseHeldError: If another live process works on it; nothing was written.
        """
        from materializer.services.commit.lease import leased

        with leased(self, self.journal.view().named(name)) as lease:
            lease.recover()
            yield lease
