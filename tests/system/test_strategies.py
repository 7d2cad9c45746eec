"""How a refresh goes about it: which strategy, why not another, what it reads, and that the plan told so before."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.plan import Lane, Merge, Recompute, Settle
from materializer.errors import NotIncrementalError
from materializer.spark.query import compute
from tests.paths import ROOT
from tests.system.builders import Site, at
from tests.tables import append_trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = [
    (f"{hour:02}:{minute:02}", sym, 100 * hour + minute) for hour in range(4) for minute in range(60) for sym in "AB"
]
"""Two trades a minute in four hours: enough that kept partials are cheaper to read than rows."""
LATE = [("01:30", "A", 700), ("02:10", "C", 5)]


@pytest.fixture
def busy(site: Site) -> Site:
    """Four hours of trades, one file an hour, and an hourly aggregate of them, refreshed."""
    trades = site.table()
    for hour in range(4):
        trades.trade(*[t for t in MINUTES if t[0].startswith(f"{hour:02}")])
    site.hourly()
    site.lake.refresh("hourly")
    return site


def unpriced(steps: Iterable[Any]) -> list[Any]:
    """Return the steps of a plan without what they are expected to take."""
    return [replace(s, seconds=0, rejected=tuple(replace(r, seconds=0) for r in s.rejected)) for s in steps]


def tables_of(site: Site) -> dict[str, tuple[int, int]]:
    """Return the files of everything but the journal."""
    return {name: of for name, of in site.files().items() if "_materializer" not in name}


@pytest.mark.parametrize("site", [200_000, 0], ids=["driver", "spark"], indirect=True)
def test_late_inserts_are_merged(busy):
    """
    Only the late rows and kept partials are read; the result is what recomputing gives.
    """
    busy.tables["trades"].trade(*LATE)

    [run] = busy.expect_refresh(strategy="merge", strict=True).runs

    assert len(LATE) == run.report.rows_read
    busy.expect_true()
    merged = busy.published("hourly")
    busy.expect_refresh(strategy="recompute", force=True)
    assert merged == busy.published("hourly")


def test_inserts_of_several_commits_are_merged_once(busy):
    """
    Changes that gather between refreshes are merged together, each row once.
    """
    for trade in LATE:
        busy.tables["trades"].trade(trade)
        busy.lake.refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")  # captures, finds nothing to do
    busy.tables["trades"].trade(LATE[0])

    [run] = busy.expect_refresh(strategy="merge").runs

    assert 3 == run.report.rows_read
    busy.expect_true()


def test_updates_are_recomputed_beside_merged_inserts(busy):
    """
    One plan merges the bucket that only grew and computes the changed group of the other again, with the reason.
    """
    busy.tables["trades"].trade(("03:30", "A", 1))
    busy.tables["trades"].update("price = 105 AND sym = 'A'", price=11)
    steps = worked(busy.lake.plan("hourly"))

    assert ["Merge", "Recompute"] == sorted(type(step).__name__ for step in steps)
    [recompute] = [step for step in steps if isinstance(step, Recompute)]
    assert "rows changed" == recompute.reason
    assert [
        ("merge", "rows were updated or deleted, not only inserted"),
        ("retract", "sum(price) cannot be subtracted without the count of its values"),
        ("recompute", "would aggregate about 120 of 120 raw rows"),
    ] == reasons(recompute)

    [run] = busy.expect_refresh(strict=True, strategy="merge+recompute-keys").runs
    assert 1 + 60 == run.report.rows_read
    busy.expect_true()


def worked(preview):
    """Return the steps that read something."""
    return [step for step in preview.plan.steps if not isinstance(step, Settle)]


def reasons(step):
    return [(rejected.strategy, rejected.reason) for rejected in step.rejected]


def test_an_aggregate_that_does_not_merge_is_recomputed(busy):
    """
    The plan names what cannot be merged; only the rows of the late row's group are read, in both files of its bucket.
    """
    busy.hourly("medians", measures={"middle": "median(price)"})
    busy.expect_refresh("medians", strategy="rebuild")
    busy.tables["trades"].trade(LATE[0])

    [step] = worked(busy.lake.plan("medians", strict=True))
    assert isinstance(step, Recompute)
    [(strategy, reason), *_] = reasons(step)
    assert "merge" == strategy
    assert "median" in reason
    [run] = busy.expect_refresh("medians", strategy="recompute-keys", strict=True).runs

    assert 61 == run.report.rows_read
    assert 121 + 8 == step.estimate.rows  # the stored groups are read, too
    assert busy.lake.verify("medians").is_equal


@pytest.mark.parametrize("site", [200_000, 0], ids=["driver", "spark"], indirect=True)
def test_corrections_of_few_keys_compute_their_groups(site):
    """
    In both lanes, and by a fresh read before, only the groups of the keys that changed are aggregated; what a key moved to is a
    group like any other.
    """
    trades = site.table()
    trades.trade(
        *[(f"{hour:02}:{m:02}", sym, 100 * hour + m) for hour in range(2) for m in range(60) for sym in "ABCDEFGHIJ"]
    )
    site.hourly()
    site.lake.refresh("hourly")
    trades.update("price = 5 AND sym = 'A'", sym="new")
    trades.update("price = 105 AND sym = 'B'", price=11)
    [step] = worked(site.lake.plan("hourly"))
    assert 3 == step.keys
    fresh = site.lake.fresh("hourly")
    assert "recompute-keys" == fresh.strategy.removesuffix("+settle")
    as_read = sorted(map(repr, fresh.frame.collect()))

    [run] = site.expect_refresh(strategy="recompute-keys", strict=True).runs

    assert 59 + 1 + 60 == run.report.rows_read
    site.expect_true()
    assert as_read == sorted(map(repr, site.lake.fresh("hourly").frame.collect()))


def test_few_rows_are_not_worth_a_merge(site):
    """
    Where raw rows are no more than kept groups and late rows, they are read, and the plan says so.
    """
    site.table().trade(("00:10", "A", 1))
    site.hourly()
    site.lake.refresh("hourly")
    site.tables["trades"].trade(("00:20", "A", 2))

    [step] = worked(site.lake.plan("hourly"))

    assert "would not be cheaper" in step.rejected[0].reason


def test_other_dirt_is_recomputed_with_its_reason(busy):
    """
    Forced and invalidated buckets say that they are; nothing is merged into them.
    """
    [step] = worked(busy.lake.plan("hourly", force=True))
    assert "forced" == step.reason
    busy.lake.invalidate("hourly", "2024-03-01T01:00:00Z", "2024-03-01T02:00:00Z")
    busy.tables["trades"].trade(LATE[0])
    [step] = worked(busy.lake.plan("hourly"))
    assert "invalidated by hand" == step.reason


def test_strict_refuses_a_rebuild(site):
    """
    A first computation is nothing incremental: strict refuses it, in plan and in refresh, and writes no row.
    """
    site.table().trade(*LATE)
    site.hourly()
    before = tables_of(site)

    with pytest.raises(NotIncrementalError, match="never materialised"):
        site.lake.plan("hourly", strict=True)
    with pytest.raises(NotIncrementalError, match="never materialised") as refused:
        site.lake.refresh("hourly", strict=True)

    assert "without --strict" in refused.value.hint
    assert before == tables_of(site)
    assert "empty" == site.lake.status("hourly")[0].state
    site.expect_refresh(strategy="rebuild")


def test_a_refresh_does_what_the_plan_said(busy):
    """
    Planning writes nothing at all; the refresh after it has the same window, steps, lane and version.
    """
    busy.tables["trades"].trade(*LATE)
    busy.tables["trades"].delete("price = 0")
    before, version = busy.files(), busy.lake.journal.view().version

    told = busy.lake.plan("hourly")

    assert (before, version) == (busy.files(), busy.lake.journal.view().version)
    report = busy.lake.refresh("hourly")
    [done] = [run.plan for run in report.runs]
    assert (told.plan.n, told.plan.source_version) == (done.n, done.source_version)
    assert (told.plan.window, told.plan.steps, told.plan.lane) == (done.window, done.steps, done.lane)
    assert (told.window, told.runs) == (report.window, len(report.runs))
    assert told.dirty == done.spans


def test_small_results_are_committed_by_the_driver(busy):
    """
    The plan says who commits; it depends on how many rows the result may have.
    """
    busy.tables["trades"].trade(*LATE)
    small = busy.lake.plan("hourly").plan
    spark = busy.beside(busy.root, driver_lane_rows=3, executor="spark").lake.plan("hourly").plan

    assert (Lane.DRIVER, Lane.SPARK) == (small.lane, spark.lane)
    assert [Merge] == [type(step) for step in small.steps if not isinstance(step, Settle)]
    assert unpriced(small.steps) == unpriced(spark.steps)
    assert (small.steps == spark.steps) == (busy.config.executor == "spark"), "each executor has prices of its own"


def test_wide_results_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """
    Where stored groups tell how many bytes one takes, the driver's budget of bytes decides as its budget of rows does.
    """
    append_trades(tmp_path, 1, rows=1_500)
    lakes = [
        Materializer(tmp_path, spark=spark, config=Config(driver_bytes=most, executor="spark"))
        for most in (1 << 28, 16)
    ]
    lakes[0].apply(
        "CREATE MATERIALIZED VIEW bars AS SELECT time_bucket('20 minutes', ts) AS t, sym, count(*) AS n "
        "FROM trades GROUP BY time_bucket('20 minutes', ts), sym"
    )
    first = [lake.plan("bars").plan for lake in lakes]
    lakes[0].refresh("bars")
    append_trades(tmp_path, 2, rows=10)
    late = [lake.plan("bars").plan for lake in lakes]

    assert [Lane.DRIVER, Lane.DRIVER] == [plan.lane for plan in first if plan], "nothing tells how wide a group is"
    assert [Lane.DRIVER, Lane.SPARK] == [plan.lane for plan in late if plan]


@pytest.mark.parametrize("by", [pytest.param("configuration", marks=pytest.mark.slow), "property"])
def test_the_log_stays_bounded(site, by):
    """
    Dirt that gathers outside the window is joined when there is too much of it, never dropped.
    """
    is_property = by == "property"
    bounded = site.beside(site.root, log_max_entries=1_000 if is_property else 4)
    trades = bounded.table()
    trades.trade(*[(f"{hour:02}:10", "A", hour) for hour in range(24)])
    bounded.hourly(properties={"log.max_entries": "4"} if is_property else {})
    bounded.lake.refresh("hourly")
    for hour in range(1, 24, 2):
        trades.trade((f"{hour:02}:20", "B", hour))
        bounded.lake.refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")
        assert 4 >= bounded.lake.status("hourly")[0].entries - 1  # and the tail above the threshold

    bounded.expect_refresh()
    bounded.expect_true()


# -- commands without a JVM ------------------------------------------------------------------------------------------------


def without_java(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where no Java can be found."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "SPARK", "MATERIALIZER"))}
    env |= {"PATH": str(site.root / "nothing"), "PYTHONPATH": str(ROOT), "MATERIALIZER_LAKE": str(site.lake.root)}
    command = [sys.executable, "-m", "materializer", *arguments]
    return subprocess.run(command, cwd=site.root, env=env, capture_output=True, text=True, check=False)


def test_commands_with_nothing_to_do_need_no_java(busy):
    """
    A no-op, a compaction, a change outside the window and every look work where there is no Java at all.
    """
    for arguments in (["refresh", "hourly"], ["plan", "hourly"], ["status"], ["history", "hourly"], ["show", "hourly"]):
        ended = without_java(busy, *arguments)
        assert (0, "") == (ended.returncode, ended.stderr), arguments
    busy.tables["trades"].opened().optimize.compact()
    assert 0 == without_java(busy, "refresh", "hourly").returncode
    busy.tables["trades"].trade(LATE[0])
    window = ["--start", "2024-03-01T00:00:00Z", "--end", "2024-03-01T01:00:00Z"]
    assert 0 == without_java(busy, "refresh", "hourly", *window).returncode
    assert 0 == without_java(busy, "plan", "hourly").returncode

    assert busy.tables["trades"].version == busy.lake.status("hourly")[0].cursor


def test_work_without_java_is_refused_and_not_lost(busy):
    """
    The error says what is missing and how to get it; the dirt stays for the next refresh.
    """
    busy.tables["trades"].trade(LATE[0])

    ended = without_java(busy, "refresh", "hourly", "--executor", "spark")

    assert 71 == ended.returncode
    assert "java.missing" in ended.stderr
    assert "Traceback" not in ended.stderr
    busy.expect_refresh(strategy="merge")
    busy.expect_true()


@pytest.mark.parametrize(
    "executor", [pytest.param("spark", id=pytest.HIDDEN_PARAM), pytest.param("auto", marks=pytest.mark.slow)]
)
def test_products_that_cancel_each_other_are_equal_up_to_rounding(tmp_path, spark, executor):
    """
    Cubes and products of large values of both signs: the tolerance follows the terms, not the values. A twin's values alone
    do not tell the terms, so each executor's are verified.
    """
    site = Site(tmp_path, spark, executor=executor)
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("y", pa.float64())])
    table = site.table("points", schema)
    rng = random.Random(3)
    for _ in range(4):
        values = [rng.uniform(-3e6, 3e6) for _ in range(300)]
        table.write(
            [{"ts": at("00:10"), "x": v, "y": rng.uniform(-3e6, 3e6)} for v in [*values, *(-v for v in values)]]
        )
        if not site.lake.status():
            measures = {"cubes": "sum3(x)", "products": "wsum(x, y)"}
            site.lake.define("sums", "points", time="ts", width="1 hour", measures=measures)
        site.lake.refresh("sums")

    assert {"local" if executor == "auto" else ""} == {e.report.executor for e in site.lake.history("sums")}
    assert "merge" in site.lake.history("sums")[0].report.strategy
    report = site.lake.verify("sums")
    assert report.is_equal, report.examples


def test_a_warm_refresh_opens_no_log_again(busy: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However long the logs of source, partials and output are: what is open is brought up to date.
    """
    busy.tables["trades"].trade(*LATE)
    busy.lake.refresh("hourly")
    opened: list[str] = []

    def counted(path: str, **options: int | None) -> DeltaTable:
        opened.append(path)
        return DeltaTable(path, **options)

    monkeypatch.setattr(deltalake, "DeltaTable", counted)
    busy.tables["trades"].trade(("01:31", "A", 701))
    done = busy.lake.refresh("hourly")

    assert 1 == len(done.runs)
    assert [] == [path for path in opened if "/twin-" not in path], "a twin is a lake that is opened anew"
    busy.expect_true()


