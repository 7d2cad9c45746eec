"""Who listens to activities: they hear everything in order, and whatever happens to them, the command goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from materializer.journal.state import AggregateState
from materializer.services.activity import (
    Activity,
    ActivityEnd,
    ActivityKind,
    ActivityRun,
    Ending,
    Listeners,
    Listening,
    Phase,
    activity,
    hearing,
    meanwhile,
    tell_phase,
)
from tests.services.no_spark import LocalLake, each, view


class Book:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def began(self, activity: Activity) -> None:
        """Write it down."""
        self.heard.append(f"{activity.kind} began")

    def ran(self, activity: Activity, runs: Sequence[ActivityRun]) -> None:
        """Write it down."""
        self.heard.append(f"{activity.kind} ran {len(runs)}")

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Write it down."""
        self.heard.append(f"{activity.kind} {end.ending}: {end.outcome or type(end.error).__name__}")


class Failing(Book):
    """A listener whose endpoint is broken."""

    def began(self, activity: Activity) -> None:
        """Fail."""
        super().began(activity)
        raise ConnectionError("http://me:secret@example.test/api?token=secret refused")


class Hanging(Book):
    """A listener whose endpoint answers late."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Wait."""
        self.answer.wait(20)
        super().ended(activity, end)


@pytest.fixture
def state(tmp_path: Path) -> AggregateState:
    """An aggregate."""
    lake = LocalLake(tmp_path)
    lake.apply(view("hourly", each("1 hour")))
    return lake.state("hourly")


def listeners(*books: Book, patience: float = 5.0) -> Listeners:
    """Return listeners by their objects."""
    loads: list[Callable[[], Book]] = [lambda book=book: book for book in books]
    return Listeners([Listening(f"listener {n}", load) for n, load in enumerate(loads)], patience)


def test_everything_is_heard_in_order(state: AggregateState) -> None:
    """
    By each listener, and before the command ends.
    """
    books = Book(), Book()
    with activity(listeners(*books), ActivityKind.SWITCH, state, "/lake") as telling:
        warnings = telling.completed(state, "switched")

    assert () == warnings
    assert [["switch began", "switch complete: switched"]] * 2 == [book.heard for book in books]


@pytest.mark.parametrize(
    ("error", "ending"),
    [(ValueError(), Ending.FAIL), (KeyboardInterrupt(), Ending.ABORT), (SystemExit(), Ending.ABORT)],
)
def test_what_stops_an_activity_is_heard(state: AggregateState, error: BaseException, ending: Ending) -> None:
    """
    An error is a failure; to be told to stop is none. It leaves the block unchanged.
    """
    book = Book()
    with pytest.raises(type(error)) as caught, activity(listeners(book), ActivityKind.CHECK, state, "/lake"):
        raise error

    assert caught.value is error
    assert ["check began", f"check {ending}: {type(error).__name__}"] == book.heard


def test_a_failing_listener_is_one_warning_and_then_left_out(state: AggregateState) -> None:
    """
    Others still hear everything, and the warning shows neither password nor query of an address.
    """
    book, failing = Book(), Failing()
    both = listeners(failing, book)
    warnings = []
    for _ in range(3):
        with activity(both, ActivityKind.SWITCH, state, "/lake") as telling:
            warnings += telling.completed(state, "switched")

    assert ["switch began"] == failing.heard
    assert ["switch began", "switch complete: switched"] * 3 == book.heard
    assert len(warnings) == 1
    assert "listener 0" in warnings[0]
    assert "example.test/api refused" in warnings[0]
    assert "secret" not in warnings[0]


def test_a_listener_that_cannot_be_loaded_is_a_warning(state: AggregateState) -> None:
    """
    As is one whose library is not installed.
    """

    def load() -> Book:
        raise ModuleNotFoundError("no module named 'lineage'")

    with activity(Listeners([Listening("it", load)], 5), ActivityKind.SWITCH, state, "/lake") as telling:
        warnings = telling.completed(state, "switched")

    assert ["it"] == [w.split(" was not notified")[0] for w in warnings]


def test_a_listener_that_hangs_is_waited_for_once(state: AggregateState) -> None:
    """
    For as long as the patience, however many activities follow.
    """
    hanging = Hanging()
    slow = listeners(hanging, patience=0.3)
    began = time.monotonic()
    warnings = []
    for _ in range(5):
        with activity(slow, ActivityKind.SWITCH, state, "/lake") as telling:
            warnings += telling.completed(state, "switched")
    took = time.monotonic() - began
    hanging.answer.set()

    assert 0.3 <= took < 1.2
    assert ["longer than 0.3 s" in w for w in warnings] == [True]


def test_a_refresh_tells_of_its_runs(tmp_path: Path) -> None:
    """
    A backfill in three runs is one activity; the last run is told with the end. A request without work is told, too.
    """
    book = Book()
    lake = LocalLake(tmp_path)
    lake.listen(listeners(book))
    lake.apply(view("hourly", each("1 hour")))
    lake.add(*((hour * 3_600_000_000, hour) for hour in range(3)))
    lake.opened.backfill("hourly", buckets_per_run=1)
    lake.opened.refresh("hourly")

    assert [
        "backfill began", "backfill ran 1", "backfill ran 2", "backfill complete: refreshed",
        "refresh began", "refresh complete: up-to-date",
    ] == book.heard  # fmt: skip


def test_a_broken_listener_is_a_warning_of_the_refresh(tmp_path: Path) -> None:
    """
    The refresh is done, and says so.
    """
    lake = LocalLake(tmp_path)
    lake.listen(listeners(Failing()))
    lake.apply(view("hourly", each("1 hour")))
    lake.add((0, 1))
    report = lake.opened.refresh("hourly")

    assert "refreshed" == report.outcome
    assert ["listener 0"] == [w.split(" was not notified")[0] for w in report.warnings]
    assert [1] == [row["v"] for row in lake.rows_of("hourly")]


def test_what_is_done_meanwhile_ends_with_what_was_done_before() -> None:
    """
    Spark is started while something is computed: both are heard, and then again what is computed; nothing without a listener.
    """
    heard: list[str] = []
    with hearing(heard.append):
        with meanwhile(Phase.STARTING):
            pass
        tell_phase(Phase.COMPUTING)
        with meanwhile(Phase.STARTING):
            pass
    with meanwhile(Phase.STARTING):
        pass

    assert heard == ["starting Spark", "computing", "starting Spark", "computing"]
