"""``invalidate``: what is declared dirty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from materializer.adapters.cli.render.result import Result, span_form
from materializer.adapters.cli.words import span, wrapped
from materializer.core.time.instants import Shown
from materializer.core.time.spans import Span


class InvalidateResult(Result, frozen=True):
    """What was declared dirty."""

    name: str
    time_type: Shown
    span: Span
    reason: str

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "span": span_form(self.span, self.time_type), "reason": self.reason}

    def lines(self, width: int) -> Iterator[str]:
        text = f"{self.name}: {span(self.span, self.time_type)} is dirty now; the next refresh computes it again"
        yield from wrapped(text, width=width)
