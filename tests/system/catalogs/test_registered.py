"""Outputs with a name in a catalog: given, told of each refresh, and right through switches, repairs, restores and drops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.errors import CatalogRefusedError
from materializer.journal.store import FOLDER
from tests.servers.hive import Metastore
from tests.system.builders import MEASURES, Site, Table
from tests.system.catalogs.world import code_of, site

NAME = "lake.hourly"


def registered(made: Site, name: str = NAME, **parts: Any) -> None:
    properties = {"output.table": name} | parts.pop("properties", {})
    made.hourly("hourly", "trades", properties=properties, **parts)


def told(made: Site, name: str = NAME) -> dict[str, str]:
    """What readers see of the table's properties, by the names that ours begin with."""
    rows = made.spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return {r["key"].removeprefix("materializer."): r["value"] for r in rows if r["key"].startswith("materializer.")}


def says(made: Site) -> dict[str, str]:
    """What the output says of itself, without a catalog."""
    said = DeltaTable(str(made.lake.root / "hourly" / "output")).metadata().configuration
    return {k.removeprefix("materializer."): v for k, v in said.items() if k.startswith("materializer.")}


def described(made: Site, name: str = NAME) -> dict[str, str]:
    return {r["col_name"]: r["data_type"] for r in made.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}


def names(made: Site) -> list[str]:
    rows = made.spark.sql("SHOW TABLES IN lake").collect()
    return sorted(r["tableName"] for r in rows if not r["isTemporary"])


def version(made: Site) -> int:
    return DeltaTable(str(made.lake.root / "hourly" / "output")).version()


def test_an_output_is_registered_and_tells_of_each_refresh(catalog: tuple[Metastore, Path]) -> None:
    """
    Readers see comment, columns, the source version, the time and the promise where they look; no work writes nothing.
    """
    made = site(catalog)
    trades = made.tables["trades"]
    trades.opened().alter.set_column_metadata("sym", {"comment": "symbol of the exchange"})
    trades.trade(("00:10", "A", 1), ("01:10", "B", 2))
    registered(made, comment="it's hourly", properties={"refresh.max_staleness": "2 hours"})
    before = told(made)
    made.lake.refresh("hourly")
    first, at = told(made), version(made)
    made.lake.refresh("hourly")
    assert at == version(made), "a refresh without work tells nothing new"
    trades.trade(("00:20", "A", 5))
    made.lake.refresh("hourly")
    second = told(made)

    assert ("", "2 hours", "0") == (before["source_version"], before["max_staleness"], before["dirty_spans"])
    assert [str(trades.version - 1), str(trades.version)] == [first["source_version"], second["source_version"]]
    assert first["refreshed_at"] < second["refreshed_at"]
    about = described(made)
    assert "EXTERNAL" == about["Type"]
    assert about["Comment"].endswith(": it's hourly")
    assert f"materializer.source_version={trades.version}" in about["Table Properties"]
    columns = {r["col_name"]: r["comment"] for r in made.spark.sql(f"DESCRIBE TABLE {NAME}").collect()}
    assert "symbol of the exchange" == columns["sym"]
    assert made.rows(f"SELECT * FROM {NAME}") == made.published("hourly")
    assert [(NAME, "")] == [(s.table, s.table_problem) for s in made.lake.status()]
    made.expect_true()


