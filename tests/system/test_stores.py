"""A lake on a store, from the first definition to a restored backup; only Spark's jars for a store are not there.

Each run has S3; the shards have Azure and GCS, too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from materializer.config import Config
from materializer.errors import DefinitionError, QualityGateError, UsageError
from materializer.lake import places, store_settings
from materializer.lake.log import latest_version
from tests.benchmarks.stores import HOURLY as BENCH_HOURLY
from tests.benchmarks.stores import Bench
from tests.servers.proxy import Proxy
from tests.servers.s3 import S3Server
from tests.servers.stores import STORES
from tests.system.on_s3 import DAILY, HOURLY, Site


@pytest.fixture(params=["s3", *(pytest.param(name, marks=pytest.mark.slow) for name in STORES if name != "s3")])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a new bucket or container of some store."""
    if request.param == "s3":
        yield request.getfixturevalue("bucket")
        return
    store = STORES[request.param]
    if not store.BINARY.exists():
        pytest.skip(store.MISSING)
    with store.started(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server.bucket(f"bucket-{secrets.token_hex(4)}")  # another one each time: clients stay


@pytest.fixture
def site(place: str, spark: Any, site_executor: Any, is_compared: bool) -> Site:
    """A lake with two aggregates over three days, refreshed."""
    site = Site(place, spark, executor=site_executor, is_compared=is_compared)
    site.add(0, 3 * 24 * 60)
    site.lake.apply([HOURLY, DAILY])
    for name in ("hourly", "daily"):
        site.lake.refresh(name)
    return site


def test_a_lake_lives_on_a_store(site: Site) -> None:
    """
    Late and new rows are refreshed, a second refresh has nothing to do, and every command that reports can read it.
    """
    assert site.rows == site.totals
    site.add(10, 3)
    site.add(3 * 24 * 60, 90)
    assert ["refreshed", "up-to-date"] == [site.lake.refresh("hourly").outcome for _ in range(2)]
    site.lake.refresh("daily")

    assert site.rows == site.totals
    status = {s.name: s for s in site.lake.status()}
    assert (site.source, ()) == (status["hourly"].source, status["hourly"].dirty.spans)
    assert f"{site.bucket}/lake/hourly/output" == status["daily"].source
    assert site.rows == {row[0]: row[1] for row in site.lake.show("hourly", limit=1000)[1]}
    assert [] == [f for f in site.lake.doctor() if f.level == "error"]
    assert ["sound", "sound"] == [site.lake.repair(name).outcome for name in ("hourly", "daily")]


def test_files_are_maintained_on_a_store(site: Site) -> None:
    """
    Small files become fewer, nothing that readers see changes, and files that no version needs are removed.
    """
    for i in range(12):
        site.add(i * 60, 1)
        site.lake.refresh("hourly")
    output = f"{site.bucket}/lake/hourly/output"
    before = latest_version(output)
    site.lake.maintain("hourly")

    assert before <= latest_version(output)
    assert site.rows == site.totals
    assert [
        f"{e.name} of an unfinished rewrite" for e in places.entries(output) if e.name.startswith("_maintain")
    ] == []


def test_a_journal_is_backed_up_and_restored_on_a_store(site: Site, tmp_path: Path) -> None:
    """
    A copy goes to the store or to this machine; a restored journal goes on, and the replaced one stays beside it.
    """
    for folder in (f"{site.bucket}/backup", str(tmp_path / "backup")):
        assert folder == site.lake.backup(folder).folder
        site.add(100, 5)
        site.lake.refresh("hourly")
        report = site.lake.restore(folder)

        assert places.is_folder(report.aside)
        for name in site.lake.names():
            site.lake.repair(name)
        site.lake.refresh("hourly")
        assert site.rows == site.totals


def test_a_dropped_aggregate_leaves_nothing(site: Site) -> None:
    """
    Its files are deleted, and its name can be taken again.
    """
    site.lake.drop("daily")
    site.lake.drop("hourly")

    assert not places.exists(f"{site.bucket}/lake/hourly")
    site.lake.apply(HOURLY)
    site.lake.refresh("hourly")
    assert site.rows == site.totals


def test_definitions_and_suites_lie_on_a_store(place: str, spark: Any) -> None:
    """
    A folder of definitions is applied, with the suite of the aggregate's name and one that is named by its URL; a row that fails is
    not published.
    """
    named = HOURLY.replace("hourly", "named").replace(
        "AS\nSELECT", f"TBLPROPERTIES ('quality.suite' = '{place}/more/n.json') AS\nSELECT"
    )
    for name, text in (("definitions/hourly.sql", HOURLY), ("definitions/named.sql", named)):
        places.put(f"{place}/{name}", text.encode())
    for name, column, most in (("suites/hourly.json", "n", 60), ("more/n.json", "total", 60_000)):
        between = {"type": "expect_column_values_to_be_between", "kwargs": {"column": column, "max_value": most}}
        places.put(f"{place}/{name}", json.dumps({"name": name, "expectations": [between]}).encode())
    config = Config(sources={"trades": f"{place}/trades"}, expectations=f"{place}/suites")
    site = Site(place, spark, config)
    site.lake.apply(f"{place}/definitions")
    site.add(0, 60)
    assert ["refreshed"] * 2 == [site.lake.refresh(name).outcome for name in ("hourly", "named")]
    site.add(0, 1)

    with pytest.raises(QualityGateError):
        site.lake.refresh("hourly")
    assert "refreshed" == site.lake.refresh("named").outcome
    places.delete(f"{place}/more/n.json")
    with pytest.raises(DefinitionError, match="there is no suite"):
        site.lake.apply(f"{place}/definitions")
    with pytest.raises(UsageError, match="cannot be written to"):
        site.lake.check("named", docs=f"{place}/pages")


def test_no_secret_is_written_anywhere(
    bucket: str, s3: S3Server, spark: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Keys of the configuration are in no file of the lake, in no report, and in nothing that is printed.
    """
    storage = {name.lower(): value for name, value in s3.environment().items()}
    site = Site(bucket, spark, Config(sources={"trades": f"{bucket}/trades"}, storage=storage))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    try:
        site.lake.apply(HOURLY)
        told = [site.lake.plan("hourly"), site.lake.refresh("hourly"), site.lake.status(), site.lake.doctor()]
        files = [places.read(f"{bucket}/lake/{file.name}") for file in places.files(f"{bucket}/lake")]
    finally:
        store_settings.configure({})
    printed = capfd.readouterr()

    assert len(files) > 10
    assert not any(s3.secret.encode() in content for content in files)
    assert s3.secret not in f"{told} {printed} {site.lake.config}"


def test_commands_ask_a_store_little(bucket: str, proxy: Proxy, spark: Any) -> None:
    """
    A refresh without work, one of few rows and a look at many aggregates stay cheap where each look is a request.
    """
    steps = Bench(bucket, proxy, spark).run(aggregates=8)

    assert 6 >= steps["no-op, warm"].total
    assert 6 >= steps["no-op, new process"].total
    assert 60 >= steps["small refresh, warm"].total
    assert 8 + 3 >= steps["status of 8, warm"].total
    assert 8 + 5 >= steps["status of 8, new process"].total


def test_a_new_process_with_nothing_to_do_asks_a_store_little(bucket: str, proxy: Proxy, spark: Any) -> None:
    """
    However long the journal and the log of the source are, and whether the journal was just folded; so does one of several.
    """
    bench = Bench(bucket, proxy, spark)
    bench.add(0, 1000)
    lake = bench.opened()
    lake.apply([BENCH_HOURLY.format(name=name) for name in ("hourly", "other")])
    lake.refresh("other")
    found = []
    for n in range(8):
        lake.refresh("hourly")
        with proxy.counted() as requests:
            said = bench.in_new_process("refresh", "hourly")
        found.append((len(requests), "hourly: up to date" in said))
        bench.add(10 + n, 2)
    lake.refresh("hourly")
    lake.refresh("other")
    with proxy.counted() as requests:
        said = bench.in_new_process("refresh", "--all")

    assert [(5, True)] * 8 == found
    assert 2 == said.count("up to date")
    assert 2 * 6 >= len(requests)
