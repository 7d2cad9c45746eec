"""The lease of an aggregate: a process takes it before it writes, renews it meanwhile and gives it back.

:mod:`materializer.services.protocol.refresh_steps` decides the order of the steps; this module does them and renews the lease.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Protocol

from msgspec import Struct

from materializer.config import Config
from materializer.core.refresh.plan import Plan
from materializer.errors import LeaseLostError, MaterializerError, SparkError
from materializer.errors.base import masked
from materializer.journal.events import Event, Lease
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake.table import one_look
from materializer.services import processes
from materializer.services.activity import Phase, tell_phase
from materializer.services.aggregate import Aggregate
from materializer.services.commit.ports import DeltaPorts
from materializer.services.planning.runs import Request
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.decision import RunNote
from materializer.services.protocol.process import At, Process
from materializer.spark.runtime.jvm import telling

_LOG: Final = logging.getLogger("materializer")
_PHASES: Final = {
    **dict.fromkeys((At.LEASE, At.PLAN), Phase.READING),
    **dict.fromkeys((At.RECOVER, At.FENCE, At.ABORT, At.ABORTED, At.FINISH, At.FINISHED), Phase.RECOVERING),
    At.COMPUTE: Phase.COMPUTING,
    At.AUDIT: Phase.CHECKING,
    At.WRITE: Phase.WRITING,
    At.DONE: Phase.COMMITTING,
}
"""What each step of a refresh is for people; the other steps publish the next version."""


class LeasedLake(Protocol):
    """The part of a lake that a lease needs."""

    @property
    def journal(self) -> Journal:
        """Its journal."""

    @property
    def config(self) -> Config:
        """Its settings."""

    @property
    def on_checkpoint(self) -> Callable[[str], None]:
        """Called with the name of each step before the step."""

    def ports(self, state: AggregateState, request: Request) -> DeltaPorts:
        """Return the ports of the protocol over the tables of an aggregate."""


class WriteLease(Struct):
    """The lease of one aggregate, given to the command that holds it.

    Args:
        lake: The lake of the aggregate.
        id: The aggregate's id.
        name: Its name.
        process: The state of the command in the protocol.
        ports: The ports of the protocol.
        recovered: Refreshes of dead processes that were ended first: (number, ``finished`` or ``aborted``).
    """

    lake: LeasedLake
    id: str
    name: str
    process: Process
    ports: DeltaPorts
    recovered: tuple[tuple[int, str], ...] = ()

    @property
    def state(self) -> AggregateState:
        """The newest state of the aggregate in the journal."""
        return self.lake.journal.view().named(self.id)

    def append(self, *events: tuple[str, Event]) -> None:
        """Append events, (id, event), in one commit, after any commits of other processes; raises as :meth:`transact`."""
        self.transact(lambda _: events)

    def transact(
        self,
        decide: Callable[[View], Sequence[tuple[str, Event]]],
        *,
        holds: Callable[[View, View], bool] = lambda _before, _now: False,
    ) -> None:
        """Append what *decide* returns as :meth:`Journal.transact` does, if the command still has the lease in that very commit.

        Raises:
            LeaseLostError: If another process has it, or the aggregate is gone; nothing was appended.
        """

        def refuse_lost(view: View) -> None:
            lease = view.living(self.id, self.name).lease
            if lease is None or lease.owner != self.process.lease.owner:
                msg = f"the lease of '{self.name}' was taken over while this process worked"
                raise LeaseLostError(msg, wrote="what it did last is not in the journal; what it did before stays")

        def checked(view: View) -> Sequence[tuple[str, Event]]:
            refuse_lost(view)
            return decide(view)

        def still_holds(before: View, now: View) -> bool:
            refuse_lost(now)
            return holds(before, now)

        self.lake.journal.transact(checked, holds=still_holds)

    def recover(self) -> None:
        """End the refresh that a dead process left open.

        Raises:
            MaterializerError: If it cannot be ended; the aggregate has to be repaired then.
        """
        process, ports = self.process, self.ports
        with ExitStack() as closing:
            while process.at is not At.END:
                self.lake.on_checkpoint(process.at.value)
                ports = _ports_now(self.lake, process, ports, closing)
                process = steps.advance(process, ports)
        self.recovered = process.recovered


@contextmanager
def leased(lake: LeasedLake, state: AggregateState) -> Iterator[WriteLease]:
    """Hold the lease of an aggregate during the block, without recovery; see :meth:`WriteLease.recover`."""
    ports = lake.ports(state, Request())
    process = Process(processes.new_lease(time.time(), lake.config.lease_seconds), is_recovery_only=True)
    with _renewing(lake, process.lease, ports):
        lake.on_checkpoint(process.at.value)
        process = steps.advance(process, ports)
        yield WriteLease(lake, state.id, state.name, process, ports)
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
        lake: The lake of the aggregate.
        state: The aggregate.
        request: The request.
        on_plan: Called with the plan before it is carried out.
        switches: Whether the run publishes the next version instead of refreshing.

    Raises:
        LeaseHeldError: If another live process works on it; nothing was written.
        MaterializerError: If planning, computing or writing fails.
    """
    ports = lake.ports(state, request)
    process = Process(processes.new_lease(time.time(), lake.config.lease_seconds), switches=switches)
    with _renewing(lake, process.lease, ports), ExitStack() as closing:
        while process.at is not At.END:
            tell_phase(_PHASES.get(process.at, Phase.PUBLISHING))
            lake.on_checkpoint(process.at.value)
            before, ports = process, _ports_now(lake, process, ports, closing)
            with one_look():
                process = steps.advance(process, ports)
            if before.at is At.PLAN and process.plan is not None and process.note is not None:
                on_plan(process.plan, process.note)
        lake.on_checkpoint(At.END.value)
    return process


