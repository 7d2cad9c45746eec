"""The bars of ``trades`` as a continuous aggregate of TimescaleDB, on a server that is given, and compared with ours.

``trades`` calls this with ``--timescaledb DSN``. Needed are the driver, psycopg 3, and a database with the extension in it.
Everything lies in a schema of its own, which is made and dropped. The trades lie in a hypertable as it comes (chunks of seven
days, an index on the time), loaded in daily transactions, vacuumed and analyzed. *Seconds are those of a call*: loading is not
measured, and inserting late rows, which is when TimescaleDB takes note of what they change, is told beside the refresh.

Every refresh is ``CALL refresh_continuous_aggregate(…, NULL, NULL)``, of a materialized-only aggregate that was made without
data. TimescaleDB's own form goes by ten buckets a transaction; one pass for all of them is measured beside it, on a twin.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

if TYPE_CHECKING:
    from psycopg import Connection

VARIABLE: Final = "MATERIALIZER_BENCH_TIMESCALEDB"
SCHEMA: Final = "materializer_bench"
OLDEST: Final = (2, 28)
"""The first version whose refreshes by hand go in batches, and can be told not to."""
HOW: Final = (
    f"--timescaledb DSN (or {VARIABLE}), a libpq connection string of a database with TimescaleDB "
    f"{'.'.join(map(str, OLDEST))} or later, and the driver: pip install -c constraints.txt 'psycopg[binary]'"
)
SETTINGS: Final = (
    "shared_buffers",
    "work_mem",
    "effective_cache_size",
    "max_wal_size",
    "synchronous_commit",
    "max_parallel_workers_per_gather",
)
TRADES: Final = """CREATE TABLE trades (
    ts timestamptz NOT NULL, sym text NOT NULL, price double precision NOT NULL, volume bigint NOT NULL)"""
BARS: Final = """SELECT time_bucket('1 minute', ts) AS bucket, sym, first(price, ts) AS open, max(price) AS high,
       min(price) AS low, last(price, ts) AS close, sum(volume) AS volume, sum(price * volume) / sum(volume) AS vwap
FROM trades GROUP BY 1, 2"""
MODES: Final = {"batched": "", "one_pass": """, options => '{"buckets_per_batch": 0}'"""}
"""What is given to a refresh, by how it goes: as it comes, and all buckets in one transaction."""
KEYS: Final = ["bucket", "sym"]
EXACT: Final = ("open", "high", "low", "close", "volume")
ORDERED: Final = {"open": "min", "close": "max"}
"""Measures that depend on the order of rows of one instant, which TimescaleDB leaves open; and which instant decides."""


class LeftOutError(Exception):
    """Raised when the column cannot be measured here; says why."""


def view(mode: str) -> str:
    """Return the definition of the aggregate that is refreshed in *mode*."""
    return (
        f"CREATE MATERIALIZED VIEW bars_{mode} WITH (timescaledb.continuous, timescaledb.materialized_only = true) "
        f"AS {BARS} WITH NO DATA"
    )


def call(mode: str) -> str:
    """Return the statement that refreshes the aggregate of *mode*."""
    return f"CALL refresh_continuous_aggregate('bars_{mode}', NULL, NULL{MODES[mode]})"


def is_recent(version: str) -> bool:
    """Whether *version* of the extension takes the options that are measured."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2]) >= OLDEST


@contextmanager
def opened(dsn: str | None) -> Iterator[Connection[Any]]:
    """Yield a connection to a server that can be measured; raises LeftOutError."""
    if dsn is None:
        raise LeftOutError("not asked for")
    try:
        import psycopg
    except ImportError as exc:
        raise LeftOutError("psycopg is not installed") from exc
    try:
        connection = psycopg.connect(dsn, autocommit=True, connect_timeout=10)
    except psycopg.Error as exc:
        raise LeftOutError(f"no connection: {str(exc).strip()}") from exc
    with connection:
        found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchone()
        if found is None:
            raise LeftOutError("the database has no TimescaleDB; in it: CREATE EXTENSION timescaledb")
        if not is_recent(found[0]):
            raise LeftOutError(f"TimescaleDB {found[0]} is too old")
        if connection.execute("SELECT to_regnamespace(%s)", [SCHEMA]).fetchone() != (None,):
            raise LeftOutError(
                f"schema {SCHEMA} is there: of a run that goes on, or was killed (then: DROP SCHEMA {SCHEMA} CASCADE)"
            )
        connection.execute("SET timezone = 'UTC'")
        yield connection


