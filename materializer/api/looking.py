"""Status, lateness and history, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from materializer.api.opened import OpenedLake
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    import pandas as pd

    from materializer.core.printed import PrintedList
    from materializer.core.time.instants import Instant
    from materializer.journal.state import Ended
    from materializer.services.report.source_lateness import SourceLateness
    from materializer.services.report.status import Statuses
    from materializer.services.report.tables import DoctorFinding


@watched
class Looking(OpenedLake):
    """Reports on aggregates; writes nothing."""

    def status(self, name: str | None = None, now: Instant = None) -> Statuses:
        """Return the status of one aggregate or of all, without a JVM; a list, which a notebook shows as a table.

        Args:
            name: The aggregate; None for all usable aggregates, by name.
            now: The *now* of policies and promises, as in :meth:`policies`.
        """
        return self._looker.status(name, now)

    def lateness(self, name: str | None = None) -> tuple[SourceLateness, ...]:
        """Return the lateness of the rows of each source, by time column, without a JVM.

        Args:
            name: An aggregate; None for the sources of all.
        """
        return self._looker.lateness(name)

    def status_frame(self) -> pd.DataFrame:
        """Return the status of all aggregates as a pandas frame.

        Shape:
            name, state, grid: text
            cursor, newest: integer, source versions
            threshold: text, the end of everything that was ever materialised
            dirty_spans, rows, null_times: integer
            last_refresh: ISO text
            Grain (name), by name.
        """
        from materializer.services.report.status import frame

        return frame(self.status())

    def history(self, name: str, limit: int | None = 20) -> PrintedList[Ended]:
        """Return the last refreshes, newest first; a list, which prints as a table.

        Args:
            name: The aggregate.
            limit: How many at most; None for all.
        """
        return self._looker.history(name, limit)

    def newest_bucket_end(self, name: str) -> int | None:
        """Return the end of the bucket of the source's newest row, an instant of its time; None without rows.

        Args:
            name: The aggregate.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
        """
        return self._looker.newest_bucket_end(name)

    def doctor(self, name: str | None = None, *, is_deep: bool = False) -> PrintedList[DoctorFinding]:
        """Return problems that may stop the next refresh, each with a remedy; a list, which prints as a table.

        Args:
            name: The aggregate; None for all, the environment and the journal.
            is_deep: Whether all files of the sources and of the lake's own tables are read, and compared with what the logs say of them.
        """
        from materializer.services.maintenance.maintain import Maintainer
        from materializer.services.report.doctor import Doctor
        from materializer.services.report.tables import listed

        doctor = Doctor(self._lake.root, self.journal, self.config, Maintainer(self._lake))
        return listed(doctor.examine(name, is_deep=is_deep))
