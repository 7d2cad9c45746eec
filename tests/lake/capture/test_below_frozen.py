"""What a capture says of versions below a frozen bound: one by one, by the feed and by files."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.lake.capture.below_frozen import is_retention, of_files
from materializer.lake.capture.capture import CaptureResult, Rung, capture_without_spark
from materializer.lake.capture.context import CaptureContext
from materializer.lake.log import ChangeFile, Commit, DataFile
from materializer.lake.statistics import TimeColumn
from materializer.lake.table import DeltaFolder
from tests.lake.tables import HOUR, Trades

BOUND = 4 * HOUR


def captured(table: Trades, after: int, frozen: int = BOUND) -> CaptureResult:
    found = capture_without_spark(
        table.path,
        after=after,
        upto=table.version,
        table_id=table.id,
        time_column="ts",
        time_type=TimeType.TIMESTAMP,
        keys=("sym",),
        max_rows=10_000,
        max_bytes=1 << 28,
        floor=lambda t: t // HOUR * HOUR,
        next_edge=lambda e: e + HOUR,
        frozen_below=frozen,
    )
    assert isinstance(found, CaptureResult)
    return found


def hours(found: CaptureResult, **wanted: Any) -> list[int]:
    """Return the hours of the pieces that are as wanted."""
    pieces = [p for p in found.pieces if all(getattr(p, name) == value for name, value in wanted.items())]
    return [h for s in SpanSet.union(s for p in pieces for s in p.times) for h in range(s.start // HOUR, s.end // HOUR)]


def late(found: CaptureResult) -> list[int]:
    return hours(found, is_frozen=True, is_insert_only=True)


def conflicts(found: CaptureResult) -> list[int]:
    return hours(found, is_frozen=True, is_insert_only=False)


def above(found: CaptureResult) -> list[int]:
    return hours(found, is_frozen=False)


@pytest.fixture
def table(tmp_path) -> Trades:
    """Hours 0 to 7 with a row each, an hour a file; version 8."""
    found = Trades(tmp_path / "t", feed=True)
    for hour in range(8):
        found.append((hour * HOUR, "a", hour))
    return found


@pytest.fixture
def mute(tmp_path) -> Trades:
    """The same without a change feed."""
    found = Trades(tmp_path / "t", feed=False)
    for hour in range(8):
        found.append((hour * HOUR, "a", hour), (hour * HOUR + 5, "b", hour))
    return found


def test_whole_files_that_go_are_counted_without_reading_them(table) -> None:
    """
    A version that only takes away files below the bound makes nothing dirty and counts for no cost.
    """
    table.table.delete("price < 2")
    log = table.commit_file(9)  # Spark names no change files where whole files go
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if '"cdc"' not in line))
    found = captured(table, 8)

    assert ((), 2) == (found.pieces, found.expired)
    assert [{"version": 9, "rung": "feed", "expired": 2}] == [as_json(c) for c in found.per_version]


def test_inserts_between_deletes_stay_inserts(table) -> None:
    """
    Insert, delete and insert below the bound, in three versions: both inserts can be merged, the delete is counted.
    """
    table.append((HOUR, "b", 100))
    table.table.delete("price < 50 AND sym = 'a'")
    table.append((HOUR, "c", 101), (2 * HOUR, "c", 102), (6 * HOUR, "c", 103))
    found = captured(table, 8)

    assert ([1, 2], []) == (late(found), conflicts(found))
    assert list(range(4, 8)) == above(found)
    assert 4 == found.expired


def test_an_update_a_move_and_a_replacement_are_conflicts(table) -> None:
    """
    Below the bound an update is a conflict, also of a row that comes from above or goes there; a bucket in which one
    version deletes and inserts is one too.
    """
    table.table.update(updates={"price": "100"}, predicate="price = 0")
    table.table.update(updates={"ts": "ts + interval '5 hours'"}, predicate="price = 1")
    table.table.update(updates={"ts": "ts - interval '5 hours'"}, predicate="price = 7")
    found = captured(table, 8)

    assert ([], [0, 1, 2]) == (late(found), conflicts(found))
    assert [6, 7] == above(found)
    assert 0 == found.expired


def test_the_same_bucket_in_two_versions(table) -> None:
    """
    A conflict in one version and an insert in another: both are told, and joining them makes a conflict.
    """
    table.append((0, "b", 100))
    table.table.update(updates={"price": "101"}, predicate="price = 100")
    found = captured(table, 8)

    assert ([0], [0]) == (late(found), conflicts(found))


def test_without_a_bound_nothing_is_told_apart(table) -> None:
    """
    The same versions without a frozen bound: one run, dirt of rows that were inserted and deleted.
    """
    table.append((HOUR, "b", 100))
    table.table.delete("price < 2")
    found = captured(table, 8, frozen=NEG_INF)

    assert ([0, 1], [], 0) == (above(found), conflicts(found), found.expired)


def test_files_that_go_and_come(mute) -> None:
    """
    By file statistics: files that went are retention, files that came are late, and those written again are conflicts.
    """
    mute.table.delete("price = 0")
    mute.append((HOUR, "c", 9), (5 * HOUR, "c", 9))
    mute.table.update(updates={"price": "100"}, predicate="price = 3 AND sym = 'a'")
    found = captured(mute, 8)

    assert {Rung.FILES} == {p.rung for p in found.pieces}
    assert ([1, 2, 3], [3]) == (late(found), conflicts(found))
    assert [4, 5] == above(found)
    assert 2 == found.expired


def test_the_file_that_the_bound_cuts_is_rewritten(mute) -> None:
    """
    The owner's DELETE rewrites the file that lies on both sides: its rows above are dirty, below is retention.
    """
    mute.append((3 * HOUR, "d", 50), (4 * HOUR, "d", 51))
    mute.table.delete("ts < arrow_cast(14400000000, 'Timestamp(Microsecond, Some(\"UTC\"))')")
    found = captured(mute, 9)

    assert ([], []) == (late(found), conflicts(found))
    assert [4] == above(found)
    assert found.expired >= 8


def test_what_nobody_can_tell_is_a_conflict(table) -> None:
    """
    With the log cleaned away everything is dirty, and below the bound it is a conflict.
    """
    table.append((0, "b", 100))
    table.append((HOUR, "b", 101))
    table.table.create_checkpoint()
    for version in range(10):
        table.commit_file(version).unlink()
    found = captured(table, 8)

    assert {Rung.LOST} == {p.rung for p in found.pieces}
    assert SpanSet.of(Span(NEG_INF, BOUND)) == SpanSet.union(s for p in found.pieces if p.is_frozen for s in p.times)
    assert BOUND == min(s.start for p in found.pieces if not p.is_frozen for s in p.times)


@pytest.mark.parametrize(
    ("operation", "late_hours", "conflict_hours", "expired"), [("DELETE", [], [], 2), ("RESTORE", [], [1], 0)]
)
def test_a_file_whose_rows_are_marked_as_deleted(operation, late_hours, conflict_hours, expired) -> None:
    """
    A DELETE that leaves the file where it is counts as a delete; any other operation that does is a conflict.
    """
    whole = DataFile("f", 1, 5, 0, Span(HOUR, 2 * HOUR), True, True, False)
    marked = replace(whole, rows=3, has_deletion_vector=True)
    commit = Commit(1, 0, operation, None, None, None, (marked,), (whole,), (), {})
    column = TimeColumn("ts", TimeType.TIMESTAMP, "ts")
    look = CaptureContext(
        DeltaFolder("/nowhere"), 0, column, None, lambda t: t // HOUR * HOUR, lambda e: e + HOUR, frozen=BOUND
    )
    found = of_files(look, commit, [marked], [whole])

    assert (late_hours, conflict_hours, expired) == (late(found), conflicts(found), found.expired)


def test_what_one_version_deletes_and_inserts_in_a_bucket_is_a_conflict(table) -> None:
    """
    Neither is the delete retention nor the insert late: the row may have been written again.
    """
    rows = table.rows([(HOUR, "a", 1), (HOUR, "new", 9)])
    merge = table.table.merge(rows, "t.ts = s.ts AND t.sym = s.sym", source_alias="s", target_alias="t")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    found = captured(table, 8)

    assert ([], [1], 0) == (late(found), conflicts(found), found.expired)


BELOW = DataFile("f", 1, 5, 0, Span(HOUR, BOUND), True, True, False)


def asked(*known: DataFile) -> CaptureContext:
    """A look that knows some files, over a table of which nothing can be read."""
    hour = (lambda t: t // HOUR * HOUR, lambda e: e + HOUR)
    look = CaptureContext(
        DeltaFolder("/nowhere"), 0, TimeColumn("ts", TimeType.TIMESTAMP, "ts"), None, *hour, frozen=BOUND
    )
    look.files.update({f.path: f for f in known})
    return look


def commit(*went: DataFile, came: tuple[DataFile, ...] = (), changes: tuple[ChangeFile, ...] = ()) -> Commit:
    return Commit(1, 0, "DELETE", None, None, None, came, went, changes, {})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (commit(BELOW), True),
        (commit(BELOW, replace(BELOW, span=None)), True),
        (commit(BELOW, came=(replace(BELOW, data_change=False),)), True),
        (commit(BELOW, came=(BELOW,)), False),
        (commit(BELOW, changes=(ChangeFile("c", 1),)), False),
        (commit(BELOW, replace(BELOW, span=Span(HOUR, BOUND + 1))), False),
        (commit(BELOW, replace(BELOW, rows=None)), False),
        (commit(BELOW, replace(BELOW, is_known=False, span=None)), False),
        (commit(replace(BELOW, data_change=False)), False),
        (commit(), False),
    ],
    ids=["files", "no times", "moved", "came", "rows", "above", "no count", "unknown", "only moved", "nothing"],
)
def test_retention_takes_away_whole_files_below_the_bound(version: Commit, expected: bool) -> None:
    """
    Of files that are known, with their rows, and nothing besides; all else is looked at row by row.
    """
    known = [f for f in version.removes if f.rows is None or not f.is_known]

    assert is_retention(asked(*known), version) is expected


def test_of_a_file_that_the_bound_cuts_nobody_knows_what_went() -> None:
    """
    Only rows of files wholly below the bound are counted, and only where nothing came; a row that was written again stays.
    """
    cut = replace(BELOW, span=Span(HOUR, BOUND + 1), rows=100)

    assert 5 == of_files(asked(), commit(BELOW, cut), [], [BELOW, cut]).expired
    assert 0 == of_files(asked(), commit(BELOW, came=(cut,)), [cut], [BELOW]).expired
