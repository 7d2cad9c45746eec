"""``check``: what a suite says of what an aggregate publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from materializer.adapters.cli.render.result import Result, cell, shown_time, spans_form, value_form, window_form
from materializer.adapters.cli.words import cell_text, count, duration, span, spans, wrapped
from materializer.core.time.instants import Shown

if TYPE_CHECKING:
    from materializer.services.quality.check import CheckReport


class CheckResult(Result, frozen=True):
    """What ``check`` found in what one aggregate publishes."""

    listing = "checked"
    report: CheckReport
    time_type: Shown
    times: Mapping[str, Shown] = field(default_factory=dict)
    """The columns with times of the bucket or window, and how these are shown."""

    def form(self) -> dict[str, Any]:
        r = self.report
        return {
            "name": r.name,
            "window": window_form(r.window, self.time_type),
            "version": r.version,
            "suite": r.verdict.suite,
            "publishable": r.verdict.is_publishable,
            "findings": [value_form(f.as_json()) for f in r.verdict.findings],
            "rows": [{"expectation": row.type, "values": value_form(row.values)} for row in r.rows],
            "docs": r.docs or None,
            "left_to_spark": r.left_to_spark or None,
            "withheld": spans_form(r.withheld, self.time_type),
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        r, verdict = self.report, self.report.verdict
        own = sum(finding.index < 0 for finding in verdict.findings)
        what = f"suite {verdict.suite}" if verdict.suite else "built-in checks"
        if verdict.suite and own:
            what += f" and {count(own, 'built-in check')}"
        where = f" in {span(r.window, self.time_type)}" if r.window else ""
        met = f"{len(verdict.findings) - len(verdict.failed)} of {count(len(verdict.findings), 'expectation')} met"
        yield from wrapped(f"{what}, version {r.version}{where}: {met}", f"{r.name}: ", width=width)
        for finding in verdict.failed:
            yield from wrapped(finding.words(), f"  {finding.severity:<8}  ", width=width)
        for row in r.rows:
            values = ", ".join(f"{k}={cell_text(self._text(k, v))}" for k, v in row.values.items())
            yield from wrapped(f"{row.type}: {values}", "  row       ", width=width)
        if r.withheld:
            why = f"the gate does not publish them, and they were not checked; 'materializer doctor {r.name}' says why"
            yield from wrapped(f"{spans(r.withheld, self.time_type)}: {why}", "  withheld  ", width=width)
        if r.left_to_spark:
            yield from wrapped(r.left_to_spark, "  by Spark  ", width=width)
        if r.docs:
            yield from wrapped(r.docs, "  page      ", width=width)
        yield f"  {duration(r.seconds)}"

    def _text(self, name: str, value: Any) -> str:
        return cell(shown_time(value, self.times.get(name)))
