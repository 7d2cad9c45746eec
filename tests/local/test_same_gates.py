"""Two lakes over one source, one of each executor, have the same verdicts, failing rows, withheld buckets and change feeds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import PrimitiveType
from msgspec.structs import replace

from materializer import Materializer
from materializer.config import CanaryConfig, Config, QualityConfig
from materializer.errors import CanaryError, FewerRowsError, MaterializerError, QualityGateError
from tests.local.comparing import same
from tests.tables import clean_log, create

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("fee", pa.decimal128(10, 2)),
    ]
)
START = datetime(2025, 3, 28, tzinfo=UTC)
SELECT = """SELECT time_bucket('1 hour', ts) AS bucket, sym, sum(volume) AS total, count(*) AS n, last(price) AS close,
    avg(price) AS mean, sum(fee) AS fees, max(CAST(ts AS DATE)) AS day{more}
    FROM trades GROUP BY time_bucket('1 hour', ts), sym"""
CRITICAL = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "total", "max_value": 1000}}]
WARNINGS: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_values_to_not_be_null", {"column": "sym", "mostly": 0.9}),
    ("expect_column_values_to_be_null", {"column": "close"}),
    ("expect_column_values_to_be_unique", {"column": "close"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["sym", "n"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_column_values_to_be_between", {"column": "close", "min_value": 0.30000000000000004, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "fees", "max_value": 0}),
    ("expect_column_values_to_be_between", {"column": "bucket", "min_value": "2025-03-28T01:00:00Z"}),
    ("expect_column_values_to_be_between", {"column": "day", "max_value": "2025-03-27"}),
    ("expect_column_values_to_be_in_set", {"column": "sym", "value_set": ["A", "é"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "n", "value_set": [1, 2.0]}),
    ("expect_column_value_lengths_to_be_between", {"column": "sym", "max_value": 0}),
    ("expect_column_min_to_be_between", {"column": "bucket", "max_value": "2024-03-28"}),
    ("expect_column_max_to_be_between", {"column": "close", "max_value": -1e17}),
    ("expect_column_max_to_be_between", {"column": "day", "max_value": "2024-03-28"}),
    ("expect_column_mean_to_be_between", {"column": "total", "max_value": -1}),
    ("expect_column_mean_to_be_between", {"column": "mean", "max_value": -1}),
    ("expect_column_sum_to_be_between", {"column": "fees", "max_value": -1e6}),
    ("expect_column_sum_to_be_between", {"column": "total", "max_value": -1}),
    ("expect_column_unique_value_count_to_be_between", {"column": "close", "max_value": 0}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "sym", "min_value": 1.5}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "sym", "min_value": 1.5}),
    ("expect_table_row_count_to_be_between", {"max_value": 0}),
    ("expect_table_row_count_to_equal", {"value": 1000}),
    ("expect_table_column_count_to_equal", {"value": 1}),
]


class Lakes:
    """Two lakes over one source: what is done to both, and whether they are alike."""

    def __init__(
        self, folder: Path, spark: SparkSession, *expectations: dict[str, Any], more: str = "", **properties: str
    ) -> None:
        self.source = str(folder / "trades")
        create(self.source, SCHEMA)
        suites = folder / "expectations"
        suites.mkdir()
        if expectations:
            (suites / "bars.json").write_text(json.dumps({"name": "bars", "expectations": expectations}))
        config = Config(price_tie_ms=60_000, sources={"trades": self.source}, expectations=str(suites))
        self.lakes = {
            name: Materializer(folder / name, spark=spark, config=replace(config, executor=name))
            for name in ("local", "spark")
        }
        given = ", ".join(f"'{name.replace('__', '.')}' = '{value}'" for name, value in properties.items())
        for lake in self.lakes.values():
            lake.apply(f"CREATE MATERIALIZED VIEW bars TBLPROPERTIES ({given}) AS {SELECT.format(more=more)}")

    def trade(self, *rows: tuple[int, str | None, float, int]) -> None:
        """Append rows: minute, symbol, price, volume."""
        names = ("ts", "sym", "price", "volume", "fee")
        made = [(START + timedelta(minutes=m), s, p, v, Decimal(v).scaleb(-2)) for m, s, p, v in rows]
        table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in made], schema=SCHEMA)
        write_deltalake(self.source, table, mode="append")

    def refresh(self, **options: Any) -> list[type[MaterializerError] | str]:
        """Refresh both lakes, compare them, and return how it ended: the executor of each run, or what was raised."""
        ends = {}
        for name, lake in self.lakes.items():
            try:
                report = lake.refresh("bars", executor=name, **options)
                ends[name] = [run.report.executor or "spark" for run in report.runs]
            except MaterializerError as exc:
                ends[name] = [type(exc), exc.message.replace(str(lake.root), ""), exc.wrote]
        local, by_spark = ends["local"], ends["spark"]
        if isinstance(by_spark[0], str):
            assert (["local"] * len(by_spark), ["spark"] * len(by_spark)) == (local, by_spark)
        else:
            assert by_spark == local
        self.compare()
        return local

    def compare(self) -> None:
        """Assert that what refreshes wrote is alike."""
        for table in ("output", "failing", "changes"):
            found = [self.rows(name, table) for name in self.lakes]
            assert len(found[0]) == len(found[1])
            assert [] == [(a, b) for a, b in zip(*found, strict=True) if not same(a, b)][:1]
        reports = [lake.history("bars", None) for lake in self.lakes.values()]
        verdicts = [[(r.outcome, json.loads(json.dumps(r.verdict))) for r in found] for found in reports]
        assert [] == [(a, b) for a, b in zip(*verdicts, strict=True) if not alike(a, b)][:1]
        states = [lake.status("bars")[0] for lake in self.lakes.values()]
        assert states[0].dirty == states[1].dirty
        assert [s.canaries and (s.canaries.clean, s.canaries.touched, s.canaries.differed) for s in states[:1]] == [
            s.canaries and (s.canaries.clean, s.canaries.touched, s.canaries.differed) for s in states[1:]
        ]

    def check(self, **window: Any) -> set[str]:
        """Check what both have published, compare the reports, and return the types of what failed."""
        local, by_spark = (lake.check("bars", **window) for lake in self.lakes.values())
        assert ("", "the settings say so") == (local.left_to_spark, by_spark.left_to_spark)
        assert [] == [
            (a, b)
            for a, b in zip(local.verdict.findings, by_spark.verdict.findings, strict=True)
            if not alike(
                json.loads(json.dumps(a.as_json(), default=str)), json.loads(json.dumps(b.as_json(), default=str))
            )
        ]
        rows = [[{"index": r.index, **r.values} for r in report.rows] for report in (local, by_spark)]
        pairs = zip(*(sorted(found, key=lambda row: repr(list(row.values())[:3])) for found in rows), strict=True)
        assert [] == [(a, b) for a, b in pairs if not alike(a, b)]
        return {finding.type for finding in local.verdict.failed}

    def rows(self, lake: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in some order that both lakes have."""
        folder = str(self.lakes[lake].root / "bars" / table)
        if not DeltaTable.is_deltatable(folder):
            return []
        rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
        plain = [{k: v for k, v in row.items() if k != "_published_at"} for row in rows]
        if table == "failing":
            plain = [row | {"row": json.loads(row["row"])} for row in plain]
        return sorted(plain, key=lambda row: repr(list(row.values())[:4] if table != "failing" else row))


