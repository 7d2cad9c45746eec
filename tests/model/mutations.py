"""Eighteen deliberate mistakes, each made in the project's own code, and how to explore with one of them.

Where the code has a second guard against the consequence (the check of the tables before planning, the fold that refuses
impossible events), the mistake comes with that guard taken away, so that it is the rule that catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.refresh import strategies
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import LeaseLostError
from materializer.journal import fold
from materializer.journal.events import Aborted, Done, Event, Lease
from materializer.journal.state import AggregateState
from materializer.services.protocol import refresh_steps as protocol
from materializer.services.protocol.process import At, Audit, OwnTableHead, Process, Which
from tests.model.exploration import Bounds, Exploration, Found


class Mutation(NamedTuple):
    """One mistake.

    Args:
        says: What is wrong.
        caught_by: The rule that the shortest trace breaks.
        patch: Makes the mistake in the project's modules.
        ports: Makes it in the outside.
        ignored: Rules that would only repeat the mistake's name.
        bounds: The smallest that catch it.
    """

    says: str
    caught_by: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    ports: type[MemoryPorts] = MemoryPorts
    ignored: tuple[str, ...] = ()
    bounds: Bounds = Bounds(2, 1)


def explore(bounds: Bounds, mutation: str | None = None) -> Found:
    """Explore the project's code, or what a mutation makes of it."""
    m = MUTATIONS[mutation] if mutation else Mutation("", "")
    with pytest.MonkeyPatch.context() as patch:
        m.patch(patch)
        return Exploration(bounds, m.ports, m.ignored).run()


def _threshold_cleans(patch: pytest.MonkeyPatch) -> None:
    planned = fold.planned

    def cleaning(state: AggregateState, event: Any) -> AggregateState:
        after = planned(state, event)
        return replace(after, log=after.log.cut(SpanSet.of(Span(NEG_INF, after.threshold))).left)

    patch.setattr(fold, "planned", cleaning)


def _join_after(patch: pytest.MonkeyPatch) -> None:
    joined = Entry.joined
    patch.setattr(Entry, "joined", lambda old, new, span: replace(joined(old, new, span), after=new.after))


def _merge_deletes(patch: pytest.MonkeyPatch) -> None:
    why_not = strategies.why_not_merge
    patch.setattr(strategies, "why_not_merge", lambda entry, facts: why_not(replace(entry, is_insert_only=True), facts))


def _remerge(patch: pytest.MonkeyPatch) -> None:
    recover = protocol.recover

    def applying_again(p: Process, ports: Any) -> Process:
        _, state = ports.read()
        if state.plan is None:
            return recover(p, ports)
        ports.write(state.plan, ports.compute(state.plan, None), frozenset(Which))
        return replace(p, at=At.FINISHED, plan=state.plan)

    patch.setattr(protocol, "recover", applying_again)


def _blind_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "check_heads", lambda *_: None)


class BlindFence(MemoryPorts):
    """Takes the transaction number for the plan's commit."""

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """Look at the number alone."""
        return self.table(which).n >= plan.n


class UnfencedPartials(MemoryPorts):
    """Fences the output only."""

    def fence(self, which: Which, plan: Plan) -> None:
        """Leave the partials open to late writers."""
        if which is Which.OUTPUT:
            super().fence(which, plan)


class UnfencedOutput(MemoryPorts):
    """Fences the partials only."""

    def fence(self, which: Which, plan: Plan) -> None:
        """Leave the output open to late writers."""
        if which is Which.PARTIALS:
            super().fence(which, plan)


