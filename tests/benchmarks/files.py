"""Which files of tables a block reads and writes again: counted where it happens, not taken from a plan.

*Read*: the kernel tells of every opening of a Parquet file in the folders of the tables, whoever opens it: Spark's scans, or the
driver, which reads few rows without Spark. A file counts once, with its whole size, however little of it is wanted and however
often it is opened; what the block itself made does not count, nor does a table's log. *Written* and *removed* are the actions
of the commits that the block made.

Source: inotify(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from materializer.api import Materializer
from materializer.lake.log import latest_version, read_commit
from materializer.services.aggregate import Aggregate

_OPENED: Final = 0x20
_CLOSED: Final = 0x10
"""Closed after reading. The kernel joins equal events that follow each other, so it has to tell what lies between two openings."""
_MADE: Final = 0x100 | 0x80
"""Created, or moved there."""
_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")
_AT_ONCE: Final = 1 << 20


class Opened(Struct):
    """Data files that were opened.

    Args:
        files: Each once.
        openings: How often each was opened; an opening while the file was open already may be missing.
        is_known: Whether these are all: the kernel tells, and had not more to tell than it keeps.
    """

    files: set[Path] = field(default_factory=set)
    openings: Counter[Path] = field(default_factory=Counter)
    is_known: bool = False


@contextmanager
def touched(m: Materializer, name: str) -> Iterator[dict[str, int]]:
    """Count the files of an aggregate and its source that the block reads and writes; the figures are there after it.

    ``files_read`` and ``bytes_read`` are missing where the kernel does not tell: it is not Linux, or had too much to tell.
    """
    aggregate = Aggregate.of(m.journal.view().named(name), m.root)
    ours = [path for path in aggregate.paths.values() if Path(path, "_delta_log").is_dir()]
    before = {path: latest_version(path) for path in ours}
    found: dict[str, int] = {}
    with opened([aggregate.source.path, *ours]) as read:
        yield found
    if read.is_known:
        found |= {"files_read": len(read.files), "bytes_read": sum(p.stat().st_size for p in read.files)}
    commits = [read_commit(p, v) for p, known in before.items() for v in range(known + 1, latest_version(p) + 1)]
    for kind, files in (
        ("written", [f for c in commits for f in c.adds]),
        ("removed", [f for c in commits for f in c.removes]),
    ):
        found |= {f"files_{kind}": len(files), f"bytes_{kind}": sum(f.bytes for f in files)}


@contextmanager
def opened(folders: Iterable[str | Path]) -> Iterator[Opened]:
    """Tell the data files in *folders* that were there before and are opened in the block; they are known after it."""
    kernel, found = ctypes.CDLL(None, use_errno=True), Opened()
    if not hasattr(kernel, "inotify_init1"):
        yield found
        return
    queue = _answer(kernel.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        places = [place for root in folders for place in _places(Path(root))]
        watched = {
            _answer(kernel.inotify_add_watch(queue, os.fsencode(p), _OPENED | _CLOSED | _MADE)): p for p in places
        }
        yield found
        events = list(_events(queue))
    finally:
        os.close(queue)
    found.is_known = not any(kinds & _OVERFLOW for _, kinds, _ in events)
    made = {(at, name) for at, kinds, name in events if kinds & _MADE}
    seen = Counter((at, name) for at, kinds, name in events if kinds & _OPENED and is_data(name))
    found.openings.update({watched[at] / name: times for (at, name), times in seen.items() if (at, name) not in made})
    found.files.update(found.openings)


def _answer(number: int) -> int:
    """Return what the kernel answered, unless it refused."""
    if number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return number


def is_data(name: str) -> bool:
    """Whether a file of that name holds rows; Hadoop's checksums begin with a dot.

    Examples:
        >>> is_data("part-0.snappy.parquet"), is_data(".part-0.snappy.parquet.crc"), is_data("")
        (True, False, False)
    """
    return name.endswith(".parquet") and not name.startswith(".")


def _places(root: Path) -> Iterator[Path]:
    yield root
    for folder in root.iterdir():
        if folder.is_dir() and folder.name != "_delta_log":
            yield from _places(folder)


def _events(queue: int) -> Iterator[tuple[int, int, str]]:
    """Yield what happened: the watch, the kinds of event, the name of the file."""
    while True:
        try:
            told = os.read(queue, _AT_ONCE)
        except BlockingIOError:
            return
        at = 0
        while at < len(told):
            number, kinds, _, length = _EVENT.unpack_from(told, at)
            at += _EVENT.size
            yield number, kinds, os.fsdecode(told[at : at + length].rstrip(b"\0"))
            at += length
