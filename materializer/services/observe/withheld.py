"""What gates withhold from an output, and by which checks; read from the journal alone."""

from __future__ import annotations

from msgspec import Struct

from materializer.core.quality.verdict import critical_words
from materializer.core.time.spans import SpanSet
from materializer.journal.state import AggregateState, Ended


class Withheld(Struct, frozen=True):
    """Buckets that a gate withheld or refused, and that no later refresh published.

    Args:
        spans: The buckets.
        refresh: The refresh whose gate looked last.
        checks: The critical checks that failed, each with its suite, in words.
    """

    spans: SpanSet
    refresh: int
    checks: tuple[str, ...]


def withheld(state: AggregateState) -> list[Withheld]:
    """Return what gates withhold, by the refresh that looked last; what was refused as a whole may reach over clean buckets."""
    found: list[Withheld] = []
    if not any(ended.verdict for ended in state.ended):
        return found
    for ended in state.ended:
        now = _of(ended)
        if ended.outcome in {"done", "switched"} or now:
            seen = SpanSet.of(ended.window)
            found = [Withheld(w.spans - seen, w.refresh, w.checks) for w in found if w.spans - seen]
        found += [Withheld(now, ended.n, critical_words(ended.verdict))] if now else []
    return found


def _of(ended: Ended) -> SpanSet:
    """Return what the gate of a refresh did not let through."""
    if ended.outcome in {"done", "switched"}:
        return SpanSet.from_json(ended.verdict.get("held", []))
    is_refused = critical_words(ended.verdict) and "published_anyway" not in ended.verdict
    return SpanSet.of(ended.window) if is_refused else SpanSet()
