"""The oracles of the engines against the shared cases, and against each other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.cases import comparing, reading
from tests.cases.reading import DATA
from tests.oracle.engines import alignment, event_time, intervals, session_window, sessions, ticks, time_series, updates
from tests.oracle.engines import cases as engine_cases
from tests.oracle.engines.metrics import evaluate
from tests.oracle.engines.rows import Event, RefusedError, passes

FILES = ("seed_cases", "engine_samples")
CASES = [
    case
    for file in FILES
    for case in reading.read(DATA / f"{file}.json")
    if case["engine"] in engine_cases.ENGINES and case["expected_rows"] is not None
]
SUM = [{"name": "s", "expr": "sum(v)"}]


def event(t: int, v: Any = 1, *, key: Any = None, commit: int = 1, seq: int = 0) -> Event:
    """Return a row of time *t* with value *v*; it arrives at its own time unless told otherwise."""
    return Event(t, commit, seq or t, () if key is None else (key,), {"v": v})


def lasting(start: int, end: int | None, v: int = 1) -> intervals.Lasting:
    """Return an event that lasts."""
    return intervals.Lasting(event(start, v), start, end)


def series(rows: list[Event], *, lateness: str = "strict", as_of: int | None = None, **setting: Any) -> Any:
    """Return what a time-series engine of size and step 10 says, its windows ending on tens."""
    given = {"sizes": (10,), "groups": (SUM,), "step": 10, "origin": 0, **setting}
    return time_series.run(rows, time_series.Setting(**given), lateness=lateness, as_of=as_of)  # type: ignore[arg-type]


def sums(found: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return (label, sum) of rows, in order."""
    return sorted((row["time"], row["s"]) for row in found)


# -- against the cases ---------------------------------------------------------------------------------------------------


def test_no_case_is_lost() -> None:
    """
    Of the files every executable case of an engine is here: 24 of the seeds and 30 of the samples.
    """
    assert 54 == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_case(case) -> None:
    """
    The oracle gives what the case expects: final rows, provisional rows, dropped rows, rows by commit, or a refusal.
    """
    if case.get("expected_error"):
        with pytest.raises(RefusedError):
            engine_cases.answer(case)
        return
    said = engine_cases.answer(case)
    shown = [*said.final, *said.open] if case.get("compare") == "upsert_rows" else said.final

    assert same(case, case["expected_rows"], shown)
    if "expected_open_rows" in case:
        assert same(case, case["expected_open_rows"], said.open)
    if "expected_discarded_seq" in case:
        assert sorted(case["expected_discarded_seq"]) == sorted(said.discarded)
    for commit, rows in case.get("expected_by_commit", {}).items():
        assert same(case, rows, said.by_commit.get(commit, []))


def same(case: reading.Case, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> bool:
    """Whether found rows, with times as ticks, are those of the case."""
    ours = engine_cases.expected(case, expected)
    if case.get("ordered"):
        return len(ours) == len(found) and all(
            comparing.is_same_rows([a], [b]) for a, b in zip(ours, found, strict=True)
        )
    return comparing.is_same_rows(ours, found) if ours else not found


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["id"]) for c in CASES if c["engine"] in ("timeSeries", "sessionWindow")]
)
def test_cuts_do_not_matter(case) -> None:
    """
    When nothing was dropped, rows that arrive in any order and cut give the same under ``recompute`` as in the file.
    """
    if case.get("compare") == "log" or engine_cases.answer(case).discarded:
        return
    uncut = engine_cases.answer(case)
    draw = random.Random(case["id"])
    shuffled = [row | {"_commit": draw.randint(1, 4)} for row in case["input_rows"]]
    recut = engine_cases.answer({**case, "input_rows": shuffled}, lateness="recompute", origin=uncut.origin)

    assert comparing.is_same_rows(uncut.final, recut.final) if uncut.final else not recut.final
    assert not recut.discarded


# -- rules that no case shows --------------------------------------------------------------------------------------------


def test_equal_times_are_never_late() -> None:
    """
    Strictly earlier rows of the same key are dropped (D6), equal times and other keys' are not.
    """
    rows = [event(5, seq=1), event(5, seq=2), event(4, seq=3), event(20, seq=4)]
    said = series(rows)

    assert [3] == said.discarded
    assert [(10, 2)] == sums(said.final)
    assert [] == series([event(5, key="a"), event(4, key="b")], keys=("k",)).discarded


def test_windows_that_hold_their_end() -> None:
    """
    With ``(s, e]`` a row on the end belongs to the window that ends there (D12), and only a later one closes it.
    """
    rows = [event(10), event(20)]

    assert [(10, 1)] == sums(series(rows, holds_end=True).final)
    assert [(20, 1)] == sums(series(rows, holds_end=True).open)
    assert [(20, 1)] == sums(series(rows).final)


