"""What a refresh of one late row passes: views of the journal, compilations, rooms."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from deltalake import DeltaTable

import materializer
from materializer.journal.journal import Journal
from materializer.services import aggregate

MOST_VIEWS = 12
MOST_ROOMS = 25
HOME = Path(materializer.__file__).parent


@contextmanager
def rooms() -> Iterator[Counter[str]]:
    """Modules by room of which a function is called in the block, in any thread."""
    seen: set[str] = set()
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        inside = (Path(name).relative_to(HOME).parent for name in seen if Path(name).is_relative_to(HOME))
        found.update(str(room) for room in inside if room.parts)  # the settings lie beside the rooms


@pytest.mark.of_spark("counts what one refresh passes, and a twin would pass it again")
@pytest.mark.parametrize("strategy", ["recompute", "merge"])
def test_one_late_row_passes_few_rooms_and_is_compiled_once(
    site: Any, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """
    The journal is read once for each decision, the definition is compiled once for its version, the change feed is read at most
    once, and a reader of the code has few rooms to walk through; whether the row's bucket is recomputed or merged.
    """
    site.table().trade(("00:10", "A", 1), ("01:10", "A", 2))
    site.hourly()
    site.expect_refresh()
    if strategy == "merge":
        site.tables["trades"].trade(*[("00:40", "A", 0)] * 50)
        site.expect_refresh()
    site.tables["trades"].trade(("00:20", "A", 3))
    counts: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*args, **options)

        return call

    class Kept(dict[str, Any]):
        def __setitem__(self, version: str, compiled: Any) -> None:
            counts["compilations"] += 1
            super().__setitem__(version, compiled)

    monkeypatch.setattr(Journal, "view", counted("views", Journal.view))
    monkeypatch.setattr(aggregate, "COMPILED", Kept())
    monkeypatch.setattr(DeltaTable, "load_cdf", counted("feeds", DeltaTable.load_cdf))
    with rooms() as passed:
        report = site.lake.refresh("hourly")

    assert [1] == [run.report.rows_written for run in report.runs]
    assert [strategy] == [run.report.strategy for run in report.runs]
    assert 1 == counts["compilations"]
    assert counts["feeds"] <= 1
    assert counts["views"] <= MOST_VIEWS, counts
    assert len(passed) <= MOST_ROOMS, passed
    site.expect_true()
