"""The values of settings: each function takes what a file or the environment has, and the folder that relative paths start from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Convert = Callable[[Any, Path], Any]
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Invalid(Exception):  # noqa: N818 - a signal to the reader of the settings, never shown to a user
    """A value is invalid for its key; the text says what is required."""


def count(value: Any, _: Path) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Invalid("a whole number of at least 1")
    return value


def size(value: Any, _: Path) -> int:
    """Return a number of bytes, written with or without a unit."""
    text = str(value).strip().lower()
    if isinstance(value, (bool, float)) or not (found := re.fullmatch(r"([1-9][0-9]*)([kmg]?)", text)):
        raise Invalid("a number of bytes, or a size such as '256m'")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]


def length(value: Any, _: Path) -> str:
    """Return a length of time, or a number in the unit of a column of integers."""
    units = "(second|minute|hour|day|week|month|year)s?"
    if not isinstance(value, str) or not re.fullmatch(rf"[1-9][0-9]*( {units})?", value.strip()):
        raise Invalid("a length such as '1 day' or '6 hours'")
    return value.strip()


def one_of(*known: str) -> Convert:
    """Return what accepts some words."""

    def convert(value: Any, _: Path) -> str:
        if value not in known:
            raise Invalid(" or ".join([", ".join(map(repr, known[:-1])), repr(known[-1])]))
        return str(value)

    return convert


def master(value: Any, _: Path) -> str:
    """Return the master of a cluster."""
    # Spark has no list of masters: another scheme is that of a cluster manager of the user's
    known = r"local(\[.+\])?|local-cluster\[.+\]|yarn|[a-z0-9+.-]+://\S+"
    if not isinstance(value, str) or not re.fullmatch(known, value.strip()) or value.strip().startswith("sc://"):
        raise Invalid("a Spark master such as 'local[4]', 'spark://host:7077', 'yarn' or 'k8s://https://host:6443'")
    return value.strip()


def remote(value: Any, _: Path) -> str:
    """Return the address of a Spark Connect server."""
    if not isinstance(value, str) or not re.fullmatch(
        r"sc://[^/;:\s]+(:[0-9]+)?(/(;[^;=\s]+=[^;\s]*)*;?)?", value.strip()
    ):
        raise Invalid("a Spark Connect server such as 'sc://host:15002' or 'sc://host:443/;use_ssl=true'")
    return value.strip()


def memory(value: Any, _: Path) -> str:
    """Return a size in Spark's notation, or ``auto``."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9][0-9]*[kmgt]|auto", value.strip().lower()):
        raise Invalid("a size such as '2g' or '900m'")
    return value.strip().lower()


def folder(value: Any, base: Path) -> Path:
    """Return a folder."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Invalid("a folder")
    return base / Path(value).expanduser()


def file(value: Any, base: Path) -> Path:
    """Return a file."""
    if not isinstance(value, str) or not value.strip() or "://" in value:
        raise Invalid("a file of this machine")
    return base / Path(value).expanduser()


def url(value: Any, _: Path) -> str:
    """Return the URL of a server."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value.strip()):
        raise Invalid("a URL such as 'http://host:5000'")
    return value.strip()


def word(value: Any, _: Path) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise Invalid("a text")
    return value.strip()


def location(value: Any, base: Path) -> str:
    """Return a path or URI."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Invalid("a path or URI")
    return value if "://" in value else str(base / Path(value).expanduser())


def sources(value: Any, base: Path) -> dict[str, str]:
    """Return places of tables by name."""
    if not isinstance(value, Mapping) or not all(isinstance(v, str) and v.strip() for v in value.values()):
        raise Invalid('a table of name = "path, URI or catalog name"')
    return {str(k): _source(v, base) for k, v in value.items()}


def _source(text: str, base: Path) -> str:
    # `bronze.trades` is a catalog name, `trades` or `lake/trades` is a path; a path with a dot needs a slash
    if "://" in text or re.fullmatch(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){1,2}", text):
        return text
    return str(base / Path(text).expanduser())


def options(value: Any, _: Path) -> dict[str, str]:
    """Return Spark options."""
    if not isinstance(value, Mapping):
        raise Invalid("a table of Spark options")
    return dict(_flat("", value))


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    # unquoted, `spark.sql.x = 1` is three nested tables
    for key, item in value.items():
        name = f"{prefix}{key}"
        match item:
            case Mapping():
                yield from _flat(f"{name}.", item)
            case bool():
                yield name, str(item).lower()
            case str() | int() | float():
                yield name, str(item)
            case _:
                raise Invalid(f"a table of texts, numbers and truth values (at {name!r})")


def storage(value: Any, _: Path) -> dict[str, str]:
    """Return settings of stores."""
    known = ("aws_", "azure_", "google_")
    if not isinstance(value, Mapping) or not all(k.lower().startswith(known) for k in value):
        raise Invalid(f"a table of texts, whose keys begin with {', '.join(known)}")
    if not all(isinstance(v, (str, int)) for v in value.values()):
        raise Invalid("a table of texts")
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()}


def truth(value: Any, _: Path) -> bool:
    """Return whether it is true."""
    found = value if isinstance(value, bool) else _TRUTH.get(str(value).strip().lower())
    if found is None:
        raise Invalid("true or false")
    return found


def names(value: Any, _: Path) -> tuple[str, ...]:
    """Return names of Python objects."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(v, str) and ":" in v for v in value):
        raise Invalid("a list of 'module:attribute'")
    return tuple(value)
