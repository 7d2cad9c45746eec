"""What the pages say to people who write DAGs of their own."""

from __future__ import annotations

import shlex

import typer

from materializer.adapters.airflow.dags.settings import Settings
from materializer.adapters.cli.application import app
from tests.docs.blocks import blocks
from tests.paths import ROOT


def test_the_dag_of_the_page_is_one(airflow_home):
    """
    docs/airflow.md: three tasks in a row, the pool and the asset of the one in the middle.
    """
    from airflow.dag_processing.dagbag import DagBag

    [block] = [b for b in blocks("docs/airflow.md") if b.language == "python"]
    (airflow_home / "month_end.py").write_text(block.text)
    bag = DagBag(airflow_home / "month_end.py")

    assert {} == bag.import_errors
    dag = bag.dags["month_end"]
    assert {"complete": {"rebuild"}, "rebuild": {"verify"}, "verify": set()} == {
        t.task_id: t.downstream_task_ids for t in dag.tasks
    }
    rebuild = dag.get_task("rebuild")
    assert ("materializer", ["trades_1mo"]) == (rebuild.pool, [a.name for a in rebuild.outlets])


def test_the_task_of_the_page_is_one(airflow_home):
    """
    docs/maintenance.md: a task whose command line is one of ours.
    """
    from airflow.providers.standard.operators.bash import BashOperator

    [block] = [b for b in blocks("docs/maintenance.md") if b.language == "python"]
    task = eval(block.text, {"BashOperator": BashOperator})
    program, command, *arguments = shlex.split(task.bash_command)
    known = {name for p in typer.main.get_command(app).commands[command].params for name in p.opts}

    assert "materializer" == program
    assert set(arguments) <= known


def test_numbers_are_those_of_the_settings():
    """
    docs/airflow.md says how often a table is looked at, and when a task is tried again.
    """
    text = " ".join((ROOT / "docs" / "airflow.md").read_text(encoding="utf-8").split())
    settings = Settings(lake="lake")

    assert f"sees a new version in its Delta log (no JVM; by default every {settings.poll_seconds:.0f} s)" in text
    assert f"is retried: after {settings.retry_seconds:.0f} s, then twice as long each time" in text
