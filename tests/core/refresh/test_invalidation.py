from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.refresh.invalidation import ANY_ROWS, MAX_KEYS, Cause, Entry, InvalidationLog
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from tests.counting import calls_of, grows_by
from tests.fresh import for_new_data
from tests.model.strategies import EDGES, UNIVERSE, entry_lists, logs, span_sets

Known = tuple[int | None, Cause, Any, bool]


def known(entries: Any) -> dict[int, Known]:
    """Return what disjoint entries say of each instant."""
    return {i: (e.after, e.cause, e.keys, e.is_insert_only) for e in entries for i in UNIVERSE if i in e.span}


def naive(entries: list[Entry]) -> dict[int, Known]:
    """Return what is known of each instant after *entries* came one by one, kept instant by instant."""
    model: dict[int, Known] = {}
    for e in entries:
        for i in (i for i in UNIVERSE if i in e.span):
            after, cause, keys, inserts = model.get(i, (POS_INF, Cause.CHANGE, frozenset(), True))
            model[i] = (
                None if after is None or e.after is None else min(after, e.after),
                max(cause, e.cause),
                None if keys is None or e.keys is None else keys | e.keys,
                inserts and e.is_insert_only,
            )
    return model


@given(entry_lists())
def test_adding_agrees_with_a_dictionary_of_instants(entries: list[Entry]) -> None:
    """
    Overlaps keep the older `after` (none wins), the coarsest cause, all keys, and "inserts only" if both say so.
    """
    assert naive(entries) == known(InvalidationLog().add(entries).entries)


test_adding_agrees_with_a_dictionary_of_instants_for_new_data = for_new_data(
    test_adding_agrees_with_a_dictionary_of_instants
)


