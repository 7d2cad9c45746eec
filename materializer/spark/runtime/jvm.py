"""The process of Spark's JVM: whether it is alive, how it ended, and how pyspark is made to forget a dead one.

pyspark keeps the bridge to its JVM in class attributes for ever. After the JVM has died, every call of Spark therefore fails on
a socket without a listener. Only the process itself tells reliably whether the JVM is alive.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import isfunction, isgeneratorfunction, unwrap
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from materializer.errors import NOTHING, MaterializerError, SparkDiedError

PATIENCE: Final = 5.0
"""Seconds to wait for the end of a process that has closed its sockets, or is about to close them."""
HEAP_FULL: Final = 52
"""Exit status of a JVM in which a task ran out of heap: ``org.apache.spark.util.SparkExitCode.OOM``."""
_LINES: Final = 20
_T = TypeVar("_T", bound=type)

_AGAIN: Final = "then run the same command again"
_NEW: Final = "make a new session and open the lake with it; the process that Spark ran in cannot be brought back"


class Death(Struct, frozen=True):
    """How the process of Spark ended.

    Args:
        status: Exit status, negative for a signal, as far as known.
        is_ours: Whether this process started it; False if the session came from the user.
        log: The last lines of its output.
        loss: How contact with a Spark Connect server was lost, after "the Spark Connect server"; "" if Spark ran in a JVM of
            this host.
    """

    status: int | None
    is_ours: bool
    log: str = ""
    loss: str = ""

    @property
    def by_signal(self) -> int:
        """The signal that ended the process, 0 for none; a shell in between reports it as 128 plus the signal."""
        status = self.status or 0
        return -status if status < 0 else status - 128 if 128 < status < 128 + signal.NSIG else 0

    def words(self) -> str:
        """Return how the process ended, in words."""
        if self.by_signal:
            known = {one.value: one.name for one in signal.Signals}
            return f"was ended by signal {self.by_signal} ({known.get(self.by_signal, 'unknown')})"
        if self.status == HEAP_FULL:
            return f"ended with status {self.status}, because its heap was full"
        return "is gone" if self.status is None else f"ended with status {self.status}"

    def hint(self) -> str:
        """Return what the user can do about it."""
        if not self.is_ours:
            return _NEW
        if self.loss:
            return f"see that the server runs, {_AGAIN}"
        if self.by_signal == signal.SIGKILL:
            return (
                "most often the system was short of memory and killed it (its log tells): give the machine more memory, or "
                f"spark.memory or run_rows less, {_AGAIN}"
            )
        if self.status == HEAP_FULL:
            return f"give spark.memory more or run_rows less, {_AGAIN}"
        return f"look at what it said last, {_AGAIN}"

    def error(self, doing: str = "", *, wrote: str | None = None) -> SparkDiedError:
        """Return the error that reports the death.

        Args:
            doing: The step that was running.
            wrote: What had been written; by default the text of the error's class.
        """
        whose = "Spark" if self.is_ours else "the Spark of the session that was given"
        values: dict[str, Any] = {"status": self.status, "signal": self.by_signal, "log": self.log}
        more = {"wrote": NOTHING if wrote is None else wrote}
        how = f"the Spark Connect server {self.loss}" if self.loss else f"{whose} died: its process {self.words()}"
        message = f"{f'{doing} failed: ' if doing else ''}{how}"
        return SparkDiedError(message, hint=self.hint(), **values, **more)


class JvmRecord(Struct):
    """Which Spark this process uses: the bridge to the JVM that it started and its log, or a server; and the last death.

    Args:
        gateway: The bridge to the JVM.
        log: The file of the output of the JVM.
        last: The last death.
        is_client: Whether this process has opened a session of a Spark Connect server.
        losses: How many calls a server did not answer.
        waits: Returns whether jobs were cancelled because a cluster gave them no core.
    """

    gateway: Any = None
    log: Path | None = None
    last: Death | None = None
    is_client: bool = False
    losses: int = 0
    waits: Callable[[], bool] = bool


RECORD: Final = JvmRecord()
"""The one record of this process."""


def launched(gateway: Any, log: Path) -> None:
    """Remember the bridge to a JVM that this process started, and the file of its output."""
    if gateway is not RECORD.gateway:
        RECORD.gateway, RECORD.log = gateway, log


def bridge_of(spark: Any) -> Any:
    """Return the bridge to the JVM of a session; None over Spark Connect, which has no bridge."""
    return getattr(getattr(spark, "_sc", None), "_gateway", None)


def death(gateway: Any, *, seconds: float = 0.0) -> Death | None:
    """Return how the JVM behind a bridge ended; None while it is alive, or if this process cannot know.

    Args:
        gateway: The bridge.
        seconds: How long to wait for the end of the JVM.
    """
    process = getattr(gateway, "proc", None)  # None if another process started the JVM
    if process is None:
        return None
    status = process.poll()
    if status is None and seconds:
        import subprocess

        with suppress(subprocess.TimeoutExpired):
            status = process.wait(seconds)
    if status is None:
        return None
    is_ours = gateway is RECORD.gateway
    return Death(status, is_ours, _last_lines(RECORD.log) if is_ours else "")


def death_behind(exc: BaseException) -> Death | None:
    """Return how Spark's JVM ended, if that is why *exc* was raised; None while the JVM is alive.

    Only the type of *exc* is used, because reading its text may need the dead JVM. If *exc* reports a lost connection while a
    JVM is alive, it is about an earlier JVM that has died.
    """
    context = _context()
    if context is None or isinstance(exc, MaterializerError):
        return None
    from materializer.spark.runtime.connect import loss_behind

    if loss := loss_behind(exc):
        RECORD.losses += 1
        RECORD.last = Death(None, RECORD.is_client, loss=loss)
        return RECORD.last
    gateway = context._gateway  # noqa: SLF001 (there is no public way to the process)
    is_lost = _is_lost_connection(exc)
    found = death(gateway)
    if found is None and _is_of_spark(exc) and (is_lost or _is_stopped(context)):
        found = death(gateway, seconds=PATIENCE)
    if found is not None:
        RECORD.last = found
        return found if is_lost or _is_of_spark(exc) else None
    return RECORD.last if is_lost else None


def forget() -> Death | None:
    """Make pyspark forget a dead JVM, so that the next session starts a new one; return how the dead one ended."""
    context = _context()
    gateway: Any = None if context is None else context._gateway  # noqa: SLF001
    found = death(gateway)
    if context is None or found is None or not found.is_ours:
        return found
    RECORD.last = found
    from pyspark.sql import SparkSession, SQLContext

    with context._lock:  # noqa: SLF001 (there is no public way: every public call asks the JVM first)
        active = context._active_spark_context  # noqa: SLF001
        context._gateway = context._jvm = context._active_spark_context = None  # noqa: SLF001
    sessions: Any = SparkSession
    sessions._instantiatedSession = sessions._activeSession = None  # noqa: SLF001
    contexts: Any = SQLContext
    contexts._instantiatedContext = None  # noqa: SLF001
    if active is not None:
        with suppress(Exception):
            active._accumulatorServer.shutdown()  # noqa: SLF001
    with suppress(Exception):
        gateway.shutdown()
    with suppress(Exception):
        gateway.proc.stdin.close()
    return found


def watched(cls: _T) -> _T:
    """Make every public method of a class raise :class:`SparkDiedError` for a dead JVM, whatever pyspark raises."""
    for name, member in list(vars(cls).items()):
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and isfunction(member) and not isgeneratorfunction(unwrap(member)):
            setattr(cls, name, _watched(member))
    return cls


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with telling():
            return method(*args, **kwargs)

    return call


@contextmanager
def telling(*, wrote: str | None = None) -> Iterator[None]:
    """Raise :class:`SparkDiedError` for a dead JVM, whatever pyspark raises in the block.

    Args:
        wrote: What had been written; by default the text of the error's class.
    """
    try:
        yield
    except Exception as exc:
        if found := death_behind(exc):
            raise found.error(wrote=wrote) from exc
        raise


def refuse_dead(frame: Any, doing: str) -> None:
    """Refuse the result of a check of a frame if the JVM is dead, because the check may have taken the failure for a result.

    Raises:
        SparkDiedError: If the JVM of the frame's session is dead.
    """
    if found := death(bridge_of(frame.sparkSession)):
        raise found.error(doing)


class Quiet(logging.Filter):
    """Drops py4j's log record of a lost connection, with its traceback: the caller gets the exception anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to keep a record."""
        return (record.module, record.funcName) != ("java_gateway", "send_command")