def test_a_delay_holds_windows_open() -> None:
    """
    A window closes delay after its end; until then rows out of order count; rows before the key's first window do not (D23).
    """
    rows = [event(15, seq=1), event(22, seq=2), event(18, seq=3), event(9, seq=4), event(25, seq=5), event(17, seq=6)]
    said = series(rows, lateness="delay", delay=5)

    assert [(20, 2)] == sums(said.final)
    assert [4, 6] == said.discarded


def test_recompute_drops_nothing() -> None:
    """
    A row that comes after its window was closed changes it.
    """
    said = series([event(15, seq=1), event(35, seq=2), event(16, seq=3)], lateness="recompute")

    assert ([(20, 2)], []) == (sums(said.final), said.discarded)


def test_other_keys_force_windows_closed() -> None:
    """
    A window closes once another key is *force* after its end (D9); rows for it are late from then on.
    """
    rows = [event(5, key="a", seq=1), event(12, key="b", seq=2), event(6, key="a", seq=3), event(13, key="b", seq=4)]
    late = event(7, key="a", seq=5)
    said = series([*rows, late], keys=("k",), force=3)

    assert [{"time": 10, "k": "a", "s": 2}] == said.final
    assert [5] == said.discarded


def test_fill_goes_as_far_as_windows_close() -> None:
    """
    Empty windows between a key's rows are filled, after its last row only what the clock closes (D15); ffill takes the last
    result, a value itself.
    """
    rows = [event(5, 7), event(35, 8)]

    assert [(10, 7), (20, 7), (30, 7)] == sums(series(rows, fills=("ffill",)).final)
    assert [(10, 7), (20, 0), (30, 0), (40, 8), (50, 0)] == sums(series(rows, fills=(0,), as_of=50).final)


def test_a_part_of_the_window() -> None:
    """
    Only rows in the sub-window count, it is labelled by its end and closed there (D10).
    """
    rows = [event(1), event(2), event(4), event(6)]

    assert [(5, 2)] == sums(series(rows, part=(2, 5), shows_start=True).final)


def test_several_sizes() -> None:
    """
    Smaller empty windows give null, unless all sizes must have rows (D21).
    """
    two = {"sizes": (10, 20), "groups": (SUM, [{"name": "z", "expr": "count(v)"}]), "shows_start": False}
    rows = [event(5), event(25)]

    assert [(10, 1, 1), (20, None, 1)] == [(r["time"], r["s"], r["z"]) for r in series(rows, **two).final]
    assert [(10, 1)] == sums(series(rows, **two, needs_all=True).final)


def test_gaps_of_sessions() -> None:
    """
    Rows join when they are less than the gap apart (D13); a late row bridges two sessions under ``recompute``.
    """
    rows = [event(0, seq=1), event(4, seq=2), event(8, seq=3)]
    strict = session_window.run(rows, SUM, gap=4)
    bridged = session_window.run([*rows, event(2, seq=4), event(6, seq=5)], SUM, gap=4, lateness="recompute")

    assert ([(0, 1), (4, 1)], [(8, 1)]) == (sums(strict.final), sums(strict.open))
    assert ([], [(0, 5)]) == (sums(bridged.final), sums(bridged.open))


DAY = 1440
TRADING = {"sizes": (30,), "groups": (SUM,), "step": 30, "time_type": "DATETIME"}


def daily(rows: list[Event], begins: list[int], ends: list[int], **more: Any) -> Any:
    """Return what a daily engine with windows of 30 minutes says; times are minutes since 1970."""
    setting = {k: more.pop(k) for k in ("fills", "force", "holds_end", "keys") if k in more}
    about = sessions.Daily(sessions.schedule(begins, ends, DAY), DAY, **more)
    return sessions.run(rows, time_series.Setting(**TRADING, **setting), about, lateness="strict")  # type: ignore[arg-type]


def test_rows_around_a_session() -> None:
    """
    Rows before a session go into its first window, rows after the last are dropped but close windows.
    """
    rows = [event(1), event(600), event(700), event(780), event(900)]
    said = daily(rows, [570, 780], [690, 900])

    assert [(600, 1), (630, 1), (810, 2)] == sums(said.final)
    assert [900] == said.discarded
    assert [(600, 1), (630, 1), (810, 2)] == sums(daily(rows, [570, 780], [690, 900], merges_end=True).final)
    assert [(900, 1)] == sums(daily(rows, [570, 780], [690, 900], merges_end=True).open)


def test_a_night_session() -> None:
    """
    A schedule over two dates drops what lies between its last end and its first begin.
    """
    rows = [event(1200, seq=1), event(1260), event(DAY + 10), event(DAY + 119), event(DAY + 120), event(DAY + 1259)]
    said = daily(rows, [1260], [120])

    assert [1, DAY + 120, DAY + 1259] == said.discarded
    assert [(1290, 1), (DAY + 30, 1), (DAY + 120, 1)] == sums(said.final)


