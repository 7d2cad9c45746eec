"""Spark's exceptions, said as ours: with the table, the version, the step and what it means."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from materializer.errors import (
    ChangeFeedGapError,
    DataError,
    MaterializerError,
    SourceDamagedError,
    SparkError,
    StorageError,
)

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


def conditions(exc: BaseException) -> tuple[str, ...]:
    """Return the error conditions that an exception of Spark names, outermost first."""
    named = getattr(exc, "getCondition", lambda: None)()
    found = [named] if named else []
    found += _CONDITION.findall(str(exc))
    return tuple(dict.fromkeys(found))


@contextmanager
def spoken(step: str, *, table: str = "", version: int | None = None, wrote: str | None = None) -> Iterator[None]:
    """Turn what Spark raises inside the block into an error of ours.

    Args:
        step: What was being done, as the subject of the message.
        table: The table it was done on.
        version: Its version.
        wrote: What had been written; the class default when omitted.
    """
    outer = sys.exception()
    try:
        yield
    except Exception as exc:
        if not _is_engine(exc):
            raise
        if was_interrupted(exc, outer):
            raise KeyboardInterrupt from exc
        raise translate(exc, step=step, table=table, version=version, wrote=wrote) from exc


def was_interrupted(exc: BaseException | None, outer: BaseException | None = None) -> bool:
    """Whether an error came up while Ctrl-C was on its way: pyspark asks a job that was cancelled for its result once more.

    Args:
        exc: The error.
        outer: What was being handled already when the work began; an old Ctrl-C is no new one.

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
    """Whether *exc* comes from Spark or its bridges; anything else is ours, or a bug."""
    return isinstance(exc, OSError) or type(exc).__module__.split(".")[0] in ("pyspark", "py4j", "pyarrow")


def translate(
    exc: BaseException, *, step: str, table: str = "", version: int | None = None, wrote: str | None = None
) -> MaterializerError:
    """Return the error of ours that says what *exc* means."""
    found, text = conditions(exc), str(exc)
    where = f" ({table}{'' if version is None else f' at version {version}'})" if table else ""
    more = {} if wrote is None else {"wrote": wrote}
    if any(c.startswith(_DATA) for c in found):
        name = next(c for c in found if c.startswith(_DATA))
        hint = "correct the rows, or write the definition so that it survives them (try_divide, try_cast, a wider type)"
        return DataError(
            f"{step} failed on its rows{where}: {name}: {_sentence(text)}", hint=hint, condition=name, **more
        )
    if "No space left on device" in text or "Disk quota exceeded" in text or "Permission denied" in text:
        reason = "permission denied" if "Permission denied" in text else "no space left on the device"
        return StorageError(
            f"{step} failed{where}: {reason}", hint="make room (or mend the permission) and run it again", **more
        )
    if "FILE_NOT_EXIST" in text or "FileNotFoundException" in text:
        hint = "a data file of this version is gone (vacuumed?); refresh again to read the newest version"
        return SourceDamagedError(f"{step} failed{where}: a file is missing: {_sentence(text)}", hint=hint, **more)
    if gone := next((name for name in found if name.startswith(_UNREADABLE)), None):
        hint = "it is older than the source keeps; refresh to move to the newest version"
        return SourceDamagedError(f"{step} failed{where}: the version can no longer be read: {gone}", hint=hint, **more)
    name = found[0] if found else type(exc).__name__
    return SparkError(f"{step} failed{where}: {name}: {_sentence(text)}", condition=name, **more)


def _sentence(text: str) -> str:
    # what Java raised stands after py4j's own sentence and its class
    lines = (part.strip() for part in text.removeprefix("py4j.protocol.Py4JJavaError:").splitlines())
    line = next((part for part in lines if part and not part.startswith("An error occurred while calling")), "")
    line = re.sub(r"^:?\s*(?:[a-z]\w*\.)+[A-Z]\w*(?:\$\w+)*:\s*", "", line)
    return re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line.split("SQLSTATE")[0].strip())[:300]


_GAPS: Final = (
    "DELTA_CDC_START_VERSION_AFTER_LATEST",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "FAILED_READ_FILE",
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
)


@contextmanager
def feed_gaps(table: str, after: int, upto: int) -> Iterator[None]:
    """Turn a refusal of the change feed inside the block into :class:`ChangeFeedGapError`, other failures as usual."""
    outer = sys.exception()
    try:
        yield
    except Exception as exc:
        if not _is_engine(exc):
            raise
        if was_interrupted(exc, outer):
            raise KeyboardInterrupt from exc
        text = str(exc)
        found = next((gap for gap in _GAPS if gap in text or any(c.startswith(gap) for c in conditions(exc))), None)
        if found is None:
            raise translate(exc, step="reading the change feed", table=table, version=upto) from exc
        msg = f"the change feed of {table} cannot be read from version {after + 1} to {upto}: {found}"
        raise ChangeFeedGapError(msg, condition=found) from exc
