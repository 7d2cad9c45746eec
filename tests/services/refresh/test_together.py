"""Several aggregates of one source in one command: each file is read once, and every output is what it would be alone."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.lake.reads import SharedReads, table_at
from materializer.services.planning.options import RefreshOptions
from materializer.services.refresh.service import Refresher
from tests.services.several import DAY, HOUR, VIEWS, Several, View

COUNTED = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of opened files")
COMMANDS = ["refresh", "policy", "backfill"]


def late(lake: Several) -> None:
    """Commit late rows of two days."""
    lake.write((9 * HOUR, "a", 7, 7))
    lake.write((2 * DAY + 9 * HOUR, "b", 7, 7))


def corrected(lake: Several) -> None:
    """Change a row of one day, and delete a row of another."""
    lake.sales.update(predicate="v = 31", updates={"v": "-3", "w": "8"})
    lake.sales.delete("v = 2061")


def read(root: Path, what: str, views: int, change: Callable[[Several], None] | None, **options: Any) -> dict[str, int]:
    """Return what a command reads of the source: the first time, or after a change."""
    lake = Several(root, VIEWS[-views:], **options)
    lake.fill(4)
    if change is not None:
        assert 0 == lake.command(what)[0]
        change(lake)
    with lake.counted() as found:
        status, text = lake.command(what, "2024-03-01T02:00:00Z")
    assert (0, 0) == (status, text.count("up to date")), text
    for view in lake.views:
        assert lake.naive(view) == lake.published(view)
    return found


CHANGES: Final = {"first": None, "late": late, "corrected": corrected}
EACH: Final = [
    pytest.param(
        what,
        change,
        partitioned,
        id=f"{what}-{name}-{'partitioned' if partitioned else 'plain'}",
        # of each command and change one kind of table in each run, in turn; the other kind is slow
        marks=[] if (i + j) % 2 == partitioned else pytest.mark.slow,
    )
    for i, what in enumerate(COMMANDS)
    for j, (name, change) in enumerate(CHANGES.items())
    for partitioned in (False, True)
]


@pytest.mark.one_of(4)
@COUNTED
@pytest.mark.parametrize(("what", "change", "partitioned"), EACH)
def test_five_aggregates_read_no_more_than_one(
    tmp_path: Path, what: str, change: Callable[[Several], None] | None, partitioned: bool
) -> None:
    """
    Five aggregates read the files of the source that one reads, and open them no more often, whichever command refreshes them: the
    first time, after late rows, and after corrections and deletions. Files that were added whole, of tables without partitions,
    are opened once for their changes, footer and rows; others for the library, which opens a file for each part that it reads.
    """
    one = read(tmp_path / "one", what, 1, change, partitioned=partitioned)
    five = read(tmp_path / "five", what, 5, change, partitioned=partitioned)

    assert one["files"]
    assert one["files"] == five["files"]
    assert five["openings"] <= one["openings"]
    assert five["bytes"] <= 1.02 * one["bytes"]  # a writer does not always write the same bytes
    if change is not corrected and not partitioned:
        assert five["openings"] == five["files"]


@COUNTED
def test_one_after_the_other_they_read_five_times_as_much(tmp_path: Path) -> None:
    """
    So the counter counts: outside of a command nothing is shared.
    """
    lake = Several(tmp_path)
    lake.fill(4)
    lake.command("refresh")
    late(lake)
    with lake.counted() as found:
        for view in VIEWS:
            lake.opened.refresh(view.name)
    one = read(tmp_path / "one", "refresh", 1, late)

    assert found["openings"] >= 4 * one["openings"]


@COUNTED
@pytest.mark.parametrize("reads", [SharedReads(0, 1 << 20), SharedReads(1_000_000, 0)], ids=["rows", "bytes"])
def test_what_does_not_fit_is_read_again(tmp_path: Path, reads: SharedReads) -> None:
    """
    A command without room for rows reads as much as its aggregates one after the other, and publishes the same.
    """
    without = read(tmp_path / "without", "refresh", 5, corrected, reads=reads)
    roomy = read(tmp_path / "roomy", "refresh", 5, corrected)

    assert without["files"] == roomy["files"]
    assert without["openings"] > 2 * roomy["openings"]


def test_aggregates_that_are_at_other_versions_share_files(tmp_path: Path) -> None:
    """
    A commit between two aggregates of a command is seen by the second and not by the first; the next command brings the first up to it.
    """
    lake = Several(tmp_path)
    lake.fill(3)
    lake.command("refresh")
    late(lake)
    rows = iter(range(len(VIEWS)))
    versions = []
    with lake.opened.together():
        for view in VIEWS:
            report = lake.opened.refresh(
                view.name, on_run=lambda _: lake.write((DAY + 9 * HOUR, "a", 500 + next(rows), 500))
            )
            versions.append(report.source_version)
            assert lake.naive(view, report.source_version) == lake.published(view)

    assert versions == sorted(set(versions))
    assert 0 == lake.command("refresh")[0]
    for view in VIEWS:
        assert lake.naive(view) == lake.published(view)


@pytest.mark.parametrize("failing", range(len(VIEWS)))
def test_one_that_fails_spoils_no_other(tmp_path: Path, failing: int) -> None:
    """
    Its tables are gone; the others are refreshed, and the command says what failed.
    """
    lake = Several(tmp_path)
    lake.fill(3)
    lake.command("refresh")
    late(lake)
    shutil.rmtree(tmp_path / VIEWS[failing].name / "partials")
    status, text = lake.command("refresh")

    assert status
    assert "partials" in text
    for view in VIEWS[:failing] + VIEWS[failing + 1 :]:
        assert lake.naive(view) == lake.published(view)


def test_nothing_is_remembered_after_a_command(tmp_path: Path) -> None:
    """
    Nor after one that failed, nor of a source of which every aggregate of the command was refreshed.
    """
    lake = Several(tmp_path)
    path = str(tmp_path / "sales")
    lake.fill(2)
    lake.command("refresh")
    assert table_at(path) is None
    late(lake)
    with lake.opened.together():
        for view in VIEWS[:-1]:
            lake.opened.refresh(view.name)
        shared = table_at(path)
        assert shared is not None
        assert shared.size
        lake.opened.refresh(VIEWS[-1].name)
        assert 0 == shared.size
    assert table_at(path) is None
    with pytest.raises(ZeroDivisionError), lake.opened.together():
        raise ZeroDivisionError
    assert table_at(path) is None


def test_children_of_one_parent_see_what_it_published_in_the_command(tmp_path: Path) -> None:
    """
    Parents come first, so the versions of the table that two children share change within the command.
    """
    hours = View("hours", 60, "", VIEWS[-1].measures, VIEWS[-1].of)
    lake = Several(tmp_path, [hours, VIEWS[0]])
    for of in "vw":
        lake.apply(
            f"CREATE MATERIALIZED VIEW days_{of} AS SELECT time_bucket('1 day', at) AS at, max({of}) AS most FROM hours "
            "GROUP BY ALL;"
        )
    for change_ in (lambda _: lake.fill(3), late, corrected):
        change_(lake)
        assert 0 == lake.command("refresh")[0]
        found = lake.published(hours)
        assert lake.naive(hours) == found
        assert lake.naive(VIEWS[0]) == lake.published(VIEWS[0])
        days = sorted({at // DAY * DAY for at, *_ in found})
        for column, of in enumerate("vw", start=1):
            expected = [(day, max(row[column] for row in found if row[0] // DAY * DAY == day)) for day in days]
            assert expected == sorted(lake.published(replace(hours, name=f"days_{of}")))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_random_histories_are_what_a_loop_says(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """
    Late rows, corrections, deletions, new columns and compactions, some of them between two aggregates of a command, with much,
    little and no room; every output is what a loop over the rows of its source version gives.
    """
    rng = random.Random(seed)
    room = rng.choice(
        [SharedReads(), SharedReads(), SharedReads(150, 1 << 20), SharedReads(10_000, 3_000), SharedReads(0, 0)]
    )
    lake = Several(tmp_path_factory.mktemp("lake"), reads=room, partitioned=rng.random() < 0.3)
    lake.fill(rng.randint(1, 3))
    views = [view for view in VIEWS if rng.random() < 0.8] or [VIEWS[0]]
    for _ in range(rng.randint(1, 3)):
        change(lake, rng)
        with lake.opened.together([view.name for view in views]):
            for view in views:
                options = RefreshOptions(strategy=rng.choice(["", "", "recompute", "retract", "merge"]))
                report = Refresher(lake.wired).refresh(view.name, options)
                assert lake.naive(view, report.source_version) == lake.published(view)
                if rng.random() < 0.3:
                    change(lake, rng)
    assert 0 == lake.command(rng.choice(COMMANDS[::2]))[0]
    for view in VIEWS:
        assert lake.naive(view) == lake.published(view)


def change(lake: Several, rng: random.Random) -> None:
    """Commit something to the source."""
    at = rng.randrange(3) * DAY + rng.randrange(24) * HOUR
    match rng.randrange(5):
        case 0:
            lake.sales.update(predicate=f"v = {rng.randrange(120)}", updates={"v": "v + 1000", "w": "NULL"})
        case 1:
            lake.sales.delete(f"w = {-rng.randrange(120)}")
        case 2:
            lake.sales.optimize.compact()
        case _:
            for _ in range(rng.randint(1, 3)):
                shop = rng.choice(["a", "b", "c", None])
                rows = [(at + i, shop, rng.choice([None, i]), rng.randrange(9)) for i in range(rng.randint(1, 4))]
                lake.write(*rows)
