"""``export``: the file that was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import count, duration, size, wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.delivery.export import ExportReport


class ExportResult(Result, frozen=True):
    """What ``export`` wrote."""

    report: ExportReport

    def form(self) -> dict[str, Any]:
        return as_dict(self.report)

    def lines(self, width: int) -> Iterator[str]:
        r = self.report
        what = f"{count(r.rows, 'row')} of version {r.version} in {r.file}, {size(r.bytes)}, {duration(r.seconds)}"
        yield from wrapped(what, f"{r.name}: ", width=width)
