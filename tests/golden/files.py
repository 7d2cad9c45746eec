"""Golden files: what is made now, what is kept, and how the two differ."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PATTERNS: Final[Mapping[str, Sequence[str]]] = {
    "help": ("help/*",),
    "api": ("api.txt", "errors.txt", "properties.txt"),
    "journal": ("journal.jsonl", "specs.jsonl"),
    "commands": ("commands/*", "commits.txt", "written.jsonl"),
    "recorded": ("recorded/*",),
}
"""What belongs to each part."""
FOR_EVER: Final = ("recorded",)
"""Parts that are written only when they are asked for by name."""


def kept(part: str) -> dict[str, str]:
    """Return the golden files of a part, by their names."""
    found = [file for pattern in PATTERNS[part] for file in sorted(HERE.glob(pattern))]
    return {file.relative_to(HERE).as_posix(): file.read_text(encoding="utf-8") for file in found}


def write(part: str, made: Mapping[str, str]) -> None:
    """Write the golden files of a part, and remove those that are none any more."""
    for name in kept(part).keys() - made.keys():
        (HERE / name).unlink()
    for name, text in made.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")


def differences(part: str, made: Mapping[str, str]) -> str:
    """Return in which lines what is made now differs from what is kept, and what to do; "" when it is the same."""
    before = kept(part)
    told = [
        line
        for name in sorted(before.keys() | made.keys())
        for line in _difference(name, before.get(name), made.get(name))
    ]
    remedy = f"\n\nif this is meant, write them anew and read what changes: python -m tests.golden --only {part}"
    return "\n".join(told) + remedy if told else ""


def _difference(name: str, before: str | None, now: str | None) -> list[str]:
    if before is None:
        return [f"{name}: there is no such golden file"]
    if now is None:
        return [f"{name}: nothing makes this golden file any more"]
    return list(
        difflib.unified_diff(before.splitlines(), now.splitlines(), f"{name} (kept)", f"{name} (now)", "", "", 2, "")
    )
