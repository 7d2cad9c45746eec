"""Maintenance that follows a refresh, where the definition asks for it."""

from __future__ import annotations

from materializer.errors import MaterializerError
from materializer.errors.base import masked
from materializer.journal.state import AggregateState
from materializer.services.commit.lake import Lake
from materializer.services.maintenance.maintain import Maintainer, MaintainReport


def afterwards(lake: Lake, state: AggregateState) -> tuple[tuple[MaintainReport, ...], tuple[str, ...]]:
    """Maintain an aggregate; return the reports, and why it failed, if it did.

    A failure becomes a warning, because the refreshes are done.
    """
    maintainer = Maintainer(lake)
    reports: list[MaintainReport] = []
    try:
        reports.append(maintainer.aggregate(state.name))
        reports.append(maintainer.journal())
    except MaterializerError as exc:
        return tuple(reports), (f"the maintenance after it failed: {exc.message} ({exc.code})",)
    except Exception as exc:  # noqa: BLE001 - the refresh is done; a bug here must not make it fail
        return tuple(reports), (f"the maintenance after it failed: {type(exc).__name__}: {masked(str(exc))}",)
    return tuple(reports), ()
