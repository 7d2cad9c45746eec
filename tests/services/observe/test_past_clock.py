"""Rows past the clock: which row retention counts from, and what ``status`` says of those that it does not follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.core.language.parse import parse_definitions
from materializer.core.policy.retention import OUTPUT, SOURCE
from materializer.core.spec.spec import GridSpec, TimeType, Width
from materializer.core.time.grid import build
from materializer.core.time.instants import HOUR, parse
from materializer.core.time.spans import NEG_INF, POS_INF
from materializer.journal.events import Captured, SourceIdentity
from materializer.journal.fold import apply
from materializer.journal.state import AggregateState
from materializer.lake.extent import Extent
from materializer.lake.file_times import FileStat
from materializer.services.aggregate import timed
from materializer.services.observe.frozen_bound import counts_anew, wanted
from materializer.services.report.status import PastClock, past_clock

GRID = build(GridSpec(Width(micros=HOUR)), TimeType.TIMESTAMP)
SQL = "CREATE MATERIALIZED VIEW v{} AS SELECT time_bucket('1 hour', ts) AS b, count(*) AS n FROM trades GROUP BY b"


def instant(text: str) -> int:
    return parse(text, TimeType.TIMESTAMP)


NEWEST, NOW, FAR = map(instant, ("2024-03-10T05:00:00Z", "2024-03-10T12:20:00Z", "2999-01-01T00:00:00Z"))


def state(*properties: str, source: str = "trades") -> AggregateState:
    """Return an aggregate over hours in which a row of 2999 was captured."""
    given = ", ".join(f"'{name}' = '2 hours'" for name in properties)
    [spec] = parse_definitions(SQL.format(f" TBLPROPERTIES ({given})" if given else ""))
    made = replace(spec, time_type=TimeType.TIMESTAMP).as_json()
    tables = {"partials": [], "output": []}
    return AggregateState("a", "v", made, "1", SourceIdentity(source, "t"), tables, {}, 1, extent_end=FAR + HOUR)


def test_a_retention_counts_from_the_newest_row_that_is_followed() -> None:
    """
    A row of 2999 that was captured moves nothing. It is looked at anew as long as the clock has not come to it, or has since.
    """
    blind, seen = state(OUTPUT), replace(state(OUTPUT), followed_end=NEWEST)

    assert (NEWEST - 2 * HOUR, NEG_INF) == (wanted(seen, GRID, OUTPUT), wanted(seen, GRID, SOURCE))
    assert FAR - HOUR == wanted(blind, GRID, OUTPUT)
    assert (True, True, True) == (counts_anew(blind, NOW), counts_anew(seen, NOW), counts_anew(seen, FAR + HOUR))
    assert (False, False) == (counts_anew(blind, FAR + HOUR), counts_anew(replace(state(), followed_end=NEWEST), NOW))


def test_which_row_is_followed_stands_in_the_journal() -> None:
    """
    A capture says it, a later one without rows past the clock takes it back; a journal written before says nothing of it.
    """
    seen = apply(state(OUTPUT), "a", Captured(2, (), FAR, followed_end=NEWEST))
    assert seen is not None
    assert NEWEST == seen.followed_end
    assert seen == from_json(AggregateState, as_json(seen))
    old = {name: value for name, value in as_json(seen).items() if name != "followed_end"}
    assert POS_INF == from_json(AggregateState, old).followed_end

    healed = apply(seen, "a", Captured(3, (), NEWEST))
    assert healed is not None
    assert POS_INF == healed.followed_end


@pytest.mark.parametrize(
    ("files", "newest"),
    [
        ([(0, 10), (10, 31)], 30),
        ([(0, 10), (20, 999)], 20),
        ([(0, 40), (20, 999)], 39),
        ([(0, 41), (60, 999)], 0),
        ([(60, 999)], None),
        ([], None),
    ],
)
def test_the_newest_row_before_an_edge_is_told_by_files(files: list[tuple[int, int]], newest: int | None) -> None:
    """
    A file that reaches beyond the edge tells of its first row only: too old a row is safe, one that is not there is not.
    """
    extent = Extent(1, tuple(FileStat(1, 1, *ends) for ends in files))

    assert newest == extent.newest_before(40)


def written(path: Path, *rows: list[int]) -> AggregateState:
    """Write rows, a file for each list of their times, and return the aggregate over them."""
    for times in rows:
        write_deltalake(str(path), pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC"))}), mode="append")
    return state(source=str(path))


def test_status_names_rows_past_the_clock_by_file_statistics(tmp_path: Path) -> None:
    """
    The newest time, and at most how many; rows in the bucket that holds now are none, and those of the clock's past neither.
    """
    of = written(tmp_path / "trades", [NEWEST, NEWEST + 1], [NOW, FAR - 1000], [FAR])

    def told(now: int | None, **changes: Any) -> PastClock | None:
        return past_clock(replace(of, **changes), timed(of), 2, now)

    assert PastClock(FAR, 3, 2) == told(NOW)
    assert PastClock(FAR, 1, 1) == told(FAR - HOUR)
    assert (None, None, None) == (told(FAR), told(None), told(NOW, extent_end=NOW))
    assert PastClock(FAR, None, 0) == past_clock(of, timed(of), None, NOW)
    assert past_clock(of, timed(of), 0, NOW) is None, "the rows are gone again"
