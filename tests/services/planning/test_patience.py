from __future__ import annotations

import threading

import pytest

from materializer.services.planning.patience import announced


def test_a_plan_that_takes_long_says_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    """
    One line names the aggregate and what is done at that time.
    """
    asked = threading.Event()
    phase = ["reads"]

    def doing() -> str:
        asked.set()
        return phase[0]

    before = set(threading.enumerate())
    with announced("bars", doing, 0.0):
        assert asked.wait(60)
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
        phase[0] = "writes"

    assert ["'bars' is being planned for 0 s now: reads"] == caplog.messages


def test_a_quick_plan_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """
    Nothing is asked and nothing is logged, and no thread waits after the plan has ended.
    """
    before = set(threading.enumerate())
    with announced("bars", lambda: pytest.fail("it was asked"), 3600.0):
        waiting = set(threading.enumerate()) - before
    for thread in waiting:
        thread.join(60)

    assert [] == caplog.messages
    assert waiting
    assert not any(thread.is_alive() for thread in waiting)
