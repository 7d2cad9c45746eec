"""A lake on an object store begins with a probe: of several writers of one file only one may succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.errors import NoCompareAndSwapError
from materializer.journal.events import Defined, Described, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.probe import StoreProbe
from materializer.lake import places
from tests.appending import append
from tests.journal.definitions import SPEC, numbered
from tests.servers.proxy import Fault, Proxy

BARS = ("a", Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {}))
LIES = Fault("lie", "PUT IF", "probe-", times=1000)


def test_a_store_is_probed_once(bucket: str) -> None:
    """
    The first commit has the answer, every process reads it there, a fold keeps it, and no file of the probe is left.
    """
    journal = Journal(f"{bucket}/lake", snapshot_every=2)
    assert journal.probe() is None
    append(journal, BARS)
    for n in range(3):
        append(journal, ("a", Described(numbered(n))))
    journal.tidy()

    other = Journal(f"{bucket}/lake")
    assert StoreProbe(is_safe=True) == journal.probe() == other.probe()
    assert numbered(2) == other.view().named("bars").spec
    assert ["a"] == list(other.view().all)
    assert [] == [e.name for e in places.files(f"{bucket}/lake") if "probe" in e.name]


def test_a_store_that_lies_is_refused(bucket: str, proxy: Proxy) -> None:
    """
    Nothing is written to a store that tells two writers that they made the same file.
    """
    proxy.set(LIES)
    with pytest.raises(NoCompareAndSwapError, match="lets several writers make the same file"):
        append(Journal(f"{bucket}/lake"), BARS)

    assert [] == places.files(f"{bucket}/lake")


@pytest.mark.follows_hint("store.no-compare-and-swap")
def test_one_writer_may_use_a_store_that_lies(bucket: str, proxy: Proxy) -> None:
    """
    Its promise is kept in the journal, and later commits ask for it no more.
    """
    proxy.set(LIES)
    with pytest.raises(NoCompareAndSwapError) as caught:
        append(Journal(f"{bucket}/lake"), BARS)
    assert "single_writer" in caught.value.hint
    append(Journal(f"{bucket}/lake", single_writer=True), BARS)
    journal = Journal(f"{bucket}/lake")
    append(journal, ("a", Described(numbered(1))))

    assert StoreProbe(is_safe=False, single_writer=True) == journal.probe()


def test_a_lake_that_was_moved_to_a_store_is_probed_there(bucket: str, tmp_path: Path) -> None:
    """
    The next commit asks what no commit has asked before.
    """
    append(Journal(tmp_path), BARS)
    for file in places.files(str(tmp_path)):
        places.copy(f"{tmp_path}/{file.name}", f"{bucket}/lake/{file.name}")
    journal = Journal(f"{bucket}/lake")
    assert journal.probe() is None
    append(journal, ("a", Described(numbered(1))))

    assert StoreProbe(is_safe=True) == journal.probe()
    assert Journal(tmp_path).probe() is None


@pytest.mark.parametrize("fault", ["lose answer", "refuse", "refuse after"])
def test_a_commit_whose_answer_was_lost_is_recognised(bucket: str, proxy: Proxy, fault: str) -> None:
    """
    The journal has each event once, whatever becomes of the answers to its commits, and nobody is told of a conflict.
    """
    journal = Journal(f"{bucket}/lake", snapshot_every=4)
    append(journal, BARS)
    for n in range(6):
        proxy.set(Fault(fault, "PUT IF", "_delta_log"))  # type: ignore[arg-type]
        view = journal.view()
        journal.append(view.version, "a", [Described(numbered(n))])
        assert view.version + 1 == journal.view().version
    proxy.set(Fault(fault, "PUT IF", "_delta_log"))  # type: ignore[arg-type]
    journal.tidy()
    proxy.set()

    rows = list(Journal(f"{bucket}/lake").view().all.values())
    assert [numbered(5)] == [state.spec for state in rows]
