"""Cases of the windowing engines, through the public API: one Delta commit each, a refresh after every commit.

A case's parameters are the definition's, in snake case. Times of results are compared as ticks of the case's time type.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.errors import MaterializerError
from materializer.lake import places
from tests import tables
from tests.cases import comparing
from tests.cases.metrics import columns_of, to_sql
from tests.cases.reading import Case, Outcome
from tests.cases.world import How, World, condition
from tests.oracle.engines import cases as oracle
from tests.oracle.engines import ticks

ENGINES: Final[Mapping[str, str]] = {
    "timeSeries": "time_series",
    "dailyTimeSeries": "daily_time_series",
    "sessionWindow": "session_window",
    "reactiveState": "reactive_state",
    "hoppingInterval": "hopping_window",
    "hoppingIntervalCompressed": "compressed_hopping_window",
    "snapshotWindow": "snapshot_window",
    "countWindow": "count_window",
    "eventTimeWindow": "event_time_window",
}
"""Engines of the case files, and what the package calls them."""

WITH_SPARK: Final = (*ENGINES, "metric", "cascade")
WITHOUT_SPARK: Final = ("alignment", "sessionSchedule", "watermarkLog")

_LASTING: Final = ("hoppingInterval", "hoppingIntervalCompressed", "snapshotWindow", "countWindow")
_SECONDS: Final = ("intervalDuration", "creationPeriod", "offset", "lag", "minimumGap", "discardAge")
_OURS: Final = (
    *("timeColumn", "timeType", "keyColumn", "metrics", "where", "filter", "asOf", "lateness", "stages"),
    *("arrivalEqualsEventTime", "startColumn", "endColumn", "bound", "outputHandler", "msgAsTable"),
)
"""Parameters of cases that are no parameter of the engine by their own name."""

_RESOLUTION: Final = {"NANOTIMESTAMP": "ns", "Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}
_MICROS: Final = {"TIMESTAMP": 1_000, "DATETIME": 1_000_000, "DATE": 86_400_000_000}
"""Types of time whose columns are timestamps or dates, with the microseconds of a tick; others are whole numbers."""
_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ALL_ROWS: Final = 1 << 40
"""Width of the one bucket in which the rows of a ``metric`` case lie, by their ``_seq``."""


class Found(Struct):
    """What the package has made of a case.

    Args:
        final: Rows of closed windows.
        open: Provisional rows.
        by_commit: What became final with each commit; ``"None"``: by the clock alone.
        discarded: ``_seq`` of rows in quarantine.
    """

    final: list[dict[str, Any]] = field(default_factory=list)
    open: list[dict[str, Any]] = field(default_factory=list)
    by_commit: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    discarded: list[int] = field(default_factory=list)


# -- running -------------------------------------------------------------------------------------------------------------


def run(case: Case, how: How | None, recut: int | None = None) -> Outcome:
    """Do what a case says and compare.

    Args:
        case: The case.
        how: Needed by the kinds in :data:`WITH_SPARK`.
        recut: Seed; rows are cut into commits and shuffled at random, and final rows are those of the oracle under
            ``recompute``, on the grid of the uncut case.
    """
    if case["engine"] in WITHOUT_SPARK:
        return _without_spark(case)
    if case["expected_rows"] is None and not case["params"]:
        return Outcome(case["id"], passed=True, expected="prose only", found="nothing to define")
    assert how is not None
    if recut is not None and _can_be_recut(case):
        return _run_recut(case, how, recut)
    try:
        found = _play(case, how, oracle.lateness_of(case), None)
    except MaterializerError as exc:
        said = f"{type(exc).__name__}: {exc}"
        return Outcome(case["id"], bool(case.get("expected_error")), case.get("expected_error", "no error"), said)
    if case.get("expected_error"):
        return Outcome(case["id"], passed=False, expected="an error", found=found.final)
    if case["expected_rows"] is None:
        return Outcome(case["id"], passed=True, expected="accepted", found="accepted")
    return _compared(case, found)


def run_as_answered(case: Case, how: How) -> Outcome:
    """Play a case as it stands and compare with the oracle: final rows, those of each commit, and refused rows."""
    late = oracle.lateness_of(case)
    said = oracle.answer(case, lateness="recompute" if case["engine"] in _LASTING else late)
    found = _play(case, how, late, None)
    pairs: list[tuple[str, Any, Any]] = [("rows", said.final, found.final)]
    pairs += [(f"rows of commit {c}", rows, found.by_commit.get(c, [])) for c, rows in said.by_commit.items()]
    for what, expected, rows in pairs:
        if not _is_same(expected, rows, is_ordered=False):
            return Outcome(case["id"], False, {what: _readable(case, expected)}, {what: _readable(case, rows)})
    if case["engine"] not in _LASTING and sorted(said.discarded) != sorted(found.discarded):
        return Outcome(case["id"], False, {"discarded": sorted(said.discarded)}, {"discarded": sorted(found.discarded)})
    return Outcome(case["id"], passed=True)


def _compared(case: Case, found: Found) -> Outcome:
    for what, expected, rows in _claims(case, found):
        if not _is_same(expected, rows, is_ordered=bool(case.get("ordered"))):
            return Outcome(case["id"], False, {what: _readable(case, expected)}, {what: _readable(case, rows)})
    dropped = case.get("expected_discarded_seq")
    if dropped is not None and sorted(dropped) != sorted(found.discarded):
        return Outcome(case["id"], False, {"discarded": sorted(dropped)}, {"discarded": sorted(found.discarded)})
    return Outcome(case["id"], passed=True)


def _claims(case: Case, found: Found) -> Iterable[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Yield (what, expected, found) of everything that a case says about rows."""
    compare = case.get("compare", "rows")
    if compare == "log":  # a batch shows what the last calculation of each window has left
        kept = {
            tuple(row[c] for c in ("time", *_keys(_last(case)["params"]))): row
            for row in _ticks(case, case["expected_rows"])
        }
        expected = [{c: v for c, v in row.items() if c not in ("at", "why")} for row in kept.values()]
        yield "rows", expected, [*found.final, *found.open]
        return
    shown = [*found.final, *found.open] if compare == "upsert_rows" else found.final
    yield "rows", _ticks(case, case["expected_rows"]), shown
    if case.get("expected_open_rows") is not None:
        yield "open rows", _ticks(case, case["expected_open_rows"]), found.open
    for commit, rows in case.get("expected_by_commit", {}).items():
        yield f"rows of commit {commit}", _ticks(case, rows), found.by_commit.get(commit, [])


