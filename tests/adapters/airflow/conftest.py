"""Real Airflow on a home and a database of its own, and real lakes; what tasks do happens in their child processes.

Airflow reads its settings when it is imported, so they are set here, before any test module of this folder is.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.tables import append_trades

HOME = Path(tempfile.gettempdir()) / f"materializer-airflow-{os.getpid()}"
SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    "PYTHONPATH": str(ROOT),
}
HAS_AIRFLOW = find_spec("airflow") is not None
collect_ignore_glob = [] if HAS_AIRFLOW else ["test_*.py"]
if HAS_AIRFLOW:
    os.environ.update(SETTINGS)

START = datetime(2013, 12, 1, tzinfo=UTC)
HOURLY = """
CREATE MATERIALIZED VIEW trades_1h TBLPROPERTIES ({properties})
AS SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, sum(volume) AS volume FROM trades GROUP BY 1, 2;
"""
DAILY = """
CREATE MATERIALIZED VIEW trades_1d TBLPROPERTIES ('refresh.start_offset' = 'none')
AS SELECT time_bucket('1 day', hour) AS day, sum(n) AS n, sum(volume) AS volume FROM trades_1h GROUP BY 1;
"""
BY_CLOCK = "'refresh.start_offset' = 'none', 'refresh.schedule' = '* * * * *', 'refresh.max_staleness' = '1 hour'"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.airflow)
            # what Airflow and its libraries warn of among themselves is theirs to mend; what we cause still fails
            item.add_marker(pytest.mark.filterwarnings("default", "error:::materializer"))


def told(*arguments: str, lake: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line on a lake."""
    return subprocess.run(
        [sys.executable, "-m", "materializer", *arguments, "--lake", str(lake)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="session")
def airflow_home() -> Iterator[Path]:
    """Airflow's home with a migrated database, its pool, and an empty folder for DAGs."""
    from airflow.utils.db import initdb

    (HOME / "dags").mkdir(parents=True, exist_ok=True)
    initdb()
    # Airflow shows everybody's INFO; py4j speaks when the interpreter ends and what it would write to is closed
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield HOME
    import shutil

    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory, spark) -> Path:
    """A lake of three days of trades with an hourly aggregate, refreshed by the clock, and a daily one that reads it."""
    from materializer.api import Materializer
    from materializer.config import Config

    root = tmp_path_factory.mktemp("lake")
    for day in (1, 2, 3):
        append_trades(root, day)
    opened = Materializer(root, spark=spark, config=Config())
    opened.apply(HOURLY.format(properties="'refresh.start_offset' = 'none', 'refresh.schedule' = '*/5 * * * *'"))
    opened.apply(DAILY)
    return root
