"""A Delta table at its newest version: identity, schema, features, transaction numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct, field

from materializer.errors import (
    CatalogManagedError,
    LogGapError,
    MaterializerError,
    NotADeltaTableError,
    SourceDamagedError,
    TableNotFoundError,
)
from materializer.lake import places
from materializer.lake.failures import missing, translated
from materializer.lake.hostile import refuse_deep, refuse_deep_file
from materializer.lake.log import Commit, commit_file, forget, latest_version, placed, read_commit, tail
from materializer.lake.reads import fact, table_at
from materializer.lake.statistics import TimeColumn
from materializer.lake.types import columns_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from materializer.lake.features import TableFeatures

_Fact = TypeVar("_Fact")
MOST_KEPT: Final = 4_000
"""Of how many tables a process keeps what it knows when they are not in use: the tables of a thousand aggregates."""
LEAST_UPDATES: Final = 20
"""A handle may be opened anew after so many commits: the library forgets nothing of the commits that it read, some 5 kB of each."""
FILES_OF_UPDATE: Final = 500
"""So many files of the table ask for another commit, because opening takes as long as there are files."""
_LOOK: Final[ContextVar[object]] = ContextVar("look", default=None)
"""The block in which tables of a store are looked at once; None outside of one."""


class TableHead(Struct, frozen=True):
    """Newest version and identity of a table."""

    version: int
    table_id: str


class NotedTable(Struct, frozen=True):
    """What a table was once: it still is if the newest commit file has the same identity.

    Args:
        head: Its newest version, and its id.
        commit: Identity of the commit file of that version.
        rows: Number of its rows; None if they were not counted.
        numbers: The largest number under each transaction identifier that was asked for.
        plans: The plan whose commit has that number, by identifier; "" where that is not known.
    """

    head: TableHead
    commit: places.Identity
    rows: int | None = None
    numbers: Mapping[str, int | None] = field(default_factory=dict)
    plans: Mapping[str, str] = field(default_factory=dict)


class DeltaFolder:
    """A Delta table in a folder, for repeated reads of its newest version.

    To check an unchanged table costs two ``stat`` calls, or one listing of a store: the newest commit file must be the same
    file as before (a table that was dropped and recreated has another one), and the next commit file must not exist.

    Args:
        path: Folder of the table; nothing is read before the first call.
    """

    _folders: ClassVar[WeakValueDictionary[str, DeltaFolder]] = WeakValueDictionary()
    _kept: ClassVar[dict[str, DeltaFolder]] = {}  # the last one is the one that was asked for last
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: str) -> None:
        self.path = str(path).rstrip("/")
        self._table: DeltaTable | None = None
        self._identity: places.Identity | None = None
        self._opened_at = self._asked_at = 0
        self._look: object = None
        self._history = object()  # a new one whenever the table may have become another one
        self._carried: dict[str, tuple[int, int | None, str]] = {}  # version, number, plan
        self._noted: NotedTable | None = None
        self._lock = threading.RLock()

    @classmethod
    def at(cls, path: str) -> DeltaFolder:
        """Return this process's only object for *path*, so that repeated checks stay cheap.

        It stays as long as it is in use; without use, the :data:`MOST_KEPT` objects stay that were asked for last.
        """
        key = places.absolute(path)
        with cls._guard:
            folder = cls._folders[key] = cls._folders.get(key) or cls(key)
            cls._kept.pop(key, None)
            cls._kept[key] = folder
            while len(cls._kept) > MOST_KEPT:
                del cls._kept[next(iter(cls._kept))]
            return folder

    @classmethod
    def noted(cls, wanted: Collection[str]) -> dict[str, NotedTable]:
        """Return what this process knows of tables on stores, for :meth:`start_from` in another one; it looks at none.

        Args:
            wanted: Paths of tables, and of folders. Of tables in a folder the rows are counted.
        """
        with cls._guard:
            folders = sorted(cls._folders.items())
        known = {}
        for path, table in folders:
            is_inside = any(path.startswith(f"{folder}/") for folder in wanted)
            if (is_inside or path in wanted) and not places.is_local(path):
                known[path] = table.note(counts=is_inside)
        return {path: noted for path, noted in known.items() if noted is not None}

    def note(self, *, counts: bool) -> NotedTable | None:
        """Return what this process knows of the table without looking, perhaps with its rows; None if it has not looked yet."""
        with self._lock:
            table = self._table
            if table is None or self._identity is None:
                return self._noted
            rows, numbers, plans = None, {}, {}
            from deltalake.exceptions import DeltaError  # noqa: PLC0415 (the table was opened)

            with suppress(MaterializerError, DeltaError):
                rows = _rows_of(table) if counts else None
                numbers = {app_id: self.carried(table, app_id) for app_id in self._carried}
                plans = {app_id: plan for app_id, (_, _, plan) in self._carried.items()}
            return NotedTable(
                TableHead(table.version(), str(table.metadata().id)), self._identity, rows, numbers, plans
            )

    def start_from(self, noted: NotedTable) -> None:
        """Open the table for what is noted only if it is not any more what it was for another process."""
        with self._lock:
            self._noted = noted

    def exists(self) -> bool:
        """Return whether a Delta table exists at the path."""
        try:
            return latest_version(self.path) >= 0
        except (TableNotFoundError, NotADeltaTableError):
            return False

    def head(self) -> TableHead:
        """Return the newest version and the id of the table.

        Raises:
            TableNotFoundError: If there is nothing at the path.
            NotADeltaTableError: If the path exists but holds no Delta log.
            SourceDamagedError: If the log has a hole or cannot be parsed.
            StorageError: If the table cannot be read.
        """
        with self._lock:
            if (noted := self._as_noted()) is not None:
                return noted.head
            table = self.opened()
            return TableHead(table.version(), str(table.metadata().id))

    def file_of(self, version: int) -> places.Identity | None:
        """Return what tells the commit file of *version* from another file; of the newest version as it was looked at last."""
        with self._lock:
            if self._table is None:
                noted = self._noted
                known = None if noted is None or noted.head.version != version else noted.commit
            else:
                known = self._identity if self._table.version() == version else None
        return known or identity(self.path, version)

    def _as_noted(self) -> NotedTable | None:
        """Return what another process noted, if the table was not opened yet and is still the same."""
        noted, look = self._noted, current_look(self.path)
        if self._table is not None or noted is None:
            return None
        if look is None or look is not self._look:
            if tail(self.path, noted.head.version) != [noted.commit]:
                self._noted = None
                return None
            self._look = look
        return noted

    def rows(self) -> int | None:
        """Return the number of rows, from file statistics; None if some file has no row count."""
        with self._lock, translated(self.path, "reading"):
            noted = self._as_noted()
            return _rows_of(self.opened()) if noted is None or noted.rows is None else noted.rows

    def fact(self, key: Hashable, make: Callable[[], _Fact]) -> _Fact:
        """Return a fact of the present state of the table, which the readers of a block (:mod:`.reads`) make once.

        Args:
            key: What the fact is.
            make: Makes it.
        """
        if table_at(self.path) is None:
            return make()
        with self._lock:
            table = self.opened()
            state = str(table.metadata().id), table.version(), self._identity
        return fact(self.path, (state, key), make)

    def commits(self, after: int, upto: int, column: TimeColumn | None = None) -> list[Commit]:
        """Return the commits of versions (*after*, *upto*], in order; a block (:mod:`.reads`) reads the file of each one once.

        Args:
            after: The version before the first commit to return.
            upto: The last version to return.
            column: Column whose time ranges the files of the commits have; without it they may be those of any column.

        Raises:
            LogGapError: If one of the commits was cleaned out of the log.
            SourceDamagedError: If a commit is missing although older ones exist, or if it cannot be parsed.
        """
        with self._lock:
            self.opened()
            nothing: dict[int, tuple[TimeColumn | None, Commit]] = {}
            known = fact(self.path, ("commits", self._history), lambda: nothing)
        for version in range(after + 1, upto + 1):
            if version not in known:
                known[version] = column, read_commit(self.path, version, column)
            elif column is not None and known[version][0] != column:
                known[version] = column, placed(known[version][1], column)
        return [known[version][1] for version in range(after + 1, upto + 1)]

    def schema_json(self) -> str:
        """Return the newest schema as Spark's JSON."""
        return self.opened().schema().to_json()

    def schema(self) -> list[tuple[str, str]]:
        """Return (name, Spark type text) of each column, in order."""
        return columns_of(self.schema_json())

    def properties(self) -> Mapping[str, str]:
        """Return the table properties."""
        return dict(self.opened().metadata().configuration)

    def features(self) -> TableFeatures:
        """Return the features of the table, from its protocol and properties."""
        from materializer.lake.features import features_of  # noqa: PLC0415 (a refresh without work asks for none)

        return features_of(self.opened())

    def transaction_version(self, app_id: str) -> int | None:
        """Return the largest number recorded under a transaction identifier; None if there is none."""
        return self.numbered(app_id)[0]

    def numbered(self, app_id: str) -> tuple[int | None, str]:
        """Return the number of :meth:`transaction_version`, and the plan whose commit has it; "" where the log does not tell."""
        with self._lock, translated(self.path, "reading"):
            if (noted := self._as_noted()) is not None and app_id in noted.numbers:
                return noted.numbers[app_id], noted.plans.get(app_id, "")
            table = self.opened()
            from deltalake.exceptions import DeltaError  # noqa: PLC0415 (as above)

            try:
                self.carried(table, app_id)
            except DeltaError:
                # the library scans the commits that existed when the table was opened, but the log may have been shortened
                self._table = None
                self.carried(self.opened(), app_id)
            return self._carried[app_id][1:]

    def carried(self, table: DeltaTable, app_id: str) -> int | None:
        """Return the largest number under a transaction identifier in an open handle of this table; None if there is none."""
        from materializer.lake.notes import NEAR  # noqa: PLC0415 (a refresh without work asks for none)

        version, known = table.version(), self._carried.get(app_id)
        found = None
        with suppress(LogGapError, SourceDamagedError):
            if known is not None and known[0] <= version:
                found = self._newest_numbered(range(version, known[0], -1), app_id) or known[1:]
            else:  # the library would read all commits since a checkpoint
                found = self._newest_numbered(range(version, max(version - NEAR, -1), -1), app_id)
        number, plan = found or (table.transaction_version(app_id), "")
        self._carried[app_id] = version, number, plan
        return number

    def _newest_numbered(self, versions: Iterable[int], app_id: str) -> tuple[int, str] | None:
        """Return number and plan of the first of some commits that has a number under the identifier."""
        from materializer.lake.notes import numbered_in  # noqa: PLC0415 (as above)

        found = (numbered_in(self.path, version, app_id) for version in versions)
        return next((each for each in found if each is not None), None)

    def opened(self) -> DeltaTable:
        """Return the open handle at the newest version; this object owns the handle and updates it."""
        with self._lock:
            look = current_look(self.path)
            if self._table is None or look is None or look is not self._look:
                self._look = None
                self._table = self._newest()
                self._look = look
            return self._table

    def _newest(self) -> DeltaTable:
        if self._table is not None:
            run = tail(self.path, self._table.version())
            if run and run[0] == self._identity and (len(run) == 1 or self._update(self._table, run)):
                return self._renewed(self._table)
        forget(self.path)
        self._history = object()
        self._carried.clear()
        self._table = None
        table = open_table(self.path)
        self._identity = identity(self.path, table.version())
        self._opened_at = self._asked_at = table.version()
        return table

    def _renewed(self, table: DeltaTable) -> DeltaTable:
        """Return an open table, opened anew at the same version if it was updated often."""
        version = table.version()
        if version < self._asked_at + LEAST_UPDATES:
            return table
        self._asked_at = version
        if (version - self._opened_at) * FILES_OF_UPDATE < len(table.file_uris()):
            return table
        self._opened_at = version
        with suppress(MaterializerError):  # the handle that is there is right
            return open_table(self.path, version)
        return table

    def _update(self, table: DeltaTable, run: list[places.Identity]) -> bool:
        """Update an open table to its newest version; False if it must be opened again, for example after a shortened log.

        Args:
            table: The table.
            run: Identities of the commit files from its version on.
        """
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 (as above)

        before = table.version()
        try:
            for more, (*_, size) in enumerate(run[1:], table.version() + 1):
                refuse_deep_file(self.path, f"{more:020d}.json", int(size))
            table.update_incremental()
        except (DeltaError, OSError):
            return False
        more = table.version() - before
        self._identity = run[more] if more < len(run) else identity(self.path, table.version())
        return True

    @contextmanager
    def reading(self, version: int) -> Iterator[DeltaTable]:
        """Yield the table at a version for reading, reusing the open handle when it is at that version."""
        with self._lock:
            table = self.opened()
            if table.version() == version:
                yield table
                return
        yield open_table(self.path, version)

    def taken(self) -> DeltaTable:
        """Return the handle at the newest version for a commit; from now on only the caller may use it."""
        with self._lock:
            self._look = None
            table, self._table = self.opened(), None
            return table

    def given_back(self, table: DeltaTable) -> None:
        """Take back a handle from :meth:`taken`, which is at the newest version again."""
        with self._lock:
            if self._table is None:
                self._table, self._identity = table, identity(self.path, table.version())
                self._look = current_look(self.path)


