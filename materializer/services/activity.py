"""Activities, and the port of those who listen to them: lineage and metrics.

An *activity* is one refresh, backfill, build, check or switch of one aggregate. A *listener* hears when it begins, after each run
but the last, and when it ends. Listeners never change what a command does: they work in a thread of their own, in order; the
command waits for them at its end, for a limited time; and what goes wrong in them becomes a warning. After a failure or a delay a
listener hears nothing for :data:`PAUSE` seconds, so a dead endpoint costs a loop over many aggregates one wait.

Without a listener, which is the default, :func:`activity` does nothing, and nothing that listens is imported.

What a command does at the moment is its *phase*. Services tell it by :func:`tell_phase`; a watch hears it by :func:`hearing`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from materializer.core.time.spans import Span
from materializer.errors.base import masked

if TYPE_CHECKING:
    from queue import SimpleQueue

    from materializer.core.quality.verdict import Verdict
    from materializer.core.refresh.plan import Plan, RunReport
    from materializer.journal.state import AggregateState

_LOG: Final = logging.getLogger("materializer")
PAUSE: Final = 300.0
"""Seconds in which a listener hears nothing after it failed."""


_Item = TypeVar("_Item")


class Phase(StrEnum):
    """What a command does at the moment."""

    STARTING = "starting Spark"
    READING = "reading the log"
    RECOVERING = "ending what was interrupted"
    PLANNING = "planning"
    COMPUTING = "computing"
    CHECKING = "checking"
    WRITING = "writing"
    COMMITTING = "committing"
    PUBLISHING = "publishing the next version"
    DEFINING = "checking definitions"
    APPLYING = "writing definitions"


Hear: TypeAlias = Callable[[str], None]
"""Takes what a command does from now on."""
_HEARD: Final[ContextVar[Hear | None]] = ContextVar("heard", default=None)


_LAST: Final[ContextVar[list[str]]] = ContextVar("last")
"""What was heard last."""


def heard() -> Hear | None:
    """Return what hears of phases, which a thread of the command cannot ask for itself; None if nothing does."""
    return _HEARD.get()


def tell_phase(phase: Phase) -> None:
    """Tell what the command does from now on."""
    hear = heard()
    if hear is not None:
        hear(phase)


def tell_each(phase: Phase, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield *items*, and tell how many of them the phase has done."""
    hear = heard()
    for done, item in enumerate(items):
        if hear is not None:
            hear(f"{phase}, {done:,} of {len(items):,}")
        yield item


@contextmanager
def hearing(hear: Hear | None) -> Iterator[None]:
    """Call *hear* with each phase that begins during the block."""
    last = [""]

    def passed_on(text: str) -> None:
        last[0] = text
        if hear is not None:
            hear(text)

    tokens = _HEARD.set(hear and passed_on), _LAST.set(last)
    try:
        yield
    finally:
        _HEARD.reset(tokens[0])
        _LAST.reset(tokens[1])


@contextmanager
def meanwhile(phase: Phase) -> Iterator[None]:
    """Tell what the command does during the block, and then again what it did before."""
    hear, before = heard(), _LAST.get([""])[0]
    if hear is not None:
        hear(phase)
    yield
    if hear is not None and before:
        hear(before)


class ActivityKind(StrEnum):
    """What a command does."""

    REFRESH = "refresh"
    BACKFILL = "backfill"
    BUILD = "build"
    CHECK = "check"
    SWITCH = "switch"


class Ending(StrEnum):
    """How an activity ended: it did its work, an error stopped it, or the process was asked to stop."""

    COMPLETE = "complete"
    FAIL = "fail"
    ABORT = "abort"


class Activity(Struct, frozen=True):
    """One activity, when it begins.

    Args:
        kind: What it does.
        state: The aggregate before it.
        root: Root of the lake.
        at: When it began, seconds since the epoch.
        start: First instant of the window that was asked for; None for an open start.
        end: First instant after that window; None for an open end.
        policy: The refresh policy that asked for it, or "".
    """

    kind: ActivityKind
    state: AggregateState
    root: str
    at: float
    start: int | None = None
    end: int | None = None
    policy: str = ""


class ActivityRun(Struct, frozen=True):
    """One run of an activity.

    Args:
        plan: Its plan.
        report: What it did.
        verdict: The gate's verdict, as JSON; empty without one.
    """

    plan: Plan
    report: RunReport
    verdict: Mapping[str, Any] = field(default_factory=dict)