def server(connection: Connection[Any]) -> dict[str, str]:
    """Return the versions and the settings that figures depend on."""
    told = connection.execute(
        "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'timescaledb'"
    ).fetchone()
    assert told is not None
    settings = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS}
    return {"postgresql": told[0].split()[0], "timescaledb": told[1]} | settings


def insert(connection: Connection[Any], rows: pa.Table) -> None:
    """Insert *rows* in one transaction."""
    text = io.BytesIO()
    csv.write_csv(rows, text, csv.WriteOptions(include_header=False))
    with connection.cursor().copy("COPY trades (ts, sym, price, volume) FROM STDIN (FORMAT csv)") as copy:
        copy.write(text.getbuffer())


def bars(connection: Connection[Any], mode: str) -> pa.Table:
    """Return the rows of an aggregate."""
    text = io.BytesIO()
    names = [*KEYS, *EXACT, "vwap"]
    with connection.cursor().copy(f"COPY (SELECT {', '.join(names)} FROM bars_{mode}) TO STDOUT (FORMAT csv)") as copy:
        for part in copy:
            text.write(part)
    text.seek(0)
    types = dict.fromkeys(names, pa.float64()) | {
        "bucket": pa.timestamp("us", tz="UTC"),
        "sym": pa.string(),
        "volume": pa.int64(),
    }
    return csv.read_csv(
        text, csv.ReadOptions(column_names=names), convert_options=csv.ConvertOptions(column_types=types)
    )


def differences(ours: pa.Table, theirs: pa.Table) -> dict[str, pd.DataFrame]:
    """Return the bars that only one side has, under ``rows``, and those whose values differ, by measure.

    Values are the same when they are equal, ``vwap`` when it is to a part in 10⁹: its sums of floats depend on their order.
    """
    both = ours.to_pandas().merge(theirs.to_pandas(), "outer", KEYS, suffixes=("", "_theirs"), indicator="side")
    shared = both["side"] == "both"
    found = {"rows": both[~shared]}
    for name in EXACT:
        found[name] = both[shared & (both[name] != both[f"{name}_theirs"])]
    is_close = np.isclose(both["vwap"], both["vwap_theirs"], rtol=1e-9, atol=0)
    found["vwap"] = both[shared & ~is_close]
    return {name: rows for name, rows in found.items() if len(rows)}


def is_tied(connection: Connection[Any], measure: str, bar: Any) -> bool:
    """Whether both prices of a bar that differ are prices of the instant that decides, so that either is right."""
    found = connection.execute(
        f"""WITH bar AS (SELECT ts, price FROM trades
                WHERE sym = %(sym)s AND ts >= %(bucket)s AND ts < %(bucket)s + INTERVAL '1 minute')
            SELECT count(DISTINCT price) FROM bar
            WHERE ts = (SELECT {ORDERED[measure]}(ts) FROM bar) AND price IN (%(ours)s, %(theirs)s)""",
        {
            "sym": bar["sym"],
            "bucket": bar["bucket"].to_pydatetime(),
            "ours": float(bar[measure]),
            "theirs": float(bar[f"{measure}_theirs"]),
        },
    ).fetchone()
    return found == (2,)


