from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import (
    MAX_MERGES,
    Estimate,
    Facts,
    Merge,
    Plan,
    Recompute,
    Settle,
    decide,
    strategy_of,
)
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from tests.fresh import for_new_data
from tests.model.strategies import VERSIONS, logs, plans, span_sets

QUICK = settings(phases=[Phase.generate], max_examples=2000, derandomize=True)
ALL = SpanSet((EVERYTHING,))
INSERTED = Entry(Span(0, 10), after=3, cause=Cause.CHANGE, is_insert_only=True)


def make_facts(raw: int = 100, changed: int = 1, kept: int = 1, present: SpanSet = ALL) -> Facts:
    """Return facts under which everything that may be merged is merged."""
    return Facts(
        raw=lambda _: Estimate(raw, likely_rows=raw),
        changed=lambda _, __: Estimate(changed, likely_rows=changed),
        stored=lambda _: Estimate(kept, likely_rows=kept),
        present=lambda spans: spans & present,
        feed_from=0,
    )


@st.composite
def all_facts(draw: st.DrawFn) -> Facts:
    """Facts of every kind; reading raw rows is sometimes cheaper than merging."""
    facts = make_facts(draw(st.integers(0, 4)), present=draw(span_sets()))
    return replace(
        facts,
        feed_from=draw(st.none() | VERSIONS),
        not_mergeable=draw(st.sampled_from([(), (), ("mode does not merge",)])),
        partials_are_last=draw(st.sampled_from([True, True, False])),
        is_first=draw(st.booleans()),
    )


def mergeable_logs() -> st.SearchStrategy[InvalidationLog]:
    """Logs in which inserts of different versions are frequent."""
    inserted = st.builds(
        lambda e, v: replace(e, after=v, cause=Cause.CHANGE, is_insert_only=True), entries_of(), VERSIONS
    )
    return st.lists(inserted | entries_of(), max_size=6).map(lambda found: InvalidationLog().add(found))


def entries_of() -> st.SearchStrategy[Entry]:
    """Entries as a log holds them."""
    return logs().filter(lambda log: bool(log.entries)).map(lambda log: log.entries[0])


@given(mergeable_logs(), all_facts())
def test_every_instant_is_in_exactly_one_step(log: InvalidationLog, facts: Facts) -> None:
    """
    The steps are disjoint, and together they are what was taken.
    """
    steps = decide(log.entries, facts)

    for i, step in enumerate(steps):
        assert step.spans
        assert all(not step.spans & other.spans for other in steps[:i])
    assert log.spans == SpanSet.union(s for step in steps for s in step.spans)


test_every_instant_is_in_exactly_one_step_for_new_data = for_new_data(test_every_instant_is_in_exactly_one_step)


@given(mergeable_logs(), all_facts())
def test_merge_only_where_nothing_but_inserts_happened(log: InvalidationLog, facts: Facts) -> None:
    """
    A merged bucket saw only inserts that the feed names, since the version its partials reflect exactly.
    """
    for step in decide(log.entries, facts):
        if isinstance(step, Merge):
            entries = [e for e in log.entries if SpanSet((e.span,)) & step.spans]
            assert {(e.after, e.cause, e.is_insert_only) for e in entries} == {(step.after, Cause.CHANGE, True)}
            assert facts.feed_from is not None
            assert facts.feed_from <= step.after
            assert not facts.not_mergeable
            assert facts.partials_are_last
            assert step.estimate.cost < facts.raw(step.spans).cost


test_merge_only_where_nothing_but_inserts_happened_for_new_data = for_new_data(
    test_merge_only_where_nothing_but_inserts_happened
)


@given(mergeable_logs(), all_facts())
def test_settle_only_where_nothing_is(log: InvalidationLog, facts: Facts) -> None:
    """
    Buckets without rows anywhere are settled, all others are worked on.
    """
    present = facts.present(log.spans)
    for step in decide(log.entries, facts):
        assert (step.spans & present) == (SpanSet() if isinstance(step, Settle) else step.spans)


@given(mergeable_logs(), all_facts())
def test_no_silent_fall_back(log: InvalidationLog, facts: Facts) -> None:
    """
    Whatever is recomputed says why it is dirty and why it was not merged.
    """
    for step in decide(log.entries, facts):
        if isinstance(step, Recompute) and not step.is_discard:
            assert step.reason
            assert [r.strategy for r in step.rejected if r.reason] == ["merge"]


