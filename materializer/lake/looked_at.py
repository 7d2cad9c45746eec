"""Checkpoints that this user has looked at before: reading one takes longer than a command that has nothing to do.

They are noted in a file of the user's cache, a line for each, by what tells a file from another of its name. Who cannot write there looks again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from materializer.lake import places
from materializer.machine import cache_dir

NAME: Final = "looked-at"
_MOST_BYTES: Final = 1 << 20


def knows(path: str) -> bool:
    """Return whether a file of this machine was looked at as it is: writing it again changes its times."""
    with suppress(OSError, RuntimeError):
        return _digest(path) in _noted(_file())
    return False


def note(path: str) -> None:
    """Note that a file of this machine was looked at."""
    with suppress(OSError, RuntimeError):  # a user may have no home
        file, digest = _file(), _digest(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        is_long = file.exists() and file.stat().st_size > _MOST_BYTES
        with file.open("w" if is_long else "a", encoding="ascii") as lines:
            lines.write(f"{digest}\n")
        _noted(file).add(digest)


def _file() -> Path:
    return cache_dir() / NAME


def _digest(path: str) -> str:
    return sha256(repr((path, *places.signature(path))).encode()).hexdigest()


@cache
def _noted(file: Path) -> set[str]:
    with suppress(OSError, UnicodeDecodeError):
        return set(file.read_text(encoding="ascii").split())
    return set()
