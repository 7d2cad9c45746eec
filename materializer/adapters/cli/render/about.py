"""``setup`` and ``version``: what is installed, fetched and made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import DONE, IDLE, Result
from materializer.adapters.cli.words import duration, labelled, size, wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.demo.prepare import PreparedDemo


class SetupResult(Result, frozen=True):
    """What ``setup`` fetched and made."""

    prepared: PreparedDemo

    @property
    def exit_status(self) -> int:
        return DONE if self.prepared.is_new else IDLE

    def form(self) -> dict[str, Any]:
        p = self.prepared
        archive = None if p.archive is None else str(p.archive)
        return {"setup": as_dict(p) | {"archive": archive, "jars": list(p.jars)}}

    def lines(self, width: int) -> Iterator[str]:
        p = self.prepared
        yield from labelled([("jars", ", ".join(p.jars) or "none")], width=width, indent=0)
        done = f"made in {duration(p.seconds)}" if p.is_new else "there already"
        text = f"none: {p.reason}" if p.archive is None else f"{p.archive}, {size(p.bytes)}, {done}"
        yield from wrapped(text, "archive  ", width=width)


class VersionResult(Result, frozen=True):
    """What is installed, by name."""

    versions: dict[str, str]

    def form(self) -> dict[str, Any]:
        return {"versions": self.versions}

    def lines(self, width: int) -> Iterator[str]:
        yield from labelled(self.versions.items(), width=width, indent=0)
