"""Times as text, the calendar, and lengths of time."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.spec.spec import Resolution, TimeType, Width
from materializer.core.time.instants import DAY, HOUR, date_of, days_of, parse, parse_window, render
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span
from materializer.core.time.widths import describe_width, parse_width
from materializer.errors import RefreshWindowError

EPOCH = dt.date(1970, 1, 1)


@given(st.dates())
def test_the_calendar_is_pythons_between_1_and_9999(date: dt.date) -> None:
    """Days are counted as ``datetime`` counts them."""
    assert days_of(date.year, date.month, date.day) == (date - EPOCH).days
    assert date_of((date - EPOCH).days) == (date.year, date.month, date.day)


@given(st.integers(-(10**8), 10**8))
def test_the_calendar_goes_on_outside(days: int) -> None:
    """Every day has one date, and the next day's date comes after it."""
    assert days_of(*date_of(days)) == days
    assert date_of(days) < date_of(days + 1)


@given(st.integers(-(2**57), 2**62), st.sampled_from([TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ, TimeType.BIGINT]))
def test_what_is_rendered_is_read_back(instant: int, time_type: TimeType) -> None:
    """Rendering loses nothing, before 1970, before year 1 and after 9999 too."""
    assert parse(render(instant, time_type), time_type) == instant


@pytest.mark.parametrize(
    ("text", "time_type", "expected"),
    [
        ("2024-03-01", TimeType.TIMESTAMP, 19783 * DAY),
        ("2024-03-01", TimeType.DATE, 19783 * DAY),
        ("2024-03-01T00:00:00Z", TimeType.TIMESTAMP, 19783 * DAY),
        ("2024-03-01 02:00:00+02:00", TimeType.TIMESTAMP, 19783 * DAY),
        ("2024-02-29T22:30-0130", TimeType.TIMESTAMP, 19783 * DAY),
        ("2024-03-01T00:00:00.000001", TimeType.TIMESTAMP_NTZ, 19783 * DAY + 1),
        ("1969-12-31T23:59:59.5Z", TimeType.TIMESTAMP, -500_000),
        ("0001-01-01 BC", TimeType.TIMESTAMP_NTZ, days_of(0, 1, 1) * DAY),
        ("-0001-01-01", TimeType.DATE, days_of(-1, 1, 1) * DAY),
        ("-inf", TimeType.DATE, NEG_INF),
        ("Infinity", TimeType.SMALLINT, POS_INF),
        ("-17", TimeType.INT, -17),
    ],
)
def test_times_are_read(text: str, time_type: TimeType, expected: int) -> None:
    """ISO texts, offsets, infinities and integers name the instant they should."""
    assert parse(text, time_type) == expected


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [(Resolution.S, 1), (Resolution.MS, 1_000), (Resolution.US, 1_000_000), (Resolution.NS, 1_000_000_000)],
)
def test_integer_columns_with_a_resolution_take_iso_texts(resolution: Resolution, expected: int) -> None:
    """A second after the epoch is as many ticks as the resolution says; a bare number is ticks."""
    assert parse("1970-01-01T00:00:01Z", TimeType.BIGINT, resolution) == expected
    assert parse("12", TimeType.BIGINT, resolution) == 12


@pytest.mark.parametrize(
    ("text", "time_type", "match"),
    [
        ("yesterday", TimeType.TIMESTAMP, "expected a time such as"),
        ("2023-02-29", TimeType.DATE, "no such time"),
        ("2023-13-01", TimeType.DATE, "no such time"),
        ("2024-03-01T24:00:00Z", TimeType.TIMESTAMP, "no such time"),
        ("2024-03-01T00:00:00+18:01", TimeType.TIMESTAMP, "no such time zone as '.18:01'"),
        ("2024-03-01T00:00:00-02:60", TimeType.TIMESTAMP, "no such time zone"),
        ("2024-03-01T00:00:00+99:99", TimeType.TIMESTAMP, "no such time zone"),
        ("2024-03-01T00:00:00Z", TimeType.TIMESTAMP_NTZ, "has no time zone"),
        ("2024-03-01T12:00:00", TimeType.DATE, "finer than"),
        ("2024-03-01T00:00:00.0000001Z", TimeType.TIMESTAMP, "finer than"),
        ("2024-03-01", TimeType.INT, "expected an integer"),
        ("12", TimeType.TIMESTAMP, "expected a time such as"),
    ],
)
def test_texts_that_name_no_value_are_refused(text: str, time_type: TimeType, match: str) -> None:
    """What cannot be read, or falls between two values of the type, is an error that says so."""
    with pytest.raises(ValueError, match=match):
        parse(text, time_type)


def test_a_window_may_be_open_at_both_ends() -> None:
    """None leaves an end open; a window needs its end after its start."""
    assert parse_window(None, None, TimeType.TIMESTAMP) == EVERYTHING
    assert parse_window("1970-01-01", "1970-01-02", TimeType.DATE) == Span(0, DAY)
    for start, end in (("1970-01-02", "1970-01-01"), ("1970-01-01", "1970-01-01"), ("soon", None)):
        with pytest.raises(RefreshWindowError):
            parse_window(start, end, TimeType.DATE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 minute", Width(micros=60_000_000)),
        ("2 hours 30 minutes", Width(micros=2 * HOUR + HOUR // 2)),
        ("1 month", Width(months=1)),
        ("1 year 2 quarters", Width(months=18)),
        ("1 week", Width(days=7)),
        ("500 milliseconds", Width(micros=500_000)),
        ("2.5 minutes", Width(micros=150_000_000)),
        ("INTERVAL 1 HOUR", Width(micros=HOUR)),
        ("INTERVAL '1' HOUR", Width(micros=HOUR)),
        ("interval '1 day -2 hours'", Width(days=1, micros=-2 * HOUR)),
        ("-15 min", Width(micros=-15 * 60_000_000)),
        ("1h", Width(micros=HOUR)),
        (" 3 ", Width(ticks=3)),
    ],
)
def test_lengths_are_read(text: str, expected: Width) -> None:
    """Numbers with units are summed, each kind for itself; a bare number is ticks."""
    assert parse_width(text) == expected


@pytest.mark.parametrize("text", ["", "hour", "1 fortnight", "1 m", "1 hour x", "0.5 us", "1.5 months", "1:30"])
def test_lengths_that_mean_nothing_are_refused(text: str) -> None:
    """An unknown or ambiguous unit, or a fraction of what cannot be split, is an error with an example in it."""
    with pytest.raises(ValueError, match=r"length of time|whole number"):
        parse_width(text)


@given(
    st.builds(Width, months=st.integers(0, 99), days=st.integers(0, 99), micros=st.integers(0, 2**50)).filter(
        lambda w: w != Width()
    )
)
def test_a_described_length_is_read_back(width: Width) -> None:
    """What is shown to people is what they may write."""
    assert parse_width(describe_width(width)) == width


def test_a_window_of_epoch_times_is_refused_in_times() -> None:
    """A window the wrong way round is shown as it was given, not as numbers of ticks."""
    with pytest.raises(RefreshWindowError, match=r"\[2026-11-21T00:00:00Z, 2026-11-20T00:00:00Z\)"):
        parse_window("2026-11-21", "2026-11-20", TimeType.BIGINT, Resolution.MS)