def test_a_new_day_forgets_keys() -> None:
    """
    Fill does not carry keys over a day, but pending windows are output (D18).
    """
    rows = [event(571, 5), event(DAY + 631, 7), event(DAY + 661, 8)]
    forgets = daily(rows, [570], [660], fills=("ffill",))
    keeps = daily(rows, [570], [660], fills=("ffill",), purges=False)

    assert [(600, 5)] == sums(forgets.final)[:1]
    assert [(600, 5), (DAY + 660, 7)] == sums(forgets.final)
    labels = [600, 630, 660, DAY + 600, DAY + 630, DAY + 660]
    assert list(zip(labels, [5, 5, 5, 5, 5, 7], strict=True)) == sums(keeps.final)


def test_a_new_day_closes_what_is_pending() -> None:
    """
    The first row of a trading day, of whatever key, closes the windows of the day before.
    """
    said = daily([event(571, 5, key="a"), event(DAY + 571, 7, key="b")], [570], [660], keys=("k",))

    assert [(600, 5)] == sums(said.final)
    assert [(DAY + 600, 7)] == sums(said.open)


def test_force_fills_a_day_to_its_end() -> None:
    """
    Rows of other keys on a later day close and fill what is left of a day; a key's own row there only closes (D15, D18).
    """
    rows = [event(571, 5, key="a"), event(DAY + 571, 7, key="b"), event(DAY + 640, 8, key="a")]
    forced = daily(rows, [570], [660], fills=("ffill",), force=0, keys=("k",))
    waits = daily(rows, [570], [660], fills=("ffill",), keys=("k",))
    later = daily(rows[:2], [570], [660], fills=("ffill",), force=DAY, keys=("k",))

    assert [(600, 5), (630, 5), (660, 5), (DAY + 600, 7), (DAY + 630, 7)] == sums(forced.final)
    assert [(600, 5)] == sums(waits.final)
    assert [(600, 5)] == sums(later.final)


def test_a_short_last_window() -> None:
    """
    It is cut at the end of the session; merged, its rows go to the window before it, labelled by its own end.
    """
    rows = [event(600), event(650), event(661), event(670)]

    assert [(630, 1), (660, 1), (670, 1)] == sums(daily(rows, [600], [670]).final)
    assert [(630, 1), (660, 2)] == sums(daily(rows, [600], [670], merges_last=True).final)


def test_one_slot_one_window(rng) -> None:
    """
    Wherever one window's slot lies, the compressed form says what the plain form says for that window.
    """
    for _ in range(30):
        period = rng.randint(1, 6)
        duration = period * rng.randint(1, 3)
        anchored = rng.randint(-9, 9)
        starts = [rng.randint(-30, 30) for _ in range(6)]
        given = [lasting(start, start + rng.randint(1, 20), v) for v, start in enumerate(starts)]
        seen = intervals.Seen(SUM)
        grid = {"duration": duration, "period": period, "alignment": anchored}
        plain = intervals.hopping(given, seen, **grid, clips=True, bound=None).final
        short = intervals.compressed(given, seen, **grid).final

        assert plain
        for row in plain:
            slot = row["window_end"] - period
            [value] = [r["s"] for r in short if r["window_start"] <= slot < r["window_end"]]
            assert value == row["s"]


def test_events_without_an_end() -> None:
    """
    An open event gives one last stretch without an end; plain hopping needs a bound.
    """
    given = [lasting(0, None), lasting(3, 5)]
    found = intervals.snapshots(given, intervals.Seen(SUM)).final

    assert [(0, 3, 1), (3, 5, 2), (5, None, 1)] == [(r["window_start"], r["window_end"], r["s"]) for r in found]
    with pytest.raises(RefusedError):
        intervals.hopping(given, intervals.Seen(SUM), duration=2, period=2, alignment=0, clips=True, bound=None)


def test_late_rows_fire_a_pane_again() -> None:
    """
    Inside of the discard age a late row gives the pane's next firing; after it, it is dropped.
    """
    panes = event_time.Panes(10, 10, age=10)
    rows = [event(5), event(10, commit=2), event(6, commit=3, seq=3), event(12, commit=3), event(20, commit=4)]
    rows.append(event(7, commit=5, seq=7))
    said = event_time.run(rows, SUM, panes, lateness="strict")
    firings = [(r["interval_start"], r["paneIndex"], r["paneTiming"], r["s"]) for r in said.final]

    assert [(0, 0, "onTime", 1), (0, 1, "late", 2), (10, 0, "onTime", 2)] == firings
    assert [7] == said.discarded


