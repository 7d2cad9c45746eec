"""One command in its own process: it is started, its output is read, and it is stopped with all its child processes.

The module imports no Airflow, so tests do not need it. Environment variables give the command its lake, its configuration
and its output format; :attr:`Command.text` is a line that repeats the command in a shell.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import IO, Any, Final

from msgspec import Struct, field

GRACE_SECONDS: Final = 3.0
"""Time that a process has to end after a signal; Airflow kills a task 5 s after its own signal."""
_POLL_SECONDS: Final = 0.05
LINE: Final = 100
"""Maximum length of a log line, as in the output of the command line."""


class TaskVerdict(Enum):
    """The meaning of a command's end for its task."""

    DONE = "done"
    IDLE = "nothing was to do"
    RETRY = "may succeed later"
    FAIL = "fails again"


_IDLE: Final = 3
_RETRIED: Final = frozenset({74, 75, 130})
"""Exit statuses for storage, conflicts and leases, interruptions: the same command may succeed later."""
_RETRIED_CODES: Final = frozenset({"spark.failed", "spark.died", "spark.unreachable", "spark.result-too-large"})
"""Errors to retry although their exit status is not retried: a lost executor, for example, but not a missing Java."""


def verdict(status: int, codes: Sequence[str] = ()) -> TaskVerdict:
    """Return the meaning of an exit status.

    Args:
        status: Exit status of the command; negative if a signal ended it.
        codes: Codes of the errors that the command reported.

    Examples:
        >>> verdict(75), verdict(65), verdict(-9)
        (<Verdict.RETRY: 'may succeed later'>, <Verdict.FAIL: 'fails again'>, <Verdict.RETRY: 'may succeed later'>)
    """
    if status == 0:
        return TaskVerdict.DONE
    if status == _IDLE:
        return TaskVerdict.IDLE
    # a shell reports a process that a signal ended as 128 plus the signal
    is_retried = status < 0 or status > 128 or status in _RETRIED or bool(_RETRIED_CODES.intersection(codes))
    return TaskVerdict.RETRY if is_retried else TaskVerdict.FAIL


class Outcome(Struct, frozen=True):
    """The end of a command.

    Args:
        status: Exit status; negative if a signal ended the command.
        document: The JSON document that the command printed; empty if it printed none.
        errors: The errors that the command reported, in their JSON form.
    """

    status: int
    document: Mapping[str, Any]
    errors: tuple[Mapping[str, Any], ...] = ()

    @property
    def verdict(self) -> TaskVerdict:
        """The meaning for the task."""
        return verdict(self.status, [str(e.get("code", "")) for e in self.errors])

    @property
    def problem(self) -> str:
        """The problem, in one line."""
        errors = [f"{e.get('code')}: {e.get('message')} (hint: {e.get('hint')}; {e.get('wrote')})" for e in self.errors]
        return "; ".join([*errors, self._end])

    @property
    def problem_lines(self) -> list[str]:
        """The problem for a log, in short lines, because Airflow's page cuts off lines at the edge of the window."""
        lines = []
        for e in self.errors:
            lines += [f"{e.get('code')}: {e.get('message')}", f"  hint: {e.get('hint')}", f"  {e.get('wrote')}"]
        return [short for line in [*lines, self._end] for short in _wrapped(line)]

    @property
    def _end(self) -> str:
        return f"signal {-self.status} ended it" if self.status < 0 else f"exit status {self.status}"


class Command(Struct):
    """A command of the command line, for one run.

    Args:
        arguments: The command and its own options, such as ``("refresh", "trades_1h")``.
        lake: Root folder of the lake.
        interpreter: The Python that has materializer installed.
        config: Configuration file; None for ``materializer.toml`` in the working directory.
        environment: Environment variables, in addition to those of this process.
    """

    arguments: Sequence[str]
    lake: str
    interpreter: str = sys.executable
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    @property
    def text(self) -> str:
        """A line that repeats the command in a shell."""
        config = ["--config", self.config] if self.config else []
        return shlex.join([self.interpreter, "-m", "materializer", *self.arguments, "--lake", self.lake, *config])

    def run(self, tell: Callable[[str], None]) -> Outcome:
        """Run the command to its end.

        Args:
            tell: Called with each line of progress while the command runs.
        """
        variables = {"LAKE": self.lake, "JSON": "1", "PROGRESS": "1", "STRICT_EXIT": "1"}
        if self.config:
            variables["CONFIG"] = self.config
        # own session: the JVM that the command starts can then be ended with it, and a signal to Airflow's process does not
        # reach the command first
        with subprocess.Popen(  # noqa: S603 - the interpreter is the operator's, the arguments are a list
            [self.interpreter, "-m", "materializer", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=os.environ | self.environment | {f"MATERIALIZER_{k}": v for k, v in variables.items()},
            start_new_session=True,
        ) as process:
            self._process = process
            printed: list[str] = []
            reader = threading.Thread(target=_drain, args=(process.stdout, printed), daemon=True)
            reader.start()
            errors = _read_errors(process.stderr, tell)
            reader.join()
            status = process.wait()
        self._end_group()
        return Outcome(status, _parsed("".join(printed)), tuple(errors))

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """End the command and all its child processes, first by a signal to end and then, after the grace time, by a kill.

        A signal handler may call this while :meth:`run` runs; it does nothing if no command runs.
        """
        if self._process is None:
            return
        _signal_group(self._process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while time.monotonic() < deadline:
            self._process.poll()
            if not _signal_group(self._process.pid, 0):
                return
            time.sleep(_POLL_SECONDS)
        self._end_group()

    def _end_group(self) -> None:
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, LINE, subsequent_indent=f"{indent}    ", break_long_words=False, break_on_hyphens=False)


def _drain(stream: IO[str] | None, into: list[str]) -> None:
    if stream is not None:
        into.extend(stream)


def _read_errors(stream: IO[str] | None, tell: Callable[[str], None]) -> list[Mapping[str, Any]]:
    errors: list[Mapping[str, Any]] = []
    for line in stream or ():
        error = _parsed(line).get("error") if line.startswith('{"error"') else None
        if isinstance(error, dict):
            errors.append(error)
        elif line.strip():
            tell(line.rstrip())
    return errors


def _parsed(text: str) -> Mapping[str, Any]:
    with suppress(json.JSONDecodeError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}
