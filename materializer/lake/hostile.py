"""What of a Delta table is refused before a library sees it: logs that end a process, and files that are none or lie elsewhere.

Sources are written by others. The limits are far beyond what writers make, and cost a ``stat`` for each file that they guard.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from materializer.errors import NOTHING, SourceDamagedError
from materializer.lake import places

MOST_DEPTH: Final = 5_000
"""Brackets of a commit that may be open at once. A library's parser ends the process with its stack beyond some twenty thousand."""
_LEAST: Final = 2 * MOST_DEPTH
"""Bytes below which a commit cannot be deeper."""
_BRACKETS: Final = re.compile(rb"[\[\]{}]+")
_COMMIT: Final = re.compile(r"(\d{20})(\.json|\.checkpoint\b.*parquet)")
_HINT: Final = "find out who wrote it; nothing of this table is read until it is mended"


def is_outside(name: str) -> bool:
    """Return whether the relative path of a file leads out of its table; an absolute one is that of a shallow clone.

    Examples:
        >>> is_outside("day=1/a..b.parquet"), is_outside("day=1/%2E%2E/../../x"), is_outside("/other/table/x.parquet")
        (False, True, False)
    """
    return ".." in name.replace("%2E", ".").replace("%2e", ".") and ".." in unquote(name).split("/")


def refuse_outside(table: str, names: Iterable[str]) -> None:
    """Refuse files of a table that lie outside of it.

    Raises:
        SourceDamagedError: If the relative path of one leads out of the table.
    """
    for name in names:
        if is_outside(name):
            raise SourceDamagedError(
                f"the log of '{table}' names a file outside of the table: {unquote(name)[:200]!r}",
                hint=_HINT,
                wrote=NOTHING,
            )


def refuse_irregular(table: str, names: Iterable[str]) -> None:
    """Refuse files of a table on a path that are no regular files: reading a pipe never ends.

    Args:
        table: Its folder.
        names: Paths as they are on disk, relative to it or absolute.

    Raises:
        SourceDamagedError: If one is a pipe, a device or a folder; one that does not exist is for the reader to tell.
    """
    for name in names if places.is_local(table) else ():
        try:
            mode = os.stat(os.path.join(table, name)).st_mode  # noqa: PTH116, PTH118 - of thousands of files
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise SourceDamagedError(
                f"'{name}' of the table at '{table}' is no regular file", hint=_HINT, wrote=NOTHING
            )


def depth_of(text: bytes) -> int:
    """Return how many brackets of a text are open at once, those in literals too.

    Examples:
        >>> depth_of(b'{"a": [1, {"b": 2}]} [')
        3
    """
    depth = most = 0
    for found in _BRACKETS.findall(text):
        opened = sum(found.count(each) for each in (b"[", b"{"))
        most = max(most, depth + opened)
        depth = max(depth + 2 * opened - len(found), 0)
    return most


def refuse_deep(table: str) -> None:
    """Refuse a table on a path whose log has a commit, after its newest checkpoint, that is nested too deeply to be parsed.

    Raises:
        SourceDamagedError: If there is one.
    """
    if not places.is_local(table):
        return
    log = f"{table}/_delta_log"
    try:
        found = [m for name in places.names(log) if (m := _COMMIT.fullmatch(name))]
    except OSError:
        return  # the reader tells it
    since = max((match[1] for match in found if match[2] != ".json"), default="")
    for match in found:
        if match[2] != ".json" or match[1] < since:
            continue
        refuse_irregular(log, [match[0]])
        if _is_small(f"{log}/{match[0]}"):
            continue
        if any(depth_of(line) > MOST_DEPTH for line in places.read(f"{log}/{match[0]}").split(b"\n")):
            raise SourceDamagedError(
                f"version {int(match[1])} of the table at '{table}' is nested deeper than {MOST_DEPTH:,} brackets",
                hint=_HINT,
                version=int(match[1]),
                wrote=NOTHING,
            )


def _is_small(place: str) -> bool:
    try:
        return os.stat(place).st_size < _LEAST  # noqa: PTH116 - of each commit since a checkpoint
    except OSError:
        return True  # it was cleaned out of the log meanwhile


def refuse_extraordinary(folder: str, name: str) -> None:
    """Refuse what is in a folder by this name, with all below it, if anything of it is a link, a pipe or a device.

    Raises:
        SourceDamagedError: If something is.
    """
    place = Path(folder, name)
    if not places.is_local(folder) or not os.path.lexists(place):
        return
    _refuse_one(folder, place)
    for above, folders, files in os.walk(place) if place.is_dir() else ():
        for each in (*folders, *files):
            _refuse_one(folder, Path(above, each))


def _refuse_one(folder: str, place: Path) -> None:
    name = str(place.relative_to(folder))
    if place.is_symlink():
        raise SourceDamagedError(f"'{name}' is a link", wrote=NOTHING)
    if not place.is_dir():
        refuse_irregular(folder, [name])
