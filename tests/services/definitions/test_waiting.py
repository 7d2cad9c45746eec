"""A suite and a changed definition in one apply: which checks hold for what is published, and what is said of the others."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import defining, refreshing
from materializer.adapters.cli.output import JsonOutput, TextOutput
from materializer.errors import QualityGateError
from tests.services.no_spark import BY_ROWS, LocalLake, each, view

HOUR = 3_600_000_000
DAYS = view("days", each("1 day"))
MORE = view("days", each("1 day"), measure="sum(v) AS v, max(v) AS most")
AT_MOST_10 = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "v", "max_value": 10}}
AT_MOST_20 = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "v", "max_value": 20}}
MOST = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "most", "min_value": 1}}


class Guarded(LocalLake):
    """A lake with an aggregate by days over three good rows, and a folder of suites."""

    def __init__(self, root: Path) -> None:
        self.suites = root / "expectations"
        self.suites.mkdir()
        super().__init__(root, config=replace(BY_ROWS, expectations=str(self.suites)))
        self.add((0, 1), (HOUR, 2), (25 * HOUR, 3))
        self.apply(DAYS)
        self.opened.refresh("days")

    def suite(self, *expectations: dict[str, Any], name: str = "days") -> None:
        """Write the suite of the output."""
        (self.suites / f"{name}.json").write_text(json.dumps({"name": "days", "expectations": list(expectations)}))

    def command(self, body: Any, *args: Any, is_json: bool = False, **options: Any) -> str:
        """Return what a command prints."""
        out = io.StringIO()
        call = CommandCall((JsonOutput if is_json else TextOutput)(out, io.StringIO()), opened=self.opened)
        assert guarded(call, lambda: body(call, *args, **options)) == 0
        return out.getvalue()


@pytest.fixture
def lake(tmp_path: Path) -> Guarded:
    """See :class:`Guarded`."""
    return Guarded(tmp_path)


def test_a_suite_holds_at_once_for_what_is_published(lake: Guarded) -> None:
    """Beside a new column of the same apply: a bad row that arrives before the build is refused, and so it is afterwards."""
    lake.suite(AT_MOST_10, MOST)
    lake.apply(MORE)
    lake.add((2 * HOUR, 50))

    with pytest.raises(QualityGateError, match="expect_column_values_to_be_between"):
        lake.opened.refresh("days")

    assert [3, 3] == [row["v"] for row in lake.rows_of("days")]


def test_only_the_buckets_that_fail_are_withheld_where_the_definition_says_so(lake: Guarded) -> None:
    """What a gate does on failure is a property of the same apply, and holds at once, too."""
    lake.suite(AT_MOST_10)
    lake.apply(MORE.replace("\nAS", "\nTBLPROPERTIES ('quality.on_failure' = 'buckets')\nAS", 1))
    lake.add((2 * HOUR, 50), (26 * HOUR, 4))

    lake.opened.refresh("days")

    assert [3, 7] == [row["v"] for row in lake.rows_of("days")]


def test_a_check_of_what_the_next_version_changes_stays_until_it_is_built(lake: Guarded) -> None:
    """A column that is computed otherwise keeps the check that it had; the new one waits."""
    lake.suite(AT_MOST_10)
    lake.apply(DAYS)
    lake.suite(AT_MOST_20)
    [change] = lake.apply(view("days", each("1 day"), measure="max(v) AS v"))
    lake.add((2 * HOUR, 15))

    assert ["column 'v' has other values in the next version"] == [check.why for check in change.waiting_checks]
    with pytest.raises(QualityGateError):
        lake.opened.refresh("days")


def test_a_suite_that_changes_while_a_version_waits_holds_at_once(lake: Guarded) -> None:
    """The definition is applied again with another file of expectations, and nothing else."""
    lake.suite(AT_MOST_20, MOST)
    lake.apply(MORE)
    lake.suite(AT_MOST_10, MOST)
    [change] = lake.apply(MORE)
    lake.add((2 * HOUR, 15))

    assert "building" == change.next
    with pytest.raises(QualityGateError):
        lake.opened.refresh("days")


def test_what_waits_is_said_wherever_people_look(lake: Guarded) -> None:
    """Apply, plan, refresh and the plan of definitions name each check that is not active, and why, as text and as JSON."""
    lake.suite(AT_MOST_10, MOST)
    file = lake.root / "days.sql"
    file.write_text(MORE)
    check = {
        "suite": "output",
        "expectation": MOST["type"],
        "columns": ["most"],
        "why": "column 'most' comes with the next version",
    }
    text = f"{check['expectation']} of most: {check['why']}"

    def words(printed: str) -> str:
        return " ".join(printed.split())

    proposed = json.loads(lake.command(refreshing.plan, definitions=[str(file)], is_json=True))
    assert [check] == proposed["definitions"][0]["waiting_checks"]
    assert text in words(lake.command(refreshing.plan, definitions=[str(file)]))
    applied = json.loads(lake.command(defining.apply, [str(file)], is_json=True))
    assert [check] == applied["changes"][0]["waiting_checks"]
    assert f"not active before that: {text}" in words(lake.command(defining.apply, [str(file)]))
    planned = json.loads(lake.command(refreshing.plan, "days", is_json=True))
    refreshed = json.loads(lake.command(refreshing.refresh, "days", is_json=True))["refreshes"][0]
    waiting = {"changes": ["adds measure most"], "command": "materializer build days", "checks": [check]}
    assert [waiting, waiting] == [planned["waiting"], refreshed["waiting"]]
    assert text in words(lake.command(refreshing.plan, "days"))
    assert text in words(lake.command(refreshing.refresh, "days"))


def test_a_waiting_version_is_named_by_what_people_run_next(lake: Guarded) -> None:
    """Plan and refresh do not say that all is done: they name the next version, what it changes, and what builds it."""
    lake.apply(view("days", each("1 day"), measure="max(v) AS most"))
    expected = (
        "waits to be built (drops measure v, adds measure most); 'materializer build days' builds and publishes it"
    )

    for body, head in (
        (refreshing.plan, "days: nothing to do for what is published; its next version waits"),
        (refreshing.refresh, "days: what is published is up to date in"),
    ):
        printed = lake.command(body, "days")
        assert printed.startswith(head)
        assert expected in " ".join(printed.split())
    assert expected in str(lake.opened.plan("days"))


def test_apply_builds_at_once_if_it_is_asked_to(lake: Guarded) -> None:
    """With `--build` the same command backfills and publishes the next version; nothing waits, and no word says so."""
    file = lake.root / "days.sql"
    file.write_text(MORE)
    printed = lake.command(defining.apply, [str(file)], build=True)

    assert "published" in printed
    assert not [word for word in ("materializer build", "not active", "meanwhile") if word in printed]

    assert [2, 3] == [row["most"] for row in lake.rows_of("days")]
    assert lake.opened.refresh("days").waiting is None
