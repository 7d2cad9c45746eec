"""OpenLineage events of real refreshes, as a server on this machine or a file gets them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from materializer.config import Config, OpenLineageConfig
from materializer.errors import DataError
from materializer.wiring import listeners
from tests.adapters.openlineage.schemas import problems
from tests.paths import ROOT
from tests.servers.receiver import receiving
from tests.services.no_spark import LocalLake, each, view

pytest.importorskip("openlineage.client", reason="needs the extra `openlineage`")

HOUR = 3_600_000_000
PARENT = "0197d0f2-7d8c-7000-8000-000000000001"
SCRIPT = """
import json, sys
from pathlib import Path
from materializer.config import Config
from materializer.wiring import listeners
from tests.services.no_spark import LocalLake, each, view
lake = LocalLake(Path(sys.argv[1]))
lake.listen(listeners(Config(), lake.opened.journal))
lake.apply(view("hourly", each("1 hour")))
lake.add((0, 1))
lake.opened.refresh("hourly")
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules} | {n for n in sys.modules if n.startswith("materializer.")})))
"""


def told(root: Path, seconds: int = 5, **settings: Any) -> LocalLake:
    """Return a lake with one aggregate of hours, whose activities are told."""
    lake = LocalLake(root)
    config = Config(openlineage=OpenLineageConfig(**settings), listener_seconds=seconds)
    lake.listen(listeners(config, lake.opened.journal))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    return lake


def events_of(root: Path, what: Any) -> list[dict[str, Any]]:
    """Return the events of what is done with a lake, from a file."""
    lake = told(root, file=root / "events.jsonl")
    lake.add(*((h * HOUR, h) for h in range(4)))
    what(lake)
    lines = (root / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def test_a_server_gets_a_whole_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    START and COMPLETE of one run, with the tables, their versions and columns, and the window.
    """
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/dag.task/{PARENT}")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret-key")
    with receiving() as server:
        lake = told(tmp_path, url=server.url, namespace="sales")
        lake.add(*((h * HOUR, h) for h in range(4)))
        report = lake.opened.refresh("hourly", "1970-01-01T00:00:00Z", "1970-01-01T04:00:00Z")
        assert () == report.warnings
    start, complete = map(json.loads, server.bodies)

    assert ["/api/v1/lineage"] * 2 == server.paths
    assert "Bearer secret-key" == server.headers[0]["Authorization"]
    assert b"secret-key" not in b"".join(server.bodies)
    assert ["START", "COMPLETE"] == [start["eventType"], complete["eventType"]]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert ("sales", "hourly.refresh") == (complete["job"]["namespace"], complete["job"]["name"])
    run = complete["run"]["facets"]
    assert ("1970-01-01T00:00:00+00:00", "1970-01-01T04:00:00+00:00") == (
        run["nominalTime"]["nominalStartTime"],
        run["nominalTime"]["nominalEndTime"],
    )
    assert ("airflow", "dag.task", PARENT) == (
        run["parent"]["job"]["namespace"],
        run["parent"]["job"]["name"],
        run["parent"]["run"]["runId"],
    )
    assert ("refreshed", ["rebuild"], ["local"], 4) == tuple(
        run["materializer"][k] for k in ("outcome", "strategies", "executors", "rowsRead")
    )
    (source,), (output,) = complete["inputs"], complete["outputs"]
    assert ("file", f"{tmp_path}/raw") == (source["namespace"], source["name"])
    assert "1" == source["facets"]["version"]["datasetVersion"]
    assert ["ts", "v"] == [f["name"] for f in source["facets"]["schema"]["fields"]]
    assert ("file", f"{tmp_path}/hourly/output") == (output["namespace"], output["name"])
    assert str(lake_version(tmp_path)) == output["facets"]["version"]["datasetVersion"]
    assert 4 == output["outputFacets"]["outputStatistics"]["rowCount"]
    assert "CREATE MATERIALIZED VIEW hourly" in complete["job"]["facets"]["sql"]["query"]


