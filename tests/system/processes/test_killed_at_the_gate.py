"""Refreshes that are killed with their verdict in the journal: it decides, nobody asks again, nothing else is published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from materializer.errors import QualityGateError
from materializer.journal.store import JournalStore
from tests.system.processes.running import DEATHS, START, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAD: Final = START + timedelta(hours=2)
"""The hour that gets a row which its suite does not let through."""


class Gated:
    """A lake whose aggregate has a gate; it was refreshed, and then late rows came.

    Args:
        folder: Where everything lies.
        spark: The session of the run.
        mode: What happens to a run when something critical fails.
        has_bad_row: Whether one of the late rows fails the suite.
        late: Hours that late rows are inserted into.
        driver_lane_rows: 0 makes every commit Spark's.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        mode: str,
        *,
        has_bad_row: bool,
        late: Sequence[int] = (1, 2, 4),
        driver_lane_rows: int = 200_000,
    ) -> None:
        self.expectations = folder / "expectations"
        self.write_suite(at_most=1_000)
        measures = {"n": "count(*)", "s": "sum(v)", "top": "max(v)"}
        properties = {"quality.on_failure": mode}
        self.world = World(folder, spark, driver_lane_rows=driver_lane_rows, measures=measures, properties=properties)
        self.world.lake.refresh("bars")
        self.world.insert(3, late)
        self.before = self.world.published()
        if has_bad_row:
            self.world.source.insert([{"ts": BAD + timedelta(minutes=1), "k": "a", "v": 5_000, "ok": True}])
            self.bad_row = self.world.source.next_id - 1

    def write_suite(self, at_most: int) -> None:
        """Write the file of the suite; until it is applied it says nothing."""
        limit = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "top", "max_value": at_most}}
        self.expectations.mkdir(exist_ok=True)
        (self.expectations / "bars.json").write_text(json.dumps({"name": "bars", "expectations": [limit]}))

    def apply_suite(self, at_most: int) -> None:
        """Write the file of the suite and apply it, which is a command that recovers first."""
        self.write_suite(at_most)
        self.world.define()

    def audited(self) -> list[int]:
        """Return the number of each audit that the journal tells of, in order."""
        rows = JournalStore(self.world.root).read().rows
        return [json.loads(row.payload)["n"] for row in rows if row.kind == "audited"]

    def ended(self) -> list[tuple[int, str]]:
        """Return how the refreshes ended, in order."""
        return [(e.n, e.outcome) for e in reversed(self.world.lake.history("bars"))]

    def all_but_bad(self) -> list[tuple[Any, ...]]:
        """Return what shall be published while the bad row's hour is held back."""
        bad = BAD.replace(tzinfo=None)
        return sorted([r for r in self.before if r[0] == bad] + [r for r in self.world.truth() if r[0] != bad])

    def expect_each_once(self) -> None:
        """Assert that no plan was committed twice to a table."""
        for which in ("partials", "output"):
            written = self.world.written(which)
            assert sorted(set(written)) == written, f"{which} got {written}"

    def mend(self) -> None:
        """Correct the bad row; a refresh then leaves nothing dirty."""
        self.world.source.update([self.bad_row], "v", 5)
        self.world.lake.refresh("bars")
        self.world.expect_true()


SLOW: Final = {"marks": pytest.mark.slow}
KILLED: Final = [
    pytest.param("nothing is written", "refresh", 200_000, **SLOW),
    pytest.param("only the partials are", "apply", 200_000),
    pytest.param("both are", "refresh", 200_000, **SLOW),
    pytest.param("nothing is written", "apply", 200_000, **SLOW),
    pytest.param("only the partials are", "refresh", 200_000, **SLOW),
    pytest.param("only the output is", "refresh", 200_000, **SLOW),
    *(pytest.param(death, "refresh", 0, **SLOW) for death in DEATHS),
]
"""Where a refresh is killed, which command recovers it, and rows that the driver commits."""


@pytest.mark.parametrize(("death", "command", "driver_lane_rows"), KILLED)
def test_killed_with_a_bucket_held_back(
    tmp_path: Path, spark: SparkSession, death: str, command: str, driver_lane_rows: int
) -> None:
    """
    What was audited is finished without asking again, or undone: the bucket that was held back stays so.
    """
    lake = Gated(tmp_path, spark, "buckets", has_bad_row=True, driver_lane_rows=driver_lane_rows)
    world = lake.world
    how = world.die(death)
    assert [1, 2] == lake.audited()
    if command == "apply":
        lake.apply_suite(at_most=-1)  # by this one nothing at all may be published
        assert (2, "done" if how == "finished" else "aborted") == lake.ended()[-1]
        published = lake.all_but_bad() if how == "finished" else lake.before
        assert published == world.published()
        assert [1, 2] == lake.audited()
        with pytest.raises(QualityGateError):
            world.lake.refresh("bars")
        assert published == world.published()
        lake.apply_suite(at_most=1_000)
    world.insert(1, (0,))
    report = world.refresh_when_free()

    assert () == report.recovered if command == "apply" else ((2, how),) == report.recovered
    assert lake.all_but_bad() == world.published()
    [status] = world.lake.status("bars")
    assert [BAD.timestamp() * 1e6] == [span.start for span in status.held] == [span.start for span in status.dirty]
    assert sorted(set(lake.audited())) == lake.audited()
    lake.mend()
    lake.expect_each_once()


@pytest.mark.parametrize(
    "death",
    ["only the partials are", *(pytest.param(d, **SLOW) for d in DEATHS if d != "only the partials are")],
)
def test_killed_with_everything_let_through(tmp_path: Path, spark: SparkSession, death: str) -> None:
    """
    A run that met its suite is finished or undone, whatever the suite has become meanwhile.
    """
    lake = Gated(tmp_path, spark, "refresh", has_bad_row=False)
    world = lake.world
    how = world.die(death)
    lake.apply_suite(at_most=-1)

    assert [1, 2] == lake.audited()
    assert [(1, "done"), (2, "done" if how == "finished" else "aborted")] == lake.ended()
    is_published = how == "finished" or death == "only the output is"  # what was audited stays there until it is redone
    assert (world.truth() if is_published else lake.before) == world.published()
    lake.apply_suite(at_most=1_000)
    world.lake.refresh("bars")
    world.expect_true()
    lake.expect_each_once()


@pytest.mark.parametrize(
    ("checkpoint", "mode"),
    [
        ("fence", "refresh"),
        *(pytest.param(at, mode, **SLOW) for at in ("abort", "aborted") for mode in ("refresh", "buckets")),
    ],
)
def test_killed_with_everything_refused(tmp_path: Path, spark: SparkSession, checkpoint: str, mode: str) -> None:
    """
    A run that was refused is undone by whoever comes next, even when the suite would let it through by then.
    """
    late = (1, 2, 4) if mode == "refresh" else (2,)  # where every bucket fails, none is left to be published
    lake = Gated(tmp_path, spark, mode, has_bad_row=True, late=late)
    world = lake.world
    world.killed_at(checkpoint)
    assert [1, 2] == lake.audited()
    lake.apply_suite(at_most=10_000)

    assert [(1, "done"), (2, "aborted")] == lake.ended()
    assert [1, 2] == lake.audited()
    assert lake.before == world.published()
    lake.apply_suite(at_most=1_000)
    lake.mend()
    lake.expect_each_once()
