"""The path by which Airflow's database names our callback of a missed deadline, since earlier releases."""

from __future__ import annotations

from materializer.adapters.airflow.tasks.deadlines import tell_stale

__all__ = ["tell_stale"]
