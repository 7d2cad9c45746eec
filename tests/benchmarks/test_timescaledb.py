"""TimescaleDB beside ours: what it is asked, when it is left out, and which differences count."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from materializer.core.language.parse import parse_definitions
from tests.benchmarks import timescaledb, trades

DSN = os.environ.get(timescaledb.VARIABLE)
MINUTE = 60_000_000
FOUND = {
    "server": {"timescaledb": "2.28.3", "shared_buffers": "2GB"},
    "plain": 4.0,
    "first": {"batched": 6.0, "one_pass": 5.0},
    "late_insert": 0.5,
    "late": {"batched": 2.0, "one_pass": 1.0},
    "one": {"batched": 0.012, "one_pass": 0.011},
    "noop": {"batched": 0.001, "one_pass": 0.001},
    "compared": {"batched": "7 rows, 0 differ", "one_pass": "7 rows, 0 differ"},
}


def bars(*rows: tuple[int, str, float, float, int, float]) -> pa.Table:
    """Return bars of (minute, symbol, open, high, volume, vwap)."""
    minute, sym, first, high, volume, vwap = zip(*rows, strict=True)
    bucket = pa.array([m * MINUTE for m in minute], pa.timestamp("us", tz="UTC"))
    prices = {"open": first, "high": high, "low": high, "close": high}
    return pa.table({"bucket": bucket, "sym": sym, **prices, "volume": volume, "vwap": vwap})


OURS = bars((0, "A", 1.0, 2.0, 10, 1.5), (0, "B", 1.0, 2.0, 10, 1.5), (1, "A", 1.0, 2.0, 10, 1.5))


def found_of(theirs: pa.Table) -> dict[str, int]:
    return {name: len(rows) for name, rows in timescaledb.differences(OURS, theirs).items()}


def test_the_aggregate_is_the_same() -> None:
    """
    Both definitions give the same columns, by the same aggregates and keys.
    """
    (ours,) = parse_definitions(trades.BARS)
    theirs = sqlglot.parse_one(timescaledb.BARS, read="postgres")
    called = {item.alias: item.this.sql("postgres").partition("(")[0].lower() for item in theirs.selects[2:]}

    assert list(ours.columns) == theirs.named_selects
    assert {m.name: m.formula.calls[0].function for m in ours.measures} == called
    assert timescaledb.KEYS == theirs.named_selects[:2]
    assert {*timescaledb.EXACT, "vwap"} == set(called)


def test_a_refresh_goes_by_batches_or_in_one_pass() -> None:
    """
    Two aggregates without data, each refreshed whole in its way.
    """
    assert "CALL refresh_continuous_aggregate('bars_batched', NULL, NULL)" == timescaledb.call("batched")
    assert timescaledb.call("one_pass").endswith("""NULL, NULL, options => '{"buckets_per_batch": 0}')""")
    for mode in timescaledb.MODES:
        assert f"CREATE MATERIALIZED VIEW bars_{mode} WITH" in timescaledb.view(mode)
        assert "materialized_only = true" in timescaledb.view(mode)
        assert timescaledb.view(mode).endswith("WITH NO DATA")


@pytest.mark.parametrize(
    ("version", "is_recent"),
    [("2.28.0", True), ("2.30.0-dev", True), ("3.0", True), ("2.27.2", False), ("2.9.3", False), ("1.28", False)],
)
def test_a_version_without_the_options_is_too_old(version: str, is_recent: bool) -> None:
    """
    Versions are compared by number, not by text.
    """
    assert is_recent == timescaledb.is_recent(version)


def test_nothing_is_tried_unless_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Without a DSN no driver is looked for; the table says how to get the column, and nothing complains.
    """
    monkeypatch.setitem(sys.modules, "psycopg", None)

    assert trades.is_left_out(None)
    assert ("", "") == capsys.readouterr()
    (line,) = timescaledb.lines(None)
    assert "left out" in line
    assert all(text in line for text in ("--timescaledb DSN", timescaledb.VARIABLE, "psycopg[binary]"))


def test_a_missing_driver_is_named_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Whoever asked for the column learns at once why it is left out.
    """
    monkeypatch.setitem(sys.modules, "psycopg", None)

    assert trades.is_left_out("host=/nowhere")
    said = capsys.readouterr().err
    assert "psycopg is not installed" in said
    assert timescaledb.HOW in said


def test_a_server_that_does_not_answer_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    So is a text that is no DSN.
    """
    pytest.importorskip("psycopg")

    for dsn in (f"host={tmp_path}", "no dsn"):
        assert trades.is_left_out(dsn)
        assert "no connection" in capsys.readouterr().err


def test_a_password_is_not_kept() -> None:
    """
    What was given stands in the history, but for the DSN.
    """
    options = argparse.Namespace(rows=7, timescaledb="password=secret")

    assert {"rows": "7"} == trades.given(options)


