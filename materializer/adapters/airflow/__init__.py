"""Airflow: DAGs generated from a lake's policies, operators and a sensor for hand-written DAGs, a trigger for Delta tables.

Only this package imports Airflow; it needs the extra ``airflow``. It imports no Spark: tasks run the command line in their
own processes.
"""

from __future__ import annotations

from materializer.adapters.airflow.dags.factory import dags_of
from materializer.adapters.airflow.dags.settings import Settings, from_environment
from materializer.adapters.airflow.tasks.operators import (
    BackfillOperator,
    CheckOperator,
    RefreshOperator,
    VerifyOperator,
)
from materializer.adapters.airflow.tasks.sensors import FreshnessSensor
from materializer.adapters.airflow.tasks.triggers import DeltaTableTrigger

__all__ = [
    "BackfillOperator",
    "CheckOperator",
    "DeltaTableTrigger",
    "FreshnessSensor",
    "RefreshOperator",
    "Settings",
    "VerifyOperator",
    "dags_of",
    "from_environment",
]
