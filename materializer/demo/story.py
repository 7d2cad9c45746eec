"""The output of the demo: headings, facts, and a line for each refresh, at most 100 columns wide; or all plans with their reasons.

A terminal also gets colour, and a progress bar during long steps; other outputs get the same text without them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final, assert_never

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from materializer.core.printed import size_text
from materializer.core.refresh.plan import (
    Estimate,
    Merge,
    Plan,
    Recompute,
    Retract,
    RollUp,
    RunReport,
    Settle,
    Step,
    strategy_of,
)
from materializer.core.time.grid import Grid
from materializer.core.time.spans import SpanSet

WIDTH: Final = 100
_INDENT: Final = 2
_COLUMNS: Final = (
    ("known", 12, str.ljust),
    ("aggregate", 20, str.ljust),
    ("dirty", 6, str.rjust),
    ("how", 17, str.ljust),
    ("rows read", 17, str.rjust),
    ("took", 7, str.rjust),
    ("in full", 7, str.rjust),
)
"""What is said of a refresh: the heading, the width, and the side."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Refreshed(Struct, frozen=True):
    """A refresh, as it is printed.

    Args:
        name: The aggregate.
        grid: Its grid.
        runs: The plan and the result of each run.
        rows: Rows of the source.
        seconds: Wall time.
        in_full: Wall time of computing all of it.
    """

    name: str
    grid: Grid
    runs: Sequence[tuple[Plan, RunReport]]
    rows: int
    seconds: float
    in_full: float

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its line: dirty buckets, strategies, rows read of how many, seconds beside a full computation."""
        steps = [step for plan, _ in self.runs for step in plan.steps if not isinstance(step, Settle)]
        dirty = sum(number(step.spans, self.grid) for step in steps)
        how = " + ".join(dict.fromkeys(strategy_of(step) for step in steps)) or "nothing"
        read = sum(report.rows_read for _, report in self.runs)
        return self.name, f"{dirty:,}", how, f"{read:,} of {self.rows:,}", seconds(self.seconds), seconds(self.in_full)


class Story:
    """Prints the demo on a console.

    Args:
        console: The console; None for standard output, 100 columns wide if it is not a terminal.
        is_verbose: Whether each refresh is printed with its plan and the reasons, instead of in one line.
    """

    def __init__(self, console: Console | None = None, *, is_verbose: bool = False) -> None:
        if console is None:
            console = Console(highlight=False)
            console = console if console.is_terminal else Console(highlight=False, width=WIDTH)
        self._console = console
        self._width = min(console.width, WIDTH)
        self.is_verbose = is_verbose

    def title(self, text: str) -> None:
        """Print the title."""
        self._line(text, "bold")

    def chapter(self, number: int, text: str) -> None:
        """Print the heading of a step."""
        self._line("")
        self._line(f"{number}. {text}", "bold cyan")

    def say(self, text: str) -> None:
        """Print a sentence or two."""
        self.fact("", text)

    def fact(self, label: str, text: str, *, width: int = 0, style: str = "bold") -> None:
        """Print a text beside a label that is *width* columns wide; further lines of the text are indented."""
        head = " " * _INDENT + label.ljust(width) + ("  " if label or width else "")
        lines = textwrap.wrap(
            text, self._width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
        ) or [head.rstrip()]
        for index, line in enumerate(lines):
            shown = Text(line)
            if index == 0 and label:
                shown.stylize(style, _INDENT, _INDENT + len(label))
            self._console.print(shown, soft_wrap=True)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under a header, with the first column left-aligned and the others right-aligned."""
        sizes = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        for index, row in enumerate((header, *rows)):
            cells = [row[0].ljust(sizes[0]), *(cell.rjust(size) for cell, size in zip(row[1:], sizes[1:], strict=True))]
            self._line(" " * _INDENT + "   ".join(cells), "" if index else "bold")

    def gap(self) -> None:
        """Print an empty line."""
        self._line("")

    def commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Print commands to be copied, with their purposes beside them."""
        head, mark = " " * 2 * _INDENT, "  # "
        room = self._width - len(head + mark) - max(len(why) for _, why in commands)
        longest = min(room, max(len(text) for text, _ in commands))
        for text, why in commands:
            shown = Text(head + (f"{text.ljust(longest)}{mark}{why}" if why else text))
            shown.stylize("green", len(head), len(head) + len(text))
            self._console.print(shown, soft_wrap=True)

    def refreshes(self) -> None:
        """Print the heading over refreshes in one line each."""
        if not self.is_verbose:
            self._refresh(*(name for name, *_ in _COLUMNS), style="bold")

    def refreshed(self, news: str, refresh: Refreshed) -> None:
        """Print a refresh: in one line, or with its plan and the reasons.

        Args:
            news: What became known before it, in twelve letters; "" for what the refresh before it had, too.
            refresh: The refresh.
        """
        if not self.is_verbose:
            self._refresh(news, *refresh.cells())
            return
        name = refresh.name
        for plan, report in refresh.runs:
            texts = [*((" plan", planned(step, refresh.grid)) for step in plan.steps), (" did", done(report))]
            texts[-1] = " did", f"{texts[-1][1]}; in full {seconds(refresh.in_full)}"
            for label, text in texts:
                if text:
                    self.fact(f"{name:<20}{label}", text, width=25, style="cyan" if label == " plan" else "bold")
                    name = ""

    def _refresh(self, *cells: str, style: str = "") -> None:
        aligned = (to(cell, width) for cell, (_, width, to) in zip(cells, _COLUMNS, strict=True))
        self._line(" " * _INDENT + "  ".join(aligned), style)

    @contextmanager
    def bar(self, text: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show a progress bar on a terminal, elsewhere nothing; yield the function that moves it: (done, total, text)."""
        columns = (
            TextColumn(" " * (_INDENT - 1) + "{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[progress]}"),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal) as shown:
            task = shown.add_task(text, total=None, progress="")
            yield lambda completed, total, progress: shown.update(
                task, completed=completed, total=total, progress=progress
            )

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text.rstrip(), style=style), soft_wrap=True)


