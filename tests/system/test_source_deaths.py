"""Deaths at each step of a refresh before and after a source becomes another one; the next refresh ends with what plain Spark says."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config
from tests.system.lake import Death, Died, dying

pytestmark = pytest.mark.spark

PROPERTIES: Final = (
    "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true'"
)
COLUMNS: Final = (
    "timestamp_seconds({n} * 1800) AS ts, concat('a', {n} % 2) AS k, {n} AS x, {n} * 100 AS y, concat('n', {n}) AS note"
)
QUERY: Final = "SELECT {at} AS at, k, sum(x) AS x, max(note) AS note, count(*) AS n FROM {source} GROUP BY 1, 2"
VISITS: Final[dict[str, Any]] = {"time": "ts", "keys": ["k"], "engine": "session_window", "session_gap": "20 minutes"}

Deaths = tuple[str, ...]
"""The steps at which one refresh after another dies; with a number the how many-th time that a refresh comes there."""

OPEN: Final[tuple[Deaths, ...]] = (
    ("compute",),
    ("write",),
    ("wrote_partials",),
    ("done",),
    ("compute", "fence"),
    ("compute", "aborted"),
    ("wrote_partials", "finish"),
    ("wrote_partials", "finished"),
)
"""Those of refreshes of which the first dies before the source becomes another one, and leaves a plan open."""
STEPS: Final[tuple[Deaths, ...]] = (
    *((step,) for step in ("lease", "recover", "plan", "compute", "audit", "write")),
    *((step,) for step in ("wrote_partials", "wrote_output", "done", "end")),
    ("compute", "abort"),
    ("wrote_partials", "finish"),
)
"""Those of refreshes of which all die after it."""


class Dying:
    """A source, and one aggregate over it for each way to die.

    Args:
        root: Where they lie.
        spark: A session.
        before: Deaths of which the first is before the source becomes another one.
        after: Deaths that are all after it.
    """

    def __init__(self, root: Path, spark: SparkSession, before: tuple[Deaths, ...], after: tuple[Deaths, ...]) -> None:
        self.root, self.spark, self.path = root, spark, root / "raw"
        self.sql(
            f"CREATE TABLE {{t}} (ts TIMESTAMP, k STRING, x INT, y INT, note STRING) USING DELTA TBLPROPERTIES ({PROPERTIES})"
        )
        self.add(*range(8))
        self.deaths = {f"b{i}": deaths for i, deaths in enumerate(before)} | {f"a{i}": d for i, d in enumerate(after)}
        lake, query = self.opened(), QUERY.format(at="time_bucket('1 hour', ts)", source="raw")
        for name in self.deaths:
            lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            lake.refresh(name)
        lake.define("visits", "raw", **VISITS, measures={"x": "sum(x)"})
        lake.refresh("visits")
        shutil.copytree(self.path, root / "copy")
        self.add(3)

    def opened(self, on_checkpoint: Callable[[str], None] = lambda _: None) -> Materializer:
        """Return the lake as a new process sees it."""
        config = Config(lake=str(self.root / "lake"), sources={"raw": str(self.path)})
        return Materializer(config=config, spark=self.spark, on_checkpoint=on_checkpoint)

    def sql(self, text: str) -> None:
        """Run a statement about the source ``{t}``."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def add(self, *numbers: int) -> None:
        """Commit rows, half an hour apart."""
        rows = " UNION ALL ".join(f"SELECT {COLUMNS.format(n=n)}" for n in numbers)
        self.sql(f"INSERT INTO {{t}} (ts, k, x, y, note) {rows}")

    def die(self, name: str, step: str) -> None:
        """Kill a refresh at a step."""
        with dying(Death(step, 1, is_kill=True)) as on_checkpoint, pytest.raises(Died):
            self.opened(on_checkpoint).refresh(name)

    def assert_equal(self) -> None:
        """Every output is what plain Spark says of the source as it is now."""
        text = QUERY.format(at="date_trunc('hour', ts)", source=f"delta.`{self.path}`")
        wanted = Counter(tuple(row) for row in self.spark.sql(text).collect())
        for name, deaths in self.deaths.items():
            rows = DeltaTable(self.root / "lake" / name / "output").to_pyarrow_table().to_pylist()
            found = Counter((_naive(row["at"]), row["k"], row["x"], row["note"], row["n"]) for row in rows)
            assert wanted == found, (name, deaths)
        assert self.opened().verify("visits").is_equal


def _naive(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


def swapped(made: Dying) -> None:
    """Give two columns each other's name."""
    for old, new in (("x", "tmp"), ("y", "x"), ("tmp", "y")):
        made.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")


def added_again(made: Dying) -> None:
    """Drop a column, and add one with its name."""
    made.sql("ALTER TABLE {t} DROP COLUMN note")
    made.sql("ALTER TABLE {t} ADD COLUMN note STRING")


def replaced(made: Dying) -> None:
    """Replace the table by one with other rows."""
    rows = " UNION ALL ".join(f"SELECT {COLUMNS.format(n=n)}" for n in (1, 4, 9))
    made.sql(f"CREATE OR REPLACE TABLE {{t}} USING DELTA TBLPROPERTIES ({PROPERTIES}) AS {rows}")


def widened(made: Dying) -> None:
    """Make a column wider, and add a row that it did not hold before."""
    made.sql("ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT")
    made.sql("INSERT INTO {t} (ts, k, x, y, note) VALUES (timestamp_seconds(1800), 'a0', 3000000000, 1, 'wide')")


def put_back(made: Dying) -> None:
    """Put an older copy back, and let it grow beyond what was captured."""
    shutil.rmtree(made.path)
    shutil.copytree(made.root / "copy", made.path)
    made.spark.catalog.clearCache()
    for n in (1, 6, 6):
        made.add(n)


BREAKS: Final = (swapped, added_again, replaced, widened, put_back)


def mended(root: Path, spark: SparkSession, change: Callable[[Dying], None], *deaths: tuple[Deaths, ...]) -> None:
    """Let refreshes die before and after the source becomes another one; what follows is equal to plain Spark, then and later."""
    made = Dying(root, spark, *deaths)
    for name, (first, *_) in made.deaths.items():
        if name.startswith("b"):
            made.die(name, first)
    change(made)
    made.add(2)
    for name, steps in made.deaths.items():
        for step in steps[1:] if name.startswith("b") else steps:
            made.die(name, step)
    lake = made.opened()
    for name in (*made.deaths, "visits"):
        lake.refresh(name)
    made.assert_equal()
    made.add(5)
    for name in (*made.deaths, "visits"):
        lake.refresh(name)
    made.assert_equal()


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (swapped, ("wrote_partials",), ("compute",)),
        (widened, ("compute",), ("recover",)),
        (put_back, ("wrote_partials", "finish"), ("wrote_partials",)),
    ],
)
@pytest.mark.one_of(3)
def test_a_death_around_another_source_is_mended(
    tmp_path: Path, spark: SparkSession, change: Callable[[Dying], None], before: Deaths, after: Deaths
) -> None:
    """
    A plan that stood open and one that began after the change leave nothing behind.
    """
    mended(tmp_path, spark, change, (before,), (after,))


@pytest.mark.slow
@pytest.mark.parametrize("change", BREAKS)
def test_a_death_at_any_step_around_another_source_is_mended(
    tmp_path: Path, spark: SparkSession, change: Callable[[Dying], None]
) -> None:
    """
    The same at every step of a refresh and of the recovery after it.
    """
    mended(tmp_path, spark, change, OPEN, STEPS)