def _is_same(expected: list[dict[str, Any]], found: list[dict[str, Any]], *, is_ordered: bool) -> bool:
    if is_ordered:
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(comparing.is_same_rows([a], [b]) for a, b in pairs)
    return comparing.is_same_rows(expected, found) if expected else not found


def _can_be_recut(case: Case) -> bool:
    """Whether rows may come in any order: not where the order of arrival is the time."""
    if case["expected_rows"] is None or case.get("expected_error") or case.get("compare") == "log":
        return False
    return not case["params"].get("useSystemTime")


def _run_recut(case: Case, how: How, seed: int) -> Outcome:
    draw = random.Random(f"{seed} {case['id']}")
    rows = list(case["input_rows"])
    commits = draw.randint(1, max(1, min(5, len(rows))))
    cut = {**case, "input_rows": [row | {"_commit": draw.randint(1, commits)} for row in draw.sample(rows, len(rows))]}
    origin = oracle.answer(case).origin
    expected = oracle.answer(cut, lateness="recompute", origin=origin)
    found = _play(cut, how, "recompute", origin)
    timed = [[_without_firing(row) for row in of] for of in (expected.final, found.final)]
    is_same = _is_same(timed[0], timed[1], is_ordered=bool(case.get("ordered")))
    return Outcome(case["id"], is_same, *({"rows": _readable(case, of)} for of in timed))


