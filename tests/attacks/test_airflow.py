"""A lake that others write to, in a folder of DAGs: what its journal holds reaches the DAG processor of Airflow; no JVM.

One process with Airflow of its own makes the DAGs of each lake, stores them as Airflow does, and renders their templates beside a
secret.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import TimeType
from materializer.journal.events import Defined, SourceIdentity
from materializer.journal.journal import Journal
from tests.attacks.table import attack
from tests.benchmarks.dags import definition, lake_of
from tests.paths import ROOT

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(find_spec("airflow") is None, reason="needs the extra `airflow`"),
]

READ = """
import json, sys
from airflow.serialization.serialized_objects import DagSerialization
from materializer.adapters.airflow import dags_of
SECRETS = {"var": {"value": {"secret": "leaked"}}, "conn": {}, "params": {}, "lipsum": None}
found = {}
for dag in dags_of(**json.loads(sys.argv[1])).values():
    DagSerialization.serialize_dag(dag)
    for task in dag.tasks:
        task.render_template_fields(dict(SECRETS))
    fields = [[str(getattr(task, name)) for name in task.template_fields] for task in dag.tasks]
    found[dag.dag_id] = {"tags": sorted(dag.tags), "page": dag.doc_md or "", "rendered": fields,
        "pools": sorted({task.pool for task in dag.tasks}), "owners": sorted({task.owner for task in dag.tasks})}
print(json.dumps(found))
"""
OWN = {"agg_000", "agg_001"}
JINJA = "{{ var.value.secret }}{% for c in [].__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}"
Change = Callable[[dict[str, Any], dict[str, str]], dict[str, Any]]


def properties(**given: Any) -> Change:
    """Return a change of a definition to these properties, in whose names `__` is a full stop."""
    listed = [[name.replace("__", "."), value] for name, value in given.items()]
    return lambda spec, _: spec | {"properties": [["refresh.start_offset", "none"], *listed]}


def field(**given: Any) -> Change:
    """Return a change of fields of a definition."""
    return lambda spec, _: spec | given


def read_from(path: str) -> Change:
    """Return a change of the source of a definition."""

    def change(spec: dict[str, Any], source: dict[str, str]) -> dict[str, Any]:
        source["path"] = path
        return spec

    return change


def plant(root: Path, id_: str, name: str, change: Change) -> None:
    """Write a definition into the journal, past everything that looks at definitions."""
    (spec,) = parse_definitions(definition(0))
    source = {"path": f"{root}/trades"}
    data = change(replace(spec, time_type=TimeType.TIMESTAMP).as_json() | {"name": name}, source)
    identity = SourceIdentity(source["path"], "table")
    columns = {"partials": [["_bucket", "timestamp"]], "output": [["hour", "timestamp"]]}
    journal = Journal(root)
    event = Defined(name, data, f"data-{id_}", identity, 0, columns, {"partials": "p", "output": "o"})
    journal.append(journal.view().version, id_, [event])
    journal.tidy()


def made(root: Path, home: Path) -> dict[str, Any]:
    """Return the DAGs that Airflow finds in a lake, by id."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, json.dumps({"lake": str(root)})],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                          "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@attack(
    "A folder of DAGs",
    "an aggregate has a name with `/`, Jinja, an option, a line break, or 300 characters",
    "a DAG with the tag `broken` and a name made for it; the DAGs of the others are as ever",
)
def test_a_name_costs_no_other_dag(tmp_path: Path) -> None:
    """
    Also in the list beside the journal, which Airflow's processes read first.
    """
    lake_of(tmp_path / "lake", 2)
    names = [
        "a/b",
        JINJA,
        "--lake=x",
        "a\nb",
        "x" * 300,
        "",
        "ä",
        "agg_000.check",
        "../victim",
        "<script>alert(1)</script>",
    ]
    for n, name in enumerate(names):
        plant(tmp_path / "lake", f"other-{n}", name, field())
    found = made(tmp_path / "lake", tmp_path / "home")

    assert OWN <= set(found)
    assert len(names) == len(set(found) - OWN)
    assert {"broken"} <= set.intersection(*(set(dag["tags"]) for name, dag in found.items() if name not in OWN))

    listing = tmp_path / "listed" / "_materializer" / "listing.json"
    for name in ("a/b", JINJA, "--lake=x", 5):
        lake_of(tmp_path / "listed", 2)
        head, row, *others = listing.read_text().splitlines()
        planted = f"planted {json.dumps(json.loads(row.partition(' ')[2]) | {'name': name})}"
        listing.write_text("\n".join([head, row, *others, planted, ""]))
        found = made(tmp_path / "listed", tmp_path / "home")

        assert OWN <= set(found)
        assert all("broken" in dag["tags"] for key, dag in found.items() if key not in OWN)
        assert "leaked" not in json.dumps(found)


