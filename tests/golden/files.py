"""Golden files: what is made now, what is kept, and how the two differ."""

from __future__ import annotations

import difflib
import math
import re
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
_SIZED: Final = re.compile(r'(?<="bytes": )\d+|(?<=estimate\\":\[)\d+,\d+|\d+\.\d+(?:e-\d+)?')
"""Sizes of files, and the seconds that follow from them."""
FEW: Final = 32
"""Bytes by which the size of a file that the Delta library rewrote may differ; it writes a byte more or less in some runs."""
CLOSE: Final = 1e-4
"""How far seconds that follow from such a size may differ, as a share."""
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


def alike(before: str, now: str) -> str:
    """Return the newer text with those sizes and seconds of the older one that it differs from by next to nothing.

    Examples:
        >>> alike('{"bytes": 9794, "rows": 3, "seconds": 0.0005775092}', '{"bytes": 9793, "rows": 4, "seconds": 0.000577509}')
        '{"bytes": 9794, "rows": 4, "seconds": 0.0005775092}'
        >>> alike('{"bytes": 9794, "seconds": 0.5}', '{"bytes": 8794, "seconds": 0.6}')
        '{"bytes": 8794, "seconds": 0.6}'
    """
    numbers = iter(_SIZED.findall(before))

    def near(found: re.Match[str]) -> str:
        other = next(numbers, found[0])
        if "." in found[0] and "." in other:
            return other if math.isclose(float(other), float(found[0]), rel_tol=CLOSE) else found[0]
        *rows, size = found[0].split(",")
        *others, last = other.split(",")
        is_near = rows == others and "." not in found[0] + other and abs(int(size) - int(last)) <= FEW
        return other if is_near else found[0]

    return _SIZED.sub(near, now)


def _difference(name: str, before: str | None, now: str | None) -> list[str]:
    if before is None:
        return [f"{name}: there is no such golden file"]
    if now is None:
        return [f"{name}: nothing makes this golden file any more"]
    now = alike(before, now)
    return list(
        difflib.unified_diff(before.splitlines(), now.splitlines(), f"{name} (kept)", f"{name} (now)", "", "", 2, "")
    )
