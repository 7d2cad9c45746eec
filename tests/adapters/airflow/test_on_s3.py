"""DAGs of a lake, of definitions and of sources in a bucket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from materializer.adapters.airflow import dags_of
from materializer.adapters.airflow.tasks.triggers import DeltaTableTrigger
from materializer.api import Materializer
from materializer.errors import MaterializerError
from materializer.lake import places, store_settings
from tests import tables
from tests.adapters.airflow.conftest import HOURLY, START
from tests.adapters.airflow.dag_runs import ran
from tests.benchmarks.dags import definition, lake_of
from tests.servers.proxy import Fault, Proxy, by_kind
from tests.servers.s3 import S3Server

COUNT = 4
ROWS = pa.table(
    {"ts": pa.array([START] * 2, pa.timestamp("us", "UTC")), "sym": ["A", "B"], "volume": pa.array([1, 1], pa.int64())}
)


@pytest.fixture
def root(bucket: str) -> str:
    """A lake of four aggregates in its journal, with their definitions beside it; odd ones read the one before."""
    lake_of(f"{bucket}/lake", COUNT)
    return f"{bucket}/lake"


def test_dags_of_a_lake_on_s3_are_parsed_by_few_requests(root: str, proxy: Proxy, airflow_home: Path) -> None:
    """
    The list beside the journal and a look at what came after it; without the list, a look at the journal as it was known.
    """
    with proxy.counted() as listed:
        dags = dags_of(root)
    places.delete(f"{root}/_materializer/listing.json")
    dags_of(root)
    with proxy.counted() as known:
        again = dags_of(root)

    assert [f"agg_{n:03}" for n in range(COUNT)] == list(dags) == list(again)
    assert {"GET": 1, "LIST": 1} == by_kind(listed)
    assert {"GET": 1, "LIST": 1} == by_kind(known)
    (refresh,) = dags["agg_000"].tasks
    (source,), (output,) = refresh.inlets, refresh.outlets
    assert (root, f"{root}/trades", f"{root}/agg_000/output") == (refresh.lake, source.uri, output.uri)
    assert ("trades", "agg_000") == (source.name, output.name)


def test_definitions_on_s3_are_read_when_they_change(root: str, proxy: Proxy, airflow_home: Path) -> None:
    """
    A folder is listed by one request, and a changed file is read; one that cannot be read now is a broken DAG until it can.
    """
    first = dags_of(root, definitions=f"{root}/sql")
    with proxy.counted() as unchanged:
        dags_of(root, definitions=f"{root}/sql")
    places.put(f"{root}/sql/agg_002.sql", definition(2).replace("Number 2", "Number B").encode())
    proxy.set(Fault("deny", "GET", "agg_002.sql"))
    broken = dags_of(root, definitions=f"{root}/sql")
    with proxy.counted() as changed:
        dags = dags_of(root, definitions=f"{root}/sql")

    assert COUNT == len(first)
    assert {"LIST": 1} == by_kind(unchanged)
    assert "broken" in broken["agg_002"].tags
    assert {"GET": 1, "LIST": 1} == by_kind(changed)
    assert "Number B" == dags["agg_002"].description


def test_places_that_cannot_be_read(bucket: str, airflow_home: Path) -> None:
    """
    Airflow shows the error of the file, with its code and what to do.
    """
    for options, code in (
        ({"lake": "ftp://lake"}, "config.invalid"),
        ({"lake": f"{bucket}/lake", "definitions": "ftp://sql"}, "config.invalid"),
        ({"lake": "s3://no-such-bucket-anywhere/lake"}, "storage.failed"),
        ({"lake": f"{bucket}/lake", "definitions": "s3://no-such-bucket-anywhere/sql"}, "storage.failed"),
    ):
        with pytest.raises(MaterializerError) as caught:
            dags_of(**options)
        assert code == caught.value.code
        assert caught.value.hint


def test_credentials_come_from_the_configuration(
    bucket: str, s3: S3Server, airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    When DAGs are parsed, and when the triggerer watches a source; no argument that Airflow stores has them.
    """
    lake_of(f"{bucket}/lake", COUNT)
    tables.append(f"{bucket}/lake/trades", ROWS)
    keys = "".join(f'{name.lower()} = "{value}"\n' for name, value in s3.environment().items())
    file = tmp_path / "materializer.toml"
    file.write_text(f"[storage]\n{keys}")
    for name in s3.environment():
        monkeypatch.delenv(name)
    try:
        dag = dags_of(f"{bucket}/lake", config=str(file))["agg_002"]
        [source] = dag.task_dict["refresh"].inlets
        assert f"{bucket}/lake/trades" == source.uri
        store_settings.configure({})
        trigger = DeltaTableTrigger(source.uri, 0.05, str(file))
        _, arguments = trigger.serialize()
        event = asyncio.run(_next(DeltaTableTrigger(**arguments)))
    finally:
        store_settings.configure({})

    assert (0, None) == (event["version"], event["after"])
    assert s3.secret not in f"{arguments} {dag.task_dict['refresh'].environment}"


def test_a_new_version_on_s3_fires_once(bucket: str, proxy: Proxy) -> None:
    """
    The first is the table as it is, the second what came meanwhile; a look at an unchanged table is one request.
    """

    async def watch() -> list[Any]:
        events = DeltaTableTrigger(f"{bucket}/trades", 0.2).run()
        found = []
        for commits in (1, 2):
            for _ in range(commits):
                tables.append(f"{bucket}/trades", ROWS)
            found.append((await asyncio.wait_for(anext(events), 20)).payload)
        with proxy.counted() as looks:
            silent = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.9)
            silent.cancel()
        assert {"LIST"} == by_kind(looks).keys()
        return [(e["after"], e["version"]) for e in found]

    assert [(None, 0), (0, 2)] == asyncio.run(watch())


def test_a_task_refreshes_a_lake_on_s3(bucket: str, airflow_home: Path, spark: Any) -> None:
    """
    Airflow finds no error in the file and runs the task, which refreshes in a process of its own and emits the asset; the next
    run has nothing to do.
    """
    lake = f"{bucket}/lake"
    tables.append(f"{lake}/trades", ROWS)
    opened = Materializer(lake, spark=spark)
    opened.apply(HOURLY.format(properties="'refresh.start_offset' = 'none', 'refresh.schedule' = '*/5 * * * *'"))
    file = airflow_home / "dags" / "on_s3.py"
    file.write_text(
        f"from materializer.adapters.airflow import dags_of  # airflow\nglobals().update(dags_of({lake!r}, prefix='s3_'))\n"
    )
    try:
        state, done, events = ran(lake, "s3_trades_1h", prefix="s3_")
        again, _, none = ran(lake, "s3_trades_1h", prefix="s3_")
    finally:
        file.unlink()

    assert ("success", 1) == (state, len(events))
    assert ["refreshed"] == [refresh["outcome"] for refresh in done["refreshes"]]
    assert ("skipped", []) == (again, none)
    assert [("A", 1), ("B", 1)] == sorted((row[1], row[2]) for row in opened.show("trades_1h", limit=10)[1])


async def _next(trigger: DeltaTableTrigger) -> Any:
    events = trigger.run()
    try:
        return (await asyncio.wait_for(anext(events), 20)).payload
    finally:
        await events.aclose()
