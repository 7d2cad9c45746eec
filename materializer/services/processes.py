"""Which processes are alive: what a lease is judged by."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from materializer.journal.events import Lease

_START_FIELD: Final = 19
"""Index of the start time among the fields of /proc/PID/stat that follow the command's name."""


LONGEST_LEASE: Final = 24 * 3600
"""Seconds. A lease of another host that ends later than that was written by a clock that is wrong."""

_at_work: Final[set[str]] = set()
"""Owners of the leases that this process works under."""


@contextmanager
def at_work(lease: Lease) -> Iterator[None]:
    """Tell this process that it works under *lease* while the block runs."""
    _at_work.add(lease.owner)
    try:
        yield
    finally:
        _at_work.discard(lease.owner)


def started(pid: int) -> int:
    """Return when a process of this host started (ticks since boot), or 0 when there is no such process.

    A zombie counts as gone: it can no longer write. Without /proc a living process is given the start time 1.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return 0
        return 1 if _exists(pid) else 0
    except OSError:
        return 0
    return 0 if fields[0] in ("Z", "X") else int(fields[_START_FIELD])


def new_lease(now: float, seconds: float) -> Lease:
    """Return a lease of this process, with an owner that no other lease has."""
    pid = os.getpid()
    return Lease(uuid4().hex, socket.gethostname(), pid, started(pid), now + seconds, _boot(), _namespace())


def is_dead(lease: Lease, now: float) -> bool:
    """Whether the holder of *lease* can no longer write.

    A holder that this process would see must be gone: one with the same host name, boot and PID namespace. A lease of this very
    process counts while its work goes on: it may be left behind, when the disk was too full to give it back. Of any other holder
    only the end of the lease tells: containers and machines may have the same host name, and a lease of an earlier release names
    neither boot nor namespace. A lease that ends in more than a day does not count, or a process whose clock was a year ahead
    would keep all others waiting for a year. A living one that is taken for dead is fenced.
    """
    if (lease.host, lease.boot, lease.namespace) != (socket.gethostname(), _boot(), _namespace()):
        return not now <= lease.until <= now + LONGEST_LEASE
    if (lease.pid, lease.started) == (os.getpid(), started(os.getpid())):
        return lease.owner not in _at_work
    return not lease.pid or started(lease.pid) != lease.started


def is_own(lease: Lease) -> bool:
    """Whether this process is, or was, the holder of *lease*."""
    mine = new_lease(0.0, 0.0)
    theirs = (lease.host, lease.boot, lease.namespace, lease.pid, lease.started)
    return theirs == (mine.host, mine.boot, mine.namespace, mine.pid, mine.started)


def _boot() -> str:
    """Return the id of the boot of this machine, "" where it cannot be read. All containers of a machine have the same."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    """Return the PID namespace of this process, "" where it cannot be read: processes of other ones may have the same numbers."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
