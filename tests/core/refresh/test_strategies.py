from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import (
    BY_KEY,
    RETRACT,
    Estimate,
    Merge,
    Recompute,
    Retract,
    Settle,
    strategy_of,
)
from materializer.core.refresh.strategies import BESIDE, MAX_MERGES, Facts, decide
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from tests.fresh import for_new_data
from tests.model.strategies import VERSIONS, logs, span_sets

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
        not_retractable=draw(st.sampled_from(["", "max is not exact"])),
        partials_are_last=draw(st.sampled_from([True, True, False])),
        is_first=draw(st.booleans()),
        keyed=draw(st.sampled_from([None, lambda _: Estimate(1, likely_rows=1), lambda _: Estimate(9, likely_rows=9)])),
        not_keyed=draw(st.sampled_from(["", "", "the key is an expression"])),
    )


def mergeable_logs() -> st.SearchStrategy[InvalidationLog]:
    """Logs in which inserts, and some other changes, of different versions are frequent."""
    inserted = st.builds(
        lambda e, v, only: replace(e, after=v, cause=Cause.CHANGE, is_insert_only=only),
        entries_of(),
        VERSIONS,
        st.sampled_from([True, True, False]),
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
def test_retract_only_where_the_feed_names_what_went(log: InvalidationLog, facts: Facts) -> None:
    """
    A bucket that is subtracted from saw an update or a delete, the feed names all changes since the version that its partials
    reflect exactly, it has both ends, and every partial can be subtracted.
    """
    for step in decide(log.entries, facts):
        if isinstance(step, Retract):
            entries = [e for e in log.entries if SpanSet((e.span,)) & step.spans]
            assert {(e.after, e.cause, e.is_insert_only) for e in entries} == {(step.after, Cause.CHANGE, False)}
            assert all(span.is_bounded for span in step.spans)
            assert facts.feed_from is not None
            assert facts.feed_from <= step.after
            assert not facts.not_retractable
            assert facts.partials_are_last
            assert step.estimate.cost < facts.raw(step.spans).cost


test_retract_only_where_the_feed_names_what_went_for_new_data = for_new_data(
    test_retract_only_where_the_feed_names_what_went
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
    Whatever is recomputed says why it is dirty, why it was not merged, and why not by key or by bucket if that was possible.
    """
    for step in decide(log.entries, facts):
        if isinstance(step, Recompute) and not step.is_discard:
            assert step.reason
            rejected = [r.strategy for r in step.rejected if r.reason]
            assert rejected[0] == "merge"
            others = [[], ["recompute"] if step.keys is not None else [BY_KEY]]
            assert rejected[1:] in [*others, *([RETRACT, *more] for more in others)]


@pytest.mark.parametrize(
    ("entry", "facts", "reason"),
    [
        (Entry(Span(0, 10)), make_facts(), "nothing is stored yet"),
        (replace(INSERTED, after=None), make_facts(), "rows changed"),
        (replace(INSERTED, cause=Cause.FILES), make_facts(), "no change feed"),
        (replace(INSERTED, cause=Cause.FORCED), make_facts(), "forced"),
        (replace(INSERTED, is_insert_only=False), replace(make_facts(), not_retractable="max"), "updated or deleted"),
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


@given(mergeable_logs(), all_facts())
def test_by_key_only_where_all_other_groups_are_exact(log: InvalidationLog, facts: Facts) -> None:
    """
    Each bucket of which only some groups are computed has stored partials of a known version, and since then the feed, or the
    commits of a parent, named all changed keys.
    """
    for step in decide(log.entries, facts):
        if isinstance(step, Recompute) and step.keys is not None:
            entries = [e for e in log.entries if SpanSet((e.span,)) & step.spans]
            assert {e.cause for e in entries} <= {Cause.CHANGE, Cause.FILES}
            assert all(e.after is not None and e.keys is not None for e in entries)
            assert step.keys == len({key for e in entries for key in e.keys or ()})
            assert facts.keyed is not None
            assert facts.partials_are_last
            assert not facts.is_first
            assert step.estimate.cost < facts.raw(step.spans).cost


test_by_key_only_where_all_other_groups_are_exact_for_new_data = for_new_data(
    test_by_key_only_where_all_other_groups_are_exact
)

CORRECTED = Entry(Span(0, 10), 3, Cause.CHANGE, frozenset({("a",)}))


def keyed_facts(cost: int = 1, **changed: Any) -> Facts:
    """Return facts under which the rows of changed keys cost so much."""
    facts = replace(make_facts(), not_retractable="max is not exact")
    return replace(facts, keyed=lambda _: Estimate(cost, likely_rows=cost), **changed)


def test_a_correction_of_few_keys_is_computed_by_key() -> None:
    """
    Only their groups are read, and the plan says what the whole buckets would have cost.
    """
    (step,) = decide([CORRECTED], keyed_facts())

    assert isinstance(step, Recompute)
    assert (1, 2) == (step.keys, step.estimate.rows)
    assert ("recompute", "would read 100 raw rows") == (
        step.rejected[-1].strategy,
        step.rejected[-1].reason,
    )


def test_keys_that_the_commits_of_a_parent_name_are_computed() -> None:
    """
    Their files do not tell rows apart, but the notes tell which groups changed.
    """
    (step,) = decide([replace(CORRECTED, cause=Cause.FILES)], keyed_facts())

    assert isinstance(step, Recompute)
    assert (1, 2) == (step.keys, step.estimate.rows)


def test_keys_are_read_where_the_changes_since_are_more_rows() -> None:
    """
    A merge reads all inserts since its version; where these are more than the rows of the changed keys, the keys are computed.
    """
    inserted = replace(INSERTED, keys=frozenset({("a",)}))
    cheap, dear = (make_facts(raw=9 * BESIDE, changed=changed) for changed in (BESIDE // 2, BESIDE))
    (merge,) = decide([inserted], replace(cheap, keyed=keyed_facts(5).keyed))
    (step,) = decide([inserted], replace(dear, keyed=keyed_facts(5).keyed))

    assert isinstance(merge, Merge)
    assert isinstance(step, Recompute)
    assert 1 == step.keys
    assert "6 rows of changed keys and stored groups out of 6" in step.rejected[0].reason


@pytest.mark.parametrize(
    ("entry", "facts", "reason"),
    [
        (replace(CORRECTED, keys=None), keyed_facts(), "more than 64 keys changed"),
        (replace(CORRECTED, keys=None), keyed_facts(not_keyed="the key k is an expression"), "an expression"),
        (CORRECTED, keyed_facts(partials_are_last=False), "last ended refresh"),
        (
            CORRECTED,
            keyed_facts(99),
            "100 rows of changed keys and stored groups out of 100 would not be cheaper than 100",
        ),
        (CORRECTED, keyed_facts(is_first=True), ""),
        (CORRECTED, replace(keyed_facts(), keyed=None), ""),
        (replace(CORRECTED, after=None), keyed_facts(), ""),
        (replace(CORRECTED, cause=Cause.DIFFERED), keyed_facts(), ""),
        (replace(CORRECTED, cause=Cause.FILES, keys=None), keyed_facts(), ""),
    ],
)
def test_why_not_by_key(entry: Entry, facts: Facts, reason: str) -> None:
    """
    Each thing that forbids it is named, except where there is nothing to choose.
    """
    (step,) = decide([entry], facts)

    assert isinstance(step, Recompute)
    assert step.keys is None
    assert bool(reason) == (BY_KEY in [r.strategy for r in step.rejected])
    assert reason in step.rejected[-1].reason


def test_buckets_with_many_keys_are_recomputed_beside_others() -> None:
    """
    One bucket too many of whose keys changed does not make the others whole.
    """
    steps = decide([CORRECTED, Entry(Span(10, 20), 3, Cause.CHANGE)], keyed_facts())

    assert [(SpanSet.of(Span(0, 10)), 1), (SpanSet.of(Span(10, 20)), None)] == [
        (s.spans, s.keys) for s in steps if isinstance(s, Recompute)
    ]


def test_merge_says_what_it_saves() -> None:
    """
    Inserted rows are merged, and the plan prints what recomputing would have read.
    """
    (step,) = decide([INSERTED], make_facts())

    assert isinstance(step, Merge)
    assert (3, 2) == (step.after, step.estimate.rows)
    assert "100 raw rows" in step.rejected[0].reason


CHANGED = replace(INSERTED, is_insert_only=False)


def test_retract_says_what_it_saves() -> None:
    """
    Changed rows are subtracted, and the plan prints why they are not merged and what recomputing would have read.
    """
    (step,) = decide([CHANGED], make_facts())

    assert isinstance(step, Retract)
    assert (3, 2) == (step.after, step.estimate.rows)
    assert ["merge", "recompute"] == [r.strategy for r in step.rejected]
    assert "100 raw rows" in step.rejected[1].reason


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(make_facts(), not_retractable="max is not exact"), "max is not exact"),
        (replace(make_facts(), feed_from=4), "reach back to version 3"),
        (replace(make_facts(), partials_are_last=False), "last ended refresh"),
        (make_facts(raw=2), "not be cheaper than 2 raw rows out of 2"),
        (replace(make_facts(), only="recompute"), "'recompute' was asked for"),
    ],
)
def test_what_is_not_subtracted_says_why(facts: Facts, reason: str) -> None:
    """
    The reason stands beside that against a merge.
    """
    (step,) = decide([CHANGED], facts)

    assert isinstance(step, Recompute)
    assert ["merge", RETRACT] == [r.strategy for r in step.rejected]
    assert reason in step.rejected[1].reason


@pytest.mark.parametrize("only", ["", RETRACT])
def test_changes_and_inserts_since_one_version_are_two_steps(only: str) -> None:
    """
    What was only inserted is merged; where subtraction is asked for, that is all that is subtracted or merged.
    """
    steps = decide([replace(INSERTED, span=Span(10, 20)), CHANGED], replace(make_facts(), only=only))
    wanted = {("retract", Span(0, 10)), ("merge" if not only else "recompute", Span(10, 20))}
    assert wanted == {(strategy_of(s), *s.spans) for s in steps}


def test_keys_that_cost_less_are_computed_instead() -> None:
    """
    The cheapest of three is chosen, and the others say what they cost.
    """
    few = replace(CHANGED, keys=frozenset({("a",)}))
    facts = replace(make_facts(changed=9), keyed=lambda _: Estimate(1, likely_rows=1))
    (step,) = decide([few], facts)

    assert BY_KEY == strategy_of(step)
    assert isinstance(step, Recompute)
    assert ["merge", RETRACT, "recompute"] == [r.strategy for r in step.rejected]


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


def test_the_generators_make_every_step() -> None:
    """
    Merge, retract, recompute by bucket and by key, and settle occur in decisions.
    """
    cases = st.tuples(mergeable_logs(), all_facts())
    wanted = {Merge, Recompute, Settle}

    assert find(cases, lambda c: wanted <= {type(s) for s in decide(c[0].entries, c[1])}, settings=QUICK)
    assert find(cases, lambda c: any(isinstance(s, Retract) for s in decide(c[0].entries, c[1])), settings=QUICK)
    by_key = find(cases, lambda c: any(strategy_of(s) == BY_KEY for s in decide(c[0].entries, c[1])), settings=QUICK)
    assert by_key
