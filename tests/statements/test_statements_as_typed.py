"""Drawn statements are what plain Spark says of their texts, or refused; the long run is ``python -m tests.statements``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.statements import __main__ as campaign
from tests.statements.trial import EACH, ON_SPARK, Trial
from tests.system.campaign import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("executor", "statements"), [("auto", 6), ("spark", 3)])
def test_statements_are_what_they_are_in_plain_spark(
    spark: SparkSession, tmp_path: Path, fresh_seed: int, executor: str, statements: int
) -> None:
    """
    Their outputs have the rows of the text, with late rows too, or they are refused and nothing is written.
    """
    number = fresh_seed // ON_SPARK * ON_SPARK + (ON_SPARK - 1) * (executor == "spark")
    found = Trial(number, spark, tmp_path).compared(range(number * EACH, number * EACH + statements))

    assert {} == found.wrong, "python -m tests.statements --only SEED"
    assert (
        found.equal + found.refused + sum(n for what, n in found.seen.items() if what.startswith("failed"))
        == statements
    )


def test_trials_on_record_are_not_run_again(tmp_path: Path) -> None:
    """
    A call goes on where the last one stopped; one that found something ends with status 1 and names the seed.
    """
    file, ran = tmp_path / "statements.jsonl", list[int]()

    def trial(number: int) -> dict[str, Any]:
        ran.append(number)
        wrong = [{"seed": 41, "wrong": "1 rows, in Spark 2"}] if number == 1 else []
        return {
            "first": number * EACH,
            "statements": EACH,
            "equal": 30,
            "refused": 10,
            "seconds": 1.0,
            "seen": {},
            "found": wrong,
        }

    def go_on(target: int) -> int:
        return campaign.run(argparse.Namespace(minutes=1, target=target, worker="0/1"), trial, file, lambda: 0.0)

    assert [0, 1, 0] == [go_on(EACH), go_on(2 * EACH), go_on(3 * EACH)]
    assert [0, 1, 2] == ran == [entry["first"] // EACH for entry in kept(file)]
    assert "seed 41: 1 rows, in Spark 2" in campaign.table(kept(file))


def test_the_page_has_the_statements_on_record() -> None:
    """
    `python -m tests.statements --summary` writes the table.
    """
    assert campaign.PAGE.read_text(encoding="utf-8") == campaign.made()
