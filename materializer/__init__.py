"""Continuous aggregates over Delta tables: declared once, kept true at a cost that follows what changed.

The names below are the public ones; everything else is reachable by module path and provisional. Importing the package
loads no engine and nothing else that is heavy: each name is fetched when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from materializer.installed import __version__

if TYPE_CHECKING:
    from materializer import errors
    from materializer.api import Materializer
    from materializer.core.language.define import define
    from materializer.core.spec.spec import AggregateSpec
    from materializer.core.time.spans import Span
    from materializer.errors import MaterializerError

__all__ = ["AggregateSpec", "Materializer", "MaterializerError", "Span", "__version__", "define", "errors"]

_HOMES = {
    "AggregateSpec": "materializer.core.spec.spec",
    "Materializer": "materializer.api",
    "MaterializerError": "materializer.errors",
    "Span": "materializer.core.time.spans",
    "define": "materializer.core.language.define",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name == "errors":
        value = import_module("materializer.errors")
    else:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