def _without_firing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Which firing of a pane it is depends on the commits."""
    return {c: v for c, v in row.items() if c not in ("paneIndex", "paneTiming")}


# -- through the public API ----------------------------------------------------------------------------------------------


def _play(case: Case, how: How, lateness: str, origin: int | None) -> Found:
    """Define, commit, refresh after each commit, and read what there is."""
    world = World(how, case["id"])
    source = Source(world.path("source"), case, how.has_feed)
    source.create()
    names = _define(case, world, source, lateness, origin)
    found = Found()
    if case["expected_rows"] is None:
        return found
    commits = sorted({row.get("_commit", 1) for row in case["input_rows"]})
    for commit in commits:
        source.insert([row for row in case["input_rows"] if row.get("_commit", 1) == commit])
        _refresh(case, world, names, None, found, str(commit))
    clock = oracle.clock_of(case)
    if clock is not None or not commits:
        _refresh(case, world, names, _text(clock, source.time_type), found, "None")
    found.open = _open_rows(case, world, names[-1])
    found.discarded = _discarded(world, names[0])
    return found


def _refresh(
    case: Case, world: World, names: Sequence[str], clock: str | int | None, found: Found, commit: str
) -> None:
    for number, name in enumerate(names):
        world.refreshed(name, as_of=None if number else clock)
    shown = [_shown(case, row) for row in _in_order(case, world.rows(names[-1])) if row.get("is_final", True)]
    found.by_commit[commit] = _new_rows(shown, found.final)
    found.final = shown


def _new_rows(now: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    left, found = list(before), []
    for row in now:
        if row in left:
            left.remove(row)
        else:
            found.append(row)
    return found


class Source(Struct, frozen=True):
    """The Delta table that a case's rows are committed to.

    Args:
        path: Where it lies.
        case: The case.
        has_feed: Whether it keeps a change feed.
    """

    path: str
    case: Case
    has_feed: bool

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the engine that reads it."""
        params: Mapping[str, Any] = _stages(self.case)[0]["params"]
        return params

    @property
    def time_type(self) -> str:
        """The case's type of time."""
        return str(self.params.get("timeType", "TIMESTAMP"))

    @property
    def times(self) -> tuple[str, ...]:
        """Columns that are times; the first is the event time. A pair of date and time of day is joined to one."""
        if self.case["engine"] in _LASTING:
            return self.params.get("startColumn", "start"), self.params.get("endColumn", "end")
        column = self.params.get("timeColumn")
        return () if column is None else (column,) if isinstance(column, str) else ("_time",)

    def create(self) -> None:
        """Create it, empty, with columns that fit the rows it will be given."""
        given = [self._row(row) for row in self.case["input_rows"]]
        types = {column: _type_of(row.get(column) for row in given) for row in given for column in row}
        if not given:
            types = {column: pa.float64() for m in _flat(self.params["metrics"]) for column in columns_of(m["expr"])}
            types |= dict.fromkeys(_keys(self.params), pa.string()) | {"_seq": pa.int64()}
        types |= dict.fromkeys(self.times, self._column_type())
        tables.create(self.path, pa.schema(list(types.items())), feed=self.has_feed)

    def insert(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows in one commit."""
        schema = pa.schema(DeltaTable(self.path).schema().to_arrow())
        given = [self._row(row) for row in rows]
        columns = {f.name: [row.get(f.name) for row in given] for f in schema}
        tables.append(self.path, pa.table(columns, schema=schema))

    def _row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        kept = {column: value for column, value in row.items() if column not in ("_commit", *self.times)}
        by = self.params.get("timeColumn")
        for column in self.times:
            kept[column] = self._value(ticks.joined(row, by if isinstance(by, list) else column, self.time_type))
        return kept

    def _value(self, tick: int | None) -> Any:
        if tick is None or self.time_type not in _MICROS:
            return tick
        at = _EPOCH + timedelta(microseconds=tick * _MICROS[self.time_type])
        return at.date() if self.time_type == "DATE" else at

    def _column_type(self) -> pa.DataType:
        if self.time_type not in _MICROS:
            return pa.int64()
        return pa.date32() if self.time_type == "DATE" else pa.timestamp("us", "UTC")


def _type_of(values: Iterable[Any]) -> pa.DataType:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    return pa.bool_() if kinds == {bool} else pa.string()


# -- definitions ---------------------------------------------------------------------------------------------------------


def _define(case: Case, world: World, source: Source, lateness: str, origin: int | None) -> list[str]:
    """Define every stage and return the names, the last of which holds the result."""
    names: list[str] = []
    stages = _stages(case)
    for number, stage in enumerate(stages):
        params, engine = stage["params"], stage["engine"]
        parts = _parts(params) | ({} if engine == "metric" else _engine_parts(engine, params, source.time_type))
        follower = stages[number + 1]["params"].get("timeColumn") if number + 1 < len(stages) else oracle.label_of(case)
        if engine == "metric":
            parts |= {"time": "_seq", "width": _ALL_ROWS}
        elif number == 0:
            parts |= {"time": (*source.times, "_seq")[0], "sequence": "_seq"}
            parts["lateness"] = "recompute" if engine in _LASTING else lateness  # events that last are never late
        else:  # what a stage says is corrected when it was wrong
            parts |= {"time": params.get("timeColumn", "time"), "lateness": "recompute"}
            parts["where"] = " AND ".join(["is_final", *([parts["where"]] if parts["where"] else [])])
        if follower not in (None, "time") and engine not in (*_LASTING, "metric"):
            parts["label"] = follower
        if origin is not None and number == 0:
            parts["origin"] = _text(origin, source.time_type)
        path = source.path if number == 0 else f"{world.materializer.root}/{names[-1]}/output"
        names.append(f"stage{number}" if len(stages) > 1 else "result")
        world.materializer.define(names[-1], path, **parts)
    return names


def _parts(params: Mapping[str, Any]) -> dict[str, Any]:
    metrics = params.get("metrics", [])
    measures = [_measures(of) for of in metrics] if isinstance(params.get("windowSize"), list) else _measures(metrics)
    where = " AND ".join(condition(w, lambda column: f"`{column}`") for w in params.get("where") or [])
    return {"keys": list(_keys(params)), "measures": measures, "where": where or None}


def _measures(metrics: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {m["name"]: to_sql(m["expr"]) for m in metrics}


def _engine_parts(engine: str, params: Mapping[str, Any], time_type: str) -> dict[str, Any]:
    """Return the engine's own parameters, in snake case."""
    parts: dict[str, Any] = {"engine": ENGINES[engine]}
    parts |= {_snake(name): _given(name, value) for name, value in params.items() if name not in _OURS}
    if engine in _LASTING:
        parts["end"] = params.get("endColumn", "end")
        if params.get("bound") is not None:
            parts["default_end"] = params["bound"]
    elif params.get("filter"):
        parts["filter"] = " AND ".join(condition(w, lambda column: f"`{column}`") for w in params["filter"])
    if "timeType" in params and engine != "eventTimeWindow" and time_type not in ticks.INTEGERS:
        parts["time_kind"] = time_type.lower()
    resolution = _RESOLUTION.get(parts.pop("resolution", time_type))
    return parts if resolution is None else parts | {"resolution": resolution}


def _given(name: str, value: Any) -> Any:
    if name in _SECONDS:
        return float(value)
    return _snake(value) if name == "outputPolicy" else value


def _snake(name: str) -> str:
    """Return a name of a case in the package's spelling.

    Examples:
        >>> _snake("keyPurgeFreqInSec"), _snake("PointAlignToWindowEnd")
        ('key_purge_freq_in_sec', 'point_align_to_window_end')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# -- results -------------------------------------------------------------------------------------------------------------


def _shown(case: Case, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the output as the case writes it, with times as ticks."""
    stage, time_type = _last(case), str(_stages(case)[0]["params"].get("timeType", "TIMESTAMP"))
    engine, params = stage["engine"], stage["params"]
    shown = {name: row[name] for name in (*_keys(params), *(m["name"] for m in _flat(params["metrics"])))}
    if engine in ("reactiveState", "metric"):
        return shown
    if engine == "eventTimeWindow":
        start, end = (_tick(row[column], time_type) for column in ("window_start", "window_end"))
        firing = {"paneIndex": row["pane_index"], "paneTiming": row["timing"]} if row["is_final"] else {}
        return {"interval_start": start, "interval_end": end} | firing | shown
    label = _tick(row[oracle.label_of(case) or "time"], time_type)
    if engine not in _LASTING:
        return {"time": label} | shown
    start, end = (_tick(row[column], time_type) for column in ("window_start", "window_end"))
    lives = {}
    if engine == "hoppingInterval":
        lives = {"event_start": label, "event_end": end if label == start else label + 1}
    return {"window_start": start, "window_end": end} | lives | shown


def _in_order(case: Case, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows by their label, which puts the rows of a reactive state engine as they came."""
    label = oracle.label_of(case) or "time"
    return sorted(rows, key=lambda row: row.get(label) or 0)


def _open_rows(case: Case, world: World, name: str) -> list[dict[str, Any]]:
    """Provisional rows: those shown, or where the engine shows none, those that it holds for open windows."""
    shown = [row for row in world.rows(name) if not row.get("is_final", True)]
    if shown or _last(case)["engine"] == "metric" or "updateTime" in _last(case)["params"]:
        return [_shown(case, row) for row in shown]
    folder = f"{world.materializer.root}/{name}/partials"
    versions = places.names(folder)  # of the definition: one
    held = [row for version in versions for row in DeltaTable(f"{folder}/{version}").to_pyarrow_table().to_pylist()]
    label = oracle.label_of(case) or "time"
    plain = {"label": label, "w_start": "window_start", "w_end": "window_end"}
    return [
        _shown(case, {plain.get(c, c.removeprefix("k_").removeprefix("v_")): v for c, v in row.items()})
        for row in held
        if not row["is_final"] and row["n"]
    ]


def _discarded(world: World, name: str) -> list[int]:
    path = f"{world.materializer.root}/{name}/quarantine"
    if not DeltaTable.is_deltatable(path):
        return []
    return [row["_seq"] for row in DeltaTable(path).to_pyarrow_table(columns=["_seq"]).to_pylist()]


def _tick(instant: int | None, time_type: str) -> Any:
    """Return an instant of the package, microseconds or a bare number, as ticks; between two ticks it stays a fraction."""
    return None if instant is None else Fraction(instant, _MICROS.get(time_type, 1))


def _text(tick: int | None, time_type: str) -> str | int | None:
    """Return ticks as the text that the package takes for an instant."""
    return None if tick is None else ticks.shown(tick, time_type) if time_type in _MICROS else tick


def _ticks(case: Case, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return oracle.expected(case, rows)


def _readable(case: Case, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with times as text again."""
    time_type = str(_stages(case)[0]["params"].get("timeType", "TIMESTAMP"))
    times = ("time", *oracle.SPANS) if oracle.label_of(case) or _last(case)["engine"] != "reactiveState" else ()
    return [
        {c: ticks.shown(int(v), time_type) if c in times and v == int(v or 0) else v for c, v in row.items()}
        for row in rows
    ]


# -- what a case holds ---------------------------------------------------------------------------------------------------


def _stages(case: Case) -> list[Mapping[str, Any]]:
    if case["engine"] == "cascade":
        return list(case["params"]["stages"])
    return [{"engine": case["engine"], "params": case["params"]}]


def _last(case: Case) -> Mapping[str, Any]:
    return _stages(case)[-1]


def _keys(params: Mapping[str, Any]) -> tuple[str, ...]:
    given = params.get("keyColumn") or ()
    return (given,) if isinstance(given, str) else tuple(given)


def _flat(metrics: Sequence[Any]) -> list[Mapping[str, str]]:
    return [m for group in metrics for m in (group if isinstance(group, list) else [group])]


# -- without a JVM -------------------------------------------------------------------------------------------------------


def _without_spark(case: Case) -> Outcome:
    found = {"alignment": _alignment, "sessionSchedule": _sessions, "watermarkLog": _watermarks}[case["engine"]](case)
    expected = _ticks(case, case["expected_rows"])
    is_same = _is_same(expected, found, is_ordered=bool(case.get("ordered")))
    return Outcome(case["id"], is_same, expected, found)


def _alignment(case: Case) -> list[dict[str, Any]]:
    from materializer.core.engines.alignment import alignment_size, first_window

    params, found = case["params"], []
    kind, step = params["timeType"], params["step"]
    how = {"round_time": params.get("roundTime", True), "profile": params.get("alignmentProfile", "en")}
    for row in case["input_rows"]:
        size = alignment_size(kind.lower(), step, **how)
        first = ticks.parse(row["first_record"], kind) or 0
        start, end = first_window(first, step, params["windowSize"], size)
        found.append({"alignmentSize": size, "first_window_start": start, "first_window_end": end})
    return found


def _sessions(case: Case) -> list[dict[str, Any]]:
    from materializer.core.engines.trading_calendar import schedule

    params = case["params"]
    lists = (params[name] for name in ("sessionBegin", "sessionEnd"))
    begins, ends = ([ticks.parse(t, "SECOND") or 0 for t in ([of] if isinstance(of, str) else of)] for of in lists)
    found = schedule(begins, ends, _DAY, merges=params.get("mergeSession", False))
    first = found[0][0] // _DAY * _DAY
    return [{"begin": _of_day(begin - first), "end": _of_day(end - first)} for begin, end in found]


def _of_day(second: int) -> str:
    return f"D+{second // _DAY} {ticks.shown(second % _DAY, 'SECOND')}"


def _watermarks(case: Case) -> list[dict[str, Any]]:
    watermarks = import_module("materializer.core.engines.event_time_window").watermarks
    params, kind = case["params"], case["params"].get("timeType", "TIMESTAMP")
    times = [(row["_seq"], ticks.joined(row, params["timeColumn"], kind)) for row in case["input_rows"]]
    counted = [(seq, t) for seq, t in times if t is not None]
    given = params.get("lag", 0.0), params.get("minimumGap", oracle.DEFAULT_GAP)
    lag, gap = (round(seconds * ticks.PER_SECOND[kind]) for seconds in given)
    moved = watermarks([t for _, t in counted], lag, gap)
    return [{"after_seq": counted[position][0], "watermark": watermark} for position, watermark in moved]
