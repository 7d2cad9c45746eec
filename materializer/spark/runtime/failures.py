"""Translate Spark's exceptions into ours, with the table, the version, the step and an explanation."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct

from materializer.errors import (
    NOTHING,
    ChangeFeedGapError,
    DataError,
    MaterializerError,
    NoCoresError,
    NoDeltaError,
    ResultTooLargeError,
    SourceDamagedError,
    SparkError,
    StorageError,
)
from materializer.spark.runtime.jvm import RECORD, death_behind

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_DATA: Final = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CANNOT_PARSE_",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "COLLATION_",
    "DATETIME_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INTERVAL_",
    "INVALID_ARRAY_INDEX",
    "INVALID_FRACTION_OF_SECOND",
    "INVALID_INDEX_OF_ZERO",
    "INVALID_PARAMETER_VALUE",
    "MAP_KEY_DOES_NOT_EXIST",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "REMAINDER_BY_ZERO",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    "UNEXPECTED_INPUT_TYPE",
    "USER_RAISED_EXCEPTION",
)

_UNREADABLE: Final = (
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_VERSION_NOT_FOUND",
)


_MOST_CAUSES: Final = 20
_CAUSED_BY: Final = re.compile(r"Caused by: ([\w.$]+): (.*)")
_LIMIT: Final = "spark.driver.maxResultSize"
_NO_MEMORY: Final = ("java.lang.OutOfMemoryError", "org.apache.spark.memory.SparkOutOfMemoryError")
_CANCELLED: Final = "SPARK_JOB_CANCELLED"
_NO_DELTA: Final = {"DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"}
_NO_FILE: Final = "FAILED_READ_FILE.FILE_NOT_EXIST"
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_DENIED: Final = ("java.nio.file.AccessDeniedException", "org.apache.hadoop.security.AccessControlException")
_DENIAL: Final = "Permission denied"
_FULL: Final = ("No space left on device", "Disk quota exceeded")
_MISSING: Final = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")


class Thrown(Struct, frozen=True):
    """One exception of the JVM.

    Args:
        name: The class of the exception.
        condition: Spark's error condition; "" if there is none.
        message: The message.
    """

    name: str
    condition: str
    message: str


def thrown(exc: BaseException) -> tuple[Thrown, ...]:
    """Return the JVM's exceptions, outermost first, each followed by its cause; nothing for an exception of another origin."""
    if type(exc).__module__ == "pyspark.errors.exceptions.connect":
        return _thrown_by_server(exc)
    found: list[Thrown] = []
    at = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    while at is not None and len(found) < _MOST_CAUSES:
        found.append(Thrown(at.getClass().getName(), _condition(at), at.getMessage() or ""))
        at = at.getCause()
    return tuple(found)


def _thrown_by_server(exc: Any) -> tuple[Thrown, ...]:
    """Return the exceptions that a Spark Connect server reports: one by itself, its causes in the text of its stack trace."""
    trace = (getattr(exc, "getStackTrace", lambda: None)() or "").splitlines()
    first = Thrown(
        trace[0].strip() if trace else f"org.apache.spark.{type(exc).__name__}",
        exc.getCondition() or "",
        str(exc).partition("\n\nJVM stacktrace:")[0],
    )
    causes = [found.groups() for line in trace if (found := _CAUSED_BY.match(line))]
    named = [Thrown(name, next(iter(_CONDITION.findall(text)), ""), text) for name, text in causes]
    return (first, *named[: _MOST_CAUSES - 1])


