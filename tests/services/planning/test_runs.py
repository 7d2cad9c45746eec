"""How a request is cut into runs, and where bounds of history come to lie; integer buckets of ten, no table, no JVM."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from materializer.core.language.define import define
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    FrozenWindowError,
    RefreshWindowError,
    RefreshWindowTooSmallError,
    RetiredWindowError,
)
from materializer.journal.events import Frozen, Retired, SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.observe import frozen_bound
from materializer.services.planning import runs
from materializer.services.planning.options import RefreshOptions
from materializer.services.planning.runs import Request
from materializer.services.protocol.decision import Run

KEPT = {"source.retention": "30", "output.retention": "50"}
SPEC = define("bars", "t", time="ts", width="10", measures={"n": "count(*)"}, properties=KEPT)
GRID = build(SPEC.grid, TimeType.BIGINT, SPEC.resolution)
EMPTY = AggregateState("a", "bars", SPEC.as_json(), "d", SourceIdentity("/s", "s"), {}, {}, 0, log=InvalidationLog())
REFRESHED = replace(EMPTY, extent_end=100, threshold=100)


def spans(*edges: tuple[int, int]) -> SpanSet:
    return SpanSet.union(Span(*e) for e in edges)


def log(*edges: tuple[int, int], cause: Cause = Cause.CHANGE) -> InvalidationLog:
    return InvalidationLog().add([Entry(Span(*e), None, cause) for e in edges])


# -- runs ----------------------------------------------------------------------------------------------------------------


def walked(options: RefreshOptions, dirty: InvalidationLog, data: SpanSet) -> list[Span]:
    """Return the windows of all runs over [0, 100), each row an instant of *data*."""
    found, window = [], Span(0, 100)
    while True:
        run = first_run(options, dirty, data, window)
        found.append(run.window)
        if run.rest is None:
            return found
        window = run.rest
        dirty = dirty.cut(SpanSet.of(run.window)).left


def first_run(options: RefreshOptions, dirty: InvalidationLog, data: SpanSet, window: Span) -> Run:
    def rows_in(some: SpanSet) -> float:
        return float(sum(s.end - s.start for s in some & data))

    return runs.first_run(options, window, dirty, GRID, present=GRID.cover_set(data), rows_in=rows_in)


@pytest.mark.parametrize("is_newest_first", [False, True])
@pytest.mark.parametrize("cut", [{"run_buckets": 2}, {"run_rows": 20}])
def test_runs_cover_the_window_once_in_order(cut: dict[str, int], is_newest_first: bool) -> None:
    """
    Each has about what was asked for, buckets without rows count nothing, and edges lie on the grid.
    """
    data = spans((0, 30), (60, 90))
    found = walked(RefreshOptions(is_newest_first=is_newest_first, **cut), log((0, 100)), data)

    first = {False: [Span(0, 20), Span(20, 70)], True: [Span(70, 100), Span(20, 70)]}[is_newest_first]
    assert first == found[:2]
    in_time = found[::-1] if is_newest_first else found
    assert (0, 100) == (in_time[0].start, in_time[-1].end)
    assert [s.end for s in in_time[:-1]] == [s.start for s in in_time[1:]]
    assert len(found) == 3


def test_what_is_little_or_not_there_is_one_run() -> None:
    """
    Nothing dirty, nothing there, or few enough rows: the window is not cut.
    """
    data = spans((0, 30))
    for options, dirty, there in [
        (RefreshOptions(run_rows=1), InvalidationLog(), data),
        (RefreshOptions(run_rows=1), log((0, 100)), SpanSet()),
        (RefreshOptions(run_rows=30), log((0, 100)), data),
        (RefreshOptions(run_buckets=3), log((0, 100)), data),
    ]:
        assert [Span(0, 100)] == walked(options, dirty, there)
    assert Run(Span(0, 10), Span(10, 100), 3) == first_run(
        RefreshOptions(run_rows=10, is_newest_first=False), log((0, 100)), data, Span(0, 100)
    )


def test_a_forced_window_is_forced_once() -> None:
    """
    What is left of a request is not made dirty again by its next run.
    """
    request = Request(RefreshOptions(start=0, end=100, force=True))

    assert runs.following(request, Run(Span(0, 100), None)) is None
    left = runs.following(request, Run(Span(0, 20), Span(20, 100)))
    assert left is not None
    assert (Span(20, 100), False) == (left.inside, left.options.force)


# -- windows -------------------------------------------------------------------------------------------------------------


def test_a_window_is_its_whole_buckets() -> None:
    """
    Without an end it reaches to the newest bucket; what holds no bucket, or ends before it starts, is refused.
    """
    window = runs.whole_window
    assert Span(10, 90) == window(Request(RefreshOptions(start=5, end=95)), REFRESHED, GRID)
    assert Span(NEG_INF, 100) == window(Request(), REFRESHED, GRID)
    assert Span(20, 120) == window(Request(RefreshOptions(start=11)), replace(REFRESHED, extent_end=120), GRID)
    assert Span(20, 130) == window(Request(RefreshOptions(start=11)), replace(REFRESHED, threshold=130), GRID)
    assert window(Request(RefreshOptions(start=100)), REFRESHED, GRID) is None
    assert Span(3, 4) == window(Request(RefreshOptions(start=90, end=10), Span(3, 4)), REFRESHED, GRID)
    with pytest.raises(RefreshWindowError, match="ends before"):
        window(Request(RefreshOptions(start=90, end=90)), REFRESHED, GRID)
    with pytest.raises(RefreshWindowTooSmallError, match=r"\[11, 29\)"):
        window(Request(RefreshOptions(start=11, end=29)), REFRESHED, GRID)


# -- bounds --------------------------------------------------------------------------------------------------------------


def moved(state: AggregateState, **more: Any) -> list[Frozen | Retired]:
    return list(frozen_bound.moved(state, GRID, **more))


def test_bounds_follow_the_newest_row() -> None:
    """
    To edges, no further than what was materialised, forward only, and not while nothing is known.
    """
    assert [Retired(50), Frozen(70, frozen_bound.FOLLOWED, SpanSet())] == moved(REFRESHED)
    assert [Retired(50)] == moved(REFRESHED, freezes=False)
    assert [] == moved(EMPTY)
    assert [] == moved(replace(REFRESHED, frozen=70, retired=50))
    assert [] == moved(replace(REFRESHED, frozen=80, retired=60))
    assert [60] == [e.bound for e in moved(replace(REFRESHED, threshold=60, retired=50))]
    assert [40] == [e.bound for e in moved(replace(REFRESHED, retired=50), cut=lambda at: at - 30)]


def test_what_is_dirty_and_there_is_not_frozen() -> None:
    """
    The bound stops before it; dirt without a row is settled; what is only to be taken out stops nothing.
    """
    dirty = replace(REFRESHED, retired=50, log=log((20, 30), (60, 70)))
    assert [Frozen(20, frozen_bound.FOLLOWED, SpanSet())] == moved(dirty)
    [found] = moved(dirty, present=lambda some: some & spans((60, 70)))
    assert Frozen(60, frozen_bound.FOLLOWED, spans((20, 30))) == found
    [found] = moved(dirty, present=lambda _: SpanSet())
    assert Frozen(70, frozen_bound.FOLLOWED, spans((20, 30), (60, 70))) == found
    assert [] == moved(replace(dirty, frozen=20))
    [found] = moved(replace(REFRESHED, retired=50, log=log((20, 30), cause=Cause.RETIRED)))
    assert Frozen(70, frozen_bound.FOLLOWED, SpanSet()) == found
    retired_with_it = moved(replace(REFRESHED, log=log((20, 30))))
    assert [50, 70] == [e.bound for e in retired_with_it], "what the output lets go needs its rows no more"


def test_only_what_is_kept_is_computed_on_request() -> None:
    """
    A window is cut at the higher bound, and refused where nothing of it is left.
    """
    state = replace(REFRESHED, frozen=40, retired=20)

    assert Span(40, 90) == frozen_bound.computable(Span(10, 90), state, GRID)
    assert SpanSet.of(Span(40, POS_INF)) == frozen_bound.raw_spans(state)
    with pytest.raises(FrozenWindowError, match="below 40"):
        frozen_bound.computable(Span(30, 40), state, GRID)
    with pytest.raises(RetiredWindowError, match="below 60"):
        frozen_bound.computable(Span(50, 60), replace(state, retired=60), GRID)
    assert Span(60, 61) == frozen_bound.computable(Span(50, 61), replace(state, retired=60), GRID)
