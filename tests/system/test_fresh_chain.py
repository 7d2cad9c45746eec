"""An always-fresh read of an aggregate over another: as if both had been refreshed, parent first."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.system.builders import DAY, HOURLY, Site, Table

SUMS = {"n": "sum(n)", "total": "sum(total)", "top": "max(top)"}
TRADES = [(f"{h:02}:{m:02}", sym, h + 1) for h in range(20) for m in (5, 35) for sym in "AB"]
PLAIN = HOURLY.replace("1 hour", "1 day")
A_DAY = 86_400_000_000


def chained(site: Site) -> Table:
    """Define hours over trades, six hours over these and days over those, and refresh them all."""
    trades = site.table()
    trades.trade(*TRADES)
    site.hourly()
    site.lake.define("six", "hourly", time="bucket", width="6 hours", keys=["sym"], measures=SUMS)
    site.lake.define("daily", "six", time="bucket", width="1 day", keys=["sym"], measures=SUMS)
    for name in ("hourly", "six", "daily"):
        site.lake.refresh(name)
    return trades


def test_a_fresh_read_goes_down_to_the_raw_rows(site: Site) -> None:
    """
    Rows came, were corrected and deleted, in old buckets and on a new day, and nothing was refreshed: the grandchild shows what
    plain Spark says of the raw rows, writes nothing, counts the raw rows that it was computed from, and is what refreshing each in
    turn publishes.
    """
    trades = chained(site)
    trades.trade(("02:10", "A", 100), (DAY + timedelta(hours=26, minutes=10), "C", 7))
    trades.update("price = 9 AND sym = 'A'", price=90)
    trades.delete("price = 15")
    before = site.files()

    read = site.lake.fresh("daily")
    fetched = read.fetch()
    found = site.sorted(fetched.table)
    assert site.rows(PLAIN.format(source=trades.plain_sql(site.spark))) == found
    assert (2, "recompute") == (sum((s.end - s.start) // A_DAY for s in read.computed), read.strategy)
    assert fetched.cost.rows_read > 2 * 4 * 2
    assert before == site.files()
    for name in ("hourly", "six", "daily"):
        site.lake.refresh(name)
    assert found == site.published("daily")
    assert "nothing" == site.lake.fresh("daily").strategy


@pytest.mark.slow
def test_a_fresh_read_of_a_window_goes_down_to_the_raw_rows(site: Site) -> None:
    """
    Of a parent that was refreshed in part the rest is computed, and of a window what lies in it; a clean window computes nothing.
    """
    trades = chained(site)
    trades.trade(("02:10", "A", 100), ("14:10", "B", 100))
    assert "nothing" == site.lake.fresh("six", "2024-03-01T18:00:00Z", "2024-03-02T00:00:00Z").strategy
    site.lake.refresh("hourly", "2024-03-01T00:00:00Z", "2024-03-01T09:00:00Z")
    six = site.fresh("six")
    late = ("2024-03-01T12:00:00Z", "2024-03-01T18:00:00Z")

    assert [row for row in six if row[0].hour == 12] == site.fresh("six", *late)
    assert 1 == len(site.lake.fresh("six", *late).computed)
    assert site.rows(PLAIN.format(source=trades.plain_sql(site.spark))) == site.fresh("daily")


HOURS: dict[str, Any] = {
    "time": "ts",
    "width": "1 hour",
    "keys": ["sym"],
    "measures": {"n": "count(*)", "total": "sum(price)", "top": "max(price)"},
}
OVER: dict[str, Any] = {"time": "bucket", "width": "6 hours", "keys": ["sym"], "measures": SUMS}
SESSIONS: dict[str, Any] = {"engine": "session_window", "keys": ["sym"], "session_gap": "40 minutes"}
COUNTED: dict[str, Any] = {"measures": {"n": "count(*)", "total": "sum(price)"}}
AGAIN: dict[str, Any] = {"measures": {"n": "sum(n)", "total": "sum(total)"}}
RUNNING: dict[str, Any] = {
    "engine": "reactive_state",
    "time": "bucket",
    "keys": ["sym"],
    "measures": {"sums": "cumsum(total)"},
}
KEEPS = {"properties": {"output.retention": "12 hours"}}
FOUR = {"properties": {"output.retention": "4 hours"}}

CHAINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sessions-of-hours": (HOURS, SESSIONS | AGAIN | {"time": "bucket", "session_gap": "90 minutes"}),
    "hours-of-sessions": (SESSIONS | COUNTED | {"time": "ts"}, OVER | AGAIN | {"time": "slice"}),
    "hours-of-ended-sessions": (SESSIONS | COUNTED | {"time": "ts"}, OVER | AGAIN | {"time": "window_end"}),
    "running-sums-of-hours": (HOURS, RUNNING),
    "forced-sessions-of-hours": (
        HOURS,
        SESSIONS | AGAIN | {"time": "bucket", "session_gap": "90 minutes", "force_trigger_time": "2 hours"},
    ),
    "by-another-time": (
        HOURS | {"measures": HOURS["measures"] | {"last": "max(ts)"}},
        OVER | {"time": "last"},
    ),
    "child-keeps-less": (HOURS, OVER | KEEPS),
    "parent-keeps-less": (HOURS | FOUR, OVER),
    "both-keep-less": (HOURS | FOUR, OVER | KEEPS),
    "engine-keeps-less": (SESSIONS | COUNTED | {"time": "ts"} | FOUR, OVER | AGAIN | {"time": "slice"}),
    "counted-sessions": (
        SESSIONS | COUNTED | {"time": "ts"},
        {"engine": "count_window", "time": "window_start", "end": "window_end", "keys": ["sym"], "count": "3"} | AGAIN,
    ),
}


def changed(trades: Table, rng: random.Random) -> None:
    """Change the trades in one commit, as a source may."""
    if rng.random() < 0.5:
        when = [DAY + timedelta(minutes=rng.randrange(0, 30 * 60, 5)) for _ in range(rng.randint(1, 4))]
        trades.trade(*[(t, rng.choice("ABC"), rng.randrange(100)) for t in when])
    elif rng.random() < 0.5:
        trades.update(f"price = {rng.randrange(25)}", price=rng.randrange(100))
    else:
        trades.delete(f"price = {rng.randrange(25)} AND sym = '{rng.choice('AB')}'")


def expect_as_refreshed(site: Site, *names: str) -> None:
    """Assert that a fresh read of the last of some aggregates is what refreshing them in turn publishes."""
    found = site.fresh(names[-1])
    for name in names:
        site.lake.refresh(name)
    assert site.published(names[-1]) == found


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_a_fresh_read_is_what_refreshes_of_the_chain_publish(site: Site, chain: str) -> None:
    """
    Whatever computes parent and child, and whatever either lets go of.
    """
    parent, child = CHAINS[chain]
    trades = site.table()
    trades.trade(*TRADES)
    site.lake.define("parent", "trades", **parent)
    site.lake.define("child", "parent", **child)
    expect_as_refreshed(site, "parent", "child")

    trades.trade(("02:10", "A", 100), (DAY + timedelta(hours=26, minutes=10), "C", 7))
    trades.update("price = 9 AND sym = 'A'", price=90)
    trades.delete("price = 15")
    expect_as_refreshed(site, "parent", "child")
    trades.delete("price > 18")
    site.lake.refresh("parent")
    trades.trade(("17:20", "B", 3))
    expect_as_refreshed(site, "parent", "child")


@pytest.mark.slow
def test_what_a_child_has_frozen_stays(site: Site) -> None:
    """
    A correction below the frozen bound changes nothing there, as in a refresh; one above it is computed.
    """
    trades = site.table()
    trades.trade(*TRADES)
    site.lake.define("parent", "trades", **HOURS)
    site.lake.define("child", "parent", **OVER)
    for name in ("parent", "child"):
        site.lake.refresh(name)
    site.lake.expire("child", "2024-03-01T12:00:00Z")
    trades.update("price = 3 AND sym = 'A'", price=30)
    trades.update("price = 18 AND sym = 'A'", price=80)

    before = site.published("child")
    assert [12] == [row[0].hour for row in {*site.fresh("child")} - {*before}]
    expect_as_refreshed(site, "parent", "child")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_fresh_reads_of_random_chains(site: Site, seed: int) -> None:
    """
    Whatever happens to the raw rows, and whichever of the two was refreshed in between, wholly or in part.
    """
    rng = random.Random(seed)
    parent, child = CHAINS[rng.choice([*CHAINS])]
    trades = site.table()
    trades.trade(*TRADES)
    site.lake.define("parent", "trades", **parent)
    site.lake.define("child", "parent", **child)
    for _ in range(4):
        for _ in range(rng.randint(1, 3)):
            changed(trades, rng)
            if rng.random() < 0.5:
                site.lake.refresh(rng.choice(["parent", "child"]))
        expect_as_refreshed(site, "parent", "child")
