"""What is published is checked in this process; the engine that stands for Spark cannot compute."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from msgspec.structs import replace

from materializer.adapters.cli.render.check import CheckResult
from materializer.config import Config
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import Epoch
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import Checked
from tests.services.no_spark import LocalLake, NoSpark

HOUR = 3_600_000_000
DEFINITION = """CREATE MATERIALIZED VIEW hourly TBLPROPERTIES ('quality.checks' = 'true')
AS SELECT time_bucket('1 hour', ts) AS at, sum(v) AS v FROM raw GROUP BY time_bucket('1 hour', ts);"""


def output_rows(*rows: tuple[datetime | None, int]) -> pa.Table:
    """Return rows of the output."""
    shape = pa.schema([("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    return pa.Table.from_pylist([{"at": at, "v": v} for at, v in rows], schema=shape)


def suite(path: Path, most: int) -> str:
    """Write a suite by which no value is larger, and return its place."""
    kwargs = {"column": "v", "max_value": most}
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    path.write_text(json.dumps({"name": path.stem, "expectations": [expectation]}))
    return str(path)


@pytest.fixture
def machine_of_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has the zone of New York."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with the published values 6, 7 and 8 of three hours."""
    suite(tmp_path / "hourly.json", 100)
    lake = LocalLake(tmp_path, config=Config(price_tie_ms=60_000, expectations=str(tmp_path)))
    lake.add((0, 1), (1, 5), (HOUR, 7), (2 * HOUR, 8))
    lake.apply(DEFINITION)
    lake.opened.refresh("hourly")
    return lake


def test_what_is_published_is_checked_without_spark(lake: LocalLake) -> None:
    """
    Suite and built-in checks are answered over all rows, and the journal gets the verdict.
    """
    report = lake.opened.check("hourly")

    assert (True, "", 3) == (report.verdict.is_publishable, report.left_to_spark, len(report.verdict.findings))
    [checked] = lake.state("hourly").checks
    assert (3, report.version, Checked) == (checked["passed"], checked["version"], Checked)


def test_what_the_gate_withholds_is_not_checked(tmp_path: Path) -> None:
    """
    The rows that are published meet the suite; the check names the buckets that are not.
    """
    suite(tmp_path / "hourly.json", 6)
    lake = LocalLake(tmp_path, config=Config(price_tie_ms=60_000, expectations=str(tmp_path)))
    lake.add((0, 1), (1, 5), (HOUR, 7))
    lake.apply(DEFINITION.replace("'quality.checks'", "'quality.on_failure' = 'buckets', 'quality.checks'"))
    lake.opened.refresh("hourly")

    report = lake.opened.check("hourly")

    assert report.verdict.is_publishable
    assert SpanSet.of(Span(HOUR, 2 * HOUR)) == report.withheld
    assert "withheld by the gate" in str(report)
    assert not lake.opened.check("hourly", end="1970-01-01T01:00:00Z").withheld


def test_rows_that_fail_are_shown(lake: LocalLake) -> None:
    """
    Another suite names the rows that do not meet it; of a window only its rows are checked.
    """
    strict = suite(lake.root / "strict.json", 6)
    everything = lake.opened.check("hourly", suite=strict)
    window = lake.opened.check("hourly", end="1970-01-01T02:00:00Z", suite=strict)

    counts = [r.verdict.findings[-1].unexpected_count for r in (everything, window)]
    assert ([2, 1], [7, 8]) == (counts, sorted(row.values["v"] for row in everything.rows))
    assert [7] == [row.values["v"] for row in window.rows]


def test_times_of_rows_that_fail_have_their_zone(lake: LocalLake, machine_of_new_york: None) -> None:
    """
    As everywhere, whatever the zone of the machine is: in the report, as text and as JSON.
    """
    report = lake.opened.check("hourly", suite=suite(lake.root / "strict.json", 7))
    shown = CheckResult(report, report.time_type)
    at = datetime(1970, 1, 1, 2, tzinfo=UTC)

    assert [{"at": at, "v": 8}] == [row.values for row in report.rows]
    assert "at=1970-01-01T02:00:00Z, v=8" in " ".join(shown.lines(200))
    assert [{"at": "1970-01-01T02:00:00Z", "v": 8}] == [row["values"] for row in shown.form()["rows"]]


def test_times_that_are_parts_of_a_second_are_shown_as_times(lake: LocalLake) -> None:
    """
    Of the bucket, where the definition says what a tick is; a number of another column stays one, and JSON has the numbers.
    """
    report = lake.opened.check("hourly", suite=suite(lake.root / "strict.json", 7))
    row = replace(report.rows[0], values={"at": 1_795_132_800_000, "v": 8})
    kind = Epoch(TimeType.BIGINT, Resolution.MS)
    shown = CheckResult(replace(report, rows=(row,)), kind, {"at": kind})

    assert "at=2026-11-20T00:00:00Z, v=8" in " ".join(shown.lines(200))
    assert [row.values] == [each["values"] for each in shown.form()["rows"]]


def test_a_row_without_a_bucket_is_found(lake: LocalLake) -> None:
    """
    A row that something else wrote into the output is checked, too, also where it has no bucket.
    """
    output = str(lake.root / "hourly" / "output")
    write_deltalake(output, output_rows((None, 1)), mode="append")
    failed = {f.type: f.unexpected_count for f in lake.opened.check("hourly").verdict.failed}
    assert {"buckets_on_grid": 1} == failed

    again = output_rows((datetime(1970, 1, 1, tzinfo=UTC), 6))
    write_deltalake(output, again, mode="append")
    failed = {f.type: f.unexpected_count for f in lake.opened.check("hourly").verdict.failed}
    assert {"buckets_on_grid": 1, "unique_bucket_and_keys": 2} == failed


class AsksSpark(NoSpark):
    """Says that Spark was asked for rows."""

    def read_output(self, path: str, version: int) -> Any:
        """See :class:`materializer.spark.run.spark.Spark`."""
        raise LookupError(f"Spark reads version {version} of {path}")


@pytest.mark.parametrize("bound", [{"config": Config(executor="spark")}, {"size": 8}, {"rows": 0}])
def test_what_this_process_does_not_check_is_left_to_spark(tmp_path: Path, bound: dict[str, Any]) -> None:
    """
    With ``executor = spark``, and where rows are more than this process may hold, Spark is asked for.
    """
    lake = LocalLake(tmp_path, engine=AsksSpark(), **bound)
    lake.apply(DEFINITION)
    write_deltalake(
        str(tmp_path / "hourly" / "output"), output_rows((datetime(1970, 1, 1, tzinfo=UTC), 6)), mode="append"
    )

    with pytest.raises(LookupError, match="Spark reads version 1"):
        lake.opened.check("hourly")
