"""The examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import materializer.core
import materializer.journal
import materializer.lake

MODULES = ["materializer.errors", "materializer.config"] + [
    found.name
    for package in (materializer.core, materializer.journal, materializer.lake)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    """
    Every example in the module's docstrings gives what it says.
    """
    assert doctest.testmod(importlib.import_module(name)).failed == 0
