"""How tests may look at the product: from outside, and not through another test.

``python -m tests.house_rules`` lowers the numbers in ``house_rules.toml`` to those of today; it never raises one.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.paths import ROOT

FILE: Final = Path(__file__).with_name("house_rules.toml")
_HEAD: Final = """\
# How often each file of tests uses a private name of the product. `python -m tests.house_rules` lowers these numbers; nothing raises them.

[private]
"""
_OWNERS: Final = {"self", "cls"}
_BY_NAME: Final = {"setattr", "getattr", "delattr", "hasattr", "patch", "object"}
"""Functions that are given a name as text."""
_OF_TUPLES: Final = {"_replace", "_asdict", "_fields", "_make"}
"""What a named tuple has, and is public although it begins with an underscore."""
_OF_NOTEBOOKS: Final = {"_repr_html_"}
"""What a notebook calls."""
_OF_FILES: Final = re.compile(
    r"os\.(?!getpid|kill|cpu_count|environ|devnull|dup2|getppid).*|shutil\.(?!get_terminal_size).*|glob\..*"
)
"""Calls that reach files."""
_OF_MOCKS: Final = {"call_args", "call_args_list", "call_count", "mock_calls", "method_calls"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each module of the tests."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def is_private(name: str) -> bool:
    """Say whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


@cache
def private_names() -> frozenset[str]:
    """Return the private names that the product defines: functions, classes, attributes and values."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "materializer").rglob("*.py"))
    return frozenset(name for tree in trees for name in _defined(tree)) - _OF_TUPLES - _OF_NOTEBOOKS


def product() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each module of the product."""
    for path in sorted((ROOT / "materializer").rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def file_calls(tree: ast.AST) -> list[str]:
    """Return how a module asks the operating system for files: calls of ``Path``, ``open``, ``os`` and ``shutil``.

    Examples:
        >>> file_calls(ast.parse("os.path.exists(p); os.getpid(); Path(p).stat(); shutil.rmtree(p); open(p)"))
        ['Path', 'open', 'os.path.exists', 'shutil.rmtree']
    """
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sorted({name for name in calls if name in {"Path", "open"} or _OF_FILES.fullmatch(name)})


def imported_tests(tree: ast.AST) -> list[str]:
    """Return the modules of tests that a module imports, or imports from.

    Examples:
        >>> imported_tests(ast.parse("from tests.lake.test_log import rows; from tests.lake import tables, test_table"))
        ['tests.lake.test_log', 'tests.lake.test_table']
    """
    return [module for module in _imports(tree) if any(part.startswith("test_") for part in module.split("."))]


def private_uses(tree: ast.AST) -> list[str]:
    """Return the private names of the product that a module uses: imported, read, assigned, or named in a text.

    A name that the module defines too is its own. What is reached by ``self`` or ``cls`` is the test's own, too.
    """
    foreign = private_names() - set(_defined(tree))
    return [name for node in ast.walk(tree) for name in _used(node) if name in foreign]


def calls_asserted(tree: ast.AST) -> list[str]:
    """Return the names by which a module asks a mock how it was called.

    Examples:
        >>> calls_asserted(ast.parse("mock.assert_called_once_with(1)"))
        ['assert_called_once_with']
    """
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    asserting = ("assert_called", "assert_not_called", "assert_any_call", "assert_has_calls", "assert_awaited")
    return [name for name in names if name.startswith(asserting) or name in _OF_MOCKS]


@cache
def private() -> dict[str, list[str]]:
    """Return the private names of the product that each module of the tests uses, if it does."""
    found = {path: private_uses(tree) for path, tree in modules()}
    return {path: names for path, names in found.items() if names}


def allowed() -> Mapping[str, int]:
    """Return the numbers that are allowed."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))["private"]


def lowered() -> str:
    """Return the text of the file with today's numbers where these are lower. A file without private names is removed."""
    now = {file: len(names) for file, names in private().items()}
    return _HEAD + "".join(f'"{file}" = {min(n, now[file])}\n' for file, n in sorted(allowed().items()) if file in now)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            tests = [f"{module}.{name.name}" for name in node.names if name.name.startswith("test_")]
            yield from tests or [module]


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Name(id=name, ctx=ast.Store()):
                names = [name]
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Store()) if owner in _OWNERS:
                names = [name]
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=slots)):
                names = [slot.value for slot in slots if isinstance(slot, ast.Constant)]
            case _:
                names = []
        yield from filter(is_private, names)


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "materializer":
            yield from (name.name for name in names)
        case ast.Attribute(value=ast.Name(id=owner)) if owner in _OWNERS:
            pass
        case ast.Attribute(attr=name):
            yield name
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments) if name in _BY_NAME:
            texts = (a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str))
            yield from (text.rpartition(".")[2] for text in texts)


if __name__ == "__main__":
    FILE.write_text(lowered(), encoding="utf-8")
