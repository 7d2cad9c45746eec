"""What one capture knows about the files of a table while it walks through the versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from materializer.core.time.spans import NEG_INF
from materializer.errors import MaterializerError
from materializer.lake.extent import file_bounds
from materializer.lake.log import Commit, DataFile
from materializer.lake.statistics import Bounds, TimeColumn
from materializer.lake.table import DeltaFolder, open_table


@dataclass(frozen=True, slots=True)
class Look:
    """One capture: what was asked, and what was found about the table's files so far.

    Args:
        table: The table.
        after: Version before the run.
        column: Its time column.
        keys: Key columns, or None.
        max_rows: Changed rows that the driver reads.
        floor: Start of the bucket of an instant.
        next_edge: End of the bucket that starts at an edge.
        files: What is known about files, by decoded path; grows.
        before: Whether the files of the version before the run were read; grows to one element.
        frozen: Below it raw rows may go; ``NEG_INF`` when nothing is frozen.
    """

    table: DeltaFolder
    after: int
    column: TimeColumn
    keys: tuple[str, ...] | None
    max_rows: int
    floor: Callable[[int], int]
    next_edge: Callable[[int], int]
    files: dict[str, DataFile | Bounds] = field(default_factory=dict)
    before: list[bool] = field(default_factory=list)
    frozen: int = NEG_INF

    def ahead(self) -> Look:
        """Return a look of its own that starts with what this one knows, to learn from later commits."""
        return replace(self, files=dict(self.files), before=list(self.before))

    def learn(self, commit: Commit) -> None:
        """Remember the files that a commit added: a later remove says nothing about them."""
        for file in commit.adds:
            self.files[unquote(file.path)] = file

    def original(self, file: DataFile) -> DataFile | Bounds | None:
        """Return what is known about a removed file: itself, its add in the run, or the snapshot before the run."""
        if file.is_known and file.rows is not None:
            return file
        name = unquote(file.path)
        if name not in self.files and not self.before:
            self.before.append(True)
            with contextlib.suppress(MaterializerError):  # then the file stays unknown, and the caller says so
                for key, _, bounds in file_bounds(open_table(self.table.path, self.after), self.column):
                    self.files.setdefault(key, bounds)
        return self.files.get(name) or (file if file.is_known else None)
