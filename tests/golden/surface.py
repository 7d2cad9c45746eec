"""What a user can name: commands with their options, the façade, errors, properties, settings."""

from __future__ import annotations

import inspect
import io
import os
import re
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout
from enum import Enum
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final
from unittest.mock import patch

import typer
from msgspec import Struct

import materializer
from materializer import config, structs
from materializer.adapters.cli.app import main
from materializer.adapters.cli.application import app
from materializer.core.language.properties import refusals
from materializer.structs import written_signature
from tests.paths import ROOT

PLAIN: Final = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
"""An environment in which nobody adds colour, and lines are as wide as where there is no terminal."""


def help_pages() -> dict[str, str]:
    """Return what ``--help`` says of the program, of each group and of each command."""
    command: Any = typer.main.get_command(app)
    with patch.dict(os.environ, PLAIN):
        return {f"help/{'-'.join(words) or 'materializer'}.txt": _help(words) for words in _words(command)}


def _words(command: Any, *before: str) -> Iterator[tuple[str, ...]]:
    yield before
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _words(inner, *before, name)


def _help(words: tuple[str, ...]) -> str:
    told = io.StringIO()
    with redirect_stdout(told):
        status = main([*words, "--help"])
    lines = "\n".join(line.rstrip() for line in told.getvalue().splitlines())
    return f"{lines}\n--- exit {status}\n"


# -- the façade ----------------------------------------------------------------------------------------------------------


def api() -> dict[str, str]:
    """Return the signatures of everything public, the errors, and what can be set."""
    listed = {name: getattr(materializer, name) for name in materializer.__all__}
    parts = [f"materializer: {', '.join(materializer.__all__)}\n"]
    parts += ["\n".join(_lines(name, value)) + "\n" for name, value in sorted((_documented() | listed).items())]
    return {"api.txt": "\n".join(parts), "errors.txt": _errors(), "properties.txt": _settings()}


_BASES: Final = frozenset({object, Struct, *(b for b in vars(structs).values() if isinstance(b, type))})
"""Bases that no user asks for."""


def _documented() -> dict[str, Any]:
    """What docs/api.md names besides: reports, and parts of definitions."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    found = {}
    for path in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", page, flags=re.MULTILINE):
        module, _, name = path.rpartition(".")
        found[name] = getattr(import_module(module), name)
    return found | {"Config": config.Config, "SparkConfig": config.SparkConfig, "read": config.read}


def _lines(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}({', '.join(b.__name__ for b in value.__bases__ if b not in _BASES)})"
        yield from _indented(_told(value), *([] if issubclass(value, Enum) else [f"__init__{_signature(value)}"]))
        for member, inner in sorted(inspect.getmembers_static(value)):
            if member.startswith("_") or _is_inherited(value, member):
                continue
            yield from _indented(*_member(member, inner, value))
    elif inspect.isfunction(value):
        yield f"{name}{_signature(value)}"
        yield from _indented(_told(value))
    else:
        yield f"{name}: {_shape(value)}"


def _member(name: str, value: Any, owner: type) -> Iterator[str]:
    if isinstance(value, Enum):
        yield f"{name} = {value.value!r}"
    elif isinstance(value, property):
        yield f"{name} -> {_annotation(inspect.signature(value.fget).return_annotation)}"  # type: ignore[arg-type]
        yield f"    {_told(value)}"
    elif isinstance(value, (classmethod, staticmethod)) or callable(value):
        kind = f"{type(value).__name__} " if isinstance(value, (classmethod, staticmethod)) else ""
        yield f"{kind}{name}{_signature(getattr(value, '__func__', value))}"
        yield f"    {_told(value)}"
    elif not (issubclass(owner, Struct) and name in owner.__struct_fields__):  # those stand in __init__
        yield f"{name} = {_default(value)}"


def _is_inherited(owner: type, member: str) -> bool:
    """Whether a member stands in a class of the standard library."""
    home = next((c for c in owner.__mro__ if member in vars(c)), owner)
    return not home.__module__.startswith("materializer")


def _indented(*lines: str) -> Iterator[str]:
    yield from (f"    {line}" for line in lines)


def _told(value: Any) -> str:
    text = inspect.getdoc(value) or "(nothing is said)"
    first = text.partition("\n\n")[0]
    return " ".join(first.split())


def _signature(value: Any) -> str:
    is_value = isinstance(value, type) and issubclass(value, Struct)
    found = written_signature(value) if is_value else inspect.signature(value)
    parameters = [p.replace(annotation=_Text(_annotation(p.annotation))) for p in found.parameters.values()]
    parameters = [p if p.default is p.empty else p.replace(default=_Text(_default(p.default))) for p in parameters]
    parameters = [p.replace(annotation=p.empty) if p.annotation.text == "" else p for p in parameters]
    returned = "None" if is_value else _annotation(found.return_annotation)
    text = str(inspect.Signature(parameters))
    return text if not returned else f"{text} -> {returned}"


class _Text:
    """Something that is shown as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _annotation(found: Any) -> str:
    """An annotation as it is written, without the homes of names."""
    if found is inspect.Parameter.empty:
        return ""
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def _default(value: Any) -> str:
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, MappingProxyType):
        return repr(dict(value))
    if isinstance(value, Enum):
        return str(value)
    return re.sub(r"<([\w.]+\.)?(\w+)[^>]* at 0x[0-9a-f]+>", r"<\2>", repr(value))


def _shape(value: Any) -> str:
    return "a module" if inspect.ismodule(value) else "text" if isinstance(value, str) else _annotation(value)


# -- errors --------------------------------------------------------------------------------------------------------------


def _errors() -> str:
    root = materializer.MaterializerError
    return "".join(f"{line}\n" for line in _error(root, 0))


def _error(cls: Any, depth: int) -> Iterator[str]:
    hint = f"  hint: {cls.default_hint}" if cls.default_hint else ""
    yield from _shifted([f"{cls.__name__}  {cls.code}  {cls.exit_status}{hint}", f"    {_told(cls)}"], depth)
    for each in sorted(cls.__subclasses__(), key=lambda c: c.__name__):
        if each.__module__.startswith("materializer"):
            yield from _error(each, depth + 1)


def _shifted(lines: list[str], depth: int) -> Iterator[str]:
    yield from (textwrap.indent(line, "    " * depth) for line in lines)


# -- what can be set -----------------------------------------------------------------------------------------------------


def _settings() -> str:
    """Return properties of definitions as they refuse a wrong value, and settings with their defaults."""
    [(_, _, _, hint)] = refusals({"nothing.like.this": ""})
    known = hint.removeprefix("the properties are ").split(", ")
    lines = ["properties of a definition", ""]
    for name in known:
        lines += [f"{name}", *(f"    {text}" for refusal in refusals({name: "?"}) for text in refusal[1:] if text)]
    lines += ["", "settings", "", *_config(config.Config), "", "variables", ""]
    lines += [f"{variable}  {key}" for variable, key in sorted(config.VARIABLES.items())]
    return "".join(f"{line}\n" for line in lines)


def _config(cls: type[Struct], prefix: str = "") -> Iterator[str]:
    for name, each in written_signature(cls).parameters.items():
        value = getattr(each.default, "factory", lambda made=each.default: made)()
        if isinstance(value, Struct):
            yield from _config(type(value), f"{name}.")
        else:
            told = f"'{value}'" if isinstance(value, PurePath) else repr(value)
            yield f"{prefix}{name}: {_annotation(each.annotation)} = {told}"
