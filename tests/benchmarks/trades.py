"""Benchmark: one-minute bars over synthetic trades, against plain Spark in the same run.

    python -m tests.benchmarks.trades [--rows 20000000] [--days 30] [--symbols 100] [--timescaledb DSN] [--folder DIR]
        [--note TEXT] [--keep] [--json]

Prints deterministic counters first (rows, files and bytes read and written, files and bytes that this replaced, commits, Spark
jobs; ``tests.benchmarks.files`` says how files are counted), wall time as a ratio to plain Spark second. *Plain* is plain Spark that gives the same answer: the reference form, in which ``first`` is
``min_by`` over the time and what decides among equal times. The form without that order, ``min_by(price, ts)``, whose answer
depends on files and partitions, is measured and printed beside it. While the JVM compiles, everything takes longer: so the first
materialization is compared with plain Spark that is as cold, in a process of its own, and once more, under another name, with
plain Spark that is as warm. Each is held against what was asked beside both forms, the ordered one and the ordinary one. DuckDB is measured too where it is installed, and TimescaleDB where a server is given:
``tests.benchmarks.timescaledb`` says how.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.services.aggregate import Aggregate
from tests.benchmarks import asked, history, timescaledb
from tests.benchmarks.files import touched
from tests.benchmarks.reference import write_recomputed

DAY = 86_400_000_000
MINUTE = 60_000_000
START = 19_723 * DAY
"""2024-01-01T00:00:00Z."""

BARS = """
CREATE MATERIALIZED VIEW bars_1m COMMENT 'One-minute bars per symbol'
AS SELECT window.start AS bucket, sym,
          first(price) AS open, max(price) AS high, min(price) AS low, last(price) AS close,
          sum(volume) AS volume, try_divide(sum(price * volume), sum(volume)) AS vwap
   FROM trades GROUP BY window(ts, '1 minute'), sym
"""
UNORDERED = """
SELECT window(ts, '1 minute').start AS bucket, sym, min_by(price, ts) AS open, max(price) AS high, min(price) AS low,
       max_by(price, ts) AS close, sum(volume) AS volume, try_divide(sum(price * volume), sum(volume)) AS vwap
FROM {trades} GROUP BY 1, 2
"""


def trades(rng: np.random.Generator, rows: int, symbols: int, start: int, length: int) -> pa.Table:
    """Return *rows* trades in [start, start + length), in order of time."""
    ts = np.sort(rng.integers(start, start + length, rows))
    sym = rng.integers(0, symbols, rows)
    price = np.round(100 + sym + rng.standard_normal(rows), 2)
    names = pa.array([f"S{i:03}" for i in range(symbols)])
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "sym": pa.DictionaryArray.from_arrays(pa.array(sym, pa.int32()), names).cast(pa.string()),
            "price": price,
            "volume": rng.integers(1, 1_000, rows),
        }
    )


def write_source(path: Path, rows: int, days: int, symbols: int, rng: np.random.Generator) -> None:
    """Write the trades in daily commits, change feed on."""
    for day in range(days):
        table = trades(rng, rows // days, symbols, START + day * DAY, DAY)
        configuration = {"delta.enableChangeDataFeed": "true"} if day == 0 else None
        write_deltalake(str(path), table, mode="append", configuration=configuration)


def late_rows(rng: np.random.Generator, rows: int, days: int, symbols: int, *, since: int = 0) -> pa.Table:
    """Return *rows* late trades in 10 hours of at most 7 of *days* days, the first of which is *since*."""
    hours = [
        (since + int(d), int(h))
        for d, h in zip(np.resize(rng.permutation(days)[:7], 10), rng.permutation(24)[:10], strict=True)
    ]
    parts = [trades(rng, rows // 10, symbols, START + d * DAY + h * 3_600_000_000, 3_600_000_000) for d, h in hours]
    return pa.concat_tables(parts)


def in_duckdb(source: Path) -> tuple[float | None, dict[str, Any]]:
    """Return what the same aggregate takes DuckDB over the table's files, written to Parquet, and how that was got.

    ``arg_min`` and ``arg_max`` over the time, without a rule among equal times; all cores, as it comes. None where it is missing.
    """
    try:
        import duckdb
    except ImportError:
        return None, {}
    files = [uri.removeprefix("file://") for uri in DeltaTable(str(source)).file_uris()]
    target = source.parent / "duckdb.parquet"
    sql = f"""COPY (
        SELECT time_bucket(INTERVAL '1 minute', ts) AS bucket, sym, arg_min(price, ts) AS open, max(price) AS high,
               min(price) AS low, arg_max(price, ts) AS close, sum(volume) AS volume,
               sum(price * volume) / sum(volume) AS vwap
        FROM read_parquet({files}) GROUP BY 1, 2) TO '{target}' (FORMAT parquet)"""
    with duckdb.connect() as connection:
        cores = connection.execute("SELECT current_setting('threads')").fetchone()
        seconds, _ = timed(lambda: connection.execute(sql))
    return seconds, {"version": duckdb.__version__, "cores": cores and cores[0], "files": len(files)}


def duckdb_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines that say what was measured of DuckDB and how, or how it can be."""
    title = "DuckDB over the same files"
    if found["duckdb"] is None:
        yield f"{title:40} left out; wanted is: pip install -c constraints.txt duckdb"
        return
    yield f"{title:40} {found['duckdb']:8.2f} s  = {found['duckdb'] / found['plain']:.2f} x plain"
    how = found["duckdb_how"]
    yield (
        f"    version {how['version']}, {how['cores']} cores, {how['files']:,} files of the table read, its rows written to Parquet;"
        " arg_min and arg_max without a rule among equal times"
    )


