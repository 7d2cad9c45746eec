"""Commands and groups that convert only those values of their parameters that are not yet what they have to be.

Typer converts every value with pydantic, even None and a text where text is asked for. Importing pydantic takes as long as a
refresh without work.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Conversion:
    """The conversion of what is given for a parameter: none for None, for a default, and for texts where texts are asked for.

    Args:
        parameter: The parameter.
    """

    def __init__(self, parameter: Any) -> None:
        self._wanted = parameter.type_descriptor.annotation
        self._takes_many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        self._other = parameter.get_runtime_param

    def coerce(self, value: Any, **context: Any) -> Any:
        """Return a value as the parameter's type wants it."""
        if value is None:
            return () if self._takes_many else None
        if self._takes_many and self._wanted == list[str] and isinstance(value, tuple) and all(map(_is_plain, value)):
            return list(value)
        is_right = _is_plain(value) if self._wanted is str else type(value) is self._wanted
        return value if is_right else self._other().coerce(value, **context)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and value.isascii()


def _lazily(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if "get_runtime_param" not in vars(parameter):
            conversion = Conversion(parameter)
            parameter.get_runtime_param = lambda conversion=conversion: conversion
    return parameters


class PlainCommand(TyperCommand):
    """A command with such parameters, whose help ends with examples that are shown as they are typed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        ending, self.epilog = self.epilog, None  # as an epilog its lines would be joined and cut
        super().format_help(ctx, formatter)
        self.epilog = ending
        if ending:
            typer.echo(f"{ending}\n")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _lazily(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group with such parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _lazily(super().get_params(ctx))
