"""What a comparison of two revisions says of what a benchmark found on either."""

from __future__ import annotations

from tests.benchmarks.revisions import differences


def test_counters_are_compared_exactly_and_times_by_their_least() -> None:
    """
    A counter that varies within a revision says nothing, and neither does a time of no length.
    """
    before = [{"rows": 5, "jobs": 3, "varies": 1, "late": {"seconds": 2.5, "instant": 0.0004}}] * 2
    before[1] = {"rows": 5, "jobs": 3, "varies": 2, "late": {"seconds": 3.5, "instant": 0.0003}}
    after = [{"rows": 5, "jobs": 4, "varies": 2, "late": {"seconds": 1.25, "instant": 0.0009}}] * 2

    assert (["jobs: 3 → 4"], {"late.seconds": 0.5}, 1) == differences(before, after)


def test_a_counter_that_is_gone_is_a_difference() -> None:
    """
    A revision that no longer counts what the other one counted does not pass for equal.
    """
    assert (["rows: 5 → None"], {}, 0) == differences([{"rows": 5}], [{}])
