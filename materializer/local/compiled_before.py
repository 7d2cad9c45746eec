"""Expressions that this user's processes compiled before: to load the parser takes longer than to compute a late row.

The compiled form of a text depends on the text, the types of the columns that it may name, and on the compiler. All three are in the
key, the compiler by its files, so that another release, or a changed one, finds nothing. Refusals are remembered, too. Where DuckDB
refuses a query, all are forgotten: a text may have been damaged, and the next command compiles them anew.
"""

from __future__ import annotations

import atexit
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from materializer import core, lake, noted
from materializer.local.kinds import NotLocal
from materializer.local.scope import Scope
from materializer.local.typed import Typed

FOLDER: Final = "compiled"
"""A folder of the user's cache that no other user may write."""
NAME: Final = "texts.json"
MOST_TEXTS: Final = 4_096
"""Texts that are remembered, the last ones that were compiled."""
MOST_LENGTH: Final = 12_000
"""Characters of a text and of its form; longer ones are compiled each time."""


class _Remembered(Struct):
    """What was compiled.

    Args:
        by: The digest of the compiler.
        texts: The form of each text, or why it has none, by the digest of the text and its scope.
        is_new: Whether this process compiled one of them.
    """

    by: str
    texts: dict[str, Typed | str] = {}
    is_new: bool = False


def compiled(sql: str, scope: Scope) -> Typed:
    """Return an expression of Spark's SQL for DuckDB, as :func:`.expressions.compiled` does.

    Args:
        sql: The text.
        scope: The columns that it may name.

    Raises:
        NotLocal: If a part of it is outside the proven set.
    """
    if scope.variables:
        return _compiled(sql, scope)
    scope = scope.of_text(sql)
    known, key = remembered(), sha256(repr((sql, scope)).encode(errors="surrogatepass")).hexdigest()
    found = known.texts.get(key)
    if found is None:
        try:
            found = _compiled(sql, scope)
        except NotLocal as exc:
            found = str(exc)
        if len(sql) + len(found if isinstance(found, str) else found.sql) <= MOST_LENGTH:
            if len(known.texts) >= 2 * MOST_TEXTS:
                known.texts.clear()
            known.texts[key], known.is_new = found, True
    if isinstance(found, str):
        raise NotLocal(found)
    return found


def _compiled(sql: str, scope: Scope) -> Typed:
    from materializer.local import expressions  # noqa: PLC0415 (it loads the parser)

    return expressions.compiled(sql, scope)


@cache
def remembered() -> _Remembered:
    """Return what was compiled before, once in a process; it is written when the process ends."""
    by = compiler()
    atexit.register(remember)
    return _Remembered(by, _written(by))


def remember() -> None:
    """Write what this process compiled beside what others did. A failure is ignored."""
    known = remembered()
    if not known.is_new:
        return
    known.is_new = False
    last = dict([*_written(known.by).items(), *known.texts.items()][-MOST_TEXTS:])
    with suppress(OSError, RuntimeError, ValueError):
        noted.write_own_file(FOLDER, NAME, msgspec.json.encode(_Remembered(known.by, last)))


def forget() -> None:
    """Forget what was compiled before, here and in the cache."""
    known = remembered()
    known.texts.clear()
    known.is_new = False
    with suppress(OSError, RuntimeError, ValueError):
        noted.remove_own_file(FOLDER, NAME)


def _written(by: str) -> dict[str, Typed | str]:
    """Return what this user's processes wrote with the same compiler; nothing if others may write there: what is read is run."""
    with suppress(OSError, RuntimeError, ValueError, msgspec.MsgspecError):  # a user may have no home
        read = msgspec.json.decode(noted.own_file(FOLDER, NAME), type=_Remembered)
        return read.texts if read.by == by else {}
    return {}


def compiler() -> str:
    """Return what changes when the compiler does: name, size and time of its files, and those of the parser's version."""
    parser = find_spec("sqlglot")
    files = [] if parser is None else [Path(str(parser.origin)), Path(str(parser.origin)).with_name("_version.py")]
    for folder in (Path(__file__).parent, *map(Path, core.__path__), *map(Path, lake.__path__)):
        files += folder.rglob("*.py")
    found = []
    for file in files:
        with suppress(OSError):
            stat = file.stat()
            found.append((str(file), stat.st_size, stat.st_mtime_ns))
    return sha256(repr(sorted(found)).encode()).hexdigest()
