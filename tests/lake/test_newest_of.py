"""The newest rows of a table that grows with each refresh."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from materializer.lake.output_diff import newest_of

REASONS = ("late", "new", "delete")


@pytest.fixture
def feed(tmp_path: Path) -> str:
    """A table with a commit of three rows for each of ten refreshes."""
    for n in range(1, 11):
        rows = {"_refresh": [n] * 3, "_reason": list(REASONS), "k": [10 * n + i for i in range(3)], "other": ["x"] * 3}
        write_deltalake(str(tmp_path), pa.table(rows), mode="append")
    return str(tmp_path)


@pytest.mark.parametrize("after", [-5, 0, 7, 10])
@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize("reasons", [(), ("late",), ("late", "delete")])
def test_it_returns_the_last_of_the_wanted_rows(feed: str, after: int, limit: int, reasons: tuple[str, ...]) -> None:
    """
    In the order of their refreshes, and with the asked columns alone.
    """
    every = [(n, r, 10 * n + i) for n in range(1, 11) for i, r in enumerate(REASONS) if n > after]
    wanted = [row for row in every if not reasons or row[1] in reasons]
    found = newest_of(feed, ("k", "_reason", "_refresh"), "_refresh", after=after, limit=limit, reasons=reasons)

    assert [(row["_refresh"], row["_reason"]) for row in found] == [row[:2] for row in wanted[-limit:]]
    assert all(set(row) == {"k", "_reason", "_refresh"} for row in found)


def test_files_of_older_refreshes_are_not_opened(feed: str) -> None:
    """
    They may even be gone: what is read does not grow with history.
    """
    for file in Path(feed).glob("*.parquet"):
        if pq.read_table(file)["_refresh"][0].as_py() <= 7:
            file.unlink()

    found = newest_of(feed, ("k", "_refresh"), "_refresh", after=9, limit=9)
    assert [row["k"] for row in found] == [100, 101, 102]
