"""Whether what is published is right."""

from __future__ import annotations

from pathlib import Path

from materializer.api.opened import OpenedLake
from materializer.core.time.instants import Instant
from materializer.services.quality.check import Checker, CheckReport
from materializer.services.quality.verify import Verifier, VerifyReport
from materializer.spark.runtime.jvm import watched


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
            What was compared and what differs; a difference is no error here.

        Raises:
            RetryableError: If another version of the definition was published meanwhile.
        """
        verifier = Verifier(self.root, self.journal, self._lake.engine)
        return verifier.verify(name, self._part(name, start, end))

    def check(
        self,
        name: str,
        start: Instant = None,
        end: Instant = None,
        *,
        suite: str | Path | None = None,
        docs: str | Path | None = None,
    ) -> CheckReport:
        """Answer the suite of an aggregate about its published rows; the journal remembers what was found.

        Args:
            name: The aggregate.
            start: First instant, or None for an open start.
            end: First instant after the window, or None for an open end.
            suite: File of another suite than the one it was applied with.
            docs: Folder for Data Docs (HTML); they need Great Expectations.

        Returns:
            The verdict; expectations that are not met are no error here.

        Raises:
            UsageError: If *suite* cannot be read, or *docs* is asked for and there is no suite.
            DefinitionError: With everything that is wrong with *suite*.
            QualityLibraryMissingError: If Great Expectations is needed and not installed.
        """
        lake = self._lake
        checker = Checker(lake.root, lake.journal, lake.engine, lake.library, lake.on_checkpoint)
        return checker.check(
            name,
            self._part(name, start, end),
            suite=None if suite is None else Path(suite),
            docs=None if docs is None else Path(docs),
        )
