"""An output handler that keeps what it is given in files, so that a process may die around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from materializer.services.commit.lake import OutputHandler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HANDED: Final = "handed"
"""Beside the lake: a file for each version of the output that the handler was given."""


def handlers(folder: Path) -> Mapping[str, OutputHandler]:
    """Return the handler of the lake in *folder*, ``keep``."""

    def keep(rows: DataFrame, version: int) -> None:
        (folder / HANDED).mkdir(exist_ok=True)
        part = folder / HANDED / f"{version:06}.part"
        pq.write_table(rows.toArrow(), part)
        part.rename(part.with_suffix(".parquet"))

    return {"keep": keep}


def received(folder: Path) -> list[dict[str, Any]]:
    """Return the rows that came, the newest of each bucket and key."""
    newest: dict[Any, dict[str, Any]] = {}
    for file in sorted((folder / HANDED).glob("*.parquet")):
        newest |= {(row["bucket"], row["k"]): row for row in pq.read_table(file).to_pylist()}
    return list(newest.values())
