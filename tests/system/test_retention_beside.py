"""Frozen history beside other versions of the data, repairs and backups: none of them computes it from rows that are gone."""

from __future__ import annotations

import shutil

import pytest

from materializer.core.time.spans import NEG_INF
from materializer.errors import FrozenHistoryError, HistoryBuildingError
from tests.system import verifying
from tests.system.builders import MEASURES, Site
from tests.system.remembered import BOUND, HOURS, remembered

TWICE = MEASURES | {"twice": "2 * sum(price)"}
SQL = """CREATE MATERIALIZED VIEW hourly TBLPROPERTIES ('source.retention' = '3 hours') AS
SELECT window(ts, '1 hour').start AS bucket, sym, count(*) AS n, sum(price) AS total, max(price) AS top
FROM trades GROUP BY window(ts, '1 hour'), sym"""


@pytest.fixture
def frozen(site: Site) -> Site:
    """Five hours of trades, an hourly aggregate of them, refreshed and frozen below 02:00."""
    site.table().trade(*HOURS)
    site.hourly()
    site.lake.refresh("hourly")
    site.lake.expire("hourly", BOUND)
    return site


def test_versions_keep_frozen_history(frozen: Site) -> None:
    """
    A definition that needs raw rows is refused; one over stored partials keeps the bound, and so does the way back, until
    more was frozen. While a version is built nothing is frozen or thawed.
    """
    trades, lake = frozen.tables["trades"], frozen.lake
    with pytest.raises(FrozenHistoryError, match="built again"):
        frozen.hourly(width="2 hours")
    frozen.hourly(measures=TWICE)
    for command in (lambda: lake.expire("hourly", BOUND), lambda: lake.thaw("hourly")):
        with pytest.raises(HistoryBuildingError, match="next version"):
            command()
    trades.delete("price < 2")
    late = ("00:40", "A", 50)
    trades.trade(late)
    assert lake.build("hourly").switched is not None
    every = remembered([*HOURS, late])
    assert [(*row, 2 * row[3]) for row in every] == frozen.published("hourly")
    assert 8 == lake.status("hourly")[0].expired_rows

    lake.rollback("hourly")
    lake.build("hourly")
    assert every == frozen.published("hourly")
    notes = lake.expire("hourly", "2024-03-01T03:00:00Z").notes
    assert "cannot be rolled back to" in notes[0]
    with pytest.raises(FrozenHistoryError, match="the version before"):
        lake.rollback("hourly")
    lake.thaw("hourly")
    assert frozen.hourly(width="2 hours")


def test_the_bound_waits_for_a_build(site: Site) -> None:
    """
    source.retention freezes nothing while a next version is built, which needs the raw rows, and goes on afterwards.
    """
    site.table().trade(*HOURS)
    properties = {"source.retention": "2 hours"}
    site.hourly()
    site.lake.refresh("hourly")
    site.hourly(properties=properties)
    site.hourly(properties=properties, measures=MEASURES | {"least": "min(price)"})
    site.lake.refresh("hourly")
    assert NEG_INF == site.lake.status("hourly")[0].frozen

    site.lake.build("hourly")
    assert NEG_INF == site.lake.status("hourly")[0].frozen
    site.lake.refresh("hourly")
    assert NEG_INF < site.lake.status("hourly")[0].frozen


def test_a_build_that_knows_less_of_what_is_frozen(site: Site) -> None:
    """
    A repair freezes what source.retention lets go, also while a next version is built. That one takes rows that go then for
    corrected, and is not published.
    """
    trades, lake = site.table(), site.lake
    trades.trade(*HOURS)
    properties = {"source.retention": "2 hours"}
    site.hourly()
    lake.refresh("hourly")
    site.hourly(properties=properties)
    site.hourly(properties=properties, measures=MEASURES | {"least": "min(price)"})
    shutil.rmtree(lake.root / "hourly" / "partials" / lake.journal.view().named("hourly").data_version)
    lake.repair("hourly")
    trades.delete("price < 3")

    with pytest.raises(FrozenHistoryError, match="begun before") as caught:
        lake.build("hourly")
    assert "materializer abandon hourly" in caught.value.hint
    lake.abandon("hourly")
    lake.refresh("hourly")

    assert remembered(HOURS) == site.published("hourly")


@pytest.mark.parametrize("loss", ["partials", "journal"])
def test_a_repair_leaves_what_outlived_its_rows(frozen: Site, loss: str) -> None:
    """
    Whoever lost the partials, or the journal with source.retention in the definition, still reads history; it is listed.
    """
    trades, lake = frozen.tables["trades"], frozen.lake
    trades.delete("price < 2")
    lake.refresh("hourly")
    if loss == "partials":
        shutil.rmtree(lake.root / "hourly" / "partials")
        report = lake.repair("hourly")
    else:
        shutil.rmtree(lake.root / "_materializer")
        lake.journal.reopen()
        [report] = lake.take_over(SQL)
    assert any("stays: raw rows there are gone" in step for step in report.mending.steps)

    trades.trade(("00:40", "A", 50), ("04:40", "A", 51))
    lake.refresh("hourly")

    assert remembered([*HOURS, ("04:40", "A", 51)]) == frozen.published("hourly")
    [status] = lake.status("hourly")
    assert ["repaired: what the tables hold there is not known"] == [why for _, why in status.stuck]
    verifying.expect_equal(lake, "hourly")
    with pytest.raises(FrozenHistoryError, match="built again"):  # only the output has it
        frozen.hourly(measures=TWICE)


def test_a_backup_that_is_older_than_the_bound(frozen: Site, tmp_path) -> None:
    """
    A restored journal is told what was frozen since it was copied: the rows may be gone by now.
    """
    trades, lake = frozen.tables["trades"], frozen.lake
    lake.backup(tmp_path / "backup")
    lake.expire("hourly", "2024-03-01T03:00:00Z")
    trades.delete("price < 3")
    lake.refresh("hourly")

    report = lake.restore(tmp_path / "backup")

    assert {} == report.repairs
    lake.refresh("hourly")
    assert remembered(HOURS) == frozen.published("hourly")
