"""A little of what chance does, from a seed that is another one in each run; the fixed ones are beside it in other files."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, settings

from materializer.core.refresh.plan import Lane
from tests.cases import chance
from tests.cases.world import How
from tests.system.stateful import explore

FEW = settings(
    max_examples=2, stateful_step_count=3, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_a_random_case_is_answered_as_by_the_oracle(fresh_seed, spark, tmp_path) -> None:
    """
    A random definition of some engine over two sets of rows.
    """
    engine = random.Random(fresh_seed).choice(list(chance.MAKERS))
    outcome = chance.run(chance.case_of(engine, fresh_seed, 2), How(spark, tmp_path))

    assert outcome.passed, f"{outcome.id}: expected {outcome.expected}, found {outcome.found}"


def test_random_work_leaves_the_truth(fresh_seed, spark, tmp_path) -> None:
    """
    A short history of commits, commands and deaths, in one lane of both; the fixed ones are in the shards.
    """
    lane = random.Random(fresh_seed).choice(list(Lane))
    assert explore(spark, tmp_path, FEW, fresh_seed, lane=lane)["examples"] >= 1
