"""One module for each group of commands: parse, one call of the façade, show. Each lists its commands in ``COMMANDS``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from materializer.adapters.cli.listed import ListedCommand, ListedGroup

_NAMES: Final = {
    "starting": ("new",),
    "defining": ("apply", "test", "drop"),
    "versions": ("build", "switch", "rollback", "abandon"),
    "refreshing": ("plan", "refresh", "backfill", "invalidate"),
    "retaining": ("expire", "thaw"),
    "looking": ("status", "history", "show", "export", "changes", "verify", "diff", "check", "doctor"),
    "reporting": ("report", "watch"),
    "maintaining": ("maintain",),
    "mending": ("repair", "backup", "restore"),
    "engines": ("engines",),
    "explaining": ("explain",),
    "completing": ("completion",),
    "about": ("demo", "setup", "version"),
    "policies": ("policy",),
    "running": ("run",),
}
"""The commands of each module, in the order of the help."""
MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}
"""The module of each command, which is imported when the command is asked for, because most calls run only one."""


def named(name: str) -> ListedCommand | ListedGroup:
    """Return the command or the group of a name.

    Raises:
        KeyError: If there is none.
    """
    module = import_module(f"materializer.adapters.cli.commands.{MODULES[name]}")
    found: ListedCommand | ListedGroup = module.COMMANDS[name]
    return found
