"""``drop``: aggregates that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from materializer.adapters.cli.render.result import Result


class DropResult(Result, frozen=True):
    """An aggregate that is gone, with those that read it, which went before it."""

    name: str
    readers: tuple[str, ...] = ()

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "dropped": True, "readers": list(self.readers)}

    def lines(self, width: int) -> Iterator[str]:  # noqa: ARG002 - lines are short
        for reader in self.readers:
            yield f"{reader}: dropped with its tables"
        yield f"{self.name}: dropped with its tables; its source was not touched"
