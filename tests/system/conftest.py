"""The lake that most system tests work on, by Spark, and once more by the process with Spark beside it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.system.builders import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.config import ExecutorChoice

FILES: Final = frozenset(
    f"test_{name}.py"
    for name in (
        "change_feed",
        "engine_freezing",
        "gate",
        "guard",
        "maintain",
        "repair",
        "retention",
        "sources",
        "strategies",
    )
)
"""Files whose tests are repeated with the second executor."""
QUICK: Final = (
    "::test_inserts_of_several_commits_are_merged_once",
    "::test_updates_are_recomputed_beside_merged_inserts",
)
"""The repeats that each run has; the others are in the shards."""


@pytest.fixture
def site_executor(request: pytest.FixtureRequest) -> ExecutorChoice:
    """The executor of the lake; see :func:`pytest_generate_tests`."""
    chosen: ExecutorChoice = getattr(request, "param", "spark")
    return chosen


@pytest.fixture
def site(tmp_path: Path, spark: SparkSession, site_executor: ExecutorChoice, request: pytest.FixtureRequest) -> Site:
    """A lake; the parameter is how many rows the driver commits itself (0: Spark commits everything)."""
    rows: int = getattr(request, "param", 200_000)
    expectations = tmp_path / "expectations"
    return Site(
        tmp_path,
        spark,
        is_compared=site_executor != "spark",
        driver_lane_rows=rows,
        expectations=expectations,
        executor=site_executor,
    )


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test of a lake with `auto`, where a twin of Spark is compared with what the process computed."""
    test = metafunc.definition
    is_repeated = test.path.name in FILES and test.get_closest_marker("of_spark") is None
    if "site_executor" in metafunc.fixturenames and is_repeated:
        marks = () if test.nodeid.endswith(QUICK) else pytest.mark.slow
        by_spark = pytest.param("spark", id=pytest.HIDDEN_PARAM)
        metafunc.parametrize("site_executor", [by_spark, pytest.param("auto", marks=marks)], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repeats of tests in which Spark writes everything."""
    repeats = [i for i in items if _parameters(i).get("site_executor") == "auto" and _parameters(i).get("site") == 0]
    config.hook.pytest_deselected(items=repeats)
    items[:] = [item for item in items if item not in repeats]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a repeat as skipped where Spark computed everything after all."""
    report = yield
    if report.when == "call" and report.passed and _parameters(item).get("site_executor") == "auto":
        site: Site = item.funcargs["site"]  # type: ignore[attr-defined]
        if not site.local_runs:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1] or 0, "Skipped: Spark computed all of it")
    return report


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
