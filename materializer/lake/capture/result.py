"""The result of a capture: dirty buckets, rows counted by kind, and the versions that Spark has to read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from materializer.core.codec import json_fields
from materializer.core.refresh.lateness import Lateness
from materializer.core.time.spans import SpanSet


class Rung(StrEnum):
    """The precision of what is known about changes."""

    FEED = "feed"
    FILES = "files"
    LOST = "lost"
    SOURCE = "source"


class CapturedPiece(Struct, frozen=True):
    """Some dirty buckets with the facts known about them.

    Args:
        times: Whole buckets.
        rung: The rung that found them.
        is_insert_only: Whether every change in them was an insert, by the feed or by the added and removed files.
        rows: Changed rows in them. On lower rungs these are the rows of whole files; if nothing is known, the deleted rows.
        keys: The changed keys; None for any key.
        from_version: First version of the run with the change.
        to_version: Last version of that run.
        is_frozen: Whether the piece is below the frozen boundary; it is a conflict there, unless insert-only.
    """

    times: SpanSet
    rung: Rung
    is_insert_only: bool
    rows: int
    keys: frozenset[tuple[Any, ...]] | None
    from_version: int
    to_version: int
    is_frozen: bool = False


@json_fields(omits=["inserted", "updated_pre", "updated_post", "deleted", "null_time", "expired"])
class VersionCount(Struct, frozen=True):
    """Rows by kind that one version changed; on lower rungs, the rows of the added and removed files.

    Every row is in a piece, or is counted in *null_time*, or was deleted below the frozen boundary. *expired* counts only
    rows that were deleted there with whole files.
    """

    version: int
    rung: Rung
    inserted: int = 0
    updated_pre: int = 0
    updated_post: int = 0
    deleted: int = 0
    null_time: int = 0
    expired: int = 0

    @property
    def rows(self) -> int:
        """Changed rows; an updated one counts as it was and as it is."""
        return self.inserted + self.updated_pre + self.updated_post + self.deleted

    def __add__(self, later: VersionCount) -> VersionCount:
        """Return the sum with the count of a later version on the same rung."""
        return VersionCount(
            later.version,
            self.rung,
            self.inserted + later.inserted,
            self.updated_pre + later.updated_pre,
            self.updated_post + later.updated_post,
            self.deleted + later.deleted,
            self.null_time + later.null_time,
            self.expired + later.expired,
        )


class CaptureResult(Struct, frozen=True):
    """Everything that changed in a run of versions.

    Args:
        pieces: The dirty buckets.
        per_version: Rows by kind, for each version that changed data.
        reasons: The reasons for each use of a lower rung.
        schemas: (version, schema JSON) of each metadata change; the caller compares the columns that it reads.
        lateness: How late the inserted rows were that the driver read.
        expired: Number of rows deleted below the frozen boundary, as far as known.
    """

    pieces: tuple[CapturedPiece, ...] = ()
    per_version: tuple[VersionCount, ...] = ()
    reasons: tuple[str, ...] = ()
    schemas: tuple[tuple[int, str], ...] = ()
    lateness: Lateness = field(default_factory=Lateness)
    expired: int = 0

    def __add__(self, other: CaptureResult) -> CaptureResult:
        return CaptureResult.union([self, other])

    @classmethod
    def union(cls, results: Sequence[CaptureResult]) -> CaptureResult:
        """Return what some results say together, in their order."""
        return cls(
            tuple(piece for r in results for piece in r.pieces),
            tuple(count for r in results for count in r.per_version),
            tuple(reason for r in results for reason in r.reasons),
            tuple(schema for r in results for schema in r.schemas),
            sum((r.lateness for r in results), Lateness()),
            sum(r.expired for r in results),
        )


class Segment(Struct, frozen=True):
    """A run of versions, both ends included, whose change feed Spark has to read, and the reason."""

    from_version: int
    to_version: int
    reason: str


class NeedsSpark(Struct, frozen=True):
    """Some versions have a precise feed that only Spark can read; *captured* is the result of the others."""

    segments: tuple[Segment, ...]
    captured: CaptureResult

    @property
    def reason(self) -> str:
        """The reason, in one line."""
        return "; ".join(dict.fromkeys(s.reason for s in self.segments))
