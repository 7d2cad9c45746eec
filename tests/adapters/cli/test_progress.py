"""A refresh that takes long says what it does where no terminal is; no test here waits."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue

import pytest

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import refreshing
from materializer.adapters.cli.output import JsonOutput, Output, TextOutput
from tests.services.no_spark import LocalLake, each, view


class Time:
    """Time that passes when a test says so, for the thread that writes the lines."""

    def __init__(self) -> None:
        self.asked: Queue[float] = Queue()
        self.turns: Queue[bool] = Queue()
        self.waited: list[float] = []

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        """Wait as :meth:`threading.Event.wait` does."""
        self.asked.put(seconds)
        while not ended.is_set():
            try:
                return self.turns.get(timeout=0.001)
            except Empty:
                continue
        return True

    def passes(self, times: int = 1) -> None:
        """Let the time pass that is waited for, and return when the line is written."""
        for _ in range(times):
            self.waited.append(self.asked.get())
            self.turns.put(False)
            seconds = self.asked.get()
            self.asked.put(seconds)


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with an aggregate by days that has something to do."""
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(view("days", each("1 day")))
    return lake


def refreshed(lake: LocalLake, output: Output) -> None:
    call = CommandCall(output, opened=lake.opened)
    assert guarded(call, lambda: refreshing.refresh(call, "days")) == 0


def at_each_step(lake: LocalLake, do: Callable[[], None]) -> None:
    """Do something before each step of the next refresh that people know."""
    for step in ("plan", "compute", "writing_output", "done"):
        lake.at[step] = do


def test_a_long_refresh_says_what_it_does(lake: LocalLake) -> None:
    """After five seconds and then every ten, on standard error; the plan and the outcome stay on standard output."""
    time, out, err = Time(), io.StringIO(), io.StringIO()
    at_each_step(lake, time.passes)
    refreshed(lake, TextOutput(out, err, wait=time.wait))

    assert [5, 10, 10, 10] == time.waited
    assert [
        "days: reading the log, 5 s so far",
        "days: computing, 15 s so far",
        "days: writing, 25 s so far",
        "days: committing, 35 s so far",
    ] == err.getvalue().splitlines()
    assert "so far" not in out.getvalue()


def test_a_short_refresh_says_nothing(lake: LocalLake) -> None:
    """Where the five seconds never pass, standard error stays empty."""
    err = io.StringIO()
    refreshed(lake, TextOutput(io.StringIO(), err, wait=Time().wait))

    assert err.getvalue() == ""


@pytest.mark.parametrize("tells_progress", [True, False])
def test_programs_get_it_if_they_ask_for_progress(lake: LocalLake, tells_progress: bool) -> None:
    """Standard output has the document and nothing else; without `--progress` standard error has errors and nothing else."""
    time, out, err = Time(), io.StringIO(), io.StringIO()
    at_each_step(lake, time.passes if tells_progress else lambda: None)
    refreshed(lake, JsonOutput(out, err, tells_progress=tells_progress, wait=time.wait))

    assert ["refreshes"] == list(json.loads(out.getvalue()))
    assert tells_progress == ("days: computing, 15 s so far" in err.getvalue().splitlines())


def test_a_refresh_that_fails_ends_the_lines(lake: LocalLake) -> None:
    """No line follows the error, and the next refresh counts from its own beginning."""
    time, err = Time(), io.StringIO()

    def fail() -> None:
        time.passes()
        raise KeyboardInterrupt

    lake.at["compute"] = fail
    call = CommandCall(TextOutput(io.StringIO(), err, wait=time.wait), opened=lake.opened)
    assert guarded(call, lambda: refreshing.refresh(call, "days")) == 130
    assert "materializer-progress" not in [thread.name for thread in threading.enumerate()]
    assert ["days: computing, 5 s so far"] == [line for line in err.getvalue().splitlines() if "so far" in line]
