"""The port through which a command prints, with one implementation for people and one for programs.

Results go to standard output, errors to standard error. When the reader of a pipe has closed it, the command works on and
prints nothing more; so it does where nothing can be written, and says so when it ends. Text keeps to the terminal's width, or to 100 columns where there is no terminal; only a terminal gets
colour or a progress bar. Text of a lake is shown, never obeyed: what is a command to a terminal is written out.
"""

# ruff: noqa: PLC0415 - what shows progress or an error, or asks, is imported when there is some

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import visible, wrapped
from materializer.errors import DefinitionError, MaterializerError, StorageError
from materializer.errors.base import masked

if TYPE_CHECKING:
    from materializer.adapters.cli.progress import Waiting, Watch
    from materializer.core.time.instants import Shown

WIDTH = 100
_BUG = (
    "this is a bug of materializer, not yours; what is written is whole, and the next command repairs what is half done"
)


class Output(Protocol):
    """The port: what a command can print and ask."""

    def expect(self, listing: str) -> None:
        """Begin a list of results, which the document has even when it stays empty."""

    def show(self, result: Result) -> None:
        """Show one result."""

    def announce(self, result: Result) -> None:
        """Show people a result before the work on it begins; programs get it at the end only."""

    def waiting(self, name: str) -> AbstractContextManager[object]:
        """Return a context manager that says what a command does as long as its block goes on."""

    def watch(self, name: str, time_type: Shown, *, is_long: bool, is_why: bool = False) -> Watch:
        """Return a watch that shows the progress of a refresh; *is_long* when it has many runs, *is_why* to say why no other strategy is."""

    def fail(self, error: MaterializerError) -> None:
        """Show an error that is not a bug."""

    def crash(self, error: BaseException) -> None:
        """Show the traceback of an error that is a bug."""

    def interrupted(self, state: str) -> None:
        """Show in which state an interrupted command left the lake."""

    @property
    def can_ask(self) -> bool:
        """Whether a question can be answered: standard input and output are a terminal."""

    def ask(self, question: str) -> bool:
        """Ask a question and return whether the answer is yes."""

    def answer(self, question: str, proposal: str) -> str:
        """Ask a question and return what was answered; the proposal where nothing was."""

    def close(self) -> None:
        """Write the lists that were begun.

        Raises:
            StorageError: If a result could not be written, as on a disk that is full.
        """


