"""Expressions that were compiled before: what the user's cache says of them, and when it is not believed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from materializer.local import compiled_before, expressions
from materializer.local.compiled_before import FOLDER, NAME, compiled, remember, remembered
from materializer.local.connection import CONNECTIONS
from materializer.local.kinds import NotLocal, kind_of
from materializer.local.scope import Scope
from tests.paths import ROOT

SCOPE = Scope({"v": kind_of("bigint"), "k": kind_of("string")})
TEXT = "coalesce(v, 3) + 1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a new cache; this process has read none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    remembered.cache_clear()
    yield tmp_path / "materializer" / FOLDER / NAME
    remembered.cache_clear()


def again() -> None:
    """Let this process be a new one."""
    remember()
    remembered.cache_clear()


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiler raise."""

    def compile_nothing(sql: str, scope: Scope) -> None:
        raise AssertionError(sql)

    monkeypatch.setattr(expressions, "compiled", compile_nothing)


def test_a_text_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What another process compiled is as the compiler gives it, refusals among them.
    """
    first = compiled(TEXT, SCOPE)
    with pytest.raises(NotLocal) as why:
        compiled("rand()", SCOPE)
    again()
    assert cache.is_file()
    assert first == expressions.compiled(TEXT, SCOPE)

    refuse(monkeypatch)

    assert first == compiled(TEXT, SCOPE)
    with pytest.raises(NotLocal) as still:
        compiled("rand()", SCOPE)
    assert str(why.value) == str(still.value)


@pytest.mark.parametrize(
    "other",
    [
        Scope({"v": kind_of("int"), "k": kind_of("string")}),
        Scope({"v": kind_of("bigint"), "k": kind_of("string")}, are_rows=True),
        Scope({"V": kind_of("bigint"), "k": kind_of("string")}),
    ],
    ids=["another type", "rows", "another name"],
)
def test_a_scope_is_part_of_the_text(other: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The same text over other columns is another one.
    """
    compiled(TEXT, SCOPE)
    again()
    refuse(monkeypatch)

    with pytest.raises(AssertionError):
        compiled(TEXT, other)


def test_columns_that_a_text_does_not_name_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The rows of each step of a query have some more; a name in another case counts, and so does one that is written with quotes.
    """
    first = compiled(TEXT, SCOPE)
    quotes = Scope({"a`b": kind_of("bigint")})
    assert kind_of("bigint") == compiled("`a``b`", quotes).kind
    assert first == compiled(TEXT.upper(), SCOPE)
    again()
    refuse(monkeypatch)

    assert first == compiled(TEXT, Scope({"other": kind_of("int"), **SCOPE.columns, "mz_at": kind_of("bigint")}))


def test_another_compiler_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A release, a changed file and another parser compile everything anew.
    """
    compiled(TEXT, SCOPE)
    again()
    monkeypatch.setattr(compiled_before, "compiler", lambda: "another")
    refuse(monkeypatch)

    with pytest.raises(AssertionError):
        compiled(TEXT, SCOPE)


