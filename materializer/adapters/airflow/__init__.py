"""Airflow: DAGs made of a lake's policies, operators and a sensor for people's own, a trigger that watches Delta tables.

The only package that imports Airflow; wanted is the extra ``airflow``. It imports no Spark: tasks run the command line in
processes of their own.
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
