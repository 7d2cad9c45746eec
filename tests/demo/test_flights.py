"""The demo's flights: all there, in the order in which they were known."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from materializer.demo import flights
from materializer.errors import TableNotFoundError, UsageError

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """All flights, read once."""
    try:
        return flights.load()
    except UsageError as exc:
        pytest.skip(f"{exc.message} (extra `demo`)")


def test_all_flights_are_there(table: pa.Table) -> None:
    """
    336,776 flights with as many identifiers, 8,255 of them cancelled, known at their scheduled departure.
    """
    cancelled = table.filter(table["cancelled"])

    assert table.schema == flights.SCHEMA
    assert (table.num_rows, pc.count_distinct(table["flight_id"]).as_py()) == (336_776, 336_776)
    assert cancelled.num_rows == 8_255
    assert cancelled["known_at"] == cancelled["event_time"]
    assert cancelled["dep_delay"].null_count == cancelled["air_time"].null_count == 8_255


def test_a_flight_is_known_when_it_has_landed(table: pa.Table) -> None:
    """
    The first flight of the file: 05:15 in New York, two minutes late, 227 minutes in the air.
    """
    (flight,) = table.filter(pc.equal(table["flight_id"], "2013-01-01/UA1545/EWR")).to_pylist()

    assert flight["event_time"] == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert flight["known_at"] == flight["event_time"] + timedelta(minutes=2 + 227)
    assert (flight["dest"], flight["distance"], flight["cancelled"]) == ("IAH", 1400, False)


def test_event_time_is_an_instant_in_every_season(table: pa.Table) -> None:
    """
    Read in New York's time, every departure falls on the day that the flight's identifier names, summer and winter.
    """
    local = pc.strftime(
        pc.local_timestamp(table["event_time"].cast(pa.timestamp("us", tz="America/New_York"))), "%Y-%m-%d"
    )

    assert local.cast(pa.string()) == pc.utf8_slice_codeunits(table["flight_id"], 0, 10)


@pytest.mark.parametrize(("day", "hours"), [(date(2013, 3, 10), 23), (date(2013, 3, 11), 24), (date(2013, 11, 3), 25)])
def test_days_of_the_clock_change(table: pa.Table, day: date, hours: int) -> None:
    """
    The flights of a local day fill a run of 23, 24 or 25 hours and nothing else does.
    """
    start = datetime(day.year, day.month, day.day, tzinfo=NEW_YORK).astimezone(UTC)
    end = (datetime(day.year, day.month, day.day, tzinfo=NEW_YORK) + timedelta(days=1)).astimezone(UTC)
    inside = pc.and_(pc.greater_equal(table["event_time"], start), pc.less(table["event_time"], end))
    named = pc.starts_with(table["flight_id"], str(day))

    assert end - start == timedelta(hours=hours)
    assert pc.sum(named).as_py() > 500
    assert inside == named


def test_lateness_is_real(table: pa.Table) -> None:
    """
    Most flights are known more than an hour after their departure, some more than a day.
    """
    minutes = pc.divide(pc.subtract(table["known_at"], table["event_time"]).cast(pa.int64()), 60_000_000)

    assert pc.sum(pc.greater(minutes, 60)).as_py() > 250_000
    assert pc.max(minutes).as_py() > 24 * 60


def test_a_week_is_held_back(table: pa.Table) -> None:
    """
    What is delivered and what is held back are all flights; the week is whole days of New York, every day of it.
    """
    delivered, held_back = flights.split(table)
    days = Counter(flight_id[:10] for flight_id in held_back["flight_id"].to_pylist())

    assert delivered.num_rows + held_back.num_rows == table.num_rows
    assert not set(delivered["flight_id"].to_pylist()) & set(held_back["flight_id"].to_pylist())
    assert sorted(days) == [f"2013-04-{day:02}" for day in range(8, 15)]
    assert set(held_back["origin"].to_pylist()) == {"LGA"}
    assert held_back.num_rows == 1_989


def test_days_come_in_order_and_lose_nothing(table: pa.Table) -> None:
    """
    One batch a day in order of arrival, 334 of them by the end of November; together they are all flights.
    """
    batches = flights.daily_batches(table)
    days = [day for day, _ in batches]

    assert days == sorted(set(days))
    assert sum(day < date(2013, 12, 1) for day in days) == 334
    assert pa.concat_tables(b for _, b in batches) == table
    for day, batch in (batches[0], batches[200], batches[-1]):
        assert {t.date() for t in batch["known_at"].to_pylist()} == {day}


def test_the_lake_is_fed_by_daily_commits(table: pa.Table, tmp_path: Path) -> None:
    """
    One commit a day with the change feed on, and each says what it brought; what was held back comes in one more.
    """
    delivered, held_back = flights.split(table)
    batches = flights.daily_batches(delivered)[:3]
    seen: list[tuple[date, int]] = []
    path = str(tmp_path / "flights")

    assert flights.write_lake(path, batches, on_commit=lambda day, rows: seen.append((day, rows))) == 3
    assert flights.deliver(path, held_back, note="the lost week") == 4
    lake = DeltaTable(path)
    assert seen == [(day, batch.num_rows) for day, batch in batches]
    assert lake.metadata().configuration["delta.enableChangeDataFeed"] == "true"
    assert lake.history(1)[0]["userMetadata"] == "the lost week"
    assert lake.history()[3]["userMetadata"] == "flights known on 2013-01-01"
    assert lake.to_pyarrow_table().num_rows == sum(b.num_rows for _, b in batches) + held_back.num_rows
    assert pa.table(lake.load_cdf(starting_version=4).read_all()).num_rows == held_back.num_rows


def test_a_lake_is_not_written_over(table: pa.Table, tmp_path: Path) -> None:
    """
    Writing where a table is, or delivering where none is, are refused.
    """
    batches, path = flights.daily_batches(table)[:1], str(tmp_path / "flights")
    with pytest.raises(TableNotFoundError, match="there is no table"):
        flights.deliver(path, batches[0][1], note="early")
    flights.write_lake(path, batches)
    with pytest.raises(UsageError, match="holds a Delta table already"):
        flights.write_lake(path, batches)