def test_a_name_is_given_later_changed_and_taken_away(catalog: tuple[Metastore, Path]) -> None:
    """
    Each is a change of metadata: nothing is computed again, and the rows stay.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "trades")
    made.lake.refresh("hourly")
    rows = made.published("hourly")
    seen = []
    for properties in ({"output.table": "lake.one"}, {"output.table": "spark_catalog.lake.two"}, {}):
        change = made.lake.define(
            "hourly", "trades", time="ts", width="1 hour", keys=["sym"], measures=MEASURES, properties=properties
        )
        seen.append((change.kind, names(made)))

    assert [("metadata", ["one", "trades"]), ("metadata", ["trades", "two"]), ("metadata", ["trades"])] == seen
    assert rows == made.published("hourly")
    assert {""} == {value for name, value in says(made).items() if name != "refresh"}


def test_a_name_that_was_dropped_in_the_catalog_comes_back(catalog: tuple[Metastore, Path]) -> None:
    """
    Applying the definition gives it again; a refresh does not ask the catalog.
    """
    made = site(catalog)
    registered(made)
    made.spark.sql(f"DROP TABLE {NAME}")
    made.tables["trades"].trade(("00:10", "A", 1))
    made.lake.refresh("hourly")
    assert ["trades"] == names(made)
    registered(made)

    assert ["hourly", "trades"] == names(made)


def test_a_switch_brings_the_name_of_the_new_version(catalog: tuple[Metastore, Path]) -> None:
    """
    Until then readers see the old version under the old name; columns and freshness follow.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    registered(made)
    made.lake.refresh("hourly")
    registered(made, "lake.better", measures=MEASURES | {"low": "min(price)"})
    assert ["hourly", "trades"] == names(made)
    made.lake.build("hourly")

    assert ["better", "trades"] == names(made)
    assert "low" in described(made, "lake.better")
    assert str(made.tables["trades"].version) == told(made, "lake.better")["source_version"]
    made.lake.rollback("hourly")
    made.lake.build("hourly")
    assert ["hourly", "trades"] == names(made)
    assert "low" not in described(made)


def test_a_repair_and_a_takeover_leave_the_name_where_it_is(catalog: tuple[Metastore, Path]) -> None:
    """
    The table under the name is the new output; after a lost journal the same name is found again.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    registered(made)
    made.lake.refresh("hourly")
    output = made.lake.root / "hourly" / "output"
    output.rename(made.root / "stolen")
    made.lake.repair("hourly")
    made.lake.refresh("hourly")
    assert made.rows(f"SELECT * FROM {NAME}") == made.published("hourly") != []
    assert str(made.tables["trades"].version) == told(made)["source_version"]

    definition = made.lake.read_definitions(sql())[0]
    (made.lake.root / FOLDER).rename(made.root / "journal")
    again = Materializer(made.lake.root, spark=made.spark)
    again.take_over(definition)
    again.refresh("hourly")
    assert [(NAME, "")] == [(s.table, s.table_problem) for s in again.status()]
    assert made.rows(f"SELECT * FROM {NAME}") == made.published("hourly") != []


def sql() -> str:
    measures = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    return (
        f"CREATE MATERIALIZED VIEW hourly TBLPROPERTIES ('output.table' = '{NAME}') AS SELECT window(ts, '1 hour').start AS "
        f"bucket, sym, {measures} FROM trades GROUP BY 1, 2"
    )


def test_a_restore_knows_the_name_of_today(catalog: tuple[Metastore, Path]) -> None:
    """
    The backup says another name: the next command gives that one again, and takes the one of today away.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    registered(made, "lake.old")
    made.lake.refresh("hourly")
    made.lake.backup(made.root / "backup")
    registered(made, "lake.new")
    assert ["new", "trades"] == names(made)
    made.lake.restore(made.root / "backup")
    made.tables["trades"].trade(("00:20", "A", 1))
    made.lake.refresh("hourly")

    assert ["old", "trades"] == names(made)


def test_a_drop_takes_the_name_away(catalog: tuple[Metastore, Path]) -> None:
    """
    A name that another table has by then is left alone.
    """
    made = site(catalog)
    registered(made)
    made.lake.drop("hourly")
    assert ["trades"] == names(made)

    registered(made)
    other = Table(made.root / "other")
    made.spark.sql(f"DROP TABLE {NAME}")
    made.spark.sql(f"CREATE TABLE {NAME} USING delta LOCATION '{other.path}'")
    made.lake.drop("hourly")
    assert ["hourly", "trades"] == names(made)


