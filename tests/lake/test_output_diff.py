"""What changed between two sets of rows, in the driver's memory."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.refresh.output_feed import META, ChangeType, Reason
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.lake import output_diff

BY_START, BY_END = (SliceColumn("bucket", holds_end, TimeType.BIGINT) for holds_end in (False, True))
SHAPE = pa.schema([("bucket", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("l", pa.list_(pa.int64()))])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1.0, 2.0, math.nan, None]),
        st.none() | st.lists(st.integers(0, 1), max_size=1),
    ),
    max_size=6,
)
PLACES = st.sampled_from([None, ["bucket", "k"]])


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SHAPE.names, row, strict=True)) for row in rows], SHAPE)


def counted(rows: pa.Table) -> Counter[str]:
    """Return the rows as a bag; NaN has one text."""
    return Counter(str(tuple(row[name] for name in SHAPE.names)) for row in rows.to_pylist())


@given(st.lists(ROWS, min_size=1, max_size=4), PLACES)
def test_replaying_all_changes_gives_the_last_rows(versions: list[list[Any]], place: list[str] | None) -> None:
    """
    Whatever the versions were, what their changes lead to is the last one, rows that are there twice included.
    """
    tables = [table([]), *map(table, versions)]
    feed = []
    for n, (old, new) in enumerate(pairwise(tables), 1):
        changed = output_diff.changed(old, new, place)
        feed.append(output_diff.published(output_diff.alike(changed, None), n, n, 0))
        assert counted(changed) - counted(old) - counted(new) == Counter()

    found = output_diff.replayed(pa.concat_tables(feed))
    assert counted(tables[-1]) == counted(found)
    assert {name for name, _ in META}.isdisjoint(found.column_names)


@given(ROWS, ROWS)
def test_equal_rows_are_no_change_and_places_make_updates(old: list[Any], new: list[Any]) -> None:
    """
    A row on both sides is left out; a row that is alone in its place on both sides became the other.
    """
    rows = output_diff.changed(table(old), table(new), ["bucket", "k"]).to_pylist()
    gone, came = counted(table(old)) - counted(table(new)), counted(table(new)) - counted(table(old))
    kinds = Counter(row["_change"] for row in rows)

    assert sum(gone.values()) == kinds[ChangeType.PREIMAGE] + kinds[ChangeType.DELETE]
    assert sum(came.values()) == kinds[ChangeType.POSTIMAGE] + kinds[ChangeType.INSERT]
    assert kinds[ChangeType.PREIMAGE] == kinds[ChangeType.POSTIMAGE]
    for before, after in pairwise(rows):
        if before["_change"] == ChangeType.PREIMAGE:
            assert (after["_change"], after["bucket"], after["k"]) == (
                ChangeType.POSTIMAGE,
                before["bucket"],
                before["k"],
            )
    assert not output_diff.changed(table(old), table(old), None).num_rows


def test_reasons_follow_the_dirt() -> None:
    """
    What goes is deleted; where nothing was, what comes is new; elsewhere it is late where rows were only inserted.
    """
    old = table([(0, "a", 1.0, None), (1, "a", 1.0, None), (2, "a", 1.0, None), (2, "b", 1.0, None)])
    new = table(
        [(0, "a", 2.0, None), (1, "a", 2.0, None), (2, "a", 2.0, None), (3, "a", 2.0, None), (1, "b", 1.0, None)]
    )
    spans = (SpanSet.of(Span(2, 4)), SpanSet.of(Span(1, 2)), Reason.CORRECTION)
    rows = output_diff.changed(old, new, ["bucket", "k"])
    rows = output_diff.reasoned(rows, BY_START, spans).to_pylist()

    found = {(r["bucket"], r["k"], r["_reason"]) for r in rows}
    assert {
        (0, "a", "correction"),
        (1, "a", "late"),
        (1, "b", "late"),
        (2, "a", "correction"),
        (2, "b", "delete"),
        (3, "a", "new"),
    } == found


def test_only_a_row_that_is_alone_in_its_place_became_another() -> None:
    """
    Where two went or two came nobody can tell which became which: they are deletes and inserts. A pair stands together.
    """
    one, two, three = ((0, "a", float(v), None) for v in (1, 2, 3))

    def kinds(old: list[Any], new: list[Any]) -> list[str]:
        return output_diff.changed(table(old), table(new), ["bucket", "k"])["_change"].to_pylist()

    assert [ChangeType.PREIMAGE, ChangeType.POSTIMAGE] == kinds([one], [two])
    assert [ChangeType.DELETE, ChangeType.DELETE, ChangeType.INSERT] == kinds([one, two], [three])
    assert [ChangeType.DELETE, ChangeType.INSERT, ChangeType.INSERT] == kinds([three], [one, two])


def test_reasons_are_told_by_the_ends_of_buckets() -> None:
    """
    A bucket [0, 10) that is labelled by its end stands at 10, and the one before it at 0.
    """
    rows = output_diff.changed(table([]), table([(at, "a", 1.0, None) for at in (0, 10, 20)]), ["bucket", "k"])
    spans = (SpanSet.of(Span(0, 10)), SpanSet.of(Span(10, 20)), Reason.CORRECTION)
    found = output_diff.reasoned(rows, BY_END, spans)

    assert ["correction", "new", "late"] == found["_reason"].to_pylist()


def test_a_row_that_changes_where_nothing_had_been_is_corrected() -> None:
    """
    Also where an engine's results beyond the dirt are late; only a row that comes there is new.
    """
    rows = output_diff.changed(
        table([(0, "a", 1.0, None)]), table([(0, "a", 2.0, None), (0, "b", 1.0, None)]), ["bucket", "k"]
    )
    spans = (SpanSet.of(Span(0, 10)), SpanSet(), Reason.LATE)
    found = output_diff.reasoned(rows, BY_START, spans)

    assert ["correction", "correction", "new"] == found["_reason"].to_pylist()
