"""The query of session windows against one loop over the ordered rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.session_window import SessionWindow
from materializer.spark.engines import session_window
from tests.core.engines.histories import Kind
from tests.core.engines.naive_sessions import sessions
from tests.spark.engines.frames import IDS, bounds, check, drawn, frame, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.one_of(2)
@pytest.mark.parametrize("p", [SessionWindow(4), SessionWindow(3, force_trigger_time=2)], ids=["by rows", "forced"])
def test_sessions_are_those_of_one_loop(spark: SparkSession, rng: random.Random, p: SessionWindow) -> None:
    """
    Over all rows, and over the parts of a plan beside kept rows.
    """
    histories = drawn(rng, Kind(is_clocked=p.force_trigger_time is not None, most=40))

    e, at = query_of(p, {"ids": IDS}), bounds(next(iter(histories.values())))

    def compute(rows: Sequence[tuple[Any, ...]], lasting: bool) -> list[Any]:
        return session_window.rows(frame(spark, rows, lasting=lasting), e, at).collect()

    found = check(compute, histories, e, sessions(p))

    assert {r.is_shown == r.is_final and r.label == r.w_start for r in found} == {True}


def test_open_sessions_are_shown_with_an_update_time(spark: SparkSession) -> None:
    """
    Provisional rows are shown and not final; without keys there is one key.
    """
    raw = frame(spark, [(None, i, 1.0, t, 0, None) for i, t in enumerate((0, 3, 8, 9))], lasting=False)
    e = query_of(SessionWindow(5, update_time=1), {"total": "sum(v)"}, keys=())

    rows = session_window.rows(raw, e, ClosingClock()).orderBy("w_start").collect()

    assert [(r.w_start, r.w_end, r.v_total, r.is_final, r.is_shown) for r in rows] == [
        (0, 8, 2.0, True, True),
        (8, 14, 2.0, False, True),
    ]


def test_a_session_may_be_labelled_by_its_end(spark: SparkSession, rng: random.Random) -> None:
    """
    The label is then the last row and the gap.
    """
    histories = drawn(rng, Kind())
    raw = [(key, row.id, None, row.t, 0, None) for key, h in histories.items() for row in h.after]
    e = query_of(SessionWindow(5, use_session_start_time=False), {"ids": IDS})

    rows = session_window.rows(frame(spark, raw, lasting=False), e, bounds(next(iter(histories.values())))).collect()

    assert {r.label - r.last_t for r in rows} == {5}
