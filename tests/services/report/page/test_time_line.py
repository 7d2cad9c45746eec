"""The time line: each instant is in one state, and it is the right one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.api import Materializer
from materializer.config import Config
from tests import tables

START = datetime(2024, 3, 8, tzinfo=UTC)  # New York's clock changes on the 10th
VIEW = "CREATE MATERIALIZED VIEW bars AS SELECT time_bucket('{width}', ts{zone}) AS at, count(*) AS n FROM trades GROUP BY ALL"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete", "refresh", "part", "invalidate"]), st.integers(0, 95), st.integers(1, 12)
    ),
    max_size=8,
)


def rows(hour: int, count: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(
                [START + timedelta(hours=hour, minutes=7 * i) for i in range(count)], pa.timestamp("us", "UTC")
            )
        }
    )


def line_of(made: Materializer) -> dict[str, Any]:
    found: dict[str, Any] = made.report_data("bars")["timeline"]
    return found


@settings(max_examples=25)
@given(STEPS, st.sampled_from([("1 hour", ""), ("1 day", ", 'America/New_York'"), ("1 week", "")]))
def test_each_instant_is_in_one_state(steps: list[tuple[str, int, int]], grid: tuple[str, str]) -> None:
    """
    After any work the spans cover the extent without a gap or an overlap. What ``status`` calls dirty is not drawn as fresh, and
    what is drawn as fresh is not dirty.
    """
    with TemporaryDirectory() as folder:
        source = Path(folder) / "trades"
        tables.append(source, rows(0, 40))
        made = Materializer(Path(folder) / "lake", config=Config(sources={"trades": str(source)}))
        made.apply(VIEW.format(width=grid[0], zone=grid[1]))
        for what, hour, count in steps:
            first, last = START + timedelta(hours=hour), START + timedelta(hours=hour + count)
            if what == "insert":
                tables.append(source, rows(hour, count))
            elif what == "delete":
                DeltaTable(str(source)).delete(f"ts >= '{first.isoformat()}' AND ts < '{last.isoformat()}'")
            elif what == "invalidate":
                made.invalidate("bars", first.isoformat(), last.isoformat(), reason="a test")
            else:
                part = (first.isoformat(), (last + timedelta(days=16)).isoformat()) if what == "part" else (None, None)
                made.refresh("bars", *part, executor="local")
        line = line_of(made)
        [status] = made.status("bars")

    spans = sorted(line["spans"], key=lambda s: s["start"])
    assert [line["extent"][0], *(s["end"] for s in spans)] == [*(s["start"] for s in spans), line["extent"][1]]
    dirty = [(d.start / 1000, d.end / 1000) for d in status.dirty]
    for span in spans:
        touched = any(d[0] < span["end"] and span["start"] < d[1] for d in dirty)
        assert touched == (span["kind"] in {"dirty", "new"}) or (span["kind"] in {"coming", "new"} and not touched)
    edges = line.get("edges") or [line["phase"] + line["width"] * i for i in range(-1, 2)]
    assert edges == sorted(set(edges))


def test_a_lake_without_rows_has_no_line(tmp_path: Path) -> None:
    """
    There is nothing to draw, and it says so.
    """
    tables.create(tmp_path / "trades", rows(0, 1).schema)
    made = Materializer(tmp_path / "lake", config=Config(sources={"trades": str(tmp_path / "trades")}))
    made.apply(VIEW.format(width="1 hour", zone=""))

    assert line_of(made)["extent"] is None


def test_bounds_policies_and_causes_are_on_the_line(tmp_path: Path) -> None:
    """
    Late rows below the threshold are dirty by their cause; what was frozen and retired is so; the window of a policy is drawn.
    """
    source = tmp_path / "trades"
    for day in range(20):
        tables.append(source, rows(24 * day, 100))
    made = Materializer(tmp_path / "lake", config=Config(sources={"trades": str(source)}))
    properties = "'source.retention' = '10 days', 'output.retention' = '15 days', 'refresh.start_offset' = '5 days'"
    made.apply(VIEW.format(width="1 day", zone="").replace(" AS SELECT", f" TBLPROPERTIES ({properties}) AS SELECT"))
    made.refresh("bars", executor="local")
    tables.append(source, rows(24 * 19, 1))
    made.refresh("bars", executor="local")  # a bound follows what was materialised before
    made.invalidate("bars", "2024-03-25", "2024-03-26", reason="a test")
    line = line_of(made)
    kinds = {s["kind"]: s for s in line["spans"]}

    assert {"retired", "frozen", "fresh", "dirty"} == set(kinds)
    assert "invalidated by hand" in kinds["dirty"]["why"]
    assert {"threshold", "frozen", "retired", "newest"} == {b["name"] for b in line["bounds"]}
    assert (
        kinds["retired"]["end"]
        == kinds["frozen"]["start"]
        == next(b["at"] for b in line["bounds"] if b["name"] == "retired")
    )
    assert [p["name"] for p in line["policies"]] == ["default"]
    assert line["policies"][0]["window"][1] is None  # it is open to the future


@pytest.mark.parametrize("kind", ["integer", "date"])
def test_other_kinds_of_time(tmp_path: Path, kind: str) -> None:
    """
    Integer time stays a plain number; dates are milliseconds.
    """
    values = (
        pa.array(range(500), pa.int64())
        if kind == "integer"
        else pa.array(range(19_000, 19_100), pa.int32()).cast(pa.date32())
    )
    tables.append(tmp_path / "trades", pa.table({"ts": values}))
    made = Materializer(tmp_path / "lake", config=Config(sources={"trades": str(tmp_path / "trades")}))
    made.apply(VIEW.format(width="100" if kind == "integer" else "10 days", zone="").replace("'100'", "100"))
    made.refresh("bars", executor="local")
    line = line_of(made)

    assert line["integer"] == (kind == "integer")
    assert line["extent"][0] == (0 if kind == "integer" else 18_998 * 86_400_000) or kind == "date"
    assert line["width"] == (100 if kind == "integer" else 10 * 86_400_000)
