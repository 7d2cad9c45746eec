"""Verification and checks of published rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from materializer.api.opened import OpenedLake
from materializer.errors import UsageError
from materializer.lake import places
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.core.time.instants import Instant
    from materializer.services.quality.check import CheckReport
    from materializer.services.quality.verify import VerifyReport
    from materializer.services.report.diff import DiffReport


@watched
class Checking(OpenedLake):
    """Compares and checks published rows."""

    def verify(self, name: str, start: Instant = None, end: Instant = None) -> VerifyReport:
        """Compare the clean buckets of a window with plain Spark at the version they reflect.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.

        Returns:
            What was compared and what differs; a difference raises no error.

        Raises:
            RetryableError: If another version of the definition was published meanwhile.
        """
        from materializer.services.quality.verify import Verifier

        verifier = Verifier(self._lake.root, self.journal, self._lake.engine, self._lake.observation)
        return verifier.verify(name, self._part(name, start, end))

    def diff(
        self,
        name: str,
        against: OpenedLake | str | Path,
        start: Instant = None,
        end: Instant = None,
        *,
        limit: int = 10,
    ) -> DiffReport:
        """Compare the published rows of an aggregate with those of another lake, where both are clean; without a JVM.

        Args:
            name: The aggregate, in both lakes.
            against: The other lake, opened, or its root.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            limit: How many differing groups are returned at most.

        Returns:
            What was compared and what differs; a difference raises no error.

        Raises:
            IncomparableError: If nothing can be compared: other buckets or keys, nothing materialised, no such aggregate there.
            DiffTooLargeError: If this process cannot hold the rows.
            RetryableError: If one of both was refreshed meanwhile.
            UsageError: If both lakes have other settings of stores, of which a process has one.
        """
        from materializer.services.report.diff import diff

        other = against if isinstance(against, OpenedLake) else self._beside(against)
        if self.config.storage != other.config.storage:
            msg = "the two lakes have other settings of [storage], and a process has one"
            raise UsageError(msg, hint="give both the same, or copy one of the outputs with 'materializer export'")
        ours, theirs = ((str(lake.root), lake.journal) for lake in (self, other))
        window = self._part(name, start, end)
        return diff(ours, theirs, name, window, limit=limit, most=self.config.read_bytes // 2)

    def check(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        suite: str | Path | None = None,
        docs: str | Path | None = None,
    ) -> CheckReport:
        """Check the published rows of an aggregate with its suite; the journal stores the verdict.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            suite: Place of another suite than that of the definition.
            docs: Folder of this machine for Data Docs (HTML); they need Great Expectations.

        Returns:
            The verdict; expectations that are not met raise no error.

        Raises:
            UsageError: If *suite* cannot be read, or if *docs* is a URL or given without any suite.
            DefinitionError: With every problem of *suite*.
            QualityLibraryMissingError: If Great Expectations is needed and not installed.
        """
        from materializer.services.quality.check import Checker

        lake = self._lake
        wired = lake.root, lake.journal, lake.engine, lake.library, lake.on_checkpoint, lake.listeners
        return Checker(*wired, lake.chosen_local).check(
            name,
            self._part(name, start, end),
            suite=None if suite is None else places.normalised(suite),
            docs=None if docs is None else places.normalised(docs),
        )
