"""The slices of an engine's results: the first one may begin before the column's type does."""

from __future__ import annotations

import pytest

from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build, slices
from materializer.errors import OutOfRangeError


@pytest.mark.parametrize("kind", [TimeType.SMALLINT, TimeType.INT])
def test_a_slice_may_begin_below_the_smallest_value(kind: TimeType) -> None:
    """
    Of a bucket it is an error, which a label of the type cannot name; a slice is found all the same.
    """
    grid = build(GridSpec(Width(ticks=3_600_000), None, 0), kind)
    least = grid.limits.start
    with pytest.raises(OutOfRangeError):
        grid.floor(least)

    assert grid.edge_at(least) == slices(grid).floor(least) < least
    assert grid.floor(5) == slices(grid).floor(5) == 0


def test_other_types_of_time_keep_their_grid() -> None:
    """
    No slice of a date or a timestamp begins outside of its type.
    """
    grid = build(GridSpec(Width(days=30), None, 0), TimeType.DATE)

    assert grid is slices(grid)
