"""Random parameters of windowing engines, and instants that are hard for them: on borders of windows, equal, far, before 1970."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import DAY, MINUTE, SECOND
from tests.local.comparing import EPOCH
from tests.local.drawing import Drawing

HOUR: Final = 60 * MINUTE
SESSIONS: Final = (
    (["00:30:00"], ["01:20:00"]),
    (["00:05:00", "03:00:00"], ["01:35:00", "05:32:00"]),
    (["23:00:00", "04:00:00"], ["01:30:00", "06:00:00"]),
    (["22:30:00"], ["00:50:00"]),
    (["00:00:00", "13:00:00"], ["11:30:00", "00:00:00"]),
)
BASES: Final = tuple(
    int((datetime.fromisoformat(f"{text}+00:00") - EPOCH) / timedelta(microseconds=1))
    for text in (
        *("2025-03-30T00:40:00", "2025-10-26T00:20:00", "2024-02-29T23:10:00", "1969-12-31T22:50:00"),
        *("1969-12-31T23:59:58", "1583-01-01T00:30:00", "2011-12-30T09:59:00"),
    )
)
"""Where rows lie: around two changes of the clock, a leap day, 1970, long ago, and a day that Samoa left out."""


class Times(Struct, frozen=True):
    """How the time column of a source counts.

    Args:
        kind: Its type.
        tick: The smallest step of time, in instants.
        step: Distance between windows, in instants.
        base: Where rows begin.
        resolution: Of an integer, or "".
    """

    kind: TimeType
    tick: int
    step: int
    base: int
    resolution: str = ""

    @classmethod
    def drawn(cls, choose: random.Random, engine: str) -> Times:
        """Return times for an engine."""
        kinds = [TimeType.TIMESTAMP] * 8 + [TimeType.TIMESTAMP_NTZ] * 2
        if engine != "daily_time_series":
            kinds += [TimeType.DATE, TimeType.BIGINT, TimeType.BIGINT, TimeType.INT]
        kind = choose.choice(kinds)
        match kind:
            case TimeType.DATE:
                base = choose.choice(BASES) // DAY * DAY
                return cls(kind, DAY, DAY * choose.choice([1, 2, 7]), base)
            case TimeType.BIGINT if choose.random() < 0.5:
                step = choose.choice([1_000, 90_000, 600_000])
                return cls(kind, 1, step, choose.choice([0, 1_743_295_200_000, -5_000]), "ms")
            case TimeType.BIGINT | TimeType.INT:
                return cls(kind, 1, choose.choice([2, 3, 10]), choose.choice([0, -17, 1_000_000]))
        if engine == "daily_time_series":
            return cls(kind, 1, choose.choice([10, 15, 25, 30, 60]) * MINUTE, choose.choice(BASES) // DAY * DAY)
        step = choose.choice([SECOND, 7 * SECOND, 90 * SECOND, 10 * MINUTE, 10 * MINUTE, HOUR, 90 * MINUTE])
        return cls(kind, 1, step, choose.choice(BASES))

    def length(self, instants: int) -> str | int:
        """Return a length of time as a parameter."""
        if self.kind is TimeType.DATE:
            return f"{instants // DAY} days"
        if self.kind.is_integer:
            return f"{instants} milliseconds" if self.resolution else instants
        return f"{instants} microseconds"

    def instant(self, instant: int) -> str:
        """Return an instant as a parameter."""
        if self.kind.is_integer and not self.resolution:
            return str(instant)
        micros = instant * (1_000 if self.resolution else 1)
        at = (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)
        return at.date().isoformat() if self.kind is TimeType.DATE else at.isoformat(sep=" ")

    def literal(self, instant: int) -> str:
        """Return an instant as the library that updates the source reads it."""
        if self.kind.is_integer:
            return f"CAST({instant} AS {'INT' if self.kind is TimeType.INT else 'BIGINT'})"
        at = EPOCH + timedelta(microseconds=instant)
        if self.kind is TimeType.DATE:
            return f"DATE '{at.date().isoformat()}'"
        zone = "None" if self.kind is TimeType.TIMESTAMP_NTZ else 'Some("UTC")'
        return f"arrow_cast({instant}, 'Timestamp(Microsecond, {zone})')"

    def few(self, choose: random.Random, *, is_daily: bool) -> int:
        """Return an instant: on a border, beside it, between two, or far."""
        if is_daily:
            begins, ends = choose.choice(SESSIONS)
            clock = datetime.strptime(choose.choice([*begins, *ends]), "%H:%M:%S").replace(tzinfo=UTC)
            at = self.base + choose.choice([0, 0, 0, 1, 1, 3]) * DAY + (clock.hour * 60 + clock.minute) * MINUTE
            return at + choose.choice([-1, 0, 0, 1, self.step, choose.randint(-90, 90) * MINUTE])
        far = choose.choice([60, 45, -9]) if choose.random() < 0.06 else choose.randint(0, 30)
        beside = choose.choice([0, 0, 0, -1, 1, self.step // self.tick // 2, choose.randrange(self.step // self.tick)])
        return self.base + far * self.step + beside * self.tick


def _maybe(choose: random.Random, chance: float, **params: Any) -> dict[str, Any]:
    return params if choose.random() < chance else {}


def _fill(choose: random.Random, names: Mapping[str, str], chance: float) -> dict[str, Any]:
    """Return what fills empty windows: the same for all measures, or something for each."""
    if choose.random() >= chance:
        return {}
    if choose.random() < 0.5:
        return {"fill": choose.choice(["ffill", "null"])}
    of_each = choose.random()
    some = {True: ["ffill", "null", "0", "1.5"], False: ["ffill", "null"]}
    counted = {name: sql.startswith(("count(", "sum(", "avg(")) for name, sql in names.items()}
    return {"fill": [random.Random(f"{name} {of_each}").choice(some[c]) for name, c in counted.items()]}


def _closing(choose: random.Random, at: Times) -> dict[str, Any]:
    """Return when windows close."""
    step = at.step // at.tick
    return choose.choice(
        [
            *({}, {}, {}),
            {"force_trigger_time": at.length(choose.choice([0, 1, step // 2, 2 * step]) * at.tick)},
            {"accepted_delay": at.length(choose.choice([1, max(step // 2, 1), step]) * at.tick)},
            {"update_time": at.length(at.step)},
        ]
    )


def _time_series(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    params: dict[str, Any] = {"step": at.length(at.step), "closed": choose.choice(["left", "left", "right"])}
    closing, form = _closing(choose, at), choose.random()
    if form < 0.2 and at.step > 2 * at.tick:
        first = choose.randrange(at.step // at.tick)
        until = choose.randint(first + 1, at.step // at.tick)
        params |= {"window_size": at.length(at.step)}
        params |= {"sub_window": [at.length(first * at.tick), at.length(until * at.tick)]}
        closing.pop("update_time", None)
    else:
        params |= {"window_size": at.length(at.step * choose.randint(1, 4))}
        params |= _maybe(choose, 0.3, use_window_start_time=True)
        if not closing and choose.random() < 0.1:
            closing = {"use_system_time": True}
    grid = choose.choice([{}, {}, {"round_time": False}, {"grid_origin": "key", "round_time": False}])
    if grid.get("grid_origin") is None:
        grid |= _maybe(choose, 0.3, origin=at.instant(at.base + choose.randrange(at.step // at.tick) * at.tick))
    return params | closing | grid | _fill(choose, measures, 0.35)


def sized(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of windows of two sizes, of which the first measures of each definition have one and the other."""
    sizes = [at.length(at.step * n) for n in choose.sample(range(1, 5), 2)]
    places = [int(name.rpartition("_")[2]) % 2 for name in measures]
    found = {"window_size": sizes, "measure_sizes": places}
    return found | _maybe(choose, 0.5, multi_window_rule="all")