def _rows_of(table: DeltaTable) -> int | None:
    counts = table.get_add_actions()["num_records"].to_pylist()
    return None if None in counts else sum(counts)


@contextmanager
def one_look() -> Iterator[None]:
    """Look at each table of a store, and at the journal, only once during the block, which decides on what was seen.

    A commit to a table looks again before it is made. No commit succeeds if another one came first, and the journal is read anew
    then. Paths are always looked at.
    """
    token = _LOOK.set(object())
    try:
        yield
    finally:
        _LOOK.reset(token)


def current_look(path: str) -> object:
    """Return the block of :func:`one_look` that this code is in; None outside of one, and for a path."""
    return None if places.is_local(path) else _LOOK.get()


def identity(path: str, version: int) -> places.Identity | None:
    """Return an identity of the commit file of *version* that no other file has; None if the file does not exist."""
    with translated(path, "reading the log of"):
        return places.identity(commit_file(path, version))


def newest_listed(path: str) -> tuple[int, places.Identity] | None:
    """Return the newest version that a table of a store has a commit file of, and the identity of that file, by one listing.

    Returns:
        None for a path, and if there is no commit file.
    """
    if places.is_local(path):
        return None
    with translated(path, "reading the log of"):
        found = places.identities(f"{path}/_delta_log")
    newest = max((name for name in found if name.endswith(".json") and name[:-5].isdigit()), default=None)
    return None if newest is None else (int(newest[:-5]), found[newest])


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """Return the table at a version, by default the newest; the errors are those of :meth:`DeltaFolder.head`.

    This reads the log of the table. For repeated reads of one table, use its :class:`DeltaFolder`.
    """
    if places.is_local(path) and not places.is_folder(path):  # the library would make the folder
        raise missing(path)
    from deltalake import DeltaTable  # noqa: PLC0415 (a command without work opens no table)

    refuse_deep(path, version)
    try:
        with translated(path, "reading"):
            return DeltaTable(path, version=version, storage_options=places.options_of(path))
    except CatalogManagedError as exc:
        feature = _managing_feature(path)
        raise CatalogManagedError(f"{exc.message} (table feature {feature})", path=path) if feature else exc from exc


def _managing_feature(path: str) -> str:
    """Return the feature by which a catalog manages a table, as the newest protocol in the commits of its log names it; else ""."""
    from materializer.lake.features import CATALOG_FEATURES  # noqa: PLC0415 (as above)

    with suppress(MaterializerError):
        for version in range(latest_version(path), -1, -1):
            if (protocol := read_commit(path, version).protocol) is not None:
                return next(iter(sorted(CATALOG_FEATURES & protocol.features)), "")
    return ""
