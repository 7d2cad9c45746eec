"""Calls that only have to be read: options by their whole names, and texts that need no conversion.

Typer reads all others, shows help and says what is wrong with a call. Its import takes a third of a command that has nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final, NamedTuple, get_args

from materializer.adapters.cli.commands import MODULES, named
from materializer.adapters.cli.listed import ListedCommand, ListedGroup, Option
from materializer.adapters.cli.options import parameters

_FLAG: Final = ""
"""Stands in the place of the word that a flag does not take."""


class PlainCall(NamedTuple):
    """A command, and the value of each of its parameters."""

    command: ListedCommand
    values: dict[str, Any]


def read(words: Sequence[str], environ: Mapping[str, str]) -> PlainCall | None:
    """Return the call that words are; None if Typer has to read them."""
    rest = iter(words)
    command = _command(rest)
    if command is None:
        return None
    wanted = parameters(command.body)
    given: dict[str, Any] = {}
    for name, kind, word in _given(wanted, rest, environ):
        if kind is bool and word == _FLAG:
            given[name] = True
        elif not _is_text(kind, word):
            return None
        else:
            given[name] = [*given.get(name, ()), word] if _is_list(kind) else word
    values = {each.name: each.default for each in wanted} | given
    return None if Parameter.empty in values.values() else PlainCall(command, values)


def _command(words: Iterator[str]) -> ListedCommand | None:
    name = next(words, "")
    found = named(name) if name in MODULES else None
    return found.commands.get(next(words, "")) if isinstance(found, ListedGroup) else found


def _given(
    wanted: Sequence[Parameter], words: Iterator[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, Any, str]]:
    """Yield the name and the type of each parameter that is given, and the word; a type that takes no text for what is not known."""
    known = [(each.name, *get_args(each.annotation)) for each in wanted]
    options = {taken.name: (name, kind) for name, kind, taken in known if isinstance(taken, Option)}
    places = [(name, kind) for name, kind, taken in known if not isinstance(taken, Option)]
    for name, kind, taken in known:
        if isinstance(taken, Option) and (text := environ.get(taken.envvar)):
            yield name, kind, text
    for word in words:
        if word in options:
            name, kind = options[word]
            yield name, kind, _FLAG if kind is bool else next(words, "")
        elif places:
            name, kind = places[0] if _is_list(places[0][1]) else places.pop(0)
            yield name, kind, word
        else:
            yield "", None, word


def _is_list(kind: Any) -> bool:
    return list[str] in (kind, *get_args(kind))


def _is_text(kind: Any, word: str) -> bool:
    """Return whether a parameter of a type gets a word as it is: where texts are wanted, or this one among a few."""
    kinds = get_args(kind) or (kind,)
    return (
        word.isascii()
        and word[:1] not in ("", "-")
        and (str in kinds or word in kinds or _is_list(kind) or any(word in get_args(each) for each in kinds))
    )
