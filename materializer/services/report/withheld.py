"""What gates withhold from an output, and by which checks; read from the journal alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from materializer.core.quality.verdict import Finding, Severity
from materializer.core.time.spans import SpanSet
from materializer.journal.state import AggregateState, Ended

_SUITES = ("output", "source", "canaries")


@dataclass(frozen=True, slots=True)
class Withheld:
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
    for ended in state.ended:
        now = _of(ended)
        if ended.outcome in {"done", "switched"} or now:
            seen = SpanSet.of(ended.window)
            found = [Withheld(w.spans - seen, w.refresh, w.checks) for w in found if w.spans - seen]
        found += [Withheld(now, ended.n, tuple(_critical(ended.verdict)))] if now else []
    return found


def _of(ended: Ended) -> SpanSet:
    """Return what the gate of a refresh did not let through."""
    if ended.outcome in {"done", "switched"}:
        return SpanSet.from_json(ended.verdict.get("held", []))
    return SpanSet.of(ended.window) if any(_critical(ended.verdict)) else SpanSet()


def _critical(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield the critical checks of a verdict that failed, in words."""
    for kind in _SUITES:
        suite = verdict.get(kind, {})
        failed = [Finding.from_json(f) for f in suite.get("failed", [])]
        name = suite.get("suite") or ("built-in checks" if kind == "output" else kind)
        words = [f.words() for f in failed if f.severity is Severity.CRITICAL]
        if words:
            yield f"{name}: {', '.join(words)}"
