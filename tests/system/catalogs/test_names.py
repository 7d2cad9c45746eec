"""Sources by their names in a catalog: what a name stands for, and what becomes of an aggregate when that changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.errors import CatalogUnreachableError, SourceMovedError
from tests.servers.hive import Metastore
from tests.system.builders import MEASURES, Site, Table
from tests.system.catalogs.world import code_of, site
from tests.tables import with_features


def test_names_of_two_and_three_parts(catalog: tuple[Metastore, Path]) -> None:
    """
    Both stand for the table, are resolved once, and the aggregate is right after each refresh.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1), ("01:10", "B", 2))
    for name, source in (("two", "lake.trades"), ("three", "spark_catalog.lake.trades"), ("quoted", "`lake`.`trades`")):
        made.hourly(name, source)
        made.lake.refresh(name)
        made.tables["trades"].trade(("00:20", "A", 5))
        made.lake.refresh(name)
        made.expect_true(name, source=made.tables["trades"])

    states = made.lake.journal.view()
    assert {str(made.tables["trades"].path)} == {s.source.path for s in states.states.values()}
    assert ["lake.trades", "spark_catalog.lake.trades", "lake.trades"] == [
        states.named(name).source.name for name in ("two", "three", "quoted")
    ]


def test_parts_that_need_quotes(catalog: tuple[Metastore, Path]) -> None:
    """
    The name is stored with its quotes, and read by them.
    """
    made = site(catalog)
    odd = Table(made.root / "odd")
    odd.trade(("00:10", "A", 1))
    # Hive itself takes letters, digits and underscores only, so the odd part is the catalog's own name
    made.spark.sql(f"CREATE TABLE lake.`2024` USING delta LOCATION '{odd.path}'")
    made.hourly("hourly", "`spark_catalog`.`lake`.`2024`")
    made.lake.refresh("hourly")

    assert "spark_catalog.lake.2024" == made.lake.journal.view().named("hourly").source.name
    made.expect_true(source=odd)


