"""Random histories of sources that become other ones; the long run is ``python -m tests.histories_of_sources``."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.histories_of_sources.__main__ import PAGE, made
from tests.histories_of_sources.history import History


def test_outputs_are_what_plain_spark_says_of_any_source(tmp_path: Path, spark: SparkSession, fresh_seed: int) -> None:
    """
    Whatever becomes of its columns, table and commits: the next refresh has the types and the rows, or says what to do first.
    """
    wrong = History(fresh_seed, tmp_path, spark).run(steps=3)

    assert "" == wrong, f"python -m tests.histories_of_sources --only {fresh_seed}"


def test_the_page_has_the_histories_on_record() -> None:
    """
    `python -m tests.histories_of_sources --summary` writes the table.
    """
    assert PAGE.read_text(encoding="utf-8") == made()
