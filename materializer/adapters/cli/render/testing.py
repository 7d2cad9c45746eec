"""``test``: which tests of definitions pass, and the rows in which the others differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result, cell, shown_time, value_form
from materializer.adapters.cli.words import cell_text, count, duration, labelled, table, visible, wrapped

if TYPE_CHECKING:
    from materializer.services.testing.run import TestOutcome

SHOWN = 20
"""Rows of the difference of one test that are printed."""


class TestsResult(Result, frozen=True):
    """What the tests found."""

    __test__ = False

    outcomes: tuple[TestOutcome, ...]

    def form(self) -> dict[str, Any]:
        return {"tests": [_form(o) for o in self.outcomes]}

    def lines(self, width: int) -> Iterator[str]:
        for outcome in self.outcomes:
            yield from _lines(outcome, width)
        passed = sum(o.is_passed for o in self.outcomes)
        rest = f", {len(self.outcomes) - passed} not" if passed < len(self.outcomes) else ""
        yield f"{count(passed, 'test')} passed{rest}, {duration(sum(o.seconds for o in self.outcomes))}"


def _form(outcome: TestOutcome) -> dict[str, Any]:
    o = outcome
    return {
        "name": o.name,
        "model": o.model,
        "file": o.file,
        "line": o.line,
        "status": "passed" if o.is_passed else "error" if o.error is not None else "failed",
        "columns": list(o.columns),
        "expected_rows": o.expected,
        "got_rows": o.got,
        "differences": [{"side": d.side, "row": value_form(d.row)} for d in o.differences],
        "executor": o.executor,
        "error": None if o.error is None else o.error.code,
        "seconds": o.seconds,
    }


def _lines(outcome: TestOutcome, width: int) -> Iterator[str]:
    o = outcome
    if o.is_passed:
        yield from wrapped(f"{o.name}: {count(o.got, 'row')} of {o.model}", "passed  ", width=width)
        return
    place = f"{visible(o.file)}:{o.line}"
    if o.error is not None:
        yield from wrapped(f"{o.name} ({place}): {o.error.code}", "error   ", width=width)
        return
    expected, got = (sum(d.side == side for d in o.differences) for side in ("expected", "got"))
    counted = f"{expected} of {count(o.expected, 'expected row')} not there, {count(got, 'other')}"
    yield from wrapped(f"{o.name} ({place}): {counted}", "failed  ", width=width)
    shown = o.differences[:SHOWN]
    numbers = [i + 1 for i in range(len(o.columns)) if all(isinstance(d.row[i], int | float | None) for d in shown)]
    rows = [
        (d.side, *(cell(shown_time(v, o.times.get(n))) for n, v in zip(o.columns, d.row, strict=True))) for d in shown
    ]
    whole = table(("", *o.columns), rows, right=numbers, indent=2)
    if max(map(len, whole)) <= width:
        yield from whole
    else:
        for side, *values in rows:
            yield f"  {side}"
            yield from labelled(zip(o.columns, map(cell_text, values), strict=True), width=width, indent=4)
    if len(o.differences) > SHOWN:
        yield f"  and {count(len(o.differences) - SHOWN, 'row')} more"
