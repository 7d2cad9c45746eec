"""What changes from run to run, and what stands for it in a golden file."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from materializer.services.commit import ports

NOW: Final = 1_710_072_000
"""What the clock says while commands run: 2024-03-10T12:00:00Z."""
ROOM: Final = 72
"""How long the path of a scripted lake is, wherever it lies: lines are wrapped by their length."""
RULES: Final[Mapping[str, tuple[str, str]]] = {
    "ids": (r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b", "<id>"),
    "moments, of which none is in the data": (r"\b20(2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<moment>"),
    "versions": (r"\b\d+\.\d+\.\d+\w*\b|\b(?<=Java )\d+", "<version>"),
    "processes": (r"\bprocess \d+ on \S+", "<process>"),
    "how long versions stay readable, by the clock of who wrote them": (r"[\d,]+ h(?=\s+\(change\s+feed\b)", "<hours>"),
    "the machine, as doctor finds it": (r"(?<=\nenvironment\n)(  .*\n)+", "  <environment>\n"),
    "the machine, in JSON": (r"(\{[^{}]*\"subject\": \"environment\"[^{}]*\},?\s*)+", '"<environment>",\n    '),
}
SIZES: Final = r"(?<=bytes\": )\d+|\b\d+(\.\d+)? [kM]?B\b"
"""Sizes of tables that hold moments and ids, which are stored in a few bytes more or less."""
_ID: Final = re.compile(RULES["ids"][0])


def plain(text: str, root: Path) -> str:
    """Return a text without what another run would say otherwise.

    Examples:
        >>> plain("wrote /tmp/x/lake at 2026-11-25T04:05:06.123Z by 4.1.2", Path("/tmp/x"))
        'wrote <root>/lake at <moment> by <version>'
    """
    text = text.replace(str(root), "<root>")
    for pattern, word in RULES.values():
        text = re.sub(pattern, word, text)
    return text


def without_sizes(text: str) -> str:
    """Return a text without sizes.

    Examples:
        >>> without_sizes('changes 1 file, 4.2 kB; "bytes": 4225, "files": 1')
        'changes 1 file, <size>; "bytes": <size>, "files": 1'
    """
    return re.sub(SIZES, "<size>", text)


def roomy(folder: Path) -> Path:
    """Make and return a folder inside *folder* of which the path is :data:`ROOM` long.

    Raises:
        ValueError: If *folder* is too long itself.
    """
    base = folder.resolve()
    if (left := ROOM - len(str(base)) - 1) < 1:
        raise ValueError(f"{base} is too long for a scripted lake, at most {ROOM - 2} characters are")
    made = base / ("x" * left)
    made.mkdir()
    return made


@contextmanager
def still() -> Iterator[None]:
    """Let time stand still, and draw the same ids in each run: files that hold ids are compressed, and as large as before.

    Tables are written one after the other, because which of two threads draws its ids first is chance.
    """
    with (
        patch.object(time, "time", lambda: float(NOW)),
        patch.object(time, "time_ns", lambda: NOW * 1_000_000_000),
        patch.object(time, "perf_counter", lambda: 0.0),
        patch.object(os, "urandom", random.Random(0).randbytes),  # of which ids are made
        patch.object(ports, "ThreadPoolExecutor", lambda max_workers: ThreadPoolExecutor(min(max_workers, 1))),
    ):
        yield


class Names:
    """Names for ids, in the order in which they appear: stored bytes must still tell one from another.

    Examples:
        >>> names = Names()
        >>> names.told("00000000000040008000aabbccddeeff, 11110000000040008000aabbccddeeff, 00000000000040008000aabbccddeeff")
        '00000000000000000000000000000001, 00000000000000000000000000000002, 00000000000000000000000000000001'
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def told(self, text: str) -> str:
        """Return *text* with each id by its name, in the form in which it stood."""
        return _ID.sub(lambda found: self._named(found[0]), text)

    def _named(self, found: str) -> str:
        digits = self._known.setdefault(found.replace("-", ""), f"{len(self._known) + 1:032x}")
        cuts = (8, 12, 16, 20)
        return "-".join(digits[a:b] for a, b in zip((0, *cuts), (*cuts, 32), strict=True)) if "-" in found else digits


def stored(payload: str, root: Path) -> str:
    """Return a payload of the journal as it is stored, with fixed values where a process and a folder are told.

    Raises:
        ValueError: If it is not stored in the form that is known here.
    """
    data = json.loads(payload)
    if _compact(data) != payload:
        raise ValueError(f"a payload is stored in another form: {payload}")
    return re.sub(*_MOMENTS, _compact(_fixed(data)).replace(str(root), "/golden"))


AT: Final = "2024-03-10T12:00:00.000Z"
"""A moment for every one that a journal holds."""
_MOMENTS: Final = (RULES["moments, of which none is in the data"][0], AT)
_FIXED: Final[Mapping[str, Any]] = {
    "host": "host",
    "pid": 101,
    "started": 102,
    "boot": "boot",
    "namespace": "pid",
    "commits": {},
    "file": [],
}


def _fixed(value: Any) -> Any:
    if isinstance(value, dict):
        fixed = _FIXED | ({"bytes": 4_000} if value.get("table") == "changes" else {})  # these rows hold moments
        return {k: fixed[k] if k in fixed and v else _fixed(v) for k, v in value.items()}
    return [_fixed(v) for v in value] if isinstance(value, list) else value


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
