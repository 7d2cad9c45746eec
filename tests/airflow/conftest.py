"""Real Airflow on a home and a database of its own, and one real lake; tasks and preparations run in child processes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="needs the extra `airflow`") if "AIRFLOW_HOME" in os.environ else None

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="materializer-airflow-"))
SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "PYTHONPATH": str(ROOT),
}
# Airflow reads its settings when it is first imported, which collecting these tests does
os.environ.update(SETTINGS)
