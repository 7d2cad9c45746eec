"""Roll-ups from partials in a real lake, without a JVM: chains of them against a naive oracle, and parents that are switched."""

from __future__ import annotations

import shutil
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.errors import RollupChangedError
from tests.services.no_spark import LocalLake, each

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
MINUTES = """
CREATE MATERIALIZED VIEW minutes AS
SELECT time_bucket('1 hour', ts) AS at, ts AS minute, sum(v) AS v, count(*) AS n, max(v) AS most
FROM raw WHERE v <> 5 GROUP BY 1, 2 HAVING count(*) < 3;
"""
HOURS = """
CREATE MATERIALIZED VIEW hours AS
SELECT time_bucket('2 hours', at) AS at, rollup(v) AS v, rollup(n) AS n, rollup(most) AS most
FROM minutes GROUP BY 1;
"""
DAYS = """
CREATE MATERIALIZED VIEW days AS
SELECT time_bucket('1 day', at) AS at, rollup(v) + rollup(n) AS both, rollup(most) AS most
FROM hours GROUP BY 1 HAVING rollup(n) > 1;
"""


def naive(rows: list[tuple[int, int]], width: int) -> dict[int, list[int]]:
    """Return the values that count in each bucket."""
    found: dict[int, list[int]] = defaultdict(list)
    for ts, v in rows:
        if v != 5:
            found[ts // width * width].append(v)
    return found


def at(instant: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)


def expected(rows: list[tuple[int, int]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of both roll-ups over raw rows."""
    hours = [
        {"at": at(start), "v": sum(vs), "n": len(vs), "most": max(vs)}
        for start, vs in sorted(naive(rows, 2 * HOUR).items())
    ]
    days = [
        {"at": at(start), "both": sum(vs) + len(vs), "most": max(vs)}
        for start, vs in sorted(naive(rows, DAY).items())
        if len(vs) > 1
    ]
    return {"hours": hours, "days": days}


ROW = st.tuples(st.integers(0, 71).map(lambda n: n * 40 * MINUTE), st.integers(0, 9))
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=4)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("refresh"), st.sampled_from(["minutes", "hours", "days"])),
    st.tuples(st.just("maintain"), st.sampled_from(["minutes", "hours"])),
)


def done(lake: LocalLake, rows: list[tuple[int, int]], what: str, how: Any) -> list[tuple[int, int]]:
    """Do one step, and return the raw rows after it."""
    raw = DeltaTable(str(lake.root / "raw"))
    match what:
        case "add":
            lake.add(*how)
            return [*rows, *how]
        case "update":
            raw.update(updates={"v": "v + 1"}, predicate=f"v = {how}")
            return [(ts, v + (v == how)) for ts, v in rows]
        case "delete":
            raw.delete(f"v = {how}")
            return [(ts, v) for ts, v in rows if v != how]
        case "refresh":
            lake.opened.refresh(how)
        case "maintain":
            lake.opened.maintain(how)
    return rows


@settings(max_examples=12, deadline=None)
@given(st.lists(STEP, max_size=8))
def test_a_chain_of_rollups_is_its_definition_over_raw_rows(steps: list[tuple[str, Any]]) -> None:
    """
    After any steps, one refresh of each, parents first, gives what the raw rows give; HAVING of a parent does not count.
    """
    with TemporaryDirectory() as folder:
        lake = LocalLake(Path(folder))
        lake.apply(MINUTES, HOURS, DAYS)
        rows: list[tuple[int, int]] = []
        for what, how in steps:
            rows = done(lake, rows, what, how)
        for name in ("minutes", "hours", "days"):
            lake.opened.refresh(name)

        assert expected(rows) == {name: lake.rows_of(name) for name in ("hours", "days")}


def filled(tmp_path: Path) -> LocalLake:
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 2), (HOUR, 7), (3 * HOUR, 4), (DAY, 3), (DAY + HOUR, 9))
    lake.apply(MINUTES, HOURS, DAYS)
    for name in ("minutes", "hours", "days"):
        lake.opened.refresh(name)
    return lake


def test_a_late_row_reaches_only_its_buckets(tmp_path: Path) -> None:
    """
    A refresh of a parent says which buckets it computed; the roll-up computes these, though the file has more.
    """
    lake = filled(tmp_path)
    lake.add((2, 3))
    lake.opened.refresh("minutes")

    [run] = lake.opened.refresh("hours").runs

    assert [[0, 2 * HOUR]] == run.plan.spans.as_json()
    assert 4 == run.report.rows_read


def test_a_rollup_follows_a_parent_that_was_switched(tmp_path: Path) -> None:
    """
    Another WHERE of the parent reaches the whole chain: status and plan say so first, then each refresh computes all.
    """
    lake = filled(tmp_path)
    lake.apply(MINUTES.replace("v <> 5", "v <> 9"))
    lake.opened.build("minutes")
    [status] = lake.opened.status("hours")
    planned = lake.opened.plan("hours").plan
    for name in ("hours", "days"):
        lake.opened.refresh(name)

    assert "dirty" == status.state
    assert planned is not None
    assert planned.steps
    assert [10, 4, 3] == [row["v"] for row in lake.rows_of("hours")]
    assert [18] == [row["both"] for row in lake.rows_of("days")]


def test_a_next_version_of_a_rollup_follows_a_parent_that_was_switched(tmp_path: Path) -> None:
    """
    A part of it was built over the partials of before; the published version goes on by itself, and each reads the new ones.
    """
    lake = filled(tmp_path)
    lake.apply(HOURS.replace("2 hours", "4 hours"))
    lake.opened.build("hours", buckets_per_run=1, max_runs=1)
    lake.apply(MINUTES.replace("v <> 5", "v <> 9"))
    lake.opened.build("minutes")
    lake.opened.refresh("hours")
    assert [10, 4, 3] == [row["v"] for row in lake.rows_of("hours")]

    build = lake.opened.build("hours")

    assert build.switched, build.why_not
    assert [14, 3] == [row["v"] for row in lake.rows_of("hours")]


def test_a_rollup_follows_a_parent_that_was_rolled_back(tmp_path: Path) -> None:
    """
    Older partials are no copy and no damage: what is computed again is dirty, in the words of a switch.
    """
    lake = filled(tmp_path)
    before = lake.rows_of("hours")
    lake.apply(MINUTES.replace("v <> 5", "v <> 9"))
    lake.opened.build("minutes")
    lake.opened.refresh("hours")

    lake.opened.rollback("minutes")
    lake.opened.build("minutes")
    [status] = lake.opened.status("hours")
    planned = lake.opened.plan("hours").plan
    report = lake.opened.refresh("hours")

    assert ("dirty", "") == (status.state, status.problem)
    assert planned is not None
    assert not [step for step in planned.steps if "copy" in getattr(step, "reason", "")]
    assert not [step for run in report.runs for step in run.plan.steps if "copy" in getattr(step, "reason", "")]
    assert before == lake.rows_of("hours")


@pytest.mark.parametrize("change", ["sum(v + 1) AS v", "min(v) AS total"])
def test_a_rollup_refuses_a_parent_that_lacks_what_it_merges(tmp_path: Path, change: str) -> None:
    """
    Nothing is written, the error names the command, and applying the definition again mends it where that can be.
    """
    lake = filled(tmp_path)
    before = lake.rows_of("hours")
    lake.apply(MINUTES.replace("sum(v) AS v", change))
    lake.opened.build("minutes")

    with pytest.raises(RollupChangedError) as caught:
        lake.opened.refresh("hours")

    assert "rollup.changed" == caught.value.code
    assert "it no longer has what its measure `v` was made of" in caught.value.message
    assert "apply the definition of 'hours' again" in caught.value.hint
    assert before == lake.rows_of("hours")
    [status] = lake.opened.status("hours")
    assert "'minutes', which was changed since" in status.problem
    if "total" in change:
        assert ["definition.rollup-measure"] == [code for code, _ in lake.refused(HOURS)]
        return
    lake.apply(HOURS)
    lake.opened.build("hours")
    assert [row["v"] + row["n"] for row in before] == [row["v"] for row in lake.rows_of("hours")]


def test_a_rollup_follows_a_repair_of_its_parent(tmp_path: Path) -> None:
    """
    The parent has new partials, and the roll-up reads these.
    """
    lake = filled(tmp_path)
    before = lake.rows_of("hours")
    shutil.rmtree(tmp_path / "minutes" / "partials")
    lake.opened.repair("minutes", dry_run=False)
    lake.opened.refresh("minutes")
    lake.add((2, 3))
    lake.opened.refresh("minutes")
    lake.opened.refresh("hours")

    assert before[0]["v"] + 3 == lake.rows_of("hours")[0]["v"]
    assert before[1:] == lake.rows_of("hours")[1:]


def test_buckets_must_nest(tmp_path: Path) -> None:
    """
    The problem names the instant at which an edge lies inside a bucket of the parent, at a change of the clock too.
    """
    lake = LocalLake(tmp_path)
    lake.apply(MINUTES.replace("'1 hour'", "'2 hours'"))

    found = lake.refused(HOURS.replace("'2 hours'", "'3 hours'"))
    assert ["definition.not-nested"] == [code for code, _ in found]
    assert "the edge 2000-01-01T03:00:00Z lies inside the bucket" in found[0][1]
    zone = lake.refused(HOURS.replace("time_bucket('2 hours', at)", each("1 day", "Europe/Berlin").format("at")))
    assert ["definition.not-nested"] == [code for code, _ in zone]
    lake.apply(HOURS.replace("'2 hours'", "'4 hours'"))


def test_the_plan_of_a_chain_shows_every_stage(tmp_path: Path) -> None:
    """
    Before anything is refreshed, each stage has what the stage before it would compute; and it is what is refreshed then.
    """
    lake = filled(tmp_path)
    lake.add((2, 3), (DAY + 2 * HOUR, 1))
    assert ["minutes", "hours", "days"] == lake.opened.chain("days")
    alone = lake.opened.plan("days").plan

    stages = lake.opened.plan_chain("days")

    assert alone is None
    planned = [[] if stage.plan is None else stage.plan.spans.as_json() for stage in stages]
    assert [
        [[0, HOUR], [DAY + 2 * HOUR, DAY + 3 * HOUR]],
        [[0, 2 * HOUR], [DAY + 2 * HOUR, DAY + 4 * HOUR]],
        [[0, 2 * DAY]],
    ] == planned
    done = [lake.opened.refresh(name).runs[0].plan.spans.as_json() for name in lake.opened.chain("days")]
    assert planned == done
