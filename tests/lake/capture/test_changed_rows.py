"""Changed rows that several aggregates of a command read: those of each version once, and the right ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.lake.arrow import plain
from materializer.lake.capture.changed_rows import MOST_ROWS, Keep, changed_rows, inserted_rows, some_changed_rows
from materializer.lake.capture.int96 import why_misread
from materializer.lake.log import Commit, commits
from materializer.lake.reads import Reader, SharedReads
from tests import tables
from tests.counting import calls_of, calls_to

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
KINDS = ["_change_type", "_commit_version"]


def commit(path: str, rng: random.Random) -> None:
    """Change the table in some way."""
    table = DeltaTable(path)
    match rng.randrange(6):
        case 0:
            table.update(predicate=f"ts % 5 = {rng.randrange(5)}", updates={"v": "v + 100"})
        case 1:
            table.delete(f"ts % 7 = {rng.randrange(7)}")
        case 2:
            table.optimize.compact()
        case 3 if "new" not in table.schema().to_json():
            rows = pa.table({"ts": [1], "k": ["n"], "v": [1], "new": [1]})
            write_deltalake(path, rows, mode="append", schema_mode="merge")
        case _:
            times = [rng.randrange(50) for _ in range(rng.randint(1, 5))]
            rows = pa.table({"ts": times, "k": [rng.choice("ab") for _ in times], "v": times}, schema=SCHEMA)
            write_deltalake(path, rows, mode="append", schema_mode="merge")


def read(path: str, after: int, upto: int, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """Return the changed rows of (after, upto], each as often as it is there."""
    table, run = DeltaTable(path, version=upto), commits(path, after, upto)
    rows = changed_rows(table, path, run, [*columns, *KINDS], 1000)
    assert [*columns, *KINDS] == rows.column_names
    return Counter(tuple(row.values()) for row in rows.to_pylist())


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_in_a_block_they_are_what_they_are_outside(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """
    Whatever range of versions and whichever columns are read one after the other, of a table whose columns may have changed on the
    way, and however much fits into the block.
    """
    rng = random.Random(seed)
    path = str(tmp_path_factory.mktemp("changes") / "table")
    tables.create(path, SCHEMA)
    last = rng.randint(2, 7)
    while DeltaTable(path).version() < last:
        commit(path, rng)
    columns = ["ts", "k", "v"]
    asked = []
    for _ in range(6):
        after = rng.randrange(last)
        asked.append((after, rng.randint(after + 1, last), rng.sample(columns, rng.randint(1, 3))))
    expected = [read(path, *one) for one in asked]

    reads = rng.choice([SharedReads(), SharedReads(5, 1 << 20), SharedReads(10_000, 200), SharedReads(0, 0)])
    with reads.together([Reader(str(i), path, ["ts", "gone", *rng.sample(columns, 1)]) for i in range(2)]):
        assert expected == [read(path, *one) for one in asked]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list to which each reading of changed rows adds its versions."""
    found: list[tuple[int, int]] = []

    def called(
        table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], *keep: Any
    ) -> pa.Table | None:
        found.append((run[0].version, run[-1].version))
        return inserted_rows(table, path, run, columns, *keep)

    monkeypatch.setattr("materializer.lake.capture.changed_rows.inserted_rows", called)
    return found


def filled(tmp_path: Path, commits_: int, rows: int = 3) -> str:
    """Make a table by some appends."""
    path = str(tmp_path / "table")
    tables.create(path, SCHEMA)
    for i in range(commits_):
        times = range(i * rows, (i + 1) * rows)
        write_deltalake(path, pa.table({"ts": times, "k": ["a"] * rows, "v": times}, schema=SCHEMA), mode="append")
    return path


def test_only_versions_that_are_new_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Aggregates with other cursors, and one that is pinned to a later version, read what no other one has read; and with the
    columns of all of them.
    """
    path, found = filled(tmp_path, 5), counted(monkeypatch)
    with SharedReads().together([Reader("a", path, ["v"]), Reader("b", path, ["k"]), Reader("c", path, ["ts"])]):
        for after, upto, column in [(2, 4, "v"), (2, 4, "k"), (3, 4, "ts"), (1, 4, "k"), (2, 5, "v"), (0, 5, "v")]:
            assert 3 * (upto - after) == read(path, after, upto, [column]).total()

    assert [(3, 4), (2, 2), (5, 5), (1, 1)] == found


def test_one_reader_remembers_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A refresh of one aggregate reads the columns that it asks for, and remembers them where they are few; several remember more.
    """
    path, found = filled(tmp_path, 1, MOST_ROWS + 1), counted(monkeypatch)
    tables.append(path, pa.table({"ts": [1], "k": ["a"], "v": [1]}, schema=SCHEMA))
    for names in (["a"], ["a", "b"]):
        with SharedReads().together([Reader(name, path, ["v"]) for name in names]):
            for _ in range(2):
                assert MOST_ROWS + 1 == read(path, 0, 1, ["ts"]).total()
                assert 1 == read(path, 1, 2, ["ts"]).total()

    assert [(1, 1), (2, 2), (1, 1), (1, 1), (2, 2)] == found


