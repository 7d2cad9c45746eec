"""Parts of an expression that the local executor has no form of, as its answers name them.

The parser's library warns of what it cannot write in a dialect. The text here is only shown, so nothing has to fit one.
"""

from __future__ import annotations

from typing import Any

from sqlglot.errors import ErrorLevel

from materializer.local.kinds import NotLocal


def text_of(node: Any) -> str:
    """Return the text of a part of a tree."""
    return str(node.sql(unsupported_level=ErrorLevel.IGNORE))


def no_form(node: Any) -> NotLocal:
    """Return the answer that there is no exact form of a part."""
    return NotLocal(text_of(node))