def test_the_compiler_is_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A file that was written again is another compiler.
    """
    file = tmp_path / "local" / "expressions.py"
    file.parent.mkdir()
    file.write_text("1")
    monkeypatch.setattr(compiled_before, "__file__", str(file.with_name("compiled_before.py")))
    before = compiled_before.compiler()

    os.utime(file, ns=(1, 1))

    assert before != compiled_before.compiler()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"by":1}',
        b'{"by":"x","texts":{"a":3}}',
        b'{"by":"x","texts":{"a":{"sql":1}}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_file_of_others_is_passed_over(content: bytes, cache: Path) -> None:
    """
    It is compiled anew, and the file is written again.
    """
    cache.parent.mkdir(parents=True)
    cache.write_bytes(content)

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)
    remember()
    assert len(msgspec.json.decode(cache.read_bytes())["texts"]) == 1


def test_a_pipe_is_not_waited_for(cache: Path) -> None:
    """
    It is no file of ours; what was compiled takes its place.
    """
    cache.parent.mkdir(parents=True)
    os.mkfifo(cache)

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)
    remember()
    assert cache.is_file()


def test_a_cache_that_cannot_be_written_stops_nothing(cache: Path) -> None:
    """
    The folder is a file.
    """
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("")

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)
    remember()


@pytest.mark.parametrize("damage", ["GREATEST(", "nothing_of_this_name", "no_function(1)"])
def test_what_duckdb_refuses_is_compiled_anew_by_the_next_command(damage: str, cache: Path) -> None:
    """
    A damaged text fails one command and not all that follow.
    """
    compiled(TEXT, SCOPE)
    again()
    data = msgspec.json.decode(cache.read_bytes())
    for form in data["texts"].values():
        form["sql"] = damage
    cache.write_bytes(msgspec.json.encode(data))
    remembered.cache_clear()
    with pytest.raises(NotLocal), CONNECTIONS.one() as connection:
        connection.query(f"SELECT {compiled(TEXT, SCOPE).sql} FROM (SELECT 1 AS v, 'a' AS k)")
    again()

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)
    again()
    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)
    assert cache.is_file()


def test_a_value_that_cannot_be_computed_is_no_reason_to_forget(cache: Path) -> None:
    """
    Rows are to blame, and the text stays.
    """
    compiled(TEXT, SCOPE)
    again()
    with pytest.raises(NotLocal), CONNECTIONS.one() as connection:
        connection.query("SELECT CAST('x' AS BIGINT)")

    assert cache.is_file()


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o777])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_may_write_is_not_believed(cache: Path, mode: int, which: str) -> None:
    """
    What is read there is run: who could write it could have any number published.
    """
    compiled(TEXT, SCOPE)
    remember()
    data = msgspec.json.decode(cache.read_bytes())
    for form in data["texts"].values():
        form["sql"] = "42"
    cache.write_bytes(msgspec.json.encode(data))
    remembered.cache_clear()
    assert compiled(TEXT, SCOPE).sql == "42"
    (cache if which == "file" else cache.parent).chmod(mode)
    remembered.cache_clear()

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")
def test_what_another_user_wrote_is_not_believed(cache: Path) -> None:
    """
    Nor what belongs to somebody else.
    """
    compiled(TEXT, SCOPE)
    remember()
    cache.write_bytes(cache.read_bytes().replace(b"COALESCE", b"GREATEST"))
    os.chown(cache, 1234, 1234)
    remembered.cache_clear()

    assert expressions.compiled(TEXT, SCOPE) == compiled(TEXT, SCOPE)


def test_processes_keep_what_others_wrote(cache: Path) -> None:
    """
    Two that read the same file, and write one after the other, lose nothing.
    """
    compiled(TEXT, SCOPE)
    remembered.cache_clear()
    compiled("v + 2", SCOPE)
    first = remembered()
    remembered.cache_clear()
    compiled("v + 3", SCOPE)
    remember()
    remembered.cache_clear()
    remembered().texts, remembered().is_new = first.texts, True
    remember()

    assert len(msgspec.json.decode(cache.read_bytes())["texts"]) == 2


def test_a_failed_write_leaves_no_file(cache: Path) -> None:
    """
    A folder in the place of the file, or a text that is no text.
    """
    cache.mkdir(parents=True)
    compiled(TEXT, SCOPE)
    remember()
    with suppress(NotLocal):
        compiled("k = '\ud800'", SCOPE)
    remembered().is_new = True
    remember()

    assert [NAME] == [file.name for file in cache.parent.iterdir()]


def test_the_file_stays_small(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Only the last texts are remembered, and no long one.
    """
    monkeypatch.setattr(compiled_before, "MOST_TEXTS", 3)
    for number in range(5):
        compiled(f"v + {number}", SCOPE)
    compiled(f"k = '{'x' * compiled_before.MOST_LENGTH}'", SCOPE)
    again()

    assert len(msgspec.json.decode(cache.read_bytes())["texts"]) == 3


def test_a_process_that_finds_its_texts_loads_no_parser(cache: Path) -> None:
    """
    That is what the cache is for.
    """
    compiled(TEXT, SCOPE)
    again()
    code = (
        "import sys; from materializer.local.compiled_before import compiled; from materializer.local.scope import Scope; "
        "from materializer.local.kinds import kind_of; "
        f"print(compiled({TEXT!r}, Scope({{'v': kind_of('bigint'), 'k': kind_of('string')}})).sql, 'sqlglot' in sys.modules)"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout

    assert f"{expressions.compiled(TEXT, SCOPE).sql} False" == told.strip()
