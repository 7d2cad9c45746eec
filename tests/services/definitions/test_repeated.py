"""Definitions that are applied again as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlglot.tokens import Tokenizer

from materializer.errors import DefinitionError
from materializer.services.definitions.repeated import CROWD, pieces
from tests.counting import calls_to
from tests.services.no_spark import BY_ROWS, LocalLake

BEHIND = ("\n", "\n\n-- of a team; it ends;\n", "\n/* one;\ntwo;\n*/\n", " -- behind;\n", "\n;\n", " /* ", "\n'", "")
"""What may stand behind the semicolon of a statement: the last four are an empty statement, and mistakes."""
COMMENTS = ("", "x", "a;\nb", "-- no;\n", "it''s", "/* no", "\\'", "*/")


def statement(number: int, comment: str = "x", hours: int = 1) -> str:
    """Return one of many definitions over one source, without its semicolon."""
    said = f"COMMENT '{comment}'\n" if comment else ""
    return (
        f"CREATE MATERIALIZED VIEW of_{number}\n{said}AS SELECT time_bucket('{hours} hours', ts) AS at, sum(v + {number}) AS v\n"
        "FROM raw GROUP BY at"
    )


def script(*statements: str, behind: str = "\n") -> str:
    """Return a text of statements, each with a semicolon and something behind it."""
    return "".join(f"{text};{behind}" for text in statements)


EVERY = tuple(statement(number) for number in range(CROWD))


@contextmanager
def another_user(folder: str) -> Iterator[None]:
    """Have another user's cache while the block runs."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    try:
        yield
    finally:
        del os.environ["XDG_CACHE_HOME"]
        os.environ |= {} if before is None else {"XDG_CACHE_HOME": before}


def said_of(lake: LocalLake, text: str) -> Any:
    """Return what applying a text would do, or why it is refused."""
    try:
        return lake.apply(text, dry_run=True)
    except DefinitionError as exc:
        return exc.problems


def test_only_what_changed_is_parsed(tmp_path: Path) -> None:
    """
    Of many definitions that were applied before, only a text that differs is parsed; another user parses all of them.
    """
    lake = LocalLake(tmp_path)
    lake.apply(script(*EVERY))
    changed = script(*EVERY[:3], statement(3, "changed"), *EVERY[4:])

    def parsed() -> int:
        return calls_to(Tokenizer.tokenize, lambda: lake.apply(changed, dry_run=True))

    with another_user(str(tmp_path / "cache")):
        everything = parsed()

    assert 0 == calls_to(Tokenizer.tokenize, lambda: lake.apply(script(*EVERY), dry_run=True))
    assert 0 < parsed() < everything / 5
    assert {c.name: c.kind for c in lake.apply(changed)} == {
        f"of_{n}": "metadata" if n == 3 else "unchanged" for n in range(CROWD)
    }


def add_property(lake: LocalLake) -> None:
    """Change what the journal says of one of them, and not its text."""
    lake.opened.add_policy("of_7", "hourly", schedule="@hourly", start_offset="7 days")


def widen(lake: LocalLake) -> None:
    """Give the source one more column, called as an alias."""
    write_deltalake(f"{lake.root}/raw", pa.table({"at": pa.array([1], pa.int64())}), mode="append", schema_mode="merge")


def replace_source(lake: LocalLake) -> None:
    """Put another table where the source was."""
    schema = DeltaTable(f"{lake.root}/raw").schema()
    (lake.root / "raw").rename(lake.root / "old")
    DeltaTable.create(str(lake.root / "raw"), schema)


def add_suite(lake: LocalLake, folder: Path) -> None:
    """Let one of them have a suite, by its name in another case."""
    (folder / "Of_7.json").write_text('{"name": "of_7", "expectations": []}')


def apply_another(lake: LocalLake) -> None:
    """Have another definition applied under the name of one of them."""
    lake.apply(script(statement(7, hours=5)))


def drop(lake: LocalLake) -> None:
    """Drop one of them."""
    lake.opened.drop("of_7")


@pytest.mark.parametrize("change", [add_property, widen, replace_source, add_suite, apply_another, drop])
def test_what_changed_elsewhere_is_seen(tmp_path: Path, change: Any) -> None:
    """
    The texts are the same; what is said of them is what another user is told, who parses all.
    """
    folder = tmp_path / "suites"
    folder.mkdir()
    (tmp_path / "lake").mkdir()
    lake = LocalLake(tmp_path / "lake", config=replace(BY_ROWS, expectations=str(folder)))
    lake.apply(script(*EVERY))
    before = said_of(lake, script(*EVERY))
    change(*((lake, folder) if change is add_suite else (lake,)))

    told = said_of(lake, script(*EVERY))

    with another_user(str(tmp_path / "cache")):
        assert told == said_of(lake, script(*EVERY)) != before


texts = st.tuples(st.integers(0, CROWD + 2), st.sampled_from(COMMENTS), st.integers(1, 2), st.sampled_from(BEHIND))


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    """A lake whose definitions this user has applied."""
    lake = LocalLake(tmp_path_factory.mktemp("lake"))
    lake.apply(script(*EVERY))
    return lake


@settings(max_examples=15, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, CROWD), st.lists(texts, max_size=3)), min_size=1, max_size=4))
def test_it_is_what_somebody_else_is_told(
    applied: LocalLake, edits: list[tuple[int, list[tuple[int, str, int, str]]]]
) -> None:
    """
    Whatever stands between known definitions, beside them or twice: the changes, or the problems with their places, are those of
    a user who parses all.
    """
    written = [(text, "\n") for text in EVERY]
    for at, new in edits:
        written[at : at + len(new)] = [(statement(n, comment, hours), behind) for n, comment, hours, behind in new]
    text = "".join(f"{one};{behind}" for one, behind in written)

    told = said_of(applied, text)

    with TemporaryDirectory() as folder, another_user(folder):
        assert told == said_of(applied, text)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", []),
        ("a;b;\n c ; \n\n", ["a;b;", "c ;"]),
        ("-- of a team\na;\n\n-- of another\nb", ["-- of a team\na;", "-- of another\nb"]),
        ("'a;\nb';", ["'a;", "b';"]),
    ],
)
def test_a_text_is_cut_at_the_ends_of_lines(text: str, cut: list[str]) -> None:
    """
    Behind semicolons, whatever these stand in.
    """
    assert cut == pieces(text)
