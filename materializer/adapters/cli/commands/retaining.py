"""``expire`` and ``thaw``: what becomes of history when its raw rows go."""

from __future__ import annotations

from typing import Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import AsStored, Before, Name, Yes

PANEL = "Refresh"


def expire(call: CommandCall, name: Name, *, before: Before, as_stored: AsStored = False, yes: Yes = False) -> None:
    """Freeze history before its raw rows go, and print the statement that deletes them; writes to no source."""
    from materializer.adapters.cli.render.expire import ExpireResult

    call.show(ExpireResult(call.lake.expire(name, before, as_stored=as_stored, dry_run=not yes)))


def thaw(call: CommandCall, name: Name, *, yes: Yes = False) -> None:
    """Give frozen history up: the next refresh computes it from what the source still has."""
    from materializer.adapters.cli.render.expire import ThawResult

    call.show(ThawResult(call.lake.thaw(name, dry_run=not yes)))


COMMANDS: Final = listed(PANEL, expire, thaw)
