"""The choice of a strategy for each dirty bucket: the cheapest one that is allowed, with the reasons against the others.

:func:`decide` is a function of facts that its caller gathered; it reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.refresh.invalidation import MAX_KEYS, Cause, Entry
from materializer.core.refresh.plan import (
    BY_KEY,
    MAX_SPANS,
    RETRACT,
    Estimate,
    ExecutorKind,
    Merge,
    Recompute,
    Rejected,
    Retract,
    Settle,
    Step,
    strategy_of,
)
from materializer.core.refresh.price import Prices
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

MAX_MERGES: Final = 8
"""Most steps of one plan that merge or subtract changed rows. Each reads its own run of source versions, so many small ones cost more than they save."""


_Kind: TypeAlias = type[Merge] | type[Retract]
SCAN: Final = "scan"
"""The strategy that was asked for if one recompute of the whole window is wanted."""
STRATEGIES: Final = ("merge", RETRACT, "recompute", BY_KEY, "roll-up", SCAN)
"""The strategies that can be asked for."""
MOST_REASONS: Final = 3
"""Most reasons against one strategy that a recompute in the place of several steps has of these."""
MUCH: Final = 0.8
"""One recompute takes the place of several steps if it takes less than this share of their time."""
BY_KEYS: Final = "rows of changed keys and stored groups"
WORTH: Final = 0.05
"""And if it saves more than so many seconds."""
BESIDE: Final = 1_000
"""How many rows a merge may cost more than computing its keys, which is another read beside those of other merges."""


def is_cheaper(estimate: Estimate, other: Estimate, seconds: float, tie: float) -> bool:
    """Whether reading one thing is cheaper than another, which takes *seconds* less; a smaller difference than *tie* is none."""
    return seconds < 0 if abs(seconds) > tie else estimate.cost < other.cost


def by_rates(strategy: str, estimate: Estimate, spans: SpanSet) -> float:
    """Return the seconds of a strategy on Spark, before anything was learned."""
    return Prices().reading(ExecutorKind.SPARK, strategy, estimate, len(spans))


class Facts(Struct, frozen=True):
    """The facts that :func:`decide` needs; its caller gathers them.

    Args:
        feed_from: The first version *a* for which the change feed provably covers (a, v]; None when there is none. *v* is the
            pinned version.
        not_mergeable: Why partials cannot be merged; empty when they can.
        not_retractable: Why rows cannot be subtracted from partials; "" when they can.
        partials_are_last: Whether the partials carry the number of the last ended refresh.
        raw: The cost of reading the raw rows of some buckets at the pinned version.
        changed: The cost of reading the changes since a version, inside some buckets.
        stored: The cost of reading the stored partials of some buckets.
        present: The part of some spans where the source or one of our tables may have rows.
        is_first: Whether nothing has ever been materialised.
        no_feed_reason: Why there is no change feed, in words.
        is_of_ours: Whether the source is the output of an aggregate, which needs no change feed.
        frozen: The frozen boundary. Raw rows below it may be gone, so entries there are merged whatever the cost.
        keyed: The cost of reading the raw rows of the changed keys of some entries; None when a bucket is one group.
        not_keyed: Why changed keys are not recorded, at least not without Spark; empty when they are.
        other_source: In which way the source is not the one that was captured; empty when it is.
        price: The seconds of a strategy, by its name, what it reads, and for which buckets.
        only: The one strategy that was asked for where it is allowed; "" when the price decides.
        tie: Prices that differ by fewer seconds do not decide.
        step: The seconds of a step beyond the first.
        copy: The seconds of copying the stored groups of clean buckets, in both tables.
        write: The seconds of writing as many groups.
    """

    raw: Callable[[SpanSet], Estimate]
    changed: Callable[[int, SpanSet], Estimate]
    stored: Callable[[SpanSet], Estimate]
    present: Callable[[SpanSet], SpanSet]
    feed_from: int | None = None
    not_mergeable: tuple[str, ...] = ()
    not_retractable: str = ""
    partials_are_last: bool = True
    is_first: bool = False
    no_feed_reason: str = "the source has no change feed"
    is_of_ours: bool = False
    frozen: int = NEG_INF
    keyed: Callable[[Sequence[Entry]], Estimate] | None = None
    not_keyed: str = ""
    other_source: str = ""
    price: Callable[[str, Estimate, SpanSet], float] = by_rates
    only: str = ""
    tie: float = 1e9
    step: float = 0.0
    copy: Callable[[SpanSet], float] = lambda _: 0.0
    write: Callable[[SpanSet], float] = lambda _: 0.0

    def is_cheaper(self, spans: SpanSet, strategy: str, estimate: Estimate, other: str, others: Estimate) -> bool:
        """Whether a strategy is cheaper than another for the same buckets: in seconds or, where these are nearly equal, in rows."""
        less = self.price(strategy, estimate, spans) - self.price(other, others, spans)
        return is_cheaper(estimate, others, less, self.tie)

    def why_dearer(self, raw: Estimate, chosen: Estimate, strategy: str) -> str:
        """Return in words what speaks for a strategy and against reading raw rows, whose price stands beside it."""
        if self.only == strategy:
            return f"'{strategy}' was asked for"
        if raw.rows > chosen.rows:
            return f"would read {raw.rows:,} raw rows"
        if raw.likely_rows > chosen.likely_rows:
            return f"would aggregate about {raw.likely_rows:,} of {raw.rows:,} raw rows"
        return "would take longer"

    def why_not_cheaper(
        self, what: str, estimate: Estimate, seconds: float, than: str, other: Estimate, others: float
    ) -> str:
        """Return in words why reading one thing is not cheaper than another, by what decided: seconds, or rows."""
        if self.only:
            return f"'{self.only}' was asked for"
        if abs(seconds - others) > self.tie:
            return f"{what} would take longer than {than}, about {seconds - others:.2g} s"
        return (
            f"about {estimate.likely_rows:,} {what} out of {estimate.rows:,} would not be cheaper than {other.likely_rows:,} "
            f"{than} out of {other.rows:,}"
        )


_REASONS: Final = {
    Cause.CHANGE: "rows changed",
    Cause.FILES: "files that may hold rows of these buckets changed (no change feed read)",
    Cause.FORCED: "forced",
    Cause.INVALIDATED: "invalidated by hand",
    Cause.DIFFERED: "a canary found it to differ from its raw rows",
    Cause.LOST: "the source can no longer tell what changed",
    Cause.SOURCE: "the source is not the one that was captured",
    Cause.NEW: "never materialised",
    Cause.REPAIRED: "repaired: what the tables hold there is not known",
    Cause.CONFLICT: "rows were updated or written again below the frozen bound, or a result that begins there has changed, "
    "or nobody can tell what changed there",
    Cause.RETIRED: "older than output.retention",
}
FROZEN: Final = "below the frozen bound raw rows may be gone"


_OF_OURS: Final = "files that may hold rows of these buckets changed"


def reason_of(cause: Cause, *, is_of_ours: bool = False) -> str:
    """Return why a span is dirty, in words, also where the source is the output of an aggregate."""
    return _OF_OURS if is_of_ours and cause is Cause.FILES else _REASONS[cause]


def decide(taken: Iterable[Entry], facts: Facts) -> tuple[Step, ...]:
    """Return one step for each group of dirty buckets with the same treatment, by the cheapest allowed strategy.

    Every instant of *taken* is in exactly one step. Below the frozen boundary, *taken* holds only entries that can be merged or
    are discarded.
    """
    frozen, taken = _split_frozen(taken, facts.frozen)
    present = facts.present(SpanSet.union(e.span for e in taken))
    changing: dict[tuple[int, _Kind], list[Entry]] = {}
    recomputing: dict[tuple[Cause, tuple[Rejected, ...]], list[Entry]] = {}
    settled: list[Span] = []
    discarded: list[Span] = []
    for entry in taken:
        whole = SpanSet((entry.span,))
        settled += whole - present
        for span in whole & present:
            part = replace(entry, span=span)
            if entry.cause is Cause.RETIRED:
                discarded.append(span)
                continue
            reasons: dict[_Kind, str | None] = {
                Merge: why_not_merge(part, facts),
                Retract: why_not_retract(part, facts),
            }
            allowed = next((kind for kind, reason in reasons.items() if reason is None), None)
            if allowed is not None and part.after is not None:
                changing.setdefault((part.after, allowed), []).append(part)
            else:
                against = tuple(Rejected(_NAMES[kind], reason) for kind, reason in reasons.items() if reason)
                recomputing.setdefault((entry.cause, against), []).append(part)
    steps: list[Step] = [_frozen_merge(after, spans, facts) for after, spans in sorted(frozen.items(), reverse=True)]
    for count, (after, kind) in enumerate(sorted(changing, key=lambda c: (c[0], c[1] is Merge), reverse=True)):
        entries = changing[after, kind]
        step, why_not = _from_changes(kind, after, entries, facts)
        seconds = step.seconds if why_not else None
        if count >= MAX_MERGES:
            seconds = None
            why_not = f"more than {MAX_MERGES} different versions to merge from"
        if why_not:
            against = (*_NOT_MERGED[kind], Rejected(strategy_of(step), why_not, seconds))
            recomputing.setdefault((Cause.CHANGE, against), []).extend(entries)
        else:
            steps.append(step)
    for (cause, against), entries in recomputing.items():
        steps += _recomputes(cause, against, entries, facts)
    if discarded:
        steps.append(Recompute(SpanSet.union(discarded), _REASONS[Cause.RETIRED], is_discard=True))
    if settled:
        steps.append(Settle(SpanSet.union(settled)))
    return tuple(steps)


def together(steps: Sequence[Step], facts: Facts, window: SpanSet) -> tuple[Step, ...]:
    """Return the steps of a plan, or one recompute in their place where that is cheaper: of all their buckets, or of all of a window.

    Each step beyond the first has a price of its own, and clean buckets between the spans of a plan are copied, which costs reading
    them; one scan of the window copies nothing.

    Args:
        steps: The steps, from :func:`decide`; of buckets that are not frozen.
        facts: The facts.
        window: The buckets of the window that may be computed from raw rows.
    """
    computed = [s for s in steps if isinstance(s, Merge | Retract) or (isinstance(s, Recompute) and not s.is_discard)]
    dirty = SpanSet.union(span for step in computed for span in step.spans)
    if not computed or facts.only not in ("", SCAN) or not dirty.spans[0].start >= facts.frozen:
        return tuple(steps)
    between = dirty.at_most(MAX_SPANS) - dirty
    pieces = sum(s.seconds for s in computed) + facts.step * (len(computed) - 1) + facts.copy(between)
    raw, every = facts.raw(dirty), facts.present(window) | dirty
    whole, everything = facts.price("recompute", raw, dirty), facts.raw(every)
    scan = facts.price("recompute", everything, every) + facts.write(every - dirty)
    others = [s for s in steps if s not in computed]
    against = _against(computed, pieces, facts.only)
    least = min(pieces, whole + facts.copy(between))
    causes = dict.fromkeys(s.reason for s in computed if isinstance(s, Recompute) and s.is_rebuild)
    is_rebuild = bool(causes)
    if facts.only == SCAN or (scan < MUCH * least and least - scan > max(WORTH, facts.tie)):
        reason = "one scan of the whole window is cheaper than its dirty buckets and what lies between them"
        reason = "; ".join((*causes, reason))
        return (Recompute(every, reason, everything, against, is_rebuild, seconds=scan), *others)
    if len(computed) > 1 and least < MUCH * pieces and pieces - least > max(WORTH, facts.tie):
        reason = "; ".join((*causes, "one recompute is cheaper than several steps"))
        return (Recompute(dirty, reason, raw, against, is_rebuild, seconds=whole), *others)
    return tuple(steps)


def _against(computed: Sequence[Merge | Retract | Recompute], pieces: float, only: str) -> tuple[Rejected, ...]:
    """Return why one recompute takes the place of some steps: what speaks against these, and then what spoke against others.

    What several steps would do with one recompute or rebuild speaks against no other of these.
    """
    same = {"recompute", "rebuild"}
    longer = f"{len(computed)} steps would take longer" if len(computed) > 1 else "would take longer"
    why = f"'{only}' was asked for" if only else longer
    found = {name: Rejected(name, why, pieces) for name in sorted({strategy_of(s) for s in computed} - same)}
    others: dict[str, dict[Rejected, None]] = {}
    for rejected in (r for step in computed for r in step.rejected):
        if rejected.reason and rejected.strategy not in {*same, *found}:
            others.setdefault(rejected.strategy, {})[rejected] = None
    for name, each in others.items():
        reasons = list(dict.fromkeys(r.reason for r in each))
        more = [f"and {len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
        found[name] = (
            next(iter(each)) if len(each) == 1 else Rejected(name, "; ".join([*reasons[:MOST_REASONS], *more]))
        )
    return tuple(found.values())


def _from_changes(kind: _Kind, after: int, entries: Sequence[Entry], facts: Facts) -> tuple[Merge | Retract, str]:
    """Return a step that reads the rows changed since a version, and why another strategy is cheaper, or ""."""
    name, spans = _NAMES[kind], SpanSet.union(e.span for e in entries)
    merge, raw = facts.changed(after, spans) + facts.stored(spans), facts.raw(spans)
    price, whole = facts.price(name, merge, spans), facts.price("recompute", raw, spans)
    against = (*_NOT_MERGED[kind], Rejected("recompute", facts.why_dearer(raw, merge, name), whole))
    found = kind(spans, after, merge, against, price)
    read = ("changed and kept rows", merge, price)
    if facts.only == name:
        return found, ""
    if facts.only:
        return found, f"'{facts.only}' was asked for"
    if not facts.is_cheaper(spans, name, merge, "recompute", raw):
        return found, facts.why_not_cheaper(*read, "raw rows", raw, whole)
    if facts.keyed is not None and all(why_not_keyed(e, facts) is None for e in entries):
        keyed = facts.keyed(entries) + facts.stored(spans)
        beside = BESIDE if kind is Merge else 0
        if facts.is_cheaper(spans, BY_KEY, keyed, name, merge) and merge.cost >= keyed.cost + beside:
            return found, facts.why_not_cheaper(*read, BY_KEYS, keyed, facts.price(BY_KEY, keyed, spans))
    return found, ""


def _recomputes(
    cause: Cause, against: Sequence[Rejected], entries: Sequence[Entry], facts: Facts
) -> Iterator[Recompute]:
    """Yield the recomputes of entries with one cause: of changed keys where that is allowed and cheaper, else of buckets."""
    by_key: dict[str | None, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(why_not_keyed(entry, facts), []).append(entry)
    for why_not_keys, found in by_key.items():
        spans = SpanSet.union(e.span for e in found)
        raw, why_not = facts.raw(spans), why_not_keys
        whole, by_keys = facts.price("recompute", raw, spans), None
        rejected = list(against)
        after = min((e.after for e in found if e.after is not None), default=None)
        changed = facts.changed(after, spans).rows if cause is Cause.CHANGE and after is not None else None
        if why_not_keys is None and facts.keyed is not None:
            keyed = facts.keyed(found) + facts.stored(spans)
            by_keys = facts.price(BY_KEY, keyed, spans)
            is_cheaper = facts.is_cheaper(spans, BY_KEY, keyed, "recompute", raw)
            if (is_cheaper and not facts.only) or facts.only == BY_KEY:
                rejected.append(Rejected("recompute", facts.why_dearer(raw, keyed, BY_KEY), whole))
                keys = len(frozenset[object]().union(*(e.keys or () for e in found)))
                reason = reason_of(cause, is_of_ours=facts.is_of_ours)
                yield Recompute(spans, reason, keyed, tuple(rejected), changed_rows=changed, keys=keys, seconds=by_keys)
                continue
            why_not = facts.why_not_cheaper(BY_KEYS, keyed, by_keys, "raw rows", raw, whole)
        if why_not:
            rejected.append(Rejected(BY_KEY, why_not, by_keys))
        is_rebuild = cause in {Cause.LOST, Cause.SOURCE, Cause.REPAIRED} or facts.is_first
        other = facts.other_source if cause is Cause.SOURCE else ""
        reason = other or reason_of(cause, is_of_ours=facts.is_of_ours)
        yield Recompute(spans, reason, raw, tuple(rejected), is_rebuild, changed, seconds=whole)


def _split_frozen(taken: Iterable[Entry], edge: int) -> tuple[dict[int, SpanSet], tuple[Entry, ...]]:
    """Return the spans to merge below the frozen boundary, by the version they reflect, and the entries above or to discard."""
    frozen: dict[int, list[Span]] = {}
    free: list[Entry] = []
    for entry in taken:
        below = None if entry.cause is Cause.RETIRED or edge == NEG_INF else entry.span & Span(NEG_INF, edge)
        if below is None:
            free.append(entry)
            continue
        if entry.after is None:
            msg = f"[{below.start}, {below.end}) lies below the frozen bound and cannot be merged"
            raise ValueError(msg)
        frozen.setdefault(entry.after, []).append(below)
        if above := entry.span & Span(edge, POS_INF):
            free.append(replace(entry, span=above))
    return {after: SpanSet.union(spans) for after, spans in frozen.items()}, tuple(free)


def _frozen_merge(after: int, spans: SpanSet, facts: Facts) -> Merge:
    """Return a merge of the rows that arrived below the frozen boundary, even where the source no longer has these rows."""
    estimate = facts.changed(after, spans) + facts.stored(spans)
    return Merge(spans, after, estimate, (Rejected("recompute", FROZEN),), facts.price("merge", estimate, spans))


def why_not_merge(entry: Entry, facts: Facts) -> str | None:
    """Return why the changes of an entry cannot be merged into stored partials; None when they can."""
    why = reason_of(entry.cause, is_of_ours=facts.is_of_ours)
    if entry.after is None:
        return "nothing is stored yet to merge into" if entry.cause is Cause.NEW else why
    if entry.cause is not Cause.CHANGE:
        return why
    if not entry.is_insert_only:
        return _NOT_INSERTED
    return facts.not_mergeable[0] if facts.not_mergeable else _why_not_changes(entry.after, facts)


def why_not_retract(entry: Entry, facts: Facts) -> str | None:
    """Return why the changes of an entry cannot be added to stored partials and subtracted from them; None when they can.

    An empty text means that there is no such choice: the stored partials reflect no version, what changed is not known row by
    row, or it can be merged. Rows that went may lie anywhere, so a span without an end has no buckets for them.
    """
    is_known = entry.after is not None and entry.cause is Cause.CHANGE and not facts.is_first
    if entry.after is None or not is_known or entry.is_insert_only or not entry.span.is_bounded:
        return ""
    return facts.not_retractable or _why_not_changes(entry.after, facts)


def _why_not_changes(after: int, facts: Facts) -> str | None:
    """Return why the rows changed since a version cannot be brought into stored partials; None when they can."""
    if facts.feed_from is None or after < facts.feed_from:
        return f"the change feed does not reach back to version {after}" if facts.feed_from else facts.no_feed_reason
    return None if facts.partials_are_last else _NOT_LAST


_NOT_LAST: Final = "the partials do not carry the last ended refresh"
_NOT_INSERTED: Final = "rows were updated or deleted, not only inserted"
_NAMES: Final[dict[_Kind, str]] = {Merge: "merge", Retract: RETRACT}
_NOT_MERGED: Final[dict[_Kind, tuple[Rejected, ...]]] = {
    Merge: (),
    Retract: (Rejected("merge", _NOT_INSERTED),),
}
"""Why changes that are subtracted are not merged."""


def why_not_keyed(entry: Entry, facts: Facts) -> str | None:
    """Return why the groups of changed keys alone cannot be computed; None when they can.

    The stored partials of all other groups must be exact: they reflect ``after``, and no other row changed since. An empty text
    means that there is no such choice: nothing is stored, or a bucket is one group.
    """
    is_known = entry.cause is Cause.CHANGE or (entry.cause is Cause.FILES and entry.keys is not None)
    if facts.keyed is None or facts.is_first or entry.after is None or not is_known:
        return ""
    if entry.keys is None:
        return (
            facts.not_keyed
            or f"more than {MAX_KEYS} keys changed there, or neighbours in the log were joined without their keys"
        )
    return None if facts.partials_are_last else _NOT_LAST
