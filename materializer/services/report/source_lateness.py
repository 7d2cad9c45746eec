"""Lateness of the rows of each source, from the journal alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.refresh.lateness import ENOUGH, Lateness
from materializer.journal.state import AggregateState


class SourceLateness(Printed, Struct, frozen=True):
    """Lateness of the rows of a source, by one time column.

    Args:
        source: Its path.
        time_column: The column of event time.
        aggregate: The aggregate that counted the rows: the one with the most rows of those with that source and column.
        readers: How many aggregates read the source by that column.
        lateness: Counts of the inserted rows.
        longest_wait: Seconds from a commit to its capture, the longest of the latest waits of all readers; None without one.
    """

    source: str
    time_column: str
    aggregate: str
    readers: int
    lateness: Lateness
    longest_wait: float | None

    def _tables(self) -> list[PrintedTable]:
        within = {share: self.lateness.within(share) for share in (0.5, 0.99, 1.0)}
        pairs = [
            ("rows", self.lateness.total),
            *((f"{share:.0%} within", None if late is None else f"{late:,.0f} s") for share, late in within.items()),
            ("longest wait", None if self.longest_wait is None else f"{self.longest_wait:,.0f} s"),
            ("readers", self.readers),
        ]
        return [facts(f"{self.source}: {self.time_column}, counted by {self.aggregate}", pairs)]


def by_source(states: Iterable[AggregateState]) -> tuple[SourceLateness, ...]:
    """Return the lateness for each source and time column with enough rows.

    Aggregates of one source count the same rows, each since its definition. So their counts are not added; the largest is used.
    """
    groups: dict[tuple[str, str, str], list[AggregateState]] = {}
    for state in states:
        key = (state.source.path, state.source.table_id, str(state.spec["time_column"]))
        groups.setdefault(key, []).append(state)
    results = []
    for (path, _, column), readers in sorted(groups.items(), key=lambda g: (g[0][0], g[0][2], g[0][1])):
        best = min(readers, key=lambda s: (-s.lateness.total, s.name.lower()))
        waits = [wait for s in readers for wait in s.waits]
        if best.lateness.total >= ENOUGH:
            longest = max(waits, default=None)
            results.append(SourceLateness(path, column, best.name, len(readers), best.lateness, longest))
    return tuple(results)
