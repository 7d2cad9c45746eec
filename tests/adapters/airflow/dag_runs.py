"""Runs of DAGs as ``dag.test()`` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from materializer.adapters.airflow import dags_of


def ran(lake: str | Path, name: str, conf: dict[str, Any] | None = None, **options: Any) -> tuple[str, Any, list[Any]]:
    """Run a DAG as ``dag.test()`` does; return the task's state, its result, and the extras of the events it emitted."""
    from airflow.models.asset import AssetEvent
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run = dags_of(lake, **options)[name].test(run_conf=conf)
    (task,) = run.get_task_instances()
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all()
        stored = session.scalars(
            select(XComModel).where(XComModel.run_id == run.run_id, XComModel.key == "return_value")
        ).first()
        result = XComModel.deserialize_value(stored) if stored is not None else None
        return str(task.state), result, [e.extra for e in events]
