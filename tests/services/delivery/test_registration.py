"""Names of outputs, with a catalog in memory; the tables are real, and there is no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Lane, Plan, RunReport, TableBase
from materializer.core.spec.table_names import same
from materializer.core.time.spans import Span
from materializer.errors import CatalogRefusedError, CatalogUnreachableError, NameTakenError
from materializer.journal.events import Done, Invalidated, Planned
from materializer.services.delivery import registration
from tests.appending import append
from tests.services.no_spark import Lake, NoSpark, each, view

HOUR = 3_600_000_000


class Catalog(NoSpark):
    """A catalog: names, each with the folder of its table."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.answers = True
        self.asked = 0
        self.catalogs = self

    def refuse_taken(self, name: str, path: str) -> None:
        """See :mod:`materializer.spark.run.registration`."""
        self._ask()
        if self.names.get(_key(name), path) != path:
            raise NameTakenError(f"'{name}' is another table")

    def register(self, name: str, path: str, _comment: str) -> None:
        """See :mod:`materializer.spark.run.registration`."""
        self.refuse_taken(name, path)
        self.names[_key(name)] = path

    def unregister(self, name: str, path: str) -> None:
        """See :mod:`materializer.spark.run.registration`."""
        self._ask()
        if self.names.get(_key(name)) == path:
            del self.names[_key(name)]

    def _ask(self) -> None:
        self.asked += 1
        if not self.answers:
            raise CatalogUnreachableError("the catalog does not answer")


def _key(name: str) -> str:
    return ".".join(same(name))


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def lake(tmp_path: Path, catalog: Catalog) -> Lake:
    return Lake(tmp_path, catalog)


def bars(table: str = "", name: str = "bars", **properties: str) -> str:
    """Return a definition whose output has a name, if one is given."""
    given = properties | ({"output.table": table} if table else {})
    listed = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in given.items())
    made = view(name, each("1 hour"))
    return made.replace("\nAS", f"\nTBLPROPERTIES ({listed})\nAS") if given else made


def refreshed(lake: Lake, n: int, source_version: int) -> None:
    """Tell the journal of a refresh that ended."""
    state = lake.state("bars")
    span, base = Span(0, HOUR), TableBase("", 0)
    plan = Plan(f"p{n}", n, source_version, span, (), (), Lane.DRIVER, base, base)
    append(lake.opened.journal, (state.id, Planned(plan, HOUR)), (state.id, Done(n, RunReport(source_version))))


def says(lake: Lake) -> dict[str, str]:
    """What the output says of itself."""
    configuration = DeltaTable(str(lake.root / "bars" / "output")).metadata().configuration
    return {k.removeprefix("materializer."): v for k, v in configuration.items() if k.startswith("materializer.")}


def follow(lake: Lake, **how: bool) -> str:
    return registration.follow(lake.wired, lake.state("bars"), **how)


def test_a_definition_gives_changes_and_takes_a_name(lake: Lake, catalog: Catalog) -> None:
    """
    The journal knows the name; applying the definition once more puts right what was changed in the catalog.
    """
    seen = []
    for table in ("lake.bars", "lake.bars", "`lake`.candles", ""):
        lake.apply(bars(table))
        seen.append((list(catalog.names), lake.state("bars").table))
    output = str(lake.root / "bars" / "output")

    assert [["lake.bars"], ["lake.bars"], ["lake.candles"], []] == [names for names, _ in seen]
    assert ["lake.bars", "lake.bars", "`lake`.candles", ""] == [table for _, table in seen]
    lake.apply(bars("lake.bars"))
    lake.apply(bars("spark_catalog.lake.BARS"))
    assert {"lake.bars": output} == catalog.names
    catalog.names.clear()
    lake.apply(bars("lake.bars"))
    assert {"lake.bars": output} == catalog.names, "a name that was dropped in the catalog comes back"


def test_an_output_without_a_name_says_nothing(lake: Lake, catalog: Catalog) -> None:
    """
    It costs no commit, no lease and no look at a catalog.
    """
    lake.apply(bars())
    before = lake.opened.journal.view().version
    refreshed(lake, 1, 4)

    assert "" == follow(lake, asks=True)
    assert {} == says(lake)
    assert (0, before + 1) == (catalog.asked, lake.opened.journal.view().version)


