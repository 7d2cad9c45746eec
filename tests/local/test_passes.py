"""Functions over ordered rows that are computed in Python, without an engine around them."""

from __future__ import annotations

import numpy as np
import pytest

from materializer.local.passes import OverDoubles


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        ("sum", [1.0, 3.0, 5.0, 10.0, 30.0]),
        ("avg", [1.0, 1.5, 2.5, 10.0, 15.0]),
        ("stddev_samp", [None, 0.5**0.5, 0.5**0.5, None, 50.0**0.5]),
    ],
)
def test_a_window_takes_no_row_of_another_key(function: str, wanted: list[float | None]) -> None:
    """
    The first row of a key has no row before it, whatever the key before ended with.
    """
    values = np.array([1.0, 2.0, 3.0, 10.0, 20.0])
    places = np.array([0, 1, 2, 0, 1])

    found, has_one = OverDoubles("m", function, "v", ("rows", -1, 0)).made(values, np.ones(5, bool), places)

    assert [v if there else None for v, there in zip(found.tolist(), has_one.tolist(), strict=True)] == [
        None if w is None else pytest.approx(w) for w in wanted
    ]