@pytest.mark.parametrize("many", [20, 60])
def test_many_commits_are_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """
    The rows of all commits are read, remembered and given again in a number of comparisons that grows as the rows do; and later some of
    them, too.
    """
    path, compared = filled(tmp_path, many), []
    for name in ("equal", "is_in"):
        function = getattr(pc, name)
        monkeypatch.setattr(pc, name, lambda rows, *args, f=function: (compared.append(len(rows)), f(rows, *args))[1])
    with SharedReads().together([Reader("a", path, ["v"])]):
        for after, upto in ((0, many), (0, many), (many // 2, many)):
            assert 3 * (upto - after) == read(path, after, upto, ["v", "k"]).total()

    assert sum(compared) <= 3 * many


@pytest.mark.parametrize("many", [1, 20])
def test_plain_inserts_are_read_from_their_files(tmp_path: Path, many: int) -> None:
    """
    The feed of commits that only added files is in these files, and the library is not asked. It is if one commit did more, if a
    column came later, or if values are names of folders.
    """
    path = filled(tmp_path, many)
    table, run = DeltaTable(path), commits(path, 0, many)
    rows = inserted_rows(table, path, run, ["k", "ts", *KINDS])
    assert rows is not None
    library = plain(pa.table(table.load_cdf(starting_version=1, ending_version=many, columns=["k", "ts", *KINDS])))
    in_order = [("ts", "ascending")]
    assert library.sort_by(in_order).to_pylist() == rows.sort_by(in_order).to_pylist()
    assert 0 == calls_to(DeltaTable.load_cdf, lambda: read(path, 0, many, ["ts"]))
    assert 3 * many == read(path, 0, many, ["ts"]).total()

    DeltaTable(path).delete("ts = 0")
    assert 1 == calls_to(DeltaTable.load_cdf, lambda: read(path, 0, many + 1, ["ts"]))
    assert 3 * many + 1 == read(path, 0, many + 1, ["ts"]).total()
    rows = pa.table({"ts": [1], "k": ["n"], "v": [1], "new": [1]})
    write_deltalake(path, rows, mode="append", schema_mode="merge")
    assert inserted_rows(DeltaTable(path), path, run, ["ts", "new"]) is None

    folders = str(tmp_path / "folders")
    tables.create(folders, SCHEMA, partition_by=["k"])
    tables.append(folders, pa.table({"ts": [1], "k": ["a"], "v": [1]}, schema=SCHEMA))
    assert inserted_rows(DeltaTable(folders), folders, commits(folders, 0, 1), ["ts", "k"]) is None


def test_a_command_asks_once_what_the_library_misreads(tmp_path: Path) -> None:
    """
    Capture and merge both ask it of all commits of a run: the second answer needs no look at the files of each.
    """
    many = 60
    path = filled(tmp_path, many)
    run, schema = commits(path, 0, many), [("ts", "timestamp")]

    with SharedReads().together([Reader("a", path, ["v"])]):
        first = calls_of(lambda: why_misread(path, 0, run, schema, ["ts"]))
        again = calls_of(lambda: why_misread(path, 0, run, schema, ["ts", "v"]))

    assert again < many < first


def test_columns_with_any_name_are_read(tmp_path: Path) -> None:
    """
    The library reads the name of a column as SQL, in which `Shop-Name` is a difference and `Order ID` has an alias.
    """
    path = str(tmp_path / "raw")
    names = ["Shop-Name", "Order ID", "weight.kg", "amount €", "select", 'a "quoted" one', "Sym", "ordered@"]
    rows = pa.table({name: pa.array([place]) for place, name in enumerate(names)})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(path, rows, mode="append")

    assert read(path, 0, 1, names) == {(*range(len(names)), "insert", 1): 1}


def of_key(key: str) -> Keep:
    """Return what keeps the rows of a key."""
    return Keep(key, lambda rows: rows.filter(pc.equal(rows["k"], key)))


def test_the_rows_of_some_keys_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One reader reads what arrived to compute, and what arrived before for the quarantine; other keys and other columns are read.
    """
    path, found = filled(tmp_path, 4), counted(monkeypatch)
    with SharedReads().together([Reader("a", path, ["v"])]):
        table = DeltaTable(path)

        def kept(upto: int, key: str, *columns: str) -> list[int]:
            run = commits(path, -1, upto)
            rows = some_changed_rows(table, path, run, [*columns, *KINDS], of_key(key))
            assert [*columns, *KINDS] == rows.column_names
            return sorted(rows["v"].to_pylist())

        assert list(range(12)) == kept(4, "a", "k", "v")
        assert list(range(9)) == kept(3, "a", "v", "k")
        assert [(1, 4)] == found
        assert [] == kept(4, "b", "k", "v")
        assert list(range(12)) == kept(4, "a", "k", "v", "ts")
        assert 3 * [(1, 4)] == found


def test_what_is_read_again_is_remembered_for_one_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However many rows they are, if they fit; more columns of a few versions do not make it forget the others.
    """
    monkeypatch.setattr("materializer.lake.capture.changed_rows.MOST_ROWS", 5)
    path, found = filled(tmp_path, 4), counted(monkeypatch)
    with SharedReads().together([Reader("a", path, ["v"])]):
        table = DeltaTable(path)
        for again, after, columns in ((True, -1, ["v"]), (False, 3, ["v", "k"]), (False, -1, ["v"])):
            rows = changed_rows(table, path, commits(path, after, 4), [*columns, *KINDS], 1000, again=again)
            assert sorted(range(max(after, 0) * 3, 12)) == sorted(rows["v"].to_pylist())
    assert [(1, 4), (4, 4)] == found
