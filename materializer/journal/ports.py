"""What the journal needs of the table that stores its rows: the port, and the rows as it returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from materializer.journal.codec import Row

if TYPE_CHECKING:
    from materializer.lake.places import Identity
    from materializer.lake.write.vacuum import Leftover


class JournalSnapshot(Struct, frozen=True):
    """All rows of the journal at one version.

    Args:
        version: Version of the table; -1 when there is none yet.
        rows: In the order in which they were written.
        generation: Version that wrote the first row: the last commit that replaced all rows, or the first one of all.
            While it stays the same, *rows* only grows at its end.
    """

    version: int
    rows: tuple[Row, ...]
    generation: int = 0

    def grown_from(self, before: JournalSnapshot) -> int:
        """Return how many rows are those of *before*, 0 when it is no prefix: replaced, loaded anew or put back."""
        known = len(before.rows)
        is_prefix = known and len(self.rows) >= known and self.rows[known - 1] is before.rows[-1]
        return known if is_prefix and self.generation == before.generation else 0

    def __repr__(self) -> str:
        return f"JournalSnapshot(version={self.version}, {len(self.rows)} rows, generation={self.generation})"


class RowStore(Protocol):
    """A table of rows that grows by compare-and-swap; may be used from several threads."""

    def read(self) -> JournalSnapshot:
        """Return the newest state: the same object as before when nothing was committed since.

        Raises:
            JournalError: If the table is damaged, or is not a journal.
            StorageError: If it cannot be read.
        """

    def version(self) -> int:
        """Return the newest version, -1 without a table, without reading rows; raises as :meth:`read`."""

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """Append rows in one commit, if the table still has *expected_version*, and return the new version.

        After an error the commit may be there all the same: a store repeats a put whose answer was lost, and then meets the
        commit of the first one. :meth:`mark_of` of the next version tells.

        Args:
            rows: At least one, in order.
            expected_version: What :meth:`read` or :meth:`version` returned; -1 creates the table.
            mark: What the commit is recognised by; "" if none is needed.

        Raises:
            JournalConflictError: If the next version exists.
            StorageError: If it cannot be written.
        """

    def mark_of(self, version: int) -> str:
        """Return the mark of the commit that made *version*; "" if there is no such version, or its commit has no mark.

        Raises:
            MaterializerError: If the commit cannot be read.
        """

    def snapshot(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """Replace all rows by *rows* in one commit and return the new version; raises as :meth:`append`."""

    def share(self, version: int, tables: Iterable[str]) -> Identity | None:
        """Let new processes start from *version*, which was read or appended last, where that is cheaper than to read the log.

        Args:
            version: The version.
            tables: Paths of tables and of folders of tables; what is known of these is shared as well.

        Returns:
            The identity of its commit file; None if there is none, or if the table is another one by now.
        """

    def commits_since_snapshot(self) -> int:
        """Return how many commits the newest state stands on since all rows were last replaced."""

    def file_sizes(self) -> list[int]:
        """Return the size of each file that holds rows."""

    def leftovers(self) -> list[Leftover]:
        """Return files that no version needs that was current within the table's retention."""

    def remove(self, found: Sequence[Leftover]) -> None:
        """Remove what :meth:`leftovers` found."""