QUIET: Final = Quiet()


def _context() -> Any:
    """Return the class that holds the bridge; None if pyspark is not loaded."""
    return getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)


def _is_lost_connection(exc: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JNetworkError

    # py4j raises the base class of its errors itself if no answer came
    if isinstance(exc, Py4JNetworkError) or type(exc) is Py4JError:
        return True
    return isinstance(exc, (ConnectionError, EOFError)) and _is_raised_in_bridge(exc)


def _is_raised_in_bridge(exc: BaseException) -> bool:
    at = exc.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    origin = "" if at is None else str(at.tb_frame.f_globals.get("__name__", ""))
    return origin.split(".")[0] in ("py4j", "pyspark")


def _is_of_spark(exc: BaseException) -> bool:
    """Return whether an exception can come from a dead JVM; pyspark may also fail on its own state after :func:`forget`."""
    origin = type(exc).__module__.split(".")[0]
    return isinstance(exc, (OSError, EOFError, AttributeError, AssertionError)) or origin in (
        "pyspark",
        "py4j",
        "pyarrow",
    )


def _is_stopped(context: Any) -> bool:
    """Return whether Spark has stopped, which happens shortly before its JVM ends."""
    active = context._active_spark_context  # noqa: SLF001
    if active is None:
        return False
    try:
        return bool(active._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001 (the JVM does not answer any more)
        return True


def _last_lines(log: Path | None) -> str:
    try:
        text = "" if log is None else log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-_LINES:])
