"""Random histories of chains: every output is right; the long run is ``python -m tests.histories_of_chains``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.histories_of_chains.__main__ import PAGE, made, on_spark
from tests.histories_of_chains.history import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (5, 6, 43)
STRATEGIES = ("recompute", "recompute-keys", "merge", "retract", "roll-up", "discard")
STEPS = ("change", "build", "roll", "refund", "expire", "delete")


def test_every_output_is_right_in_every_history(tmp_path: Path) -> None:
    """
    Whatever becomes of the raw rows and of the aggregates on the way, and whoever dies.
    """
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        history = History(seed, tmp_path / str(seed))
        assert "" == history.run(), f"python -m tests.histories_of_chains --only {seed}"
        seen.update(history.seen)

    assert [] == [what for what in (*STRATEGIES, *STEPS) if what not in seen]


@pytest.mark.spark
def test_spark_goes_through_the_same_histories(tmp_path: Path, spark: SparkSession) -> None:
    """
    It computes every step that the process computes elsewhere.
    """
    history = History(43, tmp_path, open_lake=on_spark(spark))

    assert "" == history.run(), "python -m tests.histories_of_chains --spark --only 43"
    assert {"retract", "recompute-keys", "recompute"} <= history.seen.keys()


def test_the_page_has_the_histories_on_record() -> None:
    """
    `python -m tests.histories_of_chains --summary` writes the table.
    """
    assert PAGE.read_text(encoding="utf-8") == made()
