"""What every code means, why it happens, what to do, and whether something was written.

The texts are TOML files in the folder ``texts``. They are the one source of ``materializer explain`` and of the tables in
``docs/errors.md``, which a test compares with them. A code is that of an error, of a problem in a definition, a suite or a test,
or of a finding of ``doctor``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from msgspec import Struct

from materializer.errors.base import NOTHING, MaterializerError

_OUTSIDE: Final = {"bug": 70, "interrupted": 130}
"""Codes of the JSON form that no class stands behind, with their exit status."""
_BELOW: Final[Mapping[str, tuple[int, str, str]]] = {
    "problems": (65, "problems in definitions", "Nothing: all definitions are checked before anything is written."),
    "suites": (65, "problems in suites", "Nothing: a suite is checked before anything is written."),
    "tests": (65, "problems in tests of definitions", "Nothing: all tests are read before one is run."),
    "findings": (1, "findings of doctor", "Nothing: `doctor` only reads."),
}
"""By file: the exit status that its codes lead to, their title, and what was written."""


class Explanation(Struct, frozen=True):
    """What one code means. The texts are Markdown, as on the page; :func:`plain` makes them text.

    Args:
        code: The code.
        exit_status: The status that a command ends with; of a finding only where it is an error.
        group: The codes that it stands with, in words.
        when: What it means, as half a sentence.
        why: How it comes about.
        do: What to do.
        wrote: Whether something was written.
    """

    code: str
    exit_status: int
    group: str
    when: str
    why: str
    do: str
    wrote: str


def statuses() -> Mapping[int, str]:
    """Return the meaning of every exit status."""
    return {int(status): entry["meaning"] for status, entry in _read("statuses").items()}


@cache
def all_codes() -> Mapping[str, Explanation]:
    """Return the explanation of every code, by code: errors by exit status, then problems and findings."""
    meanings = statuses()
    own = {cls.code: cls.exit_status for cls in _classes(MaterializerError)} | _OUTSIDE
    found = {
        code: _explanation(code, own[code], f"{own[code]}: {meanings[own[code]]}", entry, f"{NOTHING.capitalize()}.")
        for code, entry in _read("errors").items()
    }
    for file, (status, group, wrote) in _BELOW.items():
        found |= {code: _explanation(code, status, group, entry, wrote) for code, entry in _read(file).items()}
    return found


def plain(text: str) -> str:
    """Return a text of a page without its links, and with quotes in place of backquotes.

    Examples:
        >>> plain("a [frozen boundary](retention.md); `materializer thaw NAME`, `window(t, '1 day')`")
        "a frozen boundary; 'materializer thaw NAME', `window(t, '1 day')`"
    """
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*(\w+)\*", r"\1", text)
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    return "".join(_quoted(part) if part.startswith("`") else part for part in parts)


def _quoted(code: str) -> str:
    """Return code in quotes; in the backquotes that it has where it has quotes or backquotes itself."""
    inner = code.strip("`") if not code.startswith("``") else code[2:-2].strip()
    return code if not code.startswith("``") and "'" in inner else inner if "`" in inner else f"'{inner}'"


def _explanation(code: str, status: int, group: str, entry: Mapping[str, str], wrote: str) -> Explanation:
    return Explanation(code, status, group, entry["when"], entry["why"], entry["do"], entry.get("wrote", wrote))


def _classes(root: type[MaterializerError]) -> Iterator[type[MaterializerError]]:
    yield root
    for cls in root.__subclasses__():
        yield from _classes(cls)


def _read(name: str) -> dict[str, dict[str, str]]:
    import tomllib  # noqa: PLC0415 - `--help` names the command and explains nothing

    text = (files(__package__) / "texts" / f"{name}.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text))
