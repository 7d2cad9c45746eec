"""The note of a commit about the buckets and keys that it changed, and what a reader makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.refresh.invalidation import Entry, Keys
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.lake.capture.capture import CaptureResult, capture_without_spark
from materializer.lake.capture.changed_groups import MOST, ChangedGroups, changed_groups, note_of_changes
from materializer.lake.log import Commit
from tests.lake.tables import HOUR

KEY = st.tuples(st.one_of(st.none(), st.sampled_from(["", "a", "'", "é"])), st.one_of(st.none(), st.integers(-2, 2)))
ENTRIES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 3), st.one_of(st.none(), st.frozensets(KEY, max_size=4))), max_size=5
)


def commit(metadata: Any) -> Commit:
    """Return a commit with a note."""
    nothing: dict[str, Any] = {"metadata": None, "protocol": None, "adds": (), "removes": (), "change_files": ()}
    return Commit(1, 0, "WRITE", metadata, transactions={}, updated=None, **nothing)


def noted(spans: SpanSet, taken: list[Entry], most: int = 256) -> ChangedGroups | None:
    """Return what a reader of a note finds in it."""
    note = note_of_changes("slice", spans, most=most, columns=["k_a", "k_b"], taken=taken)
    return changed_groups(commit(json.dumps({"plan": "p"} | note)), "slice")


@given(ENTRIES, st.integers(1, 12))
def test_a_reader_finds_the_buckets_and_the_keys_of_each(drawn: list[tuple[int, int, Keys | None]], most: int) -> None:
    """
    Every changed bucket is named, with the keys of its entry, or with no keys and so with any; never with fewer.
    """
    taken, at = [], 0
    for gap, width, keys in drawn:
        taken.append(Entry(Span(at + gap, at + gap + width), 1, keys=keys))
        at += gap + width
    spans = SpanSet.union(e.span for e in taken)

    found = noted(spans, taken, most)

    assert found is not None
    assert not spans - found.spans
    named = SpanSet.union(s for part, _ in found.keys for s in part)
    assert not named - spans
    for entry in taken:
        inside = [keys for part, keys in found.keys if SpanSet.of(entry.span) & part]
        assert inside == [] if entry.keys is None else inside in ([], [entry.keys])


def test_many_keys_are_not_named() -> None:
    """
    Past the bound the note names the buckets alone.
    """
    spans = SpanSet.of(Span(0, 1))
    some = frozenset((str(i), i) for i in range(MOST))

    found = noted(spans, [Entry(Span(0, 1), 1, keys=some)])
    assert found is not None
    assert [some] == [keys for _, keys in found.keys]
    assert ChangedGroups(spans) == noted(spans, [Entry(Span(0, 1), 1, keys=some | {("x", 1)})])


@pytest.mark.parametrize(
    "keys",
    [
        7,
        {"columns": ["k_a"], "of": [[[[0, 1]], [["a", 1]]]]},
        {"columns": ["k_a"], "of": [[[["x", 1]], [["a"]]]]},
        {"columns": ["k_a"], "of": [[[[0, 1]]]]},
        {"columns": ["k_a"], "of": [[[[0, 1]], [[["a"]]]]]},
        {"columns": 7, "of": []},
        {"of": []},
        None,
    ],
)
def test_a_note_that_is_not_ours_says_nothing(keys: Any) -> None:
    """
    Keys without their columns, of another number, or of no form: then everything in the files counts as changed.
    """
    note = {"plan": "p", "changed": {"column": "slice", "spans": [[0, 1]], "keys": keys}}
    assert changed_groups(commit(json.dumps(note)), "slice") is None


HOURS = pa.table(
    {
        "slice": pa.array([h * HOUR for h in range(4) for _ in "abc"], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "k_a": pa.array([*"abc"] * 4),
        "n": pa.array(range(12), pa.int64()),
    }
)


@pytest.mark.parametrize(
    ("keys", "evaluate", "named", "found"),
    [
        (("k_a",), None, "b", {0: frozenset({("b",)}), 1: None}),
        (("k_a",), None, 7, {0: None, 1: None}),
        (("k_a",), lambda rows: rows, 7, {0: None, 1: None}),
        (
            ("k_a",),
            lambda rows: pa.table({"upper": pc.utf8_upper(rows["k_a"])}),
            "b",
            {0: frozenset({("B",)}), 1: None},
        ),
        (("k_a",), lambda _: None, "b", {0: None, 1: None}),
        (("n",), None, "b", {0: None, 1: None}),
        (None, None, "b", {0: None, 1: None}),
    ],
)
def test_a_reader_makes_its_own_keys(
    tmp_path: Path, keys: Any, evaluate: Any, named: Any, found: dict[int, Keys | None]
) -> None:
    """
    Of two changed hours in one file, one has known keys: as columns, as expressions of them, or as nothing that the note names;
    values of another type than the column are damage.
    """
    path = str(tmp_path / "t")
    write_deltalake(path, HOURS)
    spans = SpanSet.of(Span(0, 2 * HOUR))
    taken = [Entry(Span(0, HOUR), 0, keys=frozenset({(named,)})), Entry(Span(HOUR, 2 * HOUR), 0)]
    note = {"plan": "p"} | note_of_changes("slice", spans, most=256, columns=["k_a"], taken=taken)
    properties = CommitProperties({"userMetadata": json.dumps(note)})
    write_deltalake(path, HOURS, mode="overwrite", commit_properties=properties)

    captured = capture_without_spark(
        path,
        after=0,
        upto=1,
        table_id=str(DeltaTable(path).metadata().id),
        time_column="slice",
        time_type=TimeType.TIMESTAMP,
        keys=keys,
        evaluate=evaluate,
        max_rows=100,
        max_bytes=1 << 20,
        floor=lambda t: t // HOUR * HOUR,
        next_edge=lambda e: e + HOUR,
    )

    assert isinstance(captured, CaptureResult)
    assert found == {
        span.start // HOUR + i: p.keys for p in captured.pieces for span in p.times for i in range(_hours(span))
    }


def _hours(span: Span) -> int:
    return (span.end - span.start) // HOUR
