"""How many rows the driver holds at once."""

from __future__ import annotations

from msgspec import Struct

LEAST_ROWS, LEAST_BYTES = 1_000, 1 << 20
"""What the driver holds in any case: without it, it could plan nothing."""


class Budget(Struct, frozen=True):
    """How many rows the driver holds at once, whatever the data: for each use its own number, and never more than *rows*.

    Spark reads what is beyond. Where a plan cannot list what changed because of it, it computes more than that.

    Args:
        rows: Rows for any use.
        bytes: Bytes of the files that the driver reads at once.
    """

    rows: int = 1_000_000
    bytes: int = 256 << 20

    @property
    def stored(self) -> int:
        """Stored results around what changed, for planning."""
        return min(1_000_000, self.rows)

    @property
    def opened(self) -> int:
        """Rows in files that are opened to pick few of them, and changed rows that capture reads."""
        return min(500_000, self.rows)

    @property
    def changed(self) -> int:
        """Changed rows that a plan or a merge reads, and pairs of changed key and slice."""
        return min(200_000, self.rows)

    @property
    def passed(self) -> int:
        """Stored rows and late rows that are read or fetched to be passed on whole."""
        return min(100_000, self.rows)

    @property
    def listed(self) -> int:
        """Buckets, and ranges of keys, that are listed one by one."""
        return min(100_000, self.rows)

    @property
    def raw(self) -> int:
        """Raw rows that are read to be passed on to Spark."""
        return min(50_000, self.rows)
