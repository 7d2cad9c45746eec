"""Capture without a JVM over tables that Spark wrote, held against Spark's own change feed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.lake.capture.capture import CaptureResult, NeedsSpark, Rung, capture_by_files, capture_without_spark
from materializer.lake.extent import files
from materializer.lake.log import commits
from materializer.lake.table import DeltaFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000_000
GRID: dict[str, Any] = {"floor": lambda t: t // HOUR * HOUR, "next_edge": lambda e: e + HOUR}
COLUMN: dict[str, Any] = {"time_column": "ts", "time_type": TimeType.TIMESTAMP}
FEED = "'delta.enableChangeDataFeed' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"


class Source:
    """A table of (ts, sym, price) at a path, written by Spark."""

    def __init__(self, spark: SparkSession, path: Path, *properties: str) -> None:
        self.spark = spark
        self.path = str(path)
        self.name = f"delta.`{path}`"
        given = ", ".join(properties)
        self.sql(
            f"CREATE TABLE {self.name} (ts TIMESTAMP, sym STRING, price BIGINT) USING delta TBLPROPERTIES ({given})"
        )

    def sql(self, text: str) -> None:
        """Run a statement in which ``{t}`` is the table."""
        self.spark.sql(text.replace("{t}", self.name)).collect()

    def insert(self, *rows: tuple[int, str]) -> None:
        """Insert (hour, sym) rows as one file."""
        values = ", ".join(f"(timestamp_micros({int(h * HOUR)}), '{s}', 1)" for h, s in rows)
        self.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    @property
    def version(self) -> int:
        """The newest version."""
        return DeltaFolder(self.path).head().version

    def capture(self, after: int, **options: Any) -> CaptureResult | NeedsSpark:
        """Capture everything after a version."""
        asked = {
            "after": after,
            "upto": self.version,
            "table_id": DeltaFolder(self.path).head().table_id,
            "keys": ("sym",),
            "max_rows": 10_000,
            "max_bytes": 1 << 28,
        }
        return capture_without_spark(self.path, **(asked | COLUMN | GRID | options))

    def by_files(self, after: int) -> CaptureResult:
        """Capture everything after a version by files."""
        return capture_by_files(
            self.path, after=after, from_version=after + 1, to_version=self.version, reason="asked", **COLUMN, **GRID
        )

    def truth(self, after: int) -> list[tuple[int | None, str, str, int]]:
        """Return (hour, sym, kind, version) of every row of Spark's change feed."""
        reader = self.spark.read.option("readChangeFeed", "true").option("startingVersion", after + 1)
        hour = f"CAST(floor(unix_micros(ts) / {HOUR}) AS BIGINT)"
        rows = (
            reader.format("delta").load(self.path).selectExpr(hour, "sym", "_change_type", "_commit_version").collect()
        )
        return [tuple(r) for r in rows]


