"""Symbolic links in a lake: nothing is written or removed through one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from materializer.errors import NOTHING, OutsideLakeError
from materializer.lake import places


def refuse(folder: str, wanted: Iterable[str]) -> None:
    """Refuse places in a folder that are symbolic links: what is written or removed there would lie elsewhere.

    Args:
        folder: A folder; it may be a link itself.
        wanted: Places relative to it, with their folders before them; those that do not exist are fine. A store has no links.

    Raises:
        OutsideLakeError: If one is a link.
    """
    for each in wanted if places.is_local(folder) else ():
        place = Path(folder) / each
        if place.is_symlink():
            raise OutsideLakeError(
                f"'{place}' is a link to '{place.readlink()}', and nothing is written or removed through a link",
                hint="put what it names in its place; the root of a lake may be a link, or be named directly",
                wrote=NOTHING,
            )


def refuse_around(table: str) -> None:
    """Refuse a table of the journal of which the folder, the one around it or the log is a symbolic link; as :func:`refuse`."""
    state = places.parent(table)
    inside = f"{places.name(state)}/{places.name(table)}"
    refuse(places.parent(state), (places.name(state), inside, f"{inside}/_delta_log"))