def _condition(at: Any) -> str:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 (pyspark's own errors use it, too)
    return (is_instance_of(gateway, at, "org.apache.spark.SparkThrowable") and at.getCondition()) or ""


def conditions(exc: BaseException, causes: Sequence[Thrown] | None = None) -> tuple[str, ...]:
    """Return the error conditions that an exception of Spark names, outermost first.

    If a task's exception could not be sent to the driver, there is only text, in which a condition stands in brackets before
    its sentence.

    Args:
        exc: The exception.
        causes: The result of :func:`thrown` for it, if known.
    """
    causes = thrown(exc) if causes is None else causes
    found = [one.condition for one in causes if one.condition]
    if not causes and (named := getattr(exc, "getCondition", lambda: None)()):
        found.append(named)
    if not found:
        found += _CONDITION.findall(str(exc))
    return tuple(dict.fromkeys(found))


def is_too_large(exc: BaseException) -> bool:
    """Whether Spark failed because the driver would have to hold more than it can."""
    return _too_large(thrown(exc)) is not None


def _too_large(causes: Sequence[Thrown]) -> Thrown | None:
    """Return the exception which says that the driver would have to hold more than it can, or None.

    Spark 4.1 has no condition and no class for results beyond `spark.driver.maxResultSize`:
    ``TaskSetManager.canFetchMoreResults`` aborts the job with a sentence that names the setting. A test against Spark itself detects a change of this sentence.
    """
    for one in causes:
        is_limit = one.name == "org.apache.spark.SparkException" and not one.condition and _LIMIT in one.message
        if is_limit or one.name in _NO_MEMORY:
            return one
    return None


def _refused(exc: BaseException, causes: Sequence[Thrown], text: str) -> str:
    """Return why the file system refused; "" if it did not refuse.

    Python gives an error number. Java has a class for some refusals; for the others, the message of an ``IOException`` has the
    words of the operating system.
    """
    number = exc.errno if isinstance(exc, OSError) else None
    messages = [one.message for one in causes] or [text]
    if number in _NOT_ALLOWED or any(one.name in _DENIED for one in causes) or any(_DENIAL in m for m in messages):
        return "permission denied"
    if number in _NO_ROOM or any(word in m for m in messages for word in _FULL):
        return "no space left on the device"
    return ""


@contextmanager
def spoken(step: str, *, table: str = "", version: int | None = None, wrote: str | None = None) -> Iterator[None]:
    """Turn exceptions of Spark inside the block into errors of ours.

    Args:
        step: The step that runs, as the subject of the message.
        table: The table of the step.
        version: The version of the table.
        wrote: What had been written; by default the text of the error's class.
    """
    outer = sys.exception()
    try:
        yield
    except Exception as exc:
        if not _is_engine(exc):
            raise
        if was_interrupted(exc, outer):
            raise KeyboardInterrupt from exc
        if died := death_behind(exc):
            raise died.error(step + _where(table, version), wrote=wrote) from exc
        raise translate(exc, step=step, table=table, version=version, wrote=wrote) from exc


def was_interrupted(exc: BaseException | None, outer: BaseException | None = None) -> bool:
    """Return whether an error arose during a Ctrl-C: pyspark asks a cancelled job for its result once more.

    Args:
        exc: The error.
        outer: The exception that was already being handled when the work began: an earlier Ctrl-C does not count.

    Examples:
        >>> try:
        ...     try:
        ...         raise KeyboardInterrupt
        ...     finally:
        ...         raise OSError("cancelled")
        ... except OSError as exc:
        ...     was_interrupted(exc), was_interrupted(exc, exc.__context__), was_interrupted(OSError())
        (True, False, False)
    """
    while exc is not None and exc is not outer:
        if isinstance(exc, KeyboardInterrupt):
            return True
        exc = exc.__context__
    return False


def _is_engine(exc: Exception) -> bool:
    """Return whether *exc* comes from Spark or its bridges; any other exception is ours, or a bug."""
    return isinstance(exc, (OSError, EOFError)) or type(exc).__module__.split(".")[0] in ("pyspark", "py4j", "pyarrow")


def translate(
    exc: BaseException, *, step: str, table: str = "", version: int | None = None, wrote: str | None = None
) -> MaterializerError:
    """Return the error of ours that explains *exc*."""
    causes, text = thrown(exc), str(exc)
    found = conditions(exc, causes)
    said = next((one.message for one in causes if one.condition), text)
    where = _where(table, version)
    more = {"wrote": NOTHING if wrote is None else wrote}
    if any(c.startswith(_DATA) for c in found):
        name = next(c for c in found if c.startswith(_DATA))
        hint = "correct the rows, or write the definition so that it survives them (try_divide, try_cast, a wider type)"
        if name.startswith("INVALID_PARAMETER_VALUE"):  # of a pattern, mostly
            hint = "correct the value that is named: in the definition, or in the rows if it is read from them"
        return DataError(
            f"{step} failed on its rows{where}: {name}: {_sentence(said)}", hint=hint, condition=name, **more
        )
    if reason := _refused(exc, causes, text):
        return StorageError(
            f"{step} failed{where}: {reason}", hint="make room (or mend the permission) and run it again", **more
        )
    if any(c.startswith(_NO_FILE) for c in found) or any(one.name in _MISSING for one in causes):
        hint = "a data file of this version is gone (vacuumed?); refresh again to read the newest version"
        return SourceDamagedError(f"{step} failed{where}: a file is missing: {_sentence(said)}", hint=hint, **more)
    if gone := next((name for name in found if name.startswith(_UNREADABLE)), None):
        hint = "it is older than the source keeps; refresh to move to the newest version"
        return SourceDamagedError(f"{step} failed{where}: the version can no longer be read: {gone}", hint=hint, **more)
    if any(c.startswith(_FEED_OFF) for c in found):
        msg = f"{step} failed{where}: the change feed was off for a commit"
        return ChangeFeedGapError(msg, hint=_NEEDS_FEED, condition=_FEED_OFF, **more)
    name = found[0] if found else type(exc).__name__
    if name.startswith(_CANCELLED) and RECORD.waits():
        return NoCoresError(f"{step} failed{where}: no core of the cluster took its tasks", **more)
    if _NO_DELTA & set(found):
        return NoDeltaError(f"{step} failed{where}: Spark has no Delta there: {name}", condition=name, **more)
    if too_large := _too_large(causes):
        return ResultTooLargeError(f"{step} failed{where}: {_sentence(too_large.message)}", condition=name, **more)
    return SparkError(f"{step} failed{where}: {name}: {_sentence(said)}", condition=name, **more)


def _where(table: str, version: int | None) -> str:
    return f" ({table}{'' if version is None else f' at version {version}'})" if table else ""


def _sentence(text: str) -> str:
    # Java's message stands after py4j's own sentence and the exception's class
    lines = (part.strip() for part in text.removeprefix("py4j.protocol.Py4JJavaError:").splitlines())
    line = next((part for part in lines if part and not part.startswith("An error occurred while calling")), "")
    line = re.sub(r"^:?\s*(?:[a-z]\w*\.)+[A-Z]\w*(?:\$\w+)*:\s*", "", line)
    return re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line.split("SQLSTATE")[0].strip())[:300]


