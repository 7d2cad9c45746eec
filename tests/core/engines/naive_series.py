"""Time series by a double loop over windows and rows."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.engines.time_series import TimeSeries
from tests.core.engines.histories import Clock, Naive, Result, Row

FILLED = (7,)
"""What the constant 7 lists."""


def series(p: TimeSeries) -> Naive:
    """Return the engine; each measure lists the rows of its window size."""
    right = 1 if p.closed == "right" else 0
    sub = p.sub_window or (0, p.step)
    short = p.step - sub[1]
    sizes = p.measure_sizes or (0,)

    def results(rows: Sequence[Row], outside: int | None, clock: Clock) -> list[Result]:
        if not rows:
            return []
        anchor = p.anchor(min(row.t for row in rows) if p.has_grid_by_key else None)
        newest = max(row.t for row in rows)
        bound = max(t for t in (newest, outside) if t is not None) - p.accepted_delay
        forced = p.accepted_delay if p.use_system_time else p.force_trigger_time
        if forced is not None and clock.global_max is not None:
            bound = max(bound, clock.global_max - forced)
        if clock.as_of is not None:
            bound = max(bound, clock.as_of - p.shift)
        times = {row: max(row.t - p.shift, anchor) if p.shift else row.t for row in rows}

        def inside(end: int, size: int) -> list[Row]:
            low = end - p.step + sub[0] if p.sub_window else end - size
            return sorted(row for row, t in times.items() if low + right <= t < end - short + right)

        held: dict[int, Result] = {}
        ends = range(anchor - 200 * p.step, max(newest, bound) + p.length + p.step, p.step)
        for end in ends:
            of_sizes = [inside(end, size) for size in p.window_sizes]
            most = [row.t for row in max(of_sizes, key=len)]
            if most and (all(of_sizes) or p.multi_window_rule == "largest"):
                listed = tuple(tuple(sorted(row.id for row in of_sizes[i])) or None for i in sizes)
                is_final = end - short <= bound - right
                held[end] = Result(end - p.length, end - short, min(most), max(most), len(most), is_final, listed)
        if not p.fills or not held:
            return list(held.values())
        found: list[Result] = []
        stands = {"null": None, "constant": FILLED}
        goes_on = outside is None or outside <= newest
        for end in ends[ends.index(min(held)) :]:
            if end in held:
                found.append(held[end])
            elif end - short <= bound - right and (goes_on or end < max(held)):
                values = zip(found[-1].values, p.fills, strict=True)
                filled = tuple(value if kind == "ffill" else stands[kind] for value, (kind, _) in values)
                found.append(Result(end - p.length, end - short, None, None, 0, True, filled))
        return found

    return results