class ReusedNumber(MemoryPorts):
    """Gives a new plan the number of the last one."""

    def number(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> int:  # noqa: ARG002 - the port's signature
        """Take the journal's last number again."""
        return max(state.last_n, 1)


def _reuse_number(patch: pytest.MonkeyPatch) -> None:
    planned = fold.planned
    _blind_tables(patch)
    patch.setattr(fold, "planned", lambda state, e: planned(replace(state, last_n=e.plan.n - 1), e))


def _abort_forgets(patch: pytest.MonkeyPatch) -> None:
    apply = fold.apply

    def forgetting(state: Any, aggregate: str, event: Event, *, at: str = "") -> Any:
        if isinstance(event, Aborted):
            state = replace(state, plan=replace(state.plan, taken=()))
        return apply(state, aggregate, event, at=at)

    patch.setattr(fold, "apply", forgetting)


def _done_without_cas(patch: pytest.MonkeyPatch) -> None:
    def committing(p: Process, ports: Any, decide: Callable[[AggregateState], Sequence[Event]]) -> None:
        version, state = ports.read()
        if state.plan is None:
            raise LeaseLostError("there is no plan left to end")
        ports.append(version, [replace(e, n=state.plan.n) if isinstance(e, Done) else e for e in decide(state)])

    patch.setattr(protocol, "commit_leased", committing)
    _blind_tables(patch)


class OwnLease(MemoryPorts):
    """Believes that it holds the lease, whoever does."""

    def read(self) -> tuple[int, AggregateState]:
        """Show the lease as our own."""
        version, state = super().read()
        lease = state.lease or Lease(self.owner, "", 0, 0, 0.0)
        return version, replace(state, lease=replace(lease, owner=self.owner))


def _no_lease(patch: pytest.MonkeyPatch) -> None:
    planned = fold.planned
    patch.setattr(fold, "planned", lambda state, event: planned(replace(state, plan=None), event))
    _blind_tables(patch)


def _recover_unleased(patch: pytest.MonkeyPatch) -> None:
    recover = protocol.recover

    def recovering(p: Process, ports: Any) -> Process:
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(protocol, "check_lease", lambda *_: None)
            return recover(p, ports)

    patch.setattr(protocol, "recover", recovering)


def _abort_unseen(patch: pytest.MonkeyPatch) -> None:
    abort = protocol.abort

    def aborting(p: Process, ports: Any) -> Process:
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(protocol, "is_known", lambda *_: False)
            return abort(p, ports)

    patch.setattr(protocol, "abort", aborting)


def _finish_unseen(patch: pytest.MonkeyPatch) -> None:
    known = protocol.is_known

    def seen(which: Which, plan: Plan, ports: Any) -> bool:
        return which is Which.OUTPUT or known(which, plan, ports)

    patch.setattr(protocol, "is_known", seen)


class WritesHeld(MemoryPorts):
    """Holds buckets back from the output only."""

    def audit(self, plan: Plan, result: Any) -> Audit | None:
        """Leave the held rows in what is written."""
        audit = super().audit(plan, result)
        return audit and replace(audit, result=result)


def _held_forgotten(patch: pytest.MonkeyPatch) -> None:
    apply = fold.apply

    def forgetting(state: Any, aggregate: str, event: Event, *, at: str = "") -> Any:
        if isinstance(event, Done):
            state = replace(state, held=SpanSet())
        return apply(state, aggregate, event, at=at)

    patch.setattr(fold, "apply", forgetting)


def _any_commit_voids(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "is_planned_still", lambda *_: False)


def _stale_plan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "is_planned_still", lambda *_: True)


SLOW: Final = Bounds(1, 0, refreshes=1, calls=True, besides=1)
SLEPT: Final = Bounds(1, 1, refreshes=2)
CLEANED: Final = Bounds(1, 1, refreshes=2, failures=True, cleanings=1, calls=True)
GATED: Final = Bounds(2, 1, refreshes=2, gates=True)

MUTATIONS: Final = {
    "threshold-cleans": Mutation(
        "raising the threshold takes buckets below it off the log", "clean", _threshold_cleans
    ),
    "join-after": Mutation("a second capture replaces the older `after`", "after", _join_after),
    "merge-deletes": Mutation("merge although a change since `after` was a delete", "clean", _merge_deletes),
    "remerge": Mutation("recovery computes the merge again instead of finishing it", "clean", _remerge),
    "blind-fence": Mutation("recovery trusts the transaction number, not the plan's id", "clean", ports=BlindFence),
    "no-fence": Mutation(
        "the partials are not fenced against late writers", "clean", _blind_tables, UnfencedPartials, ("finished",)
    ),
    "unfenced-output": Mutation("only the partials are fenced", "aborted", _blind_tables, UnfencedOutput),
    "reuse-number": Mutation("a new plan takes the last number again", "ends", _reuse_number, ReusedNumber),
    "abort-forgets": Mutation("an aborted plan does not give its buckets back", "clean", _abort_forgets),
    "done-without-cas": Mutation(
        "`done` is written although the lease was lost", "clean", _done_without_cas, ignored=("lease",)
    ),
    "no-lease": Mutation("nobody notices another's plan", "clean", _no_lease, OwnLease, ("lease",)),
    "recover-unleased": Mutation(
        "recovery does not look whether the lease is still its own", "held", _recover_unleased, bounds=SLEPT
    ),
    "abort-unseen": Mutation(
        "after the fence of the partials nobody looks at them again", "finished", _abort_unseen, bounds=SLEPT
    ),
    "finish-unseen": Mutation(
        "nobody looks whether the output of a plan landed", "clean", _finish_unseen, bounds=CLEANED
    ),
    "writes-held": Mutation(
        "the tables get the rows that the gate holds back", "clean", ports=WritesHeld, bounds=GATED
    ),
    "any-commit-voids": Mutation(
        "a plan is made anew after any commit to the journal", "ends", _any_commit_voids, bounds=SLOW
    ),
    "stale-plan": Mutation(
        "a plan is appended although its aggregate changed while it was made", "clean", _stale_plan, bounds=SLOW
    ),
    "held-forgotten": Mutation("what was held back is taken for clean", "clean", _held_forgotten, bounds=GATED),
}
