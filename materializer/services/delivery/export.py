"""The published rows of an aggregate as one file, outside of the lake."""

# ruff: noqa: PLC0415 - Arrow is imported when rows are written

from __future__ import annotations

import time
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.core.printed import Printed
from materializer.errors import UsageError
from materializer.journal.store import FOLDER
from materializer.lake import places
from materializer.lake.failures import first_line
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from materializer.lake.export import ExportFormat


class ExportReport(Printed, Struct, frozen=True):
    """What an export wrote.

    Args:
        name: The aggregate.
        file: The file.
        format: Its format: ``parquet``, ``csv`` or ``arrow``.
        version: The version of the output whose rows it has.
        rows: How many.
        bytes: Its size.
        seconds: Wall time.
    """

    name: str
    file: str
    format: str
    version: int
    rows: int
    bytes: int
    seconds: float


def export(
    aggregate: Aggregate,
    root: str,
    to: str | Path,
    *,
    kind: str | None,
    start: int | None,
    end: int | None,
    overwrite: bool,
) -> ExportReport:
    """Write the published rows of some buckets, all of one version of the output, into a file.

    Args:
        aggregate: The aggregate.
        root: The root of the lake.
        to: The file.
        kind: Its format; None takes it from the name.
        start: First instant, or None.
        end: First instant after the rows, or None.
        overwrite: Whether a file that is there is replaced.

    Raises:
        UsageError: If the file may not be there, or its format is not known; nothing was written.
        StorageError: If it cannot be written; what was there is as before.
    """
    from materializer.lake.export import exists, write_file
    from materializer.lake.rows import StoredRows, between

    began = time.perf_counter()
    form = _format(str(to), kind)
    target = _target(str(to), root)
    if target.exists() and not overwrite:
        raise exists(target)
    stored = StoredRows.of(aggregate.paths["output"], aggregate.slice_column("output"), between(start, end))
    rows, size = write_file(stored, target, form, may_replace=overwrite)
    seconds = round(time.perf_counter() - began, 3)
    return ExportReport(aggregate.name, str(target), form.value, stored.version, rows, size, seconds)


def _format(to: str, kind: str | None) -> ExportFormat:
    from materializer.lake.export import SUFFIXES, ExportFormat

    names = ", ".join(ExportFormat)
    if kind is not None:
        if kind not in set(ExportFormat):
            raise UsageError(f"there is no format '{kind}'", hint=f"choose one of {names}")
        return ExportFormat(kind)
    found = SUFFIXES.get(Path(to).suffix.lower())
    if found is None:
        hint = f"let it end with one of {', '.join(SUFFIXES)}, or give --format ({names})"
        raise UsageError(f"the name '{to}' does not say its format", hint=hint)
    return found


def _target(to: str, root: str) -> Path:
    """Return the file, which lies neither in the lake nor in another Delta table."""
    if "\n" in to or "\r" in to:  # it would begin another line of what is said
        raise UsageError(f"{to!r} has a line break", hint="give another name")
    place = places.normalised(to)
    if not places.is_local(place):
        raise UsageError(f"'{to}' is on a store", hint="give a path of this machine, and upload the file")
    try:
        is_link, target = Path(place).is_symlink(), Path(places.resolved(place))
        mode = target.stat().st_mode if target.exists() else None
    except (OSError, ValueError) as exc:  # a name that no file can have
        raise UsageError(f"'{to}' is no name of a file: {first_line(exc)}", hint="give another name") from None
    if target.is_dir():
        raise UsageError(f"'{to}' is a folder", hint="give the name of a file in it")
    if is_link or (mode is not None and not S_ISREG(mode)):
        what = "a link" if is_link else "no regular file"
        raise UsageError(f"'{to}' is {what}, which is not replaced", hint="give the path of a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", hint="make it, or give another one")
    is_inside = places.is_local(root) and target.is_relative_to(places.resolved(root))
    is_inside = is_inside or any((folder / FOLDER).is_dir() for folder in target.parents)
    if is_inside or any((folder / "_delta_log").is_dir() for folder in target.parents):
        raise UsageError(
            f"'{to}' lies in {'a lake' if is_inside else 'a Delta table'}, whose files are the tables' own",
            hint="give a path outside of it",
        )
    return target
