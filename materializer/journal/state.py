"""Everything the journal knows of one aggregate, as a value; :mod:`materializer.journal.fold` makes it from events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from materializer.core.codec import json_fields
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.lateness import Lateness
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.spec.spec import CONTINUOUS
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Instant, Lease, SourceIdentity

Version = Mapping[str, Any]
"""One version: the fields of :data:`materializer.journal.version_fields.FIELDS`, in the form in which they stand in a snapshot of the state."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A refresh that ended, for people.

    Args:
        n: Refresh number.
        at: When it ended, ISO text.
        outcome: ``done``, ``aborted`` or ``switched``.
        window: What it refreshed.
        report: What it did; for an aborted one only the strategy it had planned.
        reason: Why it was aborted.
        verdict: What the gate found, as JSON; empty without one.
        policy: The refresh policy that it ran for, or "".
    """

    n: int
    at: str
    outcome: str
    window: Span
    report: RunReport
    reason: str = ""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""


LATER: Final = (
    *("verdict", "policy", "maintained", "builds", "switch", "is_closed", "canaries", "expired_rows", "followed_end"),
    *("frozen", "retired", "checks", "lateness", "waits", "previous", "policy_runs"),
)
"""Fields that snapshots of earlier versions do not have."""


@json_fields(
    order=(
        *(..., "expired_rows", "source", "threshold", "extent_end", "followed_end", "frozen", "retired", "log", "plan"),
        *("held", "lease", "changes", "checks", "lateness", "waits", "previous", "policy_runs", "ended"),
    ),
    later=LATER,
)
@dataclass(frozen=True, slots=True)
class AggregateState:
    """Everything the journal knows of one aggregate.

    Args:
        id: Unique for ever; a dropped and recreated aggregate has another.
        name: Its name.
        spec: Definition as JSON.
        data_version: Id of the partials' state.
        source: The table it reads.
        schemas: Column names and types of its tables.
        tables: Delta table ids of its tables.
        cursor: Source version up to which changes are captured.
        threshold: Nothing at or above it was ever materialised.
        log: What is dirty.
        extent_end: End of the bucket of the newest row, at the cursor; ``NEG_INF`` without rows.
        followed_end: End of the bucket of the newest row that retention follows, where rows lay past the clock when they
            were captured; ``POS_INF`` where none did.
        last_n: Largest refresh number planned.
        written_n: Largest refresh number that both tables carry, as data or as a fence.
        plan: The refresh that has not ended, or None.
        held: Spans of the open plan that a gate holds back.
        lease: Who may write, or None.
        null_times: Rows with a null time at the cursor, when known.
        changes: (source version, changed rows or None when not counted) of each capture that some ``after`` lies before.
        ended: The last refreshes, newest last.
        engine: What an engine remembers besides its results: origin of its grid, clock, watermark.
        engine_next: The same once the open plan is done.
        delivered: Version of the output up to which the output handler was given what changed.
        verdict: What the gate found of the open plan, as JSON; empty without one.
        policy: The refresh policy that the open plan runs for, or "".
        policy_runs: By policy, the (now, clock) of its newest run.
        checks: The last checks of what is published, as JSON, newest last.
        lateness: How late inserted rows were since the aggregate was defined.
        waits: For how many seconds the source's commits had waited when they were captured, newest last.
        maintained: What the last maintenance did, as JSON with ``at`` and ``n``; empty before the first.
        builds: Id of the aggregate whose next version this is; "" for an aggregate of its own.
        switch: Id of the build that the open plan publishes; "" when that is a refresh.
        is_closed: Whether a switch to this build was planned.
        previous: Versions that were published before and are kept, newest first.
        canaries: What canaries found of this version of the data, as JSON; see :mod:`materializer.core.quality.canaries`.
        frozen: Below it raw rows may be gone, and nothing is computed from them; ``NEG_INF`` when nothing is frozen.
        retired: Below it buckets are not kept in our tables, those of an engine not in the output; ``NEG_INF`` when all are.
        expired_rows: Raw rows that went below the frozen bound and counted for nothing, as far as known.
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

    @property
    def is_engine(self) -> bool:
        """Whether an engine computes it."""
        return bool(self.spec.get("engine", CONTINUOUS) != CONTINUOUS)

    @property
    def floor(self) -> int:
        """Below it nothing is computed from raw rows to be published."""
        return max(self.frozen, self.retired)

    @property
    def discarded(self) -> int:
        """Below it neither table keeps anything and nothing is dirty: on kept results of an engine later ones are built."""
        return NEG_INF if self.is_engine else self.retired

    @property
    def mend(self) -> str:
        """What mends its tables, as a hint."""
        if self.builds:
            return f"run 'materializer abandon {self.name}' and apply the definition again: the next version is damaged"
        return f"run 'materializer repair {self.name}'"

    @property
    def plannable(self) -> InvalidationLog:
        """What refreshes may take out of the log: below the frozen bound only what can be merged or discarded."""
        below, above = self.log.split(self.frozen)
        return InvalidationLog((*(e for e in below.entries if _is_plannable(e)), *above.entries))

    @property
    def stuck(self) -> tuple[Entry, ...]:
        """Dirt below the frozen bound that could only be recomputed: it is kept, shown and not planned."""
        return tuple(e for e in self.log.split(self.frozen)[0].entries if not _is_plannable(e))

    def changed_rows(self, after: int) -> int | None:
        """Return how many rows changed in (*after*, cursor], or None when some capture could not count them."""
        counts = [rows for version, rows in self.changes if version > after]
        return None if None in counts else sum(rows or 0 for rows in counts)


States = Mapping[str, AggregateState]


def by_name(states: States, name: str) -> AggregateState | None:
    """Return the living aggregate called *name* (case-insensitive), or None."""
    return next((s for s in states.values() if s.name.lower() == name.lower()), None)


def _is_plannable(entry: Entry) -> bool:
    return entry.is_mergeable or entry.cause is Cause.RETIRED
