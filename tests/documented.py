"""Which names the `Args` of docstrings describe that are no parameters: of functions, and of classes with their fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def strangers(path: Path) -> Iterator[str]:
    """Yield each described name that is no parameter and no field, with what describes it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _DEFINED) and not getattr(node, "bases", ()):  # which may have the fields
            known = _fields(node) if isinstance(node, ast.ClassDef) else _parameters(node)
            yield from (
                f"{path.name}:{node.lineno} {node.name}: {name}" for name in _described(node) if name not in known
            )


def _described(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    lines = (ast.get_docstring(node) or "").split("\n")
    at = next((n for n, line in enumerate(lines) if line == "Args:"), len(lines))
    section = []
    for line in lines[at + 1 :]:
        if line and not line.startswith(" "):
            break
        section.append(line)
    heads = (re.match(r" {4}([*\w]+(?:, [*\w]+)*):", line) for line in section)
    return [name.lstrip("*") for head in heads if head for name in head[1].split(", ")]


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None}


def _attributes(node: ast.FunctionDef) -> set[str]:
    """Return what a constructor sets of the object itself."""
    every = (one for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store))
    return {one.attr for one in every if isinstance(one.value, ast.Name) and one.value.id == "self"}


def _fields(node: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            names.add(part.target.id)
        elif isinstance(part, ast.FunctionDef):
            names |= _parameters(part) | _attributes(part) if part.name in ("__init__", "__new__") else {part.name}
    return names
