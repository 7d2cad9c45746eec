"""``completion``: a script for a shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from materializer.adapters.cli.render.result import Result


class CompletionResult(Result, frozen=True):
    """The script of a shell."""

    shell: str
    script: str

    def form(self) -> dict[str, Any]:
        return {"shell": self.shell, "script": self.script}

    def lines(self, width: int) -> Iterator[str]:  # noqa: ARG002 - a script is printed as it is
        yield from self.script.splitlines()
