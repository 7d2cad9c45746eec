"""What can happen to an aggregate. Every event belongs to one aggregate; :mod:`materializer.journal.codec` stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from materializer.core.codec import JsonForm, json_fields
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import NEG_INF, POS_INF, SpanSet

_WORDS: Final = {NEG_INF: "-inf", POS_INF: "inf"}
_INSTANTS: Final = {word: instant for instant, word in _WORDS.items()}
Instant: TypeAlias = Annotated[
    int,
    JsonForm(
        lambda instant: _WORDS.get(instant, instant),
        lambda data: _INSTANTS[data] if isinstance(data, str) else data,
    ),
]
"""An instant, which is a word in JSON where it is infinite."""


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


@json_fields(later=())
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


@json_fields(later=["reasons", "max_entries", "lateness", "waited", "expired", "followed_end"], omits=["followed_end"])
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
    extent_end: Instant = NEG_INF
    counts: tuple[Mapping[str, Any], ...] = ()
    null_times: int | None = None
    reasons: tuple[str, ...] = ()
    max_entries: int = 1_000
    lateness: Mapping[str, int] = field(default_factory=dict)
    waited: float | None = None
    expired: int = 0
    followed_end: Instant = POS_INF


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class Invalidated:
    """Spans were declared dirty by hand, or clean buckets are refreshed by force."""

    entries: tuple[Entry, ...]
    reason: str = ""


@json_fields(later=["settled"])
@dataclass(frozen=True, slots=True)
class Frozen:
    """Raw rows below *bound* may go from here on: what was computed from them is kept.

    Args:
        bound: An edge of the grid; ``NEG_INF`` when nothing is frozen any more.
        reason: Who moved it.
        settled: Dirty spans in which neither the source nor our tables can have rows: they are clean now.
    """

    bound: Instant
    reason: str
    settled: SpanSet = field(default_factory=SpanSet)


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class Retired:
    """Buckets below *bound*, an edge of the grid, are to be taken out of our tables, or are wanted again above it."""

    bound: Instant


@json_fields(later=())
@dataclass(frozen=True, slots=True)
class Planned:
    """The plan's spans leave the log and the threshold rises to *threshold*, before anything is materialised."""

    plan: Plan
    threshold: Instant
    options: Mapping[str, Any] = field(default_factory=dict)


@json_fields(later=())
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


@json_fields(later=())
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


@json_fields(later=())
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
