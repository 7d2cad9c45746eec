from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span
from materializer.errors import LogGapError, NotADeltaTableError, SourceDamagedError
from materializer.lake.log import commits, has_change, is_attempt, is_begun, latest_version
from materializer.lake.notes import CommitNote, find_notes
from materializer.lake.statistics import TimeColumn, bounds, instant
from materializer.lake.write.commit import create_table


def test_a_commit_in_our_words(trades) -> None:
    """
    Operation, files with rows and spans, transactions and the note of the writer are read from the log.
    """
    table = trades()
    properties = CommitProperties({"userMetadata": "hello"}, app_transactions=[Transaction("app", 3)])
    rows = table.rows([(1_500, "a", 1), (2_999, "b", 1), (None, "c", 1)])
    write_deltalake(table.path, rows, mode="append", commit_properties=properties)

    (found,) = commits(table.path, 0, 1, column="ts", time_type=TimeType.TIMESTAMP)

    assert ("WRITE", "hello", {"app": 3}) == (found.operation, found.user_metadata, found.transactions)
    (file,) = found.adds
    assert (3, 1, True, True) == (file.rows, file.nulls, file.is_known, file.data_change)
    assert Span(1_000, 3_000) == file.span
    assert not file.has_deletion_vector


def test_a_span_holds_every_time_of_its_file(trades) -> None:
    """
    Statistics are cut to milliseconds, also before 1970 and at both ends of the calendar: the span still holds the rows.
    """
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    for n, times in enumerate([(-1,), (-1_001, -999), (999,), (first, first + 1), (last,), (0, 1_999)]):
        table = trades(f"t{n}")
        table.append(*((t, "a", 1) for t in times))
        (found,) = commits(table.path, 0, 1, column="ts", time_type=TimeType.TIMESTAMP)

        assert all(t in found.adds[0].span for t in times)


def test_metadata_and_change_files(trades) -> None:
    """
    The creating commit carries id, schema and properties; an update carries its change file and both data files.
    """
    table = trades()
    table.append((0, "a", 1), (0, "b", 2))
    table.table.update(updates={"price": "9"}, predicate="sym = 'a'")
    created, _, updated = commits(table.path, -1, 2)

    assert table.id == created.metadata.id
    assert created.metadata.has_change_feed
    assert (1, 1, 1) == (len(updated.adds), len(updated.removes), len(updated.change_files))
    assert updated.metadata is None


def test_compaction_changes_no_data(trades) -> None:
    """
    Files that only moved rows say so.
    """
    table = trades()
    table.append((0, "a", 1))
    table.append((1, "a", 1))
    table.table.optimize.compact()
    (found,) = commits(table.path, 2, 3)

    assert found.adds
    assert not found.is_data_change


def test_cleaned_and_holed_logs_differ(trades) -> None:
    """
    A missing version with nothing older left was cleaned; with older ones left it is a hole.
    """
    table = trades()
    for i in range(4):
        table.append((i, "a", 1))
    table.commit_file(2).unlink()
    with pytest.raises(SourceDamagedError, match="hole"):
        commits(table.path, 1, 3)
    table.commit_file(0).unlink()
    table.commit_file(1).unlink()
    with pytest.raises(LogGapError, match="no longer in its log"):
        commits(table.path, 1, 3)

    assert [3, 4] == [c.version for c in commits(table.path, 2, 4)]


@pytest.mark.parametrize("text", ["{", "[]", '{"add": {"size": 3}}', '{"add": 4}', "\xff"])
def test_a_commit_that_makes_no_sense(trades, text: str) -> None:
    """
    What is no JSON, or no action, is named with its version.
    """
    table = trades()
    table.append((0, "a", 1))
    table.commit_file(1).write_bytes(text.encode("latin-1"))

    with pytest.raises(SourceDamagedError, match="version 1"):
        commits(table.path, 0, 1)


def test_notes_of_our_own_commits(trades) -> None:
    """
    Only commits with a plan's note are found, and only those after a version.
    """
    table = trades()
    for n, text in enumerate(
        [{"plan": "x"}, "words", None, {"plan": "p", "n": 4, "kind": "data", "source_version": 9}]
    ):
        metadata = None if text is None else {"userMetadata": text if isinstance(text, str) else json.dumps(text)}
        write_deltalake(
            table.path, table.rows([(n, "a", 1)]), mode="append", commit_properties=CommitProperties(metadata)
        )

    assert [CommitNote(4, 4, "p", "data", 9)] == find_notes(table.path, 0)
    assert [] == find_notes(table.path, 4)


