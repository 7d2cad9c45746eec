"""Refresh policies: which there are, which are due, and running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from materializer.api.opened import OpenedLake
from materializer.core.refresh.plan import Plan
from materializer.core.time.instants import Instant
from materializer.services.definitions.changes import DefinitionChange
from materializer.services.each import each
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RunDone
from materializer.services.schedule.policies import PolicyReport, PolicyState, options
from materializer.spark.runtime.jvm import watched


@watched
class Scheduling(OpenedLake):
    """Changes and runs refresh policies."""

    def policies(self, name: str | None = None, now: Instant = None) -> list[PolicyState]:
        """Return the refresh policies of one aggregate or of all, as they stand at a time.

        Args:
            name: The aggregate; None for all.
            now: ISO text, or an integer for integer time; None takes the clock.
        """
        return self._policies.states(name, now)

    def add_policy(
        self,
        name: str,
        policy: str = "default",
        *,
        start_offset: Instant = None,
        end_offset: Instant = None,
        schedule: str | None = None,
        max_runs: int | None = None,
        order: Literal["newest", "oldest"] | None = None,
        catch_dirt: bool | None = None,
        max_staleness: Instant = None,
    ) -> DefinitionChange:
        """Add a refresh policy to an applied definition; nothing is computed again.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            start_offset: Where its window starts, back from now, such as ``"7 days"``; None or ``"none"`` is open.
            end_offset: Where its window ends, likewise.
            schedule: Five cron fields, in UTC.
            max_runs: Runs that it does at most each time; 0 for no limit.
            order: Which end of its window is done first.
            catch_dirt: Whether dirt that lies in no policy's window is taken along.
            max_staleness: What the definition promises from now on; ``"none"`` takes the promise back.

        Raises:
            PolicyExistsError: If the aggregate has a policy of that name.
            DefinitionError: If an offset, a schedule or the promise cannot be read or does not fit the others.
            UsageError: If nothing is given.
        """
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
        """Remove a refresh policy from an applied definition; what it refreshed stays.

        Args:
            name: The aggregate.
            policy: Name of the policy.

        Raises:
            UnknownPolicyError: If the aggregate has none of that name.
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
            now: ISO text; an integer for integer time, where it has to be given unless a resolution is declared.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UnknownPolicyError: If the aggregate has no policy of that name.
            PolicyNowError: If *now* cannot be read, or no clock can tell it.
            QualityGateError: As :meth:`refresh`, and whatever else that raises.
        """
        return self._policies.run(name, policy, now, on_plan=on_plan, on_run=on_run)

    def due(self, name: str | None = None, now: Instant = None) -> list[tuple[str, str]]:
        """Return (aggregate, policy) of every policy whose schedule came due since it ran; parents first.

        Args:
            name: The aggregate; None for all.
            now: As in :meth:`policies`.
        """
        return self._policies.due(name, now)

    def run_due(self, name: str | None = None, now: Instant = None) -> list[PolicyReport]:
        """Run every policy that is due; one that fails is due still, and does not stop the others.

        Args:
            name: The aggregate; None for all, parents first.
            now: As in :meth:`policies`.

        Raises:
            QualityGateError: As :meth:`run_policy`, and whatever else that raises; when all were run, the first of them.
        """
        return each("policies", self.due(name, now), lambda which: self.run_policy(*which, now))
