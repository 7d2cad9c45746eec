"""Cuts an engine's history at the frozen boundary: results below it stay as they are, results above need no row from below.

```
              frozen boundary
[ stored  ][stored |   ]              a result that begins below stays, whatever rows arrive
     rows may be   |   [ computed ]   a result that begins above needs the rows above, and the carried state
     gone          |
```

This works where a result needs nothing from before its start except what the last stored results of its key carry on. Rows
with an end are selected by that end: an event that began below the boundary and ends above it is still available.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.ranges import Range, StoredResult


def above(engine: WindowEngine, ranges: Iterable[Range], bound: int, stored: Sequence[StoredResult]) -> list[Range]:
    """Return the part of *ranges* that can be computed from rows above the boundary alone.

    A session that began below the boundary does not change. Rows that would join it are left out: they are in no session
    above.
    """
    taken, last = engine.taken_until(bound, stored), engine.lasts_from(bound)
    first = taken if last is None else last
    return [
        Range(max(r.start, bound), r.end, max(r.raw_start, first), r.raw_end)
        for r in ranges
        if r.end > bound and r.raw_end > taken
    ]
