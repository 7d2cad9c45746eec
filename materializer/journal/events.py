"""The events of the journal. Every event belongs to one aggregate or build; :mod:`materializer.journal.codec` stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Struct, field

from materializer.core.codec import JsonForm, json_fields
from materializer.core.refresh.invalidation import Entries, SourceMark
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
"""An instant; in JSON an infinite one is a word."""
_LATER: Final = ("followed_end", "mark", "table_id")


class SourceIdentity(Struct, frozen=True):
    """The table that a source name was resolved to when the definition was applied.

    Args:
        path: Its folder.
        table_id: Its Delta table id, which identifies the table.
        name: Its catalog name, when it is addressed by name.
    """

    path: str
    table_id: str
    name: str = ""


@json_fields(
    later=["boot", "namespace"], omits=["boot", "namespace"]
)  # earlier versions also named the process of Spark
class Lease(Struct, frozen=True):
    """The right of one process to write events of an aggregate.

    Args:
        owner: Unique id of this lease.
        host: Host name of the process.
        pid: Id of the process.
        started: When the process started (ticks since boot); it tells the process from a later one with the same pid.
        until: When the lease ends unless it is renewed, seconds since the epoch.
        boot: Id of the boot of the process's machine; "" where it cannot be read, and from earlier releases.
        namespace: The PID namespace of the process, which differs between containers; "" as for *boot*.
    """

    owner: str
    host: str
    pid: int
    started: int
    until: float
    boot: str = ""
    namespace: str = ""


class Defined(Struct, frozen=True):
    """An aggregate is created: everything is dirty, and changes are captured from *cursor*.

    Args:
        name: Unique among living aggregates.
        spec: The resolved definition, as JSON.
        data_version: Id of the data version; a changed definition gets a new one.
        source: The table that the source name was resolved to.
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


@json_fields(omits=["source"])
class Described(Struct, frozen=True):
    """The definition changed in its metadata only (comment, policies, the name of its source).

    Args:
        spec: The definition, as JSON.
        source: The same table under another name; None if its name is the same.
    """

    spec: Mapping[str, Any]
    source: SourceIdentity | None = None


@json_fields(later=())
class ParentSwitched(Struct, frozen=True):
    """The aggregate that a roll-up reads has other partials now: everything of the roll-up is dirty.

    Args:
        spec: The definition of the roll-up, with that of its parent as it is now, as JSON.
        source: The partials.
        cursor: Their version from which changes are captured.
    """

    spec: Mapping[str, Any]
    source: SourceIdentity
    cursor: int


@json_fields(later=())
class LeaseTaken(Struct, frozen=True):
    """A process took the lease."""

    lease: Lease


@json_fields(later=())  # earlier versions also named the process of Spark
class LeaseRenewed(Struct, frozen=True):
    """The process that has the lease is still working."""

    owner: str
    until: float


class LeaseReleased(Struct, frozen=True):
    """The process that had the lease gave it back."""

    owner: str


@json_fields(later=["reasons", "max_entries", "lateness", "waited", "expired", *_LATER], omits=_LATER)
class Captured(Struct, frozen=True):
    """Changes up to *version* were captured into the invalidation log.

    Args:
        version: The new cursor.
        entries: What the changes made dirty.
        extent_end: End of the bucket of the newest row at *version*; ``NEG_INF`` without rows.
        counts: For each version, or for many versions under the newest one: ``rung``, changed ``rows`` (None when they were not counted) and rows by kind.
        null_times: Rows with a null time in the source at *version*, when known.
        reasons: Why the capture used a coarser rung; empty when it did not.
        max_entries: Limit on the entries of the log; above it, entries are joined.
        lateness: Lateness of the inserted rows, as rows by step of :class:`materializer.core.refresh.lateness.Lateness`.
        waited: Seconds between the commit of the oldest version and this capture, when known.
        expired: Rows that were deleted below the frozen boundary, as far as known; they make nothing dirty.
        followed_end: End of the bucket of the newest row that retention counts from, if rows lie past the clock;
            ``POS_INF`` if none do.
        mark: What the source is at *version*; None if an earlier release captured it.
        table_id: The id of the source since it was replaced; "" if it was not.
    """

    version: int
    entries: Entries
    extent_end: Instant = NEG_INF
    counts: tuple[Mapping[str, Any], ...] = ()
    null_times: int | None = None
    reasons: tuple[str, ...] = ()
    max_entries: int = 1_000
    lateness: Mapping[str, int] = field(default_factory=dict)
    waited: float | None = None
    expired: int = 0
    followed_end: Instant = POS_INF
    mark: SourceMark | None = None
    table_id: str = ""


@json_fields(later=["is_of_source"], omits=["is_of_source"])
class Invalidated(Struct, frozen=True):
    """Spans were declared dirty by hand, or because a forced refresh computes them again, or because a column became wider.

    Args:
        entries: The spans.
        reason: Why, in words.
        is_of_source: Whether the reason says in which way the source is not what it was.
    """

    entries: Entries
    reason: str = ""
    is_of_source: bool = False


