"""The query of session windows against one loop over the ordered rows."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.queries import session_window
from materializer.core.engines.session_window import SessionWindow
from tests.core.engines.histories import Kind
from tests.core.engines.naive_sessions import sessions
from tests.spark.engines.frames import EXECUTORS, IDS, bounds, check, computing, drawn, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("p", [SessionWindow(4), SessionWindow(3, force_trigger_time=2)], ids=["by rows", "forced"])
def test_sessions_are_those_of_one_loop(
    spark: SparkSession, rng: random.Random, p: SessionWindow, executor: str
) -> None:
    """
    Over all rows, and over the parts of a plan beside kept rows.
    """
    histories = drawn(rng, Kind(is_clocked=p.force_trigger_time is not None, most=40))
    e, at = query_of(p, {"ids": IDS}), bounds(next(iter(histories.values())))

    found = check(computing(executor, spark, session_window, e, at), histories, e, sessions(p))

    assert {r.is_shown == r.is_final and r.label == r.w_start for r in found} == {True}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_open_sessions_are_shown_with_an_update_time(spark: SparkSession, executor: str) -> None:
    """
    Provisional rows are shown and not final; without keys there is one key.
    """
    raw = [(None, i, 1.0, t, 0, None) for i, t in enumerate((0, 3, 8, 9))]
    e = query_of(SessionWindow(5, update_time=1), {"total": "sum(v)"}, keys=())

    rows = computing(executor, spark, session_window, e, ClosingClock())(raw, False)

    assert [
        (r.w_start, r.w_end, r.v_total, r.is_final, r.is_shown) for r in sorted(rows, key=attrgetter("w_start"))
    ] == [
        (0, 8, 2.0, True, True),
        (8, 14, 2.0, False, True),
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_session_may_be_labelled_by_its_end(spark: SparkSession, rng: random.Random, executor: str) -> None:
    """
    The label is then the last row and the gap.
    """
    histories = drawn(rng, Kind())
    raw = [(key, row.id, None, row.t, 0, None) for key, h in histories.items() for row in h.after]
    e = query_of(SessionWindow(5, use_session_start_time=False), {"ids": IDS})

    rows = computing(executor, spark, session_window, e, bounds(next(iter(histories.values()))))(raw, False)

    assert {r.label - r.last_t for r in rows} == {5}