def _ports_now(lake: LeasedLake, process: Process, ports: DeltaPorts, closing: ExitStack) -> DeltaPorts:
    """Return the ports for the next step: *ports*, or new ones after another version of the aggregate was published.

    Another process may have published a version before this one took the lease; the step that took it read the journal. This
    process publishes one when it ends or makes a switch; only then does this function read the journal again.

    Raises:
        LeaseLostError: If the request was cut to the buckets of the old version, or the new one has another type of time.
    """
    view = lake.journal.view() if process.switches or process.recovered else lake.journal.last_view
    state = view.all.get(ports.aggregate.aggregate_id)
    if process.at is At.LEASE or state is None or state.data_version == ports.aggregate.data_version:
        return ports
    asked = ports.planner.request
    new = lake.ports(state, asked)
    closing.callback(new.close)
    if asked.inside is not None or not _is_same_time(new.aggregate, ports.aggregate):
        msg = f"another version of '{state.name}' was published while this process worked"
        raise LeaseLostError(msg, wrote="what was finished before is published, or was replaced")
    return new


@contextmanager
def _renewing(lake: LeasedLake, lease: Lease, ports: DeltaPorts) -> Iterator[None]:
    """Renew the lease during the block until another process has it, and give it back if the block fails."""
    stopped = threading.Event()

    def renew() -> None:
        while not stopped.wait(lake.config.lease_seconds / 3):
            try:
                if not ports.renew(lease):
                    return
            except Exception as exc:  # noqa: BLE001 - only a lost lease ends this thread, or the lease of a living process runs out
                _LOG.warning("a lease could not be renewed, which is tried again: %s", masked(str(exc)))

    thread = threading.Thread(target=renew, name="materializer-lease", daemon=True)
    thread.start()
    try:
        with processes.at_work(lease), telling():
            yield
    except BaseException as exc:
        stopped.set()
        # the caller gets the error that stopped the block, also if giving the lease back fails: the lease then runs out, or
        # another process has it already
        with suppress(MaterializerError):
            refresh_steps.release(Process(lease), ports)
            if isinstance(exc, SparkError) and (plan := ports.read()[1].plan) is not None:
                exc.wrote = f"refresh {plan.n} has not ended: what it wrote is finished or undone by the next command"
        raise
    finally:
        stopped.set()
        ports.close()
        thread.join()


def _is_same_time(first: Aggregate, second: Aggregate) -> bool:
    specs = first.definition.spec, second.definition.spec
    return len({(spec.time_type, spec.resolution) for spec in specs}) == 1