def test_a_catalog_that_is_down_stops_no_refresh(catalog: tuple[Metastore, Path]) -> None:
    """
    Rows and freshness are published all the same; definitions that need it are refused; a drop drops, and names what stays.
    """
    metastore, _ = catalog
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    registered(made)
    metastore.stop()
    try:
        assert () == made.lake.refresh("hourly").warnings, "the catalog is not asked"
        assert str(made.tables["trades"].version) == says(made)["source_version"]
        made.expect_true()
        assert code_of(made.lake, "second", "trades", properties={"output.table": "lake.b"}).startswith(
            "catalog.unreachable"
        )
        with pytest.raises(CatalogRefusedError, match=r"the name lake\.hourly stays") as caught:
            made.lake.drop("hourly")
    finally:
        metastore.start()

    assert "hourly is dropped" == caught.value.wrote
    assert [] == made.lake.status()
    registered(made)
    assert ["hourly", "trades"] == names(made)


WRONG = {
    "one part": ("hourly", "definition.property", "a name in a catalog"),
    "four parts": ("a.b.c.d", "definition.property", "a name in a catalog"),
    "an empty part": ("lake.``", "definition.property", "a name in a catalog"),
    "a path": ("/lake/hourly", "definition.property", "a name in a catalog"),
    "an unknown schema": ("nowhere.hourly", "catalog.refused", "no schema 'nowhere'"),
    "an unknown catalog": ("nocatalog.lake.hourly", "catalog.refused", "no schema 'nocatalog.lake'"),
    "another table": ("lake.trades", "catalog.name-taken", "it is the table at"),
    "a view": ("lake.seen", "catalog.name-taken", "is a view"),
    "a Parquet table": ("lake.plain", "catalog.name-taken", "lake.plain"),
    "the output of another aggregate": ("spark_catalog.lake.Taken", "catalog.name-taken", "the output of 'first'"),
}


@pytest.mark.follows_hint("catalog.name-taken", "catalog.refused")
@pytest.mark.parametrize("what", WRONG)
def test_a_name_that_an_output_cannot_have(catalog: tuple[Metastore, Path], what: str) -> None:
    """
    Each is refused when the definition is applied, with its code, and nothing is written; a free name, or a schema, helps.
    """
    made = site(catalog)
    made.spark.sql("CREATE VIEW lake.seen AS SELECT * FROM lake.trades")
    made.spark.sql("CREATE TABLE lake.plain (ts TIMESTAMP) USING parquet")
    if what == "the output of another aggregate":
        made.hourly("first", "trades", properties={"output.table": "lake.taken"})
    name, code, words = WRONG[what]
    before = names(made)

    said = code_of(made.lake, "bad", "trades", properties={"output.table": name})

    assert said.startswith(code)
    assert words in said
    assert before == names(made)
    if what == "an unknown schema":
        made.spark.sql("CREATE DATABASE nowhere")
        registered(made, name)
        assert ["hourly"] == [row["tableName"] for row in made.spark.sql("SHOW TABLES IN nowhere").collect()]
        made.spark.sql("DROP DATABASE nowhere CASCADE")
    elif code == "catalog.name-taken":
        registered(made, "lake.free")
        assert [*before, "free"] == sorted(names(made), key=lambda name: name == "free")


def test_a_catalog_that_refuses_the_name(catalog: tuple[Metastore, Path]) -> None:
    """
    A catalog without external Delta tables is asked when the definition is applied: that stays, and `status` says why it has no name.
    """
    made = site(catalog)
    made.spark.sql("CREATE NAMESPACE IF NOT EXISTS other.lake")
    with pytest.raises(CatalogRefusedError, match=r"the catalog refuses 'other\.lake\.hourly'") as caught:
        registered(made, "other.lake.hourly")

    assert "the definitions are applied" == caught.value.wrote
    assert "other.lake.hourly" in made.lake.status("hourly")[0].table_problem
