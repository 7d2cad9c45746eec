"""``run``: a process that stays, and refreshes what comes due or becomes dirty."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread
from types import FrameType
from typing import Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.commands.reporting import port_of
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import Every, MaybeName, Port, ServeToo
from materializer.adapters.cli.render.run import AgainResult, EndedResult, FollowedResult, FollowingResult
from materializer.errors import MaterializerError, UsageError
from materializer.machine import give_back, share_arenas

PANEL = "Refresh"
LEAST: Final = 0.05
"""The least seconds between two looks."""
GIVEN_BACK: Final = 60.0
"""Seconds after which free memory is given back, once something was refreshed."""
UNITS: Final = {
    ("", "s", "sec", "second", "seconds"): 1.0,
    ("ms", "millisecond", "milliseconds"): 0.001,
    ("m", "min", "minute", "minutes"): 60.0,
    ("h", "hour", "hours"): 3600.0,
}
"""Seconds of the units of a length."""


def run(
    call: CommandCall, name: MaybeName = None, *, every: Every = "5s", serve: ServeToo = False, port: Port = None
) -> None:
    """Stay, and refresh what a policy says as soon as it is due or dirty, until Ctrl-C or SIGTERM."""
    from materializer.services.schedule.following import Failed

    seconds = _seconds(every)
    chosen = port_of(serve, port)
    share_arenas()
    given_back = began = time.monotonic()
    refreshes = failures = 0
    names = [name] if name is not None else call.lake.names()
    followed = {state.aggregate for state in call.lake.policies(name)}
    stop = Event()
    with _ending(stop), _served(call, chosen) if serve else nullcontext() as url:
        call.output.show(
            FollowingResult([n for n in names if n in followed], [n for n in names if n not in followed], url)
        )
        for each in call.lake.follow(name, every=seconds, stop=stop):
            if isinstance(each, Failed):
                failures += 1
                call.output.fail(each.error)
                call.output.show(AgainResult(each))
            else:
                refreshes += 1
                call.output.show(FollowedResult(each, call.lake.grid(each.aggregate).shown))
            if time.monotonic() - given_back > GIVEN_BACK:
                give_back()
                given_back = time.monotonic()
    call.output.show(EndedResult(time.monotonic() - began, refreshes, failures, _leases(call)))


def _leases(call: CommandCall) -> list[str] | None:
    """Return the aggregates whose lease this process has; None if the journal cannot be read."""
    from materializer.services.processes import is_own

    try:
        states = call.lake.journal.view().all.values()
    except MaterializerError:
        return None
    return sorted({s.name for s in states if s.lease is not None and is_own(s.lease)})


def _seconds(every: str) -> float:
    """Return the seconds of a length such as ``500ms``, ``5s`` or ``2 minutes``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", every.strip().lower())
    unit = None if found is None else next((n for names, n in UNITS.items() if found[2] in names), None)
    if found is None or unit is None or float(found[1]) * unit < LEAST:
        raise UsageError(
            f"--every cannot be {every!r}", hint=f"give a length such as 500ms, 5s or 2m, at least {LEAST:g}s"
        )
    return float(found[1]) * unit


@contextmanager
def _served(call: CommandCall, port: int) -> Iterator[str]:
    """Serve the page and the probes during the block, and yield the address of the page."""
    server = call.lake.follow_server(port)
    thread = Thread(target=server.serve_forever, name="materializer-page", daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _ending(stop: Event) -> Iterator[None]:
    """Set *stop* at the first signal; at the second Ctrl-C interrupt what runs."""

    def end(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    end.stays = True  # type: ignore[attr-defined]  # also when Spark is started, which has a handler for Ctrl-C
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


COMMANDS: Final = listed(PANEL, run)
