"""What is wrong with a call that cannot be read, in the words of all other errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, get_args

from materializer.errors import UsageError

_VALUE: Final = re.compile(r"'(.*)' is not one of ", re.DOTALL)
_COMMAND: Final = re.compile(r"No such command '(.*?)'\.", re.DOTALL)
_NEAR: Final = 0.6
_NEAR_OPTION: Final = 0.75


def usage_error(error: Any, words: Sequence[str], hint: str, otherwise: str) -> UsageError:
    """Return the error for a call that cannot be read.

    Args:
        error: What the reader of calls raised.
        words: The call, without the program.
        hint: What is known of how others call these things; "" for nothing.
        otherwise: The hint where nothing is known.
    """
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    text = str(message).rstrip(".").replace("Value error, ", "")
    text, near = text[:1].lower() + text[1:], ""
    param, option = getattr(error, "param", None), str(getattr(error, "option_name", ""))
    if hasattr(error, "possibilities"):
        text, near = f"there is no option '{option}'", _meant(option, _options(error), _NEAR_OPTION)
    elif found := _COMMAND.match(str(error.message)):
        commands = getattr(getattr(error, "cmd", None), "commands", ())
        text, near = f"there is no command '{found[1]}'", _meant(found[1], commands, _NEAR)
    elif param is not None and (found := _VALUE.search(str(error.message))):
        choices = list(_choices(param.type_descriptor.annotation))
        text = f"{_name(param)}: '{found[1]}' is not one of {', '.join(choices)}"
        near = _meant(found[1], choices, _NEAR)
    elif param is not None and "valid integer" in str(error.message):
        value = _given(param, words)
        text = f"{_name(param)}: {f'{value!r} is no' if value else 'it takes a'} whole number"
    return UsageError(text, hint=hint or near or otherwise)


def _options(error: Any) -> list[str]:
    params = getattr(getattr(error, "cmd", None), "params", None) or getattr(error.ctx, "command", error).params
    return [name for param in params for name in param.opts if name.startswith("--")]


def _meant(word: str, known: Any, cutoff: float) -> str:
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else ""


def _name(param: Any) -> str:
    named = next((name for name in param.opts if name.startswith("--")), None)
    return str(named or param.metavar or param.name.upper())


def _choices(kind: Any) -> Iterator[str]:
    """Yield the texts of a type that takes only these, whatever stands around it."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from (str(each.value) for each in kind)
    for each in get_args(kind):
        if isinstance(each, str):
            yield each
        else:
            yield from _choices(each)


def _given(param: Any, words: Sequence[str]) -> str:
    """Return what is given for an option, "" if that does not stand in the call."""
    for at, word in enumerate(words):
        name, is_joined, value = word.partition("=")
        if name in param.opts:
            return value if is_joined else "".join(words[at + 1 : at + 2])
    return ""
