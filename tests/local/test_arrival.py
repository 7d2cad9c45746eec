"""Which rows are late, where only those of some keys are judged: the same as where all rows are."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.query.nodes import Query
from materializer.core.time.instants import DAY, HOUR
from materializer.local.arrival import COMMIT, PLACE, CountedRows
from materializer.local.connection import Connection, opened
from materializer.local.forms import Forms, keys_of
from materializer.local.kinds import kind_of
from materializer.services.aggregate import Aggregate
from tests.services.no_spark import Lake

MONDAY = 1_704_067_200_000_000
AT = ClosingClock(None, None, MONDAY)
DAYS: dict[str, Any] = {
    "engine": "daily_time_series",
    "window_size": "30 minutes",
    "session_begin": ["09:30:00"],
    "session_end": ["15:00:00"],
    "weekdays": "1,2,4",
}
PANES = {"engine": "event_time_window", "interval_duration": "10 minutes", "lag": "5 minutes", "discard_age": "3 hours"}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "days, strict": DAYS | {"lateness": "strict"},
    "days, delayed": DAYS | {"lateness": "delay", "accepted_delay": "20 minutes"},
    "days whose keys are kept": DAYS | {"lateness": "strict", "key_purge_daily": False},
    "days that are forced": DAYS | {"lateness": "strict", "force_trigger_time": "2 hours"},
    "panes": PANES | {"lateness": "strict"},
}


def defined(folder: Path, given: dict[str, Any]) -> Definition:
    """Return a definition over rows with an instant and a key, which is a number."""
    lake = Lake(folder)
    lake.add((0, 0))
    source = str(folder / "raw")
    lake.opened.define("made", source, time="ts", keys=["v"], measures={"n": "count(*)"}, **given)
    found = Aggregate.of(lake.wired.journal.view().named("made"), lake.wired.root).definition
    columns = tuple((name, "bigint" if name == "k_v" else kind) for name, kind in found.partial_columns)
    return replace(found, partial_columns=columns)


def arrived(rng: random.Random) -> pa.Table:
    """Return rows of some commits: most in order of time, some anywhere."""
    commits = sorted(rng.randrange(8) for _ in range(rng.randint(1, 60)))
    is_ordered = rng.random() < 0.7
    times = [
        (c if is_ordered and rng.random() < 0.9 else rng.randrange(8)) * DAY + rng.randrange(8, 17) * HOUR
        for c in commits
    ]
    return pa.table(
        {
            "ts": pa.array([MONDAY + t for t in times], pa.timestamp("us", "UTC")),
            "v": pa.array([rng.randrange(5) for _ in commits], pa.int64()),
            COMMIT: pa.array(commits, pa.int64()),
            PLACE: pa.array(range(len(commits)), pa.int64()),
        }
    )


def rows_of(connection: Connection, sql: str, only: set[int]) -> Counter[tuple[Any, ...]]:
    """Return the rows of some keys, with when they are closed and what they were judged by."""
    found = connection.query(sql).to_pylist()
    return Counter(tuple(sorted(row.items())) for row in found if row["v"] in only)


@pytest.mark.parametrize("given", DEFINITIONS.values(), ids=list(DEFINITIONS))
def test_rows_of_other_keys_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    """
    Whatever arrived when; where rows of other keys decide that a day had begun, all are judged.
    """
    definition, by_days, ways = defined(tmp_path, given), CountedRows.judged_by_days, Counter[bool]()

    def told(self: CountedRows, *arguments: Any) -> Query | None:
        found = by_days(self, *arguments)
        ways[found is not None] += 1
        return found

    monkeypatch.setattr(CountedRows, "judged_by_days", told)
    columns = {name: kind_of(kind) for name, kind in definition.spec.read_types}
    forms, late = Forms(columns, {}, "", keys_of(definition, list(columns))), 0
    for seed in range(15):
        rng = random.Random(seed)
        rows, after = arrived(rng), rng.randrange(-1, 8)
        only = {rng.randrange(5) for _ in range(2)}
        keys = " UNION ALL ".join(f"SELECT CAST({k} AS BIGINT) AS k_v" for k in only)
        with opened() as connection:
            connection.register("rows", rows)
            counted = CountedRows(connection, definition, forms, "rows")
            every = rows_of(connection, counted.accepted(AT), only)
            assert every == rows_of(connection, counted.accepted(AT, keys), only), seed
            expected = [row for row in counted.refused(AT, -1).to_pylist() if row["_version"] > after]
            assert expected == counted.refused(AT, after).to_pylist(), seed
            late += len(expected)
    assert late > 9
    is_by_days = given["engine"] == DAYS["engine"] and given.keys().isdisjoint(
        {"key_purge_daily", "force_trigger_time"}
    )
    assert ({True, False} if is_by_days else set()) == set(ways)
