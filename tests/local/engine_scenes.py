"""Scenes of engines: a source with a short history, one engine over it, and many random definitions that differ in their measures."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from materializer.core.refresh.plan import BY_KEY
from materializer.core.spec.spec import TimeType
from tests import tables
from tests.local.comparing import arrow_of, rows_of
from tests.local.drawing import COLUMNS, Drawing
from tests.local.engine_drawing import ENGINES, EVENTS, Times, added, sized, state
from tests.local.scenes import Drawn

EACH: Final = 24
"""Definitions of a scene."""
TIME, END, ID = "at", "fin", "id"


class EngineScene:
    """One scene.

    Args:
        number: What everything follows from.
        folder: Where its tables lie.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        choose = random.Random(f"engine scene {number}")
        self.engine = list(ENGINES)[number % len(ENGINES)]
        self.at = Times.drawn(choose, self.engine)
        self.is_mergeable = choose.random() < 0.6
        self.is_hard = choose.random() < 0.2
        draw = Drawing(choose, self.is_hard)
        self.keys = {
            f"key{i}": choose.choice(["x", "b", "t", draw.key()]) for i in range(choose.choice([0, 1, 1, 1, 2]))
        }
        self.where = draw.truth(2) if choose.random() < 0.35 else None
        self.sequence = choose.choice([ID, ID, ID, None, "i", "x"])
        self.lateness = choose.choice(["strict", "delay"]) if choose.random() < 0.06 else "recompute"
        self.slice = choose.choice([None, None, 1, 3, 10])
        self.has_end = self.engine in EVENTS and (self.engine != "count_window" or choose.random() < 0.5)
        kind = arrow_of(self.at.kind.value)
        columns = [(TIME, kind), (END, kind), (ID, pa.int64()), *((c, arrow_of(k)) for c, k in COLUMNS.items())]
        self.schema = pa.schema(columns)
        self.filter = draw.truth(1) if self.engine == "reactive_state" and choose.random() < 0.4 else None
        self.is_retained = self.at.kind is TimeType.TIMESTAMP and choose.random() < 0.12
        self.slice = 1 if self.is_retained else self.slice
        self.is_sized = self.engine == "time_series" and choose.random() < 0.25
        self.is_added = self.engine == "session_window" and choose.random() < 0.4
        self.ids = 0

    # -- what it has -----------------------------------------------------------------------------------------------------

    def drawn(self, number: int) -> Drawn:
        """Return one of its definitions."""
        choose = random.Random(f"engine definition {self.number} {number}")
        draw = Drawing(choose, self.is_hard)
        count = choose.choice([2, 2, 3]) if self.is_sized else choose.choice([1, 1, 2, 3])
        if self.engine == "reactive_state":
            return Drawn(number, {f"m{number}_{i}": state(draw) for i in range(count)}, "")
        if self.is_added:
            return Drawn(number, {f"m{number}_{i}": added(draw) for i in range(count)}, "")
        measures = {f"m{number}_{i}": draw.measure(is_mergeable=self.is_mergeable) for i in range(count)}
        return Drawn(number, measures, "")

    def parts(self, measures: Mapping[str, str]) -> dict[str, Any]:
        """Return what defines an aggregate with some measures."""
        choose = random.Random(f"engine parameters {self.number}")
        params = ENGINES[self.engine](choose, self.at, measures)
        if self.is_sized:
            params = {n: v for n, v in params.items() if n not in {"sub_window", "use_window_start_time"}}
            params |= sized(choose, self.at, measures)
        params |= {"slice": self.at.length(self.slice * self.at.step)} if self.slice else {}
        params |= {"end": END} if self.has_end else {}
        params |= {"filter": self.filter} if self.filter else {}
        given = {"engine": self.engine, "keys": self.keys, "measures": dict(measures), "where": self.where, **params}
        given |= {"resolution": self.at.resolution} if self.at.resolution else {}
        given |= {"properties": {"source.retention": self.at.length(8 * self.at.step)}} if self.is_retained else {}
        return given | {"time": TIME, "sequence": self.sequence, "lateness": self.lateness}

    def told(self, one: Drawn) -> str:
        """Return a definition in words."""
        parts = self.parts(one.measures)
        return ", ".join(f"{name}={value!r}" for name, value in parts.items() if value not in (None, {}, "recompute"))

    # -- its history -----------------------------------------------------------------------------------------------------

    def rows(self, choose: random.Random, count: int) -> pa.Table:
        """Return hard rows, of which some lie in one window or are equal in time."""
        found = rows_of(COLUMNS, count, choose.randrange(1 << 30))
        few: dict[str, list[Any]] = {
            "k": [None, 0, 1, 2, 2, 5, -3, 11],
            "h": [0.5, -0.0, None, 3.0, 1000.25, -7.25, 0.0]
            + ([float("nan"), float("inf")] if self.number % 3 == 0 else []),
            "x": [None, "", "a", "a", "b", "é", "x_y"],
            "t": [None, 1, 2],
        }
        for name, pool in few.items():
            values = pa.array([choose.choice(pool) for _ in range(count)], arrow_of(COLUMNS[name]))
            found = found.set_column(found.schema.get_field_index(name), name, values)
        is_daily = self.engine == "daily_time_series"
        times = [None if choose.random() < 0.03 else self.at.few(choose, is_daily=is_daily) for _ in range(count)]
        step, tick = self.at.step, self.at.tick
        lasts = [
            choose.choice([None, -5 * tick, 0, tick, step, choose.randint(1, 5 * step // tick) * tick]) for _ in times
        ]
        ends = [None if t is None or n is None else t + n for t, n in zip(times, lasts, strict=True)]
        ids = pa.array(range(self.ids, self.ids + count), pa.int64())
        self.ids += count
        columns = [self._times(times), self._times(ends), ids, *found.columns]
        return pa.table(columns, schema=self.schema)

    def _times(self, instants: Sequence[int | None]) -> pa.Array:
        unit = self.at.tick if self.at.kind is TimeType.DATE else 1
        kind = pa.int32() if self.at.kind in (TimeType.DATE, TimeType.INT) else pa.int64()
        values = pa.array([None if t is None else t // unit for t in instants], kind)
        return values.cast(self.schema.field(TIME).type)

    def commits(self, source: str) -> Iterator[dict[str, Any]]:
        """Change the source step by step; give how each change is refreshed."""
        choose, self.ids = random.Random(f"engine history {self.number}"), 0
        tables.create(source, self.schema)
        tables.append(source, self.rows(choose, choose.randint(25, 70)))
        yield {}
        for _ in range(choose.choice([1, 2, 2, 3])):
            options: dict[str, Any] = {"strategy": None if self.is_added else choose.choice([BY_KEY] * 4 + [None])}
            for _ in range(choose.choice([1, 1, 2])):
                self._change(choose, source)
            if choose.random() < 0.2:
                options |= {"force": True}
                if self.engine != "reactive_state" and not self.at.resolution:
                    options |= {"as_of": self._clock(self.at.base + choose.choice([14, 30]) * self.at.step)}
            yield options

    def _clock(self, instant: int) -> Any:
        return instant if self.at.kind.is_integer else self.at.instant(instant)

    def _change(self, choose: random.Random, source: str) -> None:
        some = f"id IN ({', '.join(str(choose.randrange(self.ids)) for _ in range(choose.choice([1, 1, 3])))})"
        match choose.choice(["append"] * (9 if self.is_added else 3) + ["correct", "move", "delete"]):
            case "append":
                tables.append(source, self.rows(choose, choose.choice([1, 1, 2, 3, 6])))
            case "correct":
                DeltaTable(source).update(updates={"k": "k + 1", "x": "'ß'", "h": "1.25"}, predicate=some)
            case "move":
                to = self.at.few(choose, is_daily=self.engine == "daily_time_series")
                later = self.at.literal(to + choose.choice([0, 1, 3]) * self.at.step)
                DeltaTable(source).update(updates={TIME: self.at.literal(to), END: later}, predicate=some)
            case "delete":
                DeltaTable(source).delete(some)
