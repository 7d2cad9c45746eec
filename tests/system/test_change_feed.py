"""The change feed of an output: what each refresh changed, why, and that nothing is lost or twice in it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.errors import UsageError
from tests.system.builders import MEASURES, Site, spark_is_slow
from tests.system.lake import Death, Died, dying

TRADES = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3)]
ON = {"output.change_feed": "true"}
META = ("_change", "_reason", "_refresh", "_source_version", "_published_at")


def feed(site: Site, name: str = "hourly") -> list[dict[str, Any]]:
    """Return the rows of a feed."""
    return DeltaTable(str(site.lake.root / name / "changes")).to_pyarrow_table().to_pylist()


def replayed(site: Site, name: str = "hourly") -> Counter[str]:
    """Return the rows that a feed leads to, each with how often: what came, less what went."""
    output = DeltaTable(str(site.lake.root / name / "output")).schema()
    found: Counter[str] = Counter()
    for row in feed(site, name):
        came = row["_change"] in ("insert", "update_postimage")
        found[str([row[f.name] for f in output.fields])] += 1 if came else -1
    return Counter({row: n for row, n in found.items() if n})


def expect_replay(site: Site, name: str = "hourly") -> None:
    """Assert that the feed leads to what is published."""
    rows = DeltaTable(str(site.lake.root / name / "output")).to_pyarrow_table().to_pylist()
    assert Counter(str(list(row.values())) for row in rows) == replayed(site, name)


def told(site: Site, n: int) -> list[tuple[Any, ...]]:
    """Return (hour, symbol, total, change, reason) of a refresh, sorted."""
    rows = [r for r in feed(site) if r["_refresh"] == n]
    return sorted((r["bucket"].hour, r["sym"], r["total"], r["_change"], r["_reason"]) for r in rows)


@spark_is_slow
def test_each_refresh_says_what_changed_and_why(site):
    """
    New rows, late rows, corrections and deletes, each with the row before; a row that is as it was is no change.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly(properties=ON)
    site.expect_refresh()
    trades.trade(("00:20", "A", 5), ("02:10", "A", 7))
    site.expect_refresh()
    trades.update("sym = 'B'", price=9)
    trades.delete("price = 3")
    site.expect_refresh()
    site.expect_refresh(force=True)

    assert [(0, "A", 1), (0, "B", 2), (1, "A", 3)] == [row[:3] for row in told(site, 1)]
    assert {("insert", "new")} == {row[3:] for row in told(site, 1)}
    assert [
        (0, "A", 1, "update_preimage", "late"),
        (0, "A", 6, "update_postimage", "late"),
        (2, "A", 7, "insert", "new"),
    ] == told(site, 2)
    assert [
        (0, "B", 2, "update_preimage", "correction"),
        (0, "B", 9, "update_postimage", "correction"),
        (1, "A", 3, "delete", "delete"),
    ] == told(site, 3)
    assert [] == told(site, 4), "the same rows again are no change"
    assert {1: 1, 2: 2, 3: 4} == {r["_refresh"]: r["_source_version"] for r in feed(site)}
    expect_replay(site)
    assert 4 == site.lake.changes("hourly", after_refresh=1).where("_change <> 'insert'").count() - 1
    assert ["A"] == site.lake.changes("hourly", "pandas", reason="delete")["sym"].tolist()


