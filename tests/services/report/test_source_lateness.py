"""How late rows come, by source: of aggregates that saw the same rows the longest one tells."""

from __future__ import annotations

from materializer.core.refresh.lateness import Lateness
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.report.source_lateness import SourceLateness, by_source


def state(
    name: str, path: str, late: dict[int, int], *waits: float, column: str = "ts", table: str = "t"
) -> AggregateState:
    """An aggregate over a table that saw rows as late as that."""
    source = SourceIdentity(path, table)
    return AggregateState(
        name, name, {"time_column": column}, "d", source, {}, {}, 0, lateness=Lateness(late), waits=waits
    )


def test_each_source_is_told_once_by_each_time_column() -> None:
    """
    Nothing is counted twice; another column, or another table at that path, is another lateness; few rows tell nothing.
    """
    found = by_source(
        [
            state("young", "/a", {0: 100, 8: 20}, 5.0, 90.0),
            state("old", "/a", {0: 300, 40: 10}, 7.0),
            state("other", "/a", {12: 100}, column="seen"),
            state("new", "/a", {4: 150}, table="u"),
            state("few", "/b", {0: 99}),
        ]
    )
    assert found == (
        SourceLateness("/a", "seen", "other", 1, Lateness({12: 100}), None),
        SourceLateness("/a", "ts", "old", 2, Lateness({0: 300, 40: 10}), 90.0),
        SourceLateness("/a", "ts", "new", 1, Lateness({4: 150}), None),
    )
    assert (found[1].lateness.within(0.5), found[1].lateness.within(1.0)) == (1.0, 1024.0)


def test_alike_ones_are_told_by_name() -> None:
    """
    So that one command says what the other said.
    """
    states = [state(name, "/a", {0: 100}) for name in ("b", "A", "c")]
    assert [s.aggregate for s in by_source(states)] == ["A"] == [s.aggregate for s in by_source(states[::-1])]
