"""The lease of an aggregate, held while something writes: taken, renewed, given back, and passed on when a process dies.

The protocol says in which order (:mod:`materializer.services.protocol.refresh_steps`); this module does it in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from materializer.config import Config
from materializer.core.refresh.plan import Plan
from materializer.errors import LeaseLostError, MaterializerError, SparkError
from materializer.journal.events import Lease
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.services import processes
from materializer.services.aggregate import Aggregate
from materializer.services.commit.ports import DeltaPorts
from materializer.services.planning.runs import Request
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.decision import RunNote
from materializer.services.protocol.process import At, Process
from materializer.spark.runtime.jvm import telling


class LeasedLake(Protocol):
    """What a lease needs of a lake."""

    @property
    def journal(self) -> Journal:
        """The lake's journal."""

    @property
    def config(self) -> Config:
        """Settings."""

    @property
    def on_checkpoint(self) -> Callable[[str], None]:
        """Called with the name of each step before it is done."""

    def ports(self, state: AggregateState, request: Request) -> DeltaPorts:
        """Return the ports of the protocol over the tables of an aggregate."""


@dataclass(slots=True)
class WriteLease:
    """The lease of one aggregate, as the command that holds it sees it.

    Args:
        lake: Where the aggregate is.
        id: The aggregate's id.
        process: Where the holder stands in the protocol.
        ports: What the protocol touches.
    """

    lake: LeasedLake
    id: str
    process: Process
    ports: DeltaPorts

    @property
    def state(self) -> AggregateState:
        """The aggregate, as the journal knows it now."""
        return self.lake.journal.view().named(self.id)

    def recover(self) -> None:
        """End what a dead process left of the aggregate.

        Raises:
            MaterializerError: If that cannot be ended; the aggregate is to be repaired then.
        """
        process, ports = self.process, self.ports
        with ExitStack() as closing:
            while process.at is not At.END:
                self.lake.on_checkpoint(process.at.value)
                ports = _ports_now(self.lake, process, ports, closing)
                process = steps.advance(process, ports)


@contextmanager
def held(lake: LeasedLake, state: AggregateState) -> Iterator[WriteLease]:
    """Hold the lease of an aggregate as a dead process may have left it; see :meth:`WriteLease.recover`."""
    ports = lake.ports(state, Request())
    process = Process(processes.new_lease(time.time(), lake.config.lease_seconds), is_recovery_only=True)
    with _renewing(lake, process.lease, ports):
        lake.on_checkpoint(process.at.value)
        process = steps.advance(process, ports)
        yield WriteLease(lake, state.id, process, ports)
        try:
            if state.id in lake.journal.view().all:
                refresh_steps.release(process, ports)
        except MaterializerError as exc:
            exc.wrote = "what it did before giving its lease back stays; the lease is still held"
            raise


def run(
    lake: LeasedLake,
    state: AggregateState,
    request: Request,
    on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
    *,
    switches: bool = False,
) -> Process:
    """Do one run of a request by the steps of the protocol, under a lease of its own.

    Args:
        lake: Where the aggregate is.
        state: The aggregate.
        request: What is asked.
        on_plan: Called with the plan before it is done.
        switches: Whether the next version is published, and nothing is refreshed.

    Raises:
        LeaseHeldError: If another live process works on it; nothing was written.
        MaterializerError: Whatever planning, computing or writing found.
    """
    ports = lake.ports(state, request)
    process = Process(processes.new_lease(time.time(), lake.config.lease_seconds), switches=switches)
    with _renewing(lake, process.lease, ports), ExitStack() as closing:
        while process.at is not At.END:
            lake.on_checkpoint(process.at.value)
            before, ports = process, _ports_now(lake, process, ports, closing)
            process = steps.advance(process, ports)
            if before.at is At.PLAN and process.plan is not None and process.note is not None:
                on_plan(process.plan, process.note)
        lake.on_checkpoint(At.END.value)
    return process


def _ports_now(lake: LeasedLake, process: Process, ports: DeltaPorts, closing: ExitStack) -> DeltaPorts:
    """Return what the next step works with: new ports when another version was published, by this process or before it.

    Another process can publish before this one has the lease, whose step read the journal. This one does where it ends or makes
    a switch; only then is the journal read again.

    Raises:
        LeaseLostError: If the request was cut to the buckets of the version before, or its time is of another type.
    """
    view = lake.journal.view() if process.switches or process.recovered else lake.journal.last_view
    state = view.all.get(ports.aggregate.aggregate_id)
    if process.at is At.LEASE or state is None or state.data_version == ports.aggregate.data_version:
        return ports
    asked = ports.planner.request
    found = lake.ports(state, asked)
    closing.callback(found.close)
    if asked.inside is not None or not _is_same_time(found.aggregate, ports.aggregate):
        msg = f"another version of '{state.name}' was published while this process worked"
        raise LeaseLostError(msg, wrote="what was finished before is published, or was replaced")
    return found


@contextmanager
def _renewing(lake: LeasedLake, lease: Lease, ports: DeltaPorts) -> Iterator[None]:
    """Renew the lease while the block works; give it back when the block fails."""
    stopped = threading.Event()

    def renew() -> None:
        while not stopped.wait(lake.config.lease_seconds / 3):
            try:
                ports.renew(lease)
            except MaterializerError:
                return

    thread = threading.Thread(target=renew, name="materializer-lease", daemon=True)
    thread.start()
    try:
        with processes.at_work(lease), telling():
            yield
    except BaseException as exc:
        stopped.set()
        # what stopped the work is what is to be told; a lease that nobody works under is taken over, and one that
        # somebody else holds is left alone
        with suppress(MaterializerError):
            refresh_steps.release(Process(lease), ports)
            if isinstance(exc, SparkError) and (plan := ports.read()[1].plan) is not None:
                exc.wrote = f"refresh {plan.n} has not ended: what it wrote is finished or undone by the next command"
        raise
    finally:
        stopped.set()
        ports.close()
        thread.join()


def _is_same_time(one: Aggregate, other: Aggregate) -> bool:
    specs = one.definition.spec, other.definition.spec
    return len({(spec.time_type, spec.resolution) for spec in specs}) == 1
