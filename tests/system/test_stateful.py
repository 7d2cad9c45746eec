from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

from materializer.core.plan import Lane
from tests.system import keeping
from tests.system.stateful import explore


def how(examples: int) -> settings:
    """Return how many examples to run, the same ones every time."""
    return settings(
        max_examples=examples,
        stateful_step_count=12,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # shrinking takes minutes: `python -m tests.system.stateful --shrink`
        suppress_health_check=list(HealthCheck),
    )


def test_random_work_and_deaths_leave_the_truth(spark, tmp_path) -> None:
    """
    After any sequence of commits, commands and deaths: what is clean is true, and a refresh of everything mends the rest.
    """
    drivers = explore(spark, tmp_path, how(8), lane=Lane.DRIVER)
    sparks = explore(spark, tmp_path, how(2), lane=Lane.SPARK)

    # both lanes worked, and the interesting cases occurred
    assert drivers["lane driver"] > 10
    assert sparks["lane spark"] > 3
    happened = " ".join(drivers + sparks)
    for what in ("died at", "recovered: finished", "recovered: aborted", "strategy merge"):
        assert what in happened, f"never {what}: {dict(drivers + sparks)}"


@pytest.mark.slow
def test_random_retention_leaves_what_is_remembered(spark, tmp_path) -> None:
    """
    While old rows go and come, are corrected and frozen: what is published is what an oracle remembers that forgets nothing.
    """
    drivers = keeping.explore(spark, tmp_path, how(8), lane=Lane.DRIVER)
    sparks = keeping.explore(spark, tmp_path, how(2), lane=Lane.SPARK)

    happened = drivers + sparks
    for what in (
        "expired",
        "rows gone",
        "conflicts",
        "buckets remembered",
        "strategy merge",
        "expire.dirty",
        "window.frozen",
    ):
        assert happened[what], f"never {what}: {dict(happened)}"