def lake_version(root: Path) -> int:
    """Return the version of the output."""
    from deltalake import DeltaTable

    return DeltaTable(str(root / "hourly" / "output")).version()


def test_columns_have_their_lineage(tmp_path: Path) -> None:
    """
    Direct and indirect uses, in the form of the standard.
    """
    complete = events_of(tmp_path, lambda lake: lake.opened.refresh("hourly"))[-1]
    facet = complete["outputs"][0]["facets"]["columnLineage"]

    (volume,) = facet["fields"]["v"]["inputFields"]
    assert ("file", f"{tmp_path}/raw", "v") == (volume["namespace"], volume["name"], volume["field"])
    assert [("DIRECT", "AGGREGATION", "sum(v)")] == [
        (t["type"], t["subtype"], t["description"]) for t in volume["transformations"]
    ]
    assert [] == facet["fields"]["n"]["inputFields"]
    assert [("ts", "INDIRECT", "GROUP_BY")] == [
        (f["field"], t["type"], t["subtype"]) for f in facet["dataset"] for t in f["transformations"]
    ]


def test_a_backfill_is_one_run(tmp_path: Path) -> None:
    """
    RUNNING says how far it came.
    """
    events = events_of(tmp_path, lambda lake: lake.opened.backfill("hourly", buckets_per_run=2))

    assert ["START", "RUNNING", "COMPLETE"] == [e["eventType"] for e in events]
    assert 1 == len({e["run"]["runId"] for e in events})
    assert {"hourly.backfill"} == {e["job"]["name"] for e in events}
    assert [2, 4] == [e["run"]["facets"]["materializer"]["rowsWritten"] for e in events[1:]]


def test_a_failure_says_why(tmp_path: Path) -> None:
    """
    With code and message of our error.
    """

    def fail(lake: LocalLake) -> None:
        def refuse(*_: object) -> None:
            raise DataError("a value does not fit")

        with pytest.raises(DataError):
            lake.opened.refresh("hourly", on_plan=refuse)

    failed = events_of(tmp_path, fail)[-1]

    assert "FAIL" == failed["eventType"]
    assert f"{DataError.code}: a value does not fit" == failed["run"]["facets"]["errorMessage"]["message"]


def test_an_error_that_is_not_ours_is_only_named(tmp_path: Path) -> None:
    """
    Its text may hold anything. To be told to stop is ABORT.
    """

    def stop(lake: LocalLake) -> None:
        for error in (RuntimeError("password=secret"), KeyboardInterrupt()):

            def fail(*_: object, error: BaseException = error) -> None:
                raise error

            with pytest.raises(type(error)):
                lake.opened.refresh("hourly", on_plan=fail)

    events = events_of(tmp_path, stop)

    assert ["START", "FAIL", "START", "ABORT"] == [e["eventType"] for e in events]
    assert "RuntimeError" == events[1]["run"]["facets"]["errorMessage"]["message"]
    assert "secret" not in json.dumps(events)


def test_an_aggregate_reads_the_output_of_its_parent(tmp_path: Path) -> None:
    """
    Also if its partials are read, so that the graph of tables is connected.
    """

    def both(lake: LocalLake) -> None:
        lake.apply(view("daily", each("1 day"), "hourly", "sum(v) AS v"))
        lake.apply(view("daily_again", each("1 day"), "hourly", "rollup(v) AS v"))
        for name in ("hourly", "daily", "daily_again"):
            lake.opened.refresh(name)

    ends = {e["job"]["name"]: e for e in events_of(tmp_path, both) if e["eventType"] == "COMPLETE"}
    output = ends["hourly.refresh"]["outputs"][0]["name"]

    assert output == ends["daily.refresh"]["inputs"][0]["name"]
    assert output == ends["daily_again.refresh"]["inputs"][0]["name"]
    for name in ("daily.refresh", "daily_again.refresh"):
        assert ["v"] == [
            f["field"] for f in ends[name]["outputs"][0]["facets"]["columnLineage"]["fields"]["v"]["inputFields"]
        ]


