"""Trading calendars of definitions: from a table of sessions and from an exchange, when they are applied and when they change."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.compiled.fingerprint import data_fingerprint, metadata_fingerprint
from materializer.core.language.engine_define import define_engine
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.spans import NEG_INF
from materializer.core.time.trading_days import DAYS
from materializer.errors import DataError, DefinitionError
from materializer.services.definitions.calendars import looked_up
from materializer.services.report import tables

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def at(hours: float) -> datetime:
    """A time after the first midnight of January."""
    return DAY + timedelta(hours=hours)


def write_sessions(path: str, *sessions: tuple[int, float, float], is_local: bool = False) -> None:
    """Write a table of sessions: day of January, and hours from its midnight."""
    times = [[at((d - 1) * 24 + s[which]) for d, *s in sessions] for which in (0, 1)]
    kind = pa.timestamp("us", None if is_local else "UTC")
    columns = {"date": pa.array([date(2024, 1, d) for d, *_ in sessions], pa.date32())}
    for name, found in zip(("session_begin", "session_end"), times, strict=True):
        columns[name] = pa.array([t.replace(tzinfo=None) if is_local else t for t in found], kind)
    write_deltalake(path, pa.table(columns), mode="overwrite")


def spec(calendar: str, **more: Any) -> AggregateSpec:
    """A definition with a calendar."""
    return define_engine(
        "bars", "ticks", engine="daily_time_series", time="ts", measures={"n": "sum(v)"}, window_size="1 hour",
        calendar=calendar, **more,
    )  # fmt: skip


def days_of(found: AggregateSpec) -> str:
    """The text of the calendar that a definition keeps."""
    return str(dict(found.params)[DAYS])


def test_a_table_of_sessions(tmp_path) -> None:
    """
    Its instants are shown by the clock of the zone; times without a zone are what the column shows already.
    """
    path = str(tmp_path / "days")
    write_sessions(path, (2, 14.5, 21), (3, 14.5, 18), (5, -1, 5))
    found = [days_of(looked_up(spec("table:days", **m), lambda _: SimpleNamespace(path=path))) for m in ({}, ZONE)]
    assert found == [
        "2024-01-02 ab.c a=14:30/21:00 b=14:30/18:00 c=-1:00/5:00",
        "2024-01-02 ab.c a=9:30/16:00 b=9:30/13:00 c=-6:00/0:00",
    ]
    local = str(tmp_path / "local")
    write_sessions(local, (2, 9.5, 16), is_local=True)
    found = [days_of(looked_up(spec("table:days", **ZONE), lambda _: SimpleNamespace(path=local)))]
    assert found == ["2024-01-02 a a=9:30/16:00"]


ZONE = {"calendar_zone": "America/New_York"}


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"date": [date(2024, 1, 2)]}, "'session_begin' is missing"),
        ({"date": ["x"], "session_begin": [DAY], "session_end": [DAY]}, "'date' has type string"),
        ({"date": [date(2024, 1, 1)], "session_begin": [DAY], "session_end": [DAY]}, "cannot be"),
    ],
)
def test_a_table_that_is_no_calendar(columns, word, tmp_path) -> None:
    """
    Refused with what is wrong.
    """
    write_deltalake(str(tmp_path), pa.table(columns))
    with pytest.raises(DefinitionError, match=word) as caught:
        looked_up(spec("table:days"), lambda _: SimpleNamespace(path=str(tmp_path)))
    assert [p.code for p in caught.value.problems] == ["definition.calendar"]


def test_a_library_that_is_not_installed(monkeypatch) -> None:
    """
    The error says how it is installed.
    """
    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(DefinitionError) as caught:
        looked_up(spec("exchange:XNYS"), lambda _: None)
    [problem] = caught.value.problems
    assert (problem.code, problem.hint) == ("calendar.not-installed", "pip install 'delta-materializer[calendars]'")


def of_exchange(name: str, **more: str) -> str:
    """The text of an exchange's calendar over Christmas."""
    pytest.importorskip("exchange_calendars", reason="the extra 'calendars' is not installed")
    bounds = {"calendar_start": "2024-12-23", "calendar_end": "2024-12-27"}
    return days_of(looked_up(spec(f"exchange:{name}", **bounds, **more), lambda _: None))