def is_left_out(dsn: str | None) -> bool:
    """Whether TimescaleDB cannot be measured; if it was asked for, this says why before anything else is measured."""
    try:
        with timescaledb.opened(dsn):
            return False
    except timescaledb.LeftOutError as why:
        if dsn is not None:
            print(f"TimescaleDB is left out: {why}\nwanted is {timescaledb.HOW}", file=sys.stderr, flush=True)
        return True


def given(options: argparse.Namespace) -> dict[str, str]:
    """Return what is kept of the options: all but the DSN, which may hold a password."""
    return {k: str(v) for k, v in vars(options).items() if k != "timescaledb"}


def at_first(source: Path, days: int) -> Iterator[pa.Table]:
    """Give the trades as the daily commits left them, a table for each."""
    found = DeltaTable(str(source), version=days - 1).to_pyarrow_dataset()
    for day in range(days):
        since = pa.scalar(START + day * DAY, pa.timestamp("us", tz="UTC"))
        until = pa.scalar(START + (day + 1) * DAY, pa.timestamp("us", tz="UTC"))
        yield found.to_table(filter=(pc.field("ts") >= since) & (pc.field("ts") < until))


def rows_in_changed(source: Path, changed: pa.Table) -> int:
    """Return how many rows of the source lie in the one-minute buckets that *changed* has rows of, these included."""
    minutes = np.unique(changed["ts"].cast(pa.int64()).to_numpy() // MINUTE)
    batches = DeltaTable(str(source)).to_pyarrow_dataset().to_batches(columns=["ts"])
    times = (batch.column(0).cast(pa.int64()).to_numpy(zero_copy_only=False) // MINUTE for batch in batches)
    return sum(int(np.isin(of, minutes).sum()) for of in times)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return wall seconds and the result of *action*."""
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result


def counters(report: Any) -> dict[str, Any]:
    """Return the deterministic counters of a refresh, summed over its runs."""
    names = ("rows_read", "partials_written", "rows_written", "files_rewritten", "commits", "jobs", "buckets")
    total = {n: sum(getattr(r.report, n) for r in report.runs) for n in names}
    estimate = [r.plan.estimate for r in report.runs]
    return total | {
        "runs": len(report.runs),
        "strategy": "+".join(dict.fromkeys(r.plan.strategy for r in report.runs)),
        "lane": "+".join(dict.fromkeys(r.plan.lane.value for r in report.runs)),
        "rows_to_read": sum(e.rows for e in estimate),
        "files_to_read": sum(e.files for e in estimate),
        "bytes_to_read": sum(e.bytes for e in estimate),
        "seconds_of_runs": round(sum(r.report.seconds for r in report.runs), 2),
    }


def refreshed(m: Materializer, name: str) -> tuple[float, dict[str, Any]]:
    """Refresh an aggregate; return wall seconds and the deterministic counters, those of files included."""
    with touched(m, name) as of_files:
        seconds, done = timed(lambda: m.refresh(name))
    return seconds, counters(done) | of_files


def files_in_words(told: Mapping[str, Any]) -> str:
    """Return what files a refresh read, wrote and replaced.

    Examples:
        >>> told = {"files_written": 3, "bytes_written": 1_500_000, "files_removed": 2, "bytes_removed": 900_000}
        >>> files_in_words(told)
        'files: read unknown; written 3 (1.50 MB) in place of 2 (0.90 MB)'
        >>> files_in_words(told | {"files_read": 7, "bytes_read": 2_000_000})
        'files: read 7 (2.00 MB); written 3 (1.50 MB) in place of 2 (0.90 MB)'
    """
    read, written, removed = (
        f"{told[f'files_{kind}']:,.0f} ({told[f'bytes_{kind}'] / 1_000_000:,.2f} MB)"
        if f"files_{kind}" in told
        else "unknown"
        for kind in ("read", "written", "removed")
    )
    return f"files: read {read}; written {written} in place of {removed}"


def counted_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines that say what a refresh counted."""
    yield f"    {told}"
    yield f"    {files_in_words(told)}"
    if of_changed := told.get("rows_in_changed_buckets"):
        each = told["rows_read"] / of_changed
        yield f"    {each:.3f} rows aggregated for each of {of_changed:,} in truly changed buckets"


def unordered(m: Materializer, source: Path, folder: Path) -> float:
    """Return the seconds of the form whose answer depends on files and partitions."""
    spark = m.engine().spark
    frame = spark.sql(UNORDERED, trades=spark.read.format("delta").load(str(source)))
    return timed(lambda: frame.write.format("delta").mode("overwrite").save(str(folder / "unordered")))[0]


def plain(m: Materializer, folder: Path) -> float:
    """Return the seconds of the reference form of the bars, which are defined."""
    state = m.journal.view().named("bars_1m")
    definition, spark, target = Aggregate.of(state, m.root).definition, m.engine().spark, str(folder / "plain")
    return timed(lambda: write_recomputed(spark, definition, state.source, state.cursor, target, hull=None))[0]


def plain_alone(source: Path, folder: Path, memory: str) -> float:
    """Return the seconds of the same in a process of its own, after the form without order: as cold as ours at first."""
    command = [sys.executable, "-m", "tests.benchmarks.plain", str(source), str(folder), "--memory", memory]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(folder)
    return float(done.stdout.split()[-1])


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run every measurement and return them by name."""
    left_out = is_left_out(options.timescaledb)
    rng = np.random.default_rng(options.seed)
    source, lake = folder / "trades", folder / "lake"
    write_source(source, options.rows, options.days, options.symbols, rng)
    spark_config = SparkConfig(profile="long", memory=options.memory)
    config = Config(lake=str(lake), sources={"trades": str(source)}, executor="spark", spark=spark_config)
    m = Materializer(config=config)
    found: dict[str, Any] = {"options": given(options)}

    found["plain_cold"] = plain_alone(source, folder / "alone", options.memory)
    m.engine().spark.range(1000).selectExpr("sum(id)").collect()
    found["unordered_cold"] = unordered(m, source, folder)
    m.apply(BARS)
    found["first"], found["first_counters"] = refreshed(m, "bars_1m")
    found["unordered"] = unordered(m, source, folder)
    found["plain"] = plain(m, folder)
    m.apply(BARS.replace("bars_1m", "bars_again"))
    found["again"], found["again_counters"] = refreshed(m, "bars_again")
    m.drop("bars_again")

    found["duckdb"], found["duckdb_how"] = in_duckdb(source)
    late = late_rows(rng, options.late, options.days, options.symbols)
    write_deltalake(str(source), late, mode="append")
    found["late"], told = refreshed(m, "bars_1m")
    found["late_counters"] = told | {"rows_in_changed_buckets": rows_in_changed(source, late)}

    ones = []
    rows = [trades(rng, 1, options.symbols, START + int(rng.integers(options.days)) * DAY, DAY) for _ in range(5)]
    for row in rows:
        write_deltalake(str(source), row, mode="append")
        seconds, told = refreshed(m, "bars_1m")
        ones.append(seconds)
        found["one_counters"] = told | {"rows_in_changed_buckets": rows_in_changed(source, row)}
    found["one"], found["one_all"] = sorted(ones)[2], ones
    found["noop"] = min(timed(lambda: m.refresh("bars_1m"))[0] for _ in range(5))
    found["verify"], verdict = timed(lambda: m.verify("bars_1m"))
    found["verified"] = f"{verdict.rows} rows, {verdict.differing} differ"
    (folder / "materializer.toml").write_text(f'lake = "{lake}"\n[sources]\ntrades = "{source}"\n')
    command = [
        sys.executable,
        "-m",
        "materializer",
        "refresh",
        "bars_1m",
        "--config",
        str(folder / "materializer.toml"),
    ]
    found["noop_command"] = min(
        timed(lambda: subprocess.run(command, check=True, capture_output=True))[0] for _ in range(5)
    )
    output = DeltaTable(str(lake / "bars_1m" / "output"))
    found["timescaledb"] = (
        None
        if left_out or is_left_out(options.timescaledb)
        else timescaledb.measure(
            options.timescaledb, at_first(source, options.days), late, rows, output.to_pyarrow_table(), timed
        )
    )
    found["files"] = {t: len(list((lake / "bars_1m" / t).rglob("*.parquet"))) for t in ("partials", "output")}
    return found


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    plain, cold = found["plain"], found["plain_cold"]
    print(f"plain Spark, whole GROUP BY + write      {plain:8.2f} s  (as cold as what comes first: {cold:.2f} s)")
    print(
        f"the same without order among equal times {found['unordered']:8.2f} s  (cold {found['unordered_cold']:.2f} s)"
    )
    print(*duckdb_lines(found), sep="\n")
    for name, title, beside, most, most_ordinary in (
        ("first", "first materialization, cold", "of plain as cold", 1.0, 1.9),
        ("first", "", "of plain, warm", 1.0, 1.9),
        ("again", "the same, warm", "of plain", 1.0, 1.9),
        ("late", "refresh after late rows", "of plain", 0.15, 0.15),
    ):
        ordered, ordinary = (cold, found["unordered_cold"]) if "cold" in beside else (plain, found["unordered"])
        told = f"{title:40} {found[name]:8.2f} s" if title else " " * 51
        print(
            f"{told}  {beside} Spark, asked <= {most:.2f} and {most_ordinary:.2f}: {_beside('ordered', found[name] / ordered, most)},"
            f" {_beside('ordinary', found[name] / ordinary, most_ordinary)}"
        )
        if title:
            print(*counted_lines(found[f"{name}_counters"]), sep="\n")
    print(f"{'one late row, warm (median of 5)':40} {found['one']:8.2f} s  (target <= 0.8 s)")
    print(*counted_lines(found["one_counters"]), sep="\n")
    print(f"{'no-op in process':40} {found['noop'] * 1000:8.1f} ms (target <= 15 ms)")
    print(f"{'no-op as a command':40} {found['noop_command']:8.2f} s  (target <= 0.8 s)")
    verify = f"of plain Spark, asked <= 1.50: {_beside('ordered', found['verify'] / plain, 1.5)}"
    print(f"{'verify against the reference form':40} {found['verify']:8.2f} s  {found['verified']}, {verify}")
    print(*timescaledb.lines(found["timescaledb"]), sep="\n")
    print(f"files: {found['files']}")


def _beside(form: str, times: float, most: float) -> str:
    return f"{form} form {times:.2f} x ({'met' if times <= most else 'missed'})"


def report(options: argparse.Namespace, run: Callable[..., Any], show: Callable[[Any], None]) -> None:
    """Measure in the folder that was asked for, or in one that is removed; print what was found, and keep it if told to."""
    name = Path(run.__code__.co_filename).stem
    folder = options.folder or Path(tempfile.mkdtemp(prefix="materializer-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = run(options, folder)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)
        print(*asked.lines(name, found), sep="\n")
    if options.json or options.keep:
        history.keep(name, found)


def reporting(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the options of a benchmark, with those that every benchmark has; :func:`report` takes them."""
    parser.add_argument("--folder", type=Path, default=None, help="keep the tables here; default: a temporary folder")
    parser.add_argument("--keep", action="store_true", help="keep what is found in docs/benchmarks/history.jsonl")
    parser.add_argument("--json", action="store_true", help="the same, and print JSON instead of tables")
    return parser.parse_args()


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--late", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--memory", default="6g")
    parser.add_argument(
        "--timescaledb",
        metavar="DSN",
        default=os.environ.get(timescaledb.VARIABLE),
        help=f"measure TimescaleDB too, in a schema {timescaledb.SCHEMA} of this database; default: ${timescaledb.VARIABLE}",
    )
    parser.add_argument("--note", default="", help="what the page of benchmarks shall say of this run")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
