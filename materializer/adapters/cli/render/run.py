"""``run``: a line for each refresh, and for what is tried again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urljoin

from materializer.adapters.cli.render.result import Result, spans_form
from materializer.adapters.cli.words import count, duration, spans, wrapped

if TYPE_CHECKING:
    from materializer.core.time.instants import Shown
    from materializer.services.schedule.following import Failed, Followed


FEW: Final = 5
"""Aggregates without a policy that are named."""


class FollowingResult(Result, frozen=True):
    """What is followed from now on, and what has no policy and is left alone."""

    is_line: ClassVar[bool] = True
    followed: Sequence[str]
    others: Sequence[str]
    page: str | None = None

    def form(self) -> dict[str, Any]:
        return {
            "at": _now(),
            "follows": list(self.followed),
            "without_policy": list(self.others),
            "page": self.page,
            "probes": self._probes(),
        }

    def _probes(self) -> list[str]:
        """The addresses that programs ask, which have no token."""
        return [] if self.page is None else [urljoin(self.page, path) for path in ("/metrics", "/healthz")]

    def lines(self, width: int) -> Iterator[str]:
        yield f"follows {count(len(self.followed), 'aggregate')}, until Ctrl-C"
        if self.page is not None:
            yield f"  page: {self.page}"
            yield f"  for programs: {', '.join(self._probes())}"
        if self.others:
            text = f"{', '.join(self.others[:FEW])}{' and others' * (len(self.others) > FEW)}"
            hint = "'materializer policy add NAME' adds a policy, also while this runs"
            yield from wrapped(f"{text}; {hint}", "  without a policy: ", width=width)


class FollowedResult(Result, frozen=True):
    """A refresh of a policy."""

    is_line: ClassVar[bool] = True
    followed: Followed
    time_type: Shown

    def form(self) -> dict[str, Any]:
        report = self.followed.done.report
        return {
            "at": _now(),
            "name": report.name,
            "policy": self.followed.done.policy,
            "strategies": [run.report.strategy for run in report.runs],
            "source_version": report.source_version,
            "rows_read": self._sum("rows_read"),
            "rows_written": self._sum("rows_written"),
            "buckets": self._sum("buckets"),
            "left": spans_form(report.left, self.time_type),
            "warnings": list(report.warnings),
            "seconds": report.seconds,
            "lag_seconds": self.followed.lag,
        }

    def lines(self, width: int) -> Iterator[str]:
        report = self.followed.done.report
        withheld, left = report.withheld, report.left - report.withheld
        how = "+".join(dict.fromkeys(run.report.strategy for run in report.runs))
        text = (
            f"{how}, read {count(self._sum('rows_read'), 'row')}, wrote {count(self._sum('buckets'), 'bucket')}, "
            f"true{' except in what its gate withholds,' if withheld else ''} at source version {report.source_version}, {duration(report.seconds)}"
        )
        rest = f"; withheld: {spans(withheld, self.time_type)}" if withheld else ""
        rest += f"; stays dirty: {spans(left, self.time_type)}" if left else ""
        yield from wrapped(f"{text}{rest}", f"{_now()} {report.name}: ", width=width)
        for warning in report.warnings:
            yield from wrapped(warning, "  warning: ", width=width)

    def _sum(self, of: str) -> int:
        return sum(getattr(run.report, of) or 0 for run in self.followed.done.report.runs)


class AgainResult(Result, frozen=True):
    """When something is tried again that failed."""

    is_line: ClassVar[bool] = True
    failed: Failed

    def form(self) -> dict[str, Any]:
        error = self.failed.error
        return {
            "at": _now(),
            "name": self.failed.aggregate,
            "failed": error.code,
            "again_in_seconds": self.failed.again,
        }

    def lines(self, width: int) -> Iterator[str]:
        what, again = self.failed.aggregate or "the journal", self.failed.again
        then = "when its source or its definition changes" if again is None else f"in {duration(again)}"
        yield from wrapped(f"failed, and is tried again {then}", f"{_now()} {what}: ", width=width)


class EndedResult(Result, frozen=True):
    """What was done until a signal ended it: its seconds, refreshes, failures, and the aggregates whose lease it still has.

    *leases* is None where the journal could not be read to see.
    """

    is_line: ClassVar[bool] = True
    seconds: float
    refreshes: int
    failures: int
    leases: Sequence[str] | None

    def form(self) -> dict[str, Any]:
        return {
            "at": _now(),
            "ended_after_seconds": round(self.seconds, 3),
            "refreshes": self.refreshes,
            "failures": self.failures,
            "leases": None if self.leases is None else list(self.leases),
        }

    def lines(self, width: int) -> Iterator[str]:
        text = "all leases are given back"
        if self.leases is None:
            text = "the journal cannot be read, so a lease may be left; the next command takes it over"
        elif self.leases:
            text = f"the lease of {', '.join(self.leases)} is left; the next command takes it over"
        done = f"{count(self.refreshes, 'refresh', 'refreshes')}, {self.failures:,} failed"
        yield from wrapped(f"ended after {duration(self.seconds)}: {done}; {text}", f"{_now()} ", width=width)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
