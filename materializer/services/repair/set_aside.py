"""Making room for a folder: what is ours and worthless is removed, anything else is renamed beside its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from materializer.services.repair.plan import Old


def cleared(path: Path, old: Old) -> tuple[str, ...]:
    """Make room at *path*; what is not ours is renamed, and its new name returned."""
    if not path.exists():
        return ()
    if old is Old.REMOVED:
        shutil.rmtree(path)
        return ()
    return put_aside(path)


def put_aside(path: Path) -> tuple[str, ...]:
    """Rename a folder beside its place, and return its new name."""
    name = next(p for p in _beside(path) if not p.exists())
    path.rename(name)
    return (str(name),)


def _beside(path: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield path.with_name(f"{path.name}.aside" + (f"-{number}" if number > 1 else ""))
        number += 1
