"""The paths by which Airflow's database names our triggers: a task that an earlier release deferred is resumed by them."""

from __future__ import annotations

from materializer.adapters.airflow.tasks.triggers import DeltaTableTrigger, FreshnessTrigger

__all__ = ["DeltaTableTrigger", "FreshnessTrigger"]