class ActivityEnd(Struct, frozen=True):
    """The end of an activity.

    Args:
        ending: How it ended.
        state: The aggregate afterwards; the one before if it cannot be read.
        at: When it ended, seconds since the epoch.
        seconds: Wall time.
        outcome: What it came to, such as ``refreshed`` or ``up-to-date``; "" if it did not complete.
        window: The whole buckets of its window, if known.
        runs: The runs that ended, in order.
        verdict: What a check found.
        error: What stopped it.
        refused: The gate's verdict on a refresh that published nothing, as JSON; empty without one.
    """

    ending: Ending
    state: AggregateState
    at: float
    seconds: float
    outcome: str = ""
    window: Span | None = None
    runs: tuple[ActivityRun, ...] = ()
    verdict: Verdict | None = None
    error: BaseException | None = None
    refused: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Mapping[str, Any]]:
        """What gates found: of each run, and of the refresh that they refused."""
        return [*(run.verdict for run in self.runs), self.refused]


class Listener(Protocol):
    """What hears of activities. It may raise anything: the text becomes a warning."""

    def began(self, activity: Activity) -> None:
        """Hear that an activity begins."""

    def ran(self, activity: Activity, runs: Sequence[ActivityRun]) -> None:
        """Hear of the runs that ended so far, while others follow."""

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Hear that an activity ended."""


class Listening(Struct, frozen=True):
    """A listener that is loaded for the first activity.

    Args:
        name: What it is, for warnings.
        load: Returns it.
    """

    name: str
    load: Callable[[], Listener]


class Listeners:
    """All listeners of one lake.

    Args:
        listening: The listeners.
        patience: Seconds that a command waits for each of them when an activity ends.
    """

    def __init__(self, listening: Sequence[Listening] = (), patience: float = 5.0) -> None:
        self._patience = patience
        self._threads = [_Thread(each, patience) for each in listening]

    def __len__(self) -> int:
        return len(self._threads)

    def add(self, listening: Listening) -> None:
        """Let one more hear of the activities that begin from now on."""
        self._threads.append(_Thread(listening, self._patience))

    def tell(self, message: Callable[[Listener], None]) -> None:
        """Let each listener do something, in its own time."""
        for thread in self._threads:
            thread.tell(message)

    def wait(self) -> tuple[str, ...]:
        """Wait until they have done everything; return a warning for each failure since the last call."""
        return tuple(warning for thread in self._threads for warning in thread.wait())


class _Thread:
    """One listener with its thread, which is started with its first message."""

    def __init__(self, listening: Listening, patience: float) -> None:
        self.listening = listening
        self.patience = patience
        self.silent_until = 0.0
        self.queue: SimpleQueue[Callable[[Listener], None]] | None = None
        self.problems: list[str] = []

    @property
    def is_silent(self) -> bool:
        return time.monotonic() < self.silent_until

    def tell(self, message: Callable[[Listener], None]) -> None:
        if self.is_silent:
            return
        if self.queue is None:
            from queue import SimpleQueue  # noqa: PLC0415 (only with listeners)
            from threading import Thread  # noqa: PLC0415 (only with listeners)

            self.queue = SimpleQueue()
            name = f"materializer-{self.listening.name}"
            Thread(target=self._work, args=(self.queue,), name=name, daemon=True).start()
        self.queue.put(message)

    def wait(self) -> tuple[str, ...]:
        if self.queue is not None and not self.is_silent:
            from threading import Event  # noqa: PLC0415 (only with listeners)

            done = Event()
            self.queue.put(lambda _: done.set())
            if not done.wait(self.patience):
                self._silence(f"it took longer than {self.patience:g} s")
        problems, self.problems = tuple(self.problems), []
        return problems

    def _work(self, queue: SimpleQueue[Callable[[Listener], None]]) -> None:
        listener: Listener | None = None
        while True:
            message = queue.get()
            if self.is_silent:
                message(_DEAF)
                continue
            try:
                listener = self.listening.load() if listener is None else listener
                message(listener)
            except Exception as exc:  # noqa: BLE001 - whatever happens there, the command goes on
                self._silence(f"{type(exc).__name__}: {_short(exc)}")

    def _silence(self, why: str) -> None:
        if self.is_silent:
            return
        self.silent_until = time.monotonic() + PAUSE
        self.problems.append(f"{self.listening.name} was not notified, and is left out for {PAUSE:g} s: {why}")


class _Deaf:
    """A listener that hears nothing."""

    def began(self, activity: Activity) -> None:
        """Do nothing."""

    def ran(self, activity: Activity, runs: Sequence[ActivityRun]) -> None:
        """Do nothing."""

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Do nothing."""


