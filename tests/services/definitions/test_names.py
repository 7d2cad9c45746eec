"""A name of a statement is a column of the source before it is an alias, as in Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.errors import DefinitionError
from tests.services.no_spark import Lake

VIEW = "CREATE MATERIALIZED VIEW w AS SELECT date_trunc('hour', ts) AS at, {}"
SESSIONS = "CREATE MATERIALIZED VIEW s AS SELECT session_window.start AS at, {}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (VIEW.format("ts AS v, count(*) AS n FROM raw GROUP BY 1, v"), "definition.ambiguous-group"),
        (VIEW.format("ts AS v, count(*) AS n FROM raw GROUP BY 1, v, ts"), "definition.ambiguous-group"),
        (VIEW.format("ts AS v, v AS x, count(*) AS n FROM raw GROUP BY 1, V"), "definition.not-grouped"),
        (VIEW.format("ts, sum(v) AS v, v + 1 AS x FROM raw GROUP BY 1, ts"), "definition.not-grouped"),
        (
            VIEW.replace("AS at", "AS v").format("ts, count(*) AS n FROM raw GROUP BY v, ts"),
            "definition.ambiguous-group",
        ),
        (SESSIONS.format("ts AS v, count(*) AS n FROM raw GROUP BY session_window(ts, '5 minutes'), v"), ""),
    ],
)
def test_an_alias_that_hides_a_column_is_refused(tmp_path: Path, text: str, code: str) -> None:
    """
    Spark would group by the column, or refuse the statement; with the expression repeated it is accepted.
    """
    found, message = Lake(tmp_path).refused(text)[0]

    assert found.startswith(code or "definition.")
    assert message.startswith(("w: ", "s: "))


@pytest.mark.parametrize(
    ("select", "group", "keys"),
    [
        ("v % 9 AS ts, count(*) AS n", "1, ts, v % 9", {"v % 9", "ts"}),
        ("ts AS v, count(*) AS n", "1, v, ts", {"v", "ts"}),
        ("v % 9 AS v, count(*) AS n", "1, v % 9, v", {"v % 9", "v"}),
    ],
)
def test_the_hint_leads_to_what_spark_groups_by(tmp_path: Path, select: str, group: str, keys: set[str]) -> None:
    """
    The column is selected, too, and each item of GROUP BY stays a key.
    """
    lake = Lake(tmp_path)
    with pytest.raises(DefinitionError) as caught:
        lake.apply(VIEW.format(f"{select} FROM raw GROUP BY {group}"))
    added = caught.value.problems[0].hint.removeprefix("add `").partition("`")[0]
    lake.apply(VIEW.format(f"{select}, {added} FROM raw GROUP BY {group}"))

    assert keys == {key["sql"].strip("`") for key in lake.state("w").spec["keys"]}


def test_a_column_counts_before_an_alias(tmp_path: Path) -> None:
    """
    Two aliases that are swapped columns: GROUP BY and HAVING name the columns.
    """
    lake = Lake(tmp_path)
    lake.apply(VIEW.format("ts AS v, v AS ts, count(*) AS n FROM raw GROUP BY 1, ts, v HAVING v > 5"))
    spec = lake.state("w").spec

    assert [("v", "ts"), ("ts", "v")] == [(key["name"], key["sql"]) for key in spec["keys"]]
    assert ["`ts` > 5"] == spec["having"]["pieces"]


def test_an_alias_of_no_column_is_its_expression(tmp_path: Path) -> None:
    """
    HAVING may name a measure that is called like a column that is not grouped, and SELECT what no column is called.
    """
    lake = Lake(tmp_path)
    lake.apply(VIEW.format("v % 2 AS odd, count(*) AS v, odd + 1 AS x FROM raw GROUP BY 1, odd HAVING v > 1"))
    spec = lake.state("w").spec

    assert ["count"] == [call["function"] for call in spec["having"]["calls"]]
    assert [("odd", "v % 2")] == [(key["name"], key["sql"]) for key in spec["keys"]]


def test_two_partials_in_one_column_are_built_anew(tmp_path: Path) -> None:
    """
    Where an earlier release stored one column for two filters, applying the same text again is a change of data.
    """
    lake = Lake(tmp_path)
    text = VIEW.format("count_if('it''s' > 'a') AS one, count_if('it' 's' > 'a') AS two FROM raw GROUP BY 1")
    lake.apply(text)
    state = lake.state("w")
    assert ["unchanged"] == [change.kind for change in lake.apply(text)]

    *others, _, rows = state.schemas["partials"]
    lake.put(replace(state, schemas={**state.schemas, "partials": [*others, rows]}))

    assert ["data"] == [change.kind for change in lake.apply(text, dry_run=True)]
