"""What of a Delta table is refused before a library sees it: logs that end a process, and files that are none or lie elsewhere.

Sources are written by others. The limits are far beyond what writers make, and cost a ``stat`` for each file that they guard.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from materializer.errors import NOTHING, SourceDamagedError
from materializer.lake import places

MOST_DEPTH: Final = 5_000
"""Brackets of a line or of statistics that may be open at once. A library's parser passed 20,000 of them; 100,000 ended the process."""
MOST_BYTES: Final = 1 << 30
"""Bytes that a file of a log may have: those of a commit that adds about two million files."""
MOST_BESIDE: Final = 1 << 28
"""Bytes that a file beside our tables may have: those of the list of about a million aggregates."""
TWO_DOTS: Final = r"(\.|%2[eE]){2}"
"""What the relative path of a file has that leads out of its table; few others have it."""
_FILE: Final = re.compile(r"file:(?://[^/]*)?(?=/)", re.IGNORECASE)
"""What stands before the path of a file in its address: `file:///…` as a library writes it, `file:/…` as Hadoop does."""
_LEAST: Final = 2 * MOST_DEPTH
"""Bytes below which a text cannot be deeper."""
_BRACKETS: Final = re.compile(rb"[\[\]{}]+")
_LOGGED: Final = re.compile(r"(\d{20})\.(.*\.)?(json|parquet)$")
"""Commits, checkpoints of each kind, and compacted commits, which begin with their first version."""
_PART: Final = re.compile(r"\.checkpoint\.\d{10}\.(\d{10})\.parquet$")
_MOST_PASSED: Final = 10_000
_PASSED: Final[set[tuple[str, object]]] = set()
"""Files that were looked at in this process, which never change."""
_MOST_CONTENT: Final = 1 << 24
_CONTENT: Final[dict[str, tuple[object, bytes]]] = {}
"""Commits that were looked at and are still to be read, at most so many bytes, with what tells each from another of its name."""
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
        names: Paths as they are on disk, relative to it or absolute, or addresses of such.

    Raises:
        SourceDamagedError: If one is a pipe, a device or a folder; one that does not exist is for the reader to tell.
    """
    for name in names if places.is_local(table) else ():
        place = _FILE.sub("", name, count=1) if ":" in name and _FILE.match(name) else name
        try:
            mode = os.stat(os.path.join(table, place)).st_mode  # noqa: PTH116, PTH118 - of thousands of files
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise SourceDamagedError(
                f"'{name}' of the table at '{table}' is no regular file", hint=_HINT, wrote=NOTHING
            )


def content_beside(place: str) -> bytes:
    """Return the content of a file of ours beside our tables, which others may have replaced.

    Args:
        place: A file of at most :data:`MOST_BESIDE` bytes.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is a link, a pipe, a device or a folder, or larger.
    """
    if places.is_local(place):
        found = Path(place).lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BESIDE:
            raise ValueError(f"'{place}' is not what is written there")
    return places.read(place)


def endless(folder: str, names: Iterable[str]) -> str:
    """Return the first of some files of a folder on a path that is a pipe or a device, which reading never ends; "" without one."""
    for name in names if places.is_local(folder) else ():
        place = Path(folder, name)
        if place.exists() and not place.is_file() and not place.is_dir():
            return name
    return ""


def depth_of(text: bytes, enough: int = MOST_DEPTH) -> int:
    """Return how many brackets of a text are open at once, those in literals too; counting ends above *enough*.

    Examples:
        >>> depth_of(b'{"a": [1, {"b": 2}]} [')
        3
    """
    depth = most = 0
    for match in _BRACKETS.finditer(text):
        found = match[0]
        opened = found.count(b"[") + found.count(b"{")
        most = max(most, depth + opened)
        if most > enough:
            break
        depth = max(depth + 2 * opened - len(found), 0)
    return most


def refuse_deep(table: str, version: int | None = None) -> None:
    """Refuse a table whose log cannot be read without harm: nested too deeply, far too large, or with a pipe in it.

    What a library reads for a version is looked at: the newest whole checkpoint before it, and all after that. A store costs one
    listing, and what is larger than a commit that could be too deep is read.

    Args:
        table: Its place.
        version: The version that will be read; None for the newest.

    Raises:
        SourceDamagedError: If there is such a file.
    """
    with suppress(OSError):  # the reader tells it
        for name, size in _files_of(f"{table}/_delta_log", version):
            refuse_deep_file(table, name, size)


def _files_of(log: str, version: int | None) -> Iterator[tuple[str, int]]:
    """Yield the files that a library reads for a version, with their bytes; pipes are refused, which have no end."""
    is_local = places.is_local(log)
    listed = dict.fromkeys(places.names(log), 0) if is_local else {file.name: file.bytes for file in places.files(log)}
    found = sorted((int(match[1]), name) for name in listed if (match := _LOGGED.match(name)))
    found = [each for each in found if version is None or each[0] <= version]
    since = max(_whole_checkpoints(found), default=-1)
    wanted = [name for at, name in found if at >= since]
    if is_local and "_sidecars" in listed:
        wanted += [f"_sidecars/{name}" for name in places.names(f"{log}/_sidecars")]
    wanted += [name for name in listed if name.startswith("_sidecars/")]
    if is_local:
        refuse_irregular(log, [*wanted, "_last_checkpoint"])
    yield from ((name, _size(f"{log}/{name}") if is_local else listed[name]) for name in wanted)


def refuse_deep_file(table: str, name: str, size: int) -> None:
    """Refuse a file of a log that is nested too deeply or is far too large; raises as :func:`refuse_deep`.

    Args:
        table: The place of the table.
        name: The name of the file, below the folder of the log.
        size: Its bytes.
    """
    place = f"{table}/_delta_log/{name}"
    if size > MOST_BYTES:
        _refuse(table, name, f"is larger than {MOST_BYTES:,} bytes")
    if size < _LEAST and not name.endswith(".parquet"):
        return
    known = (place, size if not places.is_local(place) else places.identity(place))
    is_parquet = name.endswith(".parquet")
    if known in _PASSED or (is_parquet and _is_noted(place)):
        return
    content = b"" if is_parquet else places.read(place)
    texts = _statistics(place) if is_parquet else iter(content.split(b"\n"))
    if any(depth_of(text) > MOST_DEPTH for text in texts if len(text) >= _LEAST):
        _refuse(table, name, f"is nested deeper than {MOST_DEPTH:,} brackets")
    if len(_PASSED) >= _MOST_PASSED:
        _PASSED.clear()
    _PASSED.add(known)
    if is_parquet and places.is_local(place):
        from materializer.lake import looked_at  # noqa: PLC0415 - most logs have no checkpoint

        looked_at.note(place)
    if 0 < len(content) <= _MOST_CONTENT:
        if sum(len(each) for _, each in _CONTENT.values()) + len(content) > _MOST_CONTENT:
            _CONTENT.clear()
        _CONTENT[place] = known[1], content


def _is_noted(place: str) -> bool:
    """Return whether this user has looked at a checkpoint before."""
    from materializer.lake import looked_at  # noqa: PLC0415 - most logs have no checkpoint

    return places.is_local(place) and looked_at.knows(place)


def content_of(place: str) -> bytes | None:
    """Return the content of a commit that was read to look at it, once; None if it is to be read.

    Args:
        place: Its file.
    """
    known = _CONTENT.pop(place, None)
    if known is None or (places.is_local(place) and known[0] != places.identity(place)):
        return None
    return known[1]


def forget(table: str) -> None:
    """Forget the commits of a table that are still to be read, because it may be another one from now on."""
    for place in [each for each in tuple(_CONTENT) if each.startswith(f"{table}/")]:
        _CONTENT.pop(place, None)


def _refuse(table: str, name: str, what: str) -> None:
    match = _LOGGED.match(name)
    raise SourceDamagedError(
        f"'{name}' of the log of the table at '{table}' {what}",
        hint=_HINT,
        version=int(match[1]) if match else None,
        wrote=NOTHING,
    )


def _whole_checkpoints(found: Iterable[tuple[int, str]]) -> Iterator[int]:
    """Yield the versions of checkpoints of which each part is there; a library passes over others."""
    parts: Counter[tuple[int, int]] = Counter()
    for version, name in found:
        if match := _PART.search(name):
            parts[version, int(match[1])] += 1
            if parts[version, int(match[1])] == int(match[1]):
                yield version
        elif _is_checkpoint(name):
            yield version


def _is_checkpoint(name: str) -> bool:
    return ".checkpoint." in name


def _statistics(place: str) -> Iterator[bytes]:
    """Yield the long texts of statistics in a checkpoint, which a library parses; nothing of a file that it cannot read either."""
    import pyarrow as pa  # noqa: PLC0415 - most logs have no checkpoint
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(places.opened(place))
        if not any(file.schema.column(i).path == "add.stats" for i in range(len(file.schema))):
            return
        for number in range(file.metadata.num_row_groups):
            rows = file.read_row_group(number, columns=["add.stats"])["add"].combine_chunks()
            texts = pc.struct_field(rows, "stats")
            if (pc.max(pc.binary_length(texts)).as_py() or 0) >= _LEAST:
                yield from (text.encode() for text in texts.to_pylist() if text is not None)
    except pa.ArrowException:
        return


def _size(place: str) -> int:
    try:
        return os.stat(place).st_size  # noqa: PTH116 - of each commit since a checkpoint
    except OSError:
        return 0  # it was cleaned out of the log meanwhile


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