@pytest.mark.parametrize(
    "step",
    [
        "wrote_output",
        *(
            pytest.param(s, marks=pytest.mark.slow)
            for s in ("plan", "compute", "wrote_partials", "done", "end", "changes", "wrote_changes")
        ),
    ],
)
def test_a_death_anywhere_loses_nothing_and_doubles_nothing(site, step):
    """
    The next command brings the feed up to date, with the number and the reasons of the refresh that died.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly(properties=ON)
    site.expect_refresh()
    trades.trade(("00:20", "A", 5))
    with dying(Death(step, 1, is_kill=False)) as on_checkpoint, pytest.raises(Died):
        site.opened_with(on_checkpoint).refresh("hourly")
    trades.update("sym = 'B'", price=9)
    site.lake.refresh("hourly")

    expect_replay(site)
    late = [row[2:] for n in (2, 3) for row in told(site, n) if row[1] == "A"]
    if step in ("plan", "compute", "wrote_partials"):
        late = [row[:2] for row in late]
    assert 2 == len(late)
    assert 2 == len([r for r in feed(site) if r["sym"] == "B" and r["_reason"] == "correction"])


def test_a_feed_may_begin_later_and_pause(site):
    """
    One that is asked for later begins with what is published, and one that was off is brought up to date in one step.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly()
    site.expect_refresh()
    with pytest.raises(UsageError, match="has no change feed"):
        site.lake.changes("hourly")
    site.hourly(properties=ON)
    site.lake.refresh("hourly")
    expect_replay(site)
    site.hourly(properties={})
    trades.trade(("00:20", "A", 5))
    site.expect_refresh()
    assert 3 == len(feed(site))
    site.hourly(properties=ON)
    site.lake.refresh("hourly")

    expect_replay(site)
    assert ["update_postimage", "update_preimage"] == sorted(r["_change"] for r in feed(site) if r["_refresh"] == 2)
    site.lake.maintain("hourly")
    assert [] == [f for f in site.lake.doctor("hourly") if f.level == "error"]
    site.lake.drop("hourly")
    assert not (site.lake.root / "hourly").exists()


def test_another_definition_is_a_reason(site):
    """
    A switch says which rows it changed; a measure that is added is a column that older rows do not have, one whose type
    changes begins the feed again.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly(properties=ON)
    site.expect_refresh()
    site.hourly(properties=ON, measures=MEASURES | {"least": "min(price)"}, where="sym = 'A'")
    site.lake.build("hourly")

    rows = [r for r in feed(site) if r["_refresh"] > 1]
    assert {"definition"} == {r["_reason"] for r in rows}
    assert Counter(update_preimage=2, update_postimage=2, delete=1) == Counter(r["_change"] for r in rows)
    assert {None, 1, 3} == {r["least"] for r in feed(site)}
    expect_replay(site)
    site.hourly(properties=ON, measures={"total": "avg(price)"})
    site.lake.build("hourly")
    assert {("insert", "definition")} == {(r["_change"], r["_reason"]) for r in feed(site)}
    expect_replay(site)
    trades.trade(("00:20", "A", 5))
    site.expect_refresh()
    expect_replay(site)


def test_results_of_engines_have_a_feed(site):
    """
    A late row moves the end of a session: the window before goes, the other comes.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.lake.define(
        "sessions", "trades", engine="session_window", time="ts", session_gap="30 minutes", keys=["sym"],
        measures={"total": "sum(price)"}, properties=ON,
    )  # fmt: skip
    site.lake.refresh("sessions")
    trades.trade(("00:30", "A", 5), ("02:00", "A", 1))
    site.lake.refresh("sessions")

    expect_replay(site, "sessions")
    assert {"new", "late", "delete"} >= {r["_reason"] for r in feed(site, "sessions")}


def test_a_feed_that_spark_computes_leads_to_the_output(tmp_path, spark):
    """
    Of rows that the driver does not hold: they come and go in files that Spark wrote, which lie in folders of the table.
    """
    site = Site(tmp_path, spark, driver_lane_rows=0)
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly(properties=ON)
    site.lake.refresh("hourly")
    trades.trade(("00:20", "A", 5))
    site.lake.refresh("hourly")

    expect_replay(site)
    assert [1, 1, 1, 2, 2] == sorted(row["_refresh"] for row in feed(site))
    assert [("update_preimage", "late"), ("update_postimage", "late")] == [row[3:] for row in told(site, 2)]
