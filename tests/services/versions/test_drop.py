"""What happens in the middle of a command that holds a lease: it is lost, somebody begins to read, the process dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.errors import ForeignTableError, HasReadersError, LeaseLostError, RetryableError
from materializer.journal.events import LeaseTaken
from materializer.journal.state import AggregateState
from materializer.services import processes
from tests.appending import append
from tests.services.no_spark import Lake, each, view

DAYS = view("days", each("1 day"), "hours")
MINUTES = view("hours", each("1 minute"))


class Death(BaseException):
    """Ends a command as the death of its process does."""


def die() -> None:
    """End the command."""
    raise Death


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an aggregate of which something is published, and its next version."""
    lake = Lake(tmp_path)
    lake.apply(view("hours", each("1 hour")))
    lake.materialise("hours")
    return lake


def taken_over(lake: Lake) -> Callable[[], None]:
    """Return a function by which another process takes the lease."""
    lease = replace(processes.new_lease(time.time(), 60), owner="another")
    return lambda: append(lake.opened.journal, (lake.state("hours").id, LeaseTaken(lease)))


def known(lake: Lake) -> dict[str, AggregateState]:
    """Return what the journal knows, without leases."""
    return {key: replace(state, lease=None) for key, state in lake.opened.journal.view().all.items()}


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("drop_journal", lambda lake: lake.opened.drop("hours")),
        ("describe", lambda lake: lake.opened.add_policy("hours", start_offset="1 day")),
        ("version_drop", lambda lake: lake.opened.abandon("hours")),
        ("version_journal", lambda lake: lake.apply(view("hours", each("2 hours")))),
    ],
    ids=["drop", "describe", "abandon", "build"],
)
def test_who_lost_the_lease_appends_nothing(lake: Lake, step: str, command: Callable[[Lake], object]) -> None:
    """
    Another process took over just before the last commit of a command: it is refused, and the folders are untouched.
    """
    if step != "version_journal":
        lake.apply(MINUTES)
    before, lake.at[step] = known(lake), taken_over(lake)

    with pytest.raises(LeaseLostError, match="'hours' was taken over"):
        command(lake)

    assert not lake.at
    assert (known(lake) == before) or (step == "version_journal" and len(known(lake)) == 1)
    assert (lake.root / "hours" / "output" / "_delta_log").is_dir()
    assert [] == lake.opened.lost()


def test_who_is_read_meanwhile_is_not_dropped(lake: Lake) -> None:
    """
    A roll-up is applied just before the journal forgets its parent: the parent stays, and the roll-up has something to read.
    """
    lake.at["drop_journal"] = lambda: lake.apply(DAYS)

    with pytest.raises(HasReadersError, match="'hours' is read by days"):
        lake.opened.drop("hours")

    assert ["days", "hours"] == lake.names
    assert (lake.root / "hours" / "output" / "_delta_log").is_dir()


def test_what_reads_a_dropped_aggregate_is_not_applied(lake: Lake) -> None:
    """
    Its parent is dropped just before the journal gets to know it; nothing of it stays.
    """
    lake.at["apply_journal"] = lambda: lake.opened.drop("hours")

    with pytest.raises(RetryableError, match="'hours', which 'days' reads, was dropped a moment ago"):
        lake.apply(DAYS)

    assert [] == lake.names
    assert {"raw"} == {p.name for p in lake.root.iterdir() if p.name[0] not in "_."}


def test_the_folders_of_a_drop_that_died_go_with_the_next_one(lake: Lake) -> None:
    """
    The journal has forgotten the aggregate. Its folders are no lost tables, and its name is free after the next drop.
    """
    lake.at["drop_folders"] = die
    with pytest.raises(Death):
        lake.opened.drop("hours")
    assert [] == lake.names
    assert [] == lake.opened.lost()
    with pytest.raises(ForeignTableError) as caught:
        lake.apply(view("hours", each("1 hour")))
    assert caught.value.hint == "run 'materializer drop hours --yes' again: a drop was interrupted"

    assert ["hours"] == lake.opened.drop("hours")
    assert not (lake.root / "hours").exists()
    lake.apply(view("hours", each("1 hour")))
    assert ["hours"] == lake.names


def test_a_drop_that_died_before_the_journal_knew_changes_nothing(lake: Lake) -> None:
    """
    The aggregate goes on, whatever the dead process left in its folder; the next drop removes all of it.
    """
    lake.at["drop_journal"] = die
    with pytest.raises(Death):
        lake.opened.drop("hours")

    assert ["hours"] == lake.names
    assert ["hours"] == lake.opened.drop("hours")
    assert not (lake.root / "hours").exists()
