"""New files of a table of ours, in a folder of their own inside the table's folder, until a commit takes them in.

The folder is a Delta table with the columns of the table around it. Whoever writes rows into it, the library or Spark, so
writes the statistics of its files as well. The library makes that table together with its first file; Spark needs an empty one.
One commit of the driver to the table itself then adds the files where they are: nothing is renamed, and no reader sees a file
before that commit. The folder's own log is removed afterwards.

```
  output/_delta_log/                    the table
  output/plan-7f3a…-91c0/_delta_log/    only until the commit
  output/plan-7f3a…-91c0/part-….parquet
```

A process that dies leaves the folder, which ``maintain`` removes; see :mod:`materializer.lake.write.vacuum`.

On a store, each step of the library at the folder's table would be some requests. Files that the driver writes therefore begin in
a temporary folder of this machine, and are copied into the folder, which then has no log.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from materializer.errors import RetryableError, WriteFencedError
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.log import DataFile, is_begun, latest_version, read_commit
from materializer.lake.write.commit import NO_HOOKS, NOT_COMMITTED, WRITER

OF_PLAN: Final = "plan-"
"""Prefix of the folders of a refresh: once the plan has ended, a fence refuses their commit for ever."""
OTHERS: Final = "files-"
"""Prefix of the folders of maintenance and of appends."""
LOG: Final = "_delta_log"
_ODD: Final = re.compile(r"[^0-9A-Za-z]+")
_STATISTICS: Final = "delta.dataSkippingNumIndexedCols"
_MAP: Final = '"type":"map"'
_WHOLE: Final = 1 << 40


class NewFiles:
    """New files of one commit; each attempt of the commit begins a new folder.

    Args:
        path: The table.
        plan: The plan of a refresh; "" for other commits.
    """

    def __init__(self, path: str, plan: str = "") -> None:
        self.path = path
        self.folder = ""
        self._name = f"{OF_PLAN}{_ODD.sub('-', plan)[:64]}-" if plan else OTHERS
        self._may_be_committed = False
        self._staged = ""
        self._configuration: dict[str, str] = {}
        self._schema: Schema | None = None
        self._written: list[DataFile] = []

    def begin(self, opened: DeltaTable, *, by_driver: bool = False) -> str:
        """Create the folder, after removing that of an earlier attempt, which failed, and return where to write.

        Args:
            opened: The table around it, opened.
            by_driver: Whether this process writes the files, by :meth:`write`; they may begin on this machine.
        """
        self._clear()
        self._may_be_committed, self._written = False, []
        self.folder = f"{self.path}/{self._name}{uuid4().hex[:12]}"
        if by_driver and not places.is_local(self.path):
            self._staged = tempfile.mkdtemp(prefix="materializer-")
        folder = self._staged or self.folder
        with translated(self.path, "writing beside", wrote=NOT_COMMITTED):
            properties, schema = opened.metadata().configuration, opened.schema()
            self._configuration = {_STATISTICS: properties[_STATISTICS]} if _STATISTICS in properties else {}
            # the first write would name the parts of a map otherwise
            self._schema = schema if not by_driver or _MAP in schema.to_json() else None
            places.make_folder(folder)
            self._create(folder)
        return folder

    def write(self, rows: pa.Table) -> None:
        """Write rows with the columns of the table into one new file."""
        folder = self._staged or self.folder
        if made := _files(folder):
            # the library reads the whole log before it writes: each file has a new one, or many files would take ever longer
            self._written += made
            places.delete_folder(f"{folder}/{LOG}")
            self._create(folder)
        with translated(folder, "writing beside", wrote=NOT_COMMITTED):
            write_deltalake(
                folder,
                rows,
                mode="append",
                configuration=self._configuration,
                target_file_size=_WHOLE,
                writer_properties=WRITER,
                post_commithook_properties=NO_HOOKS,
                storage_options=places.options_of(folder),
            )

    def adds(self, rows: int | None = None, *, data_change: bool) -> list[AddAction]:
        """Return the actions that add the files; the caller commits them at once.

        Args:
            rows: How many rows they have together, if known.
            data_change: Whether the commit changes rows.

        Raises:
            ValueError: If they have another number of rows, or have no statistics.
        """
        new = [*self._written, *_files(self._staged or self.folder)]
        if (rows is not None and sum(f.rows or 0 for f in new) != rows) or not all(f.stats for f in new):
            raise ValueError(f"{rows} rows of '{self.path}' became {sum(f.rows or 0 for f in new)} in new files")
        if self._staged:
            with translated(self.path, "writing beside", wrote=NOT_COMMITTED):
                for name in (unquote(f.path) for f in new):
                    places.copy(f"{self._staged}/{name}", f"{self.folder}/{name}")
        self._may_be_committed = True
        inside = self.folder.rpartition("/")[2]
        now = int(time.time() * 1000)
        return [
            AddAction(f"{inside}/{f.path}", f.bytes, {}, now, data_change=data_change, stats=f.stats or "") for f in new
        ]

    def _create(self, folder: str) -> None:
        """Create the folder's table, where the first write does not."""
        if self._schema is not None:
            DeltaTable.create(
                folder,
                self._schema,
                configuration=self._configuration,
                post_commithook_properties=NO_HOOKS,
                storage_options=places.options_of(folder),
            )

    def committed(self) -> None:
        """Remove the folder's log, and the folder if it has no files."""
        if self.folder and not self._staged:
            places.delete_folder(f"{self.folder}/{LOG}", ignore_errors=True)
            places.delete_if_empty(self.folder)
        self._unstage()

    def failed(self, *, is_refused: bool) -> None:
        """Remove the folder, unless its files may be in a commit whose answer was lost."""
        if is_refused or not self._may_be_committed:
            self._clear()
        self._unstage()

    def _clear(self) -> None:
        if self.folder:
            places.delete_folder(self.folder, ignore_errors=True)
        self._unstage()

    def _unstage(self) -> None:
        if self._staged:
            places.delete_folder(self._staged, ignore_errors=True)
            self._staged = ""


@contextmanager
def new_files(path: str, plan: str = "") -> Iterator[NewFiles]:
    """Yield the new files of one commit to the table at *path*; the block commits them, or raises."""
    files = NewFiles(path, plan)
    try:
        yield files
    except BaseException as exc:
        files.failed(is_refused=isinstance(exc, RetryableError | WriteFencedError))
        raise
    files.committed()


def removals(path: str, opened: DeltaTable, names: Sequence[str], *, data_change: bool) -> list[RemoveAction]:
    """Return the actions that remove files.

    Raises:
        RetryableError: If one of the files is no longer part of the table.
    """
    with translated(path, "reading", wrote=NOT_COMMITTED):
        actions = pa.RecordBatchReader.from_stream(opened.get_add_actions()).read_all()
    present = {
        unquote(name): (name, size)
        for name, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    }
    if not present.keys() >= set(names):
        raise RetryableError(
            f"files of '{path}' were replaced while they were written again", wrote=NOT_COMMITTED, path=path
        )
    now = int(time.time() * 1000)
    return [
        RemoveAction(name, data_change=data_change, deletion_timestamp=now, size=size, partition_values={})
        for name, size in (present[n] for n in names)
    ]


def _files(folder: str) -> list[DataFile]:
    """Return the files of the newest version of the folder's table."""
    present: dict[str, DataFile] = {}
    if not is_begun(folder):  # nothing was written
        return []
    for version in range(latest_version(folder) + 1):
        commit = read_commit(folder, version)
        present = {name: f for name, f in present.items() if name not in {f.path for f in commit.removes}}
        present |= {f.path: f for f in commit.adds}
    return list(present.values())
