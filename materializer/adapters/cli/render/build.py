"""``build``, ``rollback``, ``switch`` and ``abandon``: another version of an aggregate beside what is published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.refresh import RefreshResult, run_form
from materializer.adapters.cli.render.result import DONE, IDLE, Result, spans_form
from materializer.adapters.cli.words import duration, number, spans, wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.versions.build import BuildReport
    from materializer.services.versions.versions import SwitchReport


class BuildResult(Result, frozen=True):
    """What ``build`` or ``rollback`` did to the next version of one aggregate."""

    report: BuildReport

    @property
    def exit_status(self) -> int:
        return IDLE if not self.report.runs and self.report.switched is None else DONE

    def form(self) -> dict[str, Any]:
        b = self.report
        return {
            "name": b.name,
            "runs": [run_form(run, b.time_type) for run in b.runs],
            "missing": spans_form(b.lack.spans, b.time_type),
            "why_not": b.why_not,
            "switch": None if b.switched is None else SwitchResult(b.switched).form(),
            "seconds": round(b.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        b = self.report
        for refresh in [r for r in b.refreshes if r.runs] if b.runs else b.refreshes[:1]:
            yield from RefreshResult(refresh, b.time_type).lines(width)
        if b.switched is not None:
            yield from SwitchResult(b.switched).lines(width)
            return
        text = f"not published: {b.why_not}"
        if b.lack.spans:
            missing = spans(b.lack.spans, b.time_type)
            text = f"not published yet: {missing} to be built; 'materializer build {b.name}' goes on"
        elif b.why_not == "asked":
            text = f"the next version is ready; 'materializer switch {b.name}' publishes it"
        yield from wrapped(text, f"{b.name}: ", width=width)


class SwitchResult(Result, frozen=True):
    """What ``switch`` did."""

    report: SwitchReport

    def form(self) -> dict[str, Any]:
        return as_dict(self.report) | {"seconds": round(self.report.seconds, 3)}

    def lines(self, width: int) -> Iterator[str]:
        s = self.report
        rows = "" if s.rows is None else f", {number(s.rows)} rows"
        text = f"the next version is published at source version {s.source_version}{rows}, {duration(s.seconds)}"
        yield from wrapped(text, f"{s.name}: ", width=width)
        back = f"the version before is kept; 'materializer rollback {s.name}' publishes it again"
        for line in (*s.differences, *([back] if s.previous else ())):
            yield from wrapped(line, "    ", width=width)


class AbandonResult(Result, frozen=True):
    """A next version that was given up."""

    name: str

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "abandoned": True}

    def lines(self, width: int) -> Iterator[str]:  # noqa: ARG002 - one line
        yield f"{self.name}: the next version is given up; what is published stays"
