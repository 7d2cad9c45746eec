"""What a refresh of an engine takes, in seconds: all of it from all raw rows, or the results that changed rows touch.

The second has to be chosen before its ranges are planned, because planning is most of it. So both prices follow from what is known
at once: rows of the source, stored results, changed rows, and later the changed times. The rates are upper bounds of one and lower
bounds of the other where they are in doubt: what changed is computed, unless everything is clearly cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from materializer.core.refresh.plan import ExecutorKind

FEW: Final = 100
"""So many changed rows are few in any source: what they touch is computed, whatever the prices say."""
SAVES: Final = (0.2, 0.25)
"""Everything is computed where that saves this share of the other price, and so many seconds."""


class EngineRates(Struct, frozen=True):
    """What one executor takes, in seconds.

    Args:
        raw: For each raw row from which everything is computed.
        replaced: For each stored result that is replaced then.
        begin: For a refresh of what changed, however little that is, beyond what a computation of everything takes in any case.
        opened: For each raw row among which those of changed ranges are found.
        looked_at: For each stored result among which those around changed times are found.
        changed: For each changed row, as its change is read.
        touched: For each changed time, as its range is planned, computed and replaced.
        computed: For each stored result in the slices of these ranges.
    """

    raw: float
    replaced: float
    begin: float
    opened: float
    looked_at: float
    changed: float
    touched: float
    computed: float

    def everything(self, rows: int, results: int) -> float:
        """Return the seconds of computing everything.

        Args:
            rows: Raw rows.
            results: Stored results.
        """
        return rows * self.raw + results * self.replaced

    def changes(self, rows: int, results: int, changed: int, touched: int, computed: int) -> float:
        """Return the seconds of computing what changed rows touch.

        Args:
            rows: Raw rows of the files in which they lie.
            results: Stored results of these files.
            changed: Changed rows.
            touched: Changed times of keys; a lower bound of the ranges.
            computed: Stored results in the slices of the ranges; 0 while these are not known.
        """
        found = rows * self.opened + results * self.looked_at
        return self.begin + found + changed * self.changed + touched * self.touched + computed * self.computed

    def is_worth_it(self, everything: float, changes: float) -> bool:
        """Return whether computing everything is clearly cheaper."""
        share, seconds = SAVES
        return changes - everything > max(share * changes, seconds)


RATES: Final[Mapping[ExecutorKind, EngineRates]] = {
    ExecutorKind.LOCAL: EngineRates(
        raw=1.5e-6,
        replaced=1e-6,
        begin=0.1,
        opened=5e-7,
        looked_at=1.5e-6,
        changed=1.5e-5,
        touched=1.5e-4,
        computed=3e-6,
    ),
    ExecutorKind.SPARK: EngineRates(
        raw=1.2e-5, replaced=5e-6, begin=1.0, opened=1e-5, looked_at=5e-6, changed=2e-5, touched=7e-3, computed=3e-5
    ),
}
"""The rates by executor; `python -m tests.benchmarks.scattered` measures what they are to predict."""
