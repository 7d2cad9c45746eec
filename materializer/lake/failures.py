"""Errors of `deltalake`, `pyarrow` and the file system, translated into ours."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from materializer.errors import (
    NOTHING,
    CatalogManagedError,
    MaterializerError,
    NotADeltaTableError,
    SourceDamagedError,
    StorageError,
    TableNotFoundError,
)
from materializer.errors.base import masked
from materializer.lake import places

_STORAGE = (  # compiled when something fails
    r"No space left|Permission denied|Read-only file system|Disk quota|Input/output error|Stale file handle"
    r"|File too large|os error (?:5|13|27|28|30|116|122)\b|lacked the necessary privileges"
)
_DAMAGE = (
    r"contiguous|found gap|Json error|expected value|No table metadata or protocol|not found|No such file"
    r"|Failed to fetch metadata|corrupt|Invalid Parquet|Invalid table version|end version"
    r"|too deeply nested|recursion limit|EOF while parsing|missing field|invalid (?:type|length)|Invalid decimal|Duplicate field"
)

_OF_STORES = (
    ("ExpiredToken", "get new credentials, then run the same command again"),
    ("RequestTimeTooSkewed", "set the clock of this machine, then run the same command again"),
    ("in another region", "set AWS_REGION, or aws_region under [storage], to the region of the bucket"),
    ("AccessDenied", "let these credentials list, read, write and delete there, then run the same command again"),
    ("", "check bucket, endpoint and credentials (the environment, or [storage]), then run the same command again"),
)
"""What to do, by what a store says."""
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


@contextmanager
def translated(path: str, doing: str, *, wrote: str = NOTHING) -> Iterator[None]:
    """Translate failures of the block, which is *doing* something to the table at *path*, into errors of ours.

    Raises:
        TableNotFoundError: If there is nothing at *path*.
        NotADeltaTableError: If *path* exists but holds no Delta log.
        CatalogManagedError: If only a catalog knows the table's newest version.
        SourceDamagedError: If the log has a hole or cannot be parsed, or if a file that it names does not exist.
        StorageError: If the disk is full, permission is refused, or reading or writing failed in another way.
    """
    try:
        yield
    except MaterializerError:
        raise
    except Exception as exc:
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 (a command without work does not load the library)
        from deltalake.exceptions import TableNotFoundError as NoTableError  # noqa: PLC0415

        if isinstance(exc, NoTableError):
            raise missing(path) from exc
        # Rust raises a plain `Exception`; any other is a bug of ours
        if type(exc) is Exception or isinstance(exc, (DeltaError, OSError, ValueError)):
            raise failure(path, doing, exc, wrote=wrote) from exc
        raise


def no_table(path: str) -> str:
    """Return in words that there is nothing at a path."""
    return f"there is no table at '{path}'"


def missing(path: str) -> MaterializerError:
    """Return the error for a path that holds no Delta table."""
    if not places.exists(path):
        return TableNotFoundError(no_table(path), hint="check the path, or create the table first", path=path)
    return NotADeltaTableError(
        f"'{path}' exists, but holds no Delta log", hint="point to the folder that holds '_delta_log'"
    )


def is_of_storage(exc: BaseException) -> bool:
    """Return whether *exc* says that a disk or a store failed or refused, and not that a file is missing or unfit."""
    return _has_number(exc) or re.search(_STORAGE, str(exc), re.IGNORECASE) is not None


def _has_number(exc: BaseException) -> bool:
    """Return whether the operating system or a store gave the reason; its texts need not be searched then."""
    return isinstance(exc, OSError) and exc.errno not in {None, errno.ENOENT}


def hint_of(path: str, hint: str, reason: str | None) -> str:
    """Return what to do about a place that cannot be read or written: *hint* for a path, for a store by the *reason* that it gives."""
    return hint if places.is_local(path) else next(advice for words, advice in _OF_STORES if words in (reason or ""))


def failure(path: str, doing: str, exc: Exception, *, wrote: str = NOTHING) -> MaterializerError:
    """Return the error of ours for *exc*, which was raised while *doing* something to the table at *path*."""
    reason = first_line(exc)
    if not _has_number(exc):
        try:
            has_log = places.is_folder(f"{path}/_delta_log")
            if has_log and not places.is_local(path):
                with suppress(FileNotFoundError):
                    places.read(f"{path}/_delta_log/_last_checkpoint")
        except OSError as refusal:  # the library does not tell why a store refuses
            return failure(path, doing, refusal, wrote=wrote)
    if isinstance(exc, OSError) and exc.strerror and not places.is_local(path):
        reason = exc.strerror
    if is_of_storage(exc):
        hint = hint_of(path, "free some space or mend the permission, then run the same command again", reason)
        return StorageError(f"{doing} '{path}' failed: {reason}", hint=hint, wrote=wrote, path=path)
    if not has_log:
        return missing(path)
    if "catalog-managed" in str(exc):
        msg = f"the table at '{path}' is managed by a catalog and cannot be read by path"
        return CatalogManagedError(msg, wrote=wrote, path=path)
    if (escape := _ESCAPE.search(path)) and not isinstance(exc, FileNotFoundError):
        msg = f"'{path}' cannot be opened: the Delta library takes '{escape[0]}' in a path for another character"
        return StorageError(msg, hint="rename the folder", wrote=wrote, path=path)
    if isinstance(exc, FileNotFoundError) or re.search(_DAMAGE, str(exc), re.IGNORECASE):
        hint = "restore the missing file from a backup, or the table to a whole version"
        return SourceDamagedError(f"the table at '{path}' is damaged: {reason}", hint=hint, wrote=wrote, path=path)
    return StorageError(f"{doing} '{path}' failed: {reason}", hint="see the cause above", wrote=wrote, path=path)


def unfit(path: str) -> str:
    """Return why the Delta library cannot open any table at *path*, whatever it holds; "" if the library can.

    Examples:
        >>> unfit("/lake/a%20b"), unfit("/lake/50%")
        ("it takes '%20' in a path for another character", '')
    """
    if escape := _ESCAPE.search(path):
        return f"it takes '{escape[0]}' in a path for another character"
    return "it takes no control characters in a path" if _CONTROL.search(path) else ""


def first_line(exc: BaseException) -> str:
    """Return the readable part of a message: no colours, no stack trace, no secrets, at most 300 characters."""
    text = masked(re.sub(r"\x1b\[[0-9;]*m", "", str(exc)).strip())
    lines = [line.strip() for line in text.splitlines() if line.strip() and "<unknown>" not in line]
    return (lines[0] if lines else type(exc).__name__)[:300]
