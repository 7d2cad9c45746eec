"""Whatever code moves, what a user can name stays as it is written down here."""

from __future__ import annotations

import re

import pytest

from tests.golden import files, surface
from tests.golden.__main__ import PARTS, main


def test_every_help_page_is_as_kept() -> None:
    """
    The program, each group and each command say of themselves what they said.
    """
    assert "" == files.differences("help", surface.help_pages())


def test_the_public_names_are_as_kept() -> None:
    """
    Names, signatures, errors with codes and exit statuses, properties and settings are those of the golden files.
    """
    assert "" == files.differences("api", surface.api())


def test_a_difference_is_shown_with_what_to_do(tmp_path, monkeypatch) -> None:
    """
    A changed line, a file that is missing and one that nothing makes any more are told, with the command that writes them.
    """
    monkeypatch.setattr(files, "HERE", tmp_path)
    files.write("help", {"help/a.txt": "one\ntwo\n", "help/gone.txt": ""})

    told = files.differences("help", {"help/a.txt": "one\n2\n", "help/new.txt": ""})

    assert "-two\n+2\nhelp/gone.txt: nothing makes" in told
    assert "help/new.txt: there is no such golden file" in told
    assert told.endswith("python -m tests.golden --only help")
    files.write("help", {"help/a.txt": "one\n2\n"})
    assert ["help/a.txt"] == list(files.kept("help"))


def test_every_file_belongs_to_a_part() -> None:
    """
    No golden file is left that no part makes.
    """
    found = {
        p.relative_to(files.HERE).as_posix() for p in files.HERE.rglob("*.*") if p.suffix in {".txt", ".json", ".jsonl"}
    }

    assert found == {name for part in PARTS for name in files.kept(part)}


@pytest.mark.parametrize("part", list(PARTS))
def test_nothing_of_a_machine_is_kept(part: str) -> None:
    """
    No golden file has a folder of a machine, a moment of its run or an id that was drawn.
    """
    text = "\n".join(files.kept(part).values())
    drawn = [found for found in re.findall(r"\b[0-9a-f]{32}\b", text) if not found.startswith("0" * 24)]
    folders = ("/tmp/", "/home/", "/root/", "/work/", "/private/", "/Users/")

    assert [] == [
        f"{folder} in {name}" for name, kept in files.kept(part).items() for folder in folders if folder in kept
    ]
    assert [] == re.findall(r"\b202[5-9]-\d\d-\d\d\S*", text)
    assert [] == drawn


def test_what_holds_for_ever_is_written_only_by_name(monkeypatch) -> None:
    """
    Without a name all parts are written but the recorded ones.
    """
    asked: list[str] = []
    monkeypatch.setattr(files, "write", lambda part, _made: asked.append(part))
    monkeypatch.setattr("tests.golden.__main__.PARTS", dict.fromkeys(PARTS, dict))

    main([])

    assert ["help", "api", "journal", "commands"] == asked
