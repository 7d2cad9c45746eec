"""The place of a problem that only the source shows, in the text of its definition."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from materializer.errors import Problem, UsageError
from materializer.services.definitions.texts import Texts
from tests.services.no_spark import LocalLake, each, view

TEXT = """
CREATE MATERIALIZED VIEW d AS
SELECT time_bucket('1 day', at) AS day, sum(v) AS total FROM raw GROUP BY day;
"""


@pytest.mark.parametrize(
    ("about", "place"),
    [("total", (3, 51)), ("TOTAL", (3, 51)), ("1 day", (3, 21)), ("tot", (2, 1)), ("", (2, 1))],
)
def test_a_place_is_that_of_what_the_problem_is_about(about: str, place: tuple[int, int], tmp_path: Path) -> None:
    """
    It is the first whole word of that name in any letters, else where the definition begins; the message is not read.
    """
    file = tmp_path / "d.sql"
    file.write_text(TEXT)
    texts = Texts(frozenset())
    specs, _ = texts.read(file)
    found = texts.placed(Problem("definition.some", "d: `raw` and 'at' are named here", about=about), specs)

    assert (str(file), *place) == (found.file, found.line, found.column)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system names no open files")
def test_definitions_may_come_from_a_command(tmp_path: Path) -> None:
    """
    `<(…)` of a shell is a pipe, which is read once; a pipe in a folder, of which nobody knows who writes into it, is refused, and one with
    another ending is passed over.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    reader, writer = os.pipe()
    os.write(writer, view("hourly", each("1 hour")).encode())
    os.close(writer)
    try:
        assert ["hourly"] == [change.name for change in lake.opened.apply(f"/dev/fd/{reader}")]
    finally:
        os.close(reader)
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "d.sql").write_text(TEXT)
    os.mkfifo(folder / "other")
    assert ["d"] == [spec.name for spec in lake.opened.read_definitions(folder)[0]]
    os.mkfifo(folder / "p.sql")
    with pytest.raises(UsageError, match=r"'p\.sql' in .* is no regular file"):
        lake.opened.read_definitions(folder)


@pytest.mark.parametrize("kind", ["bytes", "link", "folder"])
def test_the_file_that_cannot_be_read_is_named(kind: str, tmp_path: Path) -> None:
    """
    Of a folder with many.
    """
    (tmp_path / "a.sql").write_text(TEXT)
    odd = tmp_path / "odd.sql"
    {
        "bytes": lambda: odd.write_bytes(b"\xff\xfe"),
        "link": lambda: odd.symlink_to("nowhere"),
        "folder": odd.mkdir,
    }[kind]()

    with pytest.raises(UsageError, match=r"odd\.sql cannot be read"):
        Texts(frozenset()).read(tmp_path)
