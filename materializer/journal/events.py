"""What can happen to an aggregate, as rows of the journal.

Every event belongs to one aggregate. A row is (format, aggregate id, kind, time of the commit as text, payload as JSON).
An unknown kind or a newer format is an error, never skipped: a journal that is half understood is not understood.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias, assert_never

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import NEG_INF, POS_INF, SpanSet
from materializer.errors import JournalError, JournalVersionError

FORMAT: Final = 1
UNREADABLE: Final = "unreadable"
"""Kind of the row that stands for a file of one aggregate's events that cannot be read; its payload says why."""


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """The table that a source name was resolved to when the definition was applied.

    Args:
        path: Where it lies.
        table_id: Its Delta table id; another id is another table.
        name: The catalog name, when it has to be addressed by name.
    """

    path: str
    table_id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may write events of an aggregate.

    Args:
        owner: Unique to one holder.
        host: Its host name.
        pid: Its process.
        started: When that process started (ticks since boot), so that a reused pid is not mistaken for it.
        until: When the lease ends unless renewed, seconds since the epoch.
        jvm_pid: The Spark driver's process, which may outlive Python, or 0.
        jvm_started: Likewise.
    """

    owner: str
    host: str
    pid: int
    started: int
    until: float
    jvm_pid: int = 0
    jvm_started: int = 0


@dataclass(frozen=True, slots=True)
class Defined:
    """An aggregate exists from here on: everything is dirty, changes count from *cursor*.

    Args:
        name: Unique among living aggregates.
        spec: The resolved definition, as JSON.
        data_version: Id of this state of the partials; a changed definition gets a new one.
        source: What the source was resolved to.
        cursor: Source version from which changes are captured.
        schemas: Column names and Spark types of ``partials`` and ``output``.
        tables: Delta table ids of ``partials`` and ``output``.
    """

    name: str
    spec: Mapping[str, Any]
    data_version: str
    source: SourceIdentity
    cursor: int
    schemas: Mapping[str, Any]
    tables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Described:
    """The definition changed in its metadata only (comment, policies)."""

    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """A process may write from here on."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The holder is still working."""

    owner: str
    until: float
    jvm_pid: int = 0
    jvm_started: int = 0


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """The holder is done."""

    owner: str


@dataclass(frozen=True, slots=True)
class Captured:
    """Changes up to *version* are in the log.

    Args:
        version: The new cursor.
        entries: What they made dirty.
        extent_end: End of the bucket of the newest row at *version*; ``NEG_INF`` when there are no rows.
        counts: For each version: ``rung``, changed ``rows`` (None when nobody counted) and rows by kind.
        null_times: Rows with a null time in the source at *version*, when known.
        reasons: Why a coarser rung was taken, where it was.
        max_entries: More entries of the log than this are joined.
        lateness: How late the inserted rows were: rows by step of :class:`materializer.core.refresh.lateness.Lateness`.
        waited: Seconds that the oldest of the versions had waited to be captured, when known.
        expired: Rows that went below the frozen bound and count for nothing, as far as known.
        followed_end: End of the bucket of the newest row that retention follows, where rows lie past the clock;
            ``POS_INF`` where none do.
    """

    version: int
    entries: tuple[Entry, ...]
    extent_end: int = NEG_INF
    counts: tuple[Mapping[str, Any], ...] = ()
    null_times: int | None = None
    reasons: tuple[str, ...] = ()
    max_entries: int = 1_000
    lateness: Mapping[str, int] = field(default_factory=dict)
    waited: float | None = None
    expired: int = 0
    followed_end: int = POS_INF


