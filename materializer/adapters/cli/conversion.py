"""Commands and groups that convert only those values of their parameters that are not yet what they have to be.

Typer converts every value with pydantic, even None and a text where text is asked for. Importing pydantic takes as long as a
refresh without work.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Conversion:
    """The conversion of the one value of a parameter: none for None, and none for text where text is asked for.

    Args:
        parameter: The parameter.
    """

    def __init__(self, parameter: Any) -> None:
        self._is_text = parameter.type_descriptor.annotation is str
        self._other = parameter.get_runtime_param

    def coerce(self, value: Any, **context: Any) -> Any:
        """Return a value as the parameter's type wants it."""
        if value is None or (self._is_text and isinstance(value, str) and value.isascii()):
            return value
        return self._other().coerce(value, **context)


def _lazily(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        is_one = parameter.nargs == 1 and not getattr(parameter, "multiple", False)
        if is_one and "get_runtime_param" not in vars(parameter):
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
