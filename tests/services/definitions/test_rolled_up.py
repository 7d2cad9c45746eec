"""Roll-ups from partials as definitions: every refusal names what is wrong, and writes nothing; no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.adapters.cli.render.apply import ApplyResult
from materializer.adapters.cli.render.status import StatusResult
from materializer.core.compiled.difference_lines import differences
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import TimeType
from materializer.errors import DefinitionError
from tests.services.no_spark import Lake, LocalLake

HOURS = """
CREATE MATERIALIZED VIEW hours AS
SELECT time_bucket('1 hour', ts) AS at, ts AS k, sum(v) AS v, median(v) AS middle, first(ts) AS first_ts, last(v) AS closed,
       concat(ts, count(*)) AS named, avg(v) AS mean
FROM raw GROUP BY 1, 2;
"""
ENDS = (
    "CREATE MATERIALIZED VIEW ends AS SELECT window.end AS ended, sum(v) AS v FROM raw GROUP BY window(ts, '1 hour');"
)
SESSIONS = """
CREATE MATERIALIZED VIEW sessions TBLPROPERTIES ('engine' = 'session_window', 'session_gap' = '1 minute') AS
SELECT sum(v) AS v FROM raw GROUP BY session_window(ts, '1 minute');
"""


def days(
    measure: str, *, bucket: str = "time_bucket('1 day', at)", source: str = "hours", rest: str = "", key: str = ""
) -> str:
    by = f"{bucket} AS at, {key + ' AS key, ' if key else ''}{measure} AS m"
    return f"CREATE MATERIALIZED VIEW days {rest if rest.startswith('TBL') else ''} AS SELECT {by} FROM {source} {'' if rest.startswith('TBL') else rest} GROUP BY 1{', 2' if key else ''};"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with hours, and hours that show their ends only."""
    lake = Lake(tmp_path)
    lake.apply(HOURS, ENDS)
    return lake


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (days("rollup(v)", source="raw", bucket="time_bucket('1 day', ts)"), "definition.rollup-source", "'raw' is no aggregate"),
        (days("rollup(v)", bucket="time_bucket('1 day', k)"), "definition.rollup-time", "`k` is not that column"),
        (days("rollup(v)", source="ends", bucket="time_bucket('1 day', ended)"), "definition.rollup-time", "`ended` is not"),
        (days("rollup(v)", rest="TBLPROPERTIES ('sequence' = 'v')"), "definition.rollup-sequence", "no rows to order"),
        (days("rollup(v)", rest="TBLPROPERTIES ('quality.canaries' = '2')"), "definition.rollup-canaries", "canaries"),
        (days("rollup(v) + count(*)"), "definition.rollup-mixed", "count(*) stands beside"),
        (days("rollup(volume)"), "definition.rollup-measure", "names no measure of 'hours', which has v, middle"),
        (days("rollup(v + 1)"), "definition.rollup-measure", "names no measure"),
        (days("rollup(v) FILTER (WHERE k > DATE'2024-01-01')"), "definition.rollup-filter", "cannot have a FILTER"),
        (days("rollup(DISTINCT v)"), "definition.wrong-arguments", "cannot take DISTINCT"),
        (days("rollup(v, v)"), "definition.wrong-arguments", "2 arguments"),
        (days("rollup()"), "definition.wrong-arguments", "0 arguments"),
        (days("rollup(v)", rest="WHERE v > 3"), "definition.rollup-column", "WHERE reads `v`"),
        (days("rollup(v)", rest="WHERE at > DATE'2024-01-01'"), "definition.rollup-column", "WHERE reads `at`"),
        (days("rollup(v)", key="v % 2"), "definition.rollup-column", "the key `key` reads `v`"),
        (days("rollup(named)"), "definition.rollup-key", "also reads a key"),
        (days("rollup(first_ts)"), "definition.rollup-key", "selects by order a value of a key"),
        (days("rollup(middle)"), "definition.no-partials", "median(v) cannot be merged"),
        (days("rollup(v)", bucket="time_bucket('90 minutes', at)"), "definition.not-nested", "the edge 2000-01-01T01:30:00Z"),
        (days("sum(rollup(v))"), "definition.nested-aggregate", "stands inside"),
        (days("avg(mean)"), "definition.not-again", "avg of 'mean'"),
        (days("rollup(v)", source="days"), "definition.cycle", "days reads days"),
    ],
)  # fmt: skip
def test_what_cannot_be_rolled_up_is_refused(lake: Lake, sql: str, code: str, words: str) -> None:
    """
    The problem has a code of its own and says what was found.
    """
    found = lake.refused(sql)

    assert [code] == [c for c, _ in found]
    assert words in found[0][1]
    assert ["ends", "hours"] == lake.names