def _daily(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    begins, ends = choose.choice(SESSIONS)
    params: dict[str, Any] = {"window_size": at.length(at.step), "session_begin": begins, "session_end": ends}
    params |= {"closed": choose.choice(["left", "left", "right"])} | _closing(choose, at)
    for name in ("merge_session_end", "merge_last_window", "use_window_start_time"):
        params |= _maybe(choose, 0.3, **{name: True})
    day = (EPOCH + timedelta(microseconds=at.base)).date()
    params |= _maybe(choose, 0.2, holidays=(day + timedelta(days=1)).isoformat())
    params |= _maybe(choose, 0.2, half_days=f"{day.isoformat()} 01:10") | _maybe(choose, 0.2, weekdays="1,2,4,6,7")
    return params | _maybe(choose, 0.3, key_purge_daily=False) | _fill(choose, measures, 0.45)


def _session(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    params: dict[str, Any] = {"session_gap": at.length(at.step * choose.choice([1, 1, 2]))}
    forms: list[dict[str, Any]] = [
        {},
        {"use_session_start_time": False},
        {"update_time": "0"},
        {"force_trigger_time": at.length(choose.choice([0, at.step, 3 * at.step]))},
        {"use_system_time": True},
    ]
    return params | choose.choice(forms)


def _panes(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    params = {"interval_duration": at.length(at.step * choose.randint(1, 3))}
    params |= _maybe(choose, 0.5, creation_period=at.length(at.step * choose.choice([1, 2, 4])))
    params |= _maybe(choose, 0.4, lag=at.length(choose.choice([1, at.step // at.tick]) * at.tick))
    params |= _maybe(choose, 0.3, minimum_gap=at.length(choose.choice([0, at.step])))
    params |= _maybe(choose, 0.2, discard_age=at.length(at.step))
    return params | _maybe(choose, 0.3, offset=at.length(at.step // at.tick // 2 * at.tick))


def _hops(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    params: dict[str, Any] = {"period": at.length(at.step)} | _aligned(choose, at)
    params |= {
        "duration": at.length(choose.choice([at.step, 2 * at.step, at.step // at.tick // 2 * at.tick or at.tick]))
    }
    return (
        params
        | {"default_end": at.instant(at.base + 20 * at.step)}
        | _maybe(choose, 0.4, output_policy="clip_to_window_end")
    )


def _compressed(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    lengths = {"period": at.length(at.step), "duration": at.length(at.step * choose.randint(1, 3))}
    return lengths | _aligned(choose, at)


def _aligned(choose: random.Random, at: Times) -> dict[str, Any]:
    offset = choose.randrange(-2 * at.step // at.tick, 2 * at.step // at.tick)
    return _maybe(choose, 0.5, alignment=at.instant(at.base + offset * at.tick))


def _count(choose: random.Random, at: Times, measures: Mapping[str, str]) -> dict[str, Any]:
    return {"count": choose.randint(1, 4)}


ENGINES: Final[Mapping[str, Callable[[random.Random, Times, Mapping[str, str]], dict[str, Any]]]] = {
    "time_series": _time_series,
    "daily_time_series": _daily,
    "session_window": _session,
    "reactive_state": lambda _choose, _at, _measures: {},
    "hopping_window": _hops,
    "compressed_hopping_window": _compressed,
    "snapshot_window": lambda _choose, _at, _measures: {},
    "count_window": _count,
    "event_time_window": _panes,
}
"""What draws the parameters of each engine, of which the measures are known."""
EVENTS: Final = ("hopping_window", "compressed_hopping_window", "snapshot_window", "count_window")
"""Engines of events that have an end."""


def state(draw: Drawing) -> str:
    """Return a measure of running state: a function over the rows of a key, or an expression over some."""
    choose = draw.choose

    def added() -> str:
        return choose.choice([draw.whole(1), "h", "h / 3D", "p", "k", "h * 2D", "l" if draw.is_hard else "k"])

    def call() -> str:
        n = choose.randint(1, 4)
        return choose.choice(
            [
                f"{choose.choice(['mavg', 'msum', 'mstd'])}({added()}, {n})",
                f"{choose.choice(['mmax', 'mmin', 'mcount'])}({draw.any(1)}, {n})",
                f"{choose.choice(['cumsum', 'cumavg'])}({added()})",
                f"{choose.choice(['cummax', 'cummin', 'cumcount'])}({draw.any(1)})",
                f"ema({added()}, {n})",
                f"prev({draw.any(1)})",
                f"move({draw.any(1)}, {choose.randint(0, 3)})",
                f"deltas({choose.choice(['h', 'k', 'p', 'id'])}, {n})",
                f"ratios({choose.choice(['h', 'k', 'p'])})",
            ]
        )

    if choose.random() < 0.75:
        return call()
    number = choose.choice(["mavg(h, 2)", "cumsum(k)", "ema(h, 2)", "mcount(x, 3)", "prev(k)"])
    return choose.choice(
        [f"{number} - {draw.whole(0)}", f"coalesce({call()}, NULL)", f"{number} > {draw.number(0)}", draw.any(1)]
    )


def added(draw: Drawing) -> str:
    """Return a measure whose value takes added rows, so that stored results need not be made again."""
    choose = draw.choose
    return choose.choice(
        [
            f"count({choose.choice(['*', draw.any(1)])})",
            f"sum({choose.choice(['k', 'h', 'p', draw.whole(1)])})",
            f"{choose.choice(['min', 'max'])}({draw.any(1)})",
            f"{choose.choice(['bool_and', 'bool_or'])}({draw.truth(1)})",
            f"{choose.choice(['bit_and', 'bit_or', 'bit_xor'])}({choose.choice(['k', 't'])})",
        ]
    )