_DEAF: Final = _Deaf()


def _short(exc: BaseException) -> str:
    """Return the text of an error on one line, without what an address may hold besides host and port."""
    from re import sub  # noqa: PLC0415 (only with listeners)

    text = masked(" ".join(str(exc).split()))
    return sub(r"(://)[^/@\s]*@", r"\1", sub(r"(https?://[^\s?'\"]*)\?[^\s'\"]*", r"\1", text))[:300]


class Telling:
    """What an activity tells its listeners; made by :func:`activity`."""

    def __init__(
        self,
        listeners: Listeners,
        activity: Activity | None,
        now: Callable[[], AggregateState | None] = lambda: None,
    ) -> None:
        self._listeners = listeners
        self._activity = activity
        self._now = now
        self._runs: list[ActivityRun] = []
        self._has_ended = False

    def ran(self, plan: Plan, report: RunReport, verdict: Mapping[str, Any], *, is_last: bool) -> None:
        """Tell of one run."""
        activity = self._activity
        if activity is None:
            return
        self._runs.append(ActivityRun(plan, report, verdict))
        if not is_last:
            runs = tuple(self._runs)
            self._listeners.tell(lambda listener: listener.ran(activity, runs))

    def completed(
        self, state: AggregateState, outcome: str, *, window: Span | None = None, verdict: Verdict | None = None
    ) -> tuple[str, ...]:
        """Tell that the activity did its work; return the warnings of listeners.

        Args:
            state: The aggregate afterwards.
            outcome: What it came to.
            window: The whole buckets of its window.
            verdict: What a check found.
        """
        return self._ended(Ending.COMPLETE, state, outcome=outcome, window=window, verdict=verdict)

    def stopped(self, exc: BaseException) -> None:
        """Tell that something stopped the activity; the warnings of listeners are logged."""
        if self._activity is not None:
            ending = Ending.FAIL if isinstance(exc, Exception) else Ending.ABORT
            log(self._ended(ending, self._now() or self._activity.state, error=exc))

    def _ended(self, ending: Ending, state: AggregateState, **known: Any) -> tuple[str, ...]:
        activity = self._activity
        if activity is None or self._has_ended:
            return ()
        self._has_ended = True
        now = time.time()
        runs = {run.plan.n for run in self._runs}
        ended = (e for e in reversed(state.ended) if e.n > activity.state.last_n and e.n not in runs and e.verdict)
        refused = next((e.verdict for e in ended), {})
        end = ActivityEnd(ending, state, now, now - activity.at, runs=tuple(self._runs), refused=refused, **known)
        self._listeners.tell(lambda listener: listener.ended(activity, end))
        return self._listeners.wait()


_SILENT: Final = Telling(Listeners(), None)


def log(warnings: Sequence[str]) -> None:
    """Log warnings that no report has room for."""
    for warning in warnings:
        _LOG.warning("%s", masked(warning))


@contextmanager
def activity(
    listeners: Listeners,
    kind: ActivityKind,
    state: AggregateState,
    root: str,
    *,
    start: int | None = None,
    end: int | None = None,
    policy: str = "",
    now: Callable[[], AggregateState | None] = lambda: None,
) -> Iterator[Telling]:
    """Tell listeners that an activity begins; if an error leaves the block, tell that it stopped.

    Args:
        listeners: The listeners.
        kind: What it does.
        state: The aggregate.
        root: Root of the lake.
        start: First instant of the window that was asked for.
        end: First instant after that window.
        policy: The refresh policy that asked for it.
        now: Returns the aggregate as the journal was read last, for an activity that is stopped.
    """
    if not listeners:
        yield _SILENT
        return
    begun = Activity(kind, state, root, time.time(), start, end, policy)
    listeners.tell(lambda listener: listener.began(begun))
    telling = Telling(listeners, begun, now)
    try:
        yield telling
    except BaseException as exc:
        telling.stopped(exc)
        raise
