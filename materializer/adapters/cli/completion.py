"""What a shell is answered when it completes a line: Typer knows commands and options, this module the names of aggregates."""

# ruff: noqa: PLC0415 - imported only when a shell asks

from __future__ import annotations

import os
from typing import Final

PROGRAM: Final = "materializer"
VARIABLE: Final = "_MATERIALIZER_COMPLETE"
"""The variable by which the script of a shell asks."""


def is_asked() -> bool:
    """Whether a shell asks for completions instead of running a command."""
    return VARIABLE in os.environ


def begin() -> None:
    """Let Typer answer the shells that it knows."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # Typer does not list what it offers

    completion_init()


def aggregates(incomplete: str) -> list[str]:
    """Return the names of aggregates that begin so, of the lake of the environment or of the configuration; none if it cannot be read.

    A name that a terminal would obey is left out.
    """
    from materializer import config
    from materializer.adapters.cli.words import visible
    from materializer.errors import MaterializerError
    from materializer.journal.journal import Journal

    try:
        settings = config.read(os.environ.get("MATERIALIZER_CONFIG"))
        states = Journal(os.environ.get("MATERIALIZER_LAKE") or str(settings.lake)).view().states
    except (MaterializerError, OSError):
        return []
    names = sorted(s.name for s in states.values() if s.name.startswith(incomplete))
    return [name for name in names if visible(name) == name]