def alike(a: Any, b: Any) -> bool:
    """Return whether two values of a verdict are equal; doubles within the law."""
    return same(list(a) if isinstance(a, tuple) else a, list(b) if isinstance(b, tuple) else b)


def first(lakes: Lakes) -> None:
    """Publish four hours."""
    lakes.trade(*[(hour * 60 + i, sym, 1.5 * i, 10 + i) for hour in range(4) for i, sym in enumerate(["A", "B", "é"])])
    assert ["local"] == lakes.refresh()


@pytest.mark.parametrize("on_failure", ["refresh", "buckets"])
def test_both_executors_come_to_the_same_verdict(tmp_path: Path, spark: SparkSession, on_failure: str) -> None:
    """
    Expectations of each compiled kind, met and not met, have the same findings and failing rows; a critical failure holds back
    the same buckets, or the run with the same error; the correction is published.
    """
    warnings = [{"type": t, "kwargs": k, "severity": "warning"} for t, k in WARNINGS]
    lakes = Lakes(
        tmp_path, spark, *CRITICAL, *warnings, quality__checks="true", quality__on_failure=on_failure,
        output__change_feed="true", more=", collect_set(volume) AS seen",
    )  # fmt: skip
    first(lakes)
    lakes.trade((70, "A", 2.5, 2000), (71, None, float("nan"), 3), (125, "A", -0.0, 5))
    end = lakes.refresh()
    assert (["local"] if on_failure == "buckets" else QualityGateError) == (end if on_failure == "buckets" else end[0])
    DeltaTable(lakes.source).update(updates={"volume": "20"}, predicate="volume = 2000")
    lakes.refresh()

    reports = lakes.lakes["local"].history("bars", None)
    failed = {finding["index"] for report in reports for finding in report.verdict["output"]["failed"]}
    assert set(range(len(WARNINGS) + 1)) == failed
    assert [] == list(lakes.lakes["local"].status("bars")[0].dirty)


