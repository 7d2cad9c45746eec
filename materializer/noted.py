"""What this user's processes found once, and need not find again, in the user's cache. Who cannot read or write there finds it each time.

Of digests each kind is a file with a digest a line. What else is found is in files of folders that no other user may write: it is believed.
"""

# ruff: noqa: PLC0415 - a command without work writes nothing here

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from materializer.machine import cache_dir

_MOST_BYTES: Final = 1 << 21
_MOST_OF_FILE: Final = 1 << 28


def noted(kind: str) -> set[str]:
    """Return the digests that were noted of a kind."""
    with suppress(OSError, RuntimeError):  # a user may have no home
        return _read(cache_dir() / kind)
    return set()


def note(kind: str, digests: Iterable[str], *, most_bytes: int = _MOST_BYTES) -> None:
    """Note digests of a kind; a file that grew long begins anew with them."""
    with suppress(OSError, RuntimeError):
        file, new = cache_dir() / kind, sorted(set(digests) - noted(kind))
        if not new:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        is_long = file.exists() and file.stat().st_size > most_bytes
        with file.open("w" if is_long else "a", encoding="ascii") as lines:
            lines.write("".join(f"{digest}\n" for digest in new))
        _read(file).update(new)


def own_file(folder: str, name: str) -> bytes:
    """Return the content of a file in a folder of the cache.

    Raises:
        OSError: If there is none.
        RuntimeError: If the user has no home.
        ValueError: If others may write it, or if it is no file.
    """
    file = cache_dir() / folder / name
    if not _is_ours(file.parent) or not _is_ours(file):
        raise ValueError(f"others may write '{file}'")
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_OF_FILE:
        raise ValueError(f"'{file}' is not what is written there")
    return file.read_bytes()


def write_own_file(folder: str, name: str, content: bytes, *, most: int = 0) -> None:
    """Write a file in a folder of the cache, unless others may write there; raises as :func:`own_file`.

    Args:
        folder: The folder.
        name: The file.
        content: What it holds.
        most: How many files the folder has at most, of which those stay that were written last; 0 for any number.
    """
    from tempfile import NamedTemporaryFile

    place = cache_dir() / folder
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(place):
        return
    with NamedTemporaryFile(dir=place, prefix=name, delete=False) as file:
        try:
            file.write(content)
            file.close()
            Path(file.name).replace(place / name)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    files = list(place.iterdir()) if most else []
    if len(files) > most:
        for old in sorted(files, key=lambda each: each.stat().st_mtime_ns)[:-most]:
            old.unlink(missing_ok=True)


def remove_own_file(folder: str, name: str) -> None:
    """Remove a file of a folder of the cache, if there is one; raises as :func:`own_file`."""
    if _is_ours(cache_dir() / folder):
        (cache_dir() / folder / name).unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    """Return whether only this user may write a file or folder, where a system tells."""
    found = path.lstat()
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


@cache
def _read(file: Path) -> set[str]:
    with suppress(OSError, UnicodeDecodeError):
        return set(file.read_text(encoding="ascii").split())
    return set()
