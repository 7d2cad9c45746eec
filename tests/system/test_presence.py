"""Who was there when: a GROUP BY without a measure, and SELECT DISTINCT of the same, in both executors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.system.builders import DAY, Site

GROUPED = "SELECT date_trunc('hour', ts) AS at, sym FROM {} GROUP BY 1, 2"
DISTINCT = "SELECT DISTINCT window(ts, '1 hour').start AS at, upper(sym) AS who, 1 AS one FROM {} WHERE price >= 0"
MANY = "SELECT date_trunc('hour', ts) AS at FROM {} GROUP BY 1 HAVING count(*) > 2"
TEXTS = {"grouped": GROUPED, "distincts": DISTINCT, "many": MANY}


@pytest.fixture(params=["spark", "auto"])
def site(request, tmp_path, spark) -> Site:
    """A lake with three trades in two hours."""
    site = Site(tmp_path, spark, executor=request.param)
    site.table().trade(("00:10", "a", 1), ("00:20", "A", 2), ("00:30", "a", 3), ("01:30", "a", 4), ("01:40", None, 5))
    return site


def test_groups_without_a_measure_are_what_plain_spark_says(site: Site) -> None:
    """
    Late rows add groups, a group goes with its last row, a changed key moves; each refresh is what Spark says of the text.
    """
    trades = site.tables["trades"]
    for name, text in TEXTS.items():
        site.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {text.format('trades')}")
    site.lake.apply("CREATE MATERIALIZED VIEW days AS SELECT DISTINCT date_trunc('day', at) AS day, sym FROM grouped")
    days = GROUPED.replace("hour", "day")
    changes = [
        lambda: trades.trade(("00:40", "b", 1), ("01:50", "a", 2)),
        lambda: (trades.delete("price = 3 OR sym = 'b'"), trades.update("price = 4", sym="c")),
        lambda: trades.delete(f"ts >= '{(DAY + timedelta(hours=1)).isoformat()}'"),
    ]
    for change in (lambda: None, *changes):
        change()
        for name in (*TEXTS, "days"):
            site.lake.refresh(name)
        plain = trades.plain_sql(site.spark)
        for name, text in {**TEXTS, "days": days}.items():
            assert site.rows(text.format(plain)) == site.published(name), name
    assert site.published("grouped") == site.fresh("grouped")
    for name in ("grouped", "distincts"):
        report = site.lake.verify(name)
        assert report.is_equal, (name, report.examples)


def test_a_definition_in_python_needs_no_measure(site: Site) -> None:
    """
    It is the same aggregate as the statement's.
    """
    checked = {"quality.canaries": "2", "output.change_feed": "true"}
    site.lake.define(
        "here", "trades", time="ts", width="1 hour", keys=["sym"], measures={}, bucket="at", properties=checked
    )
    site.lake.refresh("here")

    assert site.rows(GROUPED.format(site.tables["trades"].sql)) == site.published("here")
    assert site.lake.verify("here").is_equal
