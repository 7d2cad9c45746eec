"""What new processes start from on a store is what the journal says, whatever happened since it was written."""

from __future__ import annotations

import gzip
import json
import secrets

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from materializer.errors import JournalError
from materializer.journal.codec import Row
from materializer.journal.events import Defined, Described, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.ports import JournalSnapshot
from materializer.journal.store import JournalStore
from materializer.lake import places
from tests.appending import append
from tests.journal.definitions import SPEC, numbered
from tests.servers.proxy import Fault, Proxy, by_kind

BARS = ("a", Defined("bars", SPEC, "d1", SourceIdentity("/s", "s"), 0, {}, {}))
START = "_materializer/start.json.gz"


def row(n: int) -> Row:
    """An event of one aggregate."""
    return Row("a", "done", "2024-01-01T00:00:00Z", json.dumps({"n": n}))


def numbers(snapshot: JournalSnapshot) -> list[int]:
    """What :func:`row` was called with."""
    return [json.loads(row.payload)["n"] for row in snapshot.rows]


def share(store: JournalStore) -> bool:
    """Share what a store has read or appended last, and return whether it could."""
    return store.share(store.read().version, ()) is not None


def content(folder: str) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: places.read(f"{folder}/{file.name}") for file in places.files(folder)}


@pytest.fixture
def journal(bucket: str) -> Journal:
    """A journal with three commits and what its new processes start from."""
    journal = Journal(f"{bucket}/lake")
    append(journal, BARS)
    for n in range(2):
        append(journal, ("a", Described(numbered(n))))
    journal.tidy()
    return journal


def spec(bucket: str) -> object:
    """What a new process reads."""
    return Journal(f"{bucket}/lake").view().named("bars").spec


def test_a_new_process_asks_for_one_file_and_one_listing(bucket: str, proxy: Proxy, journal: Journal) -> None:
    """
    However many commits the journal has. Each commit that nobody has shared since costs two files.
    """
    with proxy.counted() as shared:
        assert numbered(1) == spec(bucket)
    append(journal, ("a", Described(numbered(2))))
    with proxy.counted() as behind:
        assert numbered(2) == spec(bucket)

    assert {"GET": 1, "LIST": 1} == by_kind(shared)
    assert {"GET": 3, "LIST": 1} == by_kind(behind)


def test_a_path_has_no_such_file(tmp_path: object) -> None:
    """
    There reading the log takes less time.
    """
    journal = Journal(f"{tmp_path}/lake")
    append(journal, BARS)
    journal.tidy()

    assert not places.exists(f"{tmp_path}/lake/{START}")


def test_what_cannot_be_shared_is_read_from_the_log(bucket: str, proxy: Proxy, journal: Journal) -> None:
    """
    A refused put fails no command, and costs the next process no more than the commits since.
    """
    proxy.set(Fault("deny", "PUT", START, times=100))
    append(journal, ("a", Described(numbered(7))))
    journal.tidy()
    proxy.set()

    assert numbered(7) == spec(bucket)


@pytest.mark.parametrize(
    "damage", [b"", b"half of i", b"[]", b"{}", b'{"format": 0}', b'{"format": 1, "version": "?", "tables": []}']
)
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_damaged_file_costs_requests_and_not_truth(
    bucket: str, journal: Journal, damage: bytes, is_packed: bool
) -> None:
    """
    The log is read instead, and the next command that writes makes the file anew.
    """
    before = places.read(f"{bucket}/lake/{START}")
    places.put(f"{bucket}/lake/{START}", gzip.compress(damage) if is_packed else damage)
    assert numbered(1) == spec(bucket)
    other = Journal(f"{bucket}/lake")
    other.tidy()

    assert json.loads(gzip.decompress(before)) == json.loads(gzip.decompress(places.read(f"{bucket}/lake/{START}")))


def test_a_journal_that_is_gone_is_not_there_because_of_it(bucket: str, journal: Journal) -> None:
    """
    A lake without its journal has no aggregate, and who knew one is told that the journal is gone.
    """
    places.delete_folder(f"{bucket}/lake/_materializer/journal")

    assert {} == Journal(f"{bucket}/lake").view().all
    with pytest.raises(JournalError, match="is gone"):
        journal.view()


