"""What the benchmark of trades prints of its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.benchmarks import trades

FILES = {f"{what}_{kind}": 4 for what in ("files", "bytes") for kind in ("read", "written", "removed")}
FOUND: dict[str, Any] = {
    "plain": 4.0,
    "plain_cold": 5.0,
    "unordered": 2.0,
    "unordered_cold": 3.0,
    "duckdb": 1.0,
    "duckdb_how": {"version": "2.0.0", "cores": 2, "files": 30},
    "first": 5.0,
    "first_counters": {"rows_read": 900, **FILES},
    "again": 4.5,
    "again_counters": {"rows_read": 900, **FILES},
    "late": 0.4,
    "late_counters": {"rows_read": 30, "rows_in_changed_buckets": 120, **FILES},
    "one": 0.3,
    "one_counters": {"rows_read": 1, "rows_in_changed_buckets": 8, **FILES},
    "noop": 0.001,
    "noop_command": 0.6,
    "verify": 2.0,
    "verified": "9 rows, 0 differ",
    "timescaledb": None,
    "files": {"partials": 1, "output": 1},
}


def shown(capsys: pytest.CaptureFixture[str], found: dict[str, Any]) -> str:
    trades.show(found)
    return capsys.readouterr().out


def test_rows_are_compared_with_those_of_changed_buckets(capsys: pytest.CaptureFixture[str]) -> None:
    """
    After many late rows and after one: how many were aggregated for each that lies in a bucket that truly changed.
    """
    late, _, one = shown(capsys, FOUND).partition("refresh after late rows")[2].partition("one late row, warm")

    assert "0.250 rows aggregated for each of 120 in truly changed buckets" in late
    assert "0.125 rows aggregated for each of 8 in truly changed buckets" in one


def test_duckdb_is_told_with_how_it_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Its version, cores and files, what it wrote, and which row it takes among those of one instant; or what is wanted.
    """
    told = next(line for line in shown(capsys, FOUND).splitlines() if "arg_min" in line)
    for text in (
        "version 2.0.0",
        "2 cores",
        "30 files",
        "written to Parquet",
        "arg_max without a rule among equal times",
    ):
        assert text in told

    told = shown(capsys, FOUND | {"duckdb": None, "duckdb_how": {}})
    assert "left out; wanted is: pip install -c constraints.txt duckdb" in told
    assert "arg_min" not in told


def test_duckdb_says_how_it_was_asked(tmp_path: Path) -> None:
    """
    It reads every file of the table and writes a row for each bar.
    """
    duckdb = pytest.importorskip("duckdb")
    trades.write_source(tmp_path / "trades", 30, 3, 2, np.random.default_rng(1))

    seconds, how = trades.in_duckdb(tmp_path / "trades")

    assert seconds is not None
    assert seconds > 0
    assert (duckdb.__version__, 3) == (how["version"], how["files"])
    assert how["cores"] >= 1
    assert pq.read_table(tmp_path / "duckdb.parquet").num_rows > 20
