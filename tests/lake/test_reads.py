"""Blocks: what they remember of which table, and when they forget it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.lake.reads import Reader, SharedReads, fact, table_at

ROOM = SharedReads(10_000, 1 << 20)


def rows(count: int, *columns: str) -> pa.Table:
    """Return some rows of whole numbers."""
    return pa.table({name: pa.array(range(count), pa.int64()) for name in columns or ("a",)})


def readers(*names: str, path: str = "/t") -> list[Reader]:
    """Return readers of one table, each of a column of its own."""
    return [Reader(name, path, [name]) for name in names]


@given(
    st.integers(0, 30),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from(["a", "ab", "b"])), max_size=25),
)
def test_a_block_holds_no_more_than_it_may(most: int, size: int, steps: Sequence[tuple[int, int, str]]) -> None:
    """
    Of all its tables together; what it does remember under a key is what was given last, or nothing.
    """
    given: dict[tuple[str, int], pa.Table] = {}
    with SharedReads(most, size).together([*readers("x", path="/one"), *readers("y", path="/two")]):
        for key, count, columns in steps:
            path = ("/one", "/two")[key % 2]
            table = table_at(path)
            assert table is not None
            given[path, key] = rows(count, *columns)
            table.remember(key, given[path, key])
            known = {at: t.rows(at[1], []) for at in given if (t := table_at(at[0])) is not None}
            assert all(found is None or found is given[at] for at, found in known.items())
            assert sum(found.num_rows for found in known.values() if found is not None) <= most
            assert sum(found.nbytes for found in known.values() if found is not None) <= size
            missing = table.rows(key, ["a", "c"])
            assert missing is None


def test_room_comes_back() -> None:
    """
    What is replaced, and a table that every reader has left, make room for others.
    """
    with SharedReads(10, 1 << 20).together([*readers("x", path="/one"), *readers("y", "z", path="/two")]):
        one, two = table_at("/one"), table_at("/two")
        assert one is not None
        assert two is not None
        one.remember("k", rows(10))
        two.remember("k", rows(1))
        assert two.rows("k", ["a"]) is None
        one.remember("k", rows(9))
        two.remember("k", rows(1))
        assert two.rows("k", ["a"]) is not None
        with ROOM.together(readers("x", path="/one")):
            assert one.rows("k", ["a"]) is not None
        assert one.rows("k", ["a"]) is None
        assert two.has_room(9, (1 << 20) - 8)
        assert not two.has_room(10, 0)
        assert not two.has_room(0, (1 << 20) - 7)


def test_a_table_is_shared_by_more_than_one_reader() -> None:
    """
    One that two aggregates of a block read, each of them once or more often; not what one reads, nor what none of the block reads.
    """
    with ROOM.together([*readers("x", "y"), *readers("x", "x", path="/alone")]):
        shared, alone = table_at("/t"), table_at("/alone/")
        assert shared is not None
        assert alone is not None
        assert (True, ["x", "y"]) == (shared.is_shared, shared.columns)
        assert not alone.is_shared
        assert table_at("/other") is None
        with ROOM.together(readers("z", path="/other")):
            assert table_at("/other") is not None
    assert table_at("/t") is None


def test_a_block_inside_of_another_ends_its_readers() -> None:
    """
    A table is forgotten when the last of its readers has ended, whichever of them that is, and remembered again if one comes back.
    """
    with ROOM.together(readers("x", "y")):
        table = table_at("/t")
        assert table is not None
        for name in ("y", "x"):
            with ROOM.together(readers(name)):
                assert table_at("/t") is table
                table.remember("k", rows(1))
            assert (table.rows("k", []) is None) == (name == "x")
        with ROOM.together(readers("x")):
            table.remember("k", rows(1))
            assert table.rows("k", []) is not None
        assert 0 == table.size


def test_facts_are_made_once_and_forgotten() -> None:
    """
    In a block each fact of a table is made once; outside of one, and for other tables, every time; a failure is no fact.
    """
    made: list[str] = []

    def make() -> int:
        made.append("")
        if len(made) == 1:
            raise ZeroDivisionError
        return len(made)

    with ROOM.together(readers("x")):
        with pytest.raises(ZeroDivisionError):
            fact("/t", "k", make)
        assert [2, 2, 3, 4] == [
            fact("/t", "k", make),
            fact("/t", "k", make),
            fact("/t", "l", make),
            fact("/u", "k", make),
        ]
    assert 5 == fact("/t", "k", make)


def test_a_relative_path_is_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Readers and readings may name a table by different texts.
    """
    monkeypatch.chdir(tmp_path)
    with ROOM.together([Reader("x", "t/", ["a"])]):
        assert table_at(str(tmp_path / "t")) is table_at("t") is not None
