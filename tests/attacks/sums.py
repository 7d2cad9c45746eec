"""What a lake publishes, and the same by a loop over its raw rows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from deltalake import DeltaTable

from materializer.lake import places
from tests.hints.world import BEGIN, World


def hour_of(at: datetime) -> int:
    """Return the hour of an instant since the first row."""
    return int((at - BEGIN).total_seconds() // 3600)


def published(world: World, lake: str = "") -> dict[int, int]:
    """Return the sum of each hour in the output, or in that of a copy of the *lake* on a store."""
    output = f"{lake or world.root}/hourly/output"
    rows = DeltaTable(output, storage_options=places.options_of(output)).to_pyarrow_table().to_pylist()
    return {hour_of(row["at"]): row["v"] for row in rows}


def added_up(world: World) -> dict[int, int]:
    """Return the sum of each hour by a loop over the raw rows."""
    sums: Counter[int] = Counter()
    for row in DeltaTable(str(world.root / "raw")).to_pyarrow_table().to_pylist():
        sums[hour_of(row["ts"])] += row["v"]
    return dict(sums)
