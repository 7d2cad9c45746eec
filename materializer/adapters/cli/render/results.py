"""What commands show: the façade's results, with what is needed to show them (names, types of time)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from materializer.core.refresh.plan import Estimate, ReadCost
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, Span

if TYPE_CHECKING:
    from materializer.core.engines.guides import Guide
    from materializer.demo.prepare import Prepared
    from materializer.errors import Problem
    from materializer.journal.state import Ended
    from materializer.services.definitions.apply import Change
    from materializer.services.maintenance.expire import Expiry, Thaw
    from materializer.services.maintenance.maintain import MaintainReport
    from materializer.services.quality.check import CheckReport
    from materializer.services.quality.verify import VerifyReport
    from materializer.services.refresh.fresh import FreshRead
    from materializer.services.refresh.preview import Preview
    from materializer.services.refresh.reports import RefreshReport
    from materializer.services.repair.apply import RepairReport
    from materializer.services.repair.backup import BackupReport, RestoreReport
    from materializer.services.report.source_lateness import SourceLateness
    from materializer.services.report.status import Status
    from materializer.services.report.tables import Finding
    from materializer.services.schedule.policies import PolicyState
    from materializer.services.versions.build import BuildReport
    from materializer.services.versions.versions import SwitchReport


@dataclass(frozen=True, slots=True)
class Applied:
    """What ``apply`` did, or would do; *builds* are those of ``--build``."""

    changes: tuple[Change, ...]
    warnings: tuple[Problem, ...] = ()
    is_dry_run: bool = False
    builds: tuple[BuildReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """What ``build`` or ``rollback`` did to the next version of one aggregate."""

    report: BuildReport


@dataclass(frozen=True, slots=True)
class Published:
    """What ``switch`` did."""

    report: SwitchReport


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A next version that was given up."""

    name: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What ``plan`` found."""

    preview: Preview


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What ``refresh``, ``backfill`` or a *policy* at some *now* did to one aggregate."""

    report: RefreshReport
    time_type: TimeType
    policy: str | None = None
    now: str | int | None = None


@dataclass(frozen=True, slots=True)
class PolicyList:
    """Refresh policies, as they stand."""

    items: tuple[PolicyState, ...]


@dataclass(frozen=True, slots=True)
class Statuses:
    """How fresh aggregates are, and how late the rows of their sources come; *is_detailed* when one was asked for by name."""

    items: tuple[Status, ...]
    is_detailed: bool = False
    sources: tuple[SourceLateness, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The last refreshes of one aggregate, newest first."""

    name: str
    time_type: TimeType
    refreshes: tuple[Ended, ...]


@dataclass(frozen=True, slots=True)
class FreshCost:
    """What an always-fresh read computed on the fly: as planned, and as it was measured."""

    source_version: int
    strategy: str
    pieces: int
    estimate: Estimate
    planning: float
    measured: ReadCost

    @classmethod
    def of(cls, read: FreshRead, measured: ReadCost) -> FreshCost:
        """Return what *read* was to cost, and what fetching it did."""
        return cls(read.source_version, read.strategy, len(read.computed), read.estimate, read.seconds, measured)


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of one aggregate."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    fresh: FreshCost | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """What ``verify`` found in one aggregate."""

    report: VerifyReport
    time_type: TimeType


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """What refreshes changed in an output: the first rows of *total*."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """What ``check`` found in what one aggregate publishes."""

    report: CheckReport
    time_type: TimeType


@dataclass(frozen=True, slots=True)
class Invalidated:
    """What was declared dirty."""

    name: str
    time_type: TimeType
    span: Span
    reason: str


@dataclass(frozen=True, slots=True)
class Maintained:
    """What ``maintain`` found in one aggregate or the journal, and did."""

    report: MaintainReport


@dataclass(frozen=True, slots=True)
class Expired:
    """What ``expire`` did, or would do."""

    expiry: Expiry


@dataclass(frozen=True, slots=True)
class Thawed:
    """What ``thaw`` did, or would do."""

    thaw: Thaw


@dataclass(frozen=True, slots=True)
class Dropped:
    """An aggregate that is gone, with those that read it, which went before it."""

    name: str
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """What ``doctor`` found."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Repaired:
    """What ``repair`` found and did, or would do."""

    report: RepairReport


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What ``backup`` copied."""

    report: BackupReport


@dataclass(frozen=True, slots=True)
class Restored:
    """What ``restore`` did, or would do."""

    report: RestoreReport


@dataclass(frozen=True, slots=True)
class SetUp:
    """What ``setup`` fetched and made."""

    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Versions:
    """What is installed, by name."""

    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Engines:
    """Guides to engines; *is_detailed* when one was asked for by name."""

    guides: tuple[Guide, ...]
    is_detailed: bool = False


Result: TypeAlias = (
    Applied
    | Built
    | Published
    | Abandoned
    | Planned
    | Refreshed
    | PolicyList
    | Statuses
    | History
    | Shown
    | ChangedRows
    | Verified
    | CheckedRows
    | Invalidated
    | Maintained
    | Expired
    | Thawed
    | Dropped
    | Examined
    | Repaired
    | BackedUp
    | Restored
    | SetUp
    | Versions
    | Engines
)


def is_idle(result: Result) -> bool:
    """Return whether *result* says that nothing was to do."""
    match result:
        case Applied(changes=changes):
            return all(c.kind == "unchanged" and not c.next for c in changes)
        case Planned(preview=preview):
            return preview.plan is None and preview.unfinished is None
        case Refreshed(report=report):
            return not report.runs and not report.recovered
        case Repaired(report=repair):
            return repair.outcome == "sound"
        case BackedUp() | Restored():
            return False
        case Maintained(report=report):
            return not report.has_work
        case SetUp(prepared=prepared):
            return not prepared.is_new
        case Built(report=report):
            return not report.runs and report.switched is None
        case Published() | Abandoned():
            return False
        case Statuses() | History() | Shown() | Verified() | CheckedRows() | Invalidated() | Dropped():
            return False
        case Expired(expiry=expiry):
            return expiry.bound <= expiry.was
        case Thawed(thaw=thaw):
            return thaw.was == NEG_INF
        case ChangedRows() | Examined() | PolicyList() | Versions() | Engines():
            return False
        case _:
            assert_never(result)
