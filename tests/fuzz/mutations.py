"""Inputs that are nearly right: the bytes, or a value inside of the JSON, of a right one are changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", " ", "..", "../../victim", "/etc/passwd", "a/b",
    "\x00", "\x1b[2J", "\ud800", "ä" * 300, "x" * 5_000, "9999-12-31T23:59:59.999999Z", "-9999-01-01", "NaN", "{", "[", "reflect('a')", "`", "'", "\\",
    [], {}, [[]], [None], {"": None}, [[[[[[]]]]]], {"a": {"a": {"a": {}}}}, [1] * 500, {str(i): i for i in range(200)},
)  # fmt: skip
"""Values that no reader expects."""
PIECES: Final = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\ud800",
    b",",
    b":",
    b"null",
    b"1e999",
    b"\n",
    b"-",
    b"'''",
    b"#",
    b"[[",
    b"=",
)
DEEP: Final = (50, 900, 5_000)


def mutated(sample: bytes, draw: random.Random) -> bytes:
    """Return an input that is a sample with one to four changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        change: Callable[[bytes, random.Random], bytes] = draw.choice((_in_json, _in_json, _in_json, _in_bytes))
        sample = change(sample, draw)
    return sample


def _in_bytes(sample: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(sample) + 1)
    until = min(len(sample), at + draw.choice((0, 0, 1, 2, 10, 200)))
    if draw.random() < 0.02:
        depth = draw.choice(DEEP)
        piece = draw.choice((b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth, b"(" * depth))
    elif draw.random() < 0.2:
        other = draw.randrange(len(sample) + 1)
        piece = sample[other : other + draw.choice((1, 8, 60))]
    else:
        piece = draw.choice(PIECES) if draw.random() < 0.7 else draw.randbytes(draw.randrange(4))
    return sample[:at] + piece + sample[until:]


def _in_json(sample: bytes, draw: random.Random) -> bytes:
    """Change a value in one of the lines of JSON, also in a JSON text inside of one."""
    lines = sample.split(b"\n")
    at = draw.randrange(len(lines))
    try:
        data = json.loads(lines[at])
        lines[at] = json.dumps(_changed(data, draw, 0)).encode()
    except (ValueError, RecursionError):
        return _in_bytes(sample, draw)
    return b"\n".join(lines)


def _changed(data: Any, draw: random.Random, depth: int) -> Any:
    if isinstance(data, str) and data[:1] in ("{", "[") and draw.random() < 0.8:
        try:
            return json.dumps(_changed(json.loads(data), draw, depth))
        except (ValueError, RecursionError):
            return draw.choice(ODD)
    if isinstance(data, dict) and data and draw.random() < 0.9:
        key = draw.choice(list(data))
        what = draw.random()
        if what < 0.08:
            return {k: v for k, v in data.items() if k != key}
        if what < 0.12:
            return data | {draw.choice(("", "x", "name", "version", key.upper())): draw.choice(ODD)}
        return data | {key: _changed(data[key], draw, depth + 1)}
    if isinstance(data, list) and data and draw.random() < 0.9:
        i = draw.randrange(len(data))
        if draw.random() < 0.1:
            return data[:i] + data[i + 1 :]
        return [*data[:i], _changed(data[i], draw, depth + 1), *data[i + 1 :]]
    return draw.choice(ODD)
