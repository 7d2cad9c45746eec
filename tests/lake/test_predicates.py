from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.core.spec import TimeType
from materializer.lake.predicates import hulls, inside, predicate

SPANS = st.lists(
    st.tuples(st.integers(-40, 40), st.integers(1, 6)).map(lambda p: Span(p[0], p[0] + p[1])), max_size=8
).map(lambda spans: SpanSet.of(*spans))


@given(SPANS, st.lists(st.integers(-60, 60), max_size=20), st.booleans())
def test_inside_agrees_with_membership(spans: SpanSet, values: list[int], is_end: bool) -> None:
    """
    Searching an array says what asking the spans one by one says.
    """
    expected = [(v - 1 if is_end else v) in spans for v in values]

    assert expected == inside(np.array(values, dtype=np.int64), spans, is_end=is_end).tolist()


def test_inside_at_the_ends_of_the_world() -> None:
    """
    Infinite ends hold the smallest and the largest 64-bit value.
    """
    ends = np.array([-(2**63), 2**63 - 1])

    assert [True, True] == inside(ends, SpanSet.of(EVERYTHING)).tolist()
    assert [True, False] == inside(ends, SpanSet.of(Span(NEG_INF, 0))).tolist()


@given(SPANS, st.integers(1, 9))
def test_hulls_cover_and_are_few(spans: SpanSet, limit: int) -> None:
    """
    Hulls hold every span, are never more than asked for, and begin and end where spans do.
    """
    found = hulls(spans, limit)

    assert not spans - found
    assert len(found) <= max(limit, 0) or found == spans
    assert {s.start for s in found} <= {s.start for s in spans}
    assert {s.end for s in found} <= {s.end for s in spans}


def test_ends_beyond_the_type_leave_a_side_open() -> None:
    """
    What no value can reach is not compared with; a span without any value of the type selects nothing.
    """

    def small(start: int, end: int) -> str | None:
        return predicate("c", TimeType.SMALLINT, SpanSet.of(Span(start, end)))

    assert "true" == small(NEG_INF, POS_INF) == small(-32768, 32768)
    assert "(\"c\" >= arrow_cast(5, 'Int16'))" == small(5, 40_000)
    assert small(32768, 40_000) is None
    assert predicate("c", TimeType.DATE, SpanSet.of(Span(1, 86_400_000_000))) is None
    assert predicate("c", TimeType.BIGINT, SpanSet()) is None