class Pipe:
    """A stream whose reader may go away, or whose disk may be full; it drops what is written after that."""

    def __init__(self, stream: TextIO | None) -> None:
        self._lost: OSError | None = None
        # a process whose output was closed before it began has no stream
        self.stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115, PTH123 - lives as long as the process
        self.is_terminal = self.stream.isatty()

    def text(self, lines: Iterable[str], red: str = "") -> None:
        """Write lines of text in which a terminal has nothing to obey; the first word is red if it is *red*, on a terminal."""
        shown = [*map(visible, lines)]
        if red and shown and shown[0].startswith(red) and self.is_terminal and "NO_COLOR" not in os.environ:
            shown[0] = f"\x1b[1;31m{red}\x1b[0m{shown[0].removeprefix(red)}"
        self.lines(shown)

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines as they are, and flush them."""
        try:
            self.stream.write("".join(f"{line}\n" for line in lines))
            self.stream.flush()
        except BrokenPipeError:
            self._forget()
        except OSError as exc:
            self.lose(exc)

    def lose(self, why: OSError) -> None:
        """Drop what is written from now on."""
        self._lost = why
        self._forget()

    def check(self) -> None:
        """Raise once that something was not written.

        Raises:
            StorageError: If it was not.
        """
        why, self._lost = self._lost, None
        if why is not None:
            raise StorageError(
                f"the output cannot be written: {why.strerror or why}",
                hint="make room, or write the output to another place; 'materializer status' says what the lake holds",
                wrote="what the command wrote to the lake is whole, its output is not",
            )

    def _forget(self) -> None:
        # the interpreter flushes its streams when it ends, and would print an error about a closed pipe
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
        except (OSError, ValueError):
            self.stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process


class TextOutput:
    """The port for people: text, a progress bar on a terminal, questions."""

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        width: int | None = None,
        wait: Waiting = Event.wait,
    ) -> None:
        self._out = Pipe(out or sys.stdout)
        self._err = Pipe(err or sys.stderr)
        self._width = width or _width(self._out)
        self._wait = wait
        self._has_shown = False

    def expect(self, listing: str) -> None:
        """See :class:`Output`."""

    def show(self, result: Result) -> None:
        """See :class:`Output`."""
        self._out.text(result.lines(self._width))

    def announce(self, result: Result) -> None:
        """See :class:`Output`."""
        self.show(result)

    def waiting(self, name: str) -> AbstractContextManager[object]:
        """See :class:`Output`."""
        from materializer.adapters.cli.progress import Heartbeat

        return Heartbeat(name, self._err.text, self._wait)

    def watch(self, name: str, time_type: Shown, *, is_long: bool, is_why: bool = False) -> Watch:
        """See :class:`Output`."""
        from materializer.adapters.cli.progress import BarWatch, Heartbeat, LineWatch

        if is_long and self._err.is_terminal:
            return BarWatch(name, self._err.stream)
        heartbeat = Heartbeat(name, self._err.text, self._wait)
        return LineWatch(name, time_type, self._out.text, heartbeat, width=self._width, is_long=is_long, is_why=is_why)

    def fail(self, error: MaterializerError) -> None:
        """See :class:`Output`."""
        self._err.text(self._error_lines(error), red="error:")

    def crash(self, error: BaseException) -> None:
        """See :class:`Output`."""
        self._err.text(masked("".join(traceback.format_exception(error))).split("\n")[:-1])
        self._err.text(wrapped(_BUG, "bug: ", width=self._width), red="bug:")

    def interrupted(self, state: str) -> None:
        """See :class:`Output`."""
        self._err.text(["", *wrapped(state, "interrupted: ", width=self._width)])

    @property
    def can_ask(self) -> bool:
        """See :class:`Output`."""
        return self._out.is_terminal and sys.stdin.isatty()

    def ask(self, question: str) -> bool:
        """See :class:`Output`."""
        import typer

        try:
            return typer.confirm(visible(question))
        except typer.Abort:
            raise KeyboardInterrupt from None

    def answer(self, question: str, proposal: str) -> str:
        """See :class:`Output`."""
        import typer

        try:
            return str(typer.prompt(visible(question), default=proposal)).strip()
        except typer.Abort:  # the end of the input, or Ctrl-C
            raise KeyboardInterrupt from None

    def close(self) -> None:
        """See :class:`Output`."""
        self._out.check()

    def _error_lines(self, error: MaterializerError) -> list[str]:
        from materializer.adapters.cli.render.apply import more_about, problem_lines

        width = self._width
        if isinstance(error, DefinitionError):
            shown = [line for p in error.problems for line in problem_lines(p, width)]
            head = [
                f"error: {len(error.problems)} problem{'s'[: len(error.problems) != 1]} in the {error.subject}",
                *shown,
            ]
        else:
            first, *rest = error.message.split("\n")
            head = wrapped(first, "error: ", width=width)
            head += [line for text in rest for line in wrapped(text.strip(), "    ", width=width)]
        text, *commands = (error.hint or more_about(error.code)).split("\n")
        hint = wrapped(text, "  hint: ", width=width)
        hint += [f"    {line}" for line in commands]  # not wrapped: a line break inside a command would change it
        return [*head, *hint, *wrapped(f"{error.wrote} ({error.code})", "  ", width=width)]


class JsonOutput:
    """The port for programs: one document on standard output, one object for each error on standard error.

    Args:
        out: Where the document goes; standard output by default.
        err: Where errors go; standard error by default.
        tells_progress: Whether a refresh writes its progress there, in lines of text.
        wait: See :class:`~materializer.adapters.cli.progress.Heartbeat`.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        tells_progress: bool = False,
        wait: Waiting = Event.wait,
    ) -> None:
        self._wait = wait
        self._out = Pipe(out or sys.stdout)
        self._err = Pipe(err or sys.stderr)
        self._tells_progress = tells_progress
        self._lists: dict[str, list[dict[str, Any]]] = {}

    def expect(self, listing: str) -> None:
        """See :class:`Output`."""
        self._lists.setdefault(listing, [])

    def show(self, result: Result) -> None:
        """See :class:`Output`."""
        if result.listing:
            self._lists.setdefault(result.listing, []).append(result.form())
        else:
            self._out.lines([_dump(result.form(), indent=None if result.is_line else 2)])

    def announce(self, result: Result) -> None:
        """See :class:`Output`."""
        if self._tells_progress:
            self._err.text(result.lines(WIDTH))

    def waiting(self, name: str) -> AbstractContextManager[object]:
        """See :class:`Output`."""
        from materializer.adapters.cli.progress import Heartbeat

        return Heartbeat(name, self._err.text, self._wait) if self._tells_progress else nullcontext()

    def watch(self, name: str, time_type: Shown, *, is_long: bool, is_why: bool = False) -> Watch:
        """See :class:`Output`."""
        from materializer.adapters.cli.progress import Heartbeat, LineWatch, SilentWatch

        if not self._tells_progress:
            return SilentWatch()
        heartbeat = Heartbeat(name, self._err.text, self._wait)
        return LineWatch(name, time_type, self._err.text, heartbeat, width=WIDTH, is_long=is_long, is_why=is_why)

    def fail(self, error: MaterializerError) -> None:
        """See :class:`Output`."""
        self._error(error.as_json() | {"exit_status": error.exit_status})

    def crash(self, error: BaseException) -> None:
        """See :class:`Output`."""
        text = masked("".join(traceback.format_exception(error)))
        self._error(
            _error_form("bug", masked(str(error)) or type(error).__name__, _BUG, "unknown", {"traceback": text}, 70)
        )

    def interrupted(self, state: str) -> None:
        """See :class:`Output`."""
        self._error(_error_form("interrupted", "interrupted", state, "unknown", {}, 130))

    @property
    def can_ask(self) -> bool:
        """See :class:`Output`."""
        return False

    def ask(self, question: str) -> bool:  # noqa: ARG002 - a program cannot be asked
        """See :class:`Output`."""
        return False

    def answer(self, question: str, proposal: str) -> str:  # noqa: ARG002 - a program cannot be asked
        """See :class:`Output`."""
        return proposal

    def close(self) -> None:
        """See :class:`Output`."""
        for listing, forms in self._lists.items():
            self._out.lines([_dump({listing: forms}, indent=2)])
        self._lists = {}
        self._out.check()

    def _error(self, form: dict[str, Any]) -> None:
        self._err.lines([_dump({"error": form})])


def _error_form(code: str, message: str, hint: str, wrote: str, values: dict[str, Any], status: int) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "wrote": wrote, "values": values, "exit_status": status}


def _dump(form: dict[str, Any], indent: int | None = None) -> str:
    text = json.dumps(form, indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode()  # half a character is no text of UTF-8, but one of JSON


def _width(out: Pipe) -> int:
    if out.is_terminal or "COLUMNS" in os.environ:
        import shutil

        return max(60, shutil.get_terminal_size((WIDTH, 24)).columns)
    return WIDTH


class _LogLines(logging.Formatter):
    """The form of warnings that go to the terminal because no handler takes them."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that the library asks for
        return visible(masked(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name that the library asks for
        return "\n".join(map(visible, masked(super().formatException(ei)).split("\n")))


def show_logs() -> None:
    """Let warnings that are logged, and that no handler takes, go to standard error as text of ours does."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_LogLines())
