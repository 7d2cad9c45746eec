"""Session windows as one loop over the ordered rows."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.engines.session_window import SessionWindow
from tests.core.engines.histories import Clock, Result, Row


def sessions(p: SessionWindow):
    """The engine as one loop over the ordered rows."""

    def naive(rows: Sequence[Row], outside: int | None, clock: Clock) -> list[Result]:
        groups: list[list[Row]] = []
        for row in sorted(rows):
            if not groups or row.t - groups[-1][-1].t >= p.session_gap:
                groups.append([])
            groups[-1].append(row)
        newest = max([row.t for row in rows] + ([] if outside is None else [outside]), default=0)
        found = []
        for group in groups:
            first, last = group[0].t, group[-1].t
            end = last + p.session_gap
            is_final = newest >= end or (clock.as_of is not None and clock.as_of >= end)
            if p.force_trigger_time is not None and clock.global_max is not None:
                now = clock.global_max if clock.as_of is None else max(clock.as_of, clock.global_max)
                is_final = is_final or now >= clock.global_max + p.force_trigger_time
            found.append(Result(first, end, first, last, len(group), is_final, (tuple(sorted(r.id for r in group)),)))
        return found

    return naive
