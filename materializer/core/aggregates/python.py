"""Aggregates that users write in Python.

Such an aggregate receives all values of a group at once and has no partial, so every changed bucket is recomputed. It must
depend on the values alone: their order is not defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from materializer.core.aggregates.registry import find
from materializer.core.spec.imports import imported
from materializer.errors import UsageError


class PythonAggregate(Struct, frozen=True):
    """A named function of one or more pandas Series that returns one value.

    Args:
        name: Its name in definitions.
        function: Takes one Series for each argument, with all rows of a group; returns a value of type *returns*.
        returns: Spark type of the result, such as ``double``.
    """

    name: str
    function: Callable[..., Any]
    returns: str


def python_aggregate(returns: str, *, name: str = "") -> Callable[[Callable[..., Any]], PythonAggregate]:
    """Return a decorator that turns a function into an aggregate.

    The function takes one pandas Series for each argument, with the values of all rows of a group (those that pass the FILTER).
    Nulls are as pandas represents them, and the order is not defined. It returns one value, which must depend on these values
    alone.

    Args:
        returns: Spark type of the value, such as ``double``.
        name: Name of the aggregate in definitions: lower-case letters, digits and underscores, a letter first, and not the name
            of a built-in aggregate. Without it, the name of the function.

    Examples:
        >>> @python_aggregate("double")
        ... def spread(price):
        ...     return float(price.max() - price.min())
        >>> spread.name, spread.returns
        ('spread', 'double')
    """

    def decorate(function: Callable[..., Any]) -> PythonAggregate:
        return PythonAggregate((name or function.__name__).lower(), function, returns)

    return decorate


def by_name(aggregates: Iterable[PythonAggregate | str]) -> Mapping[str, PythonAggregate]:
    """Return aggregates by name; a text ``module:attribute`` is imported first.

    Raises:
        UsageError: If one cannot be imported, has an invalid name, or has the name of another aggregate.
    """
    found: dict[str, PythonAggregate] = {}
    for item in aggregates:
        one = _imported(item) if isinstance(item, str) else item
        if not re.fullmatch(r"[a-z][a-z0-9_]*", one.name) or find(one.name) is not None or one.name in found:
            msg = f"a Python aggregate cannot be called '{one.name}': letters, digits, underscores, and not taken"
            raise UsageError(msg, hint="give it another name")
        found[one.name] = one
    return found


def _imported(text: str) -> PythonAggregate:
    hint = "write module:attribute, importable where the command runs, made with @python_aggregate"
    value = imported(text, "Python aggregate", hint)
    if not isinstance(value, PythonAggregate):
        raise UsageError(f"'{text}' is no Python aggregate but a {type(value).__name__}", hint=hint)
    return value
