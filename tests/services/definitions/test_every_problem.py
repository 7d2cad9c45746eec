"""All problems of a text are listed at once: those of its words, and those that only the source shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.config import Config
from materializer.errors import DefinitionError
from materializer.spark.run.executor import Executor
from materializer.spark.run.spark import Spark
from tests.hints.world import World
from tests.services.no_spark import LocalLake, NoSpark, Opened

TEXT = """
CREATE MATERIALIZED VIEW right AS SELECT time_bucket('1 day', ts) AS at, sum(v) AS v FROM raw GROUP BY 1;
CREATE MATERIALIZED VIEW no_column AS SELECT time_bucket('1 day', ts) AS at, sum(vv) AS v FROM raw GROUP BY 1;
CREATE MATERIALIZED VIEW no_words AS SELEC 1;
CREATE MATERIALIZED VIEW over_it AS SELECT time_bucket('1 day', at) AS at, sum(v) AS v FROM no_words GROUP BY 1;
CREATE MATERIALIZED VIEW over_that AS SELECT time_bucket('1 day', at) AS at, sum(v) AS v FROM over_it GROUP BY 1;
CREATE MATERIALIZED VIEW no_source AS SELECT time_bucket('1 day', ts) AS at, sum(v) AS v FROM row GROUP BY 1;
CREATE MATERIALIZED VIEW no_end AS SELECT 'x FROM raw;
"""


def test_one_list_has_every_problem(tmp_path: Path) -> None:
    """
    Nothing is said of a definition over one that cannot be read, and nothing is written.
    """
    world = World(tmp_path)
    (tmp_path / "all.sql").write_text(TEXT)

    ran = world.run(f"apply {tmp_path / 'all.sql'}")

    [error] = ran.errors
    found = sorted((p["line"], p["code"]) for p in error["problems"])
    assert found == [
        (3, "definition.unknown-column"),
        (4, "definition.syntax"),
        (7, "table.not-found"),
        (8, "definition.syntax"),
    ]
    assert [] == world.lake.names


BY_SPARK = """
CREATE MATERIALIZED VIEW by_spark AS SELECT time_bucket('1 day', ts) AS at, sum(v::bigint) AS v FROM raw GROUP BY 1;
CREATE MATERIALIZED VIEW over_spark AS SELECT time_bucket('1 week', at) AS week, sum(v) AS v FROM by_spark GROUP BY 1;
CREATE MATERIALIZED VIEW right AS SELECT time_bucket('1 day', ts) AS at, sum(v) AS v FROM raw GROUP BY 1;
"""
NO_COLUMN = (
    "CREATE MATERIALIZED VIEW no_column AS SELECT time_bucket('1 day', ts) AS at, sum(vv) AS v FROM raw GROUP BY 1;"
)
NO_WORDS = "CREATE MATERIALIZED VIEW no_words AS SELEC 1;"


class Waiting(LocalLake):
    """A lake whose Spark does not run yet."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.started = 0
        engine = self.wired.engine

        def start() -> Spark:
            self.started += 1
            return engine()

        executor = Executor(Config(), None, {}, started=NoSpark())  # type: ignore[arg-type]
        self.opened = Opened(replace(self.wired, engine=start, starting=lambda: 0.0 if self.started else 5.0), executor)


@pytest.mark.parametrize(("wrong", "code"), [(NO_COLUMN, "definition.unknown-column"), (NO_WORDS, "definition.syntax")])
def test_who_has_a_mistake_to_mend_need_not_wait_for_spark(tmp_path: Path, wrong: str, code: str) -> None:
    """
    It is not started while something is wrong that needs none; what it would have to check is named.
    """
    lake = Waiting(tmp_path)

    with pytest.raises(DefinitionError) as caught:
        lake.apply(BY_SPARK, wrong)

    assert 0 == lake.started
    assert [code] == [problem.code for problem in caught.value.problems]
    assert "mend the problem and apply again; Spark then checks 'by_spark', 'over_spark'" == caught.value.hint


def test_spark_is_asked_of_the_rest_where_nothing_is_wrong(tmp_path: Path) -> None:
    """
    Definitions are written in the same order as without it: what others read stands before these.
    """
    lake = Waiting(tmp_path)

    changes = lake.apply(BY_SPARK)

    assert ["by_spark", "over_spark", "right"] == [change.name for change in changes]
    assert lake.started
    assert ["definition.unknown-column"] == [code for code, _ in lake.refused(NO_COLUMN)]


def test_a_plan_of_definitions_asks_spark_whatever_is_wrong(tmp_path: Path) -> None:
    """
    It shows what would be done with those that are right.
    """
    lake = Waiting(tmp_path)

    plan = lake.opened.plan_definitions([BY_SPARK, NO_COLUMN])

    assert {"by_spark", "over_spark", "right"} == {planned.change.name for planned in plan.changes}
    assert lake.started
