"""Parts of an expression that the local executor has no form of, as its answers name them.

The parser's library warns of what it cannot write in a dialect. The text here is only shown, so nothing has to fit one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlglot.errors import ErrorLevel

from materializer.local.kinds import NotLocal

_NAMES: Final = {"regexplike": "rlike"}


def text_of(node: Any) -> str:
    """Return the text of a part of a tree."""
    return str(node.sql(unsupported_level=ErrorLevel.IGNORE))


def called(node: Any) -> str:
    """Return the name of a function as Spark has it, for a part of a tree that is a call; of another part the parser's word."""
    text = str(node.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE))
    found = re.match(r"\w+(?=\()", text)
    return found[0].lower() if found else _NAMES.get(node.key, str(node.key))


def no_form(node: Any) -> NotLocal:
    """Return the answer that there is no exact form of a part."""
    return NotLocal(text_of(node))
