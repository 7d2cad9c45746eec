from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from materializer.adapters.cli.render.proposal import ProposalResult
from materializer.config import Config
from materializer.core.time.instants import HOUR
from materializer.errors import UsageError
from materializer.services.versions.proposal import DefinitionsPlan, PlannedChange
from tests.services.no_spark import Lake, LocalLake, each, view

MONTH_ROWS = 48


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A raw table of two days, and an hourly aggregate over it."""
    lake = Lake(tmp_path)
    lake.add(*((hour * HOUR, hour) for hour in range(MONTH_ROWS)))
    lake.apply(view("hourly", each("1 hour")))
    return lake


def proposed(lake: Lake, *sql: str) -> DefinitionsPlan:
    """What applying would do; what is there stays as it is."""
    before = written(lake)
    found = lake.opened.plan_definitions(list(sql))
    assert before == written(lake)
    return found


def written(lake: Lake) -> Any:
    files = sorted(str(p.relative_to(lake.root)) for p in lake.root.rglob("*"))
    return files, DeltaTable(str(lake.root / "raw")).version(), lake.opened.journal.view().states


def one(plan: DefinitionsPlan) -> PlannedChange:
    assert () == plan.problems
    [found] = plan.changes
    return found


def test_a_new_definition_has_the_price_of_its_source(lake: Lake) -> None:
    """
    The rows and bytes of the whole source, seconds above zero, and nobody who reads it.
    """
    found = one(proposed(lake, view("daily", each("1 day"))))

    assert ("new", ()) == (found.change.kind, found.readers)
    assert found.price is not None
    assert (MONTH_ROWS, 1, 1) == (found.price.rows, found.price.files, found.price.runs)
    assert found.price.bytes > 0
    assert 0 < found.price.seconds < 10


def test_what_is_the_same_or_said_otherwise_computes_nothing(lake: Lake) -> None:
    """
    Neither has a price.
    """
    same = one(proposed(lake, view("hourly", each("1 hour"))))
    comment = view("hourly", each("1 hour")).replace("AS SELECT", "COMMENT 'Hours' AS SELECT", 1)
    described = one(proposed(lake, comment))

    assert ("unchanged", None, ()) == (same.change.kind, same.price, same.parts)
    assert ("metadata", None, ("comment",)) == (described.change.kind, described.price, described.parts)


def test_changed_data_names_its_parts_and_its_readers(lake: Lake) -> None:
    """
    Those that read it, and those that read these; a reader of a column that would be gone breaks.
    """
    lake.apply(view("daily", each("1 day"), "hourly"))
    lake.apply(view("weekly", each("7 days"), "daily"))
    wider = one(proposed(lake, view("hourly", each("2 hours"))))
    renamed = one(proposed(lake, view("hourly", each("1 hour"), measure="sum(v) AS amount")))

    assert ("data", ("buckets",)) == (wider.change.kind, wider.parts)
    assert [("daily", True, ""), ("weekly", False, "")] == [(r.name, r.is_direct, r.problem) for r in wider.readers]
    assert ["it reads the column `v`, which would be gone", ""] == [r.problem for r in renamed.readers]
    assert {"measure v", "measure amount", "columns"} == set(renamed.parts)


def test_a_chain_that_is_new_has_its_parents(lake: Lake) -> None:
    """
    What the same command makes is read before it; without a table it has no price.
    """
    plan = proposed(
        lake,
        view("weekly", each("7 days"), "daily"),
        view("daily", each("1 day"), "hourly"),
    )
    found = {c.change.name: c for c in plan.changes}

    assert ["daily", "weekly"] == [c.change.name for c in plan.changes]
    assert (("hourly",), ("hourly", "daily")) == (found["daily"].reads, found["weekly"].reads)
    assert found["weekly"].price is None


def test_what_cannot_be_applied_stands_beside_what_can(lake: Lake) -> None:
    """
    Problems of texts and problems that only the source shows, each with its code.
    """
    plan = proposed(
        lake,
        view("good", each("1 day")),
        view("wrong", each("1 day"), measure="sum(missing) AS v"),
        "CREATE MATERIALIZED VIEW worse AS SELECT 1",
        view("orphan", each("1 day"), source="nowhere"),
    )

    assert ["good"] == [c.change.name for c in plan.changes]
    assert {"definition.unknown-column", "table.not-found"} < {p.code for p in plan.problems}
    assert [p for p in plan.problems if "worse" not in p.message and p.code.startswith("definition.")]


def test_a_measure_of_stored_partials_reads_no_row_of_the_source(tmp_path: Path) -> None:
    """
    The price is that of copying the stored rows, which Spark finalises.
    """
    lake = LocalLake(tmp_path)
    lake.add(*((hour * HOUR, hour) for hour in range(MONTH_ROWS)))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(v) AS n"))
    lake.opened.refresh("hourly")
    found = one(proposed(lake, view("hourly", each("1 hour"), measure="sum(v) AS v, count(v) AS n, sum(v) AS again")))

    assert ("measures", {"measure again", "columns"}) == (found.change.kind, set(found.parts))
    assert found.price is not None
    assert ("stored partials", "spark", MONTH_ROWS) == (found.price.strategy, found.price.executor, found.price.rows)


def test_what_computes_it_follows_the_settings_and_the_size(tmp_path: Path) -> None:
    """
    This process where a run is small; Spark, with the reason, where it is not or where the settings say so.
    """
    found = []
    for number, (rows, config) in enumerate([(1_000, Config()), (10, Config()), (1_000, Config(executor="spark"))]):
        lake = LocalLake(tmp_path / str(number), rows=rows, config=config)
        lake.add(*((hour * HOUR, hour) for hour in range(MONTH_ROWS)))
        price = one(proposed(lake, view("hourly", each("1 hour")))).price
        assert price is not None
        found.append((price.executor, price.reason))

    assert ("local", "") == found[0]
    assert ("spark", "a run reads 48 rows, and up to 10 are computed here") == found[1]
    assert ("spark", "the settings say so") == found[2]


def test_a_roll_up_whose_measure_would_be_computed_in_another_way_breaks(lake: Lake) -> None:
    """
    And goes on where only its bucket's comment changes.
    """
    lake.materialise("hourly")
    lake.apply(view("daily", each("1 day"), "hourly", "rollup(v) AS v"))
    other = one(proposed(lake, view("hourly", each("1 hour"), measure="max(v) AS v")))
    same = one(proposed(lake, view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n")))

    assert [("daily", True)] == [(r.name, bool(r.problem)) for r in other.readers]
    assert [("daily", False)] == [(r.name, bool(r.problem)) for r in same.readers]


def test_frozen_history_is_a_problem_of_the_definition(tmp_path: Path) -> None:
    """
    As `apply` would refuse it; other definitions are planned.
    """
    lake = LocalLake(tmp_path)
    lake.add(*((hour * HOUR, hour) for hour in range(MONTH_ROWS)))
    lake.apply(view("hourly", each("1 hour")), view("other", each("1 hour")))
    lake.opened.refresh("hourly")
    lake.opened.expire("hourly", "1970-01-02", dry_run=False)
    plan = proposed(lake, view("hourly", each("2 hours")), view("other", each("2 hours")))

    assert (["history.frozen"], ["other"]) == ([p.code for p in plan.problems], [c.change.name for c in plan.changes])


def test_a_folder_is_read_and_one_that_is_missing_is_refused(lake: Lake, tmp_path: Path) -> None:
    """
    As by `apply`.
    """
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "daily.sql").write_text(view("daily", each("1 day")))

    assert "new" == one(lake.opened.plan_definitions(str(folder))).change.kind
    with pytest.raises(UsageError):
        lake.opened.plan_definitions(str(tmp_path / "nothing"))


def test_a_rollup_of_what_changes_is_not_unchanged(lake: Lake) -> None:
    """
    It is built again from the next version of what it rolls up, and so is a roll-up of it; what reads rows of the output goes on.
    """
    above = (
        view("daily", each("1 day"), "hourly", "rollup(v) AS v"),
        view("weekly", each("1 week"), "daily", "rollup(v) AS v"),
        view("plain", each("1 day"), "hourly"),
    )
    lake.apply(*above)
    lake.materialise("hourly", "daily", "weekly", "plain")

    plan = proposed(lake, view("hourly", each("1 hour"), measure="sum(v + 1) AS v"), *above)

    found = {planned.change.name: planned for planned in plan.changes}
    assert {"hourly": "", "daily": "hourly", "weekly": "daily", "plain": ""} == {n: p.follows for n, p in found.items()}
    assert ["plain"] == [name for name, planned in found.items() if planned.is_unchanged]
    text = " ".join(" ".join(ProposalResult(plan).lines(200)).split())
    assert "daily: unchanged; is built again once the next version of 'hourly' is published" in text
    assert "3 of 4 definitions would change" in text
    assert [] == [reader.problem for reader in found["hourly"].readers if reader.problem]
    [alone] = proposed(lake, above[0]).changes
    assert alone.is_unchanged
