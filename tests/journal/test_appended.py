"""A file to which lines are appended says what the last writer said of each key, or nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.journal import appended
from materializer.journal.appended import UNUSABLE, changing, read

KEYS = st.sampled_from("abcdef")
CHANGES = st.lists(
    st.tuples(st.dictionaries(KEYS, st.none() | st.text("xyz ", min_size=1)), st.sets(KEYS)), max_size=20
)


def change(place: Path, n: int, lines: Mapping[str, str | None], gone: frozenset[str] = frozenset()) -> bool:
    """Change some lines; return whether that was done."""
    with changing(str(place)) as file:
        if file is None:
            return False
        file.put({"n": n}, lines, lambda key: key not in gone)
        return True


def found(place: Path) -> tuple[int, dict[str, str]]:
    """Return the number of the last change, and the lines."""
    header, lines = read(str(place))
    return header["n"], lines


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of a thousand lines, to which others are appended."""
    monkeypatch.setattr(appended, "SMALL", 0)
    place = tmp_path / "lines"
    change(place, 1, {f"k{i}": f"value {i}" for i in range(1_000)})
    return place


@given(CHANGES, st.sampled_from([0, 60, 10_000]))
def test_the_last_line_of_a_key_counts(changes: list[tuple[dict[str, str | None], set[str]]], small: int) -> None:
    """
    Whether it was appended, or the file was written anew; a key without a value is gone.
    """
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(appended, "SMALL", small)
        place, expected, ever = Path(folder, "lines"), dict[str, str](), set[str]()
        for n, (lines, _) in enumerate(changes):
            change(place, n, lines)
            expected = {k: v for k, v in (expected | lines).items() if v is not None}
            ever |= lines.keys()
            assert (n, expected) == found(place)


def test_a_change_costs_what_changed(place: Path) -> None:
    """
    One line and a header are written, until the file has twice its bytes; then it is written anew, without what is not wanted.
    """
    before, inode, written = place.stat().st_size, place.stat().st_ino, []
    for n in range(2, 1_000):
        size = place.stat().st_size
        change(place, n, {"k5": f"value {n}"}, frozenset({"k7"}))
        written.append(place.stat().st_size - size)
        if place.stat().st_ino != inode:
            break

    assert all(0 < each < 100 for each in written[:-1])
    assert 2 * before - 100 < size < 2 * before + 100
    header, lines = found(place)
    assert (n, f"value {n}", False, 999) == (header, lines["k5"], "k7" in lines, len(lines))


@pytest.mark.parametrize("bytes_lost", [1, 2, 30, 45])
def test_half_a_change_is_none(place: Path, bytes_lost: int) -> None:
    """
    After a power failure, what was appended may have lost its end: nothing is read of the file, and the next change writes it anew.
    """
    change(place, 2, {"k5": "longer than before"})
    os.truncate(place, place.stat().st_size - bytes_lost)

    with pytest.raises(UNUSABLE):
        read(str(place))
    change(place, 3, {"k6": "six"})
    assert (3, {"k6": "six"}) == found(place)


def test_what_another_process_changes_is_left_to_it(place: Path) -> None:
    """
    A header follows the one that its writer read.
    """
    with changing(str(place)):
        program = f"from tests.journal.test_appended import change, Path; print(change(Path({str(place)!r}), 9, {{}}))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "False\n" == done.stdout
    assert 1 == found(place)[0]


def test_a_file_that_was_replaced_meanwhile_gets_no_line(place: Path) -> None:
    """
    What was read belongs to the file that is gone.
    """
    with changing(str(place)) as file:
        place.rename(place.with_name("older"))
        place.write_bytes(b' {"n": 0, "whole": 20}\n')
        assert file is not None
        file.put({"n": 2}, {"k5": "five"}, lambda _: True)

    assert (0, {}) == found(place)


@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_no_other_file_is_appended_to(place: Path, kind: str) -> None:
    """
    A copy of a lake may share its files, and whoever can write there may put a link in their place.
    """
    other = place.with_name("other")
    if kind == "link":
        place.rename(other)
        place.symlink_to(other)
    else:
        os.link(place, other)
    before = other.read_bytes()

    change(place, 2, {"k5": "five"})

    assert before == other.read_bytes()
    assert 2 == found(place)[0]


def test_a_file_system_without_locks_gets_whole_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As a store does.
    """

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    inode = place.stat().st_ino
    change(place, 2, {"k5": "five"})

    assert inode != place.stat().st_ino
    assert (2, "five", 1_000) == (found(place)[0], found(place)[1]["k5"], len(found(place)[1]))
