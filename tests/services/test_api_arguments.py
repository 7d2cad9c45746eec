"""Arguments of the Python API that make no sense are refused with what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import parse, parse_window
from materializer.errors import RefreshWindowError, UsageError
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000


@pytest.mark.parametrize("options", [{}, {"fresh": True}])
@pytest.mark.parametrize("given", ["polars", "Pandas", None])
def test_a_format_that_is_not_known_is_refused(tmp_path: Path, given: Any, options: dict[str, bool]) -> None:
    """By `read` and by `changes`; the hint lists the formats."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(view("hourly", each("1 hour")))
    for read in (lambda: lake.opened.read("hourly", given, **options), lambda: lake.opened.changes("hourly", given)):
        with pytest.raises(UsageError, match="no rows are returned as") as refused:
            read()
        assert "spark" in refused.value.hint
        assert "pandas" in refused.value.hint


def of(lake: LocalLake, name: str) -> list[Callable[[Any], Any]]:
    """Return every method of the API that takes an instant, as a function of that instant alone."""
    opened = lake.opened
    windows: list[Callable[..., Any]] = [
        opened.plan, opened.plan_chain, opened.refresh, opened.backfill, opened.invalidate, opened.verify, opened.check,
        opened.fresh, opened.show, partial(opened.export, to=lake.root.parent / "rows.csv", overwrite=True),
    ]  # fmt: skip
    return [
        *(lambda at, f=f: f(name, start=at) for f in windows),
        *(lambda at, f=f: f(name, end=at) for f in windows),
        lambda at: opened.diff(name, lake.root, start=at),
        lambda at: opened.refresh(name, as_of=at),
        lambda at: opened.expire(name, at, dry_run=True),
        lambda at: opened.status(name, now=at),
        lambda at: opened.policies(name, now=at),
        lambda at: opened.due(name, now=at),
        lambda at: opened.run_policy(name, now=at),
        lambda at: opened.run_due(name, now=at),
    ]


def policed(name: str) -> str:
    """Return a definition with a policy."""
    policy = "\nTBLPROPERTIES ('refresh.end_offset' = '1 hour', 'refresh.schedule' = '* * * * *')\nAS"
    return view(name, each("1 hour")).replace("\nAS", policy, 1)


@pytest.mark.parametrize("given", [1.5, True, b"2024-03-01", ["2024-03-01"], time(6)])
def test_an_instant_of_another_type_is_refused(tmp_path: Path, given: Any) -> None:
    """Everywhere with a code, and with what is accepted."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (HOUR, 2))
    lake.apply(policed("hourly"))
    for call in of(lake, "hourly"):
        with pytest.raises(
            UsageError, match=r"expected a text such as .*, a datetime, a date or, for integer time"
        ) as no:
            call(given)
        assert no.value.code in {"window.invalid", "expire.bound", "policy.now"}


BERLIN: Final = timezone(timedelta(hours=2))
GIVEN: Final = [
    (datetime(2026, 8, 1, 3, tzinfo=BERLIN), "2026-08-01T01:00:00Z"),
    (datetime(2026, 8, 1, 1, tzinfo=UTC), "2026-08-01T01:00:00Z"),
    (datetime(2026, 8, 1, 1), "2026-08-01T01:00:00"),  # noqa: DTZ001 - it has no zone
    (date(2026, 8, 1), "2026-08-01"),
]


@pytest.mark.parametrize(("given", "text"), GIVEN)
def test_a_datetime_is_read_as_its_text(tmp_path: Path, given: date, text: str) -> None:
    """As start, end, clock and now; one without a zone is in UTC, as text without one is."""
    lake = LocalLake(tmp_path)
    first = int(datetime(2026, 8, 1, tzinfo=UTC).timestamp()) * 1_000_000
    lake.add(*((first + n * HOUR, n) for n in range(-1, 3)))
    lake.apply(policed("hourly"))
    opened = lake.opened
    assert opened.plan("hourly", given).window == opened.plan("hourly", text).window
    assert opened.plan("hourly", end=given).window == opened.plan("hourly", end=text).window
    assert opened.policies("hourly", now=given)[0].window == opened.policies("hourly", now=text)[0].window
    assert opened.run_policy("hourly", now=given).now == opened.run_policy("hourly", now=text).now
    opened.refresh("hourly", start=given, as_of=given)
    assert opened.show("hourly", start=given) == opened.show("hourly", start=text)
    assert opened.show("hourly", end=given) == opened.show("hourly", end=text)
    assert opened.invalidate("hourly", given) == opened.invalidate("hourly", text)


@pytest.mark.parametrize(("given", "text"), GIVEN)
@pytest.mark.parametrize("resolution", [Resolution.S, Resolution.MS, Resolution.US, Resolution.NS])
def test_a_datetime_names_an_instant_of_integer_time(given: date, text: str, resolution: Resolution) -> None:
    """With a resolution; without one it is refused as its text is, and a number of another library is a number."""
    assert parse(given, TimeType.BIGINT, resolution) == parse(text, TimeType.BIGINT, resolution)
    with pytest.raises(RefreshWindowError, match="expected an integer"):
        parse_window(given, None, TimeType.BIGINT)
    assert parse(np.int64(5), TimeType.BIGINT, resolution) == 5


def test_a_time_of_pandas_is_a_datetime() -> None:
    """And one that is no time is refused."""
    assert parse(pd.Timestamp("2026-08-01T03:00+02:00"), TimeType.TIMESTAMP) == parse(GIVEN[0][0], TimeType.TIMESTAMP)
    with pytest.raises(RefreshWindowError, match="NaT"):
        parse_window(pd.NaT, None, TimeType.TIMESTAMP)
