"""The command line: each command is parse, one call of the façade, show.

Nothing heavy is imported before a command needs it; ``status``, ``plan``, ``refresh``, ``history`` and ``version`` start
no JVM when nothing has changed.
"""

from __future__ import annotations

from materializer.adapters.cli.app import main

__all__ = ["main"]
