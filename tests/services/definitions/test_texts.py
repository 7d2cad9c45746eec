"""The place of a problem that only the source shows, in the text of its definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.errors import Problem, UsageError
from materializer.services.definitions.texts import Texts

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
