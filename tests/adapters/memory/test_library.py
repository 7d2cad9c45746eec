"""What a library in memory answers: what it was given."""

from __future__ import annotations

from pathlib import Path

from materializer.adapters.memory.library import MemoryLibrary
from materializer.core.quality.suite import Expectation, Suite

MET, UNMET = Expectation(0, "a", {"column": "x"}), Expectation(1, "b", {})
SUITE = Suite("bars", (MET, UNMET))


def test_expectations_are_answered_by_their_types(tmp_path: Path) -> None:
    """
    In order, with the place of what is not met unknown; what it refuses stands at its place in the suite.
    """
    library = MemoryLibrary({"b": "not so"}, {"b"})
    findings, failing = library.examine(None, SUITE, SUITE.expectations, "hour", most=3)

    assert [(0, "a", True), (1, "b", False)] == [(f.index, f.type, f.success) for f in findings]
    assert {(1, "b"): None} == failing.buckets
    assert [(1, "not so")] == [(place, p.message) for place, p in library.refusals(SUITE.expectations)]
    assert "bars" == library.render(None, SUITE, tmp_path / "docs").read_text()