def test_a_watermark_moves_by_the_gap_at_least() -> None:
    """
    A commit that advances it by less closes nothing, one that advances it by exactly the gap does.
    """
    rows = [event(5), event(14, commit=2), event(15, commit=3)]

    for count, final in ((2, []), (3, [0])):
        said = event_time.run(rows[:count], SUM, event_time.Panes(10, 10, gap=10), lateness="strict")
        assert final == [row["interval_start"] for row in said.final]


def test_a_row_waits_two_seconds_at_least() -> None:
    """
    The timer of a row is twice the update time, but never less than two seconds.
    """
    setting = {"keys": (), "origin": 0, "step": 10_000, "second": 1000}
    [short] = updates.log([event(1100)], SUM, update=100, **setting)
    [long] = updates.log([event(1100)], SUM, update=2500, **setting)

    assert (3100, 6100) == (short["at"], long["at"])


@pytest.mark.parametrize(
    ("op", "value", "kept"), [("notnull", None, [1, 2]), ("<=", 1, [1]), ("==", 2, [2]), (">", 0, [1, 2])]
)
def test_where(op, value, kept) -> None:
    """
    A null fails every comparison.
    """
    rows = [{"v": None}, {"v": 1}, {"v": 2}]

    assert kept == [row["v"] for row in rows if passes(row, [{"col": "v", "op": op, "value": value}])]


def test_a_sub_window_that_was_computed_starts_no_timer() -> None:
    """
    A row that a later row has computed needs no timer; the first that is not computed does.
    """
    found = updates.log(
        [event(1100), event(1900), event(2100)], SUM, keys=(), origin=0, step=10_000, update=1000, second=1000
    )

    assert [(2100, "sub-window", 2), (4100, "timer", 3)] == [(r["at"], r["why"], r["s"]) for r in found]


def test_alignment_holds_before_1970() -> None:
    """
    Times are floored, a month goes to its January, a date stays.
    """
    assert -5 == alignment.origin(-1, "TIMESTAMP", 3)
    assert ticks.parse("1969-01", "MONTH") == alignment.origin(-3, "MONTH", 2)
    assert -7 == alignment.origin(-7, "DATE", 3)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATETIME", "NANOTIMESTAMP", "DATE", "MONTH"])
@pytest.mark.parametrize("tick", [-1_000_001, -1, 0, 1, 1_234_567])
def test_times_round_trip(kind, tick) -> None:
    """
    A tick that is shown and read is the tick.
    """
    counted = tick // 1000 if kind in ("DATE", "MONTH") else tick  # a year of four digits

    assert counted == ticks.parse(ticks.shown(counted, kind), kind)


# -- metrics -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum(x)", 12),
        ("count(x)", 3),
        ("size(x)", 4),
        ("avg(x)", 4.0),
        ("first(x)", None),
        ("firstNot(x)", 6),
        ("firstNot(x, 6)", 2),
        ("ifirstNot(x)", 1),
        ("imax(x)", 1),
        ("imin(x)", 2),
        ("atImax(x, y)", 10),
        ("atImin(x, y)", None),
        ("sum2(x)", 56.0),
        ("prod(x)", 48),
        ("var(x)", 4.0),
        ("sem(x)", (4 / 3) ** 0.5),
        ("wsum(x, y)", 140.0),
        ("wavg(y, x)", 14.0),
        ("beta(y, x)", -5.0),
        ("covar(x, y)", -10.0),
        ("kurtosis(x)", 1.5),
        ("skew(x)", 0.0),
        ("med(x)", 4),
        ("quantile(x, 0.25)", 3.0),
        ("percentile(x, 25, 'nearest')", 2),
        ("percentile(x, 75, 'higher')", 6),
        ("searchK(x, 3)", 6),
        ("searchK(x, 4)", None),
        ("nunique(x)", 4),
        ("nunique(x, true)", 3),
        ("mode(x)", 2),
        ("sum(x) / (count(x) - 3)", None),
        ("max(x - 1) - min(X)", 3),
    ],
)
def test_metric(expression, expected) -> None:
    """
    Metrics by hand: nulls are skipped, or not, as the design page says; names of columns have no case.
    """
    rows = [{"x": None, "y": 7}, {"x": 6, "y": 10}, {"x": 2, "y": None}, {"x": 4, "y": 20}]

    assert comparing.is_same([(expected,)], [(evaluate(expression, rows),)], is_complete=True, tolerance=1e-9)


@pytest.mark.parametrize("name", ["sum", "avg", "min", "first", "var", "prod", "mode", "med", "skew", "atImax"])
def test_metric_of_nothing(name) -> None:
    """
    Without a value metrics are null; counts are 0 and positions -1.
    """
    arguments = "x, x" if name == "atImax" else "x"

    assert evaluate(f"{name}({arguments})", [{"x": None}]) is None
    assert (0, -1) == (evaluate("count(x)", [{"x": None}]), evaluate("imax(x)", [{"x": None}]))
