"""What an error says was written is said where that is known, and never by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from materializer import errors
from materializer.errors import NOTHING, MaterializerError, StorageError, UsageError
from tests.paths import ROOT

FAMILY = {name: getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
UNKNOWING = {name for name, each in FAMILY.items() if each.default_wrote == MaterializerError.default_wrote}
LOOKING = ("'reading", "'looking at")
MODULES = sorted((ROOT / "materializer").rglob("*.py"))


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of functions and classes in a module, by name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node


def says(call: ast.Call) -> bool:
    """Whether a call gives ``wrote``, perhaps among more that is given by name."""
    return any(keyword.arg in (None, "wrote") for keyword in call.keywords)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.relative_to(ROOT / "materializer").as_posix())
def test_who_raises_an_error_of_storage_says_what_was_written(file: Path) -> None:
    """
    Errors of the storage, the state and the environment come before a write as well as in its middle. So does what is translated
    while something else than reading is done.
    """
    silent = [
        node.lineno
        for name, node in calls(file)
        if (name in UNKNOWING or (name == "translated" and not ast.unparse(node.args[1]).startswith(LOOKING)))
        and not says(node)
    ]
    assert silent == []


def test_an_error_claims_nothing_that_its_class_does_not_know() -> None:
    """
    A wrong argument is refused before anything is written; of a disk that fails nobody knows.
    """
    assert UsageError("m").wrote == NOTHING
    assert StorageError("m").wrote == "what had been written is not known; the next command finds out"
