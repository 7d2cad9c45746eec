"""Gates and checks as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.words import count, duration, span, spans, wrapped
from materializer.core.quality.verdict import Finding
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet

if TYPE_CHECKING:
    from materializer.core.quality.canaries import Canaries
    from materializer.services.quality.check import CheckReport

KINDS = ("output", "source", "canaries")


def check_lines(report: CheckReport, kind: TimeType, width: int) -> Iterator[str]:
    """Yield what a check found, and some of the rows that fail."""
    verdict = report.verdict
    what = f"suite {verdict.suite}" if verdict.suite else "built-in checks"
    where = f" in {span(report.window, kind)}" if report.window else ""
    met = f"{len(verdict.findings) - len(verdict.failed)} of {count(len(verdict.findings), 'expectation')} met"
    yield from wrapped(f"{what}, version {report.version}{where}: {met}", f"{report.name}: ", width=width)
    for finding in verdict.failed:
        yield from wrapped(finding.words(), f"  {finding.severity:<8}  ", width=width)
    for row in report.rows:
        shown = ", ".join(f"{k}={v}" for k, v in row.values.items())
        yield from wrapped(f"{row.type}: {shown}", "  row       ", width=width)
    if report.docs:
        yield from wrapped(report.docs, "  page      ", width=width)
    yield f"  {duration(report.seconds)}"


def canaries_text(c: Canaries, kind: TimeType) -> str:
    """Return what canaries found so far, and what it bounds."""
    when = "in every refresh" if c.every == 1 else f"once in {c.every} refreshes"
    parts = [f"{count(c.count, 'published bucket')} and {c.count} about to be, {when}"]
    if c.n:
        parts[0] += f"; last in refresh {c.n}, {c.at}"
    if c.at_most is not None:
        since = f" since refresh {c.differed_n}" if c.differed_n else ""
        parts.append(
            f"{count(c.clean, 'random published bucket')} sampled clean{since}: at most {c.at_most:.2%} of all as they were "
            "then are wrong, with 95 % confidence"
        )
    else:
        parts.append("no published bucket sampled clean yet: nothing is bounded")
    if c.touched:
        parts.append(f"{count(c.touched, 'bucket')} about to be published sampled clean")
    if c.differed_n:
        parts.append(f"refresh {c.differed_n} found a difference in {spans(c.differed, kind)}")
    return "\n".join(parts)


def gate_text(verdict: Mapping[str, Any], kind: TimeType) -> str:
    """Return what a gate decided, in one sentence; "" where there was none."""
    if not verdict:
        return ""
    parts = [_suite(name, verdict[name]) for name in KINDS if name in verdict]
    if held := verdict.get("held"):
        parts.append(f"held back {spans(SpanSet.from_json(held), kind)}")
    if anyway := verdict.get("published_anyway"):
        parts.append(f"published anyway: {anyway['reason']}")
    return "; ".join(parts)


def _suite(kind: str, found: Mapping[str, Any]) -> str:
    name = found["suite"] or ("built-in checks" if kind == "output" else kind)
    failed = [Finding.from_json(f) for f in found["failed"]]
    if not failed:
        return f"{name} met"
    return f"{name}: " + ", ".join(f"{f.severity} {f.words()}" for f in failed)