def test_a_source_of_another_aggregate_by_its_registered_name(catalog: tuple[Metastore, Path]) -> None:
    """
    The name of an output of this lake is read by its path, as the aggregate's own name would be.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "lake.trades")
    made.lake.refresh("hourly")
    made.spark.sql(f"CREATE TABLE lake.hourly USING delta LOCATION '{made.lake.root / 'hourly' / 'output'}'")
    made.lake.define(
        "daily", "lake.hourly", time="bucket", width="1 day", keys=["sym"], measures={"total": "sum(total)"}
    )
    made.lake.refresh("daily")

    assert "" == made.lake.journal.view().named("daily").source.name
    assert ["hourly", "daily"] == made.lake.names()


WRONG = {
    "an unknown table": ("lake.nothing", "table.not-found", "'lake.nothing'"),
    "an unknown schema": ("nowhere.trades", "table.not-found", "'nowhere.trades'"),
    "an unknown catalog": ("nocatalog.lake.trades", "table.not-found", "'nocatalog.lake.trades'"),
    "a table of another catalog": ("there.only", "table.not-found", "other.there.only"),
    "a view": ("lake.seen", "table.not-delta", "is a view"),
    "a Parquet table": ("lake.plain", "table.not-delta", "parquet"),
    "a table of a catalog without files": ("other.lake.trades", "table.not-delta", "'other.lake.trades'"),
    "a folder that is gone": ("lake.gone", "table.not-", "lake.gone"),
    "a name in two catalogs": ("lake.double", "catalog.ambiguous", "other.lake.double"),
    "managed by the catalog": ("lake.managed", "source.catalog-managed", "catalogManaged"),
}
FOLLOWED = {
    "catalog.ambiguous": ("catalog.schema.table", "spark_catalog.lake.double"),
    "source.catalog-managed": ("not managed by a catalog", "lake.trades"),
}
"""By code: a part of its hint, and the name that the hint leads to."""


@pytest.mark.follows_hint("catalog.ambiguous", "source.catalog-managed")
@pytest.mark.parametrize("what", WRONG)
def test_a_name_that_cannot_be_a_source(catalog: tuple[Metastore, Path], what: str) -> None:
    """
    Each is refused with its code and its name, and nothing is written; the whole name, or a table that is not managed, is taken.
    """
    made = site(catalog)
    run, folder = made.spark.sql, made.root
    run("CREATE VIEW lake.seen AS SELECT * FROM lake.trades")
    run("CREATE TABLE lake.plain (ts TIMESTAMP) USING parquet")
    run("CREATE TABLE other.there.only (ts TIMESTAMP)")
    for name in ("trades", "double"):
        if what in ("a name in two catalogs", "a table of a catalog without files"):
            run(f"CREATE TABLE other.lake.{name} (ts TIMESTAMP)")
    for name in ("gone", "double", "managed"):
        run(f"CREATE TABLE lake.{name} (ts TIMESTAMP) USING delta LOCATION '{folder / name}'")
    if what == "managed by the catalog":
        with_features(folder / "managed", "catalogManaged", "vacuumProtocolCheck")
    shutil.rmtree(folder / "gone")
    source, code, words = WRONG[what]

    said = code_of(made.lake, "bad", source)

    assert said.startswith(code), said
    assert words in said
    if follow := FOLLOWED.get(code):
        part, instead = follow
        assert part in said
        made.lake.define("good", instead, time="ts", width="1 hour", measures={"n": "count(*)"})
        assert ["good"] == made.lake.names()


def moved(made: Site, statement: str) -> SourceMovedError:
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "lake.trades")
    made.lake.refresh("hourly")
    other = Table(made.root / "other")
    other.trade(("00:10", "A", 7), ("05:10", "A", 7))
    other.trade(("00:10", "A", 7))
    for part in statement.format(other=other.path).split(";"):
        made.spark.sql(part)
    made.tables["trades"].trade(("00:20", "A", 2))
    before = made.published("hourly")
    with pytest.raises(SourceMovedError) as caught:
        made.lake.refresh("hourly")
    assert before == made.published("hourly"), "nothing is published from another table"
    return caught.value


@pytest.mark.follows_hint("source.moved")
def test_a_source_that_was_renamed(catalog: tuple[Metastore, Path]) -> None:
    """
    A refresh is refused and says so; with the name given back it goes on.
    """
    made = site(catalog)
    error = moved(made, "ALTER TABLE lake.trades RENAME TO lake.renamed")
    assert "no such table now" in error.message
    assert "source.moved" == error.code

    made.spark.sql("ALTER TABLE lake.renamed RENAME TO lake.trades")
    made.lake.refresh("hourly")
    made.expect_true()


def test_a_definition_follows_a_rename(catalog: tuple[Metastore, Path]) -> None:
    """
    With the new name it is the same table: nothing is computed again, and the next refresh goes on from there.
    """
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "lake.trades")
    made.lake.refresh("hourly")
    made.spark.sql("ALTER TABLE lake.trades RENAME TO lake.renamed")
    given = {"time": "ts", "width": "1 hour", "keys": ["sym"], "measures": MEASURES}
    changes = [made.lake.define("hourly", "lake.renamed", **given) for _ in range(2)]
    made.tables["trades"].trade(("00:20", "A", 2))
    made.lake.refresh("hourly")

    assert ["metadata", "unchanged"] == [change.kind for change in changes]
    assert ("- source: lake.trades", "+ source: lake.renamed") == changes[0].differences
    assert "lake.renamed" == made.lake.journal.view().named("hourly").source.name
    made.expect_true()


def test_a_location_that_moved(catalog: tuple[Metastore, Path]) -> None:
    """
    Another table under the name is never read in the place of the source.
    """
    made = site(catalog)
    error = moved(made, "ALTER TABLE lake.trades SET LOCATION '{other}'")
    assert str(made.root / "other") in error.message


def test_a_name_that_was_given_to_another_table(catalog: tuple[Metastore, Path]) -> None:
    """
    The same after the table was dropped from the catalog and another one created.
    """
    made = site(catalog)
    error = moved(made, "DROP TABLE lake.trades;CREATE TABLE lake.trades USING delta LOCATION '{other}'")
    assert str(made.root / "other") in error.message


@pytest.mark.follows_hint("catalog.unreachable")
def test_a_catalog_that_is_down(catalog: tuple[Metastore, Path]) -> None:
    """
    Definitions and refreshes are refused with a code of their own; when the catalog is back, the same commands do their work.
    """
    metastore, _ = catalog
    made = site(catalog)
    made.tables["trades"].trade(("00:10", "A", 1))
    made.hourly("hourly", "lake.trades")
    made.lake.refresh("hourly")
    made.tables["trades"].trade(("00:20", "A", 2))
    metastore.stop()
    try:
        assert code_of(made.lake, "late", "lake.trades").startswith("catalog.unreachable")
        with pytest.raises(CatalogUnreachableError, match=r"lake\.trades"):
            made.lake.refresh("hourly")
    finally:
        metastore.start()

    made.lake.refresh("hourly")
    made.expect_true()
    assert 1 == DeltaTable(str(made.lake.root / "hourly" / "output")).to_pyarrow_table().num_rows
    assert 74 == CatalogUnreachableError.exit_status
