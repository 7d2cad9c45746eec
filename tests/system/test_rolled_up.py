"""Roll-ups from partials on Spark: every kind of partial, by fewer keys and coarser buckets, against the raw rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.builders import Site

MEASURES: dict[str, str] = {
    "n": "count(*)",
    "total": "sum(price)",
    "mean": "avg(price)",
    "mean_at": "avg(CAST(price AS DECIMAL(12,3)))",
    "low": "min(sym)",
    "open": "first(price)",
    "close": "last(price)",
    "best": "max_by(sym, price)",
    "spread": "stddev(price)",
    "skewed": "skew(price)",
    "slope": "regr_slope(price, price * 2 + 1)",
    "p90": "approx_percentile(price, array(0.5, 0.9))",
    "syms": "approx_count_distinct(sym)",
    "rate": "try_divide(sum(price * 2), count(*)) + 1",
    "dear": "count(*) FILTER (WHERE price > 10)",
}
AGAIN = {name: f"rollup({name})" for name in MEASURES}
TRADES = [(f"{h:02}:{m:02}", sym, (h * m + 3) % 29) for h in range(20) for m in (5, 5, 35) for sym in "ABC"]


@pytest.fixture
def chain(site: Site) -> Site:
    """Hours by symbol, six hours by group of symbols over these, days without a key over those."""
    trades = site.table()
    trades.trade(*TRADES)
    hours = {**MEASURES, "best": "max_by(price, price)"}
    site.lake.define(
        "hours",
        "trades",
        time="ts",
        width="1 hour",
        keys=["sym"],
        measures=hours,
        where="price <> 7",
        having="count(*) > 1",
    )
    site.lake.define(
        "six",
        "hours",
        time="bucket",
        width="6 hours",
        keys={"which": "CASE WHEN sym = 'A' THEN 'a' ELSE 'other' END"},
        measures=AGAIN,
        where="sym <> 'C'",
    )
    site.lake.define(
        "days",
        "six",
        time="bucket",
        width="1 day",
        measures={**AGAIN, "half": "rollup(mean) / 2"},
        having="rollup(n) > 3",
    )
    return site


def published(site: Site) -> dict[str, Any]:
    return {name: site.published(name) for name in ("six", "days")}


def test_a_chain_of_rollups_is_plain_spark_over_the_raw_rows(chain: Site) -> None:
    """
    After the first refresh, after late rows, corrections and deletes; and a fresh read shows them before they are refreshed.
    """
    for name in ("hours", "six", "days"):
        chain.lake.refresh(name)
    for name in ("hours", "six", "days"):
        report = chain.lake.verify(name)
        assert report.is_equal, (name, report.examples)
        assert report.rows, name
    first = published(chain)

    trades = chain.tables["trades"]
    trades.trade(("02:10", "A", 100), ("02:10", "B", 4))
    trades.update("price = 9 AND sym = 'A'", price=90)
    trades.delete("price = 15")
    assert all(chain.lake.verify(name).is_equal for name in ("six", "days"))
    fresh = {name: chain.fresh(name) for name in ("six", "days")}
    for name in ("hours", "six", "days"):
        chain.lake.refresh(name)

    for name in ("six", "days"):
        report = chain.lake.verify(name)
        assert report.is_equal, (name, report.examples)
        assert report.rows, name
        assert len(fresh[name]) == len(published(chain)[name])
    exact = [
        chain.lake.read("days", as_="pandas").columns.get_loc(c) for c in ("n", "total", "low", "open", "close", "dear")
    ]
    assert [[row[i] for i in exact] for row in fresh["days"]] == [
        [row[i] for i in exact] for row in published(chain)["days"]
    ]
    assert first != published(chain)


def test_coarse_buckets_are_merged_from_the_partials_of_finer_ones(site: Site) -> None:
    """
    A definition over raw rows, of which another aggregate has every partial, is computed from these, by fewer keys.
    """
    trades = site.table()
    trades.trade(*TRADES)
    measures = {**MEASURES, "best": "max_by(price, price)"}
    site.lake.define("hours", "trades", time="ts", width="1 hour", keys={"symbol": "sym"}, measures=measures)
    site.lake.define("half", "trades", time="ts", width="12 hours", keys={"s": "sym"}, measures=measures)
    for name in ("hours", "half"):
        site.lake.refresh(name)
    report = site.lake.verify("half")
    [done] = site.lake.history("half")
    trades.trade(("02:10", "A", 100), ("02:10", "B", 4))
    trades.update("price = 9", price=90)
    for name in ("hours", "half"):
        site.lake.refresh(name)
    again = site.lake.verify("half")

    assert "roll-up" in done.report.strategy
    assert 60 == done.report.rows_read
    assert report.is_equal, report.examples
    assert again.is_equal, again.examples
    assert 6 == report.rows


def test_a_child_computes_the_keys_that_its_parent_computed(site: Site) -> None:
    """
    With Spark too: the note of the parent's commit names one symbol of thirty, by columns and through another child.
    """
    trades = site.table()
    trades.trade(*((f"{h:02}:{m:02}", f"S{s}", h * m + s) for h in range(6) for m in (5, 35) for s in range(30)))
    measures = {"n": "count(*)", "p": "approx_percentile(price, 0.5)", "syms": "approx_count_distinct(price)"}
    again = {name: f"rollup({name})" for name in measures}
    for name, source, time, width, chosen in (
        ("hours", "trades", "ts", "1 hour", measures),
        ("six", "hours", "bucket", "6 hours", again),
        ("days", "six", "bucket", "1 day", again),
    ):
        site.lake.define(name, source, time=time, width=width, keys=["sym"], measures=chosen)
        site.lake.refresh(name)
    trades.trade(("02:10", "S7", 1000))
    trades.update("price = 17 AND sym = 'S7'", price=90)

    for name, rows in (("hours", 2 + 1), ("six", 6), ("days", 1)):
        [run] = site.lake.refresh(name, strategy="recompute-keys").runs
        assert ("recompute-keys", rows) == (run.report.strategy, run.report.rows_read), name
        assert run.report.files_rewritten
        report = site.lake.verify(name)
        assert report.is_equal, (name, report.examples)