def test_the_newest_version(trades, tmp_path) -> None:
    """
    It is the last commit file; a folder without a log is an error.
    """
    table = trades()
    table.append((0, "a", 1))

    assert 1 == latest_version(table.path)
    with pytest.raises(NotADeltaTableError):
        latest_version(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "time_type", "expected"),
    [
        ("2024-01-01T01:00:00.123+01:00", TimeType.TIMESTAMP, 1_704_067_200_123_000),
        ("1883-11-18T12:03:57.000-04:56:02", TimeType.TIMESTAMP, -2_717_650_801_000_000),
        ("2024-01-01T00:00:00.123456789Z", TimeType.TIMESTAMP, 1_704_067_200_123_456),
        ("2024-01-01T00:00:00.123", TimeType.TIMESTAMP, None),
        ("2024-01-01 00:00:00", TimeType.TIMESTAMP_NTZ, 1_704_067_200_000_000),
        ("+12024-01-01T00:00:00Z", TimeType.TIMESTAMP, None),
        ("1969-12-31", TimeType.DATE, -86_400_000_000),
        (-(2**63), TimeType.BIGINT, -(2**63)),
        ("17", TimeType.INT, 17),
        (None, TimeType.DATE, None),
        ("x", TimeType.BIGINT, None),
    ],
)
def test_instants_of_statistics(text, time_type: TimeType, expected: int | None) -> None:
    """
    Zones and offsets are honoured; what has no zone or lies outside the calendar is unknown.
    """
    assert expected == instant(text, time_type)


def test_what_cannot_be_known_is_unknown() -> None:
    """
    No statistics, a reversed pair and a missing partition value are unknown; all nulls and no rows are known to be empty.
    """
    column = TimeColumn("i", TimeType.BIGINT, "i")
    part = TimeColumn("i", TimeType.BIGINT, "i", is_partition=True)

    def of(low: int, high: int) -> dict:
        return {"numRecords": 2, "nullCount": {"i": 0}, "minValues": {"i": low}, "maxValues": {"i": high}}

    assert Span(3, 5) == bounds(of(3, 4), {}, column).span
    assert not bounds({}, {}, column).is_known
    assert not bounds(of(5, 4), {}, column).is_known
    assert not bounds({"numRecords": 2}, {}, part).is_known
    assert bounds({"numRecords": 2, "nullCount": {"i": 2}}, {}, column).is_known
    assert bounds({"numRecords": 0}, {}, column).is_known
    assert Span(7, 8) == bounds({}, {"i": "7"}, part).span
    assert (None, True) == (bounds({}, {"i": None}, part).span, bounds({}, {"i": None}, part).is_known)


def test_what_changes_nothing_is_no_change(trades) -> None:
    """
    The same rows in other files change nothing; rows, columns and properties do, and so may a version that is gone.
    """
    table = trades()
    table.append((1, "a", 1))
    table.append((2, "b", 1))
    table.table.optimize.compact()

    assert not has_change(table.path, 2, table.version)
    assert not has_change(table.path, 3, 3)
    assert has_change(table.path, 1, table.version)
    table.feed(on=False)
    assert has_change(table.path, 3, 4)
    table.commit_file(3).unlink()
    assert has_change(table.path, 2, 4)


def test_a_log_without_a_commit_is_no_table(tmp_path):
    """
    What a full disk leaves of a table that was being made is in nobody's way; a log that lost its commits is.
    """
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)
    assert (True, False) == (is_attempt(str(path)), is_begun(str(path)))
    create_table(str(path), pa.schema([("a", pa.int64())]), name="table")
    assert (False, True) == (is_attempt(str(path)), is_begun(str(path)))
    (path / "_delta_log" / f"{0:020d}.json").unlink()
    (path / "part-0.parquet").touch()
    assert (False, True) == (is_attempt(str(path)), is_begun(str(path)))


def test_marked_rows_are_not_there_and_the_commit_knows_its_time(trades) -> None:
    """
    A deletion vector says how many rows of its file are gone; the in-commit timestamp goes before the writer's clock.
    """
    table = trades()
    table.append((0, "a", 1), (1, "b", 2), (2, "c", 3))
    log = table.commit_file(1)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["deletionVector"] = {
                "storageType": "u",
                "pathOrInlineDv": "x",
                "sizeInBytes": 1,
                "cardinality": 2,
            }
        if "commitInfo" in action:
            action["commitInfo"] |= {"timestamp": 5, "inCommitTimestamp": 7}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (found,) = commits(table.path, 0, 1)

    assert (1, True, 7) == (found.adds[0].rows, found.adds[0].has_deletion_vector, found.timestamp)
