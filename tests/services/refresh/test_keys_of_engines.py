"""Engines write the results of the keys that changed; all others stay as they are stored, without a JVM."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from materializer.core.refresh.plan import Recompute
from materializer.core.time.spans import SpanSet
from materializer.lake.output_diff import replayed
from tests.services.made import EPOCH, MINUTE, SESSIONS, Made, Readings, of_text, sessions

SERIES: dict[str, Any] = {
    "engine": "time_series",
    "step": "10 minutes",
    "window_size": "20 minutes",
    "origin": "1970-01-01",
    "fill": "0",
}
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "'", "é", None]),
    "number": (pa.int32(), [-1, 0, 7, None]),
    "day": (pa.date32(), [date(1969, 12, 31), date(9999, 12, 31), date(2025, 3, 1), None]),
    "old": (pa.date32(), [date(1, 1, 1), date(1582, 10, 15), None]),
    "moment": (pa.timestamp("us", "UTC"), [EPOCH - timedelta(microseconds=1), EPOCH + timedelta(days=9999), None]),
    "fee": (pa.decimal128(9, 3), [Decimal("-1.000"), Decimal("0.001"), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "raw": (pa.binary(), [b"", b"\x00\xff", None]),
    "ratio": (pa.float64(), [0.0, -0.0, float("nan"), None]),
}
NEVER = ("old", "ratio")
"""Keys whose changed values are not told apart by all readers: whole slices are written."""


KEYS: Final = [("text",), ("number", "flag"), ("day",), ("moment", "fee"), ("raw",), *((k,) for k in NEVER)]
BOTH: Final = [
    *(pytest.param(keys, SERIES, id=f"keys{i}-series") for i, keys in enumerate(KEYS)),
    *(
        # how keys are found does not depend on the engine, so sessions of the others are slow
        pytest.param(keys, SESSIONS, id=f"keys{i}-sessions", marks=[] if i in (0, 1, 3) else pytest.mark.slow)
        for i, keys in enumerate(KEYS)
    ),
]


@pytest.mark.one_of(4)
@pytest.mark.parametrize(("keys", "definition"), BOTH)
def test_results_of_keys_and_whole_slices_are_the_same_tables(
    tmp_path: Path, keys: tuple[str, ...], definition: dict[str, Any]
) -> None:
    """
    Over random inserts, late rows, updates, moves of rows to another key or time, and deletes, both tables of a lake that writes
    results of keys and of one that writes whole slices are the same, row by row, revisions too; so they are after maintenance.
    """
    draw = random.Random(repr((keys, definition["engine"])))
    kinds = {k: DOMAINS[k][0] for k in keys}
    source = Readings(tmp_path / "readings", kinds)

    def row(first: int, last: int) -> tuple[Any, ...]:
        return (draw.randrange(first, last), *(draw.choice(DOMAINS[k][1]) for k in keys), draw.choice([None, 1, 2, 40]))

    source.add(*(row(0, 600) for _ in range(80)))
    by_keys, whole = (Made(tmp_path / name, source.path, kinds, definition) for name in ("keys", "whole"))
    seen = []
    for turn in range(8):
        for _ in range(draw.randrange(3)):
            some = f"id IN ({', '.join(str(draw.randrange(source.count)) for _ in range(3))})"
            name = draw.choice(keys)
            match draw.randrange(5):
                case 0:
                    source.add(*(row(0, 600) for _ in range(draw.randrange(1, 4))))
                case 1:
                    source.add(*(row(600 + 40 * turn, 640 + 40 * turn) for _ in range(3)))
                case 2:
                    source.table.delete(some)
                case 3:
                    source.table.update(predicate=some, updates={"v": "coalesce(v, 0) + 1", name: "NULL"})
                case _:
                    moved = EPOCH + timedelta(minutes=draw.randrange(600))
                    source.table.update(predicate=some, updates={"ts": f"'{moved.isoformat()}'"})
        for lake, strategy in ((by_keys, "recompute-keys"), (whole, "recompute")):
            runs = lake.opened.refresh("made", strategy=strategy).runs
            assert {"local"} >= {run.report.executor for run in runs if run.report.strategy != "settle"}
            seen += [run.report.strategy for run in runs if lake is by_keys]
        if turn == 4:
            by_keys.opened.maintain("made")
        assert whole.rows() == by_keys.rows()
        assert whole.rows("partials") == by_keys.rows("partials")
    assert any("recompute-keys" in s for s in seen) == (keys[0] not in NEVER)


def test_the_feed_of_the_output_has_what_results_of_keys_changed(tmp_path: Path) -> None:
    """
    Of the rewritten files only the changed rows of the key are in it, and replaying it gives the output.
    """
    source, lake = of_text(tmp_path, properties={"output.change_feed": "true"})
    source.add((5, "k0007", 1000))
    lake.refresh()
    source.table.update(predicate="text = 'k0007' AND v = 1000", updates={"text": "'k0008'"})
    run = lake.refresh()

    assert "recompute-keys" == run.report.strategy
    feed = DeltaTable(str(lake.root / "made" / "changes")).to_pyarrow_table()
    newest = feed.filter(pc.equal(feed["_refresh"], run.plan.n))
    assert {"k0007", "k0008"} == set(newest["text"].to_pylist())
    rows = replayed(feed).select(DeltaTable(str(lake.root / "made" / "output")).to_pyarrow_table().column_names)
    assert sorted(map(repr, rows.to_pylist())) == lake.rows()


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_are_what_a_loop_says(tmp_path: Path, seed: int) -> None:
    """
    Many keys; a few change at a time, one takes rows of another, and some come back; the price decides how it is computed.
    """
    draw = random.Random(seed)
    source, lake = of_text(tmp_path)
    seen: set[str] = set()
    for _ in range(6):
        key, other = (draw.choice([f"k{draw.randrange(1_500):04}", "new", None]) for _ in range(2))
        change = draw.randrange(4)
        if change == 0:
            source.add((draw.randrange(600), key, 5), (draw.randrange(600), other, 7))
        elif change == 1:
            source.table.delete(f"text = '{key}' AND v % 2 = 0" if key else "text IS NULL")
        elif change == 2:
            source.table.update(predicate=f"text = '{key}'", updates={"text": f"'{other}'" if other else "NULL"})
        else:
            source.add((draw.randrange(600, 700), key, 1))
        seen |= {run.report.strategy for run in lake.opened.refresh("made").runs}
        assert sessions(source) == lake.results()
    assert "recompute-keys" in "+".join(seen)


def test_a_late_row_writes_the_results_of_its_key(tmp_path: Path) -> None:
    """
    Of 15,000 results one key's are read, computed and written; the plan says so, with what that spares.
    """
    source, lake = of_text(tmp_path)
    before = lake.rows()
    source.add((5, "k0007", 1000))

    plan = lake.opened.plan("made").plan
    assert plan is not None
    [step] = [s for s in plan.steps if isinstance(s, Recompute)]
    assert (1, "recompute") == (step.keys, step.rejected[-1].strategy)
    assert "results of other keys again" in step.rejected[-1].reason
    run = lake.refresh()

    assert ("recompute-keys", "local", 1) == (run.report.strategy, run.report.executor, run.report.rows_read)
    assert run.report.partials_written < 4
    assert sessions(source) == lake.results()
    now = set(lake.rows())
    assert 1 == len([row for row in before if row not in now])


def test_a_late_row_of_a_session_of_many_rows_writes_that_session(tmp_path: Path) -> None:
    """
    The rows of a touched session are computed again, and make one result: they do not count as so many results.
    """
    source, lake = of_text(tmp_path)
    source.add(*((minute % 600, "hot", 1) for minute in range(18_000)))
    source.add((700, "hot", 1))
    lake.refresh()
    source.add((300, "hot", 1000), (60, "k0007", 7))
    run = lake.refresh()

    assert ("recompute-keys", "local") == (run.report.strategy, run.report.executor)
    assert 6 >= run.report.partials_written
    assert sessions(source) == lake.results()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"properties": {"quality.checks": "true"}}, "its gate checks whole slices"),
        ({"strategy": "recompute"}, "'recompute' was asked for"),
    ],
)
def test_the_plan_says_why_slices_are_written_whole(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    """
    A gate sees whole slices, and who asks for whole slices gets them.
    """
    strategy = more.pop("strategy", None)
    source, lake = of_text(tmp_path, **more)
    source.add((5, "k0007", 1000))

    run = lake.refresh(strategy=strategy)

    [step] = [s for s in run.plan.steps if isinstance(s, Recompute)]
    assert ("recompute", reason) == (run.report.strategy, step.rejected[-1].reason)
    assert sessions(source) == lake.results()


def test_few_results_of_other_keys_are_copied(tmp_path: Path) -> None:
    """
    Where a slice has few results, it is written whole, and the plan says how few; who asks for keys gets them.
    """
    source, lake = of_text(tmp_path, 20)
    for strategy, expected in (("", "recompute"), ("recompute-keys", "recompute-keys")):
        source.add((5, "k0007", 1000))
        run = lake.refresh(strategy=strategy or None)
        assert expected == run.report.strategy
        assert sessions(source) == lake.results()


def test_a_slice_that_was_invalidated_is_written_whole_beside_the_keys(tmp_path: Path) -> None:
    """
    What is not known row by row is computed for every key of its slice; elsewhere results of the changed key are written. Rows are
    counted against those results that are replaced, and none is missed.
    """
    source, lake = of_text(tmp_path)
    source.add((5, "k0007", 1000))
    lake.opened.invalidate("made", start="1970-01-01 03:00:00", end="1970-01-01 04:00:00")

    run = lake.refresh(strategy="recompute-keys")

    steps = [s for s in run.plan.steps if isinstance(s, Recompute)]
    assert "recompute-keys+recompute" == run.report.strategy
    assert 180 * MINUTE in steps[1].spans
    assert steps[0].spans & steps[1].spans == SpanSet()
    assert sessions(source) == lake.results()


def test_new_slices_are_written_whole_beside_a_late_row(tmp_path: Path) -> None:
    """
    Late and new rows in one refresh: of the old slices the results of the late key are written, of the new ones all.
    """
    source, lake = of_text(tmp_path)
    source.add((5, "k0007", 1000), *((600 + i % 60, f"k{i:04}", i) for i in range(500)))

    run = lake.refresh(strategy="recompute-keys")

    assert "recompute-keys" in run.report.strategy
    assert sessions(source) == lake.results()


def test_the_plan_says_what_speaks_against_the_other_ways(tmp_path: Path) -> None:
    """
    Against everything anew, also where that would read no more rows, and against a merge where rows went.
    """
    source, lake = of_text(tmp_path)

    def against() -> dict[str, str]:
        plan = lake.opened.plan("made").plan
        assert plan is not None
        [step] = [s for s in plan.steps if isinstance(s, Recompute)]
        return {rejected.strategy: rejected.reason for rejected in step.rejected}

    source.add((5, "k0007", 1000))
    assert "merge of added rows" not in against()
    assert "write all results again" in against()["recompute of everything"]
    source.table.delete("text = 'k0007'")
    assert "rows were changed or deleted" == against()["merge of added rows"]
    assert "as many raw rows" in against()["recompute of everything"]
