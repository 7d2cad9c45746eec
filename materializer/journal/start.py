"""What a new process on an object store starts from: the rows of the journal, and what is known of tables, in one file.

Without it a process reads two files for each commit since the journal was folded, and the log of each table. The file lies
beside the journal, is written at the end of a command that wrote, and may be deleted at any time. Nothing in it is believed unless
the store shows that it still holds: it names the version of the journal and of each table, and the identity of the commit
file of that version. The commits that followed are read. A lake on a path has no such file, because there reading the log takes less time.
"""

# ruff: noqa: PLC0415 - a lake on a path has no such file

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from materializer.journal.codec import Row
from materializer.journal.ports import JournalSnapshot
from materializer.lake import places
from materializer.lake.table import NotedTable, TableHead

_FILE: Final = "start.json.gz"
_FORMAT: Final = 2
"""A higher number when the content of the file changes its meaning."""


class Start(Struct, frozen=True):
    """The content of the file.

    Args:
        journal: The journal at one version.
        commit: Identity of the commit file of that version.
        tables: What is known of tables at their newest version, by path.
    """

    journal: JournalSnapshot
    commit: places.Identity
    tables: Mapping[str, NotedTable]


def read(journal: str) -> Start | None:
    """Return what was written for the journal at a place; None without a file that can be read."""
    import gzip
    import zlib

    with suppress(
        OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error
    ):
        data = json.loads(gzip.decompress(places.read(_file(journal))))
        if data["format"] != _FORMAT:
            return None
        rows = tuple(Row(*values) for values in data["rows"])
        tables = {
            path: NotedTable(TableHead(version, table_id), tuple(commit), count, numbers, plans)
            for path, (version, table_id, commit, count, numbers, plans) in data["tables"].items()
        }
        snapshot = JournalSnapshot(int(data["version"]), rows, int(data["generation"]))
        return Start(snapshot, tuple(data["commit"]), tables)
    return None


def write(journal: str, start: Start) -> None:
    """Write the file of the journal at a place on a store. A failure is ignored: readers then read the log."""
    import gzip

    data = {
        "format": _FORMAT,
        "version": start.journal.version,
        "generation": start.journal.generation,
        "commit": start.commit,
        "tables": {
            path: (
                noted.head.version,
                noted.head.table_id,
                noted.commit,
                noted.rows,
                noted.numbers,
                noted.plans,
            )
            for path, noted in start.tables.items()
        },
        "rows": [astuple(row) for row in start.journal.rows],
    }
    with suppress(OSError):
        places.put(_file(journal), gzip.compress(json.dumps(data).encode(), compresslevel=3, mtime=0))


def _file(journal: str) -> str:
    return f"{places.parent(journal)}/{_FILE}"
