"""Whether the holder of a lease can still write; what a clock may say of it and what not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.journal.events import Lease
from materializer.services import processes

NOW = 1_000_000.0
MINE = processes.new_lease(NOW, 60.0)


def elsewhere(lease: Lease) -> Lease:
    """The same lease, taken on another host."""
    return replace(lease, host=f"not-{socket.gethostname()}")


def gone() -> int:
    """The number of a process of this host that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    child.wait()
    return child.pid


def test_a_lease_of_another_host_holds_until_its_end() -> None:
    """
    Until it runs out nobody takes it over, in that very instant neither, whichever processes live here.
    """
    theirs = elsewhere(MINE)
    dead = elsewhere(replace(MINE, pid=gone(), started=1))
    for lease in (theirs, dead):
        ends = [NOW - 3600, NOW, lease.until, lease.until + 0.001, lease.until + 1e9]
        assert [False, False, False, True, True] == [processes.is_dead(lease, now) for now in ends]


@pytest.mark.parametrize(
    "other",
    [{"namespace": "pid:[1]"}, {"boot": "another"}, {"namespace": "", "boot": ""}],
    ids=["container", "machine", "earlier release"],
)
def test_a_host_name_alone_tells_nothing(other: dict[str, str]) -> None:
    """
    A container or a machine may have the name of this one. Its processes have numbers of their own, so the end of the lease decides.
    """
    theirs = replace(MINE, pid=gone(), started=1, **other)  # type: ignore[arg-type]
    assert "" not in (MINE.boot, MINE.namespace)

    assert [False, False, True] == [processes.is_dead(theirs, now) for now in (NOW, theirs.until, theirs.until + 0.001)]


def test_a_lease_of_an_earlier_release_is_read() -> None:
    """
    It has neither boot nor namespace, and they are not written where they are not known.
    """
    old = replace(MINE, boot="", namespace="")

    assert {"owner", "host", "pid", "started", "until"} == set(as_json(old))
    assert old == from_json(Lease, as_json(old))
    assert MINE == from_json(Lease, as_json(MINE))


def test_a_lease_that_ends_in_more_than_a_day_does_not_count() -> None:
    """
    The clock that wrote it is wrong, or the one that reads it; its holder would keep all others waiting.
    """
    lease = elsewhere(replace(MINE, until=NOW + processes.LONGEST_LEASE))

    assert [False, True, True] == [processes.is_dead(lease, now) for now in (NOW, NOW - 0.001, NOW - 1e9)]


def test_a_process_here_keeps_no_lease_of_another_host() -> None:
    """
    That a process here has the number and the start of theirs, or works under a lease of that name, means nothing.
    """
    with processes.at_work(MINE):
        assert not processes.is_dead(MINE, MINE.until + 1)
        assert processes.is_dead(elsewhere(MINE), MINE.until + 1)


def test_a_lease_of_this_host_is_judged_by_its_process() -> None:
    """
    Its process must be gone, whatever the end of the lease says; another process with the number does not count.
    """
    parent = os.getppid()
    began = processes.started(parent)
    for pid, started, is_dead in [(parent, began, False), (gone(), 1, True), (0, 0, True), (parent, began - 1, True)]:
        lease = replace(MINE, owner="o", pid=pid, started=started, until=NOW)
        assert [is_dead] * 2 == [processes.is_dead(lease, now) for now in (NOW - 1, NOW + 1)]


def test_a_lease_left_behind_by_this_process_is_free() -> None:
    """
    Our own lease counts while its work goes on, and not a moment longer.
    """
    assert processes.is_dead(MINE, NOW)
    with processes.at_work(MINE):
        assert not processes.is_dead(MINE, NOW)
        assert processes.is_dead(replace(MINE, owner="another of ours"), NOW)
    assert processes.is_dead(MINE, NOW)


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_a_new_lease_ends_so_many_seconds_from_now(seconds: float) -> None:
    """
    It names this process, with the time at which it started, and no two have the same owner.
    """
    one, other = processes.new_lease(NOW, seconds), processes.new_lease(NOW, seconds)

    assert one.owner != other.owner
    assert replace(other, owner=one.owner) == one
    assert one.until == NOW + seconds
    assert (one.host, one.pid, one.started) == (socket.gethostname(), os.getpid(), processes.started(os.getpid()))
