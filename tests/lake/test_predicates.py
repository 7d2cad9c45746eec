from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.predicates import inside

SPANS = st.lists(
    st.tuples(st.integers(-40, 40), st.integers(1, 6)).map(lambda p: Span(p[0], p[0] + p[1])), max_size=8
).map(lambda spans: SpanSet.of(*spans))


@given(SPANS, st.lists(st.integers(-60, 60), max_size=20))
def test_inside_agrees_with_membership(spans: SpanSet, values: list[int]) -> None:
    """
    Searching an array says what asking the spans one by one says.
    """
    expected = [v in spans for v in values]

    assert expected == inside(np.array(values, dtype=np.int64), spans).tolist()


def test_inside_at_the_ends_of_the_world() -> None:
    """
    Infinite ends hold the smallest and the largest 64-bit value.
    """
    ends = np.array([-(2**63), 2**63 - 1])

    assert [True, True] == inside(ends, SpanSet.of(EVERYTHING)).tolist()
    assert [True, False] == inside(ends, SpanSet.of(Span(NEG_INF, 0))).tolist()
    assert [False, False] == inside(ends, SpanSet.of(Span(2**63, POS_INF))).tolist()
