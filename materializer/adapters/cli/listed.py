"""What a module of commands lists: each command with its body, and what can be given for each parameter of it.

Typer makes of it what shows help and says what is wrong with a call (:mod:`.application`). A call that only needs to be read is read without
Typer, whose import takes a third of a command that has nothing to do (:mod:`.plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias


class Option:
    """What is given by its name.

    Args:
        name: The name, with its dashes.
        envvar: The variable that gives it where no word does.
        settings: What else Typer gets to know of it.
    """

    def __init__(self, name: str, *, envvar: str = "", **settings: Any) -> None:
        self.name, self.envvar, self.settings = name, envvar, settings


class Argument:
    """What is given by its place.

    Args:
        settings: What Typer gets to know of it.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


class ListedCommand(NamedTuple):
    """A command: its body, whose first argument is the call, and where it stands in the help."""

    body: Callable[..., None]
    panel: str


class ListedGroup(NamedTuple):
    """Commands under one word."""

    commands: Mapping[str, ListedCommand]
    help: str
    panel: str


Listed: TypeAlias = Mapping[str, ListedCommand | ListedGroup]


def listed(panel: str, *bodies: Callable[..., None], **named: Callable[..., None]) -> dict[str, ListedCommand]:
    """Return commands by name: bodies under their own names, and under other ones."""
    return {name: ListedCommand(body, panel) for name, body in ({b.__name__: b for b in bodies} | named).items()}
