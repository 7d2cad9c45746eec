"""Rows that were only added are merged into the stored sessions of their key, whose own rows are not read again."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from materializer.budget import Budget
from materializer.core.refresh.plan import Recompute
from tests.services.made import EPOCH, GAP, SESSIONS, Made, Readings, of_text, sessions

OPEN: dict[str, Any] = SESSIONS | {"update_time": "0"}


def is_merged(run: Any) -> bool:
    """Whether a run read only the rows that were added."""
    steps = run.plan.steps if run.plan else ()
    return any("merged" in step.reason for step in steps if isinstance(step, Recompute))


def without_revision(lake: Made, table: str) -> list[str]:
    """Return the rows of a table without how often they changed, which follows how often a lake is refreshed."""
    return sorted(repr({k: v for k, v in row.items() if k != "revision"}) for row in lake.values(table))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_are_those_of_a_recompute(tmp_path: Path, seed: int) -> None:
    """
    Over late rows, bridges between sessions, equal times, deletes, moves, refreshes of a window, forced and repeated ones, both
    tables hold what a computation from all rows gives, and the closed sessions are those of a loop.
    """
    draw = random.Random(seed)
    source = Readings(tmp_path / "readings", {"text": pa.string()})
    definition = SESSIONS if seed % 2 else OPEN

    def row(first: int = 0, last: int = 900) -> tuple[Any, ...]:
        return (draw.randrange(first, last), draw.choice(["a", "b", "", None]), draw.choice([None, 1, 2, 40]))

    source.add(*(row() for _ in range(120)))
    kinds = {"text": pa.string()}
    lake, other = (Made(tmp_path / name, source.path, kinds, definition, slice="1 hour") for name in ("it", "other"))
    merged = 0
    for turn in range(14):
        for _ in range(draw.randrange(1, 3)):
            some = f"id IN ({', '.join(str(draw.randrange(source.count)) for _ in range(3))})"
            match draw.randrange(12):
                case 0:
                    source.table.delete(some)
                case 1:
                    moved = EPOCH + timedelta(minutes=draw.randrange(900))
                    source.table.update(predicate=some, updates={"ts": f"'{moved.isoformat()}'"})
                case 2:
                    source.add(*(row(900 + 30 * turn, 940 + 30 * turn) for _ in range(3)))
                case _:
                    source.add(*(row() for _ in range(draw.randrange(1, 6))))
        options: dict[str, Any] = {}
        if draw.random() < 0.4:
            start = draw.randrange(12)
            options = {"start": f"1970-01-01 {start:02}:00:00", "end": f"1970-01-01 {start + 3:02}:00:00"}
            options["force"] = draw.random() < 0.4
        merged += sum(is_merged(run) for run in lake.opened.refresh("made", **options).runs)
        if options:
            continue
        other.opened.refresh("made", strategy="recompute")
        for table in ("output", "partials"):
            assert without_revision(other, table) == without_revision(lake, table)
        if definition is SESSIONS:
            assert sessions(source) == lake.results()
    assert merged > 1


def test_a_session_of_many_rows_takes_a_late_row(tmp_path: Path) -> None:
    """
    Only the late rows are read, where one is in the middle of a session of 18,000 rows and one joins two sessions.
    """
    source, lake = of_text(tmp_path)
    source.add(*((minute % 600, "hot", 1) for minute in range(18_000)))
    source.add((700, "hot", 1), (600 + GAP - 1, "k0007", 1), (600, "k0008", 1))
    lake.refresh()
    source.add((300, "hot", 1000), (600 + GAP - 2, "hot", 1), (60, "k0007", 7))

    run = lake.refresh()

    assert is_merged(run)
    assert ("recompute-keys", "local", 3) == (run.report.strategy, run.report.executor, run.report.rows_read)
    assert sessions(source) == lake.results()


def test_a_measure_that_is_no_partial_reads_the_rows(tmp_path: Path) -> None:
    """
    Two sums that have one added cannot be added: the rows of the session are read.
    """
    source = Readings(tmp_path / "readings", {"text": pa.string()})
    source.add(*((minute, "a", minute) for minute in range(50)), (100, "a", 1))
    lake = Made(
        tmp_path / "lake", source.path, {"text": pa.string()}, SESSIONS, measures={"v": "sum(v) + 1", "n": "count(*)"}
    )
    lake.refresh()
    source.add((7, "a", 1000))

    run = lake.refresh()

    assert not is_merged(run)
    assert run.report.rows_read > 50
    assert [(0, "a", sum(range(50)) + 1001, 51)] == lake.results()


def test_rows_that_a_result_shows_already_are_not_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A refresh of a window that computed everything has the rows of later slices in a session that begins inside; these slices are
    still dirty, and the next refresh reads the session's rows.
    """
    source = Readings(tmp_path / "readings", {"text": pa.string()})
    source.add(*((minute, "a", 1) for minute in range(70, 200, 5)), (600, "a", 1))
    lake = Made(tmp_path / "lake", source.path, {"text": pa.string()}, SESSIONS, slice="1 hour")
    lake.refresh()
    source.add((71, "a", 10), (131, "a", 100))
    with monkeypatch.context() as patched:
        patched.setattr(Budget, "listed", property(lambda _: 0))
        lake.refresh(start="1970-01-01 01:00:00", end="1970-01-01 02:00:00")
    [run] = lake.opened.refresh("made").runs

    assert not is_merged(run)
    assert sessions(source) == lake.results()