def test_exchanges() -> None:
    """
    Half days, breaks, and sessions that begin the evening before; the column's zone moves them.
    """
    assert of_exchange("XNYS") == "2024-12-23 ab.aa a=14:30/21:00 b=14:30/18:00"
    assert of_exchange("XNYS", **ZONE) == "2024-12-23 ab.aa a=9:30/16:00 b=9:30/13:00"
    assert of_exchange("XHKG") == "2024-12-23 ab..a a=1:30/4:00,5:00/8:00 b=1:30/4:00"
    assert of_exchange("CMES") == "2024-12-23 ab.aa a=-1:00/23:00 b=-1:00/18:00"


@pytest.mark.follows_hint("definition.calendar")
def test_an_exchange_that_nobody_knows() -> None:
    """
    Refused, as days that the library has no sessions for are; the name that is right is taken.
    """
    with pytest.raises(DefinitionError, match="there is no such exchange") as caught:
        of_exchange("XNYSE")
    assert ["definition.calendar"] == [p.code for p in caught.value.problems]
    assert of_exchange("XNYS")
    with pytest.raises(DefinitionError, match="cannot be used"):
        looked_up(spec("exchange:XSAU", calendar_start="1990-01-01"), lambda _: None)


def test_a_calendar_from_apply_to_apply(spark, tmp_path) -> None:
    """
    A refresh reads what was kept. A row of an unknown day stops it with nothing written; applied again, a calendar that knows
    more goes on, and one that says something else of a day that was materialised is another version.
    """
    source, days = str(tmp_path / "ticks"), str(tmp_path / "lake" / "days")
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config())

    def tick(*hours: float) -> None:
        rows = pa.table({"ts": pa.array([at(h) for h in hours], pa.timestamp("us", "UTC")), "v": [1] * len(hours)})
        write_deltalake(source, rows, mode="append")

    def shown() -> dict[str, int]:
        found = DeltaTable(str(tmp_path / "lake" / "bars" / "output")).to_pyarrow_table().to_pylist()
        return {row["time"].strftime("%d %H:%M"): row["n"] for row in found}

    write_sessions(days, (1, 9, 12), (2, 9, 11), (3, 9, 12))
    parts = {"engine": "daily_time_series", "time": "ts", "window_size": "1 hour", "measures": {"n": "sum(v)"}}
    tick(8, 11.5, 24 + 9.5, 24 + 11.5, 48 + 9.5)
    lake.define("bars", source, calendar="table:days", **parts)
    write_sessions(days, (1, 9, 12), (2, 9, 11), (3, 9, 12), (4, 9, 10))
    lake.refresh("bars")
    assert shown() == {"01 10:00": 1, "01 12:00": 1, "02 10:00": 1}

    tick(72 + 9.5)
    with pytest.raises(DataError, match="2024-01-04, which the calendar does not know"):
        lake.refresh("bars")
    assert lake.define("bars", source, calendar="table:days", **parts).kind == "metadata"
    lake.refresh("bars")
    assert shown() == {"01 10:00": 1, "01 12:00": 1, "02 10:00": 1, "03 10:00": 1}

    write_sessions(days, (1, 9, 12), (2, 9, 12), (3, 9, 12), (4, 9, 10))
    change = lake.define("bars", source, calendar="table:days", **parts)
    assert change.kind == "data"
    assert "+ sessions of 2024-01-02: 9:00/12:00" in change.differences


def test_doctor_says_when_a_calendar_ends(tmp_path) -> None:
    """
    Thirty days before the newest row reaches its end, and not before.
    """
    path = str(tmp_path / "days")
    write_sessions(path, (1, 9, 12), (31, 9, 12))
    kept = replace(looked_up(spec("table:days"), lambda _: SimpleNamespace(path=path)), time_type=TimeType.TIMESTAMP)
    ends = [micros_of(at(hours)) for hours in (1, 25)]
    found = [[f.code for f in tables.calendar_ends(state_of(kept, end))] for end in (*ends, NEG_INF)]
    assert found == [[], ["doctor.calendar"], []]


def state_of(kept: AggregateSpec, extent_end: int) -> Any:
    """What is known of an aggregate, as far as it is asked."""
    return SimpleNamespace(name="bars", spec=kept.as_json(), extent_end=extent_end)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000


def test_more_days_are_metadata(tmp_path) -> None:
    """
    The metadata fingerprint tells that a calendar knows more; what was kept tells that the rows are the same.
    """
    path, found = str(tmp_path / "days"), []
    for sessions in ([(2, 9, 12)], [(2, 9, 12), (3, 9, 12)]):
        write_sessions(path, *sessions)
        found.append(looked_up(spec("table:days"), lambda _: SimpleNamespace(path=path)))
    assert metadata_fingerprint(found[0]) != metadata_fingerprint(found[1])
    assert data_fingerprint(found[0]) != data_fingerprint(found[1])
