"""``show --how``: text with which other programs read the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.report.snippets import Snippet


class HowResult(Result, frozen=True):
    """How programs read the table of an aggregate. Lines of a snippet are never wrapped: they are pasted."""

    name: str
    snippets: tuple[Snippet, ...]

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "snippets": [as_dict(s) for s in self.snippets]}

    def lines(self, width: int) -> Iterator[str]:
        for at, snippet in enumerate(self.snippets):
            if at:
                yield ""
            yield from wrapped(snippet.needs, f"-- {snippet.program}: ", width=width)
            yield from snippet.text.split("\n")
