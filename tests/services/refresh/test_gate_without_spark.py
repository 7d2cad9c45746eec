"""The gate, canaries and the guard of a refresh that is computed in the process: they need no engine, either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.core.time.spans import SpanSet
from materializer.errors import FewerRowsError, QualityGateError
from tests.services.no_spark import LocalLake, each, view
from tests.tables import clean_log

HOUR = 3_600_000_000
MEASURES = "sum(v) AS v, count(*) AS n"
AT_MOST_10 = ("expect_column_values_to_be_between", {"column": "v", "max_value": 10})
OF_EACH_KIND = [
    ("expect_column_values_to_be_unique", {"column": "at"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["at", "n"]}),
    ("expect_column_values_to_not_be_null", {"column": "v"}),
    ("expect_column_values_to_be_in_set", {"column": "n", "value_set": [1, 2]}),
    ("expect_column_values_to_be_between", {"column": "at", "min_value": "1970-01-01", "max_value": "1970-01-02"}),
    ("expect_column_min_to_be_between", {"column": "at", "min_value": "1970-01-01"}),
    ("expect_column_mean_to_be_between", {"column": "v", "min_value": 1, "max_value": 9.5}),
    ("expect_column_sum_to_be_between", {"column": "v", "max_value": 100}),
    ("expect_column_unique_value_count_to_be_between", {"column": "v", "min_value": 1}),
    ("expect_table_row_count_to_be_between", {"min_value": 1}),
    ("expect_table_column_count_to_equal", {"value": 3}),
    AT_MOST_10,
]


def gated(lake: LocalLake, *expectations: tuple[str, dict[str, Any]], kind: str = "", **properties: str) -> None:
    """Apply an hourly aggregate with a suite and with properties of its gate."""
    folder = lake.root / "expectations"
    folder.mkdir()
    if expectations:
        suite = {"name": "hourly", "expectations": [{"type": t, "kwargs": k} for t, k in expectations]}
        (folder / f"hourly{kind}.json").write_text(json.dumps(suite))
    given = ", ".join(f"'quality.{name}' = '{value}'" for name, value in properties.items())
    sql = view("hourly", each("1 hour"), measure=MEASURES)
    lake.apply(sql.replace("\nAS ", f"\nTBLPROPERTIES ({given})\nAS ", 1) if given else sql)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLake:
    """A lake with three rows in two hours; suites are in a folder beside it."""
    monkeypatch.chdir(tmp_path)
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5), (HOUR, 7))
    return lake


def totals(lake: LocalLake) -> list[int]:
    return [row["v"] for row in lake.rows_of("hourly")]


def test_a_gate_that_is_met(lake: LocalLake) -> None:
    """
    Built-in checks and expectations of each compiled kind are answered in the process; the journal counts them, and says who answered.
    """
    gated(lake, *OF_EACH_KIND, checks="true")
    done = lake.opened.refresh("hourly")

    assert [6, 7] == totals(lake)
    assert [("local", 0, {})] == [(run.report.executor, run.report.jobs, dict(run.report.extra)) for run in done.runs]
    verdict = lake.opened.history("hourly")[0].verdict
    answered = len(OF_EACH_KIND) + 3
    assert {
        "output": {"suite": "hourly", "passed": answered, "engines": {"compiled": answered}, "failed": []}
    } == verdict


def test_what_fails_is_not_published(lake: LocalLake) -> None:
    """
    A critical failure publishes nothing; the failing rows are beside the output, and a correction is published.
    """
    gated(lake, AT_MOST_10)
    lake.add((2, 10), (2 * HOUR, 3))

    with pytest.raises(QualityGateError, match=r"between of v fails for 1 of 3 rows"):
        lake.opened.refresh("hourly")

    assert [] == totals(lake)
    failing = DeltaTable(str(lake.root / "hourly" / "failing")).to_pyarrow_table().to_pylist()
    assert [{"at": "1970-01-01T00:00:00Z", "v": 16, "n": 3}] == [json.loads(row["row"]) for row in failing]
    DeltaTable(str(lake.root / "raw")).update(updates={"v": "1"}, predicate="v = 10")
    lake.opened.refresh("hourly")
    assert [7, 7, 3] == totals(lake)


def test_failing_buckets_are_withheld(lake: LocalLake) -> None:
    """
    Only the failing bucket is not published; it stays dirty, and comes with its correction.
    """
    gated(lake, AT_MOST_10, on_failure="buckets")
    lake.add((2, 10), (2 * HOUR, 3))
    done = lake.opened.refresh("hourly")

    assert [7, 3] == totals(lake)
    assert [[0, HOUR]] == lake.opened.history("hourly")[0].verdict["held"]
    assert [0] == [span.start for span in lake.opened.status("hourly")[0].dirty]
    assert [(2, 2)] == [(run.report.buckets, run.report.rows_written) for run in done.runs]
    lake.add((3, -10))
    lake.opened.refresh("hourly")
    assert [6, 7, 3] == totals(lake)


def test_canaries_that_find_nothing(lake: LocalLake) -> None:
    """
    Buckets of the run and published ones are computed again in the process, and counted.
    """
    gated(lake, canaries="4")
    lake.opened.refresh("hourly")
    lake.add((2 * HOUR, 3))
    done = lake.opened.refresh("hourly")

    assert [("local", 0, {})] == [(run.report.executor, run.report.jobs, dict(run.report.extra)) for run in done.runs]
    [status] = lake.opened.status("hourly")
    assert status.canaries is not None
    assert (2, SpanSet()) == (status.canaries.n, status.canaries.differed)
    assert status.canaries.clean >= 1
    assert status.canaries.touched >= 2


@pytest.mark.parametrize(
    ("expectation", "kind", "reason"),
    [
        (("expect_column_median_to_be_between", {"column": "v", "max_value": 9}), "", "Great Expectations"),
        (("expect_column_values_to_not_be_null", {"column": "v"}), ".source", "rows of the source"),
        (("expect_column_stdev_to_be_between", {"column": "v", "max_value": 9}), "", "stdev"),
        (AT_MOST_10, "", ""),
    ],
)
def test_a_plan_names_the_expectation_that_leaves_it_to_spark(
    lake: LocalLake, expectation: tuple[str, dict[str, Any]], kind: str, reason: str
) -> None:
    """
    An expectation without a local form, and one about the source, leave the plan to Spark.
    """
    gated(lake, expectation, kind=kind)
    plan = lake.opened.plan("hourly").plan

    assert plan is not None
    assert ("spark" if reason else "local") == plan.executor
    assert reason in plan.executor_reason


def test_status_names_all_that_leaves_an_aggregate_to_spark(lake: LocalLake) -> None:
    """
    The status of one aggregate lists each part of definition and gate without a local form, engines too; that of all has no list.
    """
    gated(lake, AT_MOST_10, checks="true", canaries="1")
    text = "CREATE MATERIALIZED VIEW {} AS SELECT time_bucket('1 hour', ts) AS at, {} FROM raw GROUP BY time_bucket('1 hour', ts);"
    lake.apply(text.format("some", "max(soundex(v)) AS a, sum(v) AS b, min(crc32(v)) AS c"))
    stdev = {"type": "expect_column_stdev_to_be_between", "kwargs": {"column": "v", "max_value": 9}}
    outlier = {"type": "expect_column_values_to_not_be_outliers", "kwargs": {"column": "v", "method": "iqr"}}
    for name, expectations in (("checked", [stdev, outlier]), ("checked.source", [stdev])):
        suite = {"name": name, "expectations": expectations}
        (lake.root / "expectations" / f"{name}.json").write_text(json.dumps(suite))
    lake.apply(text.format("checked", "sum(v) AS v"))

    def parts(name: str) -> tuple[str, ...] | None:
        return lake.opened.status(name)[0].only_spark

    assert () == parts("hourly")
    some, checked = parts("some") or (), parts("checked") or ()
    assert [True, True] == [word in part for word, part in zip(("soundex", "crc32"), some, strict=True)]
    words = (
        "rows of the source",
        "Great Expectations checks expect_column_values_to_not_be_outliers",
        "stdev_to_be_between",
    )
    assert [True, True, True] == [word in part for word, part in zip(words, checked, strict=True)]
    assert {None} == {status.only_spark for status in lake.opened.status()}


def test_rows_that_are_gone_unseen_are_counted(lake: LocalLake) -> None:
    """
    A recompute from fewer raw rows than before is refused in the process, and done where it is accepted.
    """
    gated(lake)
    lake.opened.refresh("hourly")
    DeltaTable(str(lake.root / "raw")).delete("v = 5")
    clean_log(lake.root / "raw")

    with pytest.raises(FewerRowsError, match=r"was made from 2 rows in .* its source has 1 there"):
        lake.opened.refresh("hourly")

    assert [6, 7] == totals(lake)
    done = lake.opened.refresh("hourly", accept_fewer_rows=True)
    assert [1, 7] == totals(lake)
    assert {"local"} == {run.report.executor for run in done.runs}
