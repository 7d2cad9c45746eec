"""Refresh policies: their states, changes and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from materializer.api.opened import OpenedLake
from materializer.errors import MaterializerError, SparkDiedError
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from threading import Event

    from materializer.core.printed import PrintedList
    from materializer.core.refresh.plan import Plan
    from materializer.core.time.instants import Instant
    from materializer.services.definitions.changes import DefinitionChange
    from materializer.services.protocol.decision import RunNote
    from materializer.services.refresh.reports import RunDone
    from materializer.services.report.page.ports import ReportServer
    from materializer.services.schedule.following import Failed, Followed
    from materializer.services.schedule.health import Health
    from materializer.services.schedule.policies import PolicyReport, PolicyState


@watched
class Scheduling(OpenedLake):
    """Changes and runs refresh policies."""

    def policies(self, name: str | None = None, now: Instant = None) -> PrintedList[PolicyState]:
        """Return the states of the refresh policies of one aggregate or of all, at a time; a list, which prints as a table.

        Args:
            name: The aggregate; None for all.
            now: ISO text, a ``datetime`` or a ``date``, or an integer for integer time; None for the clock.
        """
        from materializer.services.schedule.policies import listed

        return listed(self._policies.states(name, now))

    def add_policy(
        self,
        name: str,
        policy: str = "default",
        *,
        start_offset: str | int | None = None,
        end_offset: str | int | None = None,
        schedule: str | None = None,
        max_runs: int | None = None,
        order: Literal["newest", "oldest"] | None = None,
        catch_dirt: bool | None = None,
        max_staleness: str | int | None = None,
    ) -> DefinitionChange:
        """Add a refresh policy to an applied definition; no bucket is computed.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            start_offset: Distance from *now* back to the start of its window, such as ``"7 days"``; None or ``"none"`` is open.
            end_offset: Distance from *now* back to the end of its window; None or ``"none"`` is open.
            schedule: Five cron fields, in UTC.
            max_runs: Maximum number of refreshes of one run of the policy; 0 for no limit.
            order: The end of its window to start from.
            catch_dirt: Whether dirty buckets in no policy's window are refreshed, too.
            max_staleness: The new promise of the definition; ``"none"`` removes the promise.

        Raises:
            PolicyExistsError: If the aggregate has a policy of that name.
            DefinitionError: If an offset, a schedule or the promise cannot be read or does not fit the others.
            UsageError: If nothing is given.
        """
        from materializer.services.schedule.policies import options

        given = options(
            start_offset=start_offset,
            end_offset=end_offset,
            schedule=schedule,
            max_runs=max_runs,
            order=order,
            catch_dirt=catch_dirt,
        )
        promise = None if max_staleness is None else str(max_staleness)
        return self._policies.add(name, policy, given, max_staleness=promise)

    def remove_policy(self, name: str, policy: str = "default") -> DefinitionChange:
        """Remove a refresh policy from an applied definition; refreshed buckets stay.

        Args:
            name: The aggregate.
            policy: Name of the policy.

        Raises:
            UnknownPolicyError: If the aggregate has no policy of that name.
        """
        return self._policies.remove(name, policy)

    def run_policy(
        self,
        name: str,
        policy: str = "default",
        now: Instant = None,
        *,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> PolicyReport:
        """Refresh the window that a policy has at *now*; the same *now* gives the same window again.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            now: ISO text, a ``datetime`` or a ``date``; for integer time an integer, which is required unless the definition has a resolution.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            UnknownPolicyError: If the aggregate has no policy of that name.
            PolicyNowError: If *now* cannot be read, or is required.
            QualityGateError: As :meth:`refresh`, which may raise other errors, too.
        """
        return self._policies.run(name, policy, now, on_plan=on_plan, on_run=on_run)

    def follow(self, name: str | None = None, *, every: float = 5.0, stop: Event) -> Iterator[Followed | Failed]:
        """Follow the sources of all policies, refresh what came due or became dirty, and yield what was done and what failed.

        A policy with a schedule runs when it is due; one without runs when its source has a new version, or its window has dirty
        buckets. What fails is tried again, at first after *every* seconds and ever later, up to five minutes.

        Args:
            name: Only this aggregate; None for all.
            every: Seconds between two looks.
            stop: Ends it, once the refresh that runs has ended.
        """
        from materializer.services.schedule.following import Follower

        def failed(error: MaterializerError) -> None:
            if isinstance(error, SparkDiedError):
                self._executor.start_again()

        return Follower(self._lake, self._policies, every, failed, self._health).follow(name, stop)

    def follow_server(self, port: int = 0) -> ReportServer:
        """Return a server of the report page, as :meth:`report_server` does, which also answers programs about :meth:`follow`.

        ``/healthz`` is 200, or 503 with the reasons; ``/metrics`` has what refreshes did since the server was made, for
        Prometheus. Both need no token and have no rows.

        Args:
            port: The port; 0 for a free one.

        Raises:
            UsageError: If the port is taken or not allowed.
        """
        from materializer.wiring import follow_server

        return follow_server(self._lake, self._health, port)

    @cached_property
    def _health(self) -> Health:
        from materializer.services.schedule.health import Health

        return Health()

    def due(self, name: str | None = None, now: Instant = None) -> list[tuple[str, str]]:
        """Return (aggregate, policy) of every policy whose schedule was due since its last run, parents first.

        Args:
            name: The aggregate; None for all.
            now: As in :meth:`policies`.
        """
        return self._policies.due(name, now)

    def run_due(self, name: str | None = None, now: Instant = None) -> list[PolicyReport]:
        """Run every due policy; a policy that fails stays due and does not stop the others.

        Args:
            name: The aggregate; None for all, parents first.
            now: As in :meth:`policies`.

        Raises:
            QualityGateError: As :meth:`run_policy`, which may raise other errors, too; the first error is raised after all ran.
        """
        from materializer.services.each import each

        wanted = self.due(name, now)
        with self.journal.listed_once(), self._lake.together([name for name, _ in wanted]):
            return each("policies", wanted, lambda which: self.run_policy(*which, now))
