"""Data Docs as people get them: by the command, from what an aggregate publishes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer.adapters.cli.app import main
from tests.system.builders import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.quality

EXPECTATIONS = [
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "total", "max_value": 10}},
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "sym"}},
    # whose outcome is a boolean of numpy
    {
        "type": "expect_column_quantile_values_to_be_between",
        "kwargs": {"column": "total", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[0, 60]]}},
    },
]


def text_of(page: Path) -> str:
    """Return what a page shows, without its markup."""
    shown = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(shown.split())


def test_check_writes_pages_that_name_what_failed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `check NAME --docs FOLDER` exits 1 for what is published and wrong, and its pages say which suite and expectation.
    """
    site = Site(tmp_path, spark, expectations=tmp_path / "expectations")
    site.config.expectations.mkdir()
    suite = {"name": "totals of an hour", "expectations": EXPECTATIONS}
    (site.config.expectations / "hourly.json").write_text(json.dumps(suite))
    site.table().trade(("00:10", "A", 1), ("01:10", "A", 50))
    site.hourly()
    site.lake.refresh("hourly", publish_anyway="to be looked at")
    folder = tmp_path / "docs"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATERIALIZER_LAKE", str(site.lake.root))
    capsys.readouterr()
    status = main(["check", "hourly", "--docs", str(folder), "--json"])
    told = capsys.readouterr()

    assert 1 == status, told.err
    [checked] = json.loads(told.out)["checked"]
    asked = {finding["type"]: finding["success"] for finding in checked["findings"]}
    assert [False, True, True] == [asked[expectation["type"]] for expectation in EXPECTATIONS]
    index = Path(checked["docs"])
    assert index.is_relative_to(folder)
    assert "totals of an hour" in index.read_text(encoding="utf-8")
    [page] = index.parent.glob("validations/**/*.html")
    shown = text_of(page)
    assert "Expectation Suite: totals of an hour Data asset: None Status: Failed" in shown
    assert "values must be less than or equal to 10.0 . 1 unexpected values found. 50% of 2 total rows." in shown
    assert "values must never be null. 100% not null" in shown
