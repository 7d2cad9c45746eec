"""The task of Airflow as the parent of what its command does; with Airflow's provider of OpenLineage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from materializer.adapters.airflow.tasks import lineage
from tests.adapters.airflow.dag_runs import ran

HAS_PROVIDER = find_spec("airflow.providers.openlineage") is not None


def test_without_the_provider_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nor where a parent is named already, nor outside of a task.
    """
    assert {} == lineage.variables()
    monkeypatch.setenv(lineage.PARENT, "there/is/one")
    assert {} == lineage.variables()


@pytest.fixture
def dags_file(airflow_home: Path, lake: Path) -> Iterator[Path]:
    """The file that Airflow reads when it tests a DAG."""
    file = airflow_home / "dags" / "lineage.py"
    file.write_text(
        f"from materializer.adapters.airflow import dags_of  # airflow\nglobals().update(dags_of({str(lake)!r}))\n"
    )
    yield file
    file.unlink()


@pytest.mark.spark
@pytest.mark.skipif(not HAS_PROVIDER, reason="needs apache-airflow-providers-openlineage, which no extra brings")
@pytest.mark.usefixtures("dags_file")
def test_the_task_is_the_parent(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of the refresh, and the run of its DAG is the root.
    """
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv("MATERIALIZER_OPENLINEAGE_FILE", str(events))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", '{"type": "console"}')  # without one the provider is disabled
    from airflow.providers.openlineage import conf

    for setting in vars(conf).values():
        if hasattr(setting, "cache_clear"):
            setting.cache_clear()
    state, _, _ = ran(lake, "trades_1h", {"mode": "refresh", "force": True, "end": "2013-12-02T00:00:00Z"})
    told = [json.loads(line) for line in events.read_text().splitlines() if line]

    assert "success" == state
    assert ["START", "COMPLETE"] == [event["eventType"] for event in told]
    for event in told:
        parent = event["run"]["facets"]["parent"]
        assert "trades_1h" == parent["root"]["job"]["name"]
        assert parent["job"]["name"].startswith("trades_1h.")