@dataclass(frozen=True, slots=True)
class Invalidated:
    """Spans were declared dirty by hand, or clean buckets are refreshed by force."""

    entries: tuple[Entry, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Raw rows below *bound* may go from here on: what was computed from them is kept.

    Args:
        bound: An edge of the grid; ``NEG_INF`` when nothing is frozen any more.
        reason: Who moved it.
        settled: Dirty spans in which neither the source nor our tables can have rows: they are clean now.
    """

    bound: int
    reason: str
    settled: SpanSet = field(default_factory=SpanSet)


@dataclass(frozen=True, slots=True)
class Retired:
    """Buckets below *bound*, an edge of the grid, are to be taken out of our tables, or are wanted again above it."""

    bound: int


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan's spans leave the log and the threshold rises to *threshold*, before anything is materialised."""

    plan: Plan
    threshold: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audited:
    """A gate has decided what of plan *n* is published; recovery repeats the verdict, never the audit.

    Args:
        n: The plan.
        held: Spans that are not published; they go back to the log when the plan ends.
        verdict: What the gate found.
    """

    n: int
    held: tuple[tuple[int, int], ...]
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """Both tables carry plan *n*."""

    n: int
    report: RunReport


@dataclass(frozen=True, slots=True)
class Aborted:
    """Plan *n* will never be in a table; its spans are dirty again."""

    n: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The output handler was given what changed up to a version of the output."""

    version: int


@dataclass(frozen=True, slots=True)
class PolicyRan:
    """A refresh policy has done what was to do.

    Args:
        policy: Its name.
        now: What its window was computed from: microseconds since the epoch, or a plain integer.
        clock: By which instant its schedule goes on, microseconds since the epoch; *now* where that is one.
        is_by_clock: Whether the clock said so, and nobody who asked: its schedule goes on from there even when it was
            further on, by a clock that was wrong.
    """

    policy: str
    now: int
    clock: int
    is_by_clock: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """What is published was checked; *verdict* is what was found, as JSON."""

    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Repaired:
    """Both tables are as told from here on, and carry number *n*.

    Args:
        n: The number; every writer of an earlier plan is fenced by it.
        data_version: Id of the partials' state; a new one when the partials had to be made anew.
        tables: Delta table ids of ``partials`` and ``output``.
        reason: What was wrong, in words.
        is_everything_dirty: Whether nothing is known of what the tables hold; else they are what the log says.
        threshold: With everything dirty: end of the newest bucket that either table may hold rows of, None without any.
        cursor: With everything dirty: source version from which changes count, None to leave it.
        source: Path, table id and name of the source, when it is another table from here on.
    """

    n: int
    data_version: str
    tables: Mapping[str, str]
    reason: str
    is_everything_dirty: bool
    threshold: int | None = None
    cursor: int | None = None
    source: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """The tables were maintained; *report* is what was done, as JSON."""

    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BuildStarted:
    """A version of another aggregate is built beside it from here on, in a stream of its own.

    Args:
        name: The name of both.
        builds: Id of the aggregate.
        version: What it starts from; see :mod:`materializer.journal.version_fields`.
        n: Refresh number that both of its tables carry.
    """

    name: str
    builds: str
    version: Mapping[str, Any]
    n: int


@dataclass(frozen=True, slots=True)
class SwitchPlanned:
    """The output is about to get the rows of a build; recovery looks for the plan's id there.

    Args:
        plan: Its number, and the tables it was made on: the partials of the build, the output of the aggregate.
        build: Id of the build.
    """

    plan: Plan
    build: str


@dataclass(frozen=True, slots=True)
class BuildClosed:
    """A switch to the build was planned: nobody changes it until that has ended, and whoever held it has lost it."""


@dataclass(frozen=True, slots=True)
class BuildOpened:
    """The switch came to nothing; the build goes on."""


@dataclass(frozen=True, slots=True)
class Switched:
    """The output carries plan *n*: the aggregate is what its build was; the old version is kept, or not.

    Args:
        n: The plan.
        version: The build when it was closed.
        keep: How many previous versions are kept, the old one included.
        report: What it did.
    """

    n: int
    version: Mapping[str, Any]
    keep: int
    report: RunReport


@dataclass(frozen=True, slots=True)
class Dropped:
    """The aggregate is gone, or the build."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The folded state of the aggregate; stands instead of all its earlier events."""

    state: Mapping[str, Any]


Event: TypeAlias = (
    Defined
    | Described
    | LeaseTaken
    | LeaseRenewed
    | LeaseReleased
    | Captured
    | Invalidated
    | Frozen
    | Retired
    | Planned
    | Audited
    | Done
    | Aborted
    | Delivered
    | PolicyRan
    | Checked
    | Repaired
    | Maintained
    | BuildStarted
    | SwitchPlanned
    | BuildClosed
    | BuildOpened
    | Switched
    | Dropped
    | Snapshot
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the journal table."""

    aggregate: str
    kind: str
    at: str
    payload: str
    format: int = FORMAT


KINDS: Final[dict[str, type]] = {
    "defined": Defined,
    "described": Described,
    "lease_taken": LeaseTaken,
    "lease_renewed": LeaseRenewed,
    "lease_released": LeaseReleased,
    "captured": Captured,
    "invalidated": Invalidated,
    "frozen": Frozen,
    "retired": Retired,
    "planned": Planned,
    "audited": Audited,
    "done": Done,
    "aborted": Aborted,
    "delivered": Delivered,
    "policy_ran": PolicyRan,
    "checked": Checked,
    "repaired": Repaired,
    "maintained": Maintained,
    "build_started": BuildStarted,
    "switch_planned": SwitchPlanned,
    "build_closed": BuildClosed,
    "build_opened": BuildOpened,
    "switched": Switched,
    "dropped": Dropped,
    "snapshot": Snapshot,
}
_NAMES: Final = {cls: kind for kind, cls in KINDS.items()}


def encode(aggregate: str, event: Event, *, at: str) -> Row:
    """Return the journal row of *event*.

    Args:
        aggregate: Id of the aggregate.
        event: What happened.
        at: Time of the commit as ISO text; shown to people, never used for a decision.
    """
    return Row(aggregate, _NAMES[type(event)], at, json.dumps(_payload(event), separators=(",", ":")))


def decode(row: Row) -> Event:
    """Return the event of a journal row.

    Raises:
        JournalVersionError: If the row has a newer format or an unknown kind.
        JournalError: If the payload does not fit its kind.
    """
    if row.kind == UNREADABLE:
        raise JournalError(row.payload, hint="")
    if row.format > FORMAT or row.kind not in KINDS:
        raise JournalVersionError(
            f"the journal holds a {row.kind!r} event of format {row.format}; this version knows format {FORMAT}",
            hint="use the materializer version that wrote it, or a newer one",
        )
    try:
        return _event(row.kind, json.loads(row.payload))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
        raise JournalError(
            f"the journal holds a {row.kind!r} event of {row.aggregate} that cannot be read: {exc}",
            hint="'materializer repair NAME' declares everything of it dirty; or restore the journal",
        ) from exc


def _payload(event: Event) -> dict[str, Any]:
    match event:
        case Captured():
            return {
                "version": event.version,
                "entries": [as_json(e) for e in event.entries],
                "extent_end": _instant(event.extent_end),
                "counts": list(event.counts),
                "null_times": event.null_times,
                "reasons": list(event.reasons),
                "max_entries": event.max_entries,
                "lateness": dict(event.lateness),
                "waited": event.waited,
                "expired": event.expired,
                **({} if event.followed_end == POS_INF else {"followed_end": _instant(event.followed_end)}),
            }
        case Invalidated():
            return {"entries": [as_json(e) for e in event.entries], "reason": event.reason}
        case Frozen():
            return {
                "bound": _instant(event.bound),
                "reason": event.reason,
                "settled": event.settled.as_json(),
            }
        case Retired():
            return {"bound": _instant(event.bound)}
        case Planned():
            return {
                "plan": as_json(event.plan),
                "threshold": _instant(event.threshold),
                "options": dict(event.options),
            }
        case SwitchPlanned():
            return {"plan": as_json(event.plan), "build": event.build}
        case (
            Defined()
            | Described()
            | LeaseTaken()
            | LeaseRenewed()
            | LeaseReleased()
            | Audited()
            | Done()
            | Aborted()
            | Delivered()
            | PolicyRan()
            | Checked()
            | Repaired()
            | Maintained()
            | BuildStarted()
            | BuildClosed()
            | BuildOpened()
            | Switched()
            | Dropped()
            | Snapshot()
        ):
            return asdict(event)
        case _:
            assert_never(event)


def _event(kind: str, data: dict[str, Any]) -> Event:
    match kind:
        case "defined":
            return Defined(**(data | {"source": SourceIdentity(**data["source"])}))
        case "lease_taken":
            return LeaseTaken(Lease(**data["lease"]))
        case "captured":
            entries = tuple(from_json(Entry, e) for e in data["entries"])
            end = instant_from_json(data["extent_end"])
            reasons = tuple(data.get("reasons", ()))
            later = {k: data[k] for k in ("max_entries", "lateness", "waited", "expired") if k in data}
            followed = instant_from_json(data.get("followed_end", "inf"))
            counts, null_times = tuple(data["counts"]), data["null_times"]
            return Captured(data["version"], entries, end, counts, null_times, reasons, followed_end=followed, **later)
        case "invalidated":
            return Invalidated(tuple(from_json(Entry, e) for e in data["entries"]), data["reason"])
        case "frozen":
            settled = SpanSet.from_json(data.get("settled", []))
            return Frozen(instant_from_json(data["bound"]), data["reason"], settled)
        case "retired":
            return Retired(instant_from_json(data["bound"]))
        case "planned":
            return Planned(from_json(Plan, data["plan"]), instant_from_json(data["threshold"]), data["options"])
        case "audited":
            return Audited(data["n"], tuple((a, b) for a, b in data["held"]), data["verdict"])
        case "done":
            return Done(data["n"], RunReport(**data["report"]))
        case "switch_planned":
            return SwitchPlanned(from_json(Plan, data["plan"]), data["build"])
        case "switched":
            return Switched(**(data | {"report": RunReport(**data["report"])}))
        case _:
            event: Event = KINDS[kind](**data)
            return event


def _instant(value: int) -> int | str:
    return {NEG_INF: "-inf", POS_INF: "inf"}.get(value, value)


def instant_from_json(value: int | str) -> int:
    """Return the instant that stands in a payload, where infinite ones are words."""
    return {"-inf": NEG_INF, "inf": POS_INF}[value] if isinstance(value, str) else value


def instant_as_json(value: int) -> int | str:
    """Return the JSON form of an instant, infinite ones as words."""
    return _instant(value)
