"""A lake on S3 when things go wrong: processes are killed, answers are lost, the store refuses."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from materializer.errors import MaterializerError, StorageError
from materializer.lake import places
from tests.servers.proxy import Fault, Proxy
from tests.system.on_s3 import HOURLY, Site
from tests.system.processes.running import child_of

STEPS = ("plan", "compute", "writing_output", "wrote_partials", "wrote_output", "done")
QUICK = ("wrote_partials",)
NEVER = {"wrote_partials": "writing_output", "wrote_output": "writing_partials"}
"""Both tables are written at once; what the killed process never comes to, so that one of them is certainly missing."""
REFUSALS = (
    ("ExpiredToken", "", "", "get new credentials"),
    ("ExpiredToken", "", "hourly/output", "get new credentials"),
    ("RequestTimeTooSkewed", "GET", "", "set the clock"),
    ("AccessDenied", "PUT", "", "let these credentials"),
    ("AccessDenied", "PUT IF", "", "let these credentials"),
    ("PermanentRedirect", "", "trades/", "set AWS_REGION"),
)
"""What a store refuses, which requests, of which files, and what the hint is then."""


@pytest.fixture
def site(bucket: str, spark: Any, site_executor: Any) -> Site:
    """A lake with one aggregate over a day, refreshed; its rows are known, so it needs no twin, which the same faults would meet."""
    site = Site(bucket, spark, executor=site_executor)
    site.add(0, 24 * 60)
    site.lake.apply(HOURLY)
    site.lake.refresh("hourly")
    return site


@pytest.mark.parametrize("step", [pytest.param(s, marks=[] if s in QUICK else pytest.mark.slow) for s in STEPS])
def test_a_killed_refresh_is_mended_on_s3(site: Site, spark: Any, tmp_path: Path, step: str) -> None:
    """
    A refresh that is killed with signal 9 at any step is finished or undone by the next one, and no row is lost or doubled.
    """
    site.add(10, 3)
    lake = f"{site.bucket}/lake"
    never = ["--hang", NEVER[step]] if step in NEVER else []
    how = ["--executor", site.executor, "--borrow", "--wait", step, *never]
    with child_of(lake, "hourly", "refresh", *how, folder=tmp_path, spark=spark) as child:
        child.wait_at(step)
        child.kill()
    report = site.lake.refresh("hourly")

    assert ([] if step == "plan" else [2]) == [n for n, _ in report.recovered]
    assert site.rows == site.totals


def test_a_refresh_that_a_store_refuses(site: Site, proxy: Proxy) -> None:
    """
    A token that expires before or in the middle of it, a wrong clock, no permission to write, a source in another region: each ends
    with a code and what to do, readers see the old rows or the new ones, and the next refresh goes on.
    """
    for number, (refusal, kind, part, hint) in enumerate(REFUSALS):
        before = site.totals
        site.add(60 * number, 3)
        proxy.set(Fault(refusal, kind, part, times=1000))  # type: ignore[arg-type]
        with pytest.raises(StorageError) as caught:
            site.lake.refresh("hourly")
        assert hint in caught.value.hint
        assert caught.value.wrote
        proxy.set()
        assert site.totals in (before, site.rows)
        assert "refreshed" == site.lake.refresh("hourly").outcome
        assert site.rows == site.totals


def test_a_store_that_lets_nobody_delete(site: Site, proxy: Proxy) -> None:
    """
    An aggregate is dropped although its files cannot be removed; with the permission the next drop removes them, and it is made again.
    """
    proxy.set(Fault("AccessDenied", "DELETE", times=1000))
    with pytest.raises(StorageError, match="AccessDenied") as caught:
        site.lake.drop("hourly")
    assert "let these credentials list, read, write and delete" in caught.value.hint
    assert "'hourly' is dropped" in caught.value.wrote
    site.add(0, 3)
    proxy.set()
    site.lake.drop("hourly")
    assert not places.is_folder(f"{site.bucket}/lake/hourly")
    site.lake.apply(HOURLY)
    site.lake.refresh("hourly")
    assert site.rows == site.totals


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 9))])
def test_commands_over_a_store_that_fails(bucket: str, proxy: Proxy, spark: Any, seed: int) -> None:
    """
    One conditional put in three loses its answer, and some requests are refused once: a command succeeds or stops with a code, and
    after the last one, over a store that is sound again, every row counts once.
    """
    choose = random.Random(seed)
    site = Site(bucket, spark)
    stopped = []
    site.add(0, 600)
    for turn in range(4):
        faults = [Fault("refuse", choose.choice(["PUT", "PUT IF", "GET", "LIST"]), times=choose.randint(0, 2))]
        proxy.set(*faults, lose=1 / 3)
        try:
            site.lake.apply(HOURLY)
            site.lake.refresh("hourly")
        except MaterializerError as exc:
            stopped.append(exc.code)  # and the next turn goes on
        proxy.set()
        site.add(turn * 50, 7)
    site.lake.apply(HOURLY)
    site.lake.refresh("hourly")

    assert site.rows == site.totals
    assert not {"tables.foreign", "lease.held"} & set(stopped), "a lost answer is not taken for another process"
    numbers = [ended.n for ended in site.lake.history("hourly", None)]
    assert sorted(set(numbers), reverse=True) == numbers, "a refresh ended twice"
