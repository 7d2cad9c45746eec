"""Engine cases: what the oracles answer to one, in the terms of the case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from tests.oracle.engines import (
    alignment,
    event_time,
    intervals,
    reactive_state,
    session_window,
    sessions,
    ticks,
    time_series,
    updates,
)
from tests.oracle.engines.metrics import evaluate
from tests.oracle.engines.rows import Answer, Event, Key, Lateness, RefusedError, Row, events

Case = Mapping[str, Any]

SPANS: Final = ("window_start", "window_end", "event_start", "event_end", "interval_start", "interval_end")
"""Columns of results that are times, besides the label."""

DEFAULT_GAP: Final = 0.1


class Said(Struct, frozen=True):
    """What the oracle says to a case; times as ticks.

    Args:
        final: Rows of closed windows.
        open: Provisional rows.
        discarded: ``_seq`` of the rows that were dropped.
        by_commit: What became final with each commit, by its number as text; ``"None"``: by the clock alone.
        origin: Where the grid is anchored, for engines that take it from their first row.
    """

    final: list[dict[str, Any]]
    open: list[dict[str, Any]] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    by_commit: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    origin: int | None = None


def lateness_of(case: Case) -> Lateness:
    """Return the case's lateness: as it says, ``delay`` with an accepted delay, otherwise ``strict``."""
    params = case["params"]
    default: Lateness = "delay" if params.get("acceptedDelay") and not params.get("useSystemTime") else "strict"
    said: Lateness = params.get("lateness") or case.get("lateness") or default
    return said


def answer(case: Case, *, lateness: Lateness | None = None, origin: int | None = None) -> Said:
    """Return what a case has to give.

    Args:
        case: The case.
        lateness: In place of the case's own.
        origin: Where the grid is anchored, in place of the first row's.

    Raises:
        RefusedError: If the definition or the run must be refused.
    """
    kind, late = case["engine"], lateness or lateness_of(case)
    if kind in _LOOKUPS:
        return Said(_LOOKUPS[kind](case))
    stages = case["params"]["stages"] if kind == "cascade" else [{"engine": kind, "params": case["params"]}]
    if kind == "timeSeries" and case.get("compare") == "log":
        return Said(_log(case))
    rows: Sequence[Row] = case["input_rows"]
    clock = clock_of(case)
    commits = sorted({row.get("_commit", 1) for row in rows})
    steps: list[tuple[str, Sequence[Row], int | None]] = [
        (str(commit), [r for r in rows if r.get("_commit", 1) <= commit], None) for commit in commits
    ]
    if clock is not None or not steps:
        steps.append(("None", rows, clock))
    seen: list[Answer] = [Answer()]
    by_commit: dict[str, list[dict[str, Any]]] = {}
    for name, prefix, as_of in steps:
        seen.append(_through(stages, prefix, late, as_of, origin))
        by_commit[name] = _without(seen[-1].final, seen[-2].final)
    anchored = _origin(stages[0]["params"], rows) if stages[0]["engine"] == "timeSeries" else None
    return Said(seen[-1].final, seen[-1].open, seen[-1].discarded, by_commit, anchored)


