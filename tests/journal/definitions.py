"""A small definition, as the journal stores one, for tests of the journal that are about something else."""

from __future__ import annotations

from typing import Any, Final

from materializer.core.language.define import define

SPEC: Final[dict[str, Any]] = define("bars", "/s", time="ts", width="1 hour", measures={"n": "count(*)"}).as_json()
"""A definition that a journal may hold; its readers refuse one that cannot be read."""


def numbered(n: int) -> dict[str, Any]:
    """Return the definition with a comment of its own."""
    return SPEC | {"comment": str(n)}
