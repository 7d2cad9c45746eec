"""Names in Spark SQL: an identifier in backquotes, and names of tables in a catalog, of two or three parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

OUTPUT: Final = "output.table"
"""The property that names the output of an aggregate in a catalog."""
_PARTIALS: Final = re.compile(r"/([^/]+)/partials/[0-9a-f]{32}/?$")
_PLAIN: Final = re.compile(r"\w+")
_PART: Final = r"(?:\w+|`(?:[^`]|``)+`)"
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART}){{1,2}}")


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name in a catalog, without quotes; nothing for a text that is no such name.

    Examples:
        >>> parts_of("bronze.trades"), parts_of("main.`raw-data`.`a.b`"), parts_of("trades")
        (('bronze', 'trades'), ('main', 'raw-data', 'a.b'), ())
    """
    if not _NAME.fullmatch(name):
        return ()
    found = re.findall(_PART, name)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in found)


def table_text(path: str) -> str:
    """Return the place of a table as people know it: the partials of an aggregate have its name.

    Examples:
        >>> table_text("/lake/bars/partials/660fbb1b834f4d12a15a1be9f7a321ae"), table_text("/lake/bars/output"), table_text("/data/partials/x")
        ("the partials of 'bars'", '/lake/bars/output', '/data/partials/x')
    """
    found = _PARTIALS.search(path)
    return path if found is None else f"the partials of '{found[1]}'"


def dotted(parts: Iterable[str]) -> str:
    """Return a name with backquotes around the parts that need them.

    Examples:
        >>> dotted(["main", "raw-data", "trades"])
        'main.`raw-data`.trades'
    """
    return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in parts)


def in_sql(name: str) -> str:
    """Return a name in a catalog as Spark SQL, each part in backquotes.

    Examples:
        >>> in_sql("bronze.trades")
        '`bronze`.`trades`'
    """
    return ".".join(map(quoted, parts_of(name)))


def same(name: str) -> tuple[str, ...]:
    """Return what is equal for two spellings of a name; the session's own catalog may be left away.

    Examples:
        >>> same("spark_catalog.Lake.`trades`") == same("lake.trades")
        True
    """
    parts = tuple(part.lower() for part in parts_of(name))
    return parts[1:] if parts[:1] == ("spark_catalog",) else parts


def quoted(name: str) -> str:
    """Return a name as one identifier of Spark SQL, whatever characters it contains.

    Examples:
        >>> quoted("mean delay"), quoted("a`b")
        ('`mean delay`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"