def test_both_executors_check_what_is_published(tmp_path: Path, spark: SparkSession) -> None:
    """
    ``check`` says the same of all rows, of a window, and of rows that others wrote: findings and failing rows.
    """
    warnings = [{"type": t, "kwargs": k, "severity": "warning"} for t, k in WARNINGS]
    lakes = Lakes(tmp_path, spark, *CRITICAL, *warnings, quality__checks="true", more=", collect_set(volume) AS seen")
    lakes.check()
    lakes.trade((71, None, float("nan"), 3), (125, "A", -0.0, 5))
    first(lakes)
    lakes.check()
    lakes.check(start="2025-03-28T01:00:00Z", end="2025-03-28T02:00:00Z")
    for lake in lakes.lakes.values():
        output = DeltaTable(str(lake.root / "bars" / "output"))
        rows = output.to_pyarrow_table().slice(0, 1)
        odd = rows.set_column(0, "bucket", pa.array([None], rows.schema.field("bucket").type))
        write_deltalake(output, pa.concat_tables([rows, odd]), mode="append")
    failed = lakes.check()
    assert {"unique_bucket_and_keys", "buckets_on_grid"} < failed


def test_both_executors_finalise_a_version_that_comes_back(tmp_path: Path, spark: SparkSession) -> None:
    """
    The output of a version that is taken back, and of one with another measure of the same partials, is alike.
    """
    lakes = Lakes(tmp_path, spark, quality__checks="true", more=", sum(volume) * 2 AS twice")
    first(lakes)
    lakes.trade((71, None, float("nan"), 3), (125, "A", -0.0, 5))
    lakes.refresh()
    for lake in lakes.lakes.values():
        lake.apply(f"CREATE MATERIALIZED VIEW bars AS {SELECT.format(more=', sum(fee) + 1 AS more')} HAVING n > 1")
        lake.switch("bars")
    lakes.compare()
    for lake in lakes.lakes.values():
        lake.rollback("bars")
        lake.build("bars")
    lakes.compare()


