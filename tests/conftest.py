"""What all tests share: a fixed environment, one Spark session for the run, and Hypothesis profiles."""

from __future__ import annotations

import gc
import os
import random
import secrets
import sys
import time
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import browsers, drawn
from tests.servers import proxy as proxies
from tests.servers import s3 as servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.spark import SparkProcess

HERE = Path(__file__).parent
LONGEST = ("test_sources.py", "test_stateful.py", "test_scheduler.py", "test_processes.py")
SLOW = pytest.StashKey[list[str]]()
QUICK = pytest.StashKey[list[str]]()
MOVED: list[dict[str, str]] = tomllib.loads((HERE / "slow.toml").read_text(encoding="utf-8"))["slow"]
"""Tests that are slow, by how their names begin, each with a quick one that guards the same rule."""
STARTS_JVM = {"spark", "connect_server", "standalone_cluster"}
"""The fixtures that start a JVM."""
SEED = int(os.environ.get("MATERIALIZER_TEST_SEED", "20130310"))

FRESH = int(os.environ.setdefault(drawn.SEED, str(secrets.randbelow(10**9))))
"""Another one in each run, in all its workers the same: for a few tests that always look at something new."""

os.environ["TZ"] = "UTC"
os.environ["COLUMNS"] = "100"
os.environ["PYSPARK_PYTHON"] = sys.executable
# modules are compiled once, as in an installation, and not again by each process that a test starts
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
time.tzset()

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", derandomize=True, print_blob=True, deadline=None, max_examples=60, suppress_health_check=_PATIENT
)
settings.register_profile("long", print_blob=True, deadline=None, max_examples=2000, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_report_header() -> str:
    """Say what a failing run has to be repeated with."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "ci")
    given = f"seed: MATERIALIZER_TEST_SEED={SEED}, hypothesis profile: HYPOTHESIS_PROFILE={profile}"
    return f"{given}, drawn for this run: MATERIALIZER_FRESH_SEED={FRESH}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is collected: thousands of tests and the libraries that they import stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark by folder or by fixture what starts a JVM."""
    for item in items:
        starts_jvm = not STARTS_JVM.isdisjoint(getattr(item, "fixturenames", ()))
        if starts_jvm or item.path.is_relative_to(HERE / "spark"):
            item.add_marker(pytest.mark.spark)
        if item.nodeid.startswith(tuple(entry["test"] for entry in MOVED)):
            item.add_marker(pytest.mark.slow)
    for item in drawn.left_out(items, kept=tuple(entry["sibling"] for entry in MOVED)):
        item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(item.path))
    config.stash[SLOW] = [i.nodeid for i in items if any(i.get_closest_marker(name) for name in ("slow", "long"))]
    slow = set(config.stash[SLOW])
    config.stash[QUICK] = [i.nodeid for i in items if i.nodeid not in slow]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say how a failure is repeated where the seed was drawn for this run."""
    report = yield
    if report.failed and "fresh_seed" in getattr(item, "fixturenames", ()):
        command = f"MATERIALIZER_FRESH_SEED={FRESH} python -m pytest '{item.nodeid}'"
        report.sections.append(("its data were drawn for this run; to repeat it", command))
    return report


def _turn(path: Path) -> int:
    """When the tests of a file begin: what takes minutes first, so that no worker waits for it at the end."""
    if path.name in LONGEST:
        return LONGEST.index(path.name)
    return len(LONGEST) + {"airflow", "processes", "spark", "system"}.isdisjoint(path.parts)


@pytest.fixture
def slow_tests(request: pytest.FixtureRequest) -> list[str]:
    """The ids of all tests that were collected and that `make test` leaves out."""
    return request.config.stash[SLOW]


@pytest.fixture
def quick_tests(request: pytest.FixtureRequest) -> list[str]:
    """The ids of all tests that were collected and that `make test` runs."""
    return request.config.stash[QUICK]


@pytest.fixture
def seed() -> int:
    """The seed of this run; draw random data from it and nothing else."""
    return SEED


@pytest.fixture
def fresh_seed() -> int:
    """A seed that is another one in each run; the test needs no fixed outcome, and holds against an oracle."""
    return FRESH


@pytest.fixture
def rng(seed: int) -> random.Random:
    """A generator of its own for each test, seeded."""
    return random.Random(seed)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a run, or of each worker: local[2], short profile, few partitions; or a server's."""
    from materializer.config import Config, SparkConfig
    from materializer.spark.runtime import session

    options = {
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    remote = os.environ.get("MATERIALIZER_TEST_REMOTE", "")
    config = SparkConfig(remote=remote) if remote else SparkConfig(master="local[2]", options=options)
    started = session.start(Config(spark=config))
    # for what tests ask Spark themselves, of a few rows; what is tested has a session of its own with its own settings
    for setting in ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled"):
        started.conf.set(setting, "false")
    started.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    """A real S3 server, one for the run or for each worker; a test that needs it is skipped where it is not installed."""
    if not servers.BINARY.exists():
        pytest.skip(servers.MISSING)
    with servers.started(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """See :mod:`tests.browsers`; Playwright is started once."""
    yield from browsers.chromium()


@pytest.fixture
def bucket(s3: servers.S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket, which the environment of the test has the keys of."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3.bucket(f"bucket-{secrets.token_hex(4)}")


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """The one Spark Connect server of a run; what ends it has one of its own."""
    from tests.servers import connect, spark

    if reason := spark.why_not():
        pytest.skip(reason)
    server = connect.connect_server(tmp_path_factory.mktemp("connect"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def _proxy(s3: servers.S3Server) -> Iterator[proxies.Proxy]:
    with proxies.started(s3.port) as proxy:
        yield proxy


@pytest.fixture
def proxy(
    s3: servers.S3Server, bucket: str, _proxy: proxies.Proxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[proxies.Proxy]:
    """A proxy between the test and the server that has its bucket; it counts requests and makes them fail."""
    for name, value in s3.environment(_proxy.port).items():
        monkeypatch.setenv(name, value)
    yield _proxy
    _proxy.set()
