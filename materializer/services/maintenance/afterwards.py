"""Maintenance that follows a refresh, where the definition asks for it."""

# ruff: noqa: PLC0415 - after most refreshes nothing is maintained

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.core.policy.table_properties import every_of
from materializer.errors import MaterializerError
from materializer.errors.base import masked
from materializer.journal.state import AggregateState, spec_of

if TYPE_CHECKING:
    from materializer.services.commit.lake import Lake
    from materializer.services.maintenance.maintain import MaintainReport


class Afterwards(Struct, frozen=True):
    """What maintenance did after a refresh: its reports, and why it failed, if it did."""

    reports: tuple[MaintainReport, ...] = ()
    warnings: tuple[str, ...] = ()


def afterwards(lake: Lake, state: AggregateState, numbers: list[int]) -> Afterwards:
    """Maintain an aggregate after refreshes, if its property ``maintain.every`` is set and a multiple of it was reached.

    A failure becomes a warning, because the refreshes are done.

    Args:
        lake: The lake.
        state: The aggregate.
        numbers: Numbers of these refreshes.
    """
    every = every_of(spec_of(state))
    if every is None or not numbers or max(numbers) // every == (min(numbers) - 1) // every:
        return Afterwards()
    from materializer.services.maintenance.maintain import Maintainer

    maintainer = Maintainer(lake)
    reports: list[MaintainReport] = []
    try:
        reports.append(maintainer.aggregate(state.name))
        reports.append(maintainer.journal())
    except MaterializerError as exc:
        return Afterwards(tuple(reports), (f"the maintenance after it failed: {exc.message} ({exc.code})",))
    except Exception as exc:  # noqa: BLE001 - the refresh is done; a bug here must not make it fail
        return Afterwards(
            tuple(reports), (f"the maintenance after it failed: {type(exc).__name__}: {masked(str(exc))}",)
        )
    return Afterwards(tuple(reports))
