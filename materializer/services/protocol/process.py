"""The words of the protocol: a process between two steps, what it decides, and the ports through which it touches anything.

The steps are in :mod:`materializer.services.protocol.steps`: those of a refresh in :mod:`materializer.services.protocol.refresh_steps`,
those of a switch in :mod:`materializer.services.protocol.switch_steps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import SpanSet
from materializer.errors import MaterializerError
from materializer.journal.events import Event, Lease
from materializer.journal.state import AggregateState
from materializer.services.protocol.decision import Decision, RunNote

if TYPE_CHECKING:
    from materializer.core.engines.work import Work

ATTEMPTS: Final = 50
"""How often a journal commit is tried again when other aggregates' commits come first."""

PLANS: Final = 5
"""How often a refresh is planned at most, because each time its aggregate changed while it was planned."""


class Which(StrEnum):
    """One of the two tables of an aggregate."""

    PARTIALS = "partials"
    OUTPUT = "output"


BOTH: Final = frozenset(Which)


class At(StrEnum):
    """The step that a process does next; also the names of the checkpoints."""

    LEASE = "lease"
    RECOVER = "recover"
    FENCE = "fence"
    ABORT = "abort"
    ABORTED = "aborted"
    FINISH = "finish"
    FINISHED = "finished"
    PLAN = "plan"
    COMPUTE = "compute"
    AUDIT = "audit"
    WRITE = "write"
    DONE = "done"
    END = "end"
    SWITCH_PLAN = "switch_plan"
    SWITCH_WRITE = "switch_write"
    SWITCH_FENCE = "switch_fence"
    SWITCH_DONE = "switch_done"
    SWITCH_UNDO = "switch_undo"
    SWITCH_REFUSE = "switch_refuse"
    SWITCH_UNDONE = "switch_undone"


class OwnTableHead(Struct, frozen=True):
    """What a table of ours says of itself.

    Args:
        table_id: Delta table id.
        version: Newest version.
        n: Largest refresh number recorded under the aggregate's transaction identifier, 0 for none.
        plan: Id of the plan whose commit has that number; "" where that is not known.
    """

    table_id: str
    version: int
    n: int
    plan: str = ""


class Audit(Struct, frozen=True):
    """What a gate decided of a computed plan.

    Args:
        result: What is written: the computed rows without those of withheld spans.
        held: Withheld spans, which neither table gets; they are dirty again when the plan ends.
        verdict: What the gate found, as JSON.
        failure: Set when nothing may be published; the plan is aborted with it.
        dirt: What the audit showed to be wrong, published or not; it is dirty in the journal commit of the verdict.
    """

    result: Any
    held: SpanSet
    verdict: Mapping[str, Any]
    failure: MaterializerError | None = None
    dirt: tuple[Entry, ...] = ()


class CommitsGoneError(Exception):
    """The commits since a plan was made can no longer be read."""


class Ports(Protocol):
    """Everything outside that a refresh of one aggregate touches."""

    def read(self) -> tuple[int, AggregateState]:
        """Return the journal's version and the aggregate's folded state; raises when it is gone."""

    def append(self, version: int, events: Sequence[Event]) -> None:
        """Append to the journal if it still has *version*, else raise JournalConflictError."""

    def head(self, which: Which) -> OwnTableHead:
        """Return identity, version and refresh number of a table."""

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """Whether a data commit with the plan's id is among those since the plan was made.

        Raises:
            CommitsGoneError: If they can no longer be read.
        """

    def fence(self, which: Which, plan: Plan) -> None:
        """Record the plan's number in an empty commit; a table that has it or a higher one is left alone."""

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """Look, capture and plan from *state*; writes nothing."""

    def compute(self, plan: Plan, work: Work | None) -> Any:
        """Return the new partials and output rows of the plan, computed; *work* is what an engine computes."""

    def audit(self, plan: Plan, result: Any) -> Audit | None:
        """Return what the gate says of a computed plan, or None when there is no gate."""

    def write(self, plan: Plan, result: Any, which: frozenset[Which]) -> None:
        """Commit *result* to the tables; a commit of the plan that is there already is not made again.

        Raises:
            WriteFencedError: If a table carries the plan's number, or a higher one, by another commit.
        """

    def publish(self, plan: Plan, held: SpanSet) -> None:
        """Commit the output of the plan's published spans, finalised from its committed partials."""

    def report(self, plan: Plan, result: Any) -> RunReport:
        """Return what the run did."""

    def is_dead(self, lease: Lease) -> bool:
        """Whether the holder of *lease* can no longer write."""


class Process(Struct, frozen=True):
    """One process inside a refresh, between two steps.

    Args:
        lease: The lease it takes, or took.
        at: The step it does next.
        plan: The plan it works on, its own or the one it recovers.
        work: What an engine computes by its own plan.
        result: What COMPUTE returned.
        todo: Tables that WRITE has still to commit.
        failure: Why its own plan is being aborted.
        note: What planning wants to tell the caller.
        report: What the run did, once done.
        recovered: Refresh numbers it recovered, with how.
        is_recovery_only: Whether it ends after recovery (commands other than refresh).
        switches: Whether it publishes the build after recovery instead of refreshing.
        is_own: Whether it made the switch that it works on itself.
    """

    lease: Lease
    at: At = At.LEASE
    plan: Plan | None = None
    work: Work | None = None
    result: Any = None
    todo: frozenset[Which] = BOTH
    failure: MaterializerError | None = None
    note: RunNote | None = None
    report: RunReport | None = None
    recovered: tuple[tuple[int, str], ...] = ()
    is_recovery_only: bool = False
    switches: bool = False
    is_own: bool = False


def plan_of(p: Process) -> Plan:
    """Return the plan that the process works on."""
    if p.plan is None:
        msg = f"step {p.at} needs a plan"
        raise ValueError(msg)
    return p.plan
