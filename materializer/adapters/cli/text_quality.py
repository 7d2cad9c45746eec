"""Gates and checks as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.words import count, duration, span, spans, wrapped
from materializer.core.quality.verdict import Finding
from materializer.core.spans import SpanSet
from materializer.core.spec import TimeType

if TYPE_CHECKING:
    from materializer.services.check import CheckReport

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
