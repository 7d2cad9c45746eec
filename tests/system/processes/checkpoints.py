"""The checkpoints that the product has, as its source says."""

from __future__ import annotations

import ast

from materializer.services.protocol.process import At, Which
from tests.paths import ROOT


def checkpoint_names() -> set[str]:
    """Return all names that the product gives to checkpoints: the steps of the protocol, and what is written out."""
    names = {at.value for at in At}
    for file in sorted((ROOT / "materializer").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)):
                called = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
                if called in {"on_checkpoint", "_checkpoint"}:
                    names |= _names(call.args[0])
    return names


def _names(argument: ast.expr) -> set[str]:
    match argument:
        case ast.Constant(value=str(name)):
            return {name}
        case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), ast.FormattedValue(value=ast.Name(id="which"))]):
            return {f"{prefix}{which}" for which in Which}
        case ast.Attribute(attr="value") | ast.Name(id="name"):
            return set()  # a step of the protocol, or what another call was given
    raise AssertionError(f"no rule says which checkpoint {ast.unparse(argument)} is")
