"""The state of one capture: what it knows about the table's files while it reads version after version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF
from materializer.errors import MaterializerError
from materializer.lake.extent import file_bounds
from materializer.lake.log import Commit, DataFile
from materializer.lake.statistics import FileRange, TimeColumn
from materializer.lake.table import DeltaFolder, open_table


class CaptureContext(Struct, frozen=True):
    """One capture: its arguments, and what it knows about the table's files so far.

    Args:
        table: The table.
        after: The version before the range.
        column: The time column of the table.
        keys: The columns that the keys are made of, or None.
        floor: Start of the bucket of an instant.
        next_edge: End of the bucket that starts at an edge.
        files: The known files by decoded path; the mapping grows.
        before: Whether the files of the version before the range were read; the list grows to one element.
        max_rows: Maximum number of changed rows that the driver reads.
        max_bytes: Maximum size of the files that hold them.
        frozen: The boundary below which raw rows may be deleted; ``NEG_INF`` if nothing is frozen.
        reads: Columns that a merge of few changed rows reads next.
        evaluate: Returns the keys of rows of the key columns, or None where they are unknown; None if they are these columns.
        known_at: The column that says when a row was known, with its type; None where its commit says it.
    """

    table: DeltaFolder
    after: int
    column: TimeColumn
    keys: tuple[str, ...] | None
    floor: Callable[[int], int]
    next_edge: Callable[[int], int]
    files: dict[str, DataFile | FileRange] = field(default_factory=dict)
    before: list[bool] = field(default_factory=list)
    max_rows: int = 0
    max_bytes: int = 0
    frozen: int = NEG_INF
    reads: tuple[str, ...] = ()
    evaluate: Callable[[Any], Any] | None = None
    known_at: tuple[str, TimeType] | None = None

    def ahead(self) -> CaptureContext:
        """Return a copy with the files known so far, which may learn from later commits without changing this one."""
        return replace(self, files=dict(self.files), before=list(self.before))

    def learn(self, commit: Commit) -> None:
        """Remember the files that a commit added, because a later remove has no statistics."""
        for file in commit.adds:
            self.files[unquote(file.path)] = file

    def original(self, file: DataFile) -> DataFile | FileRange | None:
        """Return what is known about a removed file, from the remove, its add in the range, or the snapshot before it."""
        if file.is_known and file.rows is not None:
            return file
        name = unquote(file.path)
        if name not in self.files and not self.before:
            self.before.append(True)
            with contextlib.suppress(MaterializerError):  # the file then stays unknown, which the caller handles
                for at, bounds in self.table.fact(("bounds", self.after, self.column), self._bounds_before):
                    self.files.setdefault(at, bounds)
        return self.files.get(name) or (file if file.is_known else None)

    def _bounds_before(self) -> list[tuple[str, FileRange]]:
        table = open_table(self.table.path, self.after)
        return [(name, bounds) for name, _, bounds in file_bounds(table, self.column)]