def test_an_average_of_averages_is_answered_by_a_rollup(lake: Lake) -> None:
    """
    The hint of the refusal is a definition that is accepted.
    """
    with pytest.raises(DefinitionError) as caught:
        lake.apply(days("avg(mean)"))
    [problem] = caught.value.problems
    assert "write rollup(mean)" in problem.hint

    lake.apply(days("rollup(mean)"))
    assert ["days", "ends", "hours"] == lake.names


def test_the_key_of_an_ordered_measure_may_stay(lake: Lake) -> None:
    """
    Where the roll-up groups by the key, all rows of a group have one value of it.
    """
    lake.apply(days("rollup(first_ts)", key="k"))


def test_parent_and_rollup_may_be_made_by_one_command(tmp_path: Path) -> None:
    """
    In any order, and a roll-up of a roll-up with them.
    """
    lake = Lake(tmp_path)
    weeks = days("rollup(m)", source="days", bucket="time_bucket('7 days', at)").replace("VIEW days", "VIEW weeks")

    lake.apply(weeks, days("rollup(mean) * 2"), HOURS)

    assert ["days", "hours", "weeks"] == lake.names
    for name, below in (("days", "hours"), ("weeks", "days")):
        partials = f"{below}/partials/{lake.state(below).data_version}"
        assert str(tmp_path / partials) == lake.state(name).source.path


def test_an_average_without_its_sum_is_rolled_up_from_both_halves(tmp_path: Path) -> None:
    """
    Such an average of whole numbers has two sums, of high and of low bits; the roll-up merges both.
    """
    lake = Lake(tmp_path)
    lake.apply(
        "CREATE MATERIALIZED VIEW hours AS SELECT time_bucket('1 hour', ts) AS at, avg(v) AS mean FROM raw GROUP BY 1;",
        days("rollup(mean)"),
    )
    hourly, daily = ([name for name, _ in lake.state(n).schemas["partials"]] for n in ("hours", "days"))

    behind = [name for name in hourly if name.startswith("p_")][:3]
    assert ["_hi", "_lo"] == [name[-3:] for name in behind[:2]]
    assert set(behind) <= set(daily)


def test_what_changed_below_is_said_in_words_that_people_know(tmp_path: Path) -> None:
    """
    A roll-up that is applied again after its parent was built anew: the parent's measures, and whose partials are merged. No name of a
    column or folder of ours is among the words.
    """
    hours = "CREATE MATERIALIZED VIEW hours AS SELECT time_bucket('1 hour', ts) AS at, {} AS v FROM raw GROUP BY 1;"
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5))
    lake.apply(hours.format("sum(v)"), days("rollup(v)"))
    for name in ("hours", "days"):
        lake.opened.refresh(name)
    lake.apply(hours.format("max(v)"))
    lake.opened.build("hours")
    [change] = lake.apply(days("rollup(v) + 1"))
    [status] = lake.opened.status("days")

    assert (
        "- measure m: rollup(v)",
        "+ measure m: rollup(v) + 1",
        "- measure v of hours: sum(v)",
        "+ measure v of hours: max(v)",
        "- source the partials of 'hours', as they were",
        "+ source the partials of 'hours', as they are now",
    ) == change.differences
    told = [*ApplyResult((change,)).lines(100), *StatusResult((status,), is_detailed=True).lines(100)]
    assert "    source the partials of 'hours', changes count from version" in "\n".join(told)
    assert not [line for line in told if "/partials/" in line or "p_" in line]


def test_a_partial_of_another_type_is_named_by_its_aggregate() -> None:
    """
    Where the column that it is made of became wider.
    """
    [below] = parse_definitions(
        "CREATE MATERIALIZED VIEW hours AS SELECT time_bucket('1 hour', ts) AS at, max(v) AS v FROM raw GROUP BY 1;"
    )
    [above] = parse_definitions(days("rollup(v)"))
    old, new = (
        replace(
            above, rolls_up=below, time_type=TimeType.TIMESTAMP, read_types=(("p_0123456789ab", kind), ("k_x", "int"))
        )
        for kind in ("int", "bigint")
    )

    assert ("- type of a partial of hours: int", "+ type of a partial of hours: bigint") == differences(old, new)
