"""One random history of a source that changes underneath: columns renamed, dropped, added and wider, tables replaced, copies put back."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import SourceReplacedError, SourceRolledBackError, SourceSchemaChangedError

NAMES: Final = ("ts", "ts2", "k", "k2", "x", "y", "note", "other")
PAIRS: Final = (("x", "y"), ("k", "k2"), ("ts", "ts2"), ("note", "other"))
NUMBERS: Final = ("BIGINT", "INT", "INT", "SMALLINT", "FLOAT", "DECIMAL(6,2)")
"""Types that columns of numbers have at first."""
WIDER: Final = {
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(6,2)": ("DECIMAL(12,2)", "DECIMAL(14,4)"),
    "DECIMAL(12,2)": ("DECIMAL(14,4)",),
}
LARGEST: Final = {
    "SMALLINT": "32000",
    "INT": "2000000000",
    "BIGINT": "3000000000",
    "FLOAT": "1000000.5",
    "DOUBLE": "16777217.25",
    "DECIMAL(6,2)": "9000.25",
    "DECIMAL(12,2)": "123456789.25",
    "DECIMAL(14,4)": "1234567890.0625",
}
"""A value that a narrower type does not hold; sums of a few are exact in every type of a sum."""
KINDS: Final = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT"}
SHOWN: Final = ("max(x) AS top", "avg(x) AS mean", "sum(y) AS y, avg(y) AS mean", "max(hash(x)) AS h", "count(x) AS c")
"""What the hourly aggregate shows besides; the type of the first is that of the column, that of a mean of a decimal has its digits."""
HOURLY: Final = (
    "SELECT {bucket} AS at, k, sum(x) AS x, max(note) AS note, count(*) AS n, {more} FROM {source} GROUP BY 1, 2"
)
WINDOWS: Final = (
    "SELECT w.start AS window_start, w.end AS window_end, k, x, n FROM (SELECT session_window(ts, '20 minutes') AS w, k, sum(x) AS x, count(*) AS n "
    "FROM {source} GROUP BY session_window(ts, '20 minutes'), k)"
)
VISITS: Final[dict[str, Any]] = {
    "time": "ts",
    "keys": ["k"],
    "engine": "session_window",
    "session_gap": "20 minutes",
    "measures": {"x": "sum(x)", "n": "count(*)"},
}
GIVES_UP: Final = (SourceRolledBackError, SourceReplacedError, SourceSchemaChangedError)


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
        self.first = [self.draw.choice(NUMBERS) for _ in "xy"]
        self.more = self.draw.choice(SHOWN)
        config = Config(
            lake=str(folder / "lake"),
            sources={"raw": str(self.path)},
            executor=self.draw.choice(["auto", "auto", "spark"]),
        )
        self.lake = Materializer(config=config, spark=spark)

    def run(self, steps: int = 4) -> str:
        """Return what was wrong first; "" if every output was right."""
        self._create("CREATE TABLE")
        self._add(40)
        for name in ("hourly", "visits"):
            self._define(name)
        for step in range(steps):
            if step:
                for _ in range(self.draw.randrange(1, 3)):
                    self._change()
            for name in ("hourly", "visits"):
                if wrong := self._refresh(name):
                    return f"step {step}: {name}: {wrong}"
            if wrong := self._by_hand():
                return f"step {step}: {wrong}"
        name = self.draw.choice(["hourly", "visits", "", ""])
        if not name or (report := self.lake.verify(name)).is_equal:
            return ""
        return f"{name} differs: {report.examples[:1]}"

    def _define(self, name: str) -> None:
        if name == "hourly":
            query = HOURLY.format(bucket="time_bucket('1 hour', ts)", source="raw", more=self.more)
            self.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {query}")
        else:
            self.lake.define("visits", "raw", **VISITS)

    def _refresh(self, name: str) -> str:
        """Refresh, and do what the hint of an error says; return what is wrong with the hint."""
        for _ in range(3):
            try:
                report = self.lake.refresh(name)
            except GIVES_UP as exc:
                self.seen[exc.code] += 1
                self.tell(f"{name}: {exc} ({exc.hint})")
                if isinstance(exc, SourceRolledBackError):
                    self._add_until(int(exc.values["expected"]))
                elif not isinstance(exc, SourceRolledBackError) and "apply" in exc.hint:
                    self._define(name)
                    return "" if self.lake.build(name).switched else f"the next version is not built after {exc}"
                else:
                    return str(exc)
            else:
                for warning in report.warnings:
                    self.tell(f"{name}: {warning}")
                    if "of the source is" in warning:
                        self.seen["goes on over a wider column"] += 1
                return ""
        return "no end of errors"

    def _by_hand(self) -> str:
        """Return how the outputs differ from what plain Spark says of the source, types and rows."""
        source = f"delta.`{self.path}`"
        hourly = HOURLY.format(bucket="date_trunc('hour', ts)", source=source, more=self.more)
        both = f"SELECT struct(h.*) AS hourly, NULL AS visits FROM ({hourly}) h"
        both += f" UNION ALL SELECT NULL, struct(v.*) FROM ({WINDOWS.format(source=source)}) v"
        rows = self.spark.sql(both)
        found = rows.collect()
        for name in ("hourly", "visits"):
            wanted = rows.schema[name].dataType
            output = self.folder / "lake" / name / "output"
            types = self.spark.read.format("delta").load(str(output)).select(*wanted.names).schema
            if (kinds := [f.dataType for f in types]) != [f.dataType for f in wanted]:
                return f"{name}: types are {kinds} and not {[f.dataType for f in wanted]}"
            stored = DeltaTable(output).to_pyarrow_table(columns=wanted.names).to_pylist()
            ours = [tuple(_naive(row[column]) for column in wanted.names) for row in stored]
            plain = [tuple(row[name]) for row in found if row[name] is not None]
            if name == "visits":  # the last session of a key is open, and not shown
                last = {k: max(row[0] for row in plain if row[2] == k) for k in {row[2] for row in plain}}
                ours, plain = ([row for row in of if row[0] != last.get(row[2])] for of in (ours, plain))
            if missing := Counter(plain) - Counter(ours):
                return f"{name}: missing {list(missing.items())[:2]}"
            if more := Counter(ours) - Counter(plain):
                return f"{name}: too many {list(more.items())[:2]}"
        return ""

    def _kinds(self) -> dict[str, str]:
        """Return the types of the columns of numbers as they are now."""
        now = {
            field.name: str(field.type.type) for field in DeltaTable(self.path).schema().fields if field.name in "xy"
        }
        return {name: KINDS.get(kind, kind.upper()) for name, kind in now.items()}

    def _change(self) -> None:
        draw, steps = self.draw, [self._add, self._delete, self._update, self._replace, self._put_back, self._copy]
        if self.is_mapped:
            steps += [self._swap, self._swap, self._add_again, self._add_again, self._rename_back, self._optimize]
        else:
            steps.append(self._upgrade)
        if any(kind in WIDER for kind in self._kinds().values()):
            steps += [self._widen] * 3
        step = draw.choice(steps)
        self.seen[step.__name__.strip("_")] += 1
        self.tell(step.__name__)
        step()

    def _sql(self, text: str) -> None:
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def _create(self, how: str, query: str = "") -> None:
        properties = ["'delta.enableChangeDataFeed' = 'true'"] if self.draw.random() < 0.7 else []
        columns = f"ts TIMESTAMP, ts2 TIMESTAMP, k STRING, k2 STRING, x {self.first[0]}, y {self.first[1]}, note STRING, other STRING"
        if self.is_mapped:
            properties.append("'delta.columnMapping.mode' = 'name'")
        given = f"TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self._sql(f"{how} {{t}} {'' if query else f'({columns})'} USING DELTA {given} {query}")

    def _rows(self, count: int) -> str:
        draw, kinds = self.draw, self._kinds()
        return ", ".join(
            f"(timestamp_seconds({draw.randrange(40_000)}), timestamp_seconds({draw.randrange(40_000) + 86_400}), "
            f"'a{draw.randrange(3)}', 'b{draw.randrange(3)}', {self._number(kinds['x'], 1)}, {self._number(kinds['y'], 80)}, "
            f"'n{draw.randrange(9)}', 'o{draw.randrange(9)}')"
            for _ in range(count)
        )

    def _number(self, kind: str, times: int) -> str:
        """Return a number of a type: one in ten is as large as it may be."""
        if self.draw.random() < 0.1:
            return f"CAST({LARGEST[kind]} AS {kind})"
        quarters = 0 if kind in ("SMALLINT", "INT", "BIGINT") else self.draw.randrange(4) / 4
        return f"CAST({self.draw.randrange(100) * times + quarters} AS {kind})"

    def _add(self, count: int = 3) -> None:
        self._sql(f"INSERT INTO {{t}} ({', '.join(NAMES)}) VALUES {self._rows(count)}")

    def _add_until(self, version: int) -> None:
        """Commit rows until the source is longer than what was captured."""
        while self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path}` LIMIT 1").first()["version"] <= version:
            self._add(1)

    def _delete(self) -> None:
        self._sql(f"DELETE FROM {{t}} WHERE x % 7 = {self.draw.randrange(7)}")

    def _update(self) -> None:
        self._sql(f"UPDATE {{t}} SET x = x - 1 WHERE y % 5 = {self.draw.randrange(5)}")

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
        name = self.draw.choice(["x", "note", "y", "other"])
        kind = self._kinds().get(name, "STRING")
        if kind != "STRING" and self.draw.random() < 0.2:
            kind = self.draw.choice(NUMBERS)
        self._sql(f"ALTER TABLE {{t}} DROP COLUMN {name}")
        self._sql(f"ALTER TABLE {{t}} ADD COLUMN {name} {kind}")

    def _widen(self) -> None:
        name, kind = self.draw.choice([(name, kind) for name, kind in self._kinds().items() if kind in WIDER])
        wide = self.draw.choice(WIDER[kind])
        self.tell(f"{name} {kind} becomes {wide}")
        if not DeltaTable(self.path).metadata().configuration.get("delta.enableTypeWidening"):
            self._sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        self._sql(f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {wide}")
        if self.draw.random() < 0.7:
            self._add()

    def _upgrade(self) -> None:
        self._sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        self.is_mapped = True

    def _replace(self) -> None:
        aliases = ", ".join(f"c{i}" for i in range(len(NAMES)))
        columns = ", ".join(f"c{i} AS {name}" for i, name in enumerate(NAMES))
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


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
