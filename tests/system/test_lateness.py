"""How late rows were is told from real commits, whoever reads the change feed."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from materializer.budget import Budget
from materializer.config import Config
from materializer.core.refresh.lateness import Advice, Lateness, in_words
from materializer.errors import DefinitionError
from tests.system.builders import DAY, SCHEMA, Site


def ago(seconds: int) -> datetime:
    """Return a time of the recent past."""
    return datetime.fromtimestamp(time.time() - seconds, UTC)


@pytest.fixture
def late(site: Site, monkeypatch: pytest.MonkeyPatch, is_spark: bool) -> Site:
    """A lake where, after the definition, 190 rows came half an hour late and ten came two days late."""
    if is_spark:
        monkeypatch.setattr(Config, "budget", Budget(rows=10))
    trades = site.table("trades")
    trades.trade((ago(0), "A", 1))
    site.hourly(properties={"refresh.start_offset": "5 hours", "refresh.end_offset": "1 hour"})
    site.lake.refresh("hourly")
    trades.trade(*((ago(1_800), "A", i) for i in range(190)), *((ago(172_800), "A", i) for i in range(10)))
    site.lake.refresh("hourly")
    return site


def said(site: Site) -> list[tuple[str, str, str]]:
    """Return level, code and hint of what the doctor says of late rows."""
    return [(f.level, f.code, f.hint) for f in site.lake.doctor("hourly") if f.code.startswith("doctor.late")]


@pytest.mark.of_spark(
    "what the driver does not read is told by files where the process computes, and files tell no lateness"
)
@pytest.mark.parametrize("is_spark", [False, True], ids=["driver", "spark"])
def test_status_tells_how_late_rows_were(late: Site) -> None:
    """
    Of 200 rows after the definition 190 come half an hour late and ten come two days late; Spark rounds up to a bucket.
    """
    (status,) = late.lake.status("hourly")
    usual, latest = status.lateness.within(0.5), status.lateness.within(0.999)

    assert 200 == status.lateness.total
    assert status.advice
    assert usual
    assert latest
    assert 1_800 <= usual <= (1_800 + 3_600) * 1.2
    assert 172_800 <= latest <= (172_800 + 3_600) * 1.2
    assert [("ts", "hourly", status.lateness)] == [
        (s.time_column, s.aggregate, s.lateness) for s in late.lake.lateness()
    ]
    assert ["doctor.late-rows"] == [f.code for f in late.lake.doctor("hourly") if f.level == "warning"]


@pytest.mark.of_spark(
    "what the driver does not read is told by files where the process computes, and files tell no lateness"
)
@pytest.mark.parametrize(
    "is_spark", [pytest.param(False, id="driver"), pytest.param(True, id="spark", marks=pytest.mark.slow)]
)
def test_doctor_suggests_as_much_as_status(late: Site) -> None:
    """
    Both offsets and how long the source has to keep its changes, whether a policy looks back far enough or not.
    """
    (status,) = late.lake.status("hourly")
    usual, latest = (status.lateness.within(share) or 0 for share in (0.9, 0.999))
    start, end = in_words(latest + 3_600), in_words(usual)
    rest = f"refresh.end_offset {end}, a retention of the source's log and feed >= 24 hours"

    assert 1_800 <= usual <= (1_800 + 3_600) * 1.2
    assert Advice(start, end, "24 hours") == status.advice
    hint = f"set refresh.start_offset to {start} or more, or refresh.catch_dirt = true; this suggests {rest}, too"
    assert [("warning", "doctor.late-rows", hint)] == said(late)
    late.lake.add_policy("hourly", "far", start_offset="10 days", end_offset="5 hours")
    assert [("ok", "doctor.lateness", f"this suggests refresh.start_offset {start}, {rest}")] == said(late)


KNOWN = SCHEMA.append(pa.field("seen", pa.timestamp("us", "UTC")))
"""Trades with the time at which each was known."""
in_both_ways = pytest.mark.parametrize("is_spark", [False, True], ids=["driver", "spark"])


def counted(site: Site, monkeypatch: pytest.MonkeyPatch, *, is_spark: bool) -> Lateness:
    """Refresh, and return how late rows were."""
    if is_spark:
        monkeypatch.setattr(Config, "budget", Budget(rows=1))
    site.lake.refresh("hourly")
    (status,) = site.lake.status("hourly")
    return status.lateness


@pytest.mark.of_spark("files tell no lateness")
@in_both_ways
def test_loaded_history_is_not_late(site: Site, monkeypatch: pytest.MonkeyPatch, *, is_spark: bool) -> None:
    """
    Neither what came before the first refresh counts, nor a later commit of old rows only; a commit with one new row counts whole.
    """
    trades = site.table("trades")
    site.hourly()
    trades.trade(*((ago(3_600 * h), "A", h) for h in range(50)))
    site.lake.refresh("hourly")
    trades.trade(*((ago(86_400 * d), "A", d) for d in range(31, 90)))
    assert 0 == counted(site, monkeypatch, is_spark=is_spark).total
    trades.trade((ago(60), "A", 1), (ago(86_400 * 50), "A", 2))
    assert 2 == counted(site, monkeypatch, is_spark=is_spark).total


@pytest.mark.of_spark("files tell no lateness")
@in_both_ways
def test_a_column_says_when_rows_were_known(site: Site, monkeypatch: pytest.MonkeyPatch, *, is_spark: bool) -> None:
    """
    Rows of years ago are as late as the column says; one without the time does not count. Spark takes the latest of a bucket for all.
    """
    trades = site.table("trades", KNOWN)
    site.hourly(properties={"source.known_at": "SEEN"})
    hour, day = timedelta(hours=1), DAY
    trades.write([{"ts": day, "sym": "A", "price": 1, "seen": day + 4 * hour}] * 3)
    trades.write([{"ts": day, "sym": "B", "price": 1, "seen": day + 9 * hour}, {"ts": day, "sym": "C", "price": 2}])
    found = counted(site, monkeypatch, is_spark=is_spark)

    most, usual = found.within(1), found.within(0.7)
    assert most
    assert usual
    assert (5 if is_spark else 4) == found.total
    assert 9 * 3_600 <= most <= 9 * 3_600 * 1.2
    assert is_spark or 4 * 3_600 <= usual <= 4 * 3_600 * 1.2


def test_the_column_may_go_away(site: Site) -> None:
    """
    Where the column is no longer there, the time of the commit says when rows were known.
    """
    trades = site.table("trades", KNOWN)
    site.hourly(properties={"source.known_at": "seen"})
    site.lake.refresh("hourly")
    site.spark.sql(f"ALTER TABLE delta.`{trades.path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    site.spark.sql(f"ALTER TABLE delta.`{trades.path}` DROP COLUMN seen")
    site.spark.sql(f"INSERT INTO delta.`{trades.path}` VALUES (now(), 'A', 1, 'n')")

    site.expect_refresh()


@pytest.mark.parametrize(
    ("column", "code", "words"),
    [
        ("sen", "definition.unknown-column", "did you mean `seen`"),
        ("price", "definition.property", "has type bigint"),
        ("sym", "definition.property", "has type string"),
    ],
)
def test_the_column_must_be_a_time(site: Site, column: str, code: str, words: str) -> None:
    """
    A column that does not exist or is no time is refused, at first and when only the property is changed.
    """
    site.table("trades", KNOWN)
    site.hourly("before")
    for name in ("hourly", "before"):
        with pytest.raises(DefinitionError) as refused:
            site.hourly(name, properties={"source.known_at": column})
        (problem,) = refused.value.problems
        assert code == problem.code
        assert words in f"{problem.message} {problem.hint}"


def test_numbers_have_no_lateness(site: Site) -> None:
    """
    Where the source is divided by a number, no column can say how late a row was.
    """
    site.table("trades", KNOWN)
    with pytest.raises(DefinitionError, match="`price` is a number"):
        site.hourly(time="price", width="100", properties={"source.known_at": "seen"}, measures={"n": "count(*)"})