def test_the_output_tells_of_the_last_refresh_that_ended(lake: Lake) -> None:
    """
    The source version that it reflects, when that was, what is dirty all the same, and how stale it may be.
    """
    lake.apply(bars("lake.bars", refresh__max_staleness="2 hours"))
    assert {"source_version": "", "max_staleness": "2 hours", "refresh": "0"}.items() <= says(lake).items()
    refreshed(lake, 1, 4)
    follow(lake)
    first = says(lake)
    lake.filled("bars", HOUR)
    state = lake.state("bars")
    append(lake.opened.journal, (state.id, Invalidated((Entry(Span(0, HOUR), None, Cause.INVALIDATED),))))
    follow(lake)

    assert ("4", lake.state("bars").ended[-1].at) == (first["source_version"], first["refreshed_at"])
    assert {"source": str(lake.root / "raw"), "aggregate": "bars"}.items() <= first.items()
    assert "1" == says(lake)["dirty_spans"]
    version = DeltaTable(str(lake.root / "bars" / "output")).version()
    follow(lake)
    assert version == DeltaTable(str(lake.root / "bars" / "output")).version(), "nothing new"


def test_a_catalog_that_does_not_answer_stops_nothing(lake: Lake, catalog: Catalog) -> None:
    """
    The journal says why there is no name; the next command that starts Spark gives it.
    """
    lake.apply(bars("lake.old"))
    catalog.answers = False
    refreshed(lake, 1, 4)

    assert "" == follow(lake), "nothing has to ask it"
    assert "4" == says(lake)["source_version"]
    with pytest.raises(CatalogUnreachableError):
        lake.apply(bars("lake.new"))
    assert "lake.old" == lake.state("bars").table

    with pytest.raises(CatalogRefusedError, match="bars: the catalog does not answer") as caught:
        lake.apply(bars())
    assert "the definitions are applied" == caught.value.wrote
    assert "the catalog does not answer" == lake.opened.status("bars")[0].table_problem
    assert ["warning"] == [f.level for f in lake.opened.doctor("bars") if f.code == "doctor.registration"]
    catalog.answers = True
    lake.apply(bars())
    assert ({}, "", "") == (catalog.names, lake.state("bars").table, lake.state("bars").table_problem)


def test_a_drop_takes_the_name_or_says_that_it_stays(lake: Lake, catalog: Catalog) -> None:
    """
    The aggregate is gone in both cases.
    """
    lake.apply(bars("lake.bars"))
    lake.opened.drop("bars")
    assert ({}, []) == (catalog.names, lake.names)

    lake.apply(bars("lake.bars"))
    catalog.answers = False
    with pytest.raises(CatalogRefusedError, match=r"the name lake\.bars stays in the catalog") as caught:
        lake.opened.drop("bars")
    assert ("bars is dropped", []) == (caught.value.wrote, lake.names)


@pytest.mark.parametrize("other", ["lake.bars", "spark_catalog.LAKE.`bars`"])
def test_two_outputs_cannot_have_one_name(lake: Lake, other: str) -> None:
    """
    Neither in one command nor in two, however the name is written.
    """
    code = "catalog.name-taken"
    assert [code] == [c for c, _ in lake.refused(bars("lake.bars"), bars(other, "more"))]
    lake.apply(bars("lake.bars"))
    [(found, said)] = lake.refused(bars(other, "more"))

    assert code == found
    assert "the output of 'bars'" in said


@pytest.mark.parametrize("step", ["unregister", "register", "register_journal"])
def test_a_command_that_dies_on_the_way_is_finished_by_the_next(tmp_path: Path, catalog: Catalog, step: str) -> None:
    """
    Whatever the catalog knows already: a name is given and taken away once, and the journal agrees in the end.
    """

    def die(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    lake = Lake(tmp_path, catalog)
    lake.apply(bars("lake.old"))
    dying = replace(lake.wired, on_checkpoint=die)
    changed = replace(lake.state("bars"), spec=with_name(lake.state("bars").spec, "lake.new"))
    lake.put(changed)
    with pytest.raises(KeyboardInterrupt):
        registration.follow(dying, changed, asks=True)
    lake.apply(bars("lake.new"))

    assert ["lake.new"] == list(catalog.names)
    assert ("lake.new", "") == (lake.state("bars").table, lake.state("bars").table_problem)
    assert lake.state("bars").lease is None


def with_name(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a stored definition that asks for another name."""
    return {**spec, "properties": [["output.table", name]]}