DAMAGED: dict[str, Change] = {
    "suite": field(suites=[["output", "{}"]]),
    "suite_text": field(suites=[["output", "no json"]]),
    "comment": field(comment=5),
    "sql": field(sql=5),
    "columns": field(sql="", columns=[5]),
    "kind": field(time_type="nonsense"),
    "nothing": lambda _, __: {"nothing": 1},
    "schedule": properties(refresh__schedule="nonsense"),
    "never": properties(refresh__schedule="0 0 31 2 *"),
    "checks": properties(quality__schedule="nonsense"),
    "checks_never": properties(quality__schedule="0 0 31 2 *"),
    "number": properties(refresh__end_offset=5),
    "promise": properties(refresh__max_staleness="999999999999 days"),
    "promise_text": properties(refresh__max_staleness="1 hour <script>alert(1)</script>"),
    "source": read_from("x" * 2_000),
    "reserved": read_from("airflow://x"),
    "no_url": read_from("s3://[bad"),
    "blank": read_from("  "),
}


@attack(
    "A folder of DAGs",
    "a definition in the journal has a schedule, suite, promise, comment or source that is none",
    "its DAG has the tag `broken`; the DAGs of the others are as ever",
)
def test_a_damaged_definition_costs_no_other_dag(tmp_path: Path) -> None:
    """
    Each has a DAG under its name that says so; of checks the refreshes stay, and the DAG of the checks is broken.
    """
    lake_of(tmp_path / "lake", 2)
    for name, change in DAMAGED.items():
        plant(tmp_path / "lake", f"other-{name}", name, change)
    found = made(tmp_path / "lake", tmp_path / "home")
    broken = {name for name, dag in found.items() if "broken" in dag["tags"]}

    assert OWN <= set(found) - broken
    assert {name + ".check" * name.startswith("checks") for name in DAMAGED} <= broken


@attack(
    "A folder of DAGs",
    "a comment, a source, a suite's name and SQL of a definition hold Jinja, HTML, scripts, links and pictures",
    "no template is rendered, pools, owners and tags are the settings', and the page shows them as text",
)
def test_texts_of_a_definition_are_text(tmp_path: Path) -> None:
    """
    A page that ends like a file's name is not read from that file.
    """
    lake_of(tmp_path / "lake", 2)
    (tmp_path / "secret.md").write_text("leaked")
    text = f"{JINJA} <script>alert(1)</script> ![](https://evil.example/a.png) [x](javascript:alert(1)) {tmp_path}/secret.md"
    suite = json.dumps({"name": text, "expectations": []})
    hostile = {"comment": text, "sql": f"SELECT '{text}'", "suites": [["output", suite]], "source": text}
    plant(tmp_path / "lake", "other-1", "texts", field(**hostile))
    plant(tmp_path / "lake", "other-2", "places", read_from(f"/{JINJA}/<b>"))
    found = made(tmp_path / "lake", tmp_path / "home")

    assert {"texts", "places"} <= set(found)
    assert "leaked" not in json.dumps(found)
    for name in ("texts", "places"):
        dag = found[name]
        assert (["materializer"],) * 3 == (dag["tags"], dag["pools"], dag["owners"])
        tokens = MarkdownIt("commonmark", {"html": True}).parse(dag["page"])
        kinds = {t.type for of in tokens for t in [of, *(of.children or [])]}
        assert not kinds & {"html_block", "html_inline", "image", "link_open"}
    assert "alert(1)" in found["texts"]["page"]
