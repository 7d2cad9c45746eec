"""Tests of definitions that this process cannot compute: Spark does, in a lake of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SQL = """CREATE MATERIALIZED VIEW visits AS SELECT session_window.start AS begun, who, count(*) AS n
FROM clicks GROUP BY session_window(at, '30 minutes'), who;
CREATE MATERIALIZED VIEW shares TBLPROPERTIES ('refresh.start_offset' = '3 days', 'output.retention' = '30 days') AS
SELECT time_bucket('1 day', at) AS day, count(*) / count(who) AS share, max(reverse(who)) AS last
FROM clicks GROUP BY time_bucket('1 day', at);
"""
TESTS = """columns: {at: timestamp, who: string, n: int}
unit_tests:
  - name: a_text_is_turned_by_spark
    model: shares
    given: [{rows: [{at: 2024-03-01, who: a, n: 1}, {at: 2024-03-01, who: b, n: 3}, {at: 2024-03-01, who: c, n: 3}]}]
    expect: {rows: [{day: 2024-03-01, share: 1, last: c}]}
  - name: a_pause_ends_a_visit_and_the_last_is_open
    model: visits
    given: [{rows: [{at: 2024-03-01, who: a}, {at: 2024-03-01T00:20:00, who: a}, {at: 2024-03-01T01:00:00, who: a}]}]
    expect: {rows: [{begun: 2024-03-01, who: a, n: 2}]}
  - name: a_division_fails
    model: shares
    given: [{rows: [{at: 2024-03-01}]}]
    expect: {rows: []}
"""


def test_spark_computes_what_this_process_cannot(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With `auto`, old rows are not discarded by a retention, and what Spark says of wrong rows is said. The lake stays empty.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "shares.sql").write_text(SQL)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "shares.yml").write_text(TESTS)
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config(lake=str(tmp_path / "lake")))

    turned, visits, failed = lake.test(executor="auto")

    assert turned.error is None
    assert (turned.is_passed, turned.executor) == (True, "spark"), turned.differences
    assert visits.is_passed, (visits.error, visits.differences)
    assert isinstance(failed.error, DataError)
    assert not (tmp_path / "lake").exists()
