"""One random history of a source that changes underneath: renamed, dropped and added columns, replaced tables, copies put back."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import SourceReplacedError, SourceRolledBackError, SourceSchemaChangedError

COLUMNS: Final = "ts TIMESTAMP, ts2 TIMESTAMP, k STRING, k2 STRING, x BIGINT, y BIGINT, note STRING, other STRING"
PAIRS: Final = (("x", "y"), ("k", "k2"), ("ts", "ts2"), ("note", "other"))
HOURLY: Final = "SELECT {bucket} AS at, k, sum(x) AS x, max(note) AS note, count(*) AS n FROM {source} GROUP BY 1, 2"
VISITS: Final[dict[str, Any]] = {
    "engine": "session_window",
    "session_gap": "20 minutes",
    "measures": {"x": "sum(x)", "n": "count(*)"},
}


class History:
    """A source, and a lake with an hourly aggregate and session windows over it.

    Args:
        seed: What is drawn.
        folder: Where the tables lie.
        spark: A session.
        tell: Gets a line for each step.
    """

    def __init__(
        self, seed: int, folder: Path, spark: SparkSession, tell: Callable[[str], object] = lambda _: None
    ) -> None:
        self.draw, self.folder, self.spark, self.tell = random.Random(seed), folder, spark, tell
        self.path, self.copies, self.seen = folder / "raw", 0, Counter[str]()
        self.is_mapped = self.draw.random() < 0.7

    def run(self, steps: int = 4) -> str:
        """Return what was wrong first; "" if every output was right."""
        self._create("CREATE TABLE")
        self._add(40)
        lake = Materializer(
            config=Config(lake=str(self.folder / "lake"), sources={"raw": str(self.path)}), spark=self.spark
        )
        query = HOURLY.format(bucket="time_bucket('1 hour', ts)", source="raw")
        lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {query}")
        lake.define("visits", "raw", time="ts", keys=["k"], **VISITS)
        for step in range(steps):
            if step:
                for _ in range(self.draw.randrange(1, 3)):
                    self._change()
            for name in ("hourly", "visits"):
                try:
                    lake.refresh(name)
                except (SourceRolledBackError, SourceReplacedError, SourceSchemaChangedError) as exc:
                    self.seen[exc.code] += 1
                    self.tell(f"{name}: {exc}")
                    if isinstance(exc, SourceRolledBackError):
                        self._add_until(int(exc.values["expected"]))
                        lake.refresh(name)
                    else:
                        return f"step {step}: {exc}"
                if not (report := lake.verify(name)).is_equal:
                    return f"step {step}: {name} differs: {report.examples[:1]}"
            if wrong := self._by_hand():
                return f"step {step}: {wrong}"
        return ""

    def _by_hand(self) -> str:
        """Return how the hourly output differs from a query of plain Spark."""
        query = HOURLY.format(bucket="date_trunc('hour', ts)", source=f"delta.`{self.path}`")
        wanted, found = (
            Counter(tuple(row) for row in rows.select("at", "k", "x", "note", "n").collect())
            for rows in (
                self.spark.sql(query),
                self.spark.read.format("delta").load(str(self.folder / "lake" / "hourly" / "output")),
            )
        )
        return (
            ""
            if wanted == found
            else f"missing {list((wanted - found).items())[:2]}, too many {list((found - wanted).items())[:2]}"
        )

    def _change(self) -> None:
        draw, steps = self.draw, [self._add, self._delete, self._update, self._replace, self._put_back, self._copy]
        if self.is_mapped:
            steps += [self._swap, self._swap, self._add_again, self._add_again, self._rename_back, self._optimize]
        else:
            steps.append(self._upgrade)
        step = draw.choice(steps)
        self.seen[step.__name__.strip("_")] += 1
        self.tell(step.__name__)
        step()

    def _sql(self, text: str) -> None:
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def _create(self, how: str, query: str = "") -> None:
        properties = ["'delta.enableChangeDataFeed' = 'true'"] if self.draw.random() < 0.7 else []
        if self.is_mapped:
            properties.append("'delta.columnMapping.mode' = 'name'")
        given = f"TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self._sql(f"{how} {{t}} {'' if query else f'({COLUMNS})'} USING DELTA {given} {query}")

    def _rows(self, count: int) -> str:
        draw = self.draw
        return ", ".join(
            f"(timestamp_seconds({draw.randrange(40_000)}), timestamp_seconds({draw.randrange(40_000) + 86_400}), "
            f"'a{draw.randrange(3)}', 'b{draw.randrange(3)}', {draw.randrange(100)}, {draw.randrange(100) * 1_000}, "
            f"'n{draw.randrange(9)}', 'o{draw.randrange(9)}')"
            for _ in range(count)
        )

    def _add(self, count: int = 3) -> None:
        names = "ts, ts2, k, k2, x, y, note, other"
        self._sql(f"INSERT INTO {{t}} ({names}) VALUES {self._rows(count)}")

    def _add_until(self, version: int) -> None:
        """Commit rows until the source is longer than what was captured."""
        while self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path}` LIMIT 1").first()["version"] <= version:
            self._add(1)

    def _delete(self) -> None:
        self._sql(f"DELETE FROM {{t}} WHERE x % 7 = {self.draw.randrange(7)}")

    def _update(self) -> None:
        self._sql(f"UPDATE {{t}} SET x = x + 1 WHERE y % 5 = {self.draw.randrange(5)}")

    def _optimize(self) -> None:
        self._sql("OPTIMIZE {t}")

    def _swap(self) -> None:
        one, other = self.draw.choice(PAIRS)
        for old, new in ((one, "tmp"), (other, one), ("tmp", other)):
            self._sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")

    def _rename_back(self) -> None:
        name = self.draw.choice(["x", "k", "ts", "note"])
        self._sql(f"ALTER TABLE {{t}} RENAME COLUMN {name} TO tmp")
        self._sql(f"ALTER TABLE {{t}} RENAME COLUMN tmp TO {name}")

    def _add_again(self) -> None:
        name, kind = self.draw.choice([("x", "BIGINT"), ("note", "STRING"), ("y", "BIGINT"), ("other", "STRING")])
        self._sql(f"ALTER TABLE {{t}} DROP COLUMN {name}")
        self._sql(f"ALTER TABLE {{t}} ADD COLUMN {name} {kind}")

    def _upgrade(self) -> None:
        self._sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        self.is_mapped = True

    def _replace(self) -> None:
        names = [column.split()[0] for column in COLUMNS.split(", ")]
        columns = ", ".join(
            f"CAST(c{i} AS {c.split()[1]}) AS {n}"
            for i, (n, c) in enumerate(zip(names, COLUMNS.split(", "), strict=True))
        )
        aliases = ", ".join(f"c{i}" for i in range(len(names)))
        self._create("CREATE OR REPLACE TABLE", f"AS SELECT {columns} FROM VALUES {self._rows(20)} AS v({aliases})")

    def _copy(self) -> None:
        """Keep a copy of the source, to be put back later."""
        self.copies += 1
        shutil.copytree(self.path, self.folder / f"copy{self.copies}")

    def _put_back(self) -> None:
        if not self.copies:
            return self._copy()
        shutil.rmtree(self.path)
        shutil.copytree(self.folder / f"copy{self.draw.randrange(self.copies) + 1}", self.path)
        for _ in range(self.draw.randrange(1, 6)):
            self._add(1)
        return None
