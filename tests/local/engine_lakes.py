"""Definitions of windowing engines, and two lakes over one source, of which the process computes one and Spark the other."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from tests.local.comparing import same

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("ratio", pa.float64()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("fee", pa.decimal128(10, 2)),
        ("seq", pa.int64()),
        ("until", pa.timestamp("us", "UTC")),
    ]
)
START = datetime(2025, 3, 30, tzinfo=UTC)
MEASURES = {
    "total": "sum(volume)",
    "n": "count(*)",
    "opened": "first(price)",
    "closed": "last(price)",
    "mean": "avg(price)",
    "fees": "sum(fee)",
    "names": "count(DISTINCT sym)",
}
MERGED = {name: sql for name, sql in MEASURES.items() if name != "names"}
SERIES: dict[str, Any] = {"engine": "time_series", "step": "10 minutes"}
SESSIONS: dict[str, Any] = {"engine": "session_window", "session_gap": "6 minutes"}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "sessions": SESSIONS,
    "sessions that are open": SESSIONS | {"update_time": "0", "keys": ["sym", "ratio"]},
    "sessions that are forced": SESSIONS | {"force_trigger_time": "20 minutes", "where": "volume > 0 OR sym IS NULL"},
    "sessions by their end": SESSIONS | {"use_session_start_time": False, "keys": []},
    "sessions by ingestion": SESSIONS | {"use_system_time": True},
    "tumbling": SERIES | {"window_size": "10 minutes", "keys": {"name": "upper(sym)"}},
    "hopping": SERIES | {"window_size": "30 minutes", "closed": "right", "measures": MERGED},
    "hopping from rows": SERIES | {"window_size": "20 minutes", "use_window_start_time": True},
    "filled": SERIES
    | {"window_size": "20 minutes", "fill": ["ffill", "0", "null", "ffill", "1.5", "0"], "measures": MERGED},
    "sizes": SERIES | {"window_size": ["10 minutes", "30 minutes"], "measure_sizes": "0,1,1,0,1,0", "measures": MERGED},
    "all sizes": SERIES
    | {"window_size": ["10 minutes", "30 minutes"], "measure_sizes": "0,1,1,0,1,0,0", "multi_window_rule": "all"},
    "grids of keys": SERIES | {"window_size": "20 minutes", "grid_origin": "key", "round_time": False, "fill": "ffill"},
    "inner windows": SERIES | {"window_size": "10 minutes", "sub_window": ["2 minutes", "7 minutes"]},
    "delayed": SERIES | {"window_size": "10 minutes", "accepted_delay": "4 minutes", "update_time": None},
    "forced": SERIES | {"window_size": "10 minutes", "force_trigger_time": "7 minutes", "fill": "null"},
    "by ingestion": SERIES | {"window_size": "10 minutes", "use_system_time": True, "accepted_delay": "3 minutes"},
    "shown": SERIES | {"window_size": "10 minutes", "update_time": "5 minutes", "slice": "1 day"},
}
DAYS: dict[str, Any] = {
    "engine": "daily_time_series",
    "window_size": "10 minutes",
    "session_begin": ["00:05:00", "03:00:00"],
    "session_end": ["01:35:00", "05:32:00"],
}
NIGHTS: dict[str, Any] = DAYS | {"session_begin": ["23:00:00", "04:00:00"], "session_end": ["01:30:00", "06:00:00"]}
HOPS: dict[str, Any] = {"engine": "hopping_window", "end": "until", "duration": "10 minutes", "period": "4 minutes"}
PANES: dict[str, Any] = {
    "engine": "event_time_window",
    "interval_duration": "10 minutes",
    "creation_period": "4 minutes",
}
COMPRESSED: dict[str, Any] = HOPS | {"engine": "compressed_hopping_window"}
SNAPSHOTS: dict[str, Any] = {"engine": "snapshot_window", "end": "until"}
COUNTS: dict[str, Any] = {"engine": "count_window", "count": 3}
DEFINITIONS |= {
    "days": DAYS | {"keys": {"name": "upper(sym)"}, "holidays": "2025-03-31"},
    "days that are filled": DAYS
    | {"fill": "ffill", "closed": "right", "merge_last_window": True, "keys": ["sym", "ratio"]},
    "days that are filled on": DAYS
    | {"fill": ["ffill", "0", "null", "ffill", "1.5", "0"], "key_purge_daily": False, "measures": MERGED},
    "days that are forced": DAYS | {"force_trigger_time": "7 minutes", "merge_session_end": True, "fill": "null"},
    "nights": NIGHTS | {"accepted_delay": "4 minutes", "half_days": "2025-03-30 04:30", "keys": []},
    "nights that are shown": NIGHTS | {"update_time": "5 minutes", "use_window_start_time": True, "weekdays": "6,7"},
    "panes": PANES | {"measures": MERGED},
    "panes from rows": PANES | {"keys": [], "lag": "5 minutes", "offset": "3 minutes"},
    "panes with gaps": PANES | {"interval_duration": "2 minutes", "keys": ["sym", "ratio"]},
    "hops": HOPS | {"default_end": "2025-03-30 09:00:00"},
    "hops with gaps": HOPS
    | {"duration": "2 minutes", "output_policy": "clip_to_window_end", "where": "until IS NOT NULL"},
    "compressed hops": COMPRESSED,
    "compressed hops of all": COMPRESSED | {"keys": [], "alignment": "2025-03-30 00:01:00"},
    "snapshots": SNAPSHOTS,
    "snapshots of two keys": SNAPSHOTS | {"keys": ["sym", "ratio"], "slice": "3 hours"},
    "counts": COUNTS,
    "counts of events": COUNTS | {"end": "until", "keys": {"name": "upper(sym)"}},
}
SKETCHES = {
    "names": "approx_count_distinct(sym)",
    "fees": "approx_count_distinct(fee, 0.1)",
    "ranks": "approx_percentile(volume / 3, array(0.1, 0.9))",
    "middle": "approx_percentile(volume, 0.5)",
}
DEFINITIONS |= {
    "hops of sketches": HOPS | {"default_end": "2025-03-30 09:00:00", "measures": SKETCHES},
    "sessions of sketches": SESSIONS | {"measures": SKETCHES},
    "hopping sketches": SERIES | {"window_size": "30 minutes", "measures": SKETCHES},
}
STATE: dict[str, Any] = {"engine": "reactive_state"}
LAST_ROWS = {
    "at": "seq",
    "mean": "mavg(price / 3, 3)",
    "mean_size": "mavg(volume, 2)",
    "spread": "mstd(price / 3, 4)",
    "spread_of_fees": "mstd(fee, 3)",
    "recent": "msum(price / 7, 3)",
    "volume": "msum(volume, 3)",
    "fees": "msum(fee, 2)",
    "odd": "mmax(ratio, 2)",
    "least": "mmin(fee, 3)",
    "n": "mcount(price, 3)",
    "before": "prev(sym)",
    "moved": "move(ts, 2)",
    "change": "price - prev(price)",
    "share": "ratios(volume)",
    "turn": "deltas(volume, 2)",
}
ALL_ROWS = {
    "at": "seq",
    "total": "cumsum(price / 7)",
    "total_volume": "cumsum(volume)",
    "total_fees": "cumsum(fee)",
    "usual": "cumavg(fee)",
    "most": "cummax(ratio)",
    "first_until": "cummin(until)",
    "so_far": "cumcount(sym)",
    "smooth": "ema(price / 3, 3)",
    "of_fees": "ema(fee, 2) * 100 / cumsum(volume + 1)",
}
DEFINITIONS |= {
    "state": STATE | {"measures": ALL_ROWS | LAST_ROWS},
    "state of last rows": STATE | {"measures": LAST_ROWS, "keys": ["sym", "ratio"], "filter": "change > 0 OR n > 1"},
    "state of all rows": STATE | {"measures": ALL_ROWS, "keys": [], "where": "volume > 0 OR sym IS NULL"},
}
STRICT: dict[str, Any] = {"lateness": "strict"}
DELAYED: dict[str, Any] = {"lateness": "delay", "accepted_delay": "4 minutes"}
BY_ARRIVAL = {
    "sessions, strict": SESSIONS | STRICT | {"where": "volume > 0 OR sym IS NULL"},
    "tumbling, strict": SERIES | STRICT | {"window_size": "10 minutes", "measures": MERGED},
    "tumbling from rows, strict": DEFINITIONS["tumbling"] | STRICT,
    "hopping, delayed": DEFINITIONS["hopping"] | DELAYED | {"window_size": "10 minutes", "keys": ["sym", "ratio"]},
    "filled, strict": DEFINITIONS["filled"] | STRICT,
    "sizes, strict": DEFINITIONS["sizes"] | STRICT,
    "grids of keys, delayed": DEFINITIONS["grids of keys"] | DELAYED,
    "inner windows, strict": DEFINITIONS["inner windows"] | STRICT,
    "forced, strict": DEFINITIONS["forced"] | STRICT,
    "days, strict": DEFINITIONS["days"] | STRICT,
    "days, delayed": DAYS | DELAYED | {"fill": "ffill", "keys": []},
    "days that are filled on, delayed": DEFINITIONS["days that are filled on"] | DELAYED,
    "nights that are forced, strict": NIGHTS | STRICT | {"force_trigger_time": "7 minutes"},
    "panes, strict": DEFINITIONS["panes"] | STRICT | {"lag": "5 minutes", "discard_age": "2 hours"},
    "panes from rows, strict": DEFINITIONS["panes from rows"] | STRICT | {"discard_age": "30 minutes"},
    "state, strict": DEFINITIONS["state"] | STRICT,
}
DEFINITIONS |= BY_ARRIVAL
EXECUTORS: tuple[Literal["local", "spark"], ...] = ("local", "spark")


class World:
    """One source and two lakes over it, with one aggregate of an engine."""

    def __init__(self, folder: Path, spark: SparkSession, definition: dict[str, Any], seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.choose = random.Random(seed)
        self.count = self.turn = 0
        self.source = str(folder / "trades")
        DeltaTable.create(self.source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
        self.lakes = {name: Materializer(folder / name, spark=spark, config=Config()) for name in EXECUTORS}
        parts = {"keys": ["sym"], "measures": MEASURES, **definition}
        for lake in self.lakes.values():
            lake.define("made", self.source, time="ts", sequence="seq", **parts)

    def append(self, first: int, last: int, count: int = 20) -> None:
        """Append rows between two minutes; some have equal times, and any value may be null."""
        choose = self.choose
        rows: list[dict[str, Any]] = [
            {
                "ts": None if choose.random() < 0.03 else START + timedelta(minutes=choose.randint(first, last)),
                "sym": choose.choice(["a", "b", "", None]),
                "ratio": choose.choice([0.0, -0.0, float("nan"), None]),
                "price": choose.choice([None, -0.0, choose.randint(-40, 40) / 4]),
                "volume": choose.choice([None, 0, choose.randint(1, 99)]),
                "fee": choose.choice([None, Decimal("0.01"), Decimal(choose.randint(-99, 99)).scaleb(-2)]),
                "seq": self.count + i,
            }
            for i in range(count)
        ]
        for row in rows:  # an event may be a point, end before it begins, or be open
            lasts = choose.choice([None, -5, 0, 1, 7, choose.randint(1, 90)])
            row["until"] = None if lasts is None or row["ts"] is None else row["ts"] + timedelta(minutes=lasts)
        self.count += count
        write_deltalake(self.source, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")

    def some(self) -> str:
        """Return a predicate of a few rows."""
        return f"seq IN ({', '.join(str(self.choose.randrange(self.count)) for _ in range(4))})"

    def refresh(self, **options: Any) -> list[str]:
        """Refresh both lakes; return how the process computed, and compare everything.

        Two of three refreshes write the results of single keys where that is allowed; which, depends on the seed.
        """
        self.turn += 1
        options = {"strategy": "recompute-keys" if (self.turn + self.seed) % 3 else None} | options
        reports = {
            name: [run.report for run in self.lakes[name].refresh("made", executor=name, **options).runs]
            for name in EXECUTORS
        }
        assert {"local"} >= {report.executor for report in reports["local"] if report.strategy != "settle"}
        fields = ("strategy", "rows_read", "buckets", "partials_written", "rows_written")
        here, there = ([[getattr(r, f) for f in fields] for r in of] for of in reports.values())
        assert here == there
        for table in ("output", "partials", "quarantine"):
            local, by_spark = self.rows("local", table), self.rows("spark", table)
            assert len(local) == len(by_spark)
            assert [] == [(a, b) for a, b in zip(local, by_spark, strict=True) if not same(a, b)][:1]
        return [report.strategy for report in reports["local"]]

    def rows(self, lake: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in some order that says nothing of what computed them."""
        folder = self.folder / lake / "made" / table
        if not folder.exists():
            return []
        rows = DeltaTable(str(next(folder.iterdir()) if table == "partials" else folder)).to_pyarrow_table()
        start = {"output": "window_start", "partials": "w_start", "quarantine": "_version"}[table]
        names = {"sym", "name", "ratio", "at", "v_at", "pane_index", "x_ordinal", "seq"}
        keys = [c for c in rows.column_names if c.removeprefix("k_") in names]
        found: list[dict[str, Any]] = rows.sort_by([(c, "ascending") for c in (start, *keys)]).to_pylist()
        return found