def expected(case: Case, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows of a case with times as ticks; the label is called ``time``."""
    kinds = _time_type(case), label_of(case)
    return [{("time" if c == kinds[1] else c): _tick(c, v, *kinds) for c, v in row.items()} for row in rows]


def label_of(case: Case) -> str | None:
    """Return the column that labels windows: the first that is neither key nor metric; None where there is none."""
    params = case["params"]["stages"][-1]["params"] if case["engine"] == "cascade" else case["params"]
    names = {m["name"] for m in _flat(params.get("metrics", []))} | set(_keys(params))
    wanted = [c for row in case["expected_rows"] or [] for c in row if c not in names]
    if case["engine"] in _LOOKUPS:
        return None
    if not wanted:
        last = case["params"]["stages"][-1]["engine"] if case["engine"] == "cascade" else case["engine"]
        return None if last in ("reactiveState", "metric") else "time"
    return None if wanted[0] in SPANS else next((c for c in wanted if c not in ("at", "why")), None)


def _time_type(case: Case) -> str:
    params = case["params"]["stages"][0]["params"] if case["engine"] == "cascade" else case["params"]
    return str(params.get("timeType", "TIMESTAMP"))


def _tick(column: str, value: Any, time_type: str, label: str | None) -> Any:
    is_time = column == label or column in SPANS or column in ("at", "watermark") or column.startswith("first_")
    return ticks.parse(value, time_type) if is_time else value


def _without(now: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    left = list(before)
    found = []
    for row in now:
        if row in left:
            left.remove(row)
        else:
            found.append(dict(row))
    return found


# -- stages --------------------------------------------------------------------------------------------------------------


def _through(
    stages: Sequence[Mapping[str, Any]], rows: Sequence[Row], late: Lateness, as_of: int | None, origin: int | None
) -> Answer:
    """What the last stage has said: final rows of a stage are the input of the next, in order of their labels."""
    found = Answer()
    given = rows
    for number, stage in enumerate(stages):
        params = stage["params"]
        if number:  # its rows are labelled in ticks
            params = {"timeType": stages[0]["params"].get("timeType", "TIMESTAMP"), **params, "timeColumn": "time"}
        found = _ENGINES[stage["engine"]](params, given, late, as_of, origin)
        given = [{**row, "_seq": i} for i, row in enumerate(sorted(found.final, key=lambda r: r.get("time", 0)))]
        origin, as_of = None, None
    return found


def _keys(params: Mapping[str, Any]) -> tuple[str, ...]:
    given = params.get("keyColumn") or ()
    return (given,) if isinstance(given, str) else tuple(given)


def _flat(metrics: Sequence[Any]) -> list[Row]:
    return [m for group in metrics for m in (group if isinstance(group, list) else [group])]


def _events(params: Mapping[str, Any], rows: Sequence[Row], column: str = "timeColumn") -> list[Event]:
    time_type = params.get("timeType", "TIMESTAMP")
    by = params.get(column, "_seq")

    def time(row: Row) -> int | None:
        return ticks.joined(row, by, time_type)

    return events(rows, time=time, keys=_keys(params), where=params.get("where") or ())


def clock_of(case: Case) -> int | None:
    """Return where the clock stands after the last commit, None where it plays no part.

    The clock of a session engine that is to be flushed stands that long after its last row.
    """
    params = case["params"]["stages"][0]["params"] if case["engine"] == "cascade" else case["params"]
    time_type = params.get("timeType", "TIMESTAMP")
    if params.get("asOf") is not None:
        return ticks.parse(params["asOf"], time_type)
    if case["engine"] == "sessionWindow" and params.get("forceTriggerTime") is not None:
        return max(e.t for e in _events(params, case["input_rows"])) + int(params["forceTriggerTime"])
    return None


def setting_of(params: Mapping[str, Any], origin: int | None = None) -> time_series.Setting:
    """Return the parameters of a time-series engine, in ticks."""
    sizes, metrics = params["windowSize"], params["metrics"]
    is_many = isinstance(sizes, list)
    fill = params.get("fill", "none")
    part = params.get("subWindow")
    time_type = params.get("timeType", "TIMESTAMP")
    given = params.get("origin") if origin is None else origin
    return time_series.Setting(
        sizes=tuple(sizes) if is_many else (sizes,),
        groups=tuple(metrics) if is_many else (metrics,),
        step=params["step"],
        keys=_keys(params),
        fills=() if fill == "none" else tuple(fill) if isinstance(fill, list) else (fill,) * len(_flat(metrics)),
        holds_end=params.get("closed", "left") == "right",
        shows_start=params.get("useWindowStartTime", False),
        delay=params.get("acceptedDelay") or 0,
        force=params.get("forceTriggerTime"),
        part=None if part is None else (int(part[0]), int(part[1])),
        is_system_time=params.get("useSystemTime", False),
        needs_all=params.get("multiWindowRule", "largest") == "all",
        origin=ticks.parse(given, time_type),
        time_type=time_type,
        round_time=params.get("roundTime", True),
        profile=params.get("alignmentProfile", "en"),
        is_grid_of_key=params.get("gridOrigin", "engine") == "key",
    )


def _origin(params: Mapping[str, Any], rows: Sequence[Row]) -> int | None:
    return time_series.grid_origin(_events(params, rows), setting_of(params))


def _time_series(
    params: Mapping[str, Any], rows: Sequence[Row], late: Lateness, as_of: int | None, origin: int | None
) -> Answer:
    return time_series.run(_events(params, rows), setting_of(params, origin), lateness=late, as_of=as_of)


def daily_of(params: Mapping[str, Any]) -> sessions.Daily:
    """Return what a daily engine has beyond the time-series engine, in ticks."""
    time_type = params.get("timeType", "TIMESTAMP")
    return sessions.Daily(
        sessions=_schedule(params, time_type),
        day=int(86_400 * ticks.PER_SECOND[time_type]),
        merges_end=params.get("mergeSessionEnd", False),
        merges_last=params.get("mergeLastWindow", False),
        purges=params.get("keyPurgeDaily", True),
        force_end=params.get("forceTriggerSessionEndTime"),
    )


def _schedule(params: Mapping[str, Any], time_type: str) -> list[tuple[int, int]]:
    begins, ends = (
        [ticks.parse(t, time_type) or 0 for t in ([of] if isinstance(of, str) else of)]
        for of in (params["sessionBegin"], params["sessionEnd"])
    )
    day = int(86_400 * ticks.PER_SECOND[time_type])
    return sessions.schedule(begins, ends, day, merges=params.get("mergeSession", False))


def _daily(
    params: Mapping[str, Any], rows: Sequence[Row], late: Lateness, as_of: int | None, _origin: int | None
) -> Answer:
    return sessions.run(_events(params, rows), setting_of(params), daily_of(params), lateness=late, as_of=as_of)


def _session_window(
    params: Mapping[str, Any], rows: Sequence[Row], late: Lateness, as_of: int | None, _origin: int | None
) -> Answer:
    return session_window.run(
        _events(params, rows),
        params["metrics"],
        gap=params["sessionGap"],
        keys=_keys(params),
        lateness=late,
        shows_start=params.get("useSessionStartTime", True),
        force=params.get("forceTriggerTime"),
        as_of=as_of,
    )


def _reactive(
    params: Mapping[str, Any], rows: Sequence[Row], late: Lateness, _as_of: int | None, _origin: int | None
) -> Answer:
    found = _events(params if "timeColumn" in params else {**params, "timeType": "LONG"}, rows)
    where = params.get("filter") or ()
    return reactive_state.run(found, params["metrics"], keys=_keys(params), lateness=late, where=where)


def _lasting(params: Mapping[str, Any], rows: Sequence[Row]) -> list[intervals.Lasting]:
    time_type, end = params.get("timeType", "TIMESTAMP"), params.get("endColumn", "end")
    begin = {"start": params.get("startColumn", "start"), **params}
    ends = [(e, ticks.parse(e.row.get(end), time_type)) for e in _events(begin, rows, "start")]
    return [intervals.Lasting(e, e.t, None if until is None else max(until, e.t + 1)) for e, until in ends]


def _grid(params: Mapping[str, Any]) -> dict[str, int]:
    anchored = ticks.parse(params.get("alignment", 0), params.get("timeType", "TIMESTAMP")) or 0
    return {"duration": params["duration"], "period": params["period"], "alignment": anchored}


def _over_lasting(kind: str) -> Callable[..., Answer]:
    def run(
        params: Mapping[str, Any], rows: Sequence[Row], _late: Lateness, as_of: int | None, _origin: int | None
    ) -> Answer:
        found = _lasting(params, rows)
        seen = intervals.Seen(params["metrics"], _keys(params), as_of)
        if kind == "snapshotWindow":
            return intervals.snapshots(found, seen)
        if kind == "countWindow":
            return intervals.counts(found, seen, count=params["count"])
        if kind == "hoppingIntervalCompressed":
            return intervals.compressed(found, seen, **_grid(params))
        clips = params.get("outputPolicy", "PointAlignToWindowEnd") == "ClipToWindowEnd"
        bound = ticks.parse(params.get("bound"), params.get("timeType", "TIMESTAMP"))
        return intervals.hopping(found, seen, **_grid(params), clips=clips, bound=bound)

    return run


def panes_of(params: Mapping[str, Any]) -> event_time.Panes:
    """Return the panes of an event-time engine; its lengths are seconds."""
    duration = params["intervalDuration"]
    return event_time.Panes(
        duration=_of_seconds(duration, params),
        period=_of_seconds(params.get("creationPeriod", duration), params),
        offset=_of_seconds(params.get("offset", 0), params),
        lag=_of_seconds(params.get("lag", 0), params),
        gap=_of_seconds(params.get("minimumGap", DEFAULT_GAP), params),
        age=_of_seconds(params.get("discardAge", 0), params),
    )


def _of_seconds(seconds: float, params: Mapping[str, Any]) -> int:
    per = {"Milliseconds": 1_000, "Microseconds": 1_000_000, "Nanoseconds": 1_000_000_000}
    time_type = params.get("timeType", "TIMESTAMP")
    whole = ticks.PER_SECOND.get(time_type) or per[params.get("resolution", "Milliseconds")]
    return round(seconds * whole)


def _event_time(
    params: Mapping[str, Any], rows: Sequence[Row], late: Lateness, _as_of: int | None, _origin: int | None
) -> Answer:
    return event_time.run(_events(params, rows), params["metrics"], panes_of(params), keys=_keys(params), lateness=late)


def _metric(
    params: Mapping[str, Any], rows: Sequence[Row], _late: Lateness, _as_of: int | None, _origin: int | None
) -> Answer:
    keys = _keys(params)
    found = events(rows, time=lambda row: row["_seq"], keys=keys, where=params.get("where") or ())
    groups: list[Key] = list(dict.fromkeys(e.key for e in found)) if keys else [()]
    said = []
    for key in groups:
        members = [e.row for e in found if e.key == key]
        values = {m["name"]: evaluate(m["expr"], members) for m in params["metrics"]}
        said.append(dict(zip(keys, key, strict=True)) | values)
    return Answer(said)


# -- cases without windows -----------------------------------------------------------------------------------------------


def _alignment(case: Case) -> list[dict[str, Any]]:
    params = case["params"]
    how = {"round_time": params.get("roundTime", True), "profile": params.get("alignmentProfile", "en")}
    time_type, step, size = params["timeType"], params["step"], params["windowSize"]
    found = []
    for row in case["input_rows"]:
        first = ticks.parse(row["first_record"], time_type) or 0
        end = alignment.origin(first, time_type, step, **how) + step
        aligned = alignment.size(time_type, step, **how)
        found.append({"alignmentSize": aligned, "first_window_start": end - size, "first_window_end": end})
    return found


def _session_schedule(case: Case) -> list[dict[str, Any]]:
    def shown(second: int) -> str:
        return f"D+{second // 86_400} {ticks.shown(second % 86_400, 'SECOND')}"

    found = _schedule(case["params"], "SECOND")
    midnight = found[0][0] - found[0][0] % 86_400
    return [{"begin": shown(begin - midnight), "end": shown(end - midnight)} for begin, end in found]


def _watermark_log(case: Case) -> list[dict[str, Any]]:
    params = case["params"]
    found = [(e.seq, e.t) for e in _events(params, case["input_rows"])]
    lag, gap = (_of_seconds(params.get(n, d), params) for n, d in (("lag", 0), ("minimumGap", DEFAULT_GAP)))
    return [{"after_seq": s, "watermark": w} for s, w in event_time.watermarks(found, lag=lag, gap=gap)]


def _log(case: Case) -> list[dict[str, Any]]:
    params = case["params"]
    found, setting = _events(params, case["input_rows"]), setting_of(params)
    return updates.log(
        found,
        setting.metrics,
        keys=setting.keys,
        origin=time_series.grid_origin(found, setting) or 0,
        step=setting.step,
        update=params["updateTime"],
        second=int(ticks.PER_SECOND[setting.time_type]),
    )


_LOOKUPS: Final[Mapping[str, Callable[[Case], list[dict[str, Any]]]]] = {
    "alignment": _alignment,
    "sessionSchedule": _session_schedule,
    "watermarkLog": _watermark_log,
}
_ENGINES: Final[Mapping[str, Callable[..., Answer]]] = {
    "timeSeries": _time_series,
    "dailyTimeSeries": _daily,
    "sessionWindow": _session_window,
    "reactiveState": _reactive,
    "hoppingInterval": _over_lasting("hoppingInterval"),
    "hoppingIntervalCompressed": _over_lasting("hoppingIntervalCompressed"),
    "snapshotWindow": _over_lasting("snapshotWindow"),
    "countWindow": _over_lasting("countWindow"),
    "eventTimeWindow": _event_time,
    "metric": _metric,
}

ENGINES: Final = (*_ENGINES, *_LOOKUPS, "cascade")
"""Every kind of engine case that the oracles answer."""

__all__ = ["ENGINES", "Case", "RefusedError", "Said", "answer", "expected", "label_of", "lateness_of"]
