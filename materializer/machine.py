"""What the process may use of this machine: cores and memory, as a container limits them, and the user's cache; and how it allocates."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")
_ARENA_MAX: Final = -8
"""A parameter of glibc's `mallopt`."""
UNKNOWN: Final = 4 << 30
"""Bytes of memory of a machine that does not say how many it has."""


def cores(groups: Path = GROUPS, own: Path = OWN) -> int:
    """Return how many cores the process may use, at least one: those it may run on, and what its control groups grant.

    Args:
        groups: The folder of control groups, of version 1 or 2.
        own: The file that names those of the process.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    granted = [len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1]
    for folder in _folders(groups, own):
        of_version_1 = (*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us"))
        for quota, period in (pair for pair in (_words(folder / "cpu.max"), of_version_1) if len(pair) == 2):
            if quota.isdigit() and period.isdigit() and int(period):
                granted.append(-(-int(quota) // int(period)))
    return max(min(granted), 1)


def memory(groups: Path = GROUPS, own: Path = OWN) -> int:
    """Return how many bytes of memory the process may use; the arguments are those of :func:`cores`."""
    try:
        granted = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):
        granted = [UNKNOWN]
    for folder in _folders(groups, own):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            granted += [int(word) for word in _words(folder / name) if word.isdigit()]
    return min(each for each in granted if each > 0)


def _folders(groups: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of the process's control groups and of those around them; each limits what is inside."""
    found = [groups, groups / "cpu", groups / "memory"]
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, names, path = line.split(":", 2)
            for root in [groups / name for name in names.split(",")] if names else [groups]:
                place = root / path.lstrip("/")
                found += [place, *(above for above in place.parents if above.is_relative_to(root))]
    yield from dict.fromkeys(found)


def _words(file: Path) -> tuple[str, ...]:
    try:
        return tuple(file.read_text().split())
    except OSError:
        return ()


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return our folder in the user's cache; it need not exist."""
    env = os.environ if environ is None else environ
    if home := env.get("XDG_CACHE_HOME"):
        return Path(home) / "materializer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "materializer"
    return Path.home() / ".cache" / "materializer"


def share_arenas() -> None:
    """Let all threads allocate from two arenas, where the C library is glibc; elsewhere do nothing.

    It makes up to eight for each core, and what is free in one is of no use in another: a process that stays grows for hours with the
    threads of its libraries.
    """
    import ctypes  # noqa: PLC0415 - only a process that stays asks for it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no circles among the values that the block makes: very many, which live until the process ends.

    The search takes a tenth of the block, and would begin when it ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def give_back() -> None:
    """Give memory that is free back to the system, where the C library is glibc; it takes a millisecond or some."""
    import ctypes  # noqa: PLC0415 - only a process that stays asks for it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
