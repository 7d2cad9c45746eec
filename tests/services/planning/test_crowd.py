"""In a lake of very many aggregates a plan reads the events of a few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from materializer import Materializer
from materializer.core.refresh.plan import strategy_of
from materializer.journal.fold import folded
from materializer.services.planning import automatic_rollup, prices
from tests.counting import calls_to
from tests.crowds import copy_aggregate
from tests.services.no_spark import each, view

MINUTE = 60_000_000
COPIES = 300


def add(root: Path, minutes: range) -> None:
    """Add a row for each minute since the epoch."""
    times = pa.array([m * MINUTE for m in minutes], pa.timestamp("us", "UTC"))
    columns = pa.table({"ts": times, "v": pa.array(list(minutes), pa.int64())})
    write_deltalake(str(root / "raw"), columns, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def test_of_very_many_aggregates_with_our_partials_the_last_ones_are_looked_at(tmp_path: Path) -> None:
    """
    The one that was refreshed last is used, and neither the others that could be nor their prices are all read.
    """
    add(tmp_path, range(5_000))
    lake = Materializer(tmp_path)
    lake.apply(view("hours", each("1 hour")))
    lake.refresh("hours")
    copy_aggregate(tmp_path, "hours", COPIES)
    lake.apply(view("days", each("1 day")))
    add(tmp_path, range(300, 1_000))
    lake.refresh("hours")

    again = Materializer(tmp_path)
    read = calls_to(folded, lambda: again.plan("days"))
    plan = again.plan("days").plan

    assert "roll-up" == strategy_of(plan.steps[0])
    assert "hours" == plan.steps[0].parent
    assert automatic_rollup.MOST <= read <= automatic_rollup.MOST + prices.MOST < COPIES
