"""How many rows a capture says went, by each way in which changes are told; no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from materializer.budget import Budget
from materializer.config import Config
from materializer.core.aggregates.decompose import decompose
from materializer.core.compiled.definition import Definition
from materializer.core.language.define import define
from materializer.core.refresh.invalidation import ANY_ROWS
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.journal.events import Captured, SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.observe import capture
from materializer.services.observe.capture import MOST_COUNTS
from materializer.spark.run.capture import Changes
from tests.lake.tables import HOUR, Trades


@pytest.fixture
def trades(tmp_path: Path) -> Callable[..., Trades]:
    """Make a table of trades."""
    return lambda *, feed=True: Trades(tmp_path / "trades", feed=feed)


class CountsBySpark(Struct):
    """Stands for the engine: it says what it was given."""

    found: Changes | None

    def changes(self, *_: object, frozen: int) -> Changes | None:  # noqa: ARG002 - the engine's signature
        """See :class:`materializer.spark.run.spark.Spark`."""
        return self.found


def captured(table: Trades, after: int, found: Changes | None = None) -> Captured:
    """Capture what a table changed after a version; what Spark would say is *found*."""
    spec = define("bars", "trades", time="ts", width="1 hour", keys=["sym"], measures={"v": "count(*)"})
    spec = replace(spec, time_type=TimeType.TIMESTAMP)
    columns = (("slice", "timestamp"), ("k_sym", "string"))
    definition = Definition(spec, decompose(spec), build(spec.grid, TimeType.TIMESTAMP), columns, ())
    source = SourceIdentity(table.path, table.id)
    aggregate = Aggregate("bars", "a", definition, source, {}, {})
    engine: Any = CountsBySpark(found)
    state = AggregateState("a", "bars", spec.as_json(), "d", source, {}, {}, cursor=after)
    return capture.Capture(aggregate, Config(), lambda: engine).upto(state, table.version)


def gone(found: Captured) -> dict[int, int]:
    """By hour, how many rows went."""
    return {h: e.gone for e in found.entries for h in range(e.span.start // HOUR, e.span.end // HOUR)}


def counted(starts: tuple[int, ...] | None, **counts: int) -> Changes:
    """What Spark says of a change feed."""
    kinds = dict.fromkeys(("insert", "update_preimage", "update_postimage", "delete"), 0) | counts
    return Changes(starts, is_insert_only=False, counts=kinds, null_times=0)


@pytest.mark.parametrize("feed", [True, False])
def test_rows_that_were_inserted_did_not_go(trades, feed: bool) -> None:
    """
    A bucket that only gained rows lost none, whether the change feed says so or the files do.
    """
    table = trades(feed=feed)
    table.append((0, "a", 1))
    table.append((0, "b", 2), (1, "b", 2), (HOUR, "b", 3))

    assert gone(captured(table, 1)) == {0: 0, 1: 0}


def test_rows_that_were_deleted_went(trades) -> None:
    """
    What the feed names of a bucket that did not only gain rows bounds how many went.
    """
    table = trades()
    table.append((0, "a", 1), (1, "a", 2), (HOUR, "a", 3))
    table.table.delete("price < 3")

    assert gone(captured(table, 1)) == {0: 2}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"insert": 7}, 0),
        ({"insert": 7, "delete": 2}, 2),
        ({"insert": 7, "update_preimage": 3, "update_postimage": 3, "delete": 2}, 5),
    ],
)
def test_of_what_spark_counts_old_rows_went(trades, monkeypatch: pytest.MonkeyPatch, counts, expected) -> None:
    """
    Deleted rows, and those before an update; inserted rows and those after an update came.
    """
    monkeypatch.setattr(Config, "budget", Budget(rows=0))
    table = trades()
    table.append((0, "a", 1))

    assert gone(captured(table, 0, counted((0, HOUR), **counts))) == {0: expected, 1: expected}


def test_where_too_many_buckets_were_touched_any_rows_may_have_gone(trades, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Then nothing is guarded, for nobody knows what went where.
    """
    monkeypatch.setattr(Config, "budget", Budget(rows=0))
    table = trades()
    table.append((0, "a", 1))

    assert {e.gone for e in captured(table, 0, counted(None)).entries} == {ANY_ROWS}


def test_of_many_versions_one_count_is_recorded(trades) -> None:
    """
    Of some versions a capture records how many rows each one changed; of more, the sum by what told it, under the newest of them.
    """
    table = trades(feed=False)
    table.append((0, "a", 1))
    table.feed(on=True)
    for i in range(MOST_COUNTS - 1):
        table.append((i, "a", i))
    assert MOST_COUNTS == len(captured(table, 0).counts)

    table.append((0, "a", -1), (0, "b", -1))
    last = table.append((0, "b", -2))
    files, feed = captured(table, 0).counts
    assert {"version": 1, "rung": "files", "inserted": 1, "rows": None} == files
    assert {"version": last, "rung": "feed", "inserted": MOST_COUNTS + 2, "rows": MOST_COUNTS + 2} == feed
