"""``doctor``: what stands in the way of the next refresh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import DONE, FOUND, Result
from materializer.adapters.cli.words import count, wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.report.tables import DoctorFinding


class DoctorResult(Result, frozen=True):
    """What ``doctor`` found."""

    findings: tuple[DoctorFinding, ...]

    @property
    def exit_status(self) -> int:
        return FOUND if self._count("error") else DONE

    def form(self) -> dict[str, Any]:
        return {"findings": [as_dict(f) for f in self.findings]}

    def lines(self, width: int) -> Iterator[str]:
        subject = None
        for f in self.findings:
            if f.subject != subject:
                subject = f.subject
                yield subject
            yield from wrapped(f.message, f"  {f.level:<8} ", width=width)
            if f.hint:
                yield from wrapped(f.hint, "           mend: ", width=width)
        errors, warnings = self._count("error"), self._count("warning")
        sums = f"{count(errors, 'error')}, {count(warnings, 'warning')}"
        yield sums if errors or warnings else "nothing stands in the way of the next refresh"

    def _count(self, level: str) -> int:
        return sum(f.level == level for f in self.findings)
