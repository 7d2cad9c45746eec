"""Span sets against sets of integers: the same algebra, written so that it cannot be wrong in the same way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet

LOW, HIGH = -6, 30
UNIVERSE = range(LOW, HIGH)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A short span of small integers, so that spans touch and overlap often."""
    start = draw(st.integers(LOW, HIGH - 2))
    return Span(start, draw(st.integers(start + 1, min(start + 9, HIGH - 1))))


def span_sets() -> st.SearchStrategy[SpanSet]:
    """A set of up to six of them."""
    return st.lists(spans(), max_size=6).map(SpanSet.union)


def members(spans: SpanSet) -> set[int]:
    """The integers of a set, by the spans' own ends."""
    return {i for s in spans for i in range(s.start, s.end)}


@given(st.lists(spans(), max_size=8))
def test_union_holds_what_its_spans_hold_in_one_form(parts: list[Span]) -> None:
    """A union holds exactly the instants of its parts, sorted, without touching, whatever their order."""
    whole = SpanSet.union(parts)

    assert members(whole) == {i for s in parts for i in range(s.start, s.end)}
    assert all(a.end < b.start for a, b in pairwise(whole.spans))
    assert whole == SpanSet.union(reversed(parts))


@given(span_sets(), span_sets())
def test_operators_agree_with_sets_of_integers(left: SpanSet, right: SpanSet) -> None:
    """Union, common part and difference are those of the instants, and come out in normal form."""
    for result, expected in (
        (left | right, members(left) | members(right)),
        (left & right, members(left) & members(right)),
        (left - right, members(left) - members(right)),
    ):
        assert members(result) == expected
        assert result == SpanSet.union(result)


@given(span_sets(), span_sets())
def test_cutting_loses_nothing(dirty: SpanSet, window: SpanSet) -> None:
    """What is taken and what is left make up what was there, and have nothing in common."""
    taken, left = dirty & window, dirty - window

    assert taken | left == dirty
    assert not taken & left


@given(span_sets(), spans())
def test_membership_hull_and_cover_agree_with_the_instants(some: SpanSet, span: Span) -> None:
    """``in``, ``hull`` and ``covers`` say what the set of integers says."""
    inside = members(some)

    assert {i for i in UNIVERSE if i in some} == inside
    assert some.covers(span) == (set(range(span.start, span.end)) <= inside)
    assert (some.hull is None) == (not inside)
    if some.hull:
        assert (some.hull.start, some.hull.end - 1) == (min(inside), max(inside))


@given(span_sets(), st.booleans(), st.booleans())
def test_json_returns_the_same_set_also_with_open_ends(some: SpanSet, is_open_below: bool, is_open_above: bool) -> None:
    """A set survives its JSON form; an infinite end is null there."""
    some |= SpanSet.union([Span(NEG_INF, -100)] * is_open_below + [Span(100, POS_INF)] * is_open_above)

    assert SpanSet.from_json(some.as_json()) == some


def test_everything_swallows_and_leaves_open_ends() -> None:
    """Taking a span out of everything leaves two open ends, and putting it back closes the hole."""
    rest = SpanSet.of(EVERYTHING) - SpanSet.of(Span(0, 5))

    assert rest == SpanSet.of(Span(NEG_INF, 0), Span(5, POS_INF))
    assert rest | SpanSet.of(Span(0, 5)) == SpanSet.of(EVERYTHING)


@pytest.mark.parametrize(("start", "end"), [(3, 3), (4, 3), (POS_INF, NEG_INF)])
def test_an_empty_span_cannot_be_made(start: int, end: int) -> None:
    """A span that ends at or before its start is refused, so that emptiness has one form."""
    with pytest.raises(ValueError, match="must end after it starts"):
        Span(start, end)


@given(span_sets(), st.integers(1, 9))
def test_few_spans_cover_and_are_few(some: SpanSet, limit: int) -> None:
    """
    Few spans around a set hold all of it, are never more than asked for, and begin and end where its spans do.
    """
    found = some.at_most(limit)

    assert members(some) <= members(found)
    assert len(found) <= limit
    assert {s.start for s in found} <= {s.start for s in some}
    assert {s.end for s in found} <= {s.end for s in some}
