"""What a gate decided about a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from materializer.adapters.cli.render.result import spans_form, value_form
from materializer.adapters.cli.words import spans
from materializer.core.quality.verdict import Finding
from materializer.core.time.instants import Shown
from materializer.core.time.spans import SpanSet

_SUITES = ("output", "source", "canaries")


def gate_form(verdict: Mapping[str, Any], kind: Shown) -> dict[str, Any] | None:
    """Return what a gate decided; None where there was none."""
    if not verdict:
        return None
    anyway, sampled = verdict.get("published_anyway"), verdict.get("sampled")
    if sampled:
        differed = spans_form(SpanSet.from_json(sampled["differed"]), kind)
        sampled = {"clean": sampled["clean"], "touched": sampled.get("touched", 0), "differed": differed}
    return {
        "published_anyway": anyway["reason"] if anyway else None,
        "held": spans_form(SpanSet.from_json(verdict.get("held", [])), kind),
        "sampled": sampled,
        "suites": [{"of": of, **value_form(verdict[of])} for of in _SUITES if of in verdict],
    }


def gate_text(verdict: Mapping[str, Any], kind: Shown) -> str:
    """Return what a gate decided, in one sentence; "" where there was none."""
    parts = [_suite_text(of, verdict[of]) for of in _SUITES if of in verdict]
    if withheld := verdict.get("held"):
        parts.append(f"withheld {spans(SpanSet.from_json(withheld), kind)}")
    if anyway := verdict.get("published_anyway"):
        parts.append(f"published anyway: {anyway['reason']}")
    return "; ".join(parts)


def _suite_text(of: str, suite: Mapping[str, Any]) -> str:
    name = suite["suite"] or ("built-in checks" if of == "output" else of)
    failed = [Finding.from_json(f) for f in suite["failed"]]
    return f"{name}: " + ", ".join(f"{f.severity} {f.words()}" for f in failed) if failed else f"{name} met"
