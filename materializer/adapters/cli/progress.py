"""The progress of a refresh: a bar on a terminal, a line for each run elsewhere, nothing for programs.

A refresh that takes long says on standard error what it does, in its phases, also between two runs and where no terminal is.
"""

# ruff: noqa: PLC0415 - rich is imported when there is a bar to draw

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO, TypeAlias

from materializer.adapters.cli.render.plan import short_plan_lines
from materializer.adapters.cli.render.refresh import run_line, run_text
from materializer.adapters.cli.words import count, duration, number, visible, wrapped
from materializer.core.refresh.plan import Plan
from materializer.core.time.instants import Shown
from materializer.services.activity import Phase, hearing

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from materializer.services.protocol.decision import RunNote
    from materializer.services.refresh.reports import RunDone


FIRST: Final = 5.0
"""Seconds after which a command that goes on says what it does."""
AGAIN: Final = 10.0
"""Seconds after which it says so again."""
Waiting: TypeAlias = Callable[[threading.Event, float], bool]
"""Waits for an event at most so many seconds, and returns whether it came."""


class Heartbeat:
    """A context manager that writes a line about the phase of a command after :data:`FIRST` seconds, and then each :data:`AGAIN`.

    Args:
        name: The aggregate.
        write: Writes lines.
        wait: Waits for the end of the command; tests give another one, which needs no time.
    """

    def __init__(self, name: str, write: Callable[[Iterable[str]], None], wait: Waiting = threading.Event.wait) -> None:
        self._name = name
        self._write = write
        self._wait = wait
        self._phase: str = Phase.READING
        self._ended = threading.Event()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        self._closing.enter_context(hearing(self._hear))
        thread = threading.Thread(target=self._beat, name="materializer-progress", daemon=True)
        thread.start()
        self._closing.callback(thread.join)
        self._closing.callback(self._ended.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def _hear(self, phase: str) -> None:
        self._phase = phase

    def _beat(self) -> None:
        passed, pause = 0.0, FIRST
        while not self._wait(self._ended, pause):
            passed, pause = passed + pause, AGAIN
            self._write([f"{self._name}: {self._phase}, {passed:.0f} s so far"])


class Watch(Protocol):
    """A context manager around a refresh, which reports its plans and runs to it."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, however the refresh ended."""

    def on_plan(self, plan: Plan, note: RunNote) -> None:
        """Take a plan before it is carried out."""

    def on_run(self, run: RunDone) -> None:
        """Take a run that has ended."""


class SilentWatch:
    """A watch that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def on_plan(self, plan: Plan, note: RunNote) -> None:
        """See :class:`Watch`."""

    def on_run(self, run: RunDone) -> None:
        """See :class:`Watch`."""


class Tally:
    """Sums over the runs so far, and an estimate of the time left."""

    def __init__(self) -> None:
        self.runs = 0
        self.rows = 0
        self.buckets = 0
        self.seconds = 0.0
        self.first = 0.0
        self.runs_left = 0
        self.estimated = 0
        """Runs in all as they were expected before the last one; 0 before the first."""
        self.is_first_of_spark = False
        self._executor = ""

    def add(self, run: RunDone) -> None:
        """Count a run that has ended."""
        self.estimated = self.runs + self.runs_left
        self.is_first_of_spark = self._executor == "local" != run.report.executor
        self._executor = run.report.executor
        self.runs += 1
        self.rows += run.report.rows_read
        self.buckets += run.report.buckets
        self.seconds += run.report.seconds
        self.first = self.first or run.report.seconds
        self.runs_left = run.runs_left

    @property
    def seconds_left(self) -> float:
        """Estimated seconds of the runs that are left. The first run counts only while it is the only one: it starts Spark."""
        if self.runs <= 1:
            return self.seconds * self.runs_left
        return (self.seconds - self.first) / (self.runs - 1) * self.runs_left


class LineWatch(SilentWatch):
    """A watch that writes lines: the plan and the outcome of a refresh, or one line for each run of a backfill."""

    def __init__(
        self,
        name: str,
        time_type: Shown,
        write: Callable[[Iterable[str]], None],
        heartbeat: Heartbeat,
        *,
        width: int,
        is_long: bool,
        is_why: bool = False,
    ) -> None:
        self._heartbeat = heartbeat
        self._name = name
        self._kind = time_type
        self._write = write
        self._width = width
        self._is_long = is_long
        self._is_why = is_why
        self._tally = Tally()

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeat.__exit__(kind, error, trace)

    def on_plan(self, plan: Plan, note: RunNote) -> None:  # noqa: ARG002 - the port has this argument
        """See :class:`Watch`."""
        if not self._is_long:
            self._write(short_plan_lines(self._name, plan, self._kind, self._width, is_why=self._is_why))
        elif not self._tally.runs:
            self._write([f"{self._name}: backfilling at source version {plan.source_version}"])

    def on_run(self, run: RunDone) -> None:
        """See :class:`Watch`."""
        self._tally.add(run)
        if self._is_long:
            t = self._tally
            line = run_line(
                t.runs,
                run.report,
                run.plan,
                run.runs_left,
                t.seconds_left,
                self._kind,
                t.estimated,
                is_first_of_spark=t.is_first_of_spark,
            )
            self._write([line])
        else:
            self._write(wrapped(run_text(run.report), "  done      ", width=self._width))
        from materializer.adapters.cli.render.gate import gate_text

        if gate := gate_text(run.verdict, self._kind):
            self._write(wrapped(gate, "  gate      ", width=self._width))


class BarWatch(SilentWatch):
    """A watch that draws a progress bar with runs, rows, buckets and the time left."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._tally = Tally()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(file=self._stream)
        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(bar_width=None), TextColumn("{task.fields[done]}"))
        self._bar = Progress(*columns, console=console, expand=True)
        self._task = self._bar.add_task(visible(self._name), total=None, done="looking at the source")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is None or self._task is None:
            return
        if not self._tally.runs:
            # an idle refresh leaves no bar behind
            self._bar.update(self._task, visible=False)
        elif kind is None:
            self._bar.update(self._task, total=self._tally.runs, completed=self._tally.runs, done=self._done())
        self._bar.stop()

    def on_plan(self, plan: Plan, note: RunNote) -> None:
        """See :class:`Watch`."""
        if self._bar is not None and self._task is not None and not self._tally.runs:
            total = note.run.runs if note.run else 1
            self._bar.update(
                self._task,
                total=max(total, 1),
                done=f"run 1 of about {number(total)}, reads {number(plan.estimate.rows)} rows",
            )

    def on_run(self, run: RunDone) -> None:
        """See :class:`Watch`."""
        self._tally.add(run)
        if self._bar is not None and self._task is not None:
            t = self._tally
            self._bar.update(self._task, completed=t.runs, total=t.runs + t.runs_left, done=self._done())

    def _done(self) -> str:
        t = self._tally
        left = f", {duration(t.seconds_left)} left" if t.runs_left else ""
        return (
            f"{count(t.runs, 'run')}, {count(t.rows, 'row')}, {count(t.buckets, 'bucket')}, {duration(t.seconds)}{left}"
        )
