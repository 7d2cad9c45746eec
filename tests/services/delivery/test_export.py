"""The published rows of an aggregate as one file: those that `show` prints, whole or not at all, and never in the lake."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import ipc

from materializer.adapters.cli.app import main
from materializer.adapters.cli.render.result import cell
from materializer.api import Materializer
from materializer.errors import SourceDamagedError, UsageError
from tests.hints.world import World
from tests.services.no_spark import each, view

LISTS: Final = view("lists", each("1 hour"), measure="count(*) AS n, sum(v) AS total")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake in a folder beside the working directory, with two days of hours in several files."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    world = World(tmp_path / "lake")
    world.apply(LISTS)
    world.works("backfill lists --buckets-per-run 10")
    return world


def of_arrow(file: Path) -> pa.Table:
    with ipc.open_file(file) as reader:
        return reader.read_all()


READ: Final[dict[str, Callable[[Path], pa.Table]]] = {
    "rows.parquet": lambda file: pq.ParquetFile(file).read(),
    "rows.arrow": of_arrow,
    "rows.feather": of_arrow,
}


def lake(world: World) -> Materializer:
    return Materializer(world.root)


def as_shown(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return sorted([*map(cell, row)] for row in rows)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    ("window", "hours"),
    [({}, 48), ({"start": "2024-03-01T05:00:00Z", "end": "2024-03-02"}, 19), ({"start": "2024-03-04"}, 0)],
)
def test_a_file_has_the_rows_that_are_shown(world: World, name: str, window: dict[str, str], hours: int) -> None:
    """
    In every format, of everything and of a window, and also where there are none; the version is that of the output.
    """
    columns, rows = lake(world).show("lists", limit=1_000, **window)

    report = lake(world).export("lists", name, **window)

    found = READ[name](Path(name))
    assert found.column_names == columns
    assert as_shown([tuple(row.values()) for row in found.to_pylist()]) == as_shown(rows)
    assert (len(rows), report.rows, report.bytes) == (hours, hours, Path(name).stat().st_size)
    assert report.version == DeltaTable(str(world.root / "lists" / "output")).version()


def test_csv_has_values_as_they_are_shown(world: World) -> None:
    """
    Instants in ISO form, numbers as they are.
    """
    columns, rows = lake(world).show("lists", limit=1_000)
    lake(world).export("lists", "rows.csv")

    with Path("rows.csv").open(newline="") as file:
        header, *found = csv.reader(file)
    assert header == columns
    assert sorted((at, int(n), int(total)) for at, n, total in found) == sorted(
        (cell(at), n, total) for at, n, total in rows
    )


def test_rows_pass_in_batches(world: World) -> None:
    """
    Each file of the output is read and written before the next one is opened: a row group for each.
    """
    files = len(DeltaTable(str(world.root / "lists" / "output")).file_uris())
    lake(world).export("lists", "rows.parquet")

    assert files > 3
    assert pq.ParquetFile("rows.parquet").metadata.num_row_groups == files


def test_nothing_is_replaced_unasked(world: World) -> None:
    """
    A file that is there stays as it is; --force replaces it.
    """
    Path("rows.csv").write_text("mine")
    hint = world.fails("export lists --to rows.csv", "usage")
    assert ("--force" in hint.text, Path("rows.csv").read_text()) == (True, "mine")

    world.works("export lists --to rows.csv --force")
    assert Path("rows.csv").read_text() != "mine"
    assert [p.name for p in Path().iterdir()] == ["rows.csv"]


def test_a_file_is_whole_or_as_before(world: World) -> None:
    """
    Where a file of the output is lost, what was there stays, and no part of a file is left.
    """
    Path("rows.parquet").write_text("mine")
    newest = max((world.root / "lists" / "output").glob("*.parquet"), key=lambda p: p.stat().st_mtime)
    newest.unlink()

    with pytest.raises(SourceDamagedError):
        lake(world).export("lists", "rows.parquet", overwrite=True)

    assert Path("rows.parquet").read_text() == "mine"
    assert [p.name for p in Path().iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize(
    ("to", "more", "words"),
    [
        ("../lake/rows.csv", {}, "lies in a lake"),
        ("../lake/lists/output/rows.parquet", {"overwrite": True}, "lies in a lake"),
        ("other/rows.csv", {}, "lies in a lake"),
        ("other/_materializer/listing.json", {"format": "csv", "overwrite": True}, "lies in a lake"),
        ("pipe.csv", {"overwrite": True}, "no regular file"),
        ("/dev/null", {"format": "csv", "overwrite": True}, "no regular file"),
        ("to.csv", {"overwrite": True}, "is a link"),
        (f"{'a' * 300}.csv", {}, "no name of a file"),
        ("a\0b.csv", {}, "no name of a file"),
        ("table/rows.csv", {}, "lies in a Delta table"),
        ("table/_delta_log/rows.csv", {}, "lies in a Delta table"),
        ("link/rows.csv", {}, "lies in a lake"),
        ("none/rows.csv", {}, "there is no folder"),
        ("table", {"format": "csv"}, "is a folder"),
        ("rows.xlsx", {}, "does not say its format"),
        ("s3://bucket/rows.csv", {}, "on a store"),
        ("rows.csv", {"format": "orc"}, "no format 'orc'"),
    ],
)
def test_a_place_that_is_unfit_is_refused(world: World, to: str, more: dict[str, Any], words: str) -> None:
    """
    In a lake or a table, also by way of a link; a pipe, a device or a link; where no folder is; a name that says no format. Nothing is written.
    """
    Path("table/_delta_log").mkdir(parents=True)
    Path("other/_materializer").mkdir(parents=True)
    os.mkfifo("pipe.csv")
    Path("to.csv").symlink_to("elsewhere.csv")
    Path("link").symlink_to(world.root, target_is_directory=True)
    before = sorted(p for p in world.root.rglob("*"))

    with pytest.raises(UsageError, match=words) as caught:
        lake(world).export("lists", to, **more)

    assert caught.value.hint
    assert sorted(p for p in world.root.rglob("*")) == before
    assert sorted(p.name for p in Path().iterdir()) == ["link", "other", "pipe.csv", "table", "to.csv"]
    assert Path("/dev/null").is_char_device()


def test_a_name_with_a_line_break_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """
    It would begin a line of its own among what is said; the error shows it as an escape.
    """
    assert 64 == main(["export", "lists", "--to", "a\nhint: b.csv", "--lake", str(world.root)])
    assert "error: 'a\\nhint: b.csv' has a line break" in capsys.readouterr().err
    assert [] == list(Path().iterdir())