@json_fields(later=["settled"])
class Frozen(Struct, frozen=True):
    """Raw rows below *bound* may be deleted from here on; the results that were computed from them stay.

    Args:
        bound: The new frozen boundary, an edge of the grid; ``NEG_INF`` when nothing is frozen any more.
        reason: What moved it.
        settled: Dirty spans that become clean, because neither the source nor our tables can have rows there.
    """

    bound: Instant
    reason: str
    settled: SpanSet = field(default_factory=SpanSet)


@json_fields(later=())
class Retired(Struct, frozen=True):
    """The first retained edge moves to *bound*: up, and older buckets will be discarded; down, and they are computed again."""

    bound: Instant


@json_fields(later=())
class Planned(Struct, frozen=True):
    """A refresh was planned: before it writes, its spans leave the log and the threshold rises to *threshold*."""

    plan: Plan
    threshold: Instant
    options: Mapping[str, Any] = field(default_factory=dict)


@json_fields(later=())
class Audited(Struct, frozen=True):
    """The gate decided which rows of plan *n* are published. Recovery uses this verdict and does not audit again.

    Args:
        n: Number of the plan.
        held: Withheld spans; they return to the log when the plan ends.
        verdict: The gate's verdict.
    """

    n: int
    held: tuple[tuple[int, int], ...]
    verdict: Mapping[str, Any]


@json_fields(later=())
class Done(Struct, frozen=True):
    """Plan *n* ended: both tables carry it."""

    n: int
    report: RunReport


class Aborted(Struct, frozen=True):
    """Plan *n* was given up: no table will carry it, and its spans are dirty again."""

    n: int
    reason: str


class Delivered(Struct, frozen=True):
    """The output handler received all changed rows up to a version of the output."""

    version: int


class Registered(Struct, frozen=True):
    """The output has the name *table* in a catalog, or none if that is "".

    Args:
        table: The name.
        problem: Why the output does not have the name that its definition asks for; "" if it has.
    """

    table: str
    problem: str = ""


class PolicyRan(Struct, frozen=True):
    """A refresh policy did its work.

    Args:
        policy: Its name.
        now: The *now* of its window: microseconds since the epoch, or an integer of an integer time column.
        clock: The instant from which its schedule continues, microseconds since the epoch; *now* where that is an instant.
        is_by_clock: Whether the schedule triggered the run. Such a run may move the schedule backwards, which corrects a
            clock that had run ahead.
    """

    policy: str
    now: int
    clock: int
    is_by_clock: bool = False


class Checked(Struct, frozen=True):
    """The published rows were checked; *verdict* is the result, as JSON."""

    verdict: Mapping[str, Any]


class Repaired(Struct, frozen=True):
    """The aggregate was repaired: its tables are those named here, and both carry number *n*.

    Args:
        n: The number, which fences the writers of earlier plans.
        data_version: Id of the data version; a new one when the partials were created anew.
        tables: Delta table ids of ``partials`` and ``output``.
        reason: What was wrong, as text.
        is_everything_dirty: Whether the rows of the tables are unknown, so that everything is dirty; else the log still holds.
        threshold: With everything dirty: end of the newest bucket of which a table may have rows, None without rows.
        cursor: With everything dirty: source version from which changes are captured, None to leave it as it is.
        source: Path, table id and name of the new source, None when the source is the same.
    """

    n: int
    data_version: str
    tables: Mapping[str, str]
    reason: str
    is_everything_dirty: bool
    threshold: int | None = None
    cursor: int | None = None
    source: Mapping[str, str] | None = None


class Maintained(Struct, frozen=True):
    """The tables were maintained; *report* is the result, as JSON."""

    report: Mapping[str, Any]


class BuildStarted(Struct, frozen=True):
    """A build was begun beside an aggregate; it has its own events.

    Args:
        name: The name of aggregate and build.
        builds: Id of the aggregate.
        version: The fields that the build starts with; see :mod:`materializer.journal.version_fields`.
        n: Refresh number that both tables of the build carry.
    """

    name: str
    builds: str
    version: Mapping[str, Any]
    n: int


@json_fields(later=())
class SwitchPlanned(Struct, frozen=True):
    """A switch was planned: the output will get the rows of a build. Recovery looks for the plan's id in the output.

    Args:
        plan: The plan, made on the partials of the build and the output of the aggregate.
        build: Id of the build.
    """

    plan: Plan
    build: str


class BuildClosed(Struct, frozen=True):
    """A switch to the build was planned: the build loses its lease and does not change until the switch has ended."""


class BuildOpened(Struct, frozen=True):
    """The switch was given up; the build can be refreshed again."""


class Switched(Struct, frozen=True):
    """A switch ended: the output carries plan *n*, and the aggregate takes over the version of its build.

    Args:
        n: Number of the plan.
        version: The version of the build when it was closed.
        keep: How many previous versions stay, the replaced one included.
        report: What the switch did.
    """

    n: int
    version: Mapping[str, Any]
    keep: int
    report: RunReport


class Dropped(Struct, frozen=True):
    """The aggregate or the build was dropped."""


class Snapshot(Struct, frozen=True):
    """The folded state of the aggregate, which replaces all its earlier events."""

    state: Mapping[str, Any]


Event: TypeAlias = (
    Defined
    | Described
    | ParentSwitched
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
    | Registered
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
