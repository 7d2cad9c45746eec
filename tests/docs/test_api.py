"""docs/api.md has everything that is public, and what is public says what it takes, gives and raises."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import sys
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from msgspec import Struct

import materializer
from materializer import Materializer, errors
from tests.docs.blocks import blocks

PAGE = "\n".join(block.text for block in blocks("docs/api.md"))
METHODS = {name: f for name, f in inspect.getmembers(Materializer, inspect.isfunction) if not name.startswith("_")}
OURS = "materializer."
INTERNAL = {"Spark", "Maintainer"}
"""What the façade hands to commands and keeps for itself."""


def documented() -> dict[str, Any]:
    """Everything that the page names, by its last word."""
    found = {}
    for path in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", PAGE, flags=re.MULTILINE):
        module, _, name = path.rpartition(".")
        found[name] = getattr(import_module(module), name)
    for module, names in re.findall(r"^\.\. automodule:: (\S+)\n   :members:(.*)", PAGE, flags=re.MULTILINE):
        for name in re.findall(r"\w+", names):
            found[name] = getattr(import_module(module), name)
    return found


def classes_in(hint: Any) -> Iterator[type]:
    """The classes of ours in an annotation, however deep."""
    if inspect.isclass(hint) and hint.__module__.startswith(OURS):
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def hints_of(owner: Any) -> dict[str, Any]:
    """Annotations with the names of their module, those included that are imported for types alone."""
    names: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(sys.modules[owner.__module__])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), owner.__module__, "exec"), names)
    return typing.get_type_hints(owner, localns=names)


def test_what_the_package_offers_is_on_the_page() -> None:
    """
    Every public name, errors as a module.
    """
    found = documented()

    assert {"errors", "MaterializerError", "__version__"} >= set(materializer.__all__) - set(found)
    assert all(getattr(materializer, name) is found[name] for name in set(materializer.__all__) & set(found))
    assert ".. automodule:: materializer.errors\n" in PAGE


def test_every_method_of_a_lake_is_on_the_page() -> None:
    """
    Each method and property by its name, because they stand in several classes and the page has its own order.
    """
    properties = {name for name, _ in inspect.getmembers(Materializer, lambda m: isinstance(m, property))}

    assert sorted({*METHODS, *properties}) == sorted(
        re.findall(r"^   \.\. auto(?:method|property):: (\w+)", PAGE, re.MULTILINE)
    )


def test_what_methods_return_is_on_the_page() -> None:
    """
    Every report, and what stands in it of ours when it is a report too.
    """
    returned = {c for f in METHODS.values() for c in classes_in(hints_of(f).get("return"))}

    assert {c.__name__ for c in returned} - INTERNAL - set(documented()) - {"JournalError", "Problem"} == set()


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their headings, the text before them under ""."""
    parts = re.split(r"^(Args|Returns|Raises|Shape|Source|Examples):\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_takes(name: str) -> None:
    """
    Every argument, once, in the order in which it is taken, and none that it does not take.
    """
    taken = [p for p in inspect.signature(METHODS[name]).parameters if p != "self"]
    told = re.findall(r"^    (\w+): ", sections(METHODS[name].__doc__ or "").get("Args", ""), flags=re.MULTILINE)

    assert taken == told


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_errors_that_there_are(name: str) -> None:
    """
    What stands under Raises is an error of ours.
    """
    told = re.findall(r"^    (\w+): ", sections(METHODS[name].__doc__ or "").get("Raises", ""), flags=re.MULTILINE)

    assert all(issubclass(getattr(errors, error), errors.MaterializerError) for error in told)


@pytest.mark.parametrize(
    "name", sorted(n for n, v in documented().items() if inspect.isclass(v) and issubclass(v, Struct))
)
def test_a_report_says_what_is_in_it(name: str) -> None:
    """
    Every field has its line.
    """
    cls = documented()[name]
    told = re.findall(r"^    (\w+): ", sections(cls.__doc__ or "").get("Args", ""), flags=re.MULTILINE)
    fields = [name for name in cls.__struct_fields__ if not name.startswith("_")]

    assert sorted(fields) == sorted(told) or (not told and len(fields) <= 2)


@pytest.mark.parametrize("name", sorted(n for n, v in documented().items() if inspect.isclass(v)))
def test_python_can_tell_of_every_class(name: str) -> None:
    """
    ``help()`` ends with no error, though types of fields may not be loaded.
    """
    assert name in pydoc.plain(pydoc.render_doc(documented()[name]))


@pytest.mark.parametrize("name", sorted(n for n, v in documented().items() if inspect.isfunction(v)))
def test_a_function_says_what_it_takes(name: str) -> None:
    """
    As a method does.
    """
    function: Callable[..., Any] = documented()[name]
    told = sections(function.__doc__ or "")
    taken = list(inspect.signature(function).parameters)

    assert taken == re.findall(r"^    (\w+): ", told.get("Args", ""), flags=re.MULTILINE)
