"""A refresh that writes the results of changed keys dies between its commits; the next one ends it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.system.engine_histories import DEFINITIONS, World
from tests.system.lake import Death, Died, dying, leave_behind, the_dead

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.one_of(3)
@pytest.mark.parametrize("checkpoint", ["writing_partials", "wrote_partials", "wrote_output"])
def test_a_refresh_of_keys_that_died_is_ended(tmp_path: Path, spark: SparkSession, checkpoint: str) -> None:
    """
    Whether neither table, one of them or both have the new results, the next refresh leaves both true.
    """
    world = World(spark, tmp_path, random.Random(checkpoint), DEFINITIONS["sessions"])
    made = world.begin()
    made.refresh("made")
    world.insert(2, 0, 400)
    with the_dead() as dead:
        try:
            with dying(Death(checkpoint, 1, is_kill=True)) as on_checkpoint:
                world.open(on_checkpoint=on_checkpoint).refresh("made", strategy="recompute-keys")
        except Died:
            leave_behind(world.open(), dead)
        else:
            pytest.fail(f"{checkpoint} was not reached")
        again = world.open()
        plan = again.journal.view().named("made").plan
        assert plan is not None
        assert "recompute-keys" in plan.strategy
        again.refresh("made", strategy="recompute-keys")
        assert again.verify("made").is_equal
        assert again.repair("made", dry_run=True).outcome == "sound"
