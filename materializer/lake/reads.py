"""What the aggregates of one command read of their sources, read once.

A block (:meth:`SharedReads.together`) remembers what was read in it: rows of data files, rows that commits changed, and facts of logs. It
forgets a table when its last reader has ended, and everything at its end. A data file and a commit never change, so what was read of
one is right for every version of the table that has it; each is named by the table's id and its own name. What does not fit into
the block is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import Struct, field

from materializer.lake import places

if TYPE_CHECKING:
    import pyarrow as pa

_Fact = TypeVar("_Fact")


class Reader(Struct, frozen=True):
    """One aggregate of a command.

    Args:
        name: Its name.
        path: The table that it reads.
        columns: The columns that it reads of the table.
    """

    name: str
    path: str
    columns: Collection[str]


class _Room(Struct):
    """How many rows and bytes still fit into a block."""

    rows: int
    size: int


class ReadTable(Struct):
    """What a block has read of one table."""

    _room: _Room
    _readers: dict[str, Reader] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _rows: dict[Hashable, pa.Table] = field(default_factory=dict)
    _facts: dict[Hashable, Any] = field(default_factory=dict)
    _at_end: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_shared(self) -> bool:
        """Whether the table has more than one reader in the block."""
        return len(self._readers) > 1

    @property
    def columns(self) -> list[str]:
        """The columns that its readers read."""
        return list(dict.fromkeys(column for reader in self._readers.values() for column in reader.columns))

    @property
    def size(self) -> int:
        """The bytes of the rows that are remembered."""
        return sum(rows.nbytes for rows in self._rows.values())

    def add(self, reader: Reader) -> None:
        """Add a reader."""
        self._readers.setdefault(reader.name, reader)

    def end(self, reader: Reader) -> None:
        """End a reader; after the last one everything is forgotten."""
        self._ended.add(reader.name)
        if self._ended >= self._readers.keys():
            self._forget()

    def rows(self, key: Hashable, columns: Iterable[str]) -> pa.Table | None:
        """Return the rows that were remembered under a key; None if there are none, or if one of *columns* is missing."""
        found = self._rows.get(key)
        return found if found is not None and set(columns) <= set(found.column_names) else None

    def wide(self, key: Hashable, columns: Iterable[str]) -> list[str]:
        """Return *columns*, those of all readers, and those that were remembered under a key."""
        before = self._rows.get(key)
        return list(dict.fromkeys([*columns, *self.columns, *(() if before is None else before.column_names)]))

    def has_room(self, rows: int, size: int) -> bool:
        """Return whether so many rows and bytes would be remembered."""
        return rows <= self._room.rows and size <= self._room.size

    def remember(self, key: Hashable, rows: pa.Table) -> None:
        """Remember rows in the place of those that the key has, if they fit."""
        self.forget(key)
        if self.has_room(rows.num_rows, rows.nbytes):
            self._rows[key] = rows
            self._room.rows -= rows.num_rows
            self._room.size -= rows.nbytes

    def forget(self, key: Hashable) -> None:
        """Forget the rows of a key."""
        before = self._rows.pop(key, None)
        if before is not None:
            self._give_back(before)

    def fact(self, key: Hashable, make: Callable[[], _Fact]) -> _Fact:
        """Return the fact of a key, which is made once."""
        if key not in self._facts:
            self._facts[key] = make()
        return cast("_Fact", self._facts[key])

    def at_end(self, free: Callable[[], None]) -> None:
        """Call a function when everything is forgotten."""
        self._at_end.append(free)

    def _forget(self) -> None:
        for rows in self._rows.values():
            self._give_back(rows)
        self._rows.clear()
        self._facts.clear()
        while self._at_end:
            self._at_end.pop()()

    def _give_back(self, rows: pa.Table) -> None:
        self._room.rows += rows.num_rows
        self._room.size += rows.nbytes


class SharedReads(Struct, frozen=True):
    """Makes blocks.

    Args:
        max_rows: Maximum number of rows that a block remembers.
        max_bytes: Maximum size of these rows in memory.
    """

    max_rows: int = 1_000_000
    max_bytes: int = 256 << 20

    @contextmanager
    def together(self, readers: Iterable[Reader]) -> Iterator[None]:
        """Read what these readers read of the same table once during the block.

        A block inside of another one is part of that one. When it ends, its readers have ended.
        """
        outer = _BLOCK.get()
        tables = _Tables(_Room(self.max_rows, self.max_bytes)) if outer is None else outer
        known = list(readers)
        tables.add(known)
        token = _BLOCK.set(tables)
        try:
            yield
        finally:
            _BLOCK.reset(token)
            tables.end(known)


class _Tables(Struct):
    """The tables of a block, by path."""

    room: _Room
    by_path: dict[str, ReadTable] = field(default_factory=dict)

    def add(self, readers: Iterable[Reader]) -> None:
        """Add readers."""
        for reader in readers:
            table = self.by_path.setdefault(_key(reader.path), ReadTable(self.room))
            table.add(reader)

    def end(self, readers: Iterable[Reader]) -> None:
        """End readers; what no other one reads is forgotten."""
        for reader in readers:
            self.by_path[_key(reader.path)].end(reader)


_BLOCK: Final[ContextVar[_Tables | None]] = ContextVar("block", default=None)
"""The block that this code is in; None outside of one."""


def table_at(path: str) -> ReadTable | None:
    """Return what the block has read of a table; None outside of a block, and for a table that no reader of it was said to read."""
    tables = _BLOCK.get()
    return None if tables is None else tables.by_path.get(_key(path))


def fact(path: str, key: Hashable, make: Callable[[], _Fact]) -> _Fact:
    """Return a fact of a table, which a block makes once.

    Args:
        path: The table.
        key: What the fact is, and of which state of the table.
        make: Makes it.
    """
    table = table_at(path)
    return make() if table is None else table.fact(key, make)


def _key(path: str) -> str:
    return places.absolute(path).rstrip("/")
