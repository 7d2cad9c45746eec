"""``show --how``: text with which other programs read the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import wrapped

if TYPE_CHECKING:
    from materializer.services.report.snippets import Snippet


@dataclass(frozen=True, slots=True)
class HowResult(Result):
    """How programs read the table of an aggregate. Lines of a snippet are never wrapped: they are pasted."""

    name: str
    snippets: tuple[Snippet, ...]

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "snippets": [asdict(s) for s in self.snippets]}

    def lines(self, width: int) -> Iterator[str]:
        for at, snippet in enumerate(self.snippets):
            if at:
                yield ""
            yield from wrapped(snippet.needs, f"-- {snippet.program}: ", width=width)
            yield from snippet.text.split("\n")
