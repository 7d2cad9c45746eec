"""Which feeds are read: a caller that refuses some of them learns no less than what changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, SpanSet
from materializer.lake.capture.capture import CaptureResult, FeedSize, Rung, capture_without_spark
from tests.lake.tables import HOUR, Trades

MANY_ROWS = 40


@pytest.fixture
def rng() -> random.Random:
    return random.Random(11)


@pytest.fixture
def trades(tmp_path: Path) -> Trades:
    """Make a table of trades."""
    return Trades(tmp_path / "trades", feed=True)


def captured(table: Trades, after: int, why_not: Callable[..., str], frozen: int = NEG_INF) -> CaptureResult:
    found = capture_without_spark(
        table.path, after=after, upto=table.version, table_id=table.id, time_column="ts", time_type=TimeType.TIMESTAMP,
        keys=("sym",), max_rows=10_000, max_bytes=1 << 28, floor=lambda t: t // HOUR * HOUR, next_edge=lambda e: e + HOUR,
        frozen_below=frozen, why_not_read=why_not,
    )  # fmt: skip
    assert isinstance(found, CaptureResult)
    return found


def large(size: FeedSize, touched: Callable[[], SpanSet | None]) -> str:
    """Refuse feeds of many rows."""
    return "it is large" if size.rows >= MANY_ROWS else ""


def hours(found: CaptureResult, rung: Rung) -> list[int]:
    spans = SpanSet.union(s for p in found.pieces for s in p.times if p.rung is rung)
    return [h for s in spans for h in range(s.start // HOUR, s.end // HOUR)]


def spread(first: int, last: int) -> Sequence[tuple[int, str, int]]:
    """Rows of some hours, as many as are refused."""
    return [(first * HOUR + (last - first) * HOUR * i // MANY_ROWS, "a", i) for i in range(MANY_ROWS)]


def test_a_feed_that_is_refused_is_not_read(trades, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Statistics of its files tell what changed, and the result has the reason; the caller knew the size, and where rows may lie.
    """
    from deltalake import DeltaTable

    trades.append(*spread(3, 6))
    asked: list[Any] = []
    monkeypatch.setattr(DeltaTable, "load_cdf", lambda *_, **__: pytest.fail("the feed was read"))
    found = captured(trades, 0, lambda size, touched: asked.append((size, touched())) or "it is large")

    assert [3, 4, 5] == hours(found, Rung.FILES)
    assert ("versions 1 to 1 by file statistics: it is large",) == found.reasons
    ((size, touched),) = asked
    assert (MANY_ROWS, 1, 0) == (size.rows, size.files, size.by_library)
    assert [(3 * HOUR, 6 * HOUR)] == [(s.start, s.end) for s in touched]


def test_only_large_commits_are_refused(trades) -> None:
    """
    The small ones before, between and after them are read from the feed, and keep their keys.
    """
    trades.append((0, "x", 1))
    trades.append(*spread(3, 6))
    trades.append((10 * HOUR, "y", 1))
    trades.append((11 * HOUR, "z", 1))
    trades.table.delete("sym = 'a'")
    trades.append((12 * HOUR, "y", 1))
    found = captured(trades, 0, large)

    assert ([3, 4, 5], [0, 10, 11, 12]) == (hours(found, Rung.FILES), hours(found, Rung.FEED))
    assert {"x", "y", "z"} == {key for p in found.pieces for (key,) in p.keys or ()}
    assert list(range(1, 7)) == [c.version for c in found.per_version]


def test_many_small_commits_may_be_large_together(trades) -> None:
    """
    Then none of them is read.
    """
    for i in range(MANY_ROWS):
        trades.append((i * HOUR, "a", 1))
    found = captured(trades, 0, large)

    assert list(range(MANY_ROWS)) == hours(found, Rung.FILES)
    assert 0 == len(hours(found, Rung.FEED))


def test_updates_count_their_change_files(trades) -> None:
    """
    A commit with change files is as large as these: each updated row as it was and as it is, whatever its files copied.
    """
    trades.append(*spread(0, 4))
    trades.table.update(updates={"price": "price + 1"}, predicate="price < 3")
    sizes: list[FeedSize] = []
    captured(trades, 1, lambda size, _: sizes.append(size) or "")

    assert [(6, 1)] == [(s.rows, s.by_library) for s in sizes]


def test_nobody_knows_where_rows_lie_without_statistics(trades) -> None:
    """
    Then the caller is told None, and what it reads is for it to say.
    """
    trades.append(*spread(0, 4))
    trades.forget(1, "minValues", "maxValues")
    asked: list[SpanSet | None] = []
    captured(trades, 0, lambda _, touched: asked.append(touched()) or "")

    assert [None] == asked


def test_whatever_is_refused_nothing_is_missed(trades, rng: random.Random) -> None:
    """
    Of a random history: each hour that changed is dirty, on whichever rung, and with each key that changed there or with any.
    """
    changed: list[tuple[int, str]] = []
    rows: list[tuple[int, str, int]] = []
    for i in range(25):
        if rows and rng.random() < 0.3:
            key = rng.choice("abc")
            changed += [(t // HOUR, k) for t, k, _ in rows if k == key]
            rows = [row for row in rows if row[1] != key]
            trades.table.delete(f"sym = '{key}'")
        else:
            new = [(rng.randrange(20) * HOUR, rng.choice("abc"), i) for _ in range(rng.choice([1, 2, 30]))]
            changed += [(t // HOUR, k) for t, k, _ in new]
            rows += new
            trades.append(*new)
    for _ in range(6):
        least = rng.choice([1, 3, 30, 60, 10_000])
        found = captured(trades, 0, lambda size, _, least=least: "large" if size.rows >= least else "")
        for hour, key in changed:
            pieces = [p for p in found.pieces if hour * HOUR in p.times]
            assert any(p.keys is None or (key,) in p.keys for p in pieces), (hour, key, least)
