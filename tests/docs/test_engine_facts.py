"""What the pages of engines say of grids, ticks, empty windows and revisions, as it happens: an oracle can be written from them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.alignment import alignment_size, alignment_sizes
from tests.docs import pages
from tests.paths import ROOT
from tests.system.builders import DAY, Site

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SLIDING = (
    "CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('engine' = 'time_series') AS SELECT window.end AS time, sym, sum(price) AS total "
    "FROM {name}_rows GROUP BY window(ts, '7 minutes'), sym"
)


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path) -> Site:
    """A lake that this process computes."""
    return Site(tmp_path, spark, executor="auto")


def ends(site: Site, name: str) -> list[str]:
    """Return when the windows of an aggregate end."""
    return sorted(f"{row['window_end']:%H:%M}" for row in site.records(name))


def test_the_table_of_alignments_is_the_one_that_is_used() -> None:
    """
    The page has it; the alignment is the smallest of a type's that is not below the step, or the last.
    """
    text = (ROOT / "docs" / "engines" / "time_series.md").read_text(encoding="utf-8")

    assert pages.alignments() == pages.blocks(text)["alignments"]
    for kind in ("minute", "datetime", "timestamp", "nanotime"):
        sizes = alignment_sizes(kind)
        assert [*sizes, sizes[-1]] == [alignment_size(kind, step) for step in (*sizes, sizes[-1] + 1)]


@pytest.mark.parametrize(("has_feed", "expected"), [(True, ["00:10", "00:38"]), (False, ["00:07", "00:35"])])
def test_the_first_row_to_arrive_fixes_the_grid(site: Site, *, has_feed: bool, expected: list[str]) -> None:
    """
    Also when it was deleted before the first refresh; without a feed the earliest that is there does.
    """
    rows = site.table("grid_rows", feed=has_feed)
    rows.trade(("00:12", "A", 9.0))
    rows.trade(("00:03", "A", 2.0), ("00:33", "A", 1.0), ("01:10", "A", 1.0))
    rows.delete("price = 9.0")
    site.lake.apply(SLIDING.format(name="grid"))
    site.lake.refresh("grid")

    assert expected == ends(site, "grid")


def test_nothing_moves_the_grid_later(site: Site) -> None:
    """
    Neither the deletion of the row that fixed it, nor an earlier row, nor a refresh by force.
    """
    rows = site.table("grid_rows")
    rows.trade(("00:12", "A", 9.0), ("00:30", "A", 1.0))
    site.lake.apply(SLIDING.format(name="grid"))
    site.lake.refresh("grid")
    rows.delete("price = 9.0")
    rows.trade(("00:03", "A", 2.0))
    site.lake.refresh("grid")
    site.lake.refresh("grid", force=True)

    assert ["00:10"] == ends(site, "grid")


def test_a_count_window_ends_a_microsecond_after_its_last_time(site: Site) -> None:
    """
    The tick of timestamps without `time_kind`.
    """
    site.table("points").trade(("00:01", "A", 1.0), ("00:02", "A", 2.0))
    site.lake.apply(
        "CREATE MATERIALIZED VIEW two TBLPROPERTIES ('engine' = 'count_window', 'time' = 'ts', 'count' = '2') AS "
        "SELECT sym, sum(price) AS total FROM points GROUP BY sym"
    )
    site.lake.refresh("two")

    [row] = site.records("two")
    assert (DAY + timedelta(minutes=2, microseconds=1)).replace(tzinfo=None) == row["window_end"] == row["time"]


def test_an_empty_smaller_window_has_null_measures(site: Site) -> None:
    """
    A count of it, too, is null and not 0.
    """
    site.table("points").trade(("00:00", "A", 1.0), ("00:01", "A", 2.0), ("00:20", "A", 3.0))
    site.lake.define(
        "sizes", "points", engine="time_series", time="ts", keys=["sym"], window_size="6 minutes,3 minutes", step="3 minutes",
        measures=[{"all": "count(*)"}, {"few": "count(*)", "total": "sum(price)"}],
    )  # fmt: skip
    site.lake.refresh("sizes")

    assert [(2, 2, 3.0), (2, None, None)] == [(r["all"], r["few"], r["total"]) for r in site.records("sizes")]


def test_a_row_that_comes_back_begins_at_revision_0(site: Site) -> None:
    """
    One that changed counts on.
    """
    rows = site.table("grid_rows")
    rows.trade(("00:00", "A", 1.0), ("00:10", "A", 2.0), ("00:20", "A", 3.0))
    site.lake.apply(SLIDING.format(name="grid"))
    site.lake.refresh("grid")
    found = []
    for change in (
        lambda: rows.update("price = 1.0", price=7.0),
        lambda: rows.delete("price = 7.0"),
        lambda: rows.trade(("00:00", "A", 7.0)),
    ):
        change()
        site.lake.refresh("grid")
        found.append([r["revision"] for r in site.records("grid") if r["window_end"].minute == 7])

    assert [[1], [], [0]] == found