def test_nothing_is_shared_of_a_journal_that_was_replaced_under_a_process(bucket: str) -> None:
    """
    A process that appends to a restored journal what it decided on the one before shares nothing, although its own commit is the newest.
    """
    store = JournalStore(f"{bucket}/lake")
    store.append([row(1)], expected_version=-1)
    store.append([row(2)], expected_version=store.read().version)
    places.delete_folder(store.path)
    other = JournalStore(f"{bucket}/lake")
    other.append([row(3)], expected_version=-1)
    other.append([row(4)], expected_version=other.read().version)

    version = store.append([row(5)], expected_version=2)
    assert store.share(version, ()) is None
    assert [3, 4, 5] == numbers(JournalStore(f"{bucket}/lake").read())


def test_unreadable_rows_are_not_shared(bucket: str, journal: Journal) -> None:
    """
    A file that cannot be read now may be readable again, so nobody starts from its absence.
    """
    places.delete(f"{bucket}/lake/{START}")
    folder = f"{bucket}/lake/_materializer/journal"
    lost = DeltaTable(folder, storage_options=places.options_of(folder)).file_uris()[0].rpartition("/")[2]
    data = places.read(f"{folder}/{lost}")
    places.delete(f"{folder}/{lost}")
    Journal(f"{bucket}/lake").tidy()
    assert not places.exists(f"{bucket}/lake/{START}")

    places.put(f"{folder}/{lost}", data)
    assert numbered(1) == spec(bucket)


ACTS = (
    "append", "append", "append", "append by the other", "fold", "fold by the other", "share", "share by the other", "share late",
    "put an old file back", "delete the file", "compact", "keep a copy", "put the copy back", "start over",
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(acts=st.lists(st.sampled_from(ACTS), min_size=2, max_size=12))
def test_whatever_happens_a_new_process_reads_what_was_committed(bucket: str, acts: list[str]) -> None:
    """
    After any appends and folds of two processes, with the file written at any time, too late, by who has not looked since, deleted or
    put back; after compactions by strangers, after the journal was replaced by a copy of an older state, and after it was
    deleted and begun anew up to the same version.
    """
    root = f"{bucket}/{secrets.token_hex(4)}"
    file = f"{root}/{START}"
    one, other = JournalStore(root), JournalStore(root)
    one.append([row(0)], expected_version=-1)
    expected, copy, old = [0], ([0], content(one.path)), list[bytes]()
    for n, act in enumerate(acts, 1):
        store = other if act.endswith("the other") else one
        match act.removesuffix(" by the other"):
            case "append":
                store.append([row(n), row(-n)], expected_version=store.read().version)
                expected = [*expected, n, -n]
            case "fold":
                expected = expected[-1:]
                store.snapshot([row(m) for m in expected], expected_version=store.read().version)
            case "share":
                assert share(store)
            case "share late":
                other.share(DeltaTable(one.path, storage_options=places.options_of(one.path)).version(), ())
            case "put an old file back" if old:
                places.put(file, old[0])
            case "delete the file":
                places.delete(file)
            case "compact":
                DeltaTable(one.path, storage_options=places.options_of(one.path)).optimize.compact()
            case "keep a copy":
                copy = expected, content(one.path)
            case "put the copy back":
                places.delete_folder(one.path)
                expected = copy[0]
                for name, data in copy[1].items():
                    places.put(f"{one.path}/{name}", data)
            case "start over":
                version = one.read().version
                places.delete_folder(one.path)
                one = JournalStore(root)
                expected = [100 * n + m for m in range(version)]
                for m, number in enumerate(expected):
                    one.append([row(number)], expected_version=m or -1)
        if places.exists(file):
            old.append(places.read(file))
        assert expected == numbers(JournalStore(root).read())
        if n % 2:
            assert expected == numbers(other.read()) == numbers(one.read())
