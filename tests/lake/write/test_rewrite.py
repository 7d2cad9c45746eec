from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.core.policy.compaction import FileExtent, Group, depth, groups, target_rows
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import LeaseLostError, RetryableError
from materializer.lake.capture.capture import capture_by_files
from materializer.lake.log import commits
from materializer.lake.notes import find_notes
from materializer.lake.write.commit import create_table, fence
from materializer.lake.write.new_files import OTHERS, new_files
from materializer.lake.write.replace import replace_spans
from materializer.lake.write.rewrite import exchange, pieces_of, rewrite

HOUR = 3_600_000_000
BASE = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp()) * 1_000_000
BUCKET = SliceColumn("bucket", holds_end=False, type=TimeType.TIMESTAMP)
NOTE = {"plan": "", "n": 0, "kind": "maintain", "source_version": None}
COLUMNS = [("bucket", "timestamp"), ("k", "string"), ("d", "decimal(20,4)"), ("b", "binary"), ("f", "double")]
SHAPE = pa.schema(
    [
        ("bucket", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("d", pa.decimal128(20, 4)),
        ("b", pa.binary()),
        ("f", pa.float64()),
    ]
)


def rows_at(*hours: int, per_hour: int = 3) -> pa.Table:
    rows = [
        {
            "bucket": datetime.fromtimestamp((BASE + hour * HOUR) // 1_000_000, UTC),
            "k": None if i == 0 else f"key-{i}",
            "d": Decimal(hour) / 8,
            "b": bytes([hour % 250, i]),
            "f": float("nan") if i == 1 else hour / 3,
        }
        for hour in hours
        for i in range(per_hour)
    ]
    return pa.Table.from_pylist(rows, schema=SHAPE)


class Bars:
    """A table of ours with one commit for each hour, in any order."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.n = 0
        create_table(self.path, COLUMNS, name="bars")

    def replace(self, *hours: int, per_hour: int = 3) -> None:
        """Replace hours in one commit."""
        self.n += 1
        spans = SpanSet.of(*(Span(BASE + h * HOUR, BASE + (h + 1) * HOUR) for h in hours))
        note = NOTE | {"plan": f"p{self.n}", "n": self.n, "kind": "data"}
        replace_spans(self.path, rows_at(*hours, per_hour=per_hour), BUCKET, spans, "app", self.n, note)

    @property
    def opened(self) -> DeltaTable:
        """The table, opened anew."""
        return DeltaTable(self.path)

    @property
    def pieces(self) -> list[FileExtent]:
        """Its files."""
        return pieces_of(self.path, "bucket", TimeType.TIMESTAMP)[1]

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """Its rows, sorted; values as text, because no NaN equals another."""
        found = self.opened.to_pyarrow_table().to_pylist()
        return sorted(tuple(map(repr, row.values())) for row in found)

    def found(self, target: int) -> list[Group]:
        """What is worth writing again."""
        return groups(self.pieces, target)

    def rewrite(self, group: Group, target: int, **options: object) -> None:
        """Write a group again."""
        rewrite(self.path, group, "bucket", TimeType.TIMESTAMP, ["bucket", "k"], target, NOTE, **options)


@pytest.fixture
def bars(tmp_path: Path) -> Bars:
    """Forty files of an hour each, committed in any order."""
    made = Bars(tmp_path / "bars")
    hours = list(range(40))
    random.Random(3).shuffle(hours)
    for hour in hours:
        made.replace(hour)
    return made


def test_rewritten_files_hold_the_same_rows_in_order(bars):
    """
    All rows are there with all their values, in few files that do not lie over each other, with statistics.
    """
    before = bars.rows
    [group] = bars.found(30)
    bars.rewrite(group, 30)

    assert before == bars.rows
    assert [30, 30, 30, 30] == sorted(p.rows for p in bars.pieces)
    assert 1 == depth(bars.pieces)
    assert [] == bars.found(30)
    actions = bars.opened.get_add_actions(flatten=True)
    table = pa.RecordBatchReader.from_stream(actions).read_all()
    assert 0 == table["max.k"].null_count
    times = bars.opened.to_pyarrow_table(columns=["bucket"])["bucket"].to_pylist()
    assert len(times) == 120


def test_nobody_sees_a_rewrite(bars):
    """
    It is no change of data: captures find nothing, and number, id, schema and properties stay; only the note tells.
    """
    table, before = bars.opened, bars.opened.version()
    [group] = bars.found(30)
    bars.rewrite(group, 30)
    after = bars.opened

    [commit] = commits(bars.path, before, after.version())
    assert not commit.is_data_change
    captured = capture_by_files(
        bars.path,
        after=before,
        from_version=before + 1,
        to_version=after.version(),
        time_column="bucket",
        time_type=TimeType.TIMESTAMP,
        floor=lambda t: t,
        next_edge=lambda t: t + HOUR,
        reason="",
    )
    assert ((), ()) == (captured.pieces, captured.per_version)
    assert 40 == after.transaction_version("app")
    assert (table.metadata(), table.schema()) == (after.metadata(), after.schema())
    assert [("maintain", 0)] == [(n.kind, n.n) for n in find_notes(bars.path, before)]


def test_what_is_written_later_goes_on_as_before(bars):
    """
    Buckets are replaced and numbers fenced in a rewritten table as in any other.
    """
    [group] = bars.found(30)
    bars.rewrite(group, 30)
    bars.replace(7, 8, per_hour=2)

    assert 120 - 2 == len(bars.rows)
    assert fence(bars.path, "app", 41, NOTE) is None
    assert fence(bars.path, "app", 42, NOTE) is not None


def test_late_files_are_cut_among_themselves(bars):
    """
    Wide files over a table that is laid out well are written again; the files below them stay.
    """
    [group] = bars.found(30)
    bars.rewrite(group, 30)
    below = {p.path for p in bars.pieces}
    for hours in [(0, 39), (1, 38), (2, 37), (3, 36)]:
        bars.replace(*hours)
    before = bars.rows
    while found := bars.found(9):
        bars.rewrite(found[0], 9)

    assert before == bars.rows
    assert depth(bars.pieces) < 4
    assert below & {p.path for p in bars.pieces}


def test_a_rewrite_that_comes_too_late_commits_nothing(bars):
    """
    When one of its files was replaced meanwhile, or the lease is gone, the table stays as it is.
    """
    [group] = bars.found(30)

    def lost() -> None:
        raise LeaseLostError("gone")

    with pytest.raises(RetryableError, match="were replaced"):
        bars.rewrite(group, 30, before_commit=lambda: bars.replace(7))
    rows, version = bars.rows, bars.opened.version()
    [group] = bars.found(30)
    with pytest.raises(LeaseLostError):
        bars.rewrite(group, 30, before_commit=lost)

    assert (rows, version) == (bars.rows, bars.opened.version())
    assert not list(Path(bars.path).glob(f"{OTHERS}*/_delta_log"))


def test_a_rewrite_goes_on_over_commits_that_leave_its_files_alone(bars):
    """
    A commit that takes none of its files away, such as a fence, does not stop it.
    """
    before = bars.rows
    [group] = bars.found(30)
    bars.rewrite(group, 30, before_commit=lambda: fence(bars.path, "app", 41, NOTE))

    assert before == bars.rows
    assert 4 == len(bars.pieces)


def test_files_that_lack_rows_are_not_taken_in(bars):
    """
    New files that do not hold as many rows as the old ones are refused, and removed.
    """
    [group] = bars.found(30)
    version = bars.opened.version()
    with new_files(bars.path) as files:
        files.begin(bars.opened)
        with pytest.raises(ValueError, match="became 0"):
            exchange(bars.path, group, files, NOTE)

    assert version == bars.opened.version()


def test_large_tables_get_larger_files(bars):
    """
    A group is cut by the rows that a file of its table should hold.
    """
    assert (25_000, 50_000) == (target_rows(120), target_rows(100_000_000))
    [group] = bars.found(25_000)
    bars.rewrite(group, 25_000)

    assert [120] == [p.rows for p in bars.pieces]


def test_the_commit_says_which_files(bars):
    """
    The commit removes each old file with its size and adds each new one, none of them a change of data.
    """
    [group] = bars.found(30)
    bars.rewrite(group, 30)
    lines = Path(bars.path, "_delta_log", f"{bars.opened.version():020d}.json").read_text().splitlines()
    actions = [action for line in lines for action in json.loads(line).items()]

    removes = {body["path"]: body for what, body in actions if what == "remove"}
    assert {p.path: p.bytes for p in group.pieces} == {path: body["size"] for path, body in removes.items()}
    assert {False} == {body["dataChange"] for what, body in actions if what in {"add", "remove"}}
