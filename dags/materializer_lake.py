"""Airflow DAGs of one lake, one for each aggregate that has refresh policies; copy this file into your dags folder.

MATERIALIZER_LAKE names the lake; docs/airflow.md lists the other settings. Two lakes are two such files, each with
``dags_of("/path/to/lake", prefix="name_")`` instead of the environment.
"""

from __future__ import annotations

from materializer.adapters.airflow import dags_of, from_environment

globals().update(dags_of(**from_environment()))
