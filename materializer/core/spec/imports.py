"""Objects that a configuration names as ``module:attribute``."""

from __future__ import annotations

import importlib
from typing import Any

from materializer.errors import UsageError


def imported(text: str, what: str, hint: str) -> Any:
    """Return the object that *text* names.

    Args:
        text: ``module:attribute``.
        what: Kind of the expected object, for the error message.
        hint: Hint of the error: how to write the text.

    Raises:
        UsageError: If it cannot be imported.
    """
    module, _, attribute = text.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise UsageError(f"the {what} '{text}' cannot be imported: {exc}", hint=hint) from exc
