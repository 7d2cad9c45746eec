"""Whether a source is still the one that was captured, without a JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from materializer.core.refresh.invalidation import MOST_COMMITS, SourceMark
from materializer.lake.capture import source_marks
from materializer.lake.table import DeltaFolder

ROWS = pa.table({"x": pa.array([1], pa.int64())})


def field(name: str, kind: Any, physical: str | None = None) -> dict[str, Any]:
    """Return a field of a schema."""
    metadata = {} if physical is None else {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def schema(*fields: dict[str, Any]) -> str:
    """Return a schema as JSON."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return the type of a struct."""
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"type": "array", "elementType": s, "containsNull": True}])
def test_fields_that_got_each_others_name_are_other_columns(wrap: Any) -> None:
    """
    The names inside a column count with what they are called underneath, in whatever order they stand.
    """
    before = schema(field("s", wrap(struct(field("a", "long", "c-1"), field("b", "long", "c-2"))), "c-0"))
    moved = schema(field("S", wrap(struct(field("b", "long", "c-2"), field("a", "long", "c-1"))), "c-0"))
    swapped = schema(field("s", wrap(struct(field("a", "long", "c-2"), field("b", "long", "c-1"))), "c-0"))

    names = source_marks.names_underneath
    assert names(before) == names(moved)
    assert names(before) != names(swapped)


def test_a_table_that_is_upgraded_has_the_same_columns() -> None:
    """
    Column mapping gives each column the name underneath that it had.
    """
    plain = schema(field("x", "long"), field("s", struct(field("a", "long"))))
    mapped = schema(field("x", "long", "x"), field("s", struct(field("a", "long", "a")), "s"))

    assert source_marks.names_underneath(plain) == source_marks.names_underneath(mapped)


def written(path: Path, commits: int) -> DeltaFolder:
    """Append to a table, and return it."""
    for _ in range(commits):
        write_deltalake(str(path), ROWS, mode="append")
    return DeltaFolder.at(str(path))


def test_another_commit_under_a_number_is_seen(tmp_path: Path) -> None:
    """
    A copy is the same table, whatever the times of its files are; one that was put back and written to is another.
    """
    table = written(tmp_path / "t", 2)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    written(tmp_path / "t", 2)
    known = source_marks.mark(table, 3, ["x"])
    again = tmp_path / "again"
    shutil.copytree(tmp_path / "t", again, copy_function=shutil.copyfile)

    assert not source_marks.has_other_commit(table, 3, known)
    assert not source_marks.has_other_commit(DeltaFolder.at(str(again)), 3, known)
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "copy", tmp_path / "t")
    table = written(tmp_path / "t", 3)
    assert 4 == table.head().version
    assert source_marks.has_other_commit(table, 3, known)
    assert not source_marks.has_other_commit(table, 3, SourceMark()), "an earlier release captured it"


def test_commits_of_a_history_that_is_gone_are_forgotten() -> None:
    """
    After a source turned out to be another one, no commit of the other history is taken for one that both have.
    """
    known = SourceMark()
    for version in range(MOST_COMMITS + 4):
        known = known.after(SourceMark({"x": "x"}, {str(version): f"d{version}"}))
    assert [str(v) for v in range(4, MOST_COMMITS + 4)] == list(known.commits)

    now = known.after(SourceMark({"x": "x"}, {"5": "d5", "9": "other"}, reason="another history"))

    assert {"5": "d5", "9": "other"} == now.commits
    assert "another history" == now.after(SourceMark({"x": "x"}, {"10": "new"})).reason


def test_a_column_that_no_capture_read_is_looked_up_in_the_log(tmp_path: Path) -> None:
    """
    A version that reads more columns knows what these were at its cursor.
    """
    table = written(tmp_path / "t", 1)

    assert {"x": "x", "y": "c-7"} == source_marks.columns_before(table, 0, SourceMark({"y": "c-7"}), ["X", "y"])
