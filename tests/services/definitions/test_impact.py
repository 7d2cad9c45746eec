"""A source with another name is the same source as long as it is the same table; no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.errors import TableNotFoundError
from materializer.journal.events import SourceIdentity
from materializer.lake.table import DeltaFolder
from tests.services.no_spark import Lake, NoSpark, each, view


class Catalog(NoSpark):
    """A catalog with one table."""

    name, path = "lake.trades", ""

    @property
    def catalogs(self) -> Catalog:
        """Itself."""
        return self

    def table_named(self, name: str) -> SourceIdentity:
        """See :mod:`materializer.spark.query.catalogs`."""
        if name != self.name:
            raise TableNotFoundError(f"the catalog has no table '{name}'")
        return SourceIdentity(self.path, DeltaFolder.at(self.path).head().table_id, name)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog()
    made.path = str(tmp_path / "raw")
    return made


@pytest.fixture
def lake(tmp_path: Path, catalog: Catalog) -> Lake:
    return Lake(tmp_path, catalog)


def bars(source: str, comment: str = "") -> str:
    """Return a definition over the raw table under some name."""
    made = view("bars", each("1 hour")).replace("FROM raw", f"FROM {source}")
    return made.replace("\nAS", f"\nCOMMENT '{comment}'\nAS") if comment else made


def test_a_renamed_source_is_a_change_of_metadata(lake: Lake, catalog: Catalog) -> None:
    """
    Its new name is stored with the definition; what is published stays, and so does what is dirty.
    """
    lake.apply(bars("lake.trades"))
    lake.materialise("bars")
    before = lake.state("bars")
    catalog.name = "main.lake.trades"
    [change] = lake.apply(bars("main.lake.trades", "moved"))
    [again] = lake.apply(bars("main.lake.trades", "moved"))
    after = lake.state("bars")

    assert ("metadata", "", "unchanged") == (change.kind, change.next, again.kind)
    assert {"- source: lake.trades", "+ source: main.lake.trades"} <= set(change.differences)
    assert ("main.lake.trades", "main.lake.trades") == (after.source.name, after.spec["source"])
    assert (before.data_version, before.log) == (after.data_version, after.log)


def test_a_path_and_a_name_of_one_table_are_one_source(lake: Lake) -> None:
    """
    A lake that had paths can get names, and the other way round.
    """
    lake.apply(bars("raw"))
    lake.materialise("bars")
    kinds = [lake.apply(bars(source))[0].kind for source in ("lake.trades", "delta.`raw`", f"delta.`{lake.root}/raw`")]

    assert ["metadata"] * 3 == kinds
    assert "" == lake.state("bars").source.name


def test_another_table_under_the_name_is_other_data(lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    """
    Its rows are others, so the next version is built from it.
    """
    lake.apply(bars("lake.trades"))
    lake.materialise("bars")
    catalog.path = str(Lake(tmp_path / "elsewhere").root / "raw")
    [change] = lake.apply(bars("lake.trades"), dry_run=True)

    assert ("data", "started") == (change.kind, change.next)
