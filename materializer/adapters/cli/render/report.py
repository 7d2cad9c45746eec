"""``report``: where the page is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import wrapped


class ReportResult(Result, frozen=True):
    """Where a report is: a file, or the address of a server."""

    place: str
    is_served: bool

    def form(self) -> dict[str, Any]:
        return {"report": self.place, "served": self.is_served}

    def lines(self, width: int) -> Iterator[str]:
        what = (
            "open it in a browser; it shows each change until you press Ctrl-C"
            if self.is_served
            else "open it in a browser"
        )
        yield self.place
        yield from wrapped(what, "  ", width=width)