@pytest.mark.parametrize(
    ("entry", "facts", "reason"),
    [
        (Entry(Span(0, 10)), make_facts(), "no partials"),
        (replace(INSERTED, after=None), make_facts(), "rows changed"),
        (replace(INSERTED, cause=Cause.FILES), make_facts(), "no change feed"),
        (replace(INSERTED, cause=Cause.FORCED), make_facts(), "forced"),
        (replace(INSERTED, is_insert_only=False), make_facts(), "updated or deleted"),
        (INSERTED, replace(make_facts(), not_mergeable=("mode does not merge",)), "mode"),
        (INSERTED, replace(make_facts(), feed_from=4), "reach back to version 3"),
        (INSERTED, replace(make_facts(), feed_from=None), "no change feed"),
        (INSERTED, replace(make_facts(), partials_are_last=False), "last ended refresh"),
        (INSERTED, make_facts(raw=2), "not be cheaper than 2 raw rows out of 2"),
    ],
)
def test_why_not_merge(entry: Entry, facts: Facts, reason: str) -> None:
    """
    Each thing that forbids a merge is named.
    """
    (step,) = decide([entry], facts)

    assert isinstance(step, Recompute)
    assert reason in step.rejected[0].reason


def test_merge_says_what_it_saves() -> None:
    """
    Inserted rows are merged, and the plan prints what recomputing would have read.
    """
    (step,) = decide([INSERTED], make_facts())

    assert isinstance(step, Merge)
    assert (3, 2) == (step.after, step.estimate.rows)
    assert "100 raw rows" in step.rejected[0].reason


def test_a_change_feed_that_begins_with_the_kept_partials_is_enough() -> None:
    """
    It holds every version after the one that they reflect.
    """
    (step,) = decide([INSERTED], replace(make_facts(), feed_from=INSERTED.after))
    assert isinstance(step, Merge)


def test_many_versions_are_not_all_merged() -> None:
    """
    Each version to merge from costs a read of its own; the oldest beyond the limit are recomputed.
    """
    taken = [replace(INSERTED, span=Span(20 * v, 20 * v + 10), after=v) for v in range(MAX_MERGES + 2)]
    steps = decide(taken, make_facts())

    assert list(range(MAX_MERGES + 1, 1, -1)) == [s.after for s in steps if isinstance(s, Merge)]
    assert SpanSet.of(Span(0, 10), Span(20, 30)) == SpanSet.union(
        s for step in steps if isinstance(step, Recompute) for s in step.spans
    )


def test_what_is_retired_is_discarded_below_the_frozen_bound_too() -> None:
    """
    It is replaced by nothing, so that no raw row has to be there; what was inserted beside it is merged.
    """
    retired = Entry(Span(20, 30), None, Cause.RETIRED)
    merged, discarded = decide([INSERTED, retired], replace(make_facts(), frozen=40))

    assert isinstance(merged, Merge)
    assert isinstance(discarded, Recompute)
    assert (INSERTED.span, retired.span, True) == (*merged.spans, *discarded.spans, discarded.is_discard)


@given(plans())
def test_a_plan_survives_json(plan: Plan) -> None:
    """
    The journal gives back the plan that was made.
    """
    assert plan == from_json(Plan, json.loads(json.dumps(as_json(plan))))


@given(plans())
def test_a_plan_sums_up_its_steps(plan: Plan) -> None:
    """
    Its spans are those of the steps that write, its strategy names every step.
    """
    writing = [s for s in plan.steps if not isinstance(s, Settle)]

    assert plan.spans == SpanSet.union(s for step in writing for s in step.spans)
    assert plan.estimate.rows == sum(s.estimate.rows for s in writing)
    assert {strategy_of(s) for s in plan.steps} == set(plan.strategy.split("+")) - {"nothing"}


def test_the_generators_make_every_step() -> None:
    """
    Merge, recompute and settle occur in one decision.
    """
    cases = st.tuples(mergeable_logs(), all_facts())
    wanted = {Merge, Recompute, Settle}

    assert find(cases, lambda c: wanted == {type(s) for s in decide(c[0].entries, c[1])}, settings=QUICK)