def hours(found: CaptureResult) -> list[int]:
    spans = SpanSet.union(s for p in found.pieces for s in p.times)
    assert all(s.is_bounded for s in spans), found.reasons
    return [h for s in spans for h in range(s.start // HOUR, s.end // HOUR)]


def counted(found: CaptureResult) -> dict[int, tuple[int, int, int, int]]:
    return {c.version: (c.inserted, c.updated_pre, c.updated_post, c.deleted) for c in found.per_version}


def assert_equals_spark(source: Source, after: int, feed: list[tuple[int | None, str, str, int]]) -> None:
    """Buckets, keys and counts of Spark's *feed* are captured, and the bound by files holds them without being everything."""
    truth = [row for row in feed if row[-1] > after]
    timed = [r for r in truth if r[0] is not None]
    found = source.capture(after)
    assert isinstance(found, CaptureResult)
    assert all(p.rung is Rung.FEED for p in found.pieces), found.reasons
    assert sorted({h for h, *_ in timed}) == hours(found)
    for piece in found.pieces:
        inside = [r for r in timed if r[0] * HOUR in piece.times]
        assert {(s,) for _, s, *_ in inside} == piece.keys
        assert piece.is_insert_only == all(kind == "insert" for _, _, kind, _ in inside)
    kinds = ("insert", "update_preimage", "update_postimage", "delete")
    versions = {v for *_, v in truth}
    assert {v: tuple(sum(r[2:] == (k, v) for r in truth) for k in kinds) for v in versions} == counted(found)
    assert len(truth) - len(timed) == sum(c.null_time for c in found.per_version)
    assert {h for h, *_ in timed} <= bounded(source, after)


def bounded(source: Source, after: int) -> set[int]:
    found = source.by_files(after)
    assert all(p.rung is Rung.FILES for p in found.pieces), found.reasons
    return set(hours(found))


STATEMENTS = (
    "UPDATE {t} SET price = 2 WHERE sym = 'a'",
    "UPDATE {t} SET ts = ts + INTERVAL 7 HOURS WHERE sym = 'b'",
    "DELETE FROM {t} WHERE sym = 'c' AND ts < timestamp_micros(20000000000)",
    "DELETE FROM {t} WHERE sym = 'whole'",
    """MERGE INTO {t} t USING (SELECT * FROM VALUES ('a', 5), ('new', 6) AS s(sym, price)) s ON t.sym = s.sym
       WHEN MATCHED THEN UPDATE SET price = s.price
       WHEN NOT MATCHED THEN INSERT (ts, sym, price) VALUES (timestamp_micros(400000000000), s.sym, s.price)""",
    "OPTIMIZE {t}",
    "OPTIMIZE {t} ZORDER BY (ts)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('note' = 'x')",
    "INSERT INTO {t} (ts, sym, price) VALUES (NULL, 'null', 1)",
    "INSERT OVERWRITE {t} (ts, sym, price) SELECT ts, sym, price FROM {t} WHERE sym <> 'b'",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "ALTER TABLE {t} ADD COLUMN extra INT",
    "INSERT INTO {t} (ts, sym, price, extra) VALUES (timestamp_micros(800000000000), 'e', 1, 2)",
)


def changed(source: Source) -> None:
    source.insert((1, "a"), (2, "b"), (3, "c"), (9, "c"))
    source.insert((30, "whole"), (31, "whole"))
    source.insert((50, "a"), (-3, "b"))
    for statement in STATEMENTS:
        source.sql(statement)


def test_what_spark_wrote_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    """
    UPDATE, DELETE, MERGE, OPTIMIZE, ZORDER, added columns, overwrite and RESTORE: from any version on, the captured
    buckets, keys and counts are those of Spark's change feed.
    """
    source = Source(spark, tmp_path / "t", FEED, NO_VECTORS)
    changed(source)
    feed = source.truth(0)

    assert 4 == len({row[2] for row in feed})
    for after in (0, 8):
        assert_equals_spark(source, after, feed)


def test_maintenance_by_spark_dirties_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """
    OPTIMIZE, ZORDER and changed properties are versions without changes, with and without the feed.
    """
    for name, feed in (("fed", FEED), ("bare", "'delta.enableChangeDataFeed' = 'false'")):
        source = Source(spark, tmp_path / name, feed, NO_VECTORS)
        source.insert((1, "a"))
        source.insert((2, "b"))
        before = source.version
        for statement in (
            "OPTIMIZE {t}",
            "OPTIMIZE {t} ZORDER BY (ts)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('x' = 'y')",
        ):
            source.sql(statement)
        found = source.capture(before)

        assert source.version > before
        assert isinstance(found, CaptureResult)
        assert ((), ()) == (found.pieces, found.per_version)


def test_deletion_vectors_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """
    With deletion vectors the library is wrong, so Spark reads the feed; files bound the change all the same, and an
    estimate counts no deleted row as missing.
    """
    source = Source(spark, tmp_path / "t", FEED, VECTORS)
    source.insert(*((h, "a") for h in range(20)), (3, "b"))
    source.sql("DELETE FROM {t} WHERE sym = 'b'")
    source.sql("DELETE FROM {t} WHERE ts < timestamp_micros(7200000000)")
    source.sql("UPDATE {t} SET ts = ts + INTERVAL 90 HOURS WHERE ts = timestamp_micros(18000000000)")
    source.sql("DELETE FROM {t} WHERE true")
    found = source.capture(0)

    assert isinstance(found, NeedsSpark)
    assert "deletion vectors" in found.reason
    assert [(1, source.version)] == [(s.from_version, s.to_version) for s in found.segments]
    assert any(f.has_deletion_vector for c in commits(source.path, 0, source.version) for f in c.adds)
    feed = source.truth(0)
    for after in range(source.version):
        assert {h for h, *_, version in feed if version > after} <= bounded(source, after)
    assert 19 <= files(source.path, 3, "ts", TimeType.TIMESTAMP).estimate(SpanSet.of(EVERYTHING)).rows


def test_vectors_dropped_in_between_still_count(spark: SparkSession, tmp_path: Path) -> None:
    """
    A table that had deletion vectors in the run of versions is not read by the driver, whatever its properties say now.
    """
    source = Source(spark, tmp_path / "t", FEED, VECTORS)
    source.insert(*((h, "a") for h in range(5)), (3, "b"))
    source.sql("DELETE FROM {t} WHERE sym = 'b'")
    source.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    source.sql("REORG TABLE {t} APPLY (PURGE)")
    source.insert((9, "a"))

    assert isinstance(source.capture(1), NeedsSpark)


def test_mapped_columns_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """
    Mapped columns have other names in the files: Spark reads the feed, and statistics are found under the physical name.
    """
    source = Source(spark, tmp_path / "t", FEED, NO_VECTORS, "'delta.columnMapping.mode' = 'name'")
    source.insert((1, "a"), (4, "b"))
    source.sql("ALTER TABLE {t} RENAME COLUMN sym TO symbol")
    source.sql("ALTER TABLE {t} RENAME COLUMN ts TO moment")
    source.sql("INSERT INTO {t} VALUES (timestamp_micros(36000000000), 'c', 1)")
    source.sql("DELETE FROM {t} WHERE symbol = 'c'")
    renamed = {"time_column": "moment", "keys": ("symbol",)}
    found = source.capture(0, **renamed)
    asked = COLUMN | GRID | {"time_column": "moment", "reason": "asked"}

    assert isinstance(found, NeedsSpark)
    assert "mapped" in found.reason
    filed = capture_by_files(source.path, after=3, from_version=4, to_version=5, **asked)
    assert [10] == hours(filed)
    assert [1, 2, 3, 4, 10] == hours(capture_by_files(source.path, after=0, from_version=1, to_version=5, **asked))
    extent = files(source.path, 4, "moment", TimeType.TIMESTAMP)
    assert {(HOUR, 4 * HOUR + 1_000), (10 * HOUR, 10 * HOUR + 1_000)} == {(f.start, f.end) for f in extent.files}


def test_the_feed_switched_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """
    Versions with the feed are read finely, those without by files.
    """
    source = Source(spark, tmp_path / "t", NO_VECTORS)
    source.insert((1, "a"), (4, "b"))
    source.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    source.insert((11, "a"), (14, "b"))
    source.sql("DELETE FROM {t} WHERE sym = 'b'")
    source.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')")
    source.insert((21, "a"), (23, "b"))
    found = source.capture(0)

    assert isinstance(found, CaptureResult)
    assert [1, 2, 3, 4, 11, 14, 21, 22, 23] == hours(found)
    assert [Rung.FILES, Rung.FEED, Rung.FEED, Rung.FILES] == [c.rung for c in found.per_version]
    assert_equals_spark_between(source, 2, 4)


def assert_equals_spark_between(source: Source, after: int, upto: int) -> None:
    rows = source.spark.read.option("readChangeFeed", "true").option("startingVersion", after + 1)
    frame = rows.option("endingVersion", upto).format("delta").load(source.path)
    found = source.capture(after, upto=upto)
    assert isinstance(found, CaptureResult)
    assert frame.count() == sum(sum(c) for c in counted(found).values())


@pytest.mark.parametrize(("hour", "is_known"), [(-1_000, True), (-1_000_000, False)])
def test_zones_in_statistics(spark: SparkSession, tmp_path: Path, hour: int, is_known: bool) -> None:
    """
    Spark writes statistics with the session zone's offset: spans are instants all the same. The library cannot read the
    offsets with seconds of before 1883; such a file is unknown to an extent, not misplaced.
    """
    source = Source(spark, tmp_path / "t", NO_VECTORS)
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for n, name in enumerate(("America/New_York", "Asia/Kathmandu")):
            spark.conf.set("spark.sql.session.timeZone", name)
            source.insert((n, "a"), (hour, "a"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    spans = [f.span for c in commits(source.path, 0, 2, column="ts", time_type=TimeType.TIMESTAMP) for f in c.adds]
    expected = [(hour * HOUR, 1_000), (hour * HOUR, HOUR + 1_000)]
    extent = files(source.path, 2, "ts", TimeType.TIMESTAMP)

    assert expected == [(s.start, s.end) for s in spans if s]
    assert (expected if is_known else []) == [(f.start, f.end) for f in extent.files]
    assert (0 if is_known else 2) == extent.unknown.files


def test_a_clustered_source(spark: SparkSession, tmp_path: Path) -> None:
    """
    Clustering and row tracking change nothing for a reader of the feed.
    """
    path = tmp_path / "t"
    properties = f"{FEED}, {NO_VECTORS}, 'delta.enableRowTracking' = 'true'"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (ts TIMESTAMP, sym STRING, price BIGINT) USING delta CLUSTER BY (ts) TBLPROPERTIES ({properties})"
    )
    source = Source.__new__(Source)
    source.spark, source.path, source.name = spark, str(path), f"delta.`{path}`"
    source.insert((1, "a"), (4, "b"))
    source.sql("UPDATE {t} SET price = 3 WHERE sym = 'a'")
    source.sql("OPTIMIZE {t}")
    features = DeltaFolder(source.path).features()

    assert (True, True) == (features.is_clustered, features.has_row_tracking)
    assert_equals_spark(source, 0, source.truth(0))
