"""How late the rows of each source come, whoever reads it: told from the journal, without a look at the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from materializer.core.refresh.lateness import ENOUGH, Lateness
from materializer.journal.state import AggregateState


@dataclass(frozen=True, slots=True)
class SourceLateness:
    """How late the rows of a source came, by one time column.

    Args:
        source: Where it lies.
        time_column: The column that says when something happened.
        aggregate: Whose captures counted them: of those that read the source by that column the one that saw the most rows.
        readers: How many aggregates read the source by that column.
        lateness: Counts of its inserted rows.
        longest_wait: Seconds from a commit to its capture, the longest of the latest ones of any reader; None before one waited.
    """

    source: str
    time_column: str
    aggregate: str
    readers: int
    lateness: Lateness
    longest_wait: float | None


def by_source(states: Iterable[AggregateState]) -> tuple[SourceLateness, ...]:
    """Return how late rows came for each source and time column of which enough rows were seen.

    Aggregates of one source saw the same rows, each from its definition on: their counts are not added, the longest one tells.
    """
    groups: dict[tuple[str, str, str], list[AggregateState]] = {}
    for state in states:
        key = (state.source.path, state.source.table_id, str(state.spec["time_column"]))
        groups.setdefault(key, []).append(state)
    found = []
    for (path, _, column), readers in sorted(groups.items(), key=lambda g: (g[0][0], g[0][2], g[0][1])):
        best = min(readers, key=lambda s: (-s.lateness.total, s.name.lower()))
        waits = [wait for s in readers for wait in s.waits]
        if best.lateness.total >= ENOUGH:
            longest = max(waits, default=None)
            found.append(SourceLateness(path, column, best.name, len(readers), best.lateness, longest))
    return tuple(found)
