"""Digests that this user's processes noted: what was looked at once, and need not be looked at again.

Each kind is a file of the user's cache with a digest a line. Who cannot read or write there notes nothing, and looks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from materializer.machine import cache_dir

_MOST_BYTES: Final = 1 << 21


def noted(kind: str) -> set[str]:
    """Return the digests that were noted of a kind."""
    with suppress(OSError, RuntimeError):  # a user may have no home
        return _read(cache_dir() / kind)
    return set()


def note(kind: str, digests: Iterable[str]) -> None:
    """Note digests of a kind; a file that grew long begins anew with them."""
    with suppress(OSError, RuntimeError):
        file, new = cache_dir() / kind, sorted(set(digests) - noted(kind))
        if not new:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        is_long = file.exists() and file.stat().st_size > _MOST_BYTES
        with file.open("w" if is_long else "a", encoding="ascii") as lines:
            lines.write("".join(f"{digest}\n" for digest in new))
        _read(file).update(new)


@cache
def _read(file: Path) -> set[str]:
    with suppress(OSError, UnicodeDecodeError):
        return set(file.read_text(encoding="ascii").split())
    return set()
