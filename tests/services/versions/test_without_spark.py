"""A next version is begun, built, published and taken back in this process; the engine that stands for Spark cannot compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from materializer.config import Config
from materializer.errors import QualityGateError
from tests.services.no_spark import LocalLake, each

SUM, COUNT = "sum(v) AS v", "sum(v) AS v, count(*) AS n"


def expected(root: Path, most: int) -> None:
    """Let the values of an output be at most this."""
    kwargs = {"column": "v", "max_value": most}
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    (root / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": [expectation]}))


def view(width: str, measures: str) -> str:
    """Return a definition with buckets of a width, an hour or more."""
    bucket = each(width).format("ts")
    checks = "TBLPROPERTIES ('quality.checks' = 'true')"
    return f"CREATE MATERIALIZED VIEW hourly {checks} AS SELECT {bucket} AS at, {measures} FROM raw GROUP BY {bucket};"


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with two hours that are published, with a suite that they meet."""
    expected(tmp_path, 100)
    lake = LocalLake(tmp_path, config=Config(price_tie_ms=60_000, expectations=str(tmp_path)))
    lake.add((0, 1), (1, 5), (3_600_000_000, 7))
    lake.apply(view("1 hour", SUM))
    lake.opened.refresh("hourly")
    return lake


def rows(lake: LocalLake) -> list[list[Any]]:
    """Return the values of the output in the order of its buckets."""
    return [list(row.values())[1:] for row in lake.rows_of("hourly")]


def test_a_version_is_built_and_taken_back(lake: LocalLake) -> None:
    """
    The next version is computed from the source; the one before is finalised again from its partials, with what changed since.
    """
    lake.apply(view("2 hours", COUNT))
    assert lake.opened.build("hourly").switched is not None
    assert [[13, 3]] == rows(lake)

    lake.add((2, 10))
    lake.opened.rollback("hourly")
    report = lake.opened.build("hourly")
    assert report.switched is not None
    assert ["local"] == [run.report.executor for run in report.runs]
    assert [[16], [7]] == rows(lake)


def test_an_added_measure_is_finalised_from_partials(lake: LocalLake) -> None:
    """
    A measure that the stored partials have is computed from these, and its output is checked.
    """
    lake.apply(view("1 hour", f"{SUM}, sum(v) + 1 AS more"))
    lake.opened.switch("hourly")

    assert [[6, 7], [7, 8]] == rows(lake)


def test_a_build_is_checked_once(lake: LocalLake) -> None:
    """
    The gate has checked the rows of a build when it is published; they are not checked again.
    """
    checks: list[str] = []
    lake.at["check_journal"] = lambda: checks.append("check")
    lake.apply(view("2 hours", COUNT))
    lake.opened.build("hourly")

    assert [] == checks


def test_a_build_that_is_accepted_is_published(lake: LocalLake) -> None:
    """
    What a run of a build published for a reason is not refused when the build is switched.
    """
    expected(lake.root, 9)
    lake.apply(view("2 hours", COUNT))
    assert lake.opened.build("hourly", publish_anyway="known").switched is not None

    assert [[13, 3]] == rows(lake)


def test_what_a_run_refused_is_not_published(lake: LocalLake) -> None:
    """
    A build whose rows do not meet their expectations is not published.
    """
    expected(lake.root, 9)
    lake.apply(view("2 hours", COUNT))
    with pytest.raises(QualityGateError):
        lake.opened.build("hourly")

    assert [[6], [7]] == rows(lake)
