"""Commits to tables on a store: each is made once, whatever becomes of the answers to its requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import RetryableError, WriteFencedError
from materializer.lake import places
from materializer.lake.log import latest_version
from materializer.lake.notes import find_notes
from materializer.lake.write.commit import append_rows, create_table, fence
from materializer.lake.write.replace import replace_spans
from tests.lake.tables import HOUR, SCHEMA, rows_of, times_of
from tests.servers.proxy import Fault, Proxy

APP = "materializer/1"
TS = SliceColumn("ts", holds_end=False, type=TimeType.TIMESTAMP)


def note(n: int, plan: str = "") -> dict[str, Any]:
    return {"plan": plan or f"p{n}", "n": n, "kind": "data", "source_version": 3}


def hour(number: int) -> SpanSet:
    return SpanSet.of(Span(number * HOUR, (number + 1) * HOUR))


@pytest.fixture
def bars(bucket: str) -> str:
    """A table of ours on a store, with a row in each of four hours."""
    path = f"{bucket}/bars"
    create_table(path, SCHEMA, name="bars")
    append_rows(path, rows_of([(i * HOUR, "a", i) for i in range(4)]), APP, 1, note(1))
    return path


def test_spans_are_replaced_on_a_store(bars: str) -> None:
    """
    New files lie in the folder of their plan, nothing else is left there, and every reader finds them.
    """
    done = replace_spans(bars, rows_of([(HOUR + 5, "b", 9)]), TS, hour(1), APP, 2, note(2))

    assert 2 == done.version
    assert [0, HOUR + 5, 2 * HOUR, 3 * HOUR] == times_of(bars)
    names = [file.name for file in places.files(bars) if not file.name.startswith("_delta_log")]
    assert 1 == len([name for name in names if name.startswith("plan-p2-")])
    assert all(name.endswith(".parquet") for name in names)


@pytest.mark.parametrize("what", ["lose answer", "refuse", "refuse after"])
@pytest.mark.parametrize("kind", ["PUT", "PUT IF"])
def test_each_commit_is_made_once(bars: str, proxy: Proxy, kind: str, what: Any) -> None:
    """
    A lost answer, a refusal before and one after the fact: the commit is there once, and its writer knows it.
    """
    for n in range(2, 6):
        proxy.set(Fault(what, kind, "bars/"))
        replace_spans(bars, rows_of([(HOUR + n, "b", n)]), TS, hour(1), APP, n, note(n))
    proxy.set(Fault(what, kind, "bars/"))
    fence(bars, APP, 6, note(6) | {"kind": "fence"})
    proxy.set()

    assert [1, 2, 3, 4, 5, 6] == [found.n for found in find_notes(bars, 0)]
    assert [0, HOUR + 5, 2 * HOUR, 3 * HOUR] == times_of(bars)


def test_writers_of_one_store_lose_nothing(bars: str) -> None:
    """
    Of commits at the same moment each is there once, in whatever order; one that came too often is told so.
    """

    def write(writer: int) -> list[int]:
        made = []
        for n in range(1, 6):
            try:
                append_rows(bars, rows_of([(writer * HOUR + n, "w", n)]), f"app {writer}", n, note(n, f"{writer} {n}"))
                made.append(writer * HOUR + n)
            except (RetryableError, WriteFencedError):
                continue
        return made

    with ThreadPoolExecutor(4) as pool:
        made = [time for times in pool.map(write, range(4, 8)) for time in times]
    rows = times_of(bars)

    assert sorted([*(i * HOUR for i in range(4)), *made]) == rows
    assert len(made) + 1 == latest_version(bars)
