"""A DuckDB that computes as Spark does: instants in UTC, a bounded memory, nothing read but what it is given."""

# ruff: noqa: PLC0415 - DuckDB is imported when something is computed

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from materializer import machine
from materializer.local.kinds import ASKED, CALL, SKETCH_ERROR, NotLocal, TooLarge

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from materializer.local.render import Statement

LEAST: Final = 256 << 20
"""Bytes that DuckDB may hold in any case; a computation that needs more is cut, or left to Spark."""

_SETTINGS: Final = (
    "TimeZone = 'UTC'",
    "temp_directory = ''",  # what does not fit is for Spark
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "enable_external_access = false",
    # it compares `m` with 3 / 7 for `m * 7 <> 3`, and then nothing overflows; Spark has to say what it makes of such rows
    "disabled_optimizers = 'expression_rewriter'",
    "lock_configuration = true",
)


def connected(database: str = ":memory:", *, memory: int = LEAST) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database of its own.

    Args:
        database: The database; by default one of its own in memory.
        memory: Bytes that it may hold.
    """
    import duckdb

    connection = duckdb.connect(database, config={"memory_limit": f"{memory}B", "threads": f"{machine.cores()}"})
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    return connection


class Connection(Struct, frozen=True):
    """A connection for one computation.

    Args:
        duckdb: The connection of the library.
    """

    duckdb: duckdb.DuckDBPyConnection
    _names: list[str] = field(default_factory=list)
    _known: list[str] = field(default_factory=list)

    def register(self, name: str, rows: pa.Table) -> None:
        """Make rows a table of the queries that follow."""
        self.duckdb.register(name, rows)
        self._names.append(name)

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        if CALL in sql and not self._known:
            from materializer.local import sketch_calls

            self._known.extend(sketch_calls.make_known(self.duckdb))
        return self.duckdb.sql(sql).to_arrow_table()

    def prepared(self, statement: Statement) -> str:
        """Return the text of a statement, after the passes that make rows for it."""
        for step in statement.passes:
            self.register(step.name, step.made(self.query(step.sql)))
        return statement.sql

    def clear(self) -> None:
        """Forget all tables."""
        while self._names:
            self.duckdb.unregister(self._names.pop())


class Connections(Struct):
    """Connections that are open and free, by memory and process: in a child that was forked, the threads of a database are missing.

    Args:
        memory: Bytes that one may hold where its user does not say: what the settings of the lake that was opened last give DuckDB.
    """

    memory: int = LEAST
    _free: dict[tuple[int, int], list[Connection]] = field(default_factory=dict)

    @contextmanager
    def one(self, memory: int = 0) -> Iterator[Connection]:
        """Yield a connection for one computation; after an error it is closed, which frees its memory.

        Connections are used again, because opening one takes longer than computing a late row.

        Args:
            memory: Bytes that it may hold, at least ``LEAST``; 0 for :attr:`memory`.

        Raises:
            TooLarge: If they are not enough.
            NotLocal: If the computation fails.
        """
        import duckdb
        import pyarrow as pa

        memory = max(memory or self.memory, LEAST)
        free = self._free.setdefault((os.getpid(), memory), [])
        try:
            connection = free.pop()
        except IndexError:
            connection = Connection(connected(memory=memory))
        try:
            yield connection
            connection.clear()
        except BaseException as exc:
            connection.duckdb.close()
            if isinstance(exc, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
                from materializer.local.compiled_before import forget

                forget()  # its text may be one of these
            if isinstance(exc, duckdb.Error | pa.ArrowException):
                kind = TooLarge if isinstance(exc, duckdb.OutOfMemoryException) else NotLocal
                raise kind(_words(exc)) from exc
            raise
        free.append(connection)


_PREFIX: Final = re.compile(r"^[A-Z]\w+( [A-Z]?\w+)* [Ee]rror: ")
"""What the library puts before its messages, such as ``Out of Range Error: ``."""
_USED: Final = re.compile(r"\(([^()]+ used)\)")
_VALUE: Final = "a value cannot be computed here"


def _words(exc: Exception) -> str:
    """Return an error of a computation in plain words, without what the library calls it."""
    import duckdb

    first = (str(exc).splitlines() or [""])[0]
    text = _PREFIX.sub("", first)
    if isinstance(exc, duckdb.OutOfMemoryException):
        used = _USED.search(first)
        return f"it needs more memory than it may take here{f', {used[1]}' if used else ''} (local_memory)"
    _, _, ours = text.partition(f"{SKETCH_ERROR}: ")
    if ours:
        return ours
    if ASKED in text:
        return f"{_VALUE} (it overflows, is divided by zero, or text is no number), and Spark has to say what it is"
    if isinstance(exc, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException):
        return f"{_VALUE}: {text}"
    return f"{'DuckDB failed' if isinstance(exc, duckdb.Error) else 'rows cannot be read'}: {text}"


CONNECTIONS: Final = Connections()
"""The connections of this process."""
opened: Final = CONNECTIONS.one
"""Yields a connection of this process."""
