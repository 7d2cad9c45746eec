"""What a store in memory answers when its faults are on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from materializer.adapters.memory.log import (
    PUTS,
    LogClient,
    MemoryLog,
    NoFaults,
    PutFault,
    VersionTakenError,
)
from materializer.errors import StorageError


class Faults(NoFaults):
    """Faults that are given one by one; after them there are none."""

    def __init__(self, puts: Sequence[PutFault] = (), hidden: int = 0) -> None:
        self._puts = list(puts)
        self._hidden = hidden

    def put(self) -> PutFault:
        """Return the next fault."""
        return self._puts.pop(0) if self._puts else PutFault.NONE

    def hidden(self) -> int:
        """Return how many commits a list lacks."""
        return self._hidden


def numbers(log: MemoryLog[str]) -> list[tuple[int, str]]:
    return [(version.number, version.mark) for version in log.versions]


def test_a_version_is_put_once() -> None:
    """
    The second put of it is refused; a version after the next one is refused too.
    """
    log = MemoryLog("")
    one, two = LogClient(log, NoFaults()), LogClient(log, NoFaults())
    one.put(1, "a", "x")
    for number in (1, 3):
        with pytest.raises(VersionTakenError):
            two.put(number, "b", "y")

    assert (1, "a", "x") == two.newest()
    assert [(0, ""), (1, "a")] == numbers(log)


def test_a_put_whose_answer_is_lost_meets_itself() -> None:
    """
    The store says that the version exists; only its mark tells whose it is.
    """
    log = MemoryLog("")
    client = LogClient(log, Faults([PutFault.AFTER]))
    with pytest.raises(VersionTakenError):
        client.put(1, "a", "x")

    assert ["", "a", ""] == [client.mark_of(version) for version in (0, 1, 2)]


def test_a_put_that_is_refused_is_repeated() -> None:
    """
    Until the client gives up; then nothing was done.
    """
    log = MemoryLog("")
    LogClient(log, Faults([PutFault.BEFORE] * (PUTS - 1))).put(1, "a", "x")
    with pytest.raises(StorageError, match="did not answer"):
        LogClient(log, Faults([PutFault.BEFORE] * PUTS)).put(2, "b", "y")

    assert [(0, ""), (1, "a")] == numbers(log)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_put_may_be_done_when_its_client_has_given_up(is_first: bool) -> None:
    """
    Unless another made the version meanwhile.
    """
    log = MemoryLog("")
    with pytest.raises(StorageError) as raised:
        LogClient(log, Faults([PutFault.LATE] * PUTS)).put(1, "late", "x")
    if not is_first:
        LogClient(log, NoFaults()).put(1, "other", "y")
    while log.late:
        log.put_late()

    assert "it is not known whether the commit was made" == raised.value.wrote
    assert [(0, ""), (1, "late" if is_first else "other")] == numbers(log)


def test_a_list_that_lacks_commits_hides_none_of_them() -> None:
    """
    A client asks for the versions after those that were listed.
    """
    log = MemoryLog("")
    for number in range(1, 6):
        LogClient(log, NoFaults()).put(number, "", str(number))

    assert "5" == LogClient(log, Faults(hidden=3)).newest().state
