"""Tests look at the product from outside, and share nothing through another test."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests import documented, house_rules

LOWER = (
    "`python -m tests.house_rules` lowers the numbers of tests/house_rules.toml when a private name is used less often"
)


def test_no_test_imports_a_test() -> None:
    """
    What several files of tests need is in a module that is no test.
    """
    found = {path: house_rules.imported_tests(tree) for path, tree in house_rules.modules()}

    assert {} == {path: modules for path, modules in found.items() if modules}


def test_no_test_asks_how_something_was_called() -> None:
    """
    What comes of a call is compared, not that it was made.
    """
    found = {path: house_rules.calls_asserted(tree) for path, tree in house_rules.modules()}

    assert {} == {path: names for path, names in found.items() if names}


def test_private_names_are_used_less_and_less() -> None:
    """
    A file of tests imports, reads and patches at most as many private names of the product as `house_rules.toml` allows.
    """
    allowed = house_rules.allowed()
    more = {file: names for file, names in house_rules.private().items() if len(names) > allowed.get(file, 0)}

    assert {} == more, LOWER


def test_the_list_can_only_be_lowered() -> None:
    """
    The command that writes `house_rules.toml` raises no number and adds no file.
    """
    before, after = house_rules.allowed(), tomllib.loads(house_rules.lowered())["private"]

    assert {} == {file: n for file, n in after.items() if n > before.get(file, 0)}


ON_THIS_MACHINE = {
    "materializer/lake/places.py": "the one module that knows what a place is",
    "materializer/lake/store_settings.py": "each cloud's files with credentials, in the user's home",
    "materializer/lake/hostile.py": "pipes and devices, which only a path has",
    "materializer/lake/links.py": "symbolic links, which only a path has",
    "materializer/lake/export.py": "a file for people, outside of the lake",
    "materializer/journal/appended.py": "a store has no appending: there the file is written as a whole, by places",
    "materializer/services/delivery/export.py": "the place of that file",
    "materializer/services/processes.py": "/proc: which processes of this machine live",
    "materializer/services/quality/check.py": "a folder for pages that people read",
    "materializer/api/opened.py": "the root of a lake on this machine, as its callers know it",
    "materializer/adapters/cli/output.py": "the terminal",
}
"""Modules that reach files other than through places, and why."""


def test_only_places_reach_files_of_a_lake() -> None:
    """
    What touches a lake asks `materializer.lake.places`, so that it works on a store as in a folder.
    """
    rooms = tuple(
        f"materializer/{room}" for room in ("lake", "journal", "services", "api", "wiring.py", "adapters/cli")
    )
    found = {
        path: calls
        for path, tree in house_rules.product()
        if path.startswith(rooms) and (calls := house_rules.file_calls(tree))
    }

    assert {} == {path: calls for path, calls in found.items() if path not in ON_THIS_MACHINE}
    assert set(found) == set(ON_THIS_MACHINE)


def test_folders_of_tests_are_rooms() -> None:
    """
    Below a floor of the house each folder with tests has the name of a room of that floor.
    """
    floors = ("adapters", "core", "journal", "lake", "services", "spark")
    tests, product = house_rules.ROOT / "tests", house_rules.ROOT / "materializer"
    folders = {path.parent.relative_to(tests) for floor in floors for path in (tests / floor).rglob("test_*.py")}

    assert [] == sorted(str(folder) for folder in folders if not (product / folder).is_dir())


def test_what_a_docstring_describes_is_a_parameter() -> None:
    """
    The names under `Args` are in the signature, or are fields of the class; ruff has no such rule for classes.
    """
    folders = (house_rules.ROOT / "materializer", house_rules.ROOT / "tests")
    every = [name for folder in folders for path in sorted(folder.rglob("*.py")) for name in documented.strangers(path)]

    assert [] == every


@pytest.mark.parametrize(
    "text",
    [
        "from materializer.wiring import _PRIVATE",
        "from materializer import wiring\nwiring._PRIVATE",
        "wiring._PRIVATE = 1",
        "opened().wiring._PRIVATE[0]",
        "monkeypatch.setattr(wiring, '_PRIVATE', 1)",
        "monkeypatch.setattr('materializer.wiring._PRIVATE', 1)",
        "patch.object(wiring, '_PRIVATE')",
        "getattr(wiring, '_PRIVATE')",
    ],
)
def test_a_use_of_a_private_name_is_seen(monkeypatch, text: str) -> None:
    """
    However it is reached; in a module that defines the name itself it is another one.
    """
    monkeypatch.setattr(house_rules, "private_names", lambda: frozenset({"_PRIVATE"}))

    assert ["_PRIVATE"] == house_rules.private_uses(ast.parse(text))
    assert [] == house_rules.private_uses(ast.parse(f"_PRIVATE = 1\n{text}"))
    assert [] == house_rules.private_uses(ast.parse(text.replace("_PRIVATE", "PUBLIC")))
