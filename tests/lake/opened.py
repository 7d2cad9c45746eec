"""Which files of a folder Python opened; what a library opens by itself is not seen."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LISTENING: list[tuple[str, Counter[str]]] = []


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _LISTENING and isinstance(args[0], str):
        for folder, found in _LISTENING:
            if args[0].startswith(folder):
                found[args[0].removeprefix(folder)] += 1


sys.addaudithook(_heard)


@contextmanager
def opened_in(folder: str | Path) -> Iterator[Counter[str]]:
    """Yield how often each file below a folder is opened during the block, by its name in the folder."""
    found: Counter[str] = Counter()
    listening = f"{folder}/", found
    _LISTENING.append(listening)
    try:
        yield found
    finally:
        _LISTENING.remove(listening)


@contextmanager
def commits_opened(table: str | Path) -> Iterator[Counter[int]]:
    """Yield, once the block ends, how often the commit file of each version of a table was opened."""
    versions: Counter[int] = Counter()
    with opened_in(f"{table}/_delta_log") as found:
        yield versions
    versions.update({int(name[:-5]): n for name, n in found.items() if name[:-5].isdigit() and name.endswith(".json")})
