"""Tests of other folders that follow hints: those with the mark `follows_hint`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from tests.paths import ROOT

FAMILIES: Final = ("definition.", "suite.")
"""How the codes of problems in definitions and suites begin."""


def followed_elsewhere() -> dict[str, Path]:
    """Return the codes whose hints tests of other folders follow, and the file of each: what `follows_hint` marks."""
    found = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "follows_hint(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.follows_hint":
                        found |= {ast.literal_eval(code): file for code in mark.args}
    return found
