"""Making room for a folder: an old table of ours is removed if nothing of it is needed, any other folder is renamed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from materializer.services.repair.plan import Old


def cleared(path: Path, old: Old) -> tuple[str, ...]:
    """Make room at *path*: remove the folder there, or rename it and return its new name."""
    if not path.exists():
        return ()
    if old is Old.REMOVED:
        shutil.rmtree(path)
        return ()
    return put_aside(path)


def put_aside(path: Path) -> tuple[str, ...]:
    """Rename a folder within its parent, and return its new name."""
    name = next(p for p in _beside(path) if not p.exists())
    path.rename(name)
    return (str(name),)


def _beside(path: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield path.with_name(f"{path.name}.aside" + (f"-{number}" if number > 1 else ""))
        number += 1
