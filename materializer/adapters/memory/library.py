"""A library of expectations in memory: what it answers is known beforehand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from materializer.core.quality.failing import Failing
from materializer.core.quality.suite import Expectation, Suite
from materializer.core.quality.verdict import Auditor, Finding
from materializer.errors import Problem


class MemoryLibrary(Struct, frozen=True):
    """A library that looks at types of expectations only; see :class:`ExpectationLibrary`.

    Args:
        refused: What is wrong with the arguments of expectations of a type, in words.
        unmet: Types of expectations that no frame meets; it does not know in which rows.
    """

    refused: Mapping[str, str] = field(default_factory=dict)
    unmet: Collection[str] = ()

    def examine(
        self,
        frame: Any,  # noqa: ARG002 - the port's signature
        suite: Suite,  # noqa: ARG002 - the port's signature
        expectations: Sequence[Expectation],
        bucket: str,  # noqa: ARG002 - the port's signature
        *,
        most: int,  # noqa: ARG002 - the port's signature
    ) -> tuple[list[Finding], Failing]:
        """See :class:`ExpectationLibrary`."""
        findings = [
            Finding(e.index, e.type, e.kwargs, e.severity, e.type not in self.unmet, engine=Auditor.GREAT_EXPECTATIONS)
            for e in expectations
        ]
        return findings, Failing(buckets={(f.index, f.type): None for f in findings if not f.success})

    def refusals(self, expectations: Sequence[Expectation]) -> list[tuple[int, Problem]]:
        """See :class:`ExpectationLibrary`."""
        return [(e.index, Problem("suite.value", self.refused[e.type])) for e in expectations if e.type in self.refused]

    def render(self, frame: Any, suite: Suite, folder: Path) -> Path:  # noqa: ARG002 - the port's signature
        """Write a page with the name of the suite."""
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "index.html"
        page.write_text(suite.name, encoding="utf-8")
        return page
