"""OpenLineage events of what needs Spark: gates, checks, builds and switches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from materializer.config import MetricsConfig, OpenLineageConfig
from materializer.core.language.define import define
from materializer.errors import QualityGateError
from tests.adapters.openlineage.schemas import problems
from tests.system.builders import MEASURES, Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("openlineage.client", reason="needs the extra `openlineage`")

SUITE = [
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "top", "max_value": 3}, "severity": "warning"},
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "sym"}},
]


def test_gates_checks_builds_and_switches(tmp_path: Path, spark: SparkSession) -> None:
    """
    What a gate and a check found are assertions; a switch takes the output of the build to the output that readers read.
    """
    folder = tmp_path / "expectations"
    folder.mkdir()
    (folder / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": SUITE}))
    file = tmp_path / "events.jsonl"
    site = Site(tmp_path, spark, expectations=folder, openlineage=OpenLineageConfig(file=file))
    site.table().trade(("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 9))
    site.hourly()
    site.lake.refresh("hourly")
    site.lake.check("hourly")
    site.lake.apply(define("hourly", "trades", time="ts", width="2 hours", keys=["sym"], measures=MEASURES))
    site.lake.build("hourly")
    events: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines() if line]
    ends = {e["job"]["name"]: e for e in events if e["eventType"] == "COMPLETE"}
    output, source = f"{site.lake.root}/hourly/output", f"{site.lake.root}/trades"

    assert [] == [text for event in events for text in problems(event)]
    assert ["hourly.refresh", "hourly.check", "hourly.build", "hourly.switch"] == list(ends)
    gate = ends["hourly.refresh"]["outputs"][0]["facets"]["dataQualityAssertions"]["assertions"]
    assert [("1 expectations of the gate", True), (SUITE[0]["type"], False)] == [
        (a["assertion"], a["success"]) for a in gate
    ]
    (checked,) = ends["hourly.check"]["inputs"]
    assert (output, []) == (checked["name"], ends["hourly.check"]["outputs"])
    assert {("top", False, "warn"), ("sym", True, "error")} <= {
        (a.get("column"), a["success"], a["severity"])
        for a in checked["inputFacets"]["dataQualityAssertions"]["assertions"]
    }
    built = ends["hourly.build"]["outputs"][0]["name"]
    assert source == ends["hourly.build"]["inputs"][0]["name"]
    assert built.startswith(f"{site.lake.root}/hourly/build/")
    assert [built] == [d["name"] for d in ends["hourly.switch"]["inputs"]]
    assert [output] == [d["name"] for d in ends["hourly.switch"]["outputs"]]


def test_what_a_gate_refused_is_in_the_failure(tmp_path: Path, spark: SparkSession) -> None:
    """
    Nothing was published, so the event has no version of the output; what failed is an assertion, and a metric.
    """
    parser = pytest.importorskip("prometheus_client.parser", reason="needs the extra `metrics`")
    folder = tmp_path / "expectations"
    folder.mkdir()
    refused = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "top", "max_value": 3}}
    (folder / "hourly.json").write_text(json.dumps({"name": "hourly", "expectations": [refused]}))
    (tmp_path / "prom").mkdir()
    file = tmp_path / "events.jsonl"
    settings = {"openlineage": OpenLineageConfig(file=file), "metrics": MetricsConfig(textfile=tmp_path / "prom")}
    site = Site(tmp_path, spark, expectations=folder, **settings)
    site.table().trade(("00:10", "A", 9))
    site.hourly()
    with pytest.raises(QualityGateError):
        site.lake.refresh("hourly")
    start, failed = [json.loads(line) for line in file.read_text().splitlines() if line]
    (output,) = failed["outputs"]
    [text] = [path.read_text() for path in (tmp_path / "prom").glob("*.prom")]
    values = {
        (s.name, s.labels.get("outcome") or s.labels.get("severity")): s.value
        for family in parser.text_string_to_metric_families(text)
        for s in family.samples
    }

    assert ("START", "FAIL") == (start["eventType"], failed["eventType"])
    assert [] == [text for event in (start, failed) for text in problems(event)]
    assert [(refused["type"], False, "top")] == [
        (a["assertion"], a["success"], a["column"]) for a in output["facets"]["dataQualityAssertions"]["assertions"]
    ]
    assert "version" not in output["facets"]
    assert {} == output["outputFacets"]
    assert 1 == values["materializer_expectations_unmet_total", "critical"]
    assert 1 == values["materializer_refreshes_total", "failed"]
    assert 1 == values["materializer_dirty_buckets", None]
