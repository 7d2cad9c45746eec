"""`source.sample`: definitions read the newest part of their sources only, from an instant that is fixed when they are applied."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.refresh.plan import strategy_of
from materializer.core.spec.spec import AggregateSpec, SourceSample
from materializer.errors import DefinitionError
from materializer.spark.run.executor import Executor
from tests.hints.world import DAILY, HOURLY
from tests.services.no_spark import LocalLake, NoSpark, Opened, each, view

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
HOUR = 3_600_000_000
FIRST = int(BEGIN.timestamp()) * 1_000_000


class Sampled(LocalLake):
    """A lake in which rows of three days are there before anything is applied; its settings ask for a sample."""

    def __init__(self, root: Path, sample: str = "1 day") -> None:
        super().__init__(root, config=Config(price_tie_ms=60_000, sample=sample))
        self.rows: list[tuple[int, int]] = []
        self.put_rows(*((hour, 1) for hour in range(72)))

    def put_rows(self, *rows: tuple[float, int]) -> None:
        """Commit rows (hours since the beginning, value)."""
        self.rows += [(FIRST + int(hour * HOUR), value) for hour, value in rows]
        self.add(*self.rows[-len(rows) :])

    def sample(self, name: str = "hourly") -> SourceSample | None:
        """Return the sample of an aggregate."""
        return AggregateSpec.from_json(self.state(name).spec).sample

    def use(self, length: str) -> None:
        """Let the settings ask for another sample."""
        self.wired = replace(self.wired, config=replace(self.wired.config, sample=length))
        self.opened = Opened(self.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]

    def refresh(self, name: str = "hourly") -> int:
        """Refresh it, and return how many rows were read."""
        return sum(run.report.rows_read for run in self.opened.refresh(name).runs)

    def expected(self, since: float, width: int = 1) -> dict[datetime, int]:
        """Return what a loop over the rows since an hour gives."""
        found: Counter[datetime] = Counter()
        for time, value in self.rows:
            if time >= FIRST + int(since * HOUR):
                found[BEGIN + timedelta(hours=(time - FIRST) // HOUR // width * width)] += value
        return dict(found)

    def found(self, name: str = "hourly") -> dict[datetime, int]:
        """Return what is published."""
        return {row["at"]: row["v"] for row in self.rows_of(name)}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sampled:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    return Sampled(tmp_path)


def test_the_newest_part_is_all_that_is_read(lake: Sampled) -> None:
    """
    A day back from the end of the newest bucket, by whole buckets; files of before are not read.
    """
    [change] = lake.apply(HOURLY)

    assert "only rows since 2024-03-03T00:00:00Z are read (source.sample = '1 day')" == change.sample
    assert SourceSample("1 day", FIRST + 48 * HOUR) == lake.sample()
    assert 24 == lake.refresh()
    assert lake.expected(48) == lake.found()


def test_files_of_before_the_sample_are_not_read(lake: Sampled) -> None:
    """
    Buckets before it are settled, and files whose rows are all older count for nothing.
    """
    lake.put_rows(*((hour / 10, 1) for hour in range(300)))
    lake.apply(HOURLY)

    plan = lake.opened.plan("hourly").plan

    assert plan is not None
    assert 72 == plan.estimate.rows
    first = FIRST + 48 * HOUR
    assert {(True, "rebuild"), (False, "settle")} == {
        (span.start >= first, strategy_of(step)) for step in plan.steps for span in step.spans
    }


def test_the_part_begins_with_a_whole_bucket(lake: Sampled) -> None:
    """
    Of a daily aggregate it is the day of the newest row, so that each bucket has all its rows.
    """
    lake.put_rows((75, 5))
    lake.apply(view("hourly", each("1 day")))
    lake.refresh()

    assert lake.expected(72, 24) == lake.found()


def test_later_refreshes_read_what_is_after_the_first_instant(lake: Sampled) -> None:
    """
    It stays while rows arrive: new ones, late ones inside of the sample, and late ones before it, which are outside.
    """
    lake.apply(HOURLY)
    lake.refresh()
    lake.put_rows((3, 100), (47.99, 100), (48, 10), (50, 10), (80, 1))
    lake.refresh()

    assert lake.expected(48) == lake.found()
    lake.put_rows((2, 100))
    assert 0 == lake.refresh()
    assert lake.expected(48) == lake.found()


def test_a_definition_that_is_applied_again_is_the_same(lake: Sampled) -> None:
    """
    Though the source has newer rows by then.
    """
    lake.apply(HOURLY)
    lake.put_rows((90, 1))

    assert ["unchanged"] == [change.kind for change in lake.apply(HOURLY)]
    assert SourceSample("1 day", FIRST + 48 * HOUR) == lake.sample()


def test_another_measure_leaves_the_sample_where_it_is(lake: Sampled) -> None:
    """
    What is stored is reused, as it is without a sample.
    """
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(v) AS n"))
    lake.refresh()
    lake.put_rows((90, 1))

    [change] = lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v"), dry_run=True)

    assert "measures" == change.kind
    assert not any("sample" in line or "where" in line for line in change.differences)


@pytest.mark.parametrize(("length", "since"), [("2 days", 24), ("12 hours", 60), ("", 0)])
def test_another_length_is_other_data(lake: Sampled, length: str, since: int) -> None:
    """
    The next version reads another part, or all; the lines of the change name the sample, and not our condition.
    """
    lake.apply(HOURLY)
    lake.refresh()
    lake.use(length)

    [change] = lake.apply(HOURLY)
    lake.opened.build("hourly")

    assert "data" == change.kind
    assert "- sample: only rows since 2024-03-03T00:00:00Z are read (source.sample = '1 day')" in change.differences
    assert not any("where" in line for line in change.differences)
    assert lake.expected(since) == lake.found()


def test_what_reads_an_aggregate_reads_all_of_it(lake: Sampled) -> None:
    """
    Its parent is sampled; the child has no sample of its own.
    """
    lake.apply(HOURLY, DAILY)
    for name in ("hourly", "daily"):
        lake.refresh(name)

    assert lake.sample("daily") is None
    assert {BEGIN + timedelta(days=2): 24} == lake.found("daily")


def test_a_where_of_the_user_stays(lake: Sampled) -> None:
    """
    Both conditions hold.
    """
    lake.put_rows((60, -7), (2, -7))
    lake.apply(view("hourly", each("1 hour")).replace("GROUP BY", "WHERE v > 0 OR v IS NULL\n   GROUP BY"))
    lake.refresh()

    lake.rows = [(time, value) for time, value in lake.rows if value > 0]
    assert lake.expected(48) == lake.found()


def test_rows_past_the_clock_do_not_move_the_sample(lake: Sampled) -> None:
    """
    One wrong row of the year 2999 would leave nothing else in it.
    """
    lake.put_rows((9_000_000, 1))
    lake.apply(HOURLY)

    assert SourceSample("1 day", FIRST + 48 * HOUR) == lake.sample()


def test_a_source_without_rows_has_no_newest_part_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    All of it is read, until the definition is applied when there are rows.
    """
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    lake = LocalLake(tmp_path, config=Config(sample="1 day"))
    [change] = lake.apply(HOURLY)

    assert "" == change.sample


@pytest.mark.follows_hint("definition.sample")
def test_times_that_no_statistics_tell_are_a_problem(lake: Sampled) -> None:
    """
    Nothing is guessed; the hint says what to write.
    """
    DeltaTable(str(lake.root / "raw")).alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "0"})
    lake.put_rows((80, 1))

    with pytest.raises(DefinitionError) as caught:
        lake.apply(HOURLY)
    assert ["definition.sample"] == [p.code for p in caught.value.problems]
    assert "statistics" in caught.value.problems[0].message
    assert "add a WHERE to the definition and leave source.sample out" in caught.value.problems[0].hint
    lake.use("")
    later = "WHERE ts >= TIMESTAMP '2024-03-03T00:00:00Z'\n   GROUP BY"
    [change] = lake.apply(view("hourly", each("1 hour")).replace("GROUP BY", later))
    assert ("new", "") == (change.kind, change.sample)


def test_a_number_is_no_length_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A column of timestamps has no ticks.
    """
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(DefinitionError) as caught:
        Sampled(tmp_path, "1000").apply(HOURLY)
    assert ["definition.sample"] == [p.code for p in caught.value.problems]
    assert "a length of time" in caught.value.problems[0].hint