_FEED_OFF: Final = "DELTA_MISSING_CHANGE_DATA"
_NEEDS_FEED: Final = (
    "lateness 'strict' and 'delay' need every commit: copy the source into a table whose change feed is on from its first version, "
    "and apply the definition over that, or write lateness 'recompute'"
)
"""Of others no error is seen: they find changes in a coarser way."""
_GAPS: Final = (
    "DELTA_CDC_START_VERSION_AFTER_LATEST",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
    "DELTA_LOG_FILE_NOT_FOUND",
    _FEED_OFF,
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "FAILED_READ_FILE",
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
)


@contextmanager
def feed_gaps(table: str, after: int, upto: int) -> Iterator[None]:
    """Turn a refusal of the change feed in the block into :class:`ChangeFeedGapError`; other failures as in :func:`spoken`."""
    outer = sys.exception()
    try:
        yield
    except Exception as exc:
        if not _is_engine(exc):
            raise
        if was_interrupted(exc, outer):
            raise KeyboardInterrupt from exc
        if died := death_behind(exc):
            raise died.error("reading the change feed" + _where(table, upto)) from exc
        named = conditions(exc)
        found = next((gap for gap in _GAPS if any(c.startswith(gap) for c in named)), None)
        if found is None:
            raise translate(exc, step="reading the change feed", table=table, version=upto) from exc
        msg = f"the change feed of {table} cannot be read from version {after + 1} to {upto}: {found}"
        raise ChangeFeedGapError(msg, hint=_NEEDS_FEED if found == _FEED_OFF else None, condition=found) from exc
