"""What a refresh may cost: not more than the first materialization of its span, and a little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
from typing import Final

from msgspec import Struct

from materializer.core.refresh.plan import RunReport

FEW_ROWS: Final = 200
"""Rows that a refresh may read or write in any case."""
BASE_CALLS: Final = 250_000
"""Calls of functions that do not grow with the change: a process imports modules, and compares two grids in a zone once."""
BOUNDS: Final = {"rows read": 1.2, "rows written": 1.2, "commits": 12, "calls": 45, "openings": 1}
"""The law: rows beyond the few, each beside what the first materialization of the span reads or writes; commits of a run; calls beyond
the base, for each thing that a plan is made of and each binary digit of how many there are, three times what was seen; and how often
a commit of the source is opened."""


class Size(Struct, frozen=True):
    """How large the work of a refresh is.

    Args:
        rows: Raw rows of the span before the change and after it.
        written: Rows that a first materialization writes: all groups, and those that are shown.
        changed: Raw rows that were inserted, updated or deleted.
        groups: Groups before the change and after it, also outside of the span.
        files: Files of the source.
        commits: Commits of the source since the last refresh.
    """

    rows: int
    written: int
    changed: int
    groups: int
    files: int
    commits: int

    @property
    def things(self) -> int:
        """How many things a plan is made of."""
        return self.changed + self.groups + self.files + self.commits


class Cost(Struct, frozen=True):
    """What a refresh cost.

    Args:
        runs: What its runs did.
        size: How large the work was.
        calls: How many functions of Python were called; None if they were not counted.
        opened: How often each commit of the source was opened.
    """

    runs: Sequence[RunReport]
    size: Size
    calls: int | None
    opened: Mapping[int, int]

    def figures(self) -> dict[str, float]:
        """Return what is bounded."""
        size, things = self.size, self.size.things
        read = sum(run.rows_read for run in self.runs)
        written = sum(run.rows_written + run.partials_written for run in self.runs)
        calls = max((self.calls or 0) - BASE_CALLS, 0) / (things * log2(things + 2)) if things else 0
        return {
            "rows read": round(max(read - FEW_ROWS, 0) / max(size.rows, 1), 2),
            "rows written": round(max(written - FEW_ROWS, 0) / max(size.written, 1), 2),
            "commits": max((run.commits for run in self.runs), default=0),
            "calls": round(calls, 2),
            "openings": max(self.opened.values(), default=0),
        }

    def beyond(self) -> Iterator[str]:
        """Yield what is beyond the law."""
        for name, figure in self.figures().items():
            if figure > BOUNDS[name]:
                yield f"too many {name}: {figure} > {BOUNDS[name]} of {self.size}"
        for run in self.runs:
            if "rebuild" in run.strategy or (run.executor != "local" and run.strategy != "settle"):
                yield f"computed by {run.strategy} of {run.executor or 'spark'}"