def test_equal_bars_are_equal_in_any_order() -> None:
    """
    A mean may differ in its last digits, since floats are summed in another order.
    """
    other = bars((1, "A", 1.0, 2.0, 10, 1.5 + 1e-12), (0, "B", 1.0, 2.0, 10, 1.5), (0, "A", 1.0, 2.0, 10, 1.5))

    assert {} == found_of(other)


@pytest.mark.parametrize(
    ("row", "differing"),
    [
        ((1, "A", 1.1, 2.0, 10, 1.5), {"open": 1}),
        ((1, "A", 1.0, 2.1, 10, 1.5), {"high": 1, "low": 1, "close": 1}),
        ((1, "A", 1.0, 2.0, 11, 1.5), {"volume": 1}),
        ((1, "A", 1.0, 2.0, 10, 1.50001), {"vwap": 1}),
        ((1, "B", 1.0, 2.0, 10, 1.5), {"rows": 2}),
    ],
)
def test_what_differs_is_counted(row: Any, differing: dict[str, int]) -> None:
    """
    By measure; a bar that only one side has is no bar whose values differ.
    """
    assert differing == found_of(bars((0, "A", 1.0, 2.0, 10, 1.5), (0, "B", 1.0, 2.0, 10, 1.5), row))


def test_a_difference_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Unless it is one among equal times, which are counted.
    """
    other = bars((0, "A", 1.5, 2.0, 10, 1.5), (0, "B", 1.0, 2.0, 10, 1.5), (1, "A", 1.0, 2.0, 10, 1.5))
    monkeypatch.setattr(timescaledb, "bars", lambda *_: other)
    monkeypatch.setattr(timescaledb, "is_tied", lambda *_: True)
    assert "3 rows, 0 differ, but for 1 prices among equal times" == timescaledb.compare(None, "batched", OURS)

    monkeypatch.setattr(timescaledb, "is_tied", lambda *_: False)
    with pytest.raises(SystemExit, match=r"\{'open': 1\}"):
        timescaledb.compare(None, "batched", OURS)


def test_the_table_says_how_figures_were_got() -> None:
    """
    Version and settings, both ways of refreshing, ratios to its own whole, and what was compared.
    """
    told = "\n".join(timescaledb.lines(FOUND))

    for text in (
        "timescaledb 2.28.3",
        "shared_buffers 2GB",
        "1.50 x",
        "1.25 x",
        "0.50 x",
        "0.25 x",
        "7 rows, 0 differ",
    ):
        assert text in told


def test_the_first_trades_are_those_before_late_ones(tmp_path: Path) -> None:
    """
    A table for each daily commit, without what was written after them.
    """
    rng = np.random.default_rng(1)
    trades.write_source(tmp_path / "trades", 30, 3, 2, rng)
    first = trades.DeltaTable(str(tmp_path / "trades")).to_pyarrow_table()
    trades.write_deltalake(str(tmp_path / "trades"), trades.late_rows(rng, 20, 3, 2), mode="append")

    days = list(trades.at_first(tmp_path / "trades", 3))

    assert [10, 10, 10] == [len(day) for day in days]
    order = [("ts", "ascending"), ("price", "ascending")]
    assert first.sort_by(order) == pa.concat_tables(days).sort_by(order)


@pytest.mark.skipif(DSN is None, reason=f"needs a server: {timescaledb.VARIABLE}")
def test_a_server_gives_the_bars_of_its_rows() -> None:
    """
    The aggregate is refreshed after every insert; a wrong price is found, another of the same instant is none.
    """
    assert DSN is not None
    history = [(0, "A", 1), (0, "A", 2), (10, "B", 1)]
    late, one = [*history[:2], (30, "A", 3), (70, "B", 2)], [(80, "B", 3)]

    def table(some: list[tuple[int, str, int]]) -> pa.Table:
        second, sym, price = zip(*some, strict=True)
        ts = pa.array([s * 1_000_000 for s in second], pa.timestamp("us", tz="UTC"))
        return pa.table({"ts": ts, "sym": sym, "price": [float(p) for p in price], "volume": [10] * len(some)})

    def measured(first: float, last: float) -> dict[str, Any]:
        ours = pa.table(
            {
                "bucket": pa.array([0, 0, MINUTE], pa.timestamp("us", tz="UTC")),
                "sym": ["A", "B", "B"],
                "open": [first, 1.0, 2.0],
                "high": [3.0, 1.0, 3.0],
                "low": [1.0, 1.0, 2.0],
                "close": [last, 1.0, 3.0],
                "volume": [50, 10, 20],
                "vwap": [1.8, 1.0, 2.5],
            }
        )
        return timescaledb.measure(DSN, [table(history)], table(late), [table(one)], ours, trades.timed)

    assert sorted(measured(first, 3.0)["compared"]["batched"] for first in (1.0, 2.0)) == [
        "3 rows, 0 differ",
        "3 rows, 0 differ, but for 1 prices among equal times",
    ]
    with pytest.raises(SystemExit, match=r"\{'open': 1\}"):
        measured(3.0, 3.0)
    with pytest.raises(SystemExit, match=r"\{'close': 1\}"):
        measured(1.0, 2.0)
