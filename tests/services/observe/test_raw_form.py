"""The raw rows behind a roll-up: where it does not show them yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.services.observe import raw_form
from tests.services.no_spark import LocalLake, each, view

HOUR, DAY = 3_600_000_000, 86_400_000_000


@pytest.mark.parametrize("newest", [True, False])
def test_a_rollup_of_an_aggregate_that_was_never_refreshed_shows_nothing(tmp_path: Path, *, newest: bool) -> None:
    """
    Everything that the source may have is dirty, although a refresh of the roll-up alone found no work left.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (DAY, 2))
    lake.apply(view("hours", each("1 hour")), view("days", each("1 day"), "hours", "rollup(v) AS v"))
    lake.opened.refresh("days")
    state = lake.state("days")

    behind = raw_form.behind(
        lake.wired.aggregate(state),
        state,
        str(tmp_path),
        lake.opened.journal.view().states,
        lake.wired.observation,
        newest=newest,
    )

    assert {0, DAY} <= {at for at in (0, DAY) if at in behind.dirty}
    assert [1, 0] == [behind.state.cursor, state.cursor]
