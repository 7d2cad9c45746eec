"""Automatic roll-ups: buckets of one aggregate from partials that another has, whenever that gives the same and costs less."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.config import Config
from materializer.core.refresh.plan import strategy_of
from tests.services.keyed import Readings
from tests.services.no_spark import LocalLake, each, view

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
MEASURES = "sum(v) AS v, count(*) AS n, max(v) AS most, min(v) AS least"
DAYS = view("days", each("1 day"), measure=MEASURES)


def rows(days: int = 3, each_hour: int = 20) -> list[tuple[int, int]]:
    """Return rows of some days."""
    return [(h * HOUR + i * MINUTE, (h * 7 + i) % 11) for h in range(24 * days) for i in range(each_hour)]


def lake_with(tmp_path: Path, *parents: str) -> LocalLake:
    """Return a lake of days whose parents are refreshed, and the days are not."""
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 26)
    lake.add(*rows())
    lake.apply(*parents, DAYS)
    for state in list(lake.opened.journal.view().states.values()):
        if state.name != "days":
            lake.opened.refresh(state.name)
    return lake


def steps_of(lake: LocalLake, name: str = "days") -> dict[str, Any]:
    """Return the step of each strategy in the plan of an aggregate."""
    plan = lake.opened.plan(name).plan
    return {} if plan is None else {strategy_of(step): step for step in plan.steps}


def test_coarse_buckets_are_merged_from_finer_partials(tmp_path: Path) -> None:
    """
    The plan names the other aggregate and what a recompute would read; the rows are those of a recompute.
    """
    lake = lake_with(tmp_path, view("hours", each("1 hour"), measure=f"{MEASURES}, sum(v * 2) AS twice"))

    step = steps_of(lake)["roll-up"]
    [run] = lake.opened.refresh("days").runs

    assert "hours" == step.parent
    assert "would read 1,440 raw rows" in [r.reason for r in step.rejected]
    assert "roll-up" in run.report.strategy
    assert 72 == run.report.rows_read
    found = lake.rows_of("days")
    lake.opened.refresh("days", force=True)
    assert found == lake.rows_of("days")
    assert [480, 480, 480] == [row["n"] for row in found]


@pytest.mark.parametrize(
    ("parent", "why"),
    [
        (view("hours", each("1 hour"), measure="sum(v) AS v, count(*) AS n, max(v) AS most"), "lacks a partial"),
        (view("hours", each("5 hours"), measure=MEASURES), "does not nest"),
        (view("hours", each("1 hour"), measure=MEASURES).replace("FROM raw", "FROM raw WHERE v > 3"), "other rows"),
        (view("hours", each("1 hour"), measure=MEASURES.replace("sum(v)", "sum(v + 1)")), "another measure"),
    ],
)
def test_what_has_other_partials_is_not_used(tmp_path: Path, parent: str, why: str) -> None:
    """
    Another filter, grid or measure is no roll-up.
    """
    lake = lake_with(tmp_path, parent)

    assert {"rebuild", "settle"} == set(steps_of(lake)), why


def test_a_filter_with_another_literal_selects_other_rows(tmp_path: Path) -> None:
    """
    Two literals side by side are not one literal with a quote in it; another spelling of names does not count.
    """
    one, other = (f"FROM raw WHERE if({text} < 'it''z', v > 3, v > 9)" for text in ("'it' 's'", "'it''s'"))
    hours = view("hours", each("1 hour"), measure=MEASURES).replace("FROM raw", one.replace("v >", "V  >"))
    lake = lake_with(tmp_path, hours)
    lake.apply(*(DAYS.replace("days", n).replace("FROM raw", text) for n, text in (("other", other), ("same", one))))

    assert "roll-up" not in steps_of(lake, "other")
    assert "roll-up" in steps_of(lake, "same")
    lake.opened.refresh("other")
    assert sum(v > 3 for _, v in rows()) == sum(row["n"] for row in lake.rows_of("other"))


def test_only_where_the_finer_aggregate_is_clean(tmp_path: Path) -> None:
    """
    A part that is dirty there is recomputed, and the plan says why; so it is where the other has not seen the source's version.
    """
    lake = lake_with(tmp_path, view("hours", each("1 hour"), measure=MEASURES))
    lake.opened.invalidate("hours", "1970-01-02T03:00:00Z", "1970-01-02T04:00:00Z")

    steps = steps_of(lake)
    assert [[0, DAY], [2 * DAY, 3 * DAY]] == steps["roll-up"].spans.as_json()
    assert [[DAY, 2 * DAY]] == steps["rebuild"].spans.as_json()

    lake.add((5, 5))
    steps = steps_of(lake)
    assert "roll-up" not in steps
    [why] = [r.reason for r in steps["rebuild"].rejected if r.strategy == "roll-up"]
    assert "'hours' has captured version 1 of the source, not 2" == why

    lake.opened.refresh("hours")
    assert "roll-up" in steps_of(lake)


@pytest.mark.parametrize("key", ["ts", "CAST(date(ts) AS TIMESTAMP)"])
def test_keys_may_be_fewer(tmp_path: Path, key: str) -> None:
    """
    A key that the coarser aggregate lacks is merged away, if there are fewer groups than rows.
    """
    hours = view("hours", each("1 hour"), measure=f"{key} AS key, {MEASURES}").replace(
        " GROUP BY ", f" GROUP BY {key}, "
    )
    lake = lake_with(tmp_path, hours)

    assert (key != "ts") == ("roll-up" in steps_of(lake))
    lake.opened.refresh("days")
    assert [480, 480, 480] == [row["n"] for row in lake.rows_of("days")]


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 71)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("hours"), st.just(0)),
    st.tuples(st.just("days"), st.just(0)),
    st.tuples(st.just("force"), st.just(0)),
)


@settings(max_examples=10, deadline=None)
@given(st.lists(STEP, max_size=8))
def test_a_rollup_is_what_a_recompute_would_be(steps: list[tuple[str, int]]) -> None:
    """
    After any steps, with or without the finer aggregate being up to date.
    """
    with TemporaryDirectory() as folder:
        lake = lake_with(Path(folder), view("hours", each("1 hour"), measure=MEASURES))
        raw = DeltaTable(f"{folder}/raw")
        for what, at in [*steps, ("hours", 0), ("days", 0)]:
            match what:
                case "add":
                    lake.add(*((at * HOUR + i, i % 13) for i in range(70)))
                case "update":
                    raw.update_incremental()
                    raw.update(updates={"v": "v + 1"}, predicate=f"v = {at}")
                case "delete":
                    raw.update_incremental()
                    raw.delete(f"v = {at}")
                case "force":
                    lake.opened.refresh("days", force=True)
                case name:
                    lake.opened.refresh(name)
        raw.update_incremental()
        found = raw.to_pyarrow_table().to_pylist()
        days: dict[Any, list[int]] = {}
        for row in found:
            days.setdefault(row["ts"].replace(hour=0, minute=0, second=0, microsecond=0), []).append(row["v"])

        wanted = [
            {"at": day, "v": sum(vs), "n": len(vs), "most": max(vs), "least": min(vs)}
            for day, vs in sorted(days.items())
        ]
        assert wanted == lake.rows_of("days")


@pytest.mark.parametrize("tie", [1, 60_000])
def test_a_rollup_takes_the_place_of_a_merge_where_it_is_clearly_cheaper(tmp_path: Path, tie: int) -> None:
    """
    Of many new rows the finer aggregate has few partials; where prices do not decide, the merge stays.
    """
    config = Config(price_tie_ms=tie)
    lake = LocalLake(tmp_path, rows=10**7, size=1 << 30, config=config)
    lake.add(*rows())
    lake.apply(view("hours", each("1 hour"), measure=MEASURES), DAYS)
    for name in ("hours", "days"):
        lake.opened.refresh(name)
    raw = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    for part in range(12):
        table = pa.table(
            [pa.array([part * HOUR + 7] * 9_000).cast(raw.field("ts").type), pa.array([1] * 9_000)], schema=raw
        )
        write_deltalake(str(tmp_path / "raw"), table, mode="append")
    lake.opened.refresh("hours")

    [run] = lake.opened.refresh("days").runs

    assert (tie == 1) == ("roll-up" in run.report.strategy)
    assert 480 + 12 * 9_000 == lake.rows_of("days")[0]["n"]


@pytest.mark.parametrize("tie", [1, 60_000])
def test_a_rollup_takes_the_place_of_single_keys_where_it_is_clearly_cheaper(tmp_path: Path, tie: int) -> None:
    """
    Rows of the changed keys have to be found among all rows of the bucket, and the finer aggregate has few partials of it.
    """
    lake = Readings(tmp_path, {"device": pa.string()}, rows=10**7, size=1 << 30, config=Config(price_tie_ms=tie))
    lake.write([(h * HOUR + j, f"d{i}", i + j) for h in range(8) for i in range(100) for j in range(500)])
    lake.apply(
        "CREATE MATERIALIZED VIEW daily AS SELECT time_bucket('1 day', ts) AS at, device, "
        "sum(v) AS v, count(*) AS n, max(v) AS most FROM readings GROUP BY ALL"
    )
    for name in ("hourly", "daily"):
        lake.opened.refresh(name)
    lake.readings.update(predicate="device = 'd7' AND v = 9", updates={"v": "1000"})
    lake.opened.refresh("hourly")

    [run] = lake.opened.refresh("daily").runs

    assert ("roll-up" if tie == 1 else "recompute-keys") == run.report.strategy
    assert 1000 == max(most for _, _, _, _, most in lake.published("daily"))
    found = lake.published("daily")
    lake.opened.refresh("daily", force=True)
    assert found == lake.published("daily")


def test_of_several_finer_aggregates_the_one_with_the_fewest_partials_is_used(tmp_path: Path) -> None:
    """
    Whatever their names.
    """
    lake = lake_with(
        tmp_path,
        view("a_hours", each("1 hour"), measure=MEASURES),
        view("b_half_days", each("12 hours"), measure=MEASURES),
        view("c_minutes", each("5 minutes"), measure=MEASURES),
    )

    assert "b_half_days" == steps_of(lake)["roll-up"].parent
