"""The lake that most system tests work on, by Spark, and once more by the process with Spark beside it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import drawn
from tests.system.builders import Site
from tests.system.repeats import EXCLUDED, QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.config import ExecutorChoice

HERE: Final = Path(__file__).parent
AMONG: Final = 16
"""One of so many repeats of a run has a twin."""
BY_SPARK: Final = 3
"""One of so many tests of a run is computed by Spark."""


@pytest.fixture
def site_executor(request: pytest.FixtureRequest) -> ExecutorChoice:
    """The executor of the lake; see :func:`pytest_generate_tests`."""
    chosen: ExecutorChoice = getattr(request, "param", "spark")
    return chosen


@pytest.fixture
def is_compared(site_executor: ExecutorChoice, request: pytest.FixtureRequest) -> bool:
    """Whether Spark does again in a copy what the process computes: in each repeat of the shards, and in some of each run."""
    return site_executor != "spark" and (drawn.is_all() or drawn.turn(request.node.nodeid) % AMONG == 0)


@pytest.fixture
def site(
    tmp_path: Path,
    spark: SparkSession,
    site_executor: ExecutorChoice,
    is_compared: bool,
    request: pytest.FixtureRequest,
) -> Site:
    """A lake; the parameter is how many rows the driver commits itself (0: Spark commits everything)."""
    rows: int = getattr(request, "param", 200_000)
    expectations = tmp_path / "expectations"
    return Site(
        tmp_path,
        spark,
        is_compared=is_compared,
        driver_lane_rows=rows,
        expectations=expectations,
        executor=site_executor,
    )


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test of a lake with `auto`, so that the process computes what it can.

    The shards, and some of the tests of each run, compare what the process computed with a twin of Spark.

    A test that is not repeated has a reason: its file's in :data:`EXCLUDED`, or its own, which the mark `of_spark` gives.
    """
    test = metafunc.definition
    if "site" not in metafunc.fixturenames or _why_not_repeated(test):
        return
    if "site_executor" not in metafunc.fixturenames:
        pytest.fail(
            f"{test.nodeid}: a lake of its own is not repeated; tests/system/repeats.py has to say why", pytrace=False
        )
    by_spark = pytest.param("spark", id=pytest.HIDDEN_PARAM)
    metafunc.parametrize("site_executor", [by_spark, "auto"], indirect=True)


def _why_not_repeated(test: pytest.FunctionDefinition) -> str:
    """Return the reason why a test is not repeated; "" if it is."""
    mark = test.get_closest_marker("of_spark")
    if mark is None:
        return EXCLUDED.get(test.path.relative_to(HERE).as_posix(), "")
    match mark.args:
        case (str(reason),) if reason:
            return reason
    pytest.fail(f"{test.nodeid}: the mark `of_spark` has no reason", pytrace=False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repeats of tests in which Spark writes everything; of the others each run takes one of both, the shards take both."""
    repeats = [i for i in items if _parameters(i).get("site_executor") == "auto" and _parameters(i).get("site") == 0]
    config.hook.pytest_deselected(items=repeats)
    items[:] = [item for item in items if item not in repeats]
    by_spark = {item.nodeid: item for item in items if _parameters(item).get("site_executor") == "spark"}
    for repeat in items:
        name = repeat.nodeid.removesuffix("[auto]").replace("-auto]", "]")
        if name == repeat.nodeid or name not in by_spark or name.partition("[")[0].endswith(QUICK):
            continue
        is_by_spark = drawn.turn(name) % BY_SPARK == 0
        if drawn.is_all() or not is_by_spark:
            by_spark[name].add_marker(pytest.mark.slow)
        if drawn.is_all() or is_by_spark:
            repeat.add_marker(pytest.mark.slow)
    _one_of_both(items)


def _one_of_both(items: list[pytest.Item]) -> None:
    """Leave out one of both examples of a test whose own lake is that of Spark or of the process; the shards take both."""
    for item in items:
        executor = _parameters(item).get("site")
        if executor not in ("spark", "auto") or item.get_closest_marker("one_of"):
            continue
        is_by_spark = drawn.turn(item.nodeid.replace(f"[{executor}", "[")) % BY_SPARK == 0
        if drawn.is_all() or is_by_spark != (executor == "spark"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a repeat as skipped where nothing was compared: Spark computed everything after all, or each call failed."""
    report = yield
    if report.when == "call" and report.passed and _parameters(item).get("site_executor") == "auto":
        site: Site = item.funcargs["site"]  # type: ignore[attr-defined]
        if site.is_compared and not site.local_runs:
            report.outcome = "skipped"
            report.longrepr = (
                str(item.path),
                item.location[1] or 0,
                "Skipped: the process computed nothing that could be compared",
            )
    return report


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