@pytest.mark.parametrize("site", [200_000, 0], ids=["driver", "spark"], indirect=True)
def test_a_refresh_counts_the_files_that_it_replaces(site):
    """
    Whoever commits: the file of the partials and that of the output which a late row goes into; none at first.
    """
    trades = site.table()
    trades.trade(("00:10", "A", 1), ("01:10", "A", 2))
    site.hourly()
    first = site.lake.refresh("hourly")
    trades.trade(("01:20", "A", 3))

    assert [0, 2] == [r.runs[0].report.files_rewritten for r in (first, site.lake.refresh("hourly"))]


@pytest.mark.of_spark("asks how Spark makes its projections")
@pytest.mark.parametrize(
    ("measures", "more", "is_interpreted"),
    [
        ({"n": "count(*)", "top": "max(price)", "opening": "first(sym)"}, {}, True),
        ({"n": "count(array(price))"}, {}, False),
        ({"n": "count(collate(sym, 'UTF8_LCASE'))"}, {}, False),
        ({"n": "count(*)"}, {"engine": "time_series", "step": "1 hour", "window_size": "1 hour"}, False),
    ],
    ids=["plain", "nested", "collated", "engine"],
)
def test_few_rows_are_interpreted_only_where_values_are_plain(site, monkeypatch, measures, more, is_interpreted):
    """
    Spark compiles projections for everything else: its two ways are not quite the same there.
    """
    site.table().trade(("08:00", "A", 1))
    given = more or {"width": "1 hour"}
    site.lake.define("hourly", "trades", time="ts", keys=["sym"], measures=measures, **given)
    engine, modes, to_arrow = site.lake.engine(), [], compute.to_arrow
    mode = lambda: engine.spark.conf.get("spark.sql.codegen.factoryMode")  # noqa: E731
    monkeypatch.setattr(compute, "to_arrow", lambda frame: (modes.append(mode()), to_arrow(frame))[1])

    site.lake.refresh("hourly")

    assert [is_interpreted] == [found == "NO_CODEGEN" for found in modes]
    assert "FALLBACK" == mode()