def planned(step: Step, grid: Grid) -> str:
    """Return a step of a plan in words: its buckets, how and why, its reads, and why not another way; "" for none."""
    match step:
        case Settle():
            return ""
        case Recompute(spans=spans, reason=reason, estimate=estimate):
            why = reason
        case Merge(spans=spans, after=after, estimate=estimate):
            why = f"only inserts since version {after}"
        case Retract(spans=spans, after=after, estimate=estimate):
            why = f"changes since version {after}, and what went is subtracted"
        case RollUp(spans=spans, reason=reason, parent=parent, estimate=estimate):
            why = f"{reason}; '{parent}' has partials of the same rows"
        case _:
            assert_never(step)
    # a merge is impossible into buckets that never existed; printing this each time would say nothing
    is_new = isinstance(step, Recompute) and step.changed_rows is None
    against = "" if is_new else "".join(f"; not {r.strategy}: {r.reason}" for r in step.rejected if r.reason != why)
    return f"{strategy_of(step)} {buckets(spans, grid)}: {why}; reads {reads(estimate)}{against}"


def reads(estimate: Estimate) -> str:
    """Return the maximum that is read, in words."""
    if not estimate.files:
        return "nothing"
    return f"at most {count(estimate.rows, 'row')}, {size_text(estimate.bytes)} in {count(estimate.files, 'file')}"


def done(report: RunReport) -> str:
    """Return the result of a refresh, in words."""
    return (
        f"read {count(report.rows_read, 'row')}, wrote {report.rows_written:,} in {count(report.buckets, 'bucket')}, "
        f"{count(report.jobs, 'Spark job')}, {seconds(report.seconds)}"
    )


def buckets(spans: SpanSet, grid: Grid) -> str:
    """Return the number and the range of buckets, in words; *spans* are bounded whole buckets."""
    if not spans:
        return "no bucket"
    first, last = spans.spans[0].start, spans.spans[-1].end
    where = f"from {when(first)} to {when(last)}" if len(spans) == 1 else f"between {when(first)} and {when(last)}"
    return f"{count(number(spans, grid), 'bucket')} {where}"


def number(spans: SpanSet, grid: Grid) -> int:
    """Return the number of buckets in bounded spans of whole buckets."""
    return sum(sum(1 for _ in _edges(span.start, span.end, grid)) for span in spans)


def _edges(start: int, end: int, grid: Grid) -> Iterator[int]:
    def walk() -> Iterator[int]:
        edge = start
        while True:
            yield edge
            edge = grid.next(edge)

    return takewhile(lambda edge: edge < end, walk())


def when(instant: int) -> str:
    """Return an instant, µs since the epoch, as date and time in UTC.

    Examples:
        >>> when(1_362_891_600_000_000)
        '2013-03-10 05:00'
    """
    return f"{_EPOCH + timedelta(microseconds=instant):%Y-%m-%d %H:%M}"


def count(n: int | None, one: str, many: str = "") -> str:
    """Return a number with its noun; None is an unknown number.

    Examples:
        >>> count(1, "row"), count(2_400, "row")
        ('1 row', '2,400 rows')
    """
    if n is None:
        return f"an unknown number of {many or one + 's'}"
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def seconds(value: float) -> str:
    """Return a wall time.

    Examples:
        >>> seconds(0.0042), seconds(0.618), seconds(12.34)
        ('4 ms', '0.62 s', '12.3 s')
    """
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
