"""The state of one aggregate, as a value; :mod:`materializer.journal.fold` computes it from events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.codec import json_fields
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog, SourceMark
from materializer.core.refresh.lateness import Lateness
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.spec.spec import CONTINUOUS, AggregateSpec
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Instant, Lease, SourceIdentity

Version = Mapping[str, Any]
"""One version: the fields of :data:`materializer.journal.version_fields.FIELDS`, in the form that a snapshot of the state has."""


class Ended(Printed, Struct, frozen=True):
    """A refresh that ended, as commands show it.

    Args:
        n: Refresh number.
        at: When it ended, ISO text.
        outcome: ``done``, ``aborted`` or ``switched``.
        window: What it refreshed.
        report: What it did; for an aborted refresh only the planned strategy.
        reason: Why it was aborted.
        verdict: The gate's verdict, as JSON; empty without one.
        policy: The refresh policy that started it, or "".
    """

    n: int
    at: str
    outcome: str
    window: Span
    report: RunReport
    reason: str = ""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""

    def _tables(self) -> list[PrintedTable]:
        report = self.report
        pairs: list[tuple[str, object]] = [("ended", self.at), ("policy", self.policy), ("because", self.reason)]
        if self.outcome == "done":
            pairs += [
                ("source version", report.source_version),
                ("strategy", report.strategy),
                ("executor", report.executor or "spark"),
                ("rows", f"{report.rows_read:,} read, {report.rows_written:,} written in {report.buckets:,} buckets"),
                ("took", f"{report.seconds:.3f} s"),
            ]
        return [facts(f"refresh {self.n}: {self.outcome}", pairs)]


LATER: Final = (
    *("verdict", "policy", "maintained", "builds", "switch", "is_closed", "canaries", "expired_rows", "followed_end"),
    *("frozen", "retired", "checks", "lateness", "waits", "previous", "policy_runs"),
    *("table", "table_problem", "mark", "written_by"),
)
"""Fields that snapshots of earlier releases lack."""


@json_fields(
    order=(
        *(..., "expired_rows", "source", "threshold", "extent_end", "followed_end", "frozen", "retired", "log", "plan"),
        *("held", "lease", "changes", "checks", "lateness", "waits", "previous", "policy_runs", "ended"),
    ),
    later=LATER,
    omits=("table", "table_problem", "mark", "written_by"),
)
class AggregateState(Struct, frozen=True):
    """The state of one aggregate.

    Args:
        id: Unique for ever; an aggregate that is dropped and created again gets another id.
        name: Its name.
        spec: Definition as JSON.
        data_version: Id of the data version.
        source: The table it reads.
        schemas: Column names and types of its tables.
        tables: Delta table ids of its tables.
        cursor: Source version up to which changes are captured.
        threshold: End of everything that was ever materialised.
        log: The dirty spans.
        extent_end: End of the bucket of the newest row, at the cursor; ``NEG_INF`` without rows.
        followed_end: End of the bucket of the newest row that retention counts from, if the capture saw rows past the clock;
            ``POS_INF`` if it saw none.
        last_n: Largest refresh number planned.
        written_n: Largest refresh number that both tables carry, by a commit of rows or by a fence.
        plan: The refresh that has not ended, or None.
        held: Spans of the open plan that the gate withholds.
        lease: The lease of the process that may write, or None.
        null_times: Rows with a null time at the cursor, when known.
        changes: (source version, changed rows or None when not counted) of each capture later than the oldest ``after`` of the log
            and the open plan.
        ended: The last refreshes, newest last.
        engine: State of an engine besides its results: origin of its grid, clock, watermark.
        engine_next: The changes to *engine* that the end of the open plan makes.
        delivered: Version of the output up to which the output handler received the changed rows.
        verdict: The gate's verdict on the open plan, as JSON; empty without one.
        policy: The refresh policy that started the open plan, or "".
        policy_runs: By policy, the (now, clock) of its newest run.
        checks: The last checks of the published rows, as JSON, newest last.
        lateness: Lateness of the rows inserted since the aggregate was defined.
        waits: Seconds between a commit of the source and its capture, newest last.
        maintained: Report of the last maintenance, as JSON with ``at`` and ``n``; empty before the first.
        builds: Id of the aggregate that this build is the next version of; "" for an aggregate.
        switch: Id of the build that the open plan publishes; "" for a refresh.
        is_closed: Whether a switch to this build is planned.
        previous: Previous versions that can be published again, newest first.
        canaries: Results of the canaries of this data version, as JSON; see :mod:`materializer.core.quality.canaries`.
        frozen: The frozen boundary: below it nothing is computed from raw rows again; ``NEG_INF`` when nothing is frozen.
        retired: The first retained edge. Our tables have no older buckets; for an engine only the output has none. ``NEG_INF``
            without retention.
        expired_rows: Raw rows that were deleted below the frozen boundary, as far as known; they made nothing dirty.
        table: Name of the output in a catalog; "" without one.
        table_problem: Why the output does not have the name that the definition asks for; "" if nothing went wrong.
        mark: What the source was at the cursor.
        written_by: Id of the plan by whose commits both tables carry *written_n*; "" where no plan wrote it, or none is known.
    """

    id: str
    name: str
    spec: Mapping[str, Any]
    data_version: str
    source: SourceIdentity
    schemas: Mapping[str, Any]
    tables: Mapping[str, str]
    cursor: int
    threshold: Instant = NEG_INF
    log: InvalidationLog = field(default_factory=InvalidationLog.everything)
    extent_end: Instant = NEG_INF
    followed_end: Instant = POS_INF
    last_n: int = 0
    written_n: int = 0
    plan: Plan | None = None
    held: SpanSet = field(default_factory=SpanSet)
    lease: Lease | None = None
    null_times: int | None = None
    changes: tuple[tuple[int, int | None], ...] = ()
    ended: tuple[Ended, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    engine_next: Mapping[str, Any] = field(default_factory=dict)
    delivered: int | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""
    policy_runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    checks: tuple[Mapping[str, Any], ...] = ()
    lateness: Lateness = field(default_factory=Lateness)
    waits: tuple[float, ...] = ()
    maintained: Mapping[str, Any] = field(default_factory=dict)
    builds: str = ""
    switch: str = ""
    is_closed: bool = False
    previous: tuple[Version, ...] = ()
    canaries: Mapping[str, Any] = field(default_factory=dict)
    frozen: Instant = NEG_INF
    retired: Instant = NEG_INF
    expired_rows: int = 0
    table: str = ""
    table_problem: str = ""
    mark: SourceMark = field(default_factory=SourceMark)
    written_by: str = ""

    @property
    def is_engine(self) -> bool:
        """Whether an engine computes the aggregate."""
        return bool(self.spec.get("engine", CONTINUOUS) != CONTINUOUS)

    @property
    def floor(self) -> int:
        """The edge below which no published row is computed from raw rows."""
        return max(self.frozen, self.retired)

    @property
    def discarded(self) -> int:
        """The edge below which both tables are empty and nothing is dirty.

        ``NEG_INF`` for an engine: it retains old partials, because later results are computed from them.
        """
        return NEG_INF if self.is_engine else self.retired

    @property
    def basis(self) -> AggregateState:
        """What a plan is made of: the state without the fields that planning does not read.

        A plan stays right while the basis is equal. A field that is added later belongs to the basis until it is named here.
        """
        return replace(
            self, lease=None, delivered=None, policy_runs={}, checks=(), maintained={}, table="", table_problem=""
        )

    def is_other_plan(self, plan: str) -> bool:
        """Return whether a table that carries *written_n* by *plan* has it from another history than this one."""
        return bool(plan and self.written_by) and plan != self.written_by

    @property
    def mend(self) -> str:
        """The command that repairs its tables, as a hint."""
        if self.builds:
            return f"run 'materializer abandon {self.name}' and apply the definition again: the next version is damaged"
        return f"run 'materializer repair {self.name}'"

    @property
    def computable(self) -> InvalidationLog:
        """The dirty spans that a refresh can compute: below the frozen boundary only what can be merged or discarded."""
        below, above = self.log.split(self.frozen)
        return InvalidationLog((*(e for e in below.entries if _is_computable(e)), *above.entries))

    @property
    def uncomputable(self) -> tuple[Entry, ...]:
        """The dirty spans below the frozen boundary that only a recompute could clean. They stay in the log."""
        return tuple(e for e in self.log.split(self.frozen)[0].entries if not _is_computable(e))

    def changed_rows(self, after: int) -> int | None:
        """Return how many rows changed in (*after*, cursor], or None if a capture did not count them."""
        counts = [rows for version, rows in self.changes if version > after]
        return None if None in counts else sum(rows or 0 for rows in counts)


States = Mapping[str, AggregateState]


_SPECS: Final[dict[int, tuple[Mapping[str, Any], AggregateSpec]]] = {}
"""Definitions by the identity of their JSON. The JSON is beside them, so that no other one gets this identity."""
MOST_SPECS: Final = 20_000
"""How many definitions are remembered."""


def spec_of(state: AggregateState) -> AggregateSpec:
    """Return the definition of an aggregate, which is read from JSON once."""
    known = _SPECS.get(id(state.spec))
    if known is None:
        if len(_SPECS) >= MOST_SPECS:
            _SPECS.clear()
        known = _SPECS[id(state.spec)] = state.spec, AggregateSpec.from_json(state.spec)
    return known[1]


def forget_specs() -> None:
    """Forget the definitions that were read, because the JSON of all aggregates is loaded anew, and is other objects then."""
    _SPECS.clear()


class NamedStates(Mapping[str, AggregateState], ABC):
    """Aggregates by id, which are also found by what is asked for, so that the others need not be read."""

    @abstractmethod
    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""

    @abstractmethod
    def mentioning(self, *texts: str) -> Iterator[AggregateState]:
        """Yield the aggregates whose events may have all of some texts, as JSON writes them; those of the newest events first."""


def by_name(states: States, name: str) -> AggregateState | None:
    """Return the living aggregate called *name* (case-insensitive), or None."""
    if isinstance(states, NamedStates):
        return states.find(name)
    return next((s for s in states.values() if s.name.lower() == name.lower()), None)


def _is_computable(entry: Entry) -> bool:
    return entry.is_mergeable or entry.cause is Cause.RETIRED
