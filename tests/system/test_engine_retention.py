"""What the output of an engine keeps: old results leave it and do not come back, and later ones are still built on them."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.core.time.spans import NEG_INF
from materializer.errors import RetiredWindowError
from tests.system import verifying
from tests.system.builders import DAY, Site, some_slow, spark_is_slow
from tests.system.engine_histories import DEFINITIONS, World
from tests.system.lake import Died, micros, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.config import ExecutorChoice

KEEPS: Final = {"output.retention": "3 hours"}
SUMS: Final[dict[str, Any]] = {
    "engine": "reactive_state",
    "time": "ts",
    "keys": ["sym"],
    "measures": {"sums": "cumsum(price)"},
}
TRADES: Final = [("00:10", "A", 1), ("01:10", "A", 2), ("02:10", "A", 4), ("03:10", "A", 8)]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", ["spark", "auto"])
def test_what_left_the_output_stays_away_whoever_computes(
    tmp_path: Path, spark: SparkSession, executor: ExecutorChoice
) -> None:
    """
    A refresh that computes old results again, too, publishes those alone that the output keeps.
    """
    site = Site(tmp_path, spark, executor=executor)
    site.table().trade(*TRADES)
    bars = {"engine": "time_series", "window_size": "10 minutes", "step": "10 minutes", "measures": {"n": "count(*)"}}
    site.lake.define("made", "trades", time="ts", keys=["sym"], properties={"output.retention": "2 hours"}, **bars)
    site.lake.refresh("made")
    site.tables["trades"].trade(("00:40", "A", 1), ("04:10", "A", 1))
    runs = site.lake.refresh("made", force=True).runs

    assert true(site.lake) > micros(DAY)
    assert {"local" if executor == "auto" else ""} == {run.report.executor for run in runs}


def summed(site: Site, **properties: str) -> Site:
    """Define running sums over four hours of trades and refresh them."""
    site.table().trade(*TRADES)
    site.lake.define("sums", "trades", **SUMS, properties={"output.retention": "2 hours"} | properties)
    site.lake.refresh("sums")
    return site


def sums(site: Site, which: str = "output") -> list[tuple[str, int]]:
    """Return the running sums of one of the two tables with their time of day."""
    folder = site.lake.root / "sums" / which
    path = folder if which == "output" else next(folder.iterdir())
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    if which == "output":
        return sorted((f"{r['time']:%H:%M}", r["sums"]) for r in rows)
    return sorted((f"{datetime.fromtimestamp(r['label'] / 1e6, DAY.tzinfo):%H:%M}", r["v_sums"]) for r in rows)


def dead_at(step: str) -> Callable[[str], None]:
    """Return what dies at a step and lets the other table be written."""

    def die(name: str) -> None:
        if name == step:
            raise Died(step)

    return die


def true(made: Materializer, name: str = "made") -> int:
    """Return from where on the output keeps results: none is older, and they are what computing everything gives.

    Of `sums` the tests say what these are; there each run draws which of them also ask `verify`.
    """
    state = made.journal.view().named(name)
    slices = DeltaTable(str(made.root / name / "output")).to_pyarrow_table(columns=["slice"])["slice"].to_pylist()
    assert min(map(micros, slices), default=state.retired) >= state.retired
    if name != "sums" or verifying.is_drawn():
        verdict = made.verify(name)
        assert verdict.compared
        assert verdict.is_equal, verdict.examples
    return state.retired


@spark_is_slow
def test_running_sums_go_on_where_old_rows_left_the_output(site) -> None:
    """
    Results of two hours stay in the output, all of them are kept beside it: late rows below the bound and above it change
    what is shown, and what falls behind goes.
    """
    summed(site)
    assert [("02:10", 7), ("03:10", 15)] == sums(site)
    assert [("00:10", 1), ("01:10", 3), ("02:10", 7), ("03:10", 15)] == sums(site, "partials")

    site.tables["trades"].trade(("00:20", "A", 100))
    site.lake.refresh("sums")
    assert [("02:10", 107), ("03:10", 115)] == sums(site)
    site.tables["trades"].trade(("02:30", "A", 1000))
    site.lake.refresh("sums")
    assert [("02:10", 107), ("02:30", 1107), ("03:10", 1115)] == sums(site)

    site.tables["trades"].trade(("05:10", "A", 16))
    fresh = site.lake.read("sums", fresh=True).toArrow().to_pylist()
    assert [("05:10", 1131)] == [(f"{r['time']:%H:%M}", r["sums"]) for r in fresh]
    [run] = site.lake.refresh("sums", "2024-03-01T05:00:00Z").runs
    assert "recompute+discard" == run.report.strategy
    assert [("05:10", 1131)] == sums(site)
    assert 7 == len(sums(site, "partials"))
    site.lake.refresh("sums")
    true(site.lake, "sums")
    assert site.lake.refresh("sums").runs == ()


def test_a_session_comes_out_of_what_is_not_shown(site) -> None:
    """
    A session that began before the bound is not shown. Once a row of it goes it is two, and the second begins behind the bound.
    """
    trades = site.table()
    trades.trade(*((at, "A", 1) for at in ("00:50", "01:20", "01:50", "02:10", "03:30")))
    parts = {"time": "ts", "keys": ["sym"], "session_gap": "45 minutes", "measures": {"n": "count(*)"}}
    properties = {"output.retention": "2 hours"}
    site.lake.define("sessions", "trades", engine="session_window", **parts, update_time="0", properties=properties)
    site.lake.refresh("sessions")
    assert [3] == [row[0].hour for row in site.published("sessions")]

    trades.delete("ts = '2024-03-01T01:50:00Z'")
    site.lake.refresh("sessions")

    assert [2, 3] == [row[0].hour for row in site.published("sessions")]
    true(site.lake, "sessions")


@pytest.mark.parametrize("name", some_slow(DEFINITIONS, ("overlapping",)))
def test_what_is_old_leaves_the_output_of_an_engine(name, spark, tmp_path) -> None:
    """
    Time goes on, and rows come late on both sides of the bound: the output is what computing everything gives from there on,
    and a fresh read says the same before.
    """
    world = World(spark, tmp_path, random.Random(f"kept from {name}"), DEFINITIONS[name])
    world.insert(60)
    made = world.open()
    world.define(made, DEFINITIONS[name], KEEPS)
    made.refresh("made")
    first = true(made)

    world.insert(3, 480, 600)
    world.insert(3, 0, 240)
    world.insert(2, 420, 480)
    fresh = rows_of(made.read("made", fresh=True).toArrow().to_pylist())
    made.refresh("made")

    assert NEG_INF < first < true(made)
    assert rows_of(DeltaTable(str(made.root / "made" / "output")).to_pyarrow_table().to_pylist()) == fresh
    assert made.refresh("made").runs == ()
    kept = DeltaTable(str(next((made.root / "made" / "partials").iterdir()))).to_pyarrow_table(columns=["slice"])
    assert min(map(micros, kept["slice"].to_pylist())) < first


def rows_of(rows: list[dict[str, Any]]) -> Counter[Any]:
    """Return rows as a bag."""
    return Counter(tuple(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(
    "step", some_slow(["compute", "write", "writing_output", "wrote_output", "done"], ("writing_output",))
)
def test_a_death_brings_nothing_back(step, site) -> None:
    """
    Wherever a refresh dies that takes old results out: the next one finishes or repeats it, and the feed tells why they went.
    """
    summed(site, **{"output.change_feed": "true"})
    site.tables["trades"].trade(("04:10", "A", 16), ("00:20", "A", 100))
    with pytest.raises(Died):
        site.opened_with(dead_at(step)).refresh("sums")

    site.lake.refresh("sums")

    assert [("03:10", 115), ("04:10", 131)] == sums(site)
    assert replayed(site.lake.root, "sums") == Counter(tuple(r.values()) for r in shown(site))
    feed = DeltaTable(str(site.lake.root / "sums" / "changes")).to_pyarrow_table().to_pylist()
    assert {("02:10", "delete", "delete")} == {
        (f"{r['time']:%H:%M}", r["_change"], r["_reason"]) for r in feed if r["_change"] == "delete"
    }


def shown(site: Site) -> list[dict[str, Any]]:
    """Return the rows of the output."""
    return DeltaTable(str(site.lake.root / "sums" / "output")).to_pyarrow_table().to_pylist()


def of(site: Site, keeps: str) -> None:
    """Apply the definition with another retention."""
    site.lake.define("sums", "trades", **SUMS, properties={"output.retention": keeps} if keeps else {})


def files(site: Site, which: str) -> set[str]:
    """Return the data files of a table."""
    folder = site.lake.root / "sums" / which
    path = folder if which == "output" else next(folder.iterdir())
    return {Path(name).name for name in DeltaTable(str(path)).file_uris()}


@pytest.mark.parametrize("step", some_slow(["compute", "writing_output", "done"], ("compute",)))
def test_old_results_go_though_nothing_changed(step, site) -> None:
    """
    A shorter retention takes results out by itself, and no kept one is written again. A refresh that dies over it leaves that
    to the next, though nothing is dirty.
    """
    summed(site, **{"output.retention": "3 hours"})
    assert 3 == len(sums(site))
    kept = files(site, "partials")
    of(site, "2 hours")
    with pytest.raises(Died):
        site.opened_with(dead_at(step)).refresh("sums")

    report = site.lake.refresh("sums")

    assert ["discard"] == [e.report.strategy for e in site.lake.history("sums")[:1]]
    assert len(report.recovered) == 1
    assert [("02:10", 7), ("03:10", 15)] == sums(site)
    assert kept == files(site, "partials")
    assert site.lake.refresh("sums").runs == ()
    true(site.lake, "sums")


def test_what_is_asked_for_comes_back(site) -> None:
    """
    A longer retention brings nothing back by itself; `invalidate` does, as far as it lets it. Behind the bound it is refused.
    """
    summed(site)
    with pytest.raises(RetiredWindowError, match=r"output\.retention"):
        site.lake.invalidate("sums", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")
    with pytest.raises(RetiredWindowError, match=r"output\.retention"):
        site.lake.refresh("sums", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z", force=True)
    of(site, "3 hours")
    assert site.lake.refresh("sums").runs == ()

    site.lake.invalidate("sums")
    site.lake.refresh("sums")

    assert [("01:10", 3), ("02:10", 7), ("03:10", 15)] == sums(site)
    true(site.lake, "sums")


@spark_is_slow
def test_a_repair_rebuilds_the_output_without_what_it_let_go(site) -> None:
    """
    From the kept results the output is made anew without the old ones; when those are lost as well, so is it from raw rows.
    """
    summed(site)
    shutil.rmtree(site.lake.root / "sums" / "output")
    assert not site.lake.repair("sums").mending.is_everything_dirty
    assert [("02:10", 7), ("03:10", 15)] == sums(site)
    assert site.lake.refresh("sums").runs == ()

    shutil.rmtree(site.lake.root / "sums" / "partials")
    assert site.lake.repair("sums").mending.is_everything_dirty
    site.lake.refresh("sums")

    assert [("02:10", 7), ("03:10", 15)] == sums(site)
    assert 4 == len(sums(site, "partials"))
    true(site.lake, "sums")


def test_another_version_keeps_as_much(site) -> None:
    """
    A changed definition is built without old results, and so is the way back, which is made from kept ones.
    """
    summed(site)
    other = {**SUMS, "measures": {"sums": "cumsum(price + 1)"}}
    site.lake.define("sums", "trades", **other, properties={"output.retention": "2 hours"})
    site.lake.build("sums")
    assert [("02:10", 10), ("03:10", 19)] == sums(site)

    site.lake.rollback("sums")
    site.lake.build("sums")

    assert [("02:10", 7), ("03:10", 15)] == sums(site)
    assert site.lake.refresh("sums").runs == ()
    true(site.lake, "sums")


def test_a_handler_is_not_given_what_is_not_kept(site) -> None:
    """
    What a late row changes below the bound is published nowhere.
    """
    given: list[int] = []
    site.table().trade(*TRADES)
    handlers = {"keep": lambda rows, _version: given.extend(r["sums"] for r in rows.collect())}
    lake = site.opened_for(**handlers)
    properties = {"output.retention": "2 hours"}
    lake.define("sums", "trades", **SUMS, output_handler="keep", properties=properties)
    lake.refresh("sums")
    site.tables["trades"].trade(("00:20", "A", 100), ("04:10", "A", 16))
    lake.refresh("sums")

    assert [7, 15, 115, 131] == sorted(given)