def test_events_follow_the_schemas_of_the_standard(tmp_path: Path) -> None:
    """
    The schemas of all facets and of the event itself, as the standard publishes them.
    """

    def everything(lake: LocalLake) -> None:
        lake.opened.backfill("hourly", buckets_per_run=2)
        lake.opened.refresh("hourly")

    for event in events_of(tmp_path, everything):
        assert [] == problems(event), event


def test_the_schemas_find_what_is_wrong(tmp_path: Path) -> None:
    """
    In the event itself, and in a facet.
    """
    event = events_of(tmp_path, lambda lake: lake.opened.refresh("hourly"))[-1]
    event["run"]["runId"] = 7
    del event["outputs"][0]["facets"]["columnLineage"]["fields"]["v"]["inputFields"]

    found = problems(event)

    assert any("runId" in text for text in found)
    assert any("inputFields" in text for text in found)


@pytest.mark.parametrize(("status", "delay"), [(500, 0.0), (200, 30.0)], ids=["refuses", "hangs"])
def test_a_broken_server_is_waited_for_once(tmp_path: Path, status: int, delay: float) -> None:
    """
    The refreshes are done, one of them with a warning.
    """
    with receiving(status=status, delay=delay) as server:
        lake = told(tmp_path, seconds=1, url=f"{server.url}/?token=secret")
        began = time.monotonic()
        warnings = []
        for hour in range(3):
            lake.add((hour * HOUR, 1))
            report = lake.opened.refresh("hourly")
            assert "refreshed" == report.outcome
            warnings += report.warnings
        took = time.monotonic() - began
        server.delay = 0

    assert ["OpenLineage"] == [w.split(" was not notified")[0] for w in warnings]
    assert "secret" not in warnings[0]
    assert took < 6


def test_nothing_is_loaded_when_off(tmp_path: Path) -> None:
    """
    The standard variables of others change nothing: no library of lineage or metrics is imported, nor our rooms for them.
    """
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": "/usr/bin:/bin", "OPENLINEAGE_URL": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    modules = set(json.loads(ran.stdout.splitlines()[-1]))

    assert not {"openlineage", "opentelemetry", "prometheus_client", "attr", "requests", "httpx"} & modules
    assert not {
        m for m in modules if m.startswith(("materializer.adapters.openlineage", "materializer.adapters.metrics"))
    }
    assert "materializer.services.activity" in modules


def test_the_client_decides_by_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Once events are on, and no place is given: here by the standard variable.
    """
    with receiving() as server:
        monkeypatch.setenv("OPENLINEAGE_URL", server.url)
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "by variable")
        lake = told(tmp_path, enabled=True)
        lake.add((0, 1))
        lake.opened.refresh("hourly")

    assert ["START", "COMPLETE"] == [json.loads(body)["eventType"] for body in server.bodies]
    assert {"by variable"} == {json.loads(body)["job"]["namespace"] for body in server.bodies}


def test_events_that_go_nowhere_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Events are on, and neither we nor the client were given a place; without it the client would log each event.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    lake = told(tmp_path, enabled=True)
    lake.add((0, 1))

    [warning] = lake.opened.refresh("hourly").warnings
    assert "nothing says where events go: give openlineage.url or openlineage.file" in warning


def test_a_policy_is_named(tmp_path: Path) -> None:
    """
    A run of a policy is a refresh that says which policy asked for it.
    """

    def run(lake: LocalLake) -> None:
        lake.opened.add_policy("hourly", "nightly", start_offset="none", end_offset="1 hour")
        lake.opened.run_policy("hourly", "nightly", now="2024-01-01T00:00:00Z")

    complete = events_of(tmp_path, run)[-1]

    assert ("COMPLETE", "hourly.refresh") == (complete["eventType"], complete["job"]["name"])
    assert "nightly" == complete["run"]["facets"]["materializer"]["policy"]
