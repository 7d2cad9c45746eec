"""The values of a slice column, told by starts and by ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet

SPANS = st.lists(
    st.tuples(st.integers(-40, 40), st.integers(1, 6)).map(lambda p: Span(p[0], p[0] + p[1])), max_size=8
).map(lambda spans: SpanSet.of(*spans))


@given(SPANS, st.integers(-60, 60), st.booleans())
def test_a_value_is_that_of_the_bucket_that_it_is_in(spans: SpanSet, value: int, holds_end: bool) -> None:
    """
    The values of some buckets are those whose own instant is in one of them; an end is in the bucket before it.
    """
    column = SliceColumn("bucket", holds_end, TimeType.BIGINT)
    instant = column.span_of(value)

    assert instant == Span(value - holds_end, value - holds_end + 1)
    assert (value in column.values_in(spans)) == (instant.start in spans)


@pytest.mark.parametrize("holds_end", [False, True])
def test_infinite_ends_stay(holds_end: bool) -> None:
    """
    All buckets have all values, and none beyond the ends of the world.
    """
    column = SliceColumn("bucket", holds_end, TimeType.BIGINT)

    assert SpanSet.of(EVERYTHING) == column.values_in(SpanSet.of(EVERYTHING))
    assert SpanSet.of(Span(NEG_INF, 5 + holds_end)) == column.values_in(SpanSet.of(Span(NEG_INF, 5)))
    assert SpanSet.of(Span(5 + holds_end, POS_INF)) == column.values_in(SpanSet.of(Span(5, POS_INF)))
