"""Everything the journal knows of one aggregate, as a value; :mod:`materializer.journal.fold` makes it from events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.lateness import Lateness
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.spec.spec import CONTINUOUS
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Lease, SourceIdentity, instant_as_json, instant_from_json

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
        verdict: What the gate found of the open plan, as JSON; empty without one.
        policy: The refresh policy that the open plan runs for, or "".
        lease: Who may write, or None.
        null_times: Rows with a null time at the cursor, when known.
        changes: (source version, changed rows or None when not counted) of each capture that some ``after`` lies before.
        ended: The last refreshes, newest last.
        engine: What an engine remembers besides its results: origin of its grid, clock, watermark.
        engine_next: The same once the open plan is done.
        delivered: Version of the output up to which the output handler was given what changed.
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
    threshold: int = NEG_INF
    log: InvalidationLog = field(default_factory=InvalidationLog.everything)
    extent_end: int = NEG_INF
    followed_end: int = POS_INF
    last_n: int = 0
    written_n: int = 0
    plan: Plan | None = None
    held: SpanSet = field(default_factory=SpanSet)
    verdict: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""
    lease: Lease | None = None
    null_times: int | None = None
    changes: tuple[tuple[int, int | None], ...] = ()
    ended: tuple[Ended, ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    engine_next: Mapping[str, Any] = field(default_factory=dict)
    delivered: int | None = None
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
    frozen: int = NEG_INF
    retired: int = NEG_INF
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

    def as_json(self) -> dict[str, Any]:
        """Return the payload of a snapshot event."""
        data = {f: getattr(self, f) for f in _PLAIN}
        return data | {
            "source": asdict(self.source),
            "threshold": instant_as_json(self.threshold),
            "extent_end": instant_as_json(self.extent_end),
            "followed_end": instant_as_json(self.followed_end),
            "frozen": instant_as_json(self.frozen),
            "retired": instant_as_json(self.retired),
            "log": self.log.as_json(),
            "plan": self.plan and as_json(self.plan),
            "held": self.held.as_json(),
            "lease": self.lease and asdict(self.lease),
            "changes": [list(c) for c in self.changes],
            "checks": list(self.checks),
            "lateness": self.lateness.as_json(),
            "waits": list(self.waits),
            "previous": list(self.previous),
            "policy_runs": {policy: list(run) for policy, run in self.policy_runs.items()},
            "ended": [asdict(e) | {"window": e.window.as_json(), "report": asdict(e.report)} for e in self.ended],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AggregateState:
        """Return the state that :meth:`as_json` wrote."""
        ended = (
            Ended(**(e | {"window": Span.from_json(e["window"]), "report": RunReport(**e["report"])}))
            for e in data["ended"]
        )
        return cls(
            **{f: data[f] for f in _PLAIN if f in data or f not in _LATER},
            source=SourceIdentity(**data["source"]),
            threshold=instant_from_json(data["threshold"]),
            extent_end=instant_from_json(data["extent_end"]),
            followed_end=instant_from_json(data.get("followed_end", "inf")),
            frozen=instant_from_json(data.get("frozen", "-inf")),
            retired=instant_from_json(data.get("retired", "-inf")),
            log=InvalidationLog.from_json(data["log"]),
            plan=data["plan"] and from_json(Plan, data["plan"]),
            held=SpanSet.from_json(data["held"]),
            lease=data["lease"] and Lease(**data["lease"]),
            changes=tuple((version, rows) for version, rows in data["changes"]),
            ended=tuple(ended),
            checks=tuple(data.get("checks", ())),
            lateness=Lateness.from_json(data.get("lateness", {})),
            waits=tuple(data.get("waits", ())),
            previous=tuple(data.get("previous", ())),
            policy_runs={policy: (now, clock) for policy, (now, clock) in data.get("policy_runs", {}).items()},
        )


_PLAIN: Final = (
    "id",
    "name",
    "spec",
    "data_version",
    "schemas",
    "tables",
    "cursor",
    "last_n",
    "written_n",
    "null_times",
    "engine",
    "engine_next",
    "delivered",
    "verdict",
    "policy",
    "maintained",
    "builds",
    "switch",
    "is_closed",
    "canaries",
    "expired_rows",
)
_LATER: Final = tuple(_PLAIN[_PLAIN.index("verdict") :])
"""Fields that snapshots of earlier versions do not have."""

States = Mapping[str, AggregateState]


def by_name(states: States, name: str) -> AggregateState | None:
    """Return the living aggregate called *name* (case-insensitive), or None."""
    return next((s for s in states.values() if s.name.lower() == name.lower()), None)


def _is_plannable(entry: Entry) -> bool:
    return entry.is_mergeable or entry.cause is Cause.RETIRED