@given(logs(), entry_lists(), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(log: InvalidationLog, entries: list[Entry], rng: Any) -> None:
    """
    The same entries in another order, some of them twice, make the same log.
    """
    shuffled = entries + entries[:2]
    rng.shuffle(shuffled)

    assert log.add(entries) == log.add(shuffled)


@given(logs(), span_sets())
def test_the_normal_form_is_unique(log: InvalidationLog, window: SpanSet) -> None:
    """
    Entries are sorted and disjoint, neighbours differ, and pieces put together again are the same value.
    """
    cut = log.cut(window)

    for a, b in zip(log.entries, log.entries[1:], strict=False):
        assert a.span.end <= b.span.start
        assert a.span.end < b.span.start or replace(a, span=b.span) != b
    assert log == cut.left.add(cut.taken) == InvalidationLog().add([*cut.taken, *cut.left.entries])


@given(logs(), span_sets())
def test_cutting_loses_nothing(log: InvalidationLog, window: SpanSet) -> None:
    """
    Taken and left together are what was dirty, they share nothing, and nothing that is known is forgotten.
    """
    taken, left = log.cut(window)
    taken_spans = SpanSet.union(e.span for e in taken)

    assert taken_spans | left.spans == log.spans
    assert not taken_spans & left.spans
    assert taken_spans == log.spans & window
    assert known(taken) | known(left.entries) == known(log.entries)


test_cutting_loses_nothing_for_new_data = for_new_data(test_cutting_loses_nothing)


@given(logs(), st.integers(1, 5), EDGES | st.just(NEG_INF), st.none() | st.integers(0, 3))
def test_a_limited_log_is_coarser_never_less(
    log: InvalidationLog, limit: int, frozen: int, exact_at: int | None
) -> None:
    """
    It has no more entries than allowed, keeps all dirt, forgets keys first, and leaves what is frozen alone.

    What lies between two entries reflects the version at which all clean buckets are exact, and no row of it changed since.
    """
    limited = log.limited(limit, frozen_below=frozen, exact_at=exact_at)
    before, after = known(log.entries), known(limited.entries)

    assert limited.spans | log.spans == limited.spans
    assert limited.spans.hull == log.spans.hull
    assert len(limited.entries) <= max(limit, 1 + sum(e.span.start < frozen for e in log.entries))
    for i, (version, cause, keys, inserts) in after.items():
        old = before.get(i, (exact_at, Cause.CHANGE, None, True))
        if (version, cause, keys, inserts) != before.get(i):
            assert keys is None
            assert (version, cause, inserts) == (old[0], old[1], old[3]) or i >= frozen
            assert version in (None, old[0])
            assert cause >= old[1]
            assert old[3] or not inserts


test_a_limited_log_is_coarser_never_less_for_new_data = for_new_data(test_a_limited_log_is_coarser_never_less)


@given(logs())
def test_a_log_survives_json(log: InvalidationLog) -> None:
    """
    What was written is read back as an equal value.
    """
    assert log == InvalidationLog.from_json(json.loads(json.dumps(log.as_json())))


@given(entry_lists(), st.lists(st.integers(0, 9), min_size=20, max_size=20), span_sets(), st.integers(1, 5))
def test_rows_that_went_are_never_forgotten(
    entries: list[Entry], counts: list[int], window: SpanSet, limit: int
) -> None:
    """
    Of each instant at least as many rows are remembered to have gone as were told, also after cutting, joining and JSON.
    """
    told = [replace(e, gone=c) for e, c in zip(entries, counts, strict=False)]
    log = InvalidationLog().add(told)
    cut = log.cut(window)
    for found in (log, cut.left.add(cut.taken), log.limited(limit), InvalidationLog.from_json(log.as_json())):
        remembered = {i: e.gone for e in found.entries for i in UNIVERSE if i in e.span}
        for i in UNIVERSE:
            assert sum(e.gone for e in told if i in e.span) <= remembered.get(i, 0) <= sum(e.gone for e in told)


test_rows_that_went_are_never_forgotten_for_new_data = for_new_data(test_rows_that_went_are_never_forgotten)


@pytest.mark.parametrize("cause", [Cause.FORCED, Cause.INVALIDATED, Cause.LOST])
def test_where_nobody_can_tell_what_went_no_bucket_takes_the_count_of_another(cause: Cause) -> None:
    """
    Rows that were seen to go from one span say nothing about the spans beside it.
    """
    seen = [Entry(Span(10, 20), 1, Cause.CHANGE, gone=3), Entry(Span(30, 40), 1, Cause.CHANGE, gone=1)]
    log = InvalidationLog().add([*seen, Entry(Span(0, 50), None, cause)])
    assert [0, 3, 0, 1, 0] == [e.gone for e in log.entries]


def test_more_rows_than_any_source_has_stay_that_many() -> None:
    """
    Where all rows may have gone, more that go change nothing.
    """
    all_gone = Entry(Span(0, 9), gone=ANY_ROWS)
    assert ANY_ROWS == InvalidationLog().add([all_gone, all_gone]).entries[0].gone


def test_many_keys_become_any_key() -> None:
    """
    An entry remembers a bounded number of keys; one more and it stands for every key.
    """
    few = Entry(Span(0, 9), 1, Cause.CHANGE, frozenset((k,) for k in range(MAX_KEYS)))
    more = Entry(Span(0, 9), 1, Cause.CHANGE, frozenset({("other",)}))

    assert InvalidationLog().add([few, few]).entries == (few,)
    assert InvalidationLog().add([few, more]).entries[0].keys is None


def test_a_new_aggregate_is_dirty_everywhere() -> None:
    """
    All of time is in the first log, without a version to start from.
    """
    first = InvalidationLog.everything()
    again = first.add([Entry(Span(3, 4), after=2, cause=Cause.CHANGE, is_insert_only=True)])

    assert first.spans.covers(Span(NEG_INF, POS_INF))
    assert first == again


def test_the_generator_makes_what_matters() -> None:
    """
    Overlapping entries of different age, and a log of three entries and more, do occur.
    """
    quick = settings(phases=[Phase.generate], derandomize=True)
    log = InvalidationLog()

    assert find(
        entry_lists(), lambda es: len({e.after for e in es}) > 1 and len(log.add(es).entries) > 2, settings=quick
    )


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("after", [None, 3])
@pytest.mark.parametrize("inserts", [True, False])
def test_only_inserts_that_the_feed_named_can_be_merged(cause: Cause, after: int | None, inserts: bool) -> None:
    """
    Since a version that the partials reflect; all else has to be computed anew.
    """
    entry = Entry(Span(0, 10), after, cause, is_insert_only=inserts)
    assert entry.is_mergeable is (cause is Cause.CHANGE and after == 3 and inserts)


def test_a_log_that_is_too_long_forgets_keys_first() -> None:
    """
    Neighbours that differ by their keys alone become one, which still has its version.
    """
    entries = [Entry(Span(i, i + 1), 3, Cause.CHANGE, keys=frozenset({(i,)})) for i in range(4)]
    assert InvalidationLog().add(entries).limited(2).entries == (Entry(Span(0, 4), 3, Cause.CHANGE),)


def test_the_newest_bucket_is_not_joined_with_the_time_after_it() -> None:
    """
    Where a log is too long, other neighbours are joined first, though these touch.
    """
    entries = [Entry(Span(at, at + 1), 3, Cause.CHANGE) for at in (0, 10, 20)] + [Entry(Span(21, POS_INF))]
    first, *_, new = InvalidationLog().add(entries).limited(3).entries
    assert (Span(0, 11), Span(21, POS_INF)) == (first.span, new.span)


def scattered(count: int, **facts: Any) -> list[Entry]:
    """Return entries of one hour each, that do not touch, in no order."""
    entries = [Entry(Span(2 * i, 2 * i + 1), 7, Cause.CHANGE, is_insert_only=True, **facts) for i in range(count)]
    random.Random(count).shuffle(entries)
    return entries


def test_adding_many_spans_takes_one_pass() -> None:
    """
    Four times as many spans take about four times the work, also if some overlap those of the log.
    """

    def adding(count: int) -> InvalidationLog:
        return InvalidationLog().add(scattered(count)).add(scattered(count // 2))

    assert grows_by(adding, 1_000, 4_000) < 6


def test_cutting_many_spans_takes_one_pass() -> None:
    """
    Four times as many entries, cut at as many spans, take about four times the work.
    """

    def cutting(count: int) -> object:
        return log.cut(SpanSet.of(*(e.span for e in log.entries[: 2 * count : 2])))

    log = InvalidationLog().add(scattered(8_000))

    assert calls_of(lambda: log.cut(SpanSet.of(log.entries[5].span))) < 40 * len(log.entries)
    assert grows_by(cutting, 1_000, 4_000) < 6


def test_many_spans_are_few_bytes() -> None:
    """
    A hundred thousand dirty spans, in the way in which a capture finds them, take less than 5 MB, and come back as they were.
    """
    log = InvalidationLog().add(scattered(100_000, keys=frozenset({("a",)})))
    text = json.dumps(log.as_json())

    assert len(text) < 5_000_000
    assert log == InvalidationLog.from_json(json.loads(text))


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=30, max_size=60), st.integers(1, 3_600_000_000))
def test_many_entries_survive_json(facts: list[int], width: int) -> None:
    """
    Entries that differ in their spans alone are written together, and read back in their order between the others.
    """
    log = InvalidationLog().add(
        Entry(Span(3 * i * width - 50, (3 * i + 1) * width - 50), after, Cause.CHANGE, gone=after)
        for i, after in enumerate(facts)
    )
    written = log.as_json()

    assert log == InvalidationLog.from_json(json.loads(json.dumps(written)))
    assert len(written) < len(log.entries)
