"""Trials: statements over one source, materialized, refreshed after late rows, and compared with plain Spark's answer to their texts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError
from tests import tables
from tests.local.scenes import alike
from tests.statements.drawing import Drawing
from tests.statements.writing import NOTES, Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH: Final = 40
"""Statements of a trial."""
ON_SPARK: Final = 8
"""Spark computes in one trial of so many, the process in the others."""
VERIFIED: Final = 10
"""One statement of so many is also asked by `verify`."""
DAY: Final = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA: Final = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"), "sym": pa.string(), "n": pa.int64(), "x": pa.float64(), "p": pa.decimal128(10, 2), "note": pa.string(),
        "d": pa.date32(), "flag": pa.bool_(), "größe": pa.string(), "select": pa.string(), "a-b": pa.string(), "x`y": pa.int32(),
    }
)  # fmt: skip
DDL: Final = (
    "ts timestamp, sym string, n bigint, x double, p decimal(10,2), note string, d date, flag boolean, `größe` string, `select` string, "
    "`a-b` string, `x``y` int"
)
PLAIN: Final = {
    "spark.sql.variable.substitute": "false",  # the one thing in which a definition is not what a notebook makes of it
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


class Found(Struct):
    """What a trial came to: how many statements were equal and refused, what was met, and what is wrong, by seed."""

    equal: int = 0
    refused: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, str] = field(default_factory=dict)


def text_of(seed: int) -> str:
    """Return the statement of a seed."""
    choose = random.Random(f"statement {seed}")
    return Drawing(choose, Writing(choose, is_plain=seed % 5 > 1)).statement()


class Trial:
    """The statements of one trial.

    Args:
        number: Its number; the seeds of its statements begin at this times :data:`EACH`.
        spark: The session.
        folder: Where its lake lies.
    """

    def __init__(self, number: int, spark: SparkSession, folder: Path) -> None:
        self.number, self.choose = number, random.Random(f"trial {number}")
        self.plain = spark.newSession()
        for name, value in PLAIN.items():
            self.plain.conf.set(name, value)
        executor = "spark" if number % ON_SPARK == ON_SPARK - 1 else "auto"
        self.lake = Materializer(folder, spark=spark, config=Config(executor=executor))
        self.source = str(folder / "src")
        tables.create(self.source, SCHEMA)

    def compared(self, seeds: Iterable[int]) -> Found:
        """Return what becomes of statements."""
        found, texts = Found(), {seed: text_of(seed) for seed in seeds}
        self._write(90, 0)
        names = {seed: name for seed, text in texts.items() if (name := self._applied(seed, text, found))}
        failed = {seed: self._refreshed(name, found) for seed, name in names.items()}
        self._write(25, -7)
        for seed, name in names.items():
            failed[seed] = self._refreshed(name, found) or failed[seed]
            said = self._compared(texts[seed], name, failed[seed], found)
            if not said and not failed[seed] and seed % VERIFIED == 0:
                said = self._verified(name)
            if said:
                found.wrong[seed] = f"{said}: {texts[seed]!r}"
        return found

    def _write(self, count: int, hours: int) -> None:
        """Write rows, from some hours before a day begins."""
        choose = self.choose
        notes = [*NOTES, None]
        rows = [
            {
                "ts": DAY + timedelta(hours=hours, seconds=choose.choice((0, 60, 1_800, 3_599)) + 3_600 * choose.randrange(30)),
                "sym": choose.choice(("A", "a", "B", "b b", "", None)), "n": choose.choice((0, 1, 2, 7, -3, None, 2**31)),
                "x": choose.choice((0.0, -0.0, 0.1, 1.5, -2.5, 5e-324, 1e15, None)), "p": choose.choice((Decimal("1.50"), Decimal("-0.10"), None)),
                "note": notes[at % len(notes)], "d": choose.choice((date(2024, 3, 1), date(2024, 3, 2), None)),
                "flag": choose.choice((True, False, None)), "größe": choose.choice(NOTES), "select": choose.choice(NOTES),
                "a-b": choose.choice(("q", "Q", None)), "x`y": choose.randrange(3),
            }
            for at in range(count)
        ]  # fmt: skip
        tables.append(self.source, pa.Table.from_pylist(rows, schema=SCHEMA))
        whole = DeltaTable(self.source).to_pyarrow_table()
        self.plain.createDataFrame(whole.cast(SCHEMA), DDL).createOrReplaceTempView("src")

    def _applied(self, seed: int, text: str, found: Found) -> str:
        """Return the name of the aggregate of a statement; "" if it was refused."""
        name = f"s{seed}"
        try:
            self.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        except MaterializerError as exc:
            if (Path(self.lake.root) / name).exists():
                found.wrong[seed] = f"refused by {exc.code}, with files left: {text!r}"
            found.refused += 1
            found.seen[f"refused: {_code_of(exc)}{'' if self._refusal(text) else ', which Spark answers'}"] += 1
            return ""
        except Exception as exc:  # noqa: BLE001  # whatever it is, it is found
            found.wrong[seed] = f"apply raised {exc!r:.300}: {text!r}"
            return ""
        return name

    def _refusal(self, text: str) -> str:
        try:
            self.plain.sql(text)
        except Exception as exc:  # noqa: BLE001  # of whatever class Spark likes
            return _of_spark(exc)
        return ""

    def _refreshed(self, name: str, found: Found) -> str:
        try:
            report = self.lake.refresh(name)
        except MaterializerError as exc:
            return _code_of(exc)
        except Exception as exc:  # noqa: BLE001
            return f"CRASH {exc!r:.300}"
        found.seen.update(f"computed by {run.report.executor or 'spark'}" for run in report.runs)
        return ""

    def _compared(self, text: str, name: str, failed: str, found: Found) -> str:
        """Return what is wrong with the rows of an aggregate, or ""."""
        try:
            theirs = self.plain.sql(text).toArrow()
        except Exception as exc:  # noqa: BLE001
            said = _of_spark(exc)
            found.seen.update([f"failed as in Spark: {said}"] if failed else [])
            return failed if failed.startswith("CRASH") else "" if failed else f"computed, and Spark says {said}"
        if failed:
            return f"Spark answers, and a refresh says {failed}"
        ours = DeltaTable(str(Path(self.lake.root) / name / "output")).to_pyarrow_table()
        found.seen["rows"] += ours.num_rows
        said = differs(ours, theirs)
        found.equal += not said
        return said

    def _verified(self, name: str) -> str:
        try:
            report = self.lake.verify(name)
        except MaterializerError as exc:
            return f"verify says {_code_of(exc)} {exc.message[:200]}"
        return "" if report.is_equal else f"verify says {report.differing} rows differ"


def differs(ours: pa.Table, theirs: pa.Table) -> str:
    """Return in what two tables differ, in whatever order their rows are; or ""."""
    if [n.lower() for n in ours.column_names] != [n.lower() for n in theirs.column_names]:
        return f"columns {ours.column_names}, in Spark {theirs.column_names}"
    kinds = [
        [str(kind).replace("large_", "").replace(" not null", "") for kind in rows.schema.types]
        for rows in (ours, theirs)
    ]
    if kinds[0] != kinds[1]:
        return f"types {kinds[0]}, in Spark {kinds[1]}"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows, in Spark {theirs.num_rows}"
    a, b = (sorted(_rows(rows), key=lambda row: [_place(v) for v in row]) for rows in (ours, theirs))
    for one, other in zip(a, b, strict=True):
        if not all(alike(x, y, is_loose=True) for x, y in zip(one, other, strict=True)):
            return f"{one}, in Spark {other}"
    return ""


def _rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = []
    for column in rows.columns:
        is_instant = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
        columns.append(
            (
                column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64()) if is_instant else column
            ).to_pylist()
        )
    return list(zip(*columns, strict=True))


def _place(value: Any) -> tuple[bool, str]:
    return value is None, f"{value:.6g}" if isinstance(value, float) else str(value)


def _code_of(exc: MaterializerError) -> str:
    problems = getattr(exc, "problems", ())
    return problems[0].code if problems else exc.code


def _of_spark(exc: Exception) -> str:
    said = getattr(exc, "getCondition", lambda: None)()
    return str(said or type(exc).__name__)
