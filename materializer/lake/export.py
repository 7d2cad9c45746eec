"""Rows of a table of ours as one file for others: Parquet, CSV or Arrow; written beside its place, and moved there when it is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from materializer.errors import NOTHING, UsageError
from materializer.lake.failures import translated
from materializer.lake.rows import StoredRows


class ExportFormat(StrEnum):
    """The format of a file."""

    PARQUET = "parquet"
    CSV = "csv"
    ARROW = "arrow"


SUFFIXES: Final = {
    ".parquet": ExportFormat.PARQUET,
    ".csv": ExportFormat.CSV,
    ".arrow": ExportFormat.ARROW,
    ".feather": ExportFormat.ARROW,
    ".ipc": ExportFormat.ARROW,
}
"""The format that a name ends with."""


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> object: ...

    def close(self) -> object: ...


def write_file(stored: StoredRows, target: Path, kind: ExportFormat, *, may_replace: bool) -> tuple[int, int]:
    """Write rows into one file, the files of the table one after the other and the oldest first; return rows and bytes.

    Args:
        stored: The rows.
        target: Where the file is to be, in a folder that exists.
        kind: Its format.
        may_replace: Whether a file that is there is replaced.

    Raises:
        UsageError: If a file is there that may not be replaced.
        StorageError: If it cannot be written; what was there is as before.
    """
    written = 0
    with _replacing(target, may_replace=may_replace) as file:
        writer = _WRITERS[kind](file, stored.shape)
        try:
            for _, name in sorted(stored.files):
                for batch in stored.batches(name):
                    with translated(str(target), "writing", wrote=NOTHING):
                        writer.write_batch(batch)
                    written += batch.num_rows
        finally:
            with translated(str(target), "writing", wrote=NOTHING):
                writer.close()
    return written, target.stat().st_size


@contextmanager
def _replacing(target: Path, *, may_replace: bool) -> Iterator[IO[bytes]]:
    """Yield a new file, which takes its place when the block has ended well, and is removed when it has not."""
    draft = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        with translated(str(target), "writing", wrote=NOTHING):
            file = draft.open("xb")
        with file:
            yield file
            with translated(str(target), "writing", wrote=NOTHING):
                file.flush()
                os.fsync(file.fileno())
        with translated(str(target), "writing", wrote=NOTHING):
            if may_replace:
                draft.replace(target)
                return
            try:
                os.link(draft, target)  # unlike a rename, it refuses a file that another process made meanwhile
            except FileExistsError:
                raise exists(target) from None
            except OSError:  # a file system without links
                if target.exists():
                    raise exists(target) from None
                draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink()


def exists(target: Path) -> UsageError:
    """Return the error about a file that is there already."""
    return UsageError(f"'{target}' exists", hint="choose another name, or replace it with --force")


class _CsvWriter:
    """Writes CSV with values as `show` prints them: instants in ISO form, what is nested as JSON; null is empty."""

    def __init__(self, file: IO[bytes], shape: pa.Schema) -> None:
        self._texts: list[Callable[[Any], str] | None] = [_text_of(field.type) for field in shape]
        kinds = zip(shape, self._texts, strict=True)
        self._shape = pa.schema([(f.name, f.type if text is None else pa.string()) for f, text in kinds])
        self._writer = csv.CSVWriter(file, self._shape, write_options=csv.WriteOptions(quoting_style="needed"))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            column
            if text is None
            else pa.array([None if v is None else text(v) for v in column.to_pylist()], pa.string())
            for column, text in zip(batch.columns, self._texts, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=self._shape))

    def close(self) -> None:
        self._writer.close()


def _text_of(kind: pa.DataType) -> Callable[[Any], str] | None:
    """Return how a value of a type is written; None if Arrow writes it."""
    if pa.types.is_timestamp(kind):
        return _instant
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes.hex
    return _json if pa.types.is_nested(kind) else None


def _instant(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return _instant(value)
    return value.hex() if isinstance(value, bytes) else str(value)


_WRITERS: Final[dict[ExportFormat, Callable[[IO[bytes], pa.Schema], _Writer]]] = {
    ExportFormat.PARQUET: pq.ParquetWriter,
    ExportFormat.CSV: _CsvWriter,
    ExportFormat.ARROW: pa.ipc.new_file,
}
