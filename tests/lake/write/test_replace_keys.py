"""Replacing the rows of some keys: all others stay bit for bit, and only files that may hold the keys are written again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.core.engines.work import KeySlices
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import WriteFencedError
from materializer.lake.log import read_commit
from materializer.lake.write.replace import replace_spans
from materializer.lake.write.replace_keys import replace_keys
from tests import tables

SLICE = SliceColumn("at", holds_end=False, type=TimeType.BIGINT)
SCHEMA = pa.schema([("at", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("many", pa.list_(pa.int64()))])
ORDER = ["at", "k"]
Row = tuple[int, Any, int, Any]


def table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Results:
    """A table of ours, and the rows that it has to have."""

    def __init__(self, root: Path, rows: list[Row]) -> None:
        self.path, self.n = str(root / "results"), 0
        tables.create(self.path, SCHEMA, feed=False, properties={"delta.dataSkippingNumIndexedCols": "-1"})
        self.rows = rows
        whole = SpanSet.of(Span(-(10**6), 10**6))
        new = table(sorted(rows, key=lambda r: (r[0], r[1] is None, r[1] or "")))
        replace_spans(self.path, new.slice(0, 1), SLICE, whole, "app", self.next(), {"plan": "first"}, order=ORDER)
        options: dict[str, Any] = {"order": ORDER, "within_buckets": True}
        replace_spans(self.path, new, SLICE, whole, "app", self.next(), {"plan": "second"}, **options)

    def next(self) -> int:
        """Return the number of the next commit."""
        self.n += 1
        return self.n

    def replace(self, rows: list[Row], only: KeySlices) -> tuple[int, int]:
        """Replace some rows; return how many files were removed and how many rows written."""
        note = {"plan": f"p{self.n}", "n": self.n, "kind": "data", "source_version": 1}
        done = replace_keys(self.path, table(rows), SLICE, ["k"], only, "app", self.next(), note, order=ORDER)
        self.rows = [row for row in self.rows if not is_of(row, only)] + rows
        commit = read_commit(self.path, done.version)
        return len(commit.removes), sum(f.rows or 0 for f in commit.adds)

    def check(self) -> None:
        """Compare the table with what it has to have."""
        found = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        assert sorted(map(repr, self.rows)) == sorted(repr(tuple(row.values())) for row in found)


def is_of(row: Row, only: KeySlices) -> bool:
    return row[0] in only.whole or any(key == (row[1],) and row[0] in own for key, own in only.of_keys)


def at(*slices: int) -> SpanSet:
    return SpanSet.union(Span(s, s + 1) for s in slices)


def many(keys: int, slices: int) -> list[Row]:
    return [(s, f"k{i:06}", i, [i]) for s in range(slices) for i in range(keys)]


@pytest.mark.parametrize("seed", range(6))
def test_random_replacements_are_what_a_loop_makes(tmp_path: Path, seed: int) -> None:
    """
    New rows, other rows, no rows; keys that are new or null; slices that are replaced whole; slices beyond all files.
    """
    draw = random.Random(seed)
    keys = ["a", "b", "c", "d", None]
    results = Results(tmp_path, [(s, draw.choice(keys), i, None) for i, s in enumerate(draw.choices(range(20), k=60))])
    for turn in range(12):
        of = draw.sample([*keys, f"new {turn}"], draw.randrange(1, 4))
        own = {(key,): at(*draw.choices(range(-3, 24), k=draw.randrange(1, 6))) for key in of}
        only = KeySlices(tuple(own.items()), at(*draw.choices(range(-3, 24), k=draw.randrange(2))))
        slots = [(s.start + i, key[0]) for key, spans in own.items() for s in spans for i in range(s.end - s.start)]
        slots += [(s.start, draw.choice(keys)) for s in only.whole]
        new = [(s, k, draw.randrange(9), [turn]) for s, k in draw.sample(slots, draw.randrange(len(slots) + 1))]
        results.replace(new, only)
        results.check()


def test_only_the_file_of_the_key_is_written_again(tmp_path: Path) -> None:
    """
    A large slice has files of neighbouring keys; of three slices the changed one loses one file, whatever the number of its keys.
    """
    results = Results(tmp_path, many(100_000, 3))
    assert len(DeltaTable(results.path).file_uris()) >= 12

    removed, written = results.replace([(1, "k050000", -1, None)], KeySlices(((("k050000",), at(1)),)))

    assert removed == 1
    assert written < 30_000
    results.check()


def test_rows_that_stay_as_they_are_write_nothing(tmp_path: Path) -> None:
    """
    The same row again removes no file; the commit carries the number all the same.
    """
    results = Results(tmp_path, many(1000, 2))
    row = next(r for r in results.rows if r[:2] == (1, "k000500"))

    assert results.replace([row], KeySlices(((("k000500",), at(0, 1)),))) == (1, 1999)
    results.check()
    assert results.replace([row], KeySlices(((("k000500",), at(1)),))) == (0, 0)
    results.check()
    with pytest.raises(WriteFencedError):
        replace_keys(
            results.path, table([row]), SLICE, ["k"], KeySlices(((("k000500",), at(1)),)), "app", 2, {}, order=ORDER
        )


def test_a_row_that_is_not_replaced_is_refused(tmp_path: Path) -> None:
    """
    A row of another key or slice would be there twice.
    """
    results = Results(tmp_path, many(2, 2))
    only = KeySlices(((("k000001",), at(1)),))
    for row in [(0, "k000001", 1, None), (1, "k000000", 1, None)]:
        with pytest.raises(ValueError, match="1 of 1 rows"):
            results.replace([row], only)
