from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

from materializer.core.plan import Lane
from tests.system.stateful import explore
from tests.system.stateful_versions import Changing


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
    After any sequence of commits, commands and deaths: what is clean is true, nothing that a gate refuses is published,
    and a refresh of everything mends the rest.
    """
    drivers = explore(spark, tmp_path, how(8), lane=Lane.DRIVER)
    sparks = explore(spark, tmp_path, how(2), lane=Lane.SPARK)

    # both lanes worked, and the interesting cases occurred
    assert drivers["lane driver"] > 10
    assert sparks["lane spark"] > 3
    happened = " ".join(drivers + sparks)
    for what in (
        "died at",
        "recovered: finished",
        "recovered: aborted",
        "strategy merge",
        "held back",
        "refused by the gate",
    ):
        assert what in happened, f"never {what}: {dict(drivers + sparks)}"


def test_random_changes_of_definitions_leave_the_truth(spark, tmp_path) -> None:
    """
    Definitions that are changed, built, switched, rolled back and given up in any order: what is clean is true.
    """
    happened = explore(spark, tmp_path, how(6), lane=Lane.DRIVER, machine=Changing)

    for what in ("switched", "not switched", "data started", "roll back"):
        assert happened[what], f"never {what}: {dict(happened)}"


@pytest.mark.slow
def test_random_changes_of_definitions_leave_the_truth_when_spark_commits(spark, tmp_path) -> None:
    """
    The same where Spark commits.
    """
    happened = explore(spark, tmp_path, how(3), lane=Lane.SPARK, machine=Changing)

    assert happened["lane spark"] > 3
    assert happened["data started"]
