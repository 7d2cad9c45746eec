"""Names of three parts in a catalog that is not the session's own, as those of Unity Catalog are."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.errors import SourceMovedError
from tests.servers import named_catalog
from tests.servers.hive import Metastore
from tests.system.catalogs.world import code_of, site

pytestmark = pytest.mark.skipif(bool(named_catalog.why_not()), reason=named_catalog.why_not() or "-")


def test_a_source_in_another_catalog(catalog: tuple[Metastore, Path]) -> None:
    """
    It is read by its name, right after each refresh, and noticed when the name goes.
    """
    made = site(catalog)
    trades = made.tables["trades"]
    trades.trade(("00:10", "A", 1), ("01:10", "B", 2))
    made.hourly("hourly", "named.lake.trades")
    made.lake.refresh("hourly")
    trades.trade(("00:20", "A", 5))
    made.lake.refresh("hourly")
    made.expect_true()
    source = made.lake.journal.view().named("hourly").source
    assert ("named.lake.trades", str(trades.path)) == (source.name, source.path)

    made.spark.sql("ALTER TABLE lake.trades RENAME TO lake.renamed")
    trades.trade(("00:30", "A", 5))
    with pytest.raises(SourceMovedError, match=r"named\.lake\.trades"):
        made.lake.refresh("hourly")
    made.hourly("hourly", "named.lake.renamed")
    made.lake.refresh("hourly")
    made.expect_true()


def test_an_output_in_another_catalog(catalog: tuple[Metastore, Path]) -> None:
    """
    Its comment, its rows and what it reflects are seen there; a drop takes the name away.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "trades", comment="by hour", properties={"output.table": "named.lake.hourly"})
    made.lake.refresh("hourly")

    about = {
        r["col_name"]: r["data_type"] for r in made.spark.sql("DESCRIBE TABLE EXTENDED named.lake.hourly").collect()
    }
    assert "EXTERNAL" == about["Type"]
    assert made.rows("SELECT * FROM named.lake.hourly") == made.published("hourly") != []
    properties = {r["key"]: r["value"] for r in made.spark.sql("SHOW TBLPROPERTIES named.lake.hourly").collect()}
    assert str(made.tables["trades"].version) == properties["materializer.source_version"]
    assert [("named.lake.hourly", "")] == [(s.table, s.table_problem) for s in made.lake.status()]
    output = DeltaTable(str(made.lake.root / "hourly" / "output"))
    assert output.metadata().description.endswith("by hour")

    made.lake.drop("hourly")
    assert not made.spark.catalog.tableExists("named.lake.hourly")


WRONG = {
    "an unknown table": ("named.lake.nothing", "table.not-found", "'named.lake.nothing'"),
    "an unknown schema": ("named.nowhere.trades", "table.not-found", "'named.nowhere.trades'"),
    "a view": ("named.lake.seen", "table.not-delta", "named.lake.seen"),
    "a Parquet table": ("named.lake.plain", "table.not-delta", "parquet"),
    "a CSV table": ("named.lake.text", "table.not-delta", "csv"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_name_of_another_catalog_that_cannot_be_a_source(catalog: tuple[Metastore, Path], what: str) -> None:
    """
    Each is refused with its code and its name, and nothing is written.
    """
    made = site(catalog)
    made.spark.sql("CREATE VIEW lake.seen AS SELECT * FROM lake.trades")
    made.spark.sql("CREATE TABLE lake.plain (ts TIMESTAMP) USING parquet")
    made.spark.sql("CREATE TABLE lake.text (ts TIMESTAMP) USING csv")
    source, code, words = WRONG[what]

    said = code_of(made.lake, "bad", source)

    assert said.startswith(code)
    assert words in said
