"""Making room for a folder: an old table of ours is removed if nothing of it is needed, any other folder is renamed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from materializer.lake import places
from materializer.services.repair.plan import Old


def cleared(path: str, old: Old) -> tuple[str, ...]:
    """Make room at *path*: remove the folder there, or rename it and return its new name."""
    if not places.exists(path):
        return ()
    if old is Old.REMOVED:
        places.delete_folder(path)
        return ()
    return put_aside(path)


def put_aside(path: str) -> tuple[str, ...]:
    """Rename a folder within its parent, and return its new name."""
    free = next(p for p in _beside(path) if not places.exists(p))
    places.move_folder(path, free)
    return (free,)


def _beside(path: str) -> Iterator[str]:
    yield f"{path}.aside"
    yield from (f"{path}.aside-{number}" for number in count(2))