def test_both_executors_sample_the_same_canaries(tmp_path: Path, spark: SparkSession) -> None:
    """
    Canaries of both find nothing where nothing is wrong, and the same difference where stored partials or outputs are.
    """
    lakes = Lakes(tmp_path, spark, quality__canaries="80")
    first(lakes)
    lakes.trade(*[(130, "A", 2.5, 0)] * 50)  # so many that the next rows are merged
    assert ["local"] == lakes.refresh()
    for lake in lakes.lakes.values():
        partials = DeltaTable(str(next((lake.root / "bars" / "partials").iterdir())))
        column = next(f.name for f in partials.schema().fields if f.type == PrimitiveType("long"))
        partials.update(updates={column: f"{column} + 1"}, predicate="slice >= '2025-03-28T02:00:00Z'")
    lakes.trade((130, "A", 2.5, 7))
    assert CanaryError is lakes.refresh()[0]
    assert ["local"] == lakes.refresh()
    for lake in lakes.lakes.values():
        output = DeltaTable(str(lake.root / "bars" / "output"))
        output.update(updates={"total": "total + 1"}, predicate="bucket = '2025-03-28T00:00:00Z' AND sym = 'B'")
    lakes.trade((190, "A", 2.5, 7))
    assert CanaryError is lakes.refresh()[0]
    assert ["local"] == lakes.refresh()


def test_who_computes_canaries_can_be_chosen(tmp_path: Path, spark: SparkSession) -> None:
    """
    With ``quality.canaries.executor = spark`` Spark computes the canaries of a run of this process, and its jobs are counted;
    with ``local`` this process computes those of a run of Spark.
    """
    lakes = Lakes(tmp_path, spark, quality__canaries="80")
    first(lakes)
    jobs = {}
    for chosen in ("spark", "local", "auto"):
        lakes.trade((70, "A", 2.5, 7))
        for name in ("local", "spark"):
            quality = QualityConfig(CanaryConfig(chosen))  # type: ignore[arg-type]
            config = Config(price_tie_ms=60_000, sources={"trades": lakes.source}, quality=quality)
            lake = Materializer(tmp_path / name, spark=spark, config=config)
            jobs[chosen, name] = lake.refresh("bars", executor=name).runs[0].report.jobs
            assert lake.status("bars")[0].canaries.clean

    assert jobs["auto", "local"] == jobs["local", "local"] == 0
    assert jobs["spark", "local"]
    assert jobs["local", "spark"] < min(jobs["auto", "spark"], jobs["spark", "spark"])


def test_both_executors_write_the_same_change_feed(tmp_path: Path, spark: SparkSession) -> None:
    """
    After late rows, a correction, deletes, a refresh that changes nothing and a backfill in runs the feeds are equal, row by row.
    """
    lakes = Lakes(tmp_path, spark, output__change_feed="true")
    first(lakes)
    lakes.trade((70, "A", 2.5, 7), (70, "C", 2.5, 7))
    lakes.refresh()
    DeltaTable(lakes.source).update(updates={"price": "price + 1.0"}, predicate="sym = 'B' AND volume = 11")
    lakes.refresh()
    DeltaTable(lakes.source).delete("sym = 'é'")
    lakes.refresh()
    before = len(lakes.rows("local", "changes"))
    lakes.refresh(force=True)
    assert before == len(lakes.rows("local", "changes"))
    lakes.trade(*[(hour * 60, "A", 1.0, 5) for hour in range(30)])
    for name, lake in lakes.lakes.items():
        assert len(lake.backfill("bars", buckets_per_run=8, executor=name).runs) > 2
    lakes.compare()

    changes = lakes.rows("local", "changes")
    assert {"insert", "update_preimage", "update_postimage", "delete"} == {row["_change"] for row in changes}
    assert {"new", "late", "correction", "delete"} == {row["_reason"] for row in changes}


def test_both_executors_miss_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    """
    Rows that are gone without a captured change are counted alike, and the refresh is refused with the same words.
    """
    lakes = Lakes(tmp_path, spark, output__change_feed="true")
    first(lakes)
    lakes.trade((3, "A", 2.5, 7), (4, "A", 2.5, 7))
    lakes.refresh()
    DeltaTable(lakes.source).delete("sym = 'A' AND volume = 7 OR sym = 'B'")
    clean_log(lakes.source)

    assert FewerRowsError is lakes.refresh()[0]
    assert ["local"] == lakes.refresh(accept_fewer_rows=True)