def compare(connection: Connection[Any], mode: str, ours: pa.Table) -> str:
    """Return how an aggregate compares with our *output*; a difference that equal times do not allow ends the command."""
    tied, wrong = 0, {}
    for measure, rows in differences(ours, bars(connection, mode)).items():
        count = len(rows)
        if measure in ORDERED and count <= 1_000:
            allowed = sum(is_tied(connection, measure, bar) for _, bar in rows.iterrows())
            tied, count = tied + allowed, count - allowed
        if count:
            wrong[measure] = count
    if wrong:
        raise SystemExit(f"TimescaleDB's bars ({mode}) are not ours; differing, by measure: {wrong}")
    return f"{ours.num_rows} rows, 0 differ" + (f", but for {tied} prices among equal times" if tied else "")


def measure(
    dsn: str,
    history: Iterable[pa.Table],
    late: pa.Table,
    ones: Sequence[pa.Table],
    output: pa.Table,
    timed: Callable[[Callable[[], Any]], tuple[float, Any]],
) -> dict[str, Any]:
    """Measure what ``trades`` measures, and compare the result.

    Args:
        dsn: Where the server is, a libpq connection string.
        history: The trades before the first refresh, a table for each transaction.
        late: Late rows, inserted in one transaction.
        ones: Late rows, refreshed after each.
        output: Our bars after all of these.
        timed: Gives the seconds that an action takes.
    """
    with opened(dsn) as connection:

        def execute(sql: str) -> float:
            return timed(lambda: connection.execute(sql))[0]

        found: dict[str, Any] = {"server": server(connection)}
        execute(f"CREATE SCHEMA {SCHEMA}")
        try:
            execute(f"SET search_path = {SCHEMA}, public")
            execute(TRADES)
            execute("SELECT create_hypertable('trades', by_range('ts'))")
            for table in history:
                insert(connection, table)
            execute("VACUUM ANALYZE trades")
            found["plain"] = execute(f"CREATE TABLE plain AS {BARS}")
            for mode in MODES:
                execute(view(mode))
            found["first"] = {mode: execute(call(mode)) for mode in MODES}
            found["late_insert"], _ = timed(lambda: insert(connection, late))
            found["late"] = {mode: execute(call(mode)) for mode in MODES}
            one: dict[str, list[float]] = {mode: [] for mode in MODES}
            for row in ones:
                insert(connection, row)
                for mode in MODES:
                    one[mode].append(execute(call(mode)))
            found["one"] = {mode: sorted(all_)[len(all_) // 2] for mode, all_ in one.items()}
            found["noop"] = {mode: min(execute(call(mode)) for _ in range(5)) for mode in MODES}
            found["compared"] = {mode: compare(connection, mode, output) for mode in MODES}
        finally:
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    return found


def lines(found: dict[str, Any] | None) -> Iterator[str]:
    """Give the lines that say what was measured, or how it can be."""
    if found is None:
        yield f"TimescaleDB                              left out; wanted is {HOW}"
        return
    told = ", ".join(f"{name} {value}" for name, value in found["server"].items())
    yield f"TimescaleDB, rows loaded before, refreshes by ten buckets a transaction (in one pass): {told}"
    plain = found["plain"]
    yield f"{'    the whole GROUP BY into a table':40} {plain:8.2f} s"
    for name, title in (("first", "first materialization"), ("late", "refresh after late rows")):
        batched, one_pass = found[name]["batched"], found[name]["one_pass"]
        yield (
            f"{'    ' + title:40} {batched:8.2f} s  = {batched / plain:.2f} x its GROUP BY"
            f"  ({one_pass:.2f} s = {one_pass / plain:.2f} x)"
        )
    yield f"{'    inserting these, not in the above':40} {found['late_insert']:8.2f} s"
    for name, title in (("one", "one late row (median)"), ("noop", "no-op")):
        batched, one_pass = (1000 * found[name][mode] for mode in ("batched", "one_pass"))
        yield f"{'    ' + title:40} {batched:8.1f} ms ({one_pass:.1f} ms)"
    yield f"{'    compared with our rows':40} {found['compared']['batched']}"
